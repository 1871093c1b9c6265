"""Functions of a checked program, in SlangPy's words.

    function = module.layout.find_function_by_name("scale")
    [(parameter.name, parameter.type.full_name) for parameter in function.parameters]
    function.specialize_with_arg_types([float3])    generics filled in, overloads resolved; None: it does not take
    these

Several functions of one name are one object, with `overloads`. A parameter of an interface type shows the
interface, although the checker treats such a function as generic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.api.reflection.types import (
    Attributed,
    ReflectionContext,
    TypeReflection,
    VariableReflection,
    expect,
)
from slangrad.check.generics.signatures import declared_parameters
from slangrad.check.interfaces.lookup import BASE
from slangrad.check.model.declref import Declared, DeclRef, GenericKey, visible_parameters
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import GenericArgument, StructType, Type
from slangrad.check.names.struct_fields import is_word
from slangrad.check.reflect import CONSTRUCTOR, FunctionView, is_added, without_library, written_generics
from slangrad.marshal.errors import CallError
from slangrad.marshal.reflection.type_kinds import ModifierID
from slangrad.syntax import ast


def reflect_functions(context: ReflectionContext, views: Sequence[FunctionView]) -> FunctionReflection | None:
    """The functions of a name; None where there are none. Those of the library stand back, as do those that do not
    have the generic parameters for the arguments in the name."""
    fitting = [view for view in views if len(view.candidate.explicit) <= len(view.generics)]
    functions = tuple(reflect_function(context, view) for view in without_library(fitting))
    if len(functions) < 2:
        return functions[0] if functions else None
    return context.make(OverloadedReflection, functions)


def reflect_function(context: ReflectionContext, view: FunctionView) -> FunctionReflection:
    """One function, with its generic arguments as far as they are fixed."""
    candidate = view.candidate
    explicit = dict(zip(view.declaration.generics, candidate.explicit))
    return _of_reference(context, DeclRef(view.declaration, {**candidate.substitution, **explicit}))


def _of_reference(
    context: ReflectionContext, reference: DeclRef, interfaces: bool = True
) -> FunctionReflection:
    arguments = reference.substitution
    keys = (key for key in visible_parameters(reference.declaration) if key in arguments)
    bound = tuple((key, arguments[key]) for key in keys if not (interfaces and is_added(key)))
    return context.make(FunctionReflection, reference.declaration, bound)


def _checked(types: Sequence[TypeReflection]) -> list[Type]:
    return [expect(t, TypeReflection, "specialize_with_arg_types").checked for t in types]


class FunctionReflection(Attributed):
    """A function, method or constructor. Equal ones of one program are one object."""

    __slots__ = ("_bound", "declaration")

    is_overloaded = False

    def __init__(
        self,
        context: ReflectionContext,
        declaration: Declared,
        bound: tuple[tuple[GenericKey, GenericArgument], ...],
    ) -> None:
        super().__init__(context)
        self.declaration = declaration
        self._bound = dict(bound)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{p.name}: {p.type.full_name}" for p in self.parameters)
        return f"FunctionReflection({self.name}({parameters}) -> {self.return_type.full_name})"

    @property
    def name(self) -> str:
        """`$init` of constructors."""
        is_constructor = isinstance(self.declaration, ast.Constructor)
        return CONSTRUCTOR if is_constructor else str(self.declaration.name)

    @property
    def return_type(self) -> TypeReflection:
        """The type of the result."""
        with self._context.asking():
            return self._context.type_of(self._view.shown(self._view.result))

    @property
    def parameters(self) -> list[VariableReflection]:
        """Without `this`."""
        context, view = self._context, self._view
        with context.asking() as program:
            declared = declared_parameters(program, view.reference)
            types = [view.shown(parameter.type) for parameter in view.parameters]
        return [context.variable(parameter, t) for parameter, t in zip(declared, types)]

    @property
    def overloads(self) -> list[FunctionReflection]:
        """The functions of the name, if there are several."""
        return []

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether the function has a modifier or attribute, or is so in effect: `differentiable` holds for a custom
        derivative, too."""
        modifier = expect(modifier, ModifierID, "has_modifier")
        if modifier is ModifierID.differentiable:
            with self._context.asking():
                return self._view.info.level != "none"
        if modifier is ModifierID.nodiff:
            return self._view.info.no_diff_result
        if modifier is ModifierID.mutating:
            return self._view.info.mutating
        return bool(self.declaration.has(modifier.name))

    def specialize_with_arg_types(self, types: Sequence[TypeReflection]) -> FunctionReflection | None:
        """The function that a call with arguments of these types chooses, its generics filled in. None if no
        function of the name takes them, or several do equally well."""
        return self.specialized(_checked(types))

    def specialized(self, types: Sequence[Type], interfaces: bool = True) -> FunctionReflection | None:
        """The same; without `interfaces` their places are taken by the types of arguments."""
        with self._context.asking():
            resolved, _ = self._context.view.resolve(self.views, types)
        if len(resolved) != 1:
            return None
        return _of_reference(self._context, resolved[0].reference, interfaces)

    # --- As a function of the checker ---

    @property
    def _view(self) -> FunctionView:
        return FunctionView(self._context.program, Candidate(self.declaration, self._bound))

    @property
    def views(self) -> list[FunctionView]:
        """For a call: generic arguments of its own are as if they were written."""
        named = [key for key in written_generics(self.declaration) if key in self._bound]
        around = {key: argument for key, argument in self._bound.items() if key not in named}
        explicit = tuple(self._bound[key] for key in named)
        candidate = Candidate(self.declaration, around, explicit=explicit)
        return [FunctionView(self._context.program, candidate)]

    @property
    def _attributed(self) -> ast.Declaration | None:
        node: ast.Declaration = self.declaration
        return node


class OverloadedReflection(FunctionReflection):
    """Several functions of one name. It has no parameters of its own."""

    __slots__ = ("_overloads",)

    is_overloaded = True

    def __init__(self, context: ReflectionContext, overloads: tuple[FunctionReflection, ...]) -> None:
        super().__init__(context, overloads[0].declaration, ())
        self._overloads = overloads

    def __repr__(self) -> str:
        return f"FunctionReflection({self.name}, {len(self._overloads)} overloads)"

    @property
    def return_type(self) -> TypeReflection:
        note = "ask one of its overloads, or specialize_with_arg_types(types)"
        raise CallError("E1012", f"there are several functions '{self.name}'", (), note)

    @property
    def parameters(self) -> list[VariableReflection]:
        return []

    @property
    def overloads(self) -> list[FunctionReflection]:
        return list(self._overloads)

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether all of the functions have it."""
        return all(function.has_modifier(modifier) for function in self._overloads)

    @property
    def views(self) -> list[FunctionView]:
        return [view for function in self._overloads for view in function.views]

    @property
    def _attributed(self) -> ast.Declaration | None:
        return None


class FieldConstructor(FunctionReflection):
    """The constructor that a struct without one has: a parameter for each field."""

    __slots__ = ("_struct",)

    def __init__(self, context: ReflectionContext, struct: StructType) -> None:
        super().__init__(context, struct.declaration, ())
        self._struct = struct

    @property
    def name(self) -> str:
        return CONSTRUCTOR

    @property
    def return_type(self) -> TypeReflection:
        return self._context.type_of(self._struct)

    @property
    def parameters(self) -> list[VariableReflection]:
        return [self._context.variable(*field) for field in _initialized(self._context, self._struct)]

    def has_modifier(self, modifier: ModifierID) -> bool:
        return False

    def specialize_with_arg_types(self, types: Sequence[TypeReflection]) -> FunctionReflection | None:
        """Itself, if each field can be made of a value of the type."""
        arguments, fields = _checked(types), [parameter.type.checked for parameter in self.parameters]
        with self._context.asking() as program:
            fits = len(arguments) == len(fields) and all(
                argument is field or program.conversion(argument, field, True) is not None
                for argument, field in zip(arguments, fields)
            )
        return self if fits else None

    @property
    def _attributed(self) -> ast.Declaration | None:
        return None


def _initialized(context: ReflectionContext, t: Type) -> Iterator[tuple[ast.Declaration, Type]]:
    """The fields that `S(a, b)` gives values to: those of the struct that it inherits from first, no bit fields."""
    for declaration, kind in context.fields(t):
        if declaration.name == BASE:
            yield from _initialized(context, kind)
        elif not is_word(declaration):
            yield declaration, kind


def constructor_of_fields(context: ReflectionContext, t: Type) -> FieldConstructor | None:
    """The meaning of `S(a, b)` where the text has no `__init`."""
    if not isinstance(t, StructType) or not any(_initialized(context, t)):
        return None
    written = any(isinstance(member, ast.Constructor) for member in t.declaration.members)
    return None if written else context.make(FieldConstructor, t)
