"""Properties and subscripts as places: reading and writing them are calls of their accessors.

a.length = 2        call @set %a, 2      and a = what came back
buffer[i] += x      %p = call @ref %buffer, %i     load, add, store; nothing where %p is null
s[i] += x           the place that `ref` returns (references.py), read and written

A property that an interface requires may be a field of the type that conforms.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.names.places import gives_address
from slangrad.check.names.struct_fields import is_bit_field
from slangrad.ir.data.types import U64, Type, component
from slangrad.ir.ops.core import Value
from slangrad.lower.calls import any_places, references
from slangrad.lower.calls.arguments import argument_value
from slangrad.lower.calls.calls import call_function
from slangrad.lower.calls.lending import acted_on
from slangrad.lower.model.addresses import GuardedAddress
from slangrad.lower.model.flow import THIS
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.globals import place_of_global
from slangrad.lower.places.places import Component, MemoryPlace, NoPlace, Temporary
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast


def accessed(
    f: Frame,
    reference: DeclRef,
    base: checked.Base | None,
    passed: tuple[checked.Argument, ...],
    t: Type,
) -> Place:
    """The place behind a property or subscript."""
    resolved = f.resolve(reference)
    if isinstance(resolved.declaration, ast.Variable):
        return _variable(f, resolved, base)
    owner = None if base is None else f.place(base)
    arguments = [Temporary(argument_value(f, argument, resolved)) for argument in passed]
    return Accessed(t, resolved, owner, arguments)


def _variable(f: Frame, resolved: DeclRef, base: checked.Base | None) -> Place:
    if base is None or f.program.info(resolved.declaration).kind != "field":
        return place_of_global(f, resolved, f.b.span)
    return f.place(base).field(f, resolved.declaration.name)


def call_accessor(f: Frame, resolved: DeclRef, name: str, places: list[Temporary]) -> Value | None:
    """A getter, or a setter with its value last, of the object that comes first; `ref` is called as a getter."""
    place: Place
    if isinstance(resolved.declaration, ast.Variable):
        place = places[0].field(f, resolved.declaration.name)
    else:
        arguments = places[1:-1] if name == "set" else places[1:]
        result = f.program.info(resolved.declaration).result
        t = f.lowering.types.of(f.program.substitute(result, resolved.substitution), f.b.span)
        place = Accessed(t, resolved, places[0], arguments)
    if name != "set":
        return place.get(f)
    place.set(f, places[-1].get(f))
    return None


@dataclass(slots=True)
class Accessed(Place):
    """A property or subscript. Without a getter or setter, each access calls `ref` for its place."""

    type: Type
    resolved: DeclRef
    owner: Place | None
    arguments: list[Temporary]

    def read(self, f: Frame) -> Value:
        getter = self._getter(f)
        if getter is None and self._accessor("ref") is None:
            return self._unreadable(f)
        if getter is None:
            return self.referred(f).get(f)
        value = self._call(f, getter)
        assert value is not None
        return value

    def _unreadable(self, f: Frame) -> Value:
        note = "take what can be read, too: an 'RWTensor', a property with 'get'"
        f.error("E0317", f"{self._name} can only be written", f.b.span, note)
        return f.b.zero(self.type)

    def set(self, f: Frame, value: Value) -> None:
        setter = self._accessor("set")
        if setter is None:
            self.referred(f).set(f, value)
        else:
            self._call(f, setter, Temporary(value))

    def address(self, f: Frame) -> GuardedAddress | None:
        return None if self._is_whole(f) else self.referred(f).address(f)

    def for_update(self, f: Frame) -> Place:
        if self._accessor("set") is not None or self._getter(f) is not None:
            return self
        return self.referred(f).for_update(f)

    def component(self, f: Frame, index: int | Value) -> Place:
        whole = self.for_parts(f)
        if whole is not self:
            return whole.component(f, index)
        return Component(self, index, component(self.type, index if isinstance(index, int) else 0))

    def for_atomics(self, f: Frame) -> Place:
        accessor = self._accessor("__atomic") or self._accessor("ref")
        if accessor is not None:
            return self._referred_by(f, accessor).for_atomics(f)
        return NoPlace(f.b.zero(self.type), *self._why_none(f))

    def _why_none(self, f: Frame) -> tuple[str, str]:
        """Why no operation on it is atomic, and the cure."""
        declared = self.resolved.declaration
        if isinstance(declared, ast.Property) and is_bit_field(declared):
            subject = f"the bit field '{declared.name}' lies among others"
            return subject, "make it a field of its own, without a width"
        if self._getter(f) is None:
            return f"{self._name} can only be written", "take what can be read, too"
        return (
            f"{self._name} is read by 'get' and written by 'set'",
            "give it 'ref', or name the memory behind it",
        )

    @property
    def _name(self) -> str:
        declared = self.resolved.declaration
        if isinstance(declared, ast.Property):
            return f"the property '{declared.name}'"
        owner = declared.parent
        whose = getattr(owner, "name", "") or getattr(self.resolved.substitution.get(owner), "name", "")
        return f"the subscript of '{whose}'" if whose else "the subscript"

    def referred(self, f: Frame) -> Place:
        """The place that `ref` gives."""
        accessor = self._accessor("ref")
        assert accessor is not None
        return self._referred_by(f, accessor)

    def _referred_by(self, f: Frame, accessor: ast.Accessor) -> Place:
        if self.owner is not None and not self.owner.is_own():
            self._refuse_copy(f, accessor)
        if gives_address(accessor):
            return self._memory(f, accessor)
        resolved = f.resolve(self._reference(accessor))
        if dispatched(f.lowering, resolved) is not None:
            return any_places.place(f, resolved, self.owner, self.arguments)
        referring = f.lowering.referring(resolved)
        descriptor = references.ask(f, referring, self.owner, self.arguments)
        return references.put_together(f, referring, self.owner, descriptor)

    def _refuse_copy(self, f: Frame, accessor: ast.Accessor) -> None:
        """A `ref` runs on a copy of its object."""
        if THIS in acted_on(f, f.resolve(self._reference(accessor))).atomically:
            reason = f"{self._name} changes its object by an atomic operation, and is given a copy"
            NoPlace(f.b.zero(self.type), reason, "do that in a method").report(f)

    def for_parts(self, f: Frame) -> Place:
        return self if self._is_whole(f) else self.referred(f)

    def at_hand(self, f: Frame) -> Place:
        """The place itself if only a `ref` leads to it."""
        only = self._accessor("set") is None and self._getter(f) is None
        return self.referred(f) if only else self

    def _is_whole(self, f: Frame) -> bool:
        """Whether parts are read with the whole: where getters have derivatives, and where there is no `ref`."""
        accessor = self._accessor("ref")
        if accessor is None:
            return True
        return f.differentiable and not gives_address(accessor) and self._getter(f) is not None

    def _memory(self, f: Frame, accessor: ast.Accessor) -> MemoryPlace:
        pointer = self._call(f, accessor)
        assert pointer is not None
        address = f.emit("bitcast", pointer, type=U64)
        return MemoryPlace(pointer, f.emit("not_equal", address, f.b.zero(U64)))

    def _getter(self, f: Frame) -> ast.Accessor | None:
        """The accessor for reading: the getter, or a `ref` with its own derivative."""
        getter, ref = self._accessor("get"), self._accessor("ref")
        if getter is not None or ref is None:
            return getter
        derivatives = f.program.derivatives(self._reference(ref)) if f.differentiable else None
        return None if derivatives is None or derivatives == checked.CustomDerivatives() else ref

    def _accessor(self, name: str) -> ast.Accessor | None:
        return next(
            (accessor for accessor in self.resolved.declaration.accessors if accessor.name == name), None
        )

    def _reference(self, accessor: ast.Accessor) -> DeclRef:
        return DeclRef(accessor, self.resolved.substitution)

    def _call(self, f: Frame, accessor: ast.Accessor, *more: Place) -> Value | None:
        info: checked.FunctionInfo = f.program.info(accessor)
        this = [self.owner] if self.owner is not None and info.this_type is not None else []
        return call_function(f, self._reference(accessor), [*this, *self.arguments, *more])
