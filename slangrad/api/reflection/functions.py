"""Functions of a checked program, in SlangPy's words.

    found = module.layout.find_function_by_name("scale")
    [(each.name, each.type.full_name) for each in found.parameters]
    found.specialize_with_arg_types([float3])       generics filled in, overloads resolved; None: it does not take these

Several functions of one name are one object, with `overloads`. A parameter of an interface type shows the interface,
though such a function is generic to the checker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.api.reflection.types import (
    Attributed,
    Context,
    Form,
    TypeReflection,
    VariableReflection,
    expect,
)
from slangrad.check.generics.signatures import declared_parameters, signature_of
from slangrad.check.interfaces.lookup import BASE
from slangrad.check.model.declref import Bindings, Declared, DeclRef, GenericKey, visible_parameters
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import (
    Array,
    GenericArgument,
    Type,
    array,
    conjunction,
    is_pack,
    parameter_type,
)
from slangrad.check.names.struct_fields import is_word
from slangrad.check.reflect import FunctionView
from slangrad.marshal.errors import CallError
from slangrad.marshal.reflection.type_kinds import ModifierID
from slangrad.syntax import ast

CONSTRUCTOR = "$init"


def reflect_functions(context: Context, views: Sequence[FunctionView]) -> FunctionReflection | None:
    """The functions of a name; None where there are none. Those of the library stand back, as do those that do not have
    the generic parameters for the arguments in the name."""
    views = [each for each in views if len(each.candidate.explicit) <= len(each.generics)]
    own = [each for each in views if not each.declaration.span.source.is_library]
    found = tuple(reflect_function(context, each) for each in own or views)
    if len(found) < 2:
        return found[0] if found else None
    return context.make(OverloadedReflection, found)


def reflect_function(context: Context, view: FunctionView) -> FunctionReflection:
    """One function, with those generic arguments that are known."""
    candidate = view.candidate
    explicit = dict(zip(view.declaration.generics, candidate.explicit))
    return _made(context, DeclRef(view.declaration, {**candidate.substitution, **explicit}))


def _made(context: Context, reference: DeclRef) -> FunctionReflection:
    seen = [each for each in visible_parameters(reference.declaration) if not _is_hidden(each)]
    known = tuple((each, reference.substitution[each]) for each in seen if each in reference.substitution)
    return context.make(FunctionReflection, reference.declaration, known)


def _checked(types: Sequence[TypeReflection]) -> list[Type]:
    return [expect(each, TypeReflection, "specialize_with_arg_types").checked for each in types]


class FunctionReflection(Attributed):
    """A function, method or constructor. Equal ones of one program are one object."""

    __slots__ = ("_known", "declaration")

    is_overloaded = False

    def __init__(
        self, context: Context, declaration: Declared, known: tuple[tuple[GenericKey, GenericArgument], ...]
    ) -> None:
        super().__init__(context)
        self.declaration = declaration
        self._known = dict(known)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{each.name}: {each.type.full_name}" for each in self.parameters)
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
            return self._context.type_of(self._shown(self._view.result))

    @property
    def parameters(self) -> list[VariableReflection]:
        """Without `this`."""
        context, reference = self._context, self._view.reference
        with context.asking() as program:
            declared = declared_parameters(program, reference)
            types = [self._shown(each.type) for each in signature_of(program, reference).parameters]
        return [context.make(VariableReflection, each, Form(t)) for each, t in zip(declared, types)]

    @property
    def overloads(self) -> list[FunctionReflection]:
        """The functions of the name, if there are several."""
        return []

    def has_modifier(self, modifier: ModifierID) -> bool:
        """Whether a word or attribute stands before the function, or the function is so in effect: `differentiable` is
        what has a custom derivative, too."""
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
        """The function that a call with arguments of these types means, its generics filled in. None: no function of
        the name takes them, or several do so equally well."""
        given = _checked(types)
        with self._context.asking():
            resolved, _ = self._context.view.resolve(self._views, given)
        return _made(self._context, resolved[0].reference) if len(resolved) == 1 else None

    # --- How the checker sees it ---

    @property
    def _view(self) -> FunctionView:
        return FunctionView(self._context.program, Candidate(self.declaration, self._known))

    @property
    def _views(self) -> list[FunctionView]:
        """For a call: what is known of its own generics is as if it were written."""
        own = [each for each in self.declaration.generics if each in self._known]
        around = {each: found for each, found in self._known.items() if each not in own}
        explicit = tuple(self._known[each] for each in own)
        candidate = Candidate(self.declaration, around, explicit=explicit)
        return [FunctionView(self._context.program, candidate)]

    @property
    def _attributed(self) -> ast.Declaration | None:
        node: ast.Declaration = self.declaration
        return node

    def _shown(self, t: Type) -> Type:
        """A type with the interfaces that stand in the text for the hidden generics of the checker."""
        hidden = [each for each in self.declaration.generics if _is_hidden(each)]
        if isinstance(t, Array) and getattr(t.count, "declaration", None) in hidden:
            return array(t.element, None)
        context = self._context
        seen: Bindings = {
            each: conjunction(context.view.bounds(parameter_type(each)))
            for each in hidden
            if isinstance(each, ast.TypeParameter)
        }
        return context.program.substitute(t, seen) if seen and not is_pack(t) else t


def _is_hidden(parameter: object) -> bool:
    """Whether the checker made a generic parameter of a parameter of interface type, or of an array's length."""
    return isinstance(parameter, (ast.TypeParameter, ast.ValueParameter)) and parameter.name.startswith("$")


class OverloadedReflection(FunctionReflection):
    """Several functions of one name. It has no parameters of its own."""

    __slots__ = ("_overloads",)

    is_overloaded = True

    def __init__(self, context: Context, overloads: tuple[FunctionReflection, ...]) -> None:
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
        return all(each.has_modifier(modifier) for each in self._overloads)

    @property
    def _views(self) -> list[FunctionView]:
        return [each._view for each in self._overloads]

    @property
    def _attributed(self) -> ast.Declaration | None:
        return None


class FieldConstructor(FunctionReflection):
    """The constructor that a struct without one has: a parameter for each field."""

    __slots__ = ("_made",)

    def __init__(self, context: Context, made: Type) -> None:
        super().__init__(context, made.declaration, ())  # type: ignore[attr-defined]
        self._made = made

    @property
    def name(self) -> str:
        return CONSTRUCTOR

    @property
    def return_type(self) -> TypeReflection:
        return self._context.type_of(self._made)

    @property
    def parameters(self) -> list[VariableReflection]:
        found = _initialized(self._context, self._made)
        return [self._context.make(VariableReflection, each, Form(t)) for each, t in found]

    def has_modifier(self, modifier: ModifierID) -> bool:
        return False

    def specialize_with_arg_types(self, types: Sequence[TypeReflection]) -> FunctionReflection | None:
        """Itself, if each field can be made of a value of the type."""
        given, wanted = _checked(types), [each.type.checked for each in self.parameters]
        with self._context.asking() as program:
            fits = len(given) == len(wanted) and all(
                one is other or program.conversion(one, other, True) is not None
                for one, other in zip(given, wanted)
            )
        return self if fits else None

    @property
    def _attributed(self) -> ast.Declaration | None:
        return None


def _initialized(context: Context, t: Type) -> Iterator[tuple[ast.Declaration, Type]]:
    """The fields that `S(a, b)` gives values to: those of the struct that it inherits from first, no bit fields."""
    for declaration, kind in context.fields(t):
        if declaration.name == BASE:
            yield from _initialized(context, kind)
        elif not is_word(declaration):
            yield declaration, kind


def constructor_of_fields(context: Context, t: Type) -> FieldConstructor | None:
    """What `S(a, b)` means where the text has no `__init`."""
    declaration = getattr(t, "declaration", None)
    if not isinstance(declaration, ast.Struct) or not any(_initialized(context, t)):
        return None
    written = any(isinstance(each, ast.Constructor) for each in declaration.members)
    return None if written else context.make(FieldConstructor, t)
