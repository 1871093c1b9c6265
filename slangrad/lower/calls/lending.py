"""Parameters that atomic operations act on: memory of the caller is lent to them, by its address.

void bump(inout uint x) { InterlockedAdd(x, 1); }

bump(b[i])      %p = offset %b, %i      call @bump %p          memory: the operation acts on it
bump(n)         %n1 = call @bump.1 %n                          a variable of the thread: copied in and out, as ever

Which parameters these are is found out by looking into functions: operations on them or on parts of them, their
address, and calls of others that lend them on. All other parameters are values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from slangrad.check.generics.signatures import declared_parameters
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.check.names.places import is_nonmutating
from slangrad.ir.core import Value
from slangrad.ir.types import BOOL, Struct, Type, struct
from slangrad.lower.model.addresses import Address
from slangrad.lower.model.flow import THIS, Key, declaration_of
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.places.places import in_memory, not_atomic
from slangrad.lower.places.variables import root_of_place
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast
from slangrad.syntax.walk import walk

WRITTEN = ("inout", "ref")

# --- Which parameters ---------------------------------------------------------------------------------


def acted_on(f: Frame, reference: DeclRef) -> frozenset[Key]:
    """The parameters of a function, `this` among them, that it does atomic operations on."""
    if not _can_act(f, reference):
        return frozenset()
    known = f.lowering.acting
    if reference.key not in known:
        known.update(_Search(f).of(reference))
    return known[reference.key]


def _can_act(f: Frame, reference: DeclRef) -> bool:
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    changes = info.this_type is not None and info.mutating
    return changes or any(f.program.info(each).direction in WRITTEN for each in info.parameters)


@dataclass(slots=True)
class _Found:
    """What a function does: its own parameters acted on; those passed on, with the function and its parameter."""

    keys: set[Key] = field(default_factory=set)
    passed: list[tuple[Key, tuple[object, ...], Key]] = field(default_factory=list)


class _Search:
    """A function and all that it calls, with what is passed from one to the other."""

    def __init__(self, f: Frame) -> None:
        self.f = f
        self.found: dict[tuple[object, ...], _Found] = {}
        self.todo: list[DeclRef] = []

    def of(self, reference: DeclRef) -> dict[tuple[object, ...], frozenset[Key]]:
        self._ask(reference)
        while self.todo:
            self._look_into(self.todo.pop())
        while any(self._pass_on(each) for each in self.found.values()):
            pass
        return {key: frozenset(each.keys) for key, each in self.found.items()}

    def _pass_on(self, one: _Found) -> bool:
        """Whether more of its parameters are acted on than was known."""
        more = {own for own, callee, key in one.passed if key in self.found[callee].keys} - one.keys
        one.keys |= more
        return bool(more)

    def _ask(self, reference: DeclRef) -> tuple[object, ...]:
        if reference.key not in self.found:
            self.found[reference.key] = _Found()
            self.todo.append(reference)
        return reference.key

    def _look_into(self, reference: DeclRef) -> None:
        f, one, declared = self.f, self.found[reference.key], reference.declaration
        info: checked.FunctionInfo = f.program.info(declared)
        key = dispatched(f.lowering, reference)
        if isinstance(key, ast.Interface):
            self._look_into_kinds(reference, key, one)
        elif info.intrinsic is not None:
            one.keys |= _place_of_intrinsic(f, info)
        elif getattr(declared, "body", None) is not None:
            f.program.check_body(declared)
            for node in walk(declared.body):
                if isinstance(node, ast.Expression) and node.ref is not None:
                    one.passed += self._passed(node.ref, reference.substitution, one)

    def _look_into_kinds(self, reference: DeclRef, key: ast.Interface, one: _Found) -> None:
        """A requirement called on a value whose type is known at run time only: each that may be meant."""
        own = _keys(self.f, reference)
        for t in self.f.lowering.types.alternatives(reference.substitution[key]):
            meant = self.f.resolve(DeclRef(reference.declaration, {**reference.substitution, key: t}))
            if isinstance(self.f.program.info(meant.declaration), checked.FunctionInfo):
                callee = self._ask(meant)
                pairs = zip(own, _keys(self.f, meant), strict=False)
                one.passed += [(mine, callee, its) for mine, its in pairs]

    def _passed(
        self, form: Any, seen: Substitution, one: _Found
    ) -> Iterator[tuple[Key, tuple[object, ...], Key]]:
        f = self.f
        if isinstance(form, checked.AddressOf):
            one.keys |= set(_root(f, form.place, seen))
        elif isinstance(form, checked.Call) and isinstance(form.function, DeclRef):
            resolved = f.program.resolve(form.function, seen)
            if not _can_act(f, resolved):
                return
            given = [form.this] if f.program.info(resolved.declaration).this_type is not None else []
            callee = self._ask(resolved)
            for key, place in zip(_keys(f, resolved), [*given, *form.arguments], strict=False):
                yield from ((own, callee, key) for own in _root(f, place, seen))
        elif isinstance(form, (checked.Property, checked.Subscript)) and form.base is not None:
            resolved = f.program.resolve(form.reference, seen)
            for each in getattr(resolved.declaration, "accessors", ()):
                if f.program.info(each).mutating:
                    callee = self._ask(DeclRef(each, resolved.substitution))
                    yield from ((own, callee, THIS) for own in _root(f, form.base, seen))


def _place_of_intrinsic(f: Frame, info: checked.FunctionInfo) -> set[Key]:
    """An atomic operation acts on `this`, or on the first of its arguments."""
    if info.intrinsic is None or not info.intrinsic.startswith("atomic."):
        return set()
    if info.this_type is not None:
        return {THIS}
    return {each for each in info.parameters[:1] if f.program.info(each).direction in WRITTEN}


def _keys(f: Frame, reference: DeclRef) -> list[Key]:
    """The parameters as they are passed, a pack once."""
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    return [*([] if info.this_type is None else [THIS]), *info.parameters]


def _root(f: Frame, place: Any, seen: Substitution) -> Iterator[Key]:
    """The variable that a place is a part of, unless an accessor leads out of it."""
    key = None if isinstance(place, checked.Default) else root_of_place(place)
    if key is not None and not _leads_elsewhere(f, place, seen):
        yield key


def _leads_elsewhere(f: Frame, place: Any, seen: Substitution) -> bool:
    """Whether the memory is behind something that the variable holds, as an element of a buffer is."""
    while isinstance(place, ast.Expression):
        form = place.ref
        if isinstance(form, (checked.Property, checked.Subscript)):
            declared = f.program.resolve(form.reference, seen).declaration
            refers = [x for x in getattr(declared, "accessors", ()) if x.name in ("ref", "__atomic")]
            if refers and all(is_nonmutating(each) for each in refers):
                return True
        place = place.inner if isinstance(place, ast.Paren) else getattr(form, "base", None)
    return False


# --- Lending ------------------------------------------------------------------------------------------


def places_to_lend(f: Frame, reference: DeclRef, signature: Signature) -> list[int]:
    """The numbers of the parameters that take memory of the caller."""
    acted = acted_on(f, reference)
    if not acted:
        return []
    keys: list[Key] = [THIS] if signature.has_this else []
    keys += declared_parameters(f.program, reference)
    pairs = enumerate(zip(keys, signature.parameters, strict=False))
    return [i for i, (key, p) in pairs if p.direction == "inout" and declaration_of(key) in acted]


def lend(f: Frame, reference: DeclRef, signature: Signature, places: list[Place]) -> Signature:
    """The function to call with these places, some of which become memory."""
    given: list[Type | None] = [None for _ in places]
    for i in places_to_lend(f, reference, signature):
        place = places[i].for_atomics(f)
        memory = in_memory(f, place)
        if memory is not None and _is_lent(f, reference, signature.parameters[i], signature):
            places[i], given[i] = memory, _form(memory)
        elif memory is not None or not place.is_own():
            places[i] = _refused(f, place, signature.parameters[i].name, reference)
        else:
            places[i] = place
    if not any(given):
        return f.lowering.function(reference, f)
    return f.lowering.lent(reference, tuple(given), f)


def refuse_copies(f: Frame, of: DeclRef, signature: Signature, places: list[Place]) -> None:
    """Report memory that would be copied for `fwd_diff(f)`, though f does atomic operations on that parameter."""
    acted = {each if each == THIS else each.name for each in acted_on(f, of)}  # type: ignore[attr-defined]
    for p, place in zip(signature.parameters, places, strict=False):
        if p.direction == "inout" and p.name in acted and not place.for_atomics(f).is_own():
            _refused(f, place, p.name, of)


def _refused(f: Frame, place: Place, name: str, of: DeclRef) -> Place:
    what = f"'{of.declaration.name}' does atomic operations on '{name}', which would be a copy here"
    return not_atomic(
        f, place, what, "pass a variable; or a pointer, or the buffer and an index, instead of an element"
    )


def _is_lent(f: Frame, reference: DeclRef, p: SignatureParameter, signature: Signature) -> bool:
    """Not where a derivative would have to follow, nor where the type decides at run time what is called."""
    given: checked.CustomDerivatives = f.program.derivatives(reference)
    custom = f.differentiable and any((given.forward, given.backward, given.primal_substitute, given.apply))
    carries = signature.differentiable and p.differentiable
    return not custom and not carries and dispatched(f.lowering, reference) is None


def _form(memory: Address) -> Type:
    pointer = memory.pointer.type
    return pointer if memory.guard is None else struct("lent", (("address", pointer), ("there", BOOL)))


def passed(f: Frame, p: SignatureParameter, place: Place) -> Value:
    """What goes in for a parameter that is lent."""
    memory = place.address(f)
    assert memory is not None
    if memory.guard is None:
        return memory.pointer
    return f.emit("make", memory.pointer, memory.guard, type=p.type)


def received(f: Frame, value: Value) -> Address:
    """The memory, in the function that it is lent to."""
    if not isinstance(value.type, Struct):
        return Address(value)
    return Address(f.emit("get", value, index=0), f.emit("get", value, index=1))
