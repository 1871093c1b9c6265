"""Parameters that atomic operations act on: memory of the caller is lent to them, by its address.

void bump(inout uint x) { InterlockedAdd(x, 1); }

bump(b[i])      %p = offset %b, %i      call @bump %p          memory: the operation acts on it
bump(n)         %n1 = call @bump.1 %n                          a variable of the thread: copied in and out, as ever

The bodies of functions decide which parameters these are: by operations on them or on parts of them, by their
address, and by calls of functions that lend them on. All other parameters are values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from slangrad.check.generics.signatures import declared_parameters
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef, Substitution
from slangrad.ir.data.types import BOOL, Struct, Type, struct
from slangrad.ir.ops.core import Value
from slangrad.lower.model.addresses import GuardedAddress
from slangrad.lower.model.flow import THIS, Key, declaration_of
from slangrad.lower.model.frame import Acted, Frame, Place
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.places.places import MemoryPlace, NoPlace, in_memory, no_place
from slangrad.lower.places.variables import root_of_place
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

WRITTEN = ("inout", "ref")

# --- Which parameters ---------------------------------------------------------------------------------


NONE = Acted()


def acted_on(f: Frame, reference: DeclRef) -> Acted:
    """The uses of a function's parameters, its callees included."""
    if not _can_act(f, reference):
        return NONE
    answers = f.lowering.acting
    if reference.key not in answers:
        answers.update(_Search(f).of(reference))
    acted: Acted = answers[reference.key]
    return acted


def _can_act(f: Frame, reference: DeclRef) -> bool:
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    changes = info.this_type is not None and info.mutating
    return changes or any(f.program.info(parameter).direction in WRITTEN for parameter in info.parameters)


# A parameter, the function that takes it, and its number there.
Passed = tuple[Key, tuple[object, ...], Key]


@dataclass(slots=True)
class _Uses:
    """The facts about a function."""

    reference: DeclRef
    caller: _Uses | None
    atomically: set[Key] = field(default_factory=set)
    by_address: set[Key] = field(default_factory=set)
    passed: list[Passed] = field(default_factory=list)


class _Search:
    """A function and all that it passes parameters on to."""

    def __init__(self, f: Frame) -> None:
        self.f = f
        self.uses: dict[tuple[object, ...], _Uses] = {}
        self.todo: list[_Uses] = []

    def of(self, reference: DeclRef) -> dict[tuple[object, ...], Acted]:
        self._ask(reference, None)
        while self.todo:
            self._look_into(self.todo.pop())
        self._pass_on()
        return {
            key: Acted(frozenset(function.atomically), frozenset(function.by_address))
            for key, function in self.uses.items()
        }

    def _pass_on(self) -> None:
        """A use of a parameter is a use of the caller's parameter that was passed for it."""
        callers: dict[tuple[tuple[object, ...], Key], list[tuple[_Uses, Key]]] = defaultdict(list)
        for caller in self.uses.values():
            for parameter, of, key in caller.passed:
                callers[of, key].append((caller, parameter))
        for kind in ("atomically", "by_address"):
            todo = [(function, key) for function in self.uses.values() for key in getattr(function, kind)]
            while todo:
                callee, key = todo.pop()
                for caller, parameter in callers[callee.reference.key, key]:
                    if parameter not in getattr(caller, kind):
                        getattr(caller, kind).add(parameter)
                        todo.append((caller, parameter))

    def _ask(self, reference: DeclRef, caller: _Uses | None) -> tuple[object, ...]:
        if reference.key not in self.uses:
            function = self.uses[reference.key] = _Uses(reference, caller)
            if not self._is_endless(function):
                self.todo.append(function)
        return reference.key

    def _is_endless(self, function: _Uses) -> bool:
        """A generic that asks for instance after instance of itself is refused when it is lowered."""
        limits, depth = self.f.lowering.options.limits, 0
        above = function.caller
        while above is not None:
            depth += above.reference.declaration is function.reference.declaration
            above = above.caller
        return depth > limits.generic_depth or len(self.uses) > limits.instances

    def _look_into(self, function: _Uses) -> None:
        f, reference, declared = self.f, function.reference, function.reference.declaration
        info: checked.FunctionInfo = f.program.info(declared)
        key = dispatched(f.lowering, reference)
        if isinstance(key, ast.Interface):
            self._look_into_kinds(function, key)
        elif info.intrinsic is not None:
            function.atomically |= _place_of_intrinsic(f, info)
        elif getattr(declared, "body", None) is not None:
            f.program.check_body(declared)
            for node in walk(declared.body):
                if isinstance(node, ast.Expression) and node.ref is not None:
                    self._look_at(node.ref, reference.substitution, function)

    def _look_into_kinds(self, function: _Uses, key: ast.Interface) -> None:
        """A requirement called on a value whose type is known at run time only: all possible callees."""
        reference, parameters = function.reference, _keys(self.f, function.reference)
        for t in self.f.lowering.types.alternatives(reference.type_for(key)):
            meant = self.f.resolve(DeclRef(reference.declaration, {**reference.substitution, key: t}))
            if isinstance(self.f.program.info(meant.declaration), checked.FunctionInfo):
                callee = self._ask(meant, function)
                pairs = zip(parameters, _keys(self.f, meant), strict=False)
                function.passed += [(mine, callee, its) for mine, its in pairs]

    def _look_at(self, form: object, seen: Substitution, function: _Uses) -> None:
        f = self.f
        if isinstance(form, checked.AddressOf):
            function.by_address |= set(_root(f, form.place, seen))
        elif isinstance(form, checked.FunctionCall) and isinstance(form.function, DeclRef):
            resolved = f.program.resolve(form.function, seen)
            this = [form.this] if f.program.info(resolved.declaration).this_type is not None else []
            self._pass_parameters(function, resolved, [*this, *form.arguments], seen)
        elif isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)) and form.base is not None:
            resolved = f.program.resolve(form.reference, seen)
            for accessor in getattr(resolved.declaration, "accessors", ()):
                self._pass_parameters(function, DeclRef(accessor, resolved.substitution), [form.base], seen)

    def _pass_parameters(
        self, function: _Uses, callee: DeclRef, places: list[object], seen: Substitution
    ) -> None:
        """The parameters that a function passes on."""
        f = self.f
        if not _can_act(f, callee):
            return
        pairs = zip(_keys(f, callee), places, strict=False)
        rows = [
            (parameter, key)
            for key, place in pairs
            if _writes(f, callee, key)
            for parameter in _root(f, place, seen)
        ]
        if rows:
            to = self._ask(callee, function)
            function.passed += [(parameter, to, key) for parameter, key in rows]


def _writes(f: Frame, callee: DeclRef, key: Key) -> bool:
    if key == THIS:
        return bool(f.program.info(callee.declaration).mutating)
    assert isinstance(key, ast.ParameterDeclaration)
    return f.program.info(key).direction in WRITTEN


def _place_of_intrinsic(f: Frame, info: checked.FunctionInfo) -> set[Key]:
    """An atomic operation acts on `this`, or on the first of its arguments."""
    if info.intrinsic is None or not info.intrinsic.startswith("atomic."):
        return set()
    if info.this_type is not None:
        return {THIS}
    return {parameter for parameter in info.parameters[:1] if f.program.info(parameter).direction in WRITTEN}


def _keys(f: Frame, reference: DeclRef) -> list[Key]:
    """The parameters as they are passed, a pack once."""
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    return [*([] if info.this_type is None else [THIS]), *info.parameters]


def _root(f: Frame, place: object, seen: Substitution) -> Iterator[Key]:
    """The variable that a place is a part of, unless an accessor leads out of it."""
    key = root_of_place(place) if isinstance(place, (ast.Expression, checked.ThisValue)) else None
    if key is not None and not _leads_elsewhere(f, place, seen):
        yield key


def _leads_elsewhere(f: Frame, place: object, seen: Substitution) -> bool:
    """Whether the memory is behind something that the variable holds, as an element of a buffer is."""
    while isinstance(place, ast.Expression):
        form = place.ref
        if isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)):
            declared = f.program.resolve(form.reference, seen).declaration
            refers = [x for x in getattr(declared, "accessors", ()) if x.name in ("ref", "__atomic")]
            if refers and all(accessor.is_marked("nonmutating") for accessor in refers):
                return True
        place = place.inner if isinstance(place, ast.Paren) else getattr(form, "base", None)
    return False


# --- Lending ------------------------------------------------------------------------------------------


def lend(f: Frame, reference: DeclRef, signature: Signature, places: list[Place]) -> Signature:
    """The function to call with these places, some of which become memory."""
    acted = acted_on(f, reference)
    if acted == NONE:
        return f.lowering.function(reference, f)
    keys: list[Key] = [THIS] if signature.has_this else []
    keys += declared_parameters(f.program, reference)
    lent_types: list[Type | None] = [None for _ in places]
    for i, (key, p) in enumerate(zip(keys, signature.parameters, strict=False)):
        atomically = declaration_of(key) in acted.atomically
        if p.direction == "inout" and (atomically or declaration_of(key) in acted.by_address):
            lent = _lent(f, reference, signature, p, places[i], atomically)
            lent_types[i] = None if lent is None else _form(lent)
            places[i] = places[i] if lent is None else lent
    if not any(lent_types):
        return f.lowering.function(reference, f)
    return f.lowering.lent(reference, tuple(lent_types), f)


def _lent(
    f: Frame,
    reference: DeclRef,
    signature: Signature,
    p: SignatureParameter,
    argument: Place,
    atomically: bool,
) -> MemoryPlace | None:
    """The memory behind an argument; None where the argument is copied."""
    place = argument.for_atomics(f)
    memory, missing = in_memory(f, place), no_place(place)
    if memory is not None and _takes_memory(f, reference, p, signature):
        return memory
    if atomically and missing is not None:
        missing.report(f)
    elif atomically and not place.is_own():
        _refused(f, p, reference)
    return None


def refuse_copies(f: Frame, of: DeclRef, signature: Signature, places: list[Place]) -> None:
    """Report memory that would be copied for `fwd_diff(f)`, though f does atomic operations on that parameter."""
    acted = acted_on(f, of).atomically
    names = {key.name if isinstance(key, ast.ParameterDeclaration) else key for key in acted}
    for p, place in zip(signature.parameters, places, strict=False):
        if p.direction == "inout" and p.name in names and not place.for_atomics(f).is_own():
            _refused(f, p, of)


def _refused(f: Frame, p: SignatureParameter, of: DeclRef) -> None:
    reason = f"'{of.declaration.name}' does atomic operations on '{p.name}', which would be a copy here"
    note = "pass a variable; or a pointer, or the buffer and an index, instead of an element"
    NoPlace(f.b.zero(p.type), reason, note).report(f)


def _takes_memory(f: Frame, reference: DeclRef, p: SignatureParameter, signature: Signature) -> bool:
    """No parameters are lent if a derivative would have to follow, or if a run-time type decides the callee."""
    derivatives: checked.CustomDerivatives = f.program.derivatives(reference)
    custom = f.differentiable and any(
        (derivatives.forward, derivatives.backward, derivatives.primal_substitute, derivatives.apply)
    )
    carries = signature.differentiable and p.differentiable
    return not custom and not carries and dispatched(f.lowering, reference) is None


def _form(memory: GuardedAddress) -> Type:
    pointer = memory.pointer.type
    return pointer if memory.guard is None else struct("lent", (("address", pointer), ("there", BOOL)))


def passed(f: Frame, p: SignatureParameter, place: Place) -> Value:
    """The input of a parameter that is lent."""
    memory = place.address(f)
    assert memory is not None
    if memory.guard is None:
        return memory.pointer
    return f.emit("make", memory.pointer, memory.guard, type=p.type)


def received(f: Frame, value: Value) -> GuardedAddress:
    """The memory, in the function that it is lent to."""
    if not isinstance(value.type, Struct):
        return GuardedAddress(value)
    return GuardedAddress(f.emit("get", value, index=0), f.emit("get", value, index=1))
