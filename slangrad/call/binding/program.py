"""A module for calls: its types for marshals, its functions as candidates.

In: the reflection of a module.   Out: `ModuleTypes`, and `CallCandidate`s with their parameters, `this` among
them.

    candidates(view, "Foo<float>.scale")   ->   [CallCandidate: this, float factor -> float]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slangrad.base.page_words import rooted
from slangrad.call.binding.call_request import Named
from slangrad.call.binding.module_index import reachable
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import visible_parameters
from slangrad.check.model.types import (
    VOID,
    InterfaceType,
    ParameterType,
    Type,
    VectorType,
    nominal,
)
from slangrad.check.reflect import FunctionView, ParameterView, Reflection, written_generics
from slangrad.ir.data import types as ir
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import COMPONENTS
from slangrad.marshal.protocol.patterns import matches
from slangrad.marshal.protocol.program_types import Reflected
from slangrad.marshal.protocol.spelling import namespaces_of, spell, spell_argument, spell_on_page
from slangrad.marshal.protocol.type_map import HostTypeMap
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk
from slangrad.tensors.elements.element_types import element_type

THIS = "_this"
Imports = Callable[[], tuple[str, ...]]
WORD = re.compile(r"[A-Za-z_]\w*")


class ModuleTypes:
    """The types of one module, as marshals use them."""

    def __init__(self, view: Reflection) -> None:
        self.view = view
        self._map = HostTypeMap(self.stored_fields, view.program.tag_type, view.find_type, view.behind)
        self.lower, self.find, self.enumerators = self._map.lower, view.find_type, view.enumerators
        self.bounds, self.standard = view.bounds, view.standard
        self._lifted: dict[ir.Type, Type | None] = {}
        self._tangents: dict[Type, Type | None] = {}
        self._mentioned: dict[str, bool] = {}
        self.layout: Callable[[], Reflected] | None = None  # returns the program

    def program(self) -> Reflected:
        return None if self.layout is None else self.layout()

    def lift(self, t: ir.Type) -> Type | None:
        if t not in self._lifted:
            self._lifted[t] = self._map.lift(t)
        return self._lifted[t]

    def fields(self, t: Type) -> tuple[tuple[str, Type], ...]:
        if isinstance(t, VectorType) and isinstance(t.count, int):
            return tuple((name, t.element) for name in COMPONENTS[: t.count])
        return tuple((field.name, field.type) for field in self.view.fields(t))

    def stored_fields(self, t: Type) -> tuple[tuple[str, Type], ...]:
        """The fields of a struct, with the attributes of their memory."""
        return tuple((field.name, field.stored) for field in self.view.fields(t))

    def initialized_fields(self, t: Type) -> set[str]:
        fields = self.view.fields(t)
        return {
            field.name for field in fields if field.is_initialized or self._initializes_itself(field.type)
        }

    def _initializes_itself(self, t: Type) -> bool:
        """Whether all fields of a struct can have values."""
        fields = self.view.fields(t)
        return bool(fields) and len(self.initialized_fields(t)) == len(fields)

    def no_diff_fields(self, t: Type) -> set[str]:
        return {field.name for field in self.view.fields(t) if field.no_diff}

    def tangent(self, t: Type) -> Type | None:
        if t not in self._tangents:
            self._tangents[t] = self.view.tangent(t)
        return self._tangents[t]

    def tangent_field(self, t: Type, name: str) -> str | None:
        if isinstance(t, VectorType):
            return name
        return self.view.tangent_field(t, name)

    def matches(self, pattern: Type, t: Type) -> bool:
        interfaces = [bound for bound in self.bounds(pattern) if isinstance(bound, InterfaceType)]
        if isinstance(pattern, (ParameterType, InterfaceType)):
            return all(self.view.conforms(t, bound) for bound in interfaces)
        return matches(pattern, t)

    def lacking(self, pattern: Type, t: Type) -> str:
        for bound in self.bounds(pattern):
            if isinstance(bound, InterfaceType) and not self.view.conforms(t, bound):
                missing = "; ".join(self.view.lacking(t, bound)) or f"declare it as 'struct {t} : {bound}'"
                return f"'{t}' does not conform to '{bound}': {missing}"
        return ""

    def mentions(self, name: str) -> bool:
        """Whether the module, or one of the program's that it imports, mentions this name."""
        if name not in self._mentioned:
            parts = [part for module in reachable(self.view.module) for part in module.files]
            self._mentioned[name] = any(
                isinstance(node, ast.Name) and node.name == name
                for part in parts
                if not part.source.is_library
                for node in walk(part)
            )
        return self._mentioned[name]

    def global_type(self, name: str) -> Type | None:
        """The type of a variable outside of functions."""
        for scope in (self.view.module.scope, *self.view.module.scope.imports):
            for meaning in scope.names.get(name, ()):
                if isinstance(meaning, ast.Variable):
                    t: Type = self.view.program.info(meaning).type
                    return t
        return None

    def global_names(self) -> set[str]:
        """All variables outside of functions, of this module and of those it imports."""
        scopes = (self.view.module.scope, *self.view.module.scope.imports)
        return {
            name
            for scope in scopes
            for name, meanings in scope.names.items()
            if any(isinstance(meaning, ast.Variable) for meaning in meanings)
        }

    def find_any(self, wanted: object) -> Type | None:
        """The type that a name, a reflected type, a Python or NumPy type stands for."""
        checked = getattr(wanted, "checked", None)
        if isinstance(checked, Type):
            return checked
        if isinstance(wanted, str):
            return self.find(wanted)
        try:
            return self.lift(element_type(wanted, "map"))
        except (TypeError, ValueError):
            return None


@dataclass(slots=True, eq=False)
class CallCandidate:
    """A candidate of a call; `parameters` begin with `this` for methods."""

    view: FunctionView
    parameters: tuple[ParameterView, ...]
    types: ModuleTypes

    @property
    def has_this(self) -> bool:
        return self.view.this_type is not None and not self.is_constructor

    @property
    def returns(self) -> bool:
        return self.is_constructor or self.view.result is not VOID

    @property
    def is_constructor(self) -> bool:
        return self.view.name == "__init"

    def with_explicit(self, t: Type) -> Type:
        """A type with the generic arguments of the function's name filled in."""
        return with_explicit(t, self.view, self.types)

    def __str__(self) -> str:
        """The header; parameters of interface type show the interface."""
        text = str(self.view)
        for parameter in self.view.parameters:
            text = text.replace(f"{parameter.type} ", f"{self.view.shown(parameter.type)} ")
        return text

    @property
    def result(self) -> Type | None:
        """The type of the result; None without one."""
        if self.is_constructor:
            return self.view.this_type
        return self.with_explicit(self.view.result) if self.returns else None


def candidate_of(view: FunctionView, types: ModuleTypes) -> CallCandidate:
    parameters = tuple(
        replace(parameter, type=with_explicit(parameter.type, view, types)) for parameter in view.parameters
    )
    this = view.this_type
    if this is None or view.name == "__init":
        return CallCandidate(view, parameters, types)
    direction = "inout" if view.info.mutating else "in"
    return CallCandidate(
        view, (ParameterView(THIS, this, direction, view.info.no_diff_this, False), *parameters), types
    )


def with_explicit(t: Type, view: FunctionView, types: ModuleTypes) -> Type:
    explicit = dict(zip(view.declaration.generics, view.candidate.explicit))
    substituted: Type = types.view.program.substitute(t, explicit) if explicit else t
    return substituted


@dataclass(slots=True, eq=False)
class FoundFunction:
    """The function of a call, all generics filled in, and its name in a kernel."""

    name: str
    candidate: CallCandidate
    parameters: tuple[ParameterView, ...]
    result: Type | None
    result_differentiable: bool
    callee: str
    static_callee: str
    imports: Imports
    generics: tuple[tuple[str, str], ...] = ()  # arguments that the callee's name ends with, by parameter
    outside: tuple[str, ...] = ()  # lines that a page needs to name it

    def static_with(self, arguments: Mapping[str, str]) -> str:
        """How it is named with other generic arguments."""
        name = self.static_callee.removesuffix(_listed([text for _, text in self.generics]))
        return name + _listed(
            [arguments.get(name_of_generic, text) for name_of_generic, text in self.generics]
        )

    @property
    def has_this(self) -> bool:
        return self.candidate.has_this

    @property
    def words(self) -> set[str]:
        """Words that variables of the kernel must not hide."""
        types = [spell_on_page(parameter.type) for parameter in self.parameters]
        types += [spell_on_page(self.result)] if self.result is not None else []
        return {word for text in (self.callee, self.static_callee, *types) for word in WORD.findall(text)}


def found_function(
    candidate: CallCandidate,
    resolution: FunctionView,
    this: Type | None,
    count: int,
    types: ModuleTypes,
    imports: Imports,
) -> FoundFunction:
    """The concrete function of a resolution, with the `count` parameters that get arguments."""
    parameters = resolution.parameters[:count]
    is_short = count < len(resolution.parameters)
    if this is not None:
        this_parameter = candidate.parameters[0]
        parameters = (
            ParameterView(THIS, this, this_parameter.direction, this_parameter.no_diff, False),
            *parameters,
        )
    result = None if resolution.result is VOID else resolution.result
    if candidate.is_constructor:
        result = candidate.view.this_type
    view = candidate.view
    carries = result is not None and not view.info.no_diff_result and types.tangent(result) is not None
    callee, static = _spelled(candidate, resolution, this, result)
    generics = () if candidate.is_constructor else _explicit(view, resolution)
    function = FoundFunction(
        view.name, candidate, parameters, result, carries, callee, static, imports, generics
    )
    if is_short and view.info.level != "none":
        function.outside = _shorter(function)
        function.static_callee, function.generics = SHORTER, ()
    return function


SHORTER = "__shorter"  # a function on the page, of the parameters that are given


def _shorter(function: FoundFunction) -> tuple[str, ...]:
    """The function without the parameters that keep their defaults. Only a call can leave these out, so derivatives
    are made of this function."""
    view = function.candidate.view
    names = [f"given{i}" for i in range(len(function.parameters))]
    declared = ", ".join(
        f"{'no_diff ' if parameter.no_diff else ''}{parameter.direction} {spell_on_page(parameter.type)} {name}"
        for parameter, name in zip(function.parameters, names)
    )
    this = f"{names.pop(0)}." if function.has_this else ""
    call = f"{this}{function.callee}({', '.join(names)})"
    kind = "void" if function.result is None else spell_on_page(function.result)
    mark = "Differentiable" if view.info.level == "backward" else "ForwardDifferentiable"
    start = "no_diff " if view.info.no_diff_result else ""
    leave = "" if function.result is None else "return "
    return (f"[{mark}]", f"{start}{kind} {SHORTER}({declared})", "{", f"    {leave}{call};", "}", "")


def _spelled(
    candidate: CallCandidate, resolution: FunctionView, this: Type | None, result: Type | None
) -> tuple[str, str]:
    """The text of the call in a kernel, and the function's name for derivatives."""
    if candidate.is_constructor:
        assert result is not None
        return spell_on_page(result), spell_on_page(result)
    declaration = candidate.view.declaration
    explicit = [text for _, text in _explicit(candidate.view, resolution)]
    name = candidate.view.name + _listed(explicit)
    if this is not None:
        return name, f"{spell_on_page(this)}.{name}"
    owner = _owner(candidate, resolution)
    if owner:
        return f"{owner}.{name}", f"{owner}.{name}"
    is_library = declaration.span.source.is_library
    spelled = namespaces_of(declaration) + name
    spelled = spelled if is_library else rooted(spelled)
    return spelled, spelled


def _explicit(view: FunctionView, resolution: FunctionView) -> tuple[tuple[str, str], ...]:
    """Generic parameters that are written, with their arguments."""
    substitution = resolution.reference.substitution
    written = written_generics(view.declaration)
    return tuple((parameter.name, spell_argument(substitution[parameter])) for parameter in written)


def _listed(arguments: list[str]) -> str:
    return f"<{', '.join(arguments)}>" if arguments else ""


def _owner(candidate: CallCandidate, resolution: FunctionView) -> str:
    """The struct that a static method belongs to."""
    parent = candidate.view.declaration.parent
    if not isinstance(parent, ast.StructDeclaration):
        return ""
    substitution = resolution.reference.substitution
    arguments = tuple(substitution[parameter] for parameter in visible_parameters(parent))
    return spell_on_page(nominal(parent, arguments))


def conformance_of(types: ModuleTypes, named: Named) -> Conformance:
    interface_name, type_name, number = named
    interface, kind = types.find(interface_name), types.find(type_name)
    if not isinstance(interface, InterfaceType):
        raise CallError("E1020", f'Interface type "{interface_name}" not found')
    if kind is None:
        raise CallError("E1020", f'Type "{type_name}" not found')
    if not types.view.conforms(kind, interface):
        raise CallError("E1020", f"type conformance: '{kind}' does not conform to '{interface}'")
    return Conformance(interface, kind, number)


def conformance_text(conformance: Conformance) -> str:
    """The note about it in the text of a kernel."""
    number = f", with the id {conformance.id}" if conformance.id >= 0 else ""
    return f"{spell(conformance.interface)} may be {spell(conformance.type)}{number}"
