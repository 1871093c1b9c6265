"""Containers that are bound as a whole to the tensor types of the standard library.

ITensor<float, 1>,     Tensor (7, 100)  ->  Tensor<float, 1>, one call dimension: each call gets a row
                                            with gradients, in `bwds`: DiffTensor<float, 1>, in `fwds`: TangentTensor
IDiffTensor<float, 1>, Tensor (n,)      ->  PrimalTensor<float, 1>; in `bwds` DiffTensor<float, 1>

uniform Tensor<float, 1> t;  uniform StridedIndex<1> t_at;    Tensor<float, 1> t_here = t; t_here._data += ...
where elements follow each other in the last dimension         t_here._strides[0] = 1;
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from slangrad.base.process.warn import warn
from slangrad.check.model.types import InterfaceType, ParameterType, StructType, Type
from slangrad.marshal.containers.buffers import standard_name
from slangrad.marshal.containers.memory import (
    GIVEN,
    PRIMAL_PART,
    TAKEN,
    Access,
    Contents,
    MemoryLeaf,
    Parts,
    doing,
)
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, StridedMemory, Use
from slangrad.marshal.protocol.marshal import Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Finder, KernelParameter, StreamSpec
from slangrad.marshal.protocol.patterns import consumed, from_elements, value_matches
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, PRIMAL, TANGENT, Role
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.marshal.simple.indices import INDEX_TYPES
from slangrad.tensors.elements.shape import MOST_ELEMENTS

WHOLE = "whole"
EVEN, UNEVEN = "e", "u"


@dataclass(slots=True, frozen=True)
class Family:
    """A concrete tensor type: its fields with their memories, and the accesses to these."""

    fields: tuple[tuple[str, str], ...]
    role: Role

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for _, part in self.fields)

    @property
    def is_plain(self) -> bool:
        """Whether it is its own memory, without a place for derivatives."""
        return self.fields[0][0] == ""

    def room(self, rank: int) -> int:
        """How many scalars of the argument block each memory takes."""
        return 1 + 2 * rank

    def scalars(self, memory: StridedMemory, rank: int) -> list[int]:
        """Of a memory: its address, which is left open, and sizes and strides of the last `rank` dimensions."""
        leading = len(memory.shape) - rank
        steps = [step // memory.item_size for step in memory.strides[leading:]]
        return [0, *memory.shape[leading:], *steps]


_READ, _WRITE, _BOTH = Role(reads=True), Role(writes=True), Role(reads=True, writes=True)
_P, _IN, _OUT = ("_primal.", PRIMAL_PART), ("_grad_in.", TAKEN), ("_grad_out.", GIVEN)

# fmt: off
FAMILIES: dict[str, Family] = {
    "Tensor":         Family((("", PRIMAL_PART),), _READ),
    "WTensor":        Family((("", PRIMAL_PART),), _WRITE),
    "RWTensor":       Family((("", PRIMAL_PART),), _BOTH),
    "AtomicTensor":   Family((("", PRIMAL_PART),), _BOTH),
    "PrimalTensor":   Family((_P,),                _READ),
    "WPrimalTensor":  Family((_P,),                _WRITE),
    "RWPrimalTensor": Family((_P,),                _BOTH),
    "DiffTensor":     Family((_P, _OUT),           Role(True, False, False, "add")),
    "WDiffTensor":    Family((_P, _IN),            Role(False, True, True)),
    "RWDiffTensor":   Family((_P, _IN, _OUT),      Role(True, True, True, "add")),
    "TangentTensor":   Family((_P, _IN),           Role(reads=True, takes=True)),
    "WTangentTensor":  Family((_P, _OUT),          Role(writes=True, gives="store")),
    "RWTangentTensor": Family((_P, _OUT),          Role(reads=True, writes=True, gives="store")),
    "CurvedTensor":    Family((_P, _IN, _OUT),     Role(reads=True, takes=True, gives="add")),
    "DiffSumTensor":   Family((_IN,),              Role(takes=True)),
}

VIEW_TYPES = ("TensorView", "DiffTensorView")  # of tensor_views.py

# The type to which an interface is bound, and its replacement for gradients by the mode of the call.
INTERFACES: dict[str, str] = {
    "ITensor":     "Tensor",       "IWTensor":     "WTensor",       "IRWTensor":     "RWTensor",
    "IDiffTensor": "PrimalTensor", "IWDiffTensor": "WPrimalTensor", "IRWDiffTensor": "RWPrimalTensor",
    "ISumTensor":  "AtomicTensor",
}
_DIFFERENTIATED: dict[str, dict[str, str]] = {
    PRIMAL:   {},
    BACKWARD: {"ITensor": "DiffTensor",    "IWTensor": "WDiffTensor",    "IRWTensor": "RWDiffTensor",
               "ISumTensor": "DiffSumTensor"},
    TANGENT:  {"ITensor": "TangentTensor", "IWTensor": "WTangentTensor", "IRWTensor": "RWTangentTensor"},
    HIGHER:   {"ITensor": "CurvedTensor"},
}
# fmt: on


def needs_write_access(wanted: Type, types: ProgramTypes) -> bool:
    """Whether a parameter is a tensor type, or has one as bound, that is written."""
    names = [standard_name(wanted)]
    for bound in types.bounds(wanted):
        if isinstance(bound, InterfaceType):
            names.append(INTERFACES.get(bound.declaration.name, ""))
    return any(name in FAMILIES and FAMILIES[name].role.writes for name in names)


def element_of(wanted: Type, types: ProgramTypes) -> Type | None:
    """The element type of a tensor parameter; None for other parameters."""
    if standard_name(wanted) in (*FAMILIES, *VIEW_TYPES) and isinstance(wanted, StructType):
        return wanted.inner
    for bound in types.bounds(wanted):
        if isinstance(bound, InterfaceType) and bound.declaration.name in INTERFACES:
            return bound.inner
    return None


def ways(contents: Contents, element: Type, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
    """The tensor types among those that `wanted` allows; T without such a bound may be a Tensor, too."""
    name = standard_name(wanted)
    if name in FAMILIES and isinstance(wanted, StructType):
        return _of_family(name, contents, element, wanted.arguments, types)
    bounds = [bound_type for bound_type in types.bounds(wanted) if isinstance(bound_type, InterfaceType)]
    ways_found: list[Way] = []
    for bound in bounds:
        if bound.declaration.name in INTERFACES:
            concrete = _concrete(bound.declaration.name, contents, element, types, mode)
            ways_found += _of_family(concrete, contents, element, bound.arguments[:2], types)
    if not bounds and isinstance(wanted, ParameterType):
        ways_found.append(Way(types.standard("Tensor", (element, contents.rank)), 0, WHOLE))
    return ways_found


def _concrete(name: str, contents: Contents, element: Type, types: ProgramTypes, mode: str) -> str:
    """The type to which an interface is bound. It takes the gradients that exist; "Diff" types need some in `bwds`."""
    plain = INTERFACES[name]
    needs_gradients = mode == BACKWARD and "Diff" in name
    if needs_gradients or _has_gradients(mode, FAMILIES[plain].role, contents, element, types):
        return _DIFFERENTIATED[mode].get(name.replace("Diff", ""), plain)
    return plain


def _has_gradients(mode: str, role: Role, contents: Contents, element: Type, types: ProgramTypes) -> bool:
    """Whether there are derivatives for the inputs or outputs of a role."""
    reads, writes = _ATTACHED[mode]
    attached = (role.reads and reads(contents)) or (role.writes and writes(contents))
    return attached and types.tangent(element) is not None


Test = Callable[[Contents], bool]

# Where derivatives are attached to what is read, and to what is written.
_ATTACHED: dict[str, tuple[Test, Test]] = {
    PRIMAL: (lambda c: False, lambda c: False),
    BACKWARD: (lambda c: c.has_out, lambda c: c.has_in),
    TANGENT: (lambda c: c.has_in, lambda c: c.has_out),
    HIGHER: (lambda c: c.has_in and c.has_out, lambda c: c.has_in),
}


def _of_family(
    name: str, contents: Contents, element: Type, arguments: tuple[Any, ...], types: ProgramTypes
) -> list[Way]:  # `arguments`: a type and a number
    pattern, rank = arguments
    if FAMILIES[name].role.writes and not contents.writable:
        return []
    if FAMILIES[name].fields[0] == _P and types.tangent(element) is None:
        return []
    ways = []
    for t in dict.fromkeys(from_elements(pattern, element)):
        dims = contents.rank - len(consumed(t, element) or ())
        own_rank = rank if isinstance(rank, int) and rank > 0 else dims
        if (value_matches(rank, own_rank) or rank == 0) and own_rank <= dims:
            ways.append(
                Way(types.standard(name, (t, own_rank)), dims - own_rank, WHOLE, int(t is not element))
            )
    return ways


@dataclass(slots=True, eq=False, kw_only=True)
class WholeTensor(MemoryLeaf):
    """A tensor, or for each call the part of one at its index; `own` is the rank of that part."""

    is_whole: ClassVar[bool] = True

    family: Family
    own: int
    loses: bool = False  # gradients, because of its type

    @property
    def content(self) -> Type | None:
        assert isinstance(self.type, StructType)
        return self.type.inner

    @property
    def seen_parts(self) -> Parts:
        return self.family.parts

    @property
    def has_place(self) -> bool:
        return not self.family.is_plain

    @property
    def is_plain_whole(self) -> bool:
        return self.family.is_plain

    def instead(self, mode: str) -> str:
        tangent = "tangent" if mode == TANGENT else ""
        advice = "" if self.loses else f", and pass a Tensor with {self.label}.with_grads({tangent})"
        return f"declare the parameter ITensor instead of {standard_name(self.type)}{advice}"

    def parameters(self, classes: str) -> list[KernelParameter]:
        rows = zip(classes, self.streams)
        return super(WholeTensor, self).parameters(classes) + [
            KernelParameter(f"{INDEX_TYPES[letter]}<{self.rank}>", stream.name) for letter, stream in rows
        ]

    def before(self, classes: str) -> list[str]:
        local = f"{self.name}_here"
        lines = [f"{spell_on_page(self.type)} {local} = {self.name};"]
        for (path, _), stream in zip(self.family.fields, self.streams):
            lines.append(f"{local}.{path}_data = {local}.{path}_data + {stream.name}.at(id);")
        for (path, _), form in zip(self.family.fields, classes[len(self.streams) :]):
            if form == EVEN:
                lines.append(f"{local}.{path}_strides[{self.own - 1}] = 1;")
        return lines

    def load(self) -> str:
        return f"{self.name}_here"

    def footprint(self, value: object) -> Footprint | None:
        memories = self.access.memories(value, self.seen_parts)
        if memories is not None and self.trailing:
            memories = self.merged(memories)
        if memories is None or not all(map(_counts_elements, memories)):
            return None
        for memory in memories:
            self._check_extent(memory)
        if self.loses:
            self._warn()
        family, room = self.family, self.family.room(self.own)
        footprint = self._moving(memories)
        footprint.fixed = {self.name: [n for memory in memories for n in family.scalars(memory, self.own)]}
        footprint.homes = [(type(value).__name__, memories[0].home)]
        footprint.uses = [
            Use(self.label, self.name, memory, **doing(self.role, part), at=i * room)
            for i, (part, memory) in enumerate(zip(family.parts, memories))
        ]
        return footprint

    def _moving(self, memories: list[StridedMemory]) -> Footprint:
        """How the part of a call moves from call to call."""
        leading = len(memories[0].shape) - self.own
        forms = "".join(map(_form_of, memories)) if self.own else ""
        if not self.streams:
            return Footprint(forms=forms)
        strides = [
            tuple(step // memory.item_size for step in memory.strides[:leading]) for memory in memories
        ]
        return Footprint(memories[0].shape[:leading], strides, forms=forms)

    def _warn(self) -> None:
        kind = f"I{standard_name(self.type)}".replace("Atomic", "RW")
        message = f"argument '{self.label}' has gradients, and a parameter of type '{self.type}' takes none: "
        message += f"declare it {kind}, or pass {self.label}.detach() if it is constant"
        warn(message)

    def _check_extent(self, memory: StridedMemory) -> None:
        if not has_numbers(memory):
            message = f"argument '{self.label}': a tensor parameter takes less than {MOST_ELEMENTS} elements"
            raise CallError("E1005", message)

    def finders(self) -> list[Finder]:
        room, parts = self.family.room(self.own), self.family.parts
        return [(self.name, i * room, self.access.address_of(part)) for i, part in enumerate(parts)]


def has_numbers(memory: StridedMemory) -> bool:
    """Whether a tensor parameter, which counts in 32 bits, has a number for each element of a memory."""
    span = sum((size - 1) * abs(step) for size, step in zip(memory.shape, memory.strides))
    return 0 in memory.shape or max(span // memory.item_size, *memory.shape, 0) < MOST_ELEMENTS


def _form_of(memory: StridedMemory) -> str:
    """Whether the elements of the last dimension follow each other, as of most tensors: the kernel then knows it."""
    return EVEN if memory.strides[-1] == memory.item_size or memory.shape[-1] == 1 else UNEVEN


def _counts_elements(memory: StridedMemory) -> bool:
    """Whether strides are whole elements."""
    return all(step % memory.item_size == 0 for step in memory.strides)


def bind(way: Way, spot: Spot, contents: Contents, described: str, access: Access) -> BoundNode:
    name = standard_name(way.type)
    family = FAMILIES[name]
    assert isinstance(way.type, StructType)
    element = None if contents.element is None else spot.types.lift(contents.element)
    trailing = () if element is None else consumed(way.type.inner, element) or ()
    _check_gradients(spot, family, name, way.type.inner, contents, described)
    rank = way.type.arguments[1]
    assert isinstance(rank, int)
    names = [f"{spot.name}{part}_at" for part in family.parts] if way.dims else []
    plain = spot.mode != PRIMAL and family.is_plain
    return WholeTensor(
        **spot.node(way.type, family.role, described, way.dims),
        access=access,
        family=family,
        own=rank,
        loses=plain and _has_gradients(spot.mode, family.role, contents, way.type.inner, spot.types),
        streams=tuple(StreamSpec(name, 1) for name in names),
        trailing=trailing,
    )


def _check_gradients(
    spot: Spot, family: Family, name: str, element: Type, contents: Contents, described: str
) -> None:
    may_lack = contents.gradients_may_lack and spot.mode == PRIMAL
    for part, is_present, which in ((TAKEN, contents.has_in, "input"), (GIVEN, contents.has_out, "output")):
        if part in family.parts and not is_present and not may_lack:
            message = (
                f"argument '{spot.label}': {described} has no {which} gradient, and this parameter requires "
            )
            message += f"a tensor with an associated {which} gradient"
            note = f"attach one: {spot.label} = {spot.label}.with_grads()"
            raise CallError("E1007", message, (), note)
    if TAKEN in family.parts and GIVEN in family.parts and contents.shared:
        raise shared_gradient(spot)
    if name == "RWTangentTensor" and contents.has_in and not contents.shared:
        message = f"argument '{spot.label}': tangents of a tensor that is read and written lie in one buffer"
        raise CallError("E1007", message, (), "tensor.with_grads(tangents)")
    refused = name in _OF_OTHER_MODES or (spot.mode == HIGHER and family.role.writes)
    if spot.mode not in (TANGENT, HIGHER) or not refused:
        return
    if _has_gradients(spot.mode, family.role, contents, element, spot.types):
        raise _carries_nothing(spot, name)


def shared_gradient(spot: Spot) -> CallError:
    message = (
        f"argument '{spot.label}': inout parameter gradients need separate buffers for inputs and outputs "
        "(see Tensor.with_grads)"
    )
    return CallError("E1007", message, (), "tensor.with_grads(grad_in=..., grad_out=...)")


# What has derivatives in reverse mode, or none.
_OF_OTHER_MODES = (
    "PrimalTensor",
    "WPrimalTensor",
    "RWPrimalTensor",
    "DiffTensor",
    "WDiffTensor",
    "RWDiffTensor",
)


def _carries_nothing(spot: Spot, name: str) -> CallError:
    if spot.mode == HIGHER and FAMILIES[name].role.writes:
        message = f"argument '{spot.label}': hvp goes through results of a function, not through tensors that it writes"
        return CallError("E1007", message, (), "return the value from the function")
    message = (
        f"argument '{spot.label}': {spot.mode} carries no derivatives through a parameter of type '{name}'"
    )
    note = f"declare it ITensor, or pass {spot.label}.detach() if it is constant"
    return CallError("E1007", message, (), note)
