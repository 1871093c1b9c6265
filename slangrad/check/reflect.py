"""The program for the host: functions and types by name, parameters, the resolution of calls.

    view = Reflection(program, module)
    view.find_type("Foo<float, 4>")                 a checked type, None when there is none of that name
    view.find_functions("f<8, 5>")                  overloads, generic or not; "Foo<float>.method" works too
    view.resolve(functions, [FLOAT, vector(FLOAT, 3)])   the one that takes these, its generics filled in

There are no error reports here: a missing name gives None or an empty list, a failure has its reason as a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from slangrad.base.compiling import compiling
from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.base.suggestions import suggestion
from slangrad.check.calls.candidates import Match, Mismatch, best_matches
from slangrad.check.calls.overload import evaluate
from slangrad.check.checked_module import CheckedModule
from slangrad.check.conforming import any_value_size, conforming_types
from slangrad.check.generics.bounds import bounds_of
from slangrad.check.generics.infer import match
from slangrad.check.generics.signatures import declared_parameters, signature_of, signature_text, this_of
from slangrad.check.interfaces.differentiable import field_references, field_type, has_no_diff, tangent
from slangrad.check.interfaces.lookup import (
    conformances,
    conforms,
    library_type,
    member_names,
    members,
    with_inherited,
)
from slangrad.check.interfaces.witnesses import lacking
from slangrad.check.model.checked import FunctionInfo
from slangrad.check.model.declref import Bindings, Declared, DeclRef, GenericKey
from slangrad.check.model.meanings import Candidate, GenericMeaning, Meaning, OverloadMeaning, TypeMeaning
from slangrad.check.model.types import (
    ERROR,
    ArrayType,
    EnumType,
    GenericArgument,
    InterfaceType,
    Nominal,
    ParameterType,
    Projection,
    StructType,
    Type,
    array,
    conjunction,
    is_pack,
    parameter_type,
    stored,
)
from slangrad.check.model.values import ParameterValue
from slangrad.check.modules import CheckedProgram
from slangrad.check.names.generic_arguments import apply_arguments
from slangrad.check.names.resolve import refer
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.parser import parse_module

CONSTRUCTOR = "$init"  # SlangPy's name of constructors


@dataclass(slots=True, frozen=True)
class ParameterView:
    """A parameter; its type may contain generic parameters. `default`: it may be left out in Slang."""

    name: str
    type: Type
    direction: str
    no_diff: bool
    has_default: bool


@dataclass(slots=True, frozen=True)
class FieldView:
    """A field of a struct. `rules`: its own, for its place in memory."""

    declaration: Declared
    type: Type
    rules: str

    @property
    def name(self) -> str:
        name: str = self.declaration.name
        return name

    @property
    def stored(self) -> Type:
        """The type with its rules."""
        return stored(self.type, self.rules)

    @property
    def no_diff(self) -> bool:
        return has_no_diff(self.declaration)

    @property
    def is_initialized(self) -> bool:
        """Whether its declaration gives it a value."""
        return self.declaration.initializer is not None


def is_added(parameter: object) -> bool:
    """Whether the checker adds a generic parameter, for a parameter of interface type or for the length of an
    array."""
    return isinstance(parameter, (ast.TypeParameter, ast.ValueParameter)) and parameter.name.startswith("$")


def written_generics(declaration: object) -> list[Declared]:
    """The generic parameters that stand in the text."""
    return [parameter for parameter in getattr(declaration, "generics", ()) if not is_added(parameter)]


@dataclass(slots=True, eq=False, repr=False)
class FunctionView:
    """A function or method, perhaps with generics to be inferred from a call."""

    program: CheckedProgram
    candidate: Candidate

    @property
    def declaration(self) -> Any:  # as in a DeclRef
        return self.candidate.declaration

    @property
    def name(self) -> str:
        name: str = self.declaration.name
        return name

    @property
    def reference(self) -> DeclRef:
        return self.candidate.reference

    @property
    def parameters(self) -> tuple[ParameterView, ...]:
        """Without `this`."""
        declared = declared_parameters(self.program, self.reference)
        signature = signature_of(self.program, self.reference)
        return tuple(
            ParameterView(node.name, part.type, part.direction, part.no_diff, node.default is not None)
            for node, part in zip(declared, signature.parameters)
        )

    @property
    def result(self) -> Type:
        return signature_of(self.program, self.reference).result

    @property
    def info(self) -> FunctionInfo:
        """The header of the checker; types are in terms of the declaration."""
        info: FunctionInfo = self.program.info(self.declaration)
        return info

    @property
    def this_type(self) -> Type | None:
        """The type that a method is called on; None for functions and static methods."""
        return this_of(self.program, self.reference)

    @property
    def generics(self) -> tuple[str, ...]:
        """The generic parameters that the user wrote."""
        return tuple(parameter.name for parameter in written_generics(self.declaration))

    def shown(self, t: Type) -> Type:
        """A type of the header as the text has it: with interfaces and open sizes for the generic parameters that the
        checker adds."""
        added = [parameter for parameter in self.declaration.generics if is_added(parameter)]
        if not added or is_pack(t):
            return t
        if isinstance(t, ArrayType):
            is_open = getattr(t.count, "declaration", None) in added
            return array(self.shown(t.element), None if is_open else t.count)
        interfaces: Bindings = {
            parameter: conjunction(tuple(dict.fromkeys(bounds_of(self.program, parameter_type(parameter)))))
            for parameter in added
            if isinstance(parameter, ast.TypeParameter)
        }
        return self.program.substitute(t, interfaces)

    def __str__(self) -> str:
        return signature_text(self.program, self.reference)


def without_library(views: Sequence[FunctionView]) -> Sequence[FunctionView]:
    """Functions of a module hide those of the library of the same name."""
    return [view for view in views if not view.declaration.span.source.is_library] or views


class Reflection:
    """A module of a program for the host. Errors in names from the host are not the program's."""

    def __init__(self, program: CheckedProgram, module: CheckedModule) -> None:
        self.program, self.module = program, module

    @contextmanager
    def looking(self) -> Iterator[None]:
        """A context for lookups from the module, without reports."""
        with compiling(), self.program.silence():
            self.program.look_from(self.module.declaration)
            yield

    # --- Names ---

    def find_type(self, name: str) -> Type | None:
        """The type of that name in the module."""
        with self.looking():
            meaning = self._meaning(name)
            if isinstance(meaning, GenericMeaning):
                node = ast.Missing(self.module.declaration.span)
                meaning = apply_arguments(self.module.scope, node, meaning)
            if not isinstance(meaning, TypeMeaning) or meaning.type is ERROR:
                return None
            return meaning.type

    def find_functions(self, name: str) -> tuple[FunctionView, ...]:
        """The functions of a name: "f", "f<8, 5>", "Foo<float>.method"."""
        with self.looking():
            meaning = self._meaning(name)
            candidates = meaning.candidates if isinstance(meaning, OverloadMeaning) else []
            return self._views(candidates)

    def find_methods(self, kind: Type, name: str) -> tuple[FunctionView, ...]:
        """The methods of a type, its extensions and interfaces; its constructors for `__init` and `$init`."""
        with self.looking():
            return self._views([
                Candidate(member.declaration, member.substitution)
                for member in members(self.program, kind, "__init" if name == CONSTRUCTOR else name)
                if isinstance(member.declaration, ast.Constructor)
                or (isinstance(member.declaration, ast.FunctionDeclaration) and not member.path)
            ])  # fmt: skip

    def _views(self, candidates: Sequence[Candidate]) -> tuple[FunctionView, ...]:
        """One for each; a forward declaration gives way to its definition."""
        views = [FunctionView(self.program, candidate) for candidate in candidates]
        bodies = {view: getattr(view.declaration, "body", None) for view in views}
        defined = {str(view) for view, body in bodies.items() if body is not None}
        return tuple(view for view, body in bodies.items() if body is not None or str(view) not in defined)

    def why_not_found(self, name: str) -> tuple[str, str | None]:
        """Why `name` is neither a function nor a type: the end of a sentence about the module, and a cure."""
        reporter = Reporter()
        with compiling():
            before, self.program.reporter = self.program.reporter, reporter
            try:
                self.program.look_from(self.module.declaration)
                meaning = self._meaning(name)
            finally:
                self.program.reporter = before
        if isinstance(meaning, GenericMeaning) and meaning.declaration is not None:
            parameters = ", ".join(parameter.name for parameter in meaning.declaration.generics)
            note = f"write module['{name}<{parameters}>'] with arguments in place of {parameters}"
            return f"has the generic '{name}', which needs arguments", note
        nothing = f"has no function or type named '{name}'"
        first = next(iter(reporter.diagnostics), None)
        if first is not None and first.message != f"'{name}' is not declared":
            return f"{nothing}: {first.message}", first.note
        names = (*self.function_names(), *self.type_names())
        return nothing, (first and first.note) or suggestion(name.partition("<")[0], names)

    def _meaning(self, name: str) -> Meaning | None:
        """The name is parsed as a type is, and looked up in the module."""
        reporter = Reporter()
        parsed = parse_module(SourceFile(name, f"typealias __name = {name};"), reporter, self.program.options)
        if (
            reporter.has_errors
            or len(parsed.members) != 1
            or not isinstance(parsed.members[0], ast.TypeAlias)
        ):
            return None
        meaning = refer(self.module.scope, parsed.members[0].target)
        self.program.later.clear()
        return meaning

    def function_names(self) -> tuple[str, ...]:
        """The functions that the module itself declares."""
        return self._declared((ast.FunctionDeclaration,))

    def type_names(self) -> tuple[str, ...]:
        """The types that the module itself declares."""
        return self._declared((ast.StructDeclaration, ast.EnumDeclaration, ast.Interface, ast.TypeAlias))

    def _declared(self, kinds: tuple[type[ast.Declaration], ...]) -> tuple[str, ...]:
        members = (member for part in self.module.files for member in part.members)
        return tuple(dict.fromkeys(member.name for member in members if isinstance(member, kinds)))

    def member_names(self, kind: Type) -> tuple[str, ...]:
        return tuple(sorted(member_names(self.program, kind)))

    # --- Types ---

    def fields(self, kind: Type) -> tuple[FieldView, ...]:
        """The fields of a struct in order; nothing for other types."""
        if not isinstance(kind, StructType):
            return ()
        return tuple(
            FieldView(
                field.declaration,
                field_type(self.program, field),
                self.program.info(field.declaration).rules,
            )
            for field in field_references(kind)
        )

    def enumerators(self, kind: Type) -> tuple[tuple[str, int], ...]:
        """Names and values of an enum in the order of their declaration; nothing for other types."""
        if not isinstance(kind, EnumType):
            return ()
        return tuple((case.name, int(self.program.info(case).value)) for case in kind.declaration.members)

    def tangent(self, kind: Type) -> Type | None:
        """The Differential of a type; None when it has none."""
        return tangent(self.program, kind)

    def tangent_field(self, kind: Type, name: str) -> str | None:
        """The field of the Differential that belongs to a field."""
        differential = self.program.differential(kind)
        for field, target in differential.fields if differential is not None else ():
            if field.declaration.name == name and target is not None:
                return str(target.declaration.name)
        return None

    def bounds(self, kind: Type) -> tuple[InterfaceType, ...]:
        """The interfaces in the bounds of a generic parameter; an interface has itself."""
        if isinstance(kind, InterfaceType):
            return (kind,)
        if isinstance(kind, (ParameterType, Projection)):
            return tuple(dict.fromkeys(bounds_of(self.program, kind)))
        return ()

    def behind(self, interface: InterfaceType) -> tuple[int | None, tuple[Type, ...]]:
        """The bytes that values of an interface type may take, if declared, and the types that they can have."""
        with self.looking():
            size = any_value_size(self.program, interface)
            return size, conforming_types(self.program, self.module, interface)

    def conforms(self, kind: Type, interface: InterfaceType) -> bool:
        """Whether a type conforms to an interface, whose arguments may be generic parameters."""
        if conforms(self.program, kind, interface):
            return True
        return any(
            match(self.program, open_parameters(interface), interface, other) is not None
            for other in conformances(self.program, kind)
        )

    def lacking(self, kind: Type, interface: InterfaceType) -> list[str]:
        """The missing requirements of an interface in a type, a sentence for each."""
        with self.looking():
            interfaces = with_inherited(self.program, interface)
            return [line for wanted in interfaces for line in lacking(self.program, kind, wanted)]

    def standard(self, name: str, arguments: tuple[GenericArgument, ...] = ()) -> Type:
        """A generic type of the standard library."""
        return library_type(self.program, name, *arguments)

    # --- Calls ---

    def resolve(
        self, functions: Sequence[FunctionView], arguments: Sequence[Type]
    ) -> tuple[list[FunctionView], list[Mismatch]]:
        """The best function for positional arguments of these types, more than one when they are equally
        good; and why others do not take them.
        """
        scope = Scope(self.program, self.module.scope)
        span = self.module.declaration.span
        nodes: list[ast.Expression] = []
        for kind in arguments:
            node = ast.Missing(span)
            node.type = kind
            nodes.append(node)
        with self.looking():
            outcomes = [evaluate(scope, function.candidate, nodes) for function in functions]
            matches = [outcome for outcome in outcomes if isinstance(outcome, Match)]
            best = best_matches(self.program, matches) if matches else []
        failures = [outcome for outcome in outcomes if isinstance(outcome, Mismatch)]
        return [self._resolution(match) for match in best], failures

    def _resolution(self, match: Match) -> FunctionView:
        target = match.target
        assert isinstance(target, DeclRef)
        return FunctionView(self.program, Candidate(target.declaration, dict(target.substitution)))


def open_parameters(kind: Nominal) -> set[GenericKey]:
    """The generic parameters inside the arguments of a type."""
    parameters = (ParameterType, ParameterValue)
    return {argument.declaration for argument in kind.arguments if isinstance(argument, parameters)}


def is_launch_parameter(program: CheckedProgram, declared: ast.ParameterDeclaration) -> bool:
    """Whether the launch of a kernel passes a parameter. Parameters with a semantic, and structs of such fields,
    are values of the thread."""
    if declared.has("uniform") or declared.semantics:
        return declared.has("uniform")
    return not _has_semantics(program, program.info(declared).type)


def _has_semantics(program: CheckedProgram, kind: Type) -> bool:
    if not isinstance(kind, StructType):
        return False
    fields = program.fields(kind)
    return any(field.declaration.semantics or _has_semantics(program, t) for field, t in fields)
