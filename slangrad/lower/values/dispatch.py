"""Values of interface types: which type they have is a number beside one field for each type that they can have.

IShape = { u32 type; Circle is0; Square is1; }          Circle -> IShape      make 0, %circle, (zero)

shape.area()      if %type == 0 { call @Circle.area %is0 } else { call @Square.area %is1 }

A requirement that is called on such a value is a function with that body, so that everything after this knows structs,
branches and calls only. What else has to do with the type of the value, as its associated types, goes along: `narrow`
takes a value apart for one of the types, `widen` puts it together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slangrad.base.options import TYPE_OF_VALUE
from slangrad.check.generics.signatures import signature_of
from slangrad.check.interfaces.lookup import conforms
from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef, GenericKey
from slangrad.check.model.values import RequiredValue
from slangrad.ir.core import Value
from slangrad.ir.types import U32, Struct, Type
from slangrad.lower.calls import accessors, calls
from slangrad.lower.model.alternatives import is_tangent
from slangrad.lower.model.frame import RESULT, THIS, Frame, Key
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.places.places import Temporary, detached
from slangrad.syntax import ast

if TYPE_CHECKING:
    from slangrad.lower.instances.instances import Lowering


def dispatched(lowering: Lowering, reference: DeclRef) -> GenericKey | None:
    """What stands for a type that is known at run time only, where that decides what is called: the interface of a
    requirement, or the generic parameter of a function that asks its type for more than methods."""
    interface = _interface_of(reference)
    key = lowering.alternatives.opened.get(reference.declaration) if interface is None else interface
    if key is None or not checked.is_dynamic(reference.substitution.get(key, checked.VOID)):
        return None
    of_tangents = reference.declaration.name in ("dzero", "dadd") and key.name == "IDifferentiable"
    return None if of_tangents else key


def _interface_of(reference: DeclRef) -> ast.Interface | None:
    owner = reference.declaration.parent
    if isinstance(reference.declaration, ast.Accessor):
        owner = owner.parent
    return owner if isinstance(owner, ast.Interface) else None


# --- Where the type has to be known ---------------------------------------------------------------------


def is_static(f: Frame, declared: ast.Declaration) -> bool:
    """Whether a requirement is called without an object."""
    return isinstance(declared, ast.Constructor) or f.program.info(declared).this_type is None


def require_type(f: Frame, what: str, wide: checked.Type) -> None:
    """The function that is being made, or one that called it, has to be made for each type."""
    name: str | None = f.name
    while name is not None and name in f.lowering.asked_by:
        reference, name = f.lowering.asked_by[name]
        key = _opening(f, reference, _root(wide))
        if key is not None:
            f.lowering.alternatives.open_function(reference.declaration, key)
            return
    message = f"{what} depends on the type of a '{wide}', and there is no value here that would tell it"
    f.error("E0412", message, f.b.span, "use it on a value, or in a generic function that takes one")


def _root(t: checked.Type) -> checked.Type:
    while isinstance(t, checked.AssociatedType):
        t = t.base
    return t


def _opening(f: Frame, reference: DeclRef, root: checked.Type) -> GenericKey | None:
    """The generic parameter of a function that such a value is passed for."""
    if reference.declaration in f.lowering.alternatives.opened or _interface_of(reference) is not None:
        return None
    declared = [kind for _, kind in _declared_types(f, reference.declaration)]
    for key, argument in reference.substitution.items():
        if not isinstance(key, (ast.TypeParameter, ast.Extension)) or argument is not root:
            continue
        if checked.parameter_type(key) in declared:
            return key
    return None


def _declared_types(f: Frame, declared: ast.Declaration) -> Iterator[tuple[Key, checked.Type]]:
    info = f.program.info(declared)
    if info.this_type is not None and not isinstance(declared, ast.Constructor):
        yield THIS, info.this_type
    for each in info.parameters:
        yield each, f.program.info(each).type


def told(f: Frame, teller: Value, wide: checked.Type) -> Value:
    """A value that tells that its type is the associated type of what the teller's is: types have the numbers of those
    that they belong to."""
    t = f.lowering.types.of(wide, f.b.span)
    if not checked.is_dynamic(wide) or teller.type is t:
        return teller if teller.type is t else f.b.zero(t)
    if is_tangent(wide) or not _has_numbers(teller):
        require_type(f, f"'{wide}'", wide)
        return f.b.zero(t)
    assert isinstance(t, Struct)
    parts = [f.emit("get", teller, index=0), *(f.b.zero(each) for _, each in t.fields[1:])]
    return f.emit("make", *parts, type=t)


def _has_numbers(teller: Value) -> bool:
    return isinstance(teller.type, Struct) and bool(teller.type.fields) and teller.type.fields[0][1] is U32


def required(f: Frame, teller: Value, value: RequiredValue, t: Type) -> Value:
    """A constant that an interface requires, of the type that a value has."""
    if not _has_numbers(teller):
        require_type(f, f"'{value.declaration.name}'", value.base)
        return f.b.zero(t)
    found = f.b.zero(t)
    for i, each in enumerate(f.lowering.types.alternatives(value.base)):
        known = f.program.required(each, value.interface, value.declaration)
        assert isinstance(known, int)
        found = f.emit("select", _has_number(f, teller, i), f.b.constant(t, known), found)
    return found


# --- Calls --------------------------------------------------------------------------------------------


def lower_dispatch(
    f: Frame, signature: Signature, reference: DeclRef, keys: list[Key], key: GenericKey
) -> None:
    """The body of what depends on the type of a value: a call of what is meant for each type."""
    assert not isinstance(key, ast.ValueParameter)
    wide = reference.substitution[key]
    this = checked.parameter_type(key)
    kinds = dict(_declared_types(f, reference.declaration))
    subject = (
        THIS if isinstance(key, ast.Interface) else next(each for each in keys if kinds.get(each) is this)
    )
    call = _Call(f, signature, reference, key, keys, subject)
    over_types(f, f.variables[subject], wide, call.arm)


def over_types(
    f: Frame, value: Value, wide: checked.Type, arm: Callable[[int, checked.Type], None], start: int = 0
) -> None:
    """Run the arm of the type that a value has."""
    types = f.lowering.types.alternatives(wide)
    if not types:
        f.lowering.alternatives.lacks(wide, f.b.span)
        return
    if start == len(types) - 1:
        arm(start, types[start])
        return

    def this_one() -> tuple[Value, ...]:
        arm(start, types[start])
        return ()

    def another() -> tuple[Value, ...]:
        over_types(f, value, wide, arm, start + 1)
        return ()

    f.branch(_has_number(f, value, start), this_one, another)


def _has_number(f: Frame, value: Value, number: int) -> Value:
    return f.emit("equal", f.emit("get", value, index=0), f.b.constant(U32, number))


class _Call:
    """A function called for a type that takes the place of `key`."""

    def __init__(
        self,
        f: Frame,
        signature: Signature,
        reference: DeclRef,
        key: GenericKey,
        keys: list[Key],
        subject: Key,
    ) -> None:
        self.f, self.signature, self.reference, self.key, self.keys = f, signature, reference, key, keys
        self.subject = subject
        self.has_this = keys[:1] == [THIS]

    def arm(self, number: int, t: checked.Type) -> None:
        f, seen = self.f, {**self.reference.substitution, self.key: t, **self._arguments(number)}
        reference = DeclRef(self.reference.declaration, seen)
        own = signature_of(f.program, reference)
        kinds = [
            *([self._this(reference, t)] if self.has_this else []),
            *(each.type for each in own.parameters),
            *self._thrown(reference),
        ]
        rows = list(zip(self.keys, self.signature.parameters, kinds, strict=True))
        places = [self._narrowed(key, p, kind, number) for key, p, kind in rows]
        result = self._call(reference, places)
        for (key, p, kind), place in zip(rows, places, strict=True):
            if p.direction != "in":
                f.variables[key] = widen(f, place.value, kind, p.checked, number)
        if result is not None:
            f.variables[RESULT] = widen(f, result, own.result, self.signature.result, number)

    def _arguments(self, number: int) -> dict[GenericKey, checked.Type]:
        """What stands in `IFoo<object.Item>`, as it is for one type of the object."""
        seen = self.reference.substitution
        wide = seen[self.key]
        given = ((each, seen.get(each)) for each in getattr(self.key, "generics", ()))
        return {
            key: self.f.lowering.types.alternatives(kind)[number]
            for key, kind in given
            if isinstance(kind, checked.AssociatedType)
            and checked.is_dynamic(kind)
            and _root(kind) is _root(wide)
        }

    def _narrowed(self, key: Key, p: SignatureParameter, kind: checked.Type, number: int) -> Temporary:
        value = self.f.variables[key]
        if key is not self.subject and p.direction != "out":
            require_kind(self.f, value, p.checked, kind, number)
        return Temporary(narrow(self.f, value, p.checked, kind, number))

    def _this(self, reference: DeclRef, t: checked.Type) -> checked.Type:
        declared: checked.Type | None = self.f.program.info(reference.declaration).this_type
        return t if declared is None else self.f.program.substitute(declared, reference.substitution)

    def _thrown(self, reference: DeclRef) -> list[checked.Type]:
        declared: checked.Type | None = getattr(self.f.program.info(reference.declaration), "throws", None)
        if declared is None:
            return []
        return [checked.BOOL, self.f.program.substitute(declared, reference.substitution)]

    def _call(self, reference: DeclRef, places: list[Temporary]) -> Value | None:
        f, declared = self.f, reference.declaration
        if isinstance(declared, ast.Accessor) and isinstance(self.key, ast.Interface):
            owner = f.resolve(DeclRef(declared.parent, reference.substitution))
            return accessors.call_accessor(f, owner, declared.name, places)
        without_object = self.has_this and is_static(f, declared)
        return calls.call_function(f, reference, list(places[1:] if without_object else places))


# --- Taking apart and putting together ------------------------------------------------------------------


def narrow(f: Frame, value: Value, wide: checked.Type, own: checked.Type, number: int) -> Value:
    """A value as it is where the type is known to be the one with that number."""
    if wide is own:
        return value
    if is_tangent(wide):
        return f.emit("get", value, index=number)
    if checked.is_dynamic(wide):
        found = f.emit("get", value, index=number + 1)
        for i in _numbers_of(f, wide, own):
            if i != number:
                found = f.emit("select", _has_number(f, value, i), f.emit("get", value, index=i + 1), found)
        return found
    return _part_by_part(f, value, wide, own, lambda part, one, other: narrow(f, part, one, other, number))


def _numbers_of(f: Frame, wide: checked.Type, own: checked.Type) -> list[int]:
    """The numbers that mean this type: types of objects may have the same associated type."""
    return [i for i, each in enumerate(f.lowering.types.alternatives(wide)) if each is own]


def require_kind(f: Frame, value: Value, wide: checked.Type, own: checked.Type, number: int) -> None:
    """Report a value that is of another type than the one wanted: it came from an object of another type."""
    if wide is own or is_tangent(wide):
        return
    if not checked.is_dynamic(wide):
        for i, (one, other) in enumerate(zip(_parts(f, wide), _parts(f, own), strict=True)):
            require_kind(f, f.emit("get", value, index=i), one, other, number)
        return
    types, fitting = f.lowering.types.alternatives(wide), _numbers_of(f, wide, own)
    if len(fitting) == len(types) or not fitting:  # nothing else can be there, or lowering begins again
        return
    fits = f.false()
    for i in fitting:
        fits = f.emit("or", fits, _has_number(f, value, i))
    there = f.emit("add", f.emit("get", value, index=0), f.b.constant(U32, 1))
    wrong = f.emit("select", fits, f.b.constant(U32, 0), there)
    text = "\n".join((TYPE_OF_VALUE, str(own), *map(str, types)))
    f.emit("in_bounds", wrong, f.b.constant(U32, 1), text=text)


def widen(f: Frame, value: Value, own: checked.Type, wide: checked.Type, number: int) -> Value:
    """The inverse: what belongs to other types is zero."""
    if wide is own:
        return value
    if checked.is_dynamic(wide):
        return _with_number(f, value, wide, number)
    return _part_by_part(f, value, own, wide, lambda part, one, other: widen(f, part, one, other, number))


def _with_number(f: Frame, value: Value, wide: checked.Type, number: int) -> Value:
    t = f.lowering.types.of(wide, f.b.span)
    assert isinstance(t, Struct)
    first = 0 if is_tangent(wide) else 1
    parts = [f.b.zero(each) for _, each in t.fields]
    if number + first >= len(parts):  # a type that is new to the interface: lowering begins again
        return f.b.zero(t)
    parts[number + first] = value
    if first:
        parts[0] = f.b.constant(U32, number)
    return f.emit("make", *parts, type=t)


def _part_by_part(
    f: Frame,
    value: Value,
    source: checked.Type,
    target: checked.Type,
    change: Callable[[Value, checked.Type, checked.Type], Value],
) -> Value:
    """A struct, tuple or array of such values."""
    pairs = list(zip(_parts(f, source), _parts(f, target), strict=True))
    if not pairs:
        f.error("E9007", f"'{target}' cannot be made where types are known at run time only", f.b.span)
        return f.b.zero(f.lowering.types.of(target, f.b.span))
    made = (change(f.emit("get", value, index=i), *pair) for i, pair in enumerate(pairs))
    return f.emit("make", *made, type=f.lowering.types.of(target, f.b.span))


def _parts(f: Frame, t: checked.Type) -> list[checked.Type]:
    if isinstance(t, checked.StructType):
        return [kind for _, kind in f.program.fields(t)]
    if isinstance(t, checked.Tuple):
        return list(t.elements)
    if isinstance(t, checked.Array) and isinstance(t.count, int):
        return [t.element] * t.count
    return []


# --- Conversions and questions --------------------------------------------------------------------------


def as_interface(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """A value of a type that conforms, which may be one of another interface type."""
    if source is target:
        return value
    if f.differentiable and not f.lowering.types.has_tangent(target):
        value = detached(f, value)
    if not checked.is_dynamic(source):
        f.lowering.alternatives.add(target, source, f.b.span)
        return widen(f, value, source, target, _number(f, source, target))
    for each in f.lowering.types.alternatives(source):
        f.lowering.alternatives.add(target, each, f.b.span)
    return _over_all(f, value, source, target)


def _number(f: Frame, t: checked.Type, interface: checked.Type) -> int:
    types = f.lowering.types.alternatives(interface)
    return types.index(t) if t in types else len(types)


def _over_all(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """A value of one interface type as one of another; the types that the other lacks become its first one."""
    t = f.lowering.types.of(target, f.b.span)
    assert isinstance(t, Struct)
    known, number = f.lowering.types.alternatives(target), f.b.constant(U32, 0)
    parts = {i: f.b.zero(kind) for i, (_, kind) in enumerate(t.fields)}
    for i, each in enumerate(f.lowering.types.alternatives(source)):
        if each in known:
            own = known.index(each)
            number = f.emit("select", _has_number(f, value, i), f.b.constant(U32, own), number)
            parts[own + 1] = f.emit("get", value, index=i + 1)
    return f.emit("make", number, *list(parts.values())[1:], type=t)


def is_kind_of(f: Frame, t: checked.Type, target: checked.Type) -> bool:
    """`x is Target` of a type that is known."""
    if isinstance(target, checked.InterfaceType):
        return conforms(f.program, t, target)
    return t is target


def type_test(f: Frame, value: Value, source: checked.Type, target: checked.Type) -> Value:
    """`x is Target`."""
    if source is target:
        return f.true()
    found = f.false()
    for i, each in enumerate(f.lowering.types.alternatives(source)):
        if is_kind_of(f, each, target):
            found = f.emit("or", found, _has_number(f, value, i))
    return found


def downcast(f: Frame, value: Value, source: checked.Type, target: checked.Type, optional: object) -> Value:
    """`x as Target`: an optional."""
    assert isinstance(optional, Struct)
    if not checked.is_dynamic(source):
        if not is_kind_of(f, source, target):
            return f.b.zero(optional)
        inner = as_interface(f, value, source, target) if checked.is_dynamic(target) else value
        return f.emit("make", inner, f.true(), type=optional)
    there = type_test(f, value, source, target)
    if checked.is_dynamic(target):
        for each in f.lowering.types.alternatives(source):
            if is_kind_of(f, each, target):
                f.lowering.alternatives.add(target, each, f.b.span)
        inner = value if source is target else _over_all(f, value, source, target)
    else:
        types = list(f.lowering.types.alternatives(source))
        if target not in types:
            return f.b.zero(optional)
        inner = f.emit("get", value, index=types.index(target) + 1)
    return f.emit("make", inner, there, type=optional)
