"""Single values that a call can write: `ValueRef`, `diffPair`, the result of a call without dimensions; a torch
tensor with the tensor of its gradient.

c = intRef();  f(5, 10, c);  c.value               # an `out` parameter
a = diffPair(5.0);  f.bwds(a, diffPair(d=1.0));  a.grad
f.bwds(diff_pair(x, x_grad), _result=diff_pair(y, y_grad))

Each has some bytes in the scratch memory of the call:

    out int c, c = intRef()    ->  uniform RepeatedElements<int, 1> c   c.store(id, c_value)   c.value = 15
    a = diffPair(5.0) in bwds  ->  uniform float a,  uniform RepeatedElements<float, 1> a_grad   a.grad = ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from slangrad.check.model.types import Type
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.containers.elements import ELEMENT_TYPES
from slangrad.marshal.containers.memory import GIVEN, PRIMAL_PART, TAKEN, is_texture_type
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import decode, encode, memory_format
from slangrad.marshal.host.footprint import Shape
from slangrad.marshal.host.vectors import HostArray
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, KernelParameter, Leaf, Scratch, Setter, StreamSpec
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import BACKWARD, HIGHER, Role
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.marshal.simple.enums import Names, named, names_in
from slangrad.marshal.simple.plain import mapped, plain_setter
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.torch_types import is_torch_type
from slangrad.tensors.tensor import Tensor


class ValueRef:
    """A place for one value, which `out` and `inout` parameters write: `value` is it, before and after the call."""

    __slots__ = ("value",)

    def __init__(self, value: HostValue = None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"ValueRef({self.value!r})"


def intRef(value: int = 0) -> ValueRef:
    """A ValueRef that holds a whole number."""
    return ValueRef(int(value))


def floatRef(value: float = 0.0) -> ValueRef:
    """A ValueRef that holds a float."""
    return ValueRef(float(value))


class PrimType(Enum):
    """The half of a pair."""

    primal = 0
    derivative = 1


class DiffPair:
    """A value with its derivative, `primal` and `grad`. As an argument of `bwds`, `grad` of an input gets the
    derivative (unless `needs_grad` is False), and `grad` of an output is read; in `fwds` it is the tangent. A half
    that is left out is zero, of the other's type."""

    __slots__ = ("grad", "needs_grad", "primal")

    def __init__(self, primal: HostValue = None, grad: HostValue = None, needs_grad: bool = True) -> None:
        self.primal = _beside(grad, float) if primal is None else primal
        self.grad = _beside(self.primal, type(self.primal)) if grad is None else grad
        self.needs_grad = needs_grad

    @property
    def value(self) -> HostValue:
        """The same as `primal`."""
        return self.primal

    @value.setter
    def value(self, value: object) -> None:
        self.primal = value

    def get(self, half: PrimType) -> HostValue:
        """`primal` or `grad`."""
        return self.primal if half is PrimType.primal else self.grad

    def set(self, half: PrimType, value: object) -> None:
        """Change `primal` or `grad`."""
        setattr(self, "primal" if half is PrimType.primal else "grad", value)

    @property
    def slangpy_signature(self) -> str:
        """The part of the value that a kernel depends on."""
        return f"[{type(self.primal).__name__},{type(self.grad).__name__},{self.needs_grad}]"

    def __repr__(self) -> str:
        return f"diffPair({self.primal!r}, {self.grad!r})"


def _beside(other: HostValue, kind: HostValue) -> HostValue:
    """The default half of a pair beside `other`: a zero, for a torch tensor zeros of its shape."""
    if is_torch_type(type(other)):
        return other.detach().new_zeros(other.shape)
    return kind.zeros() if hasattr(kind, "zeros") else kind()


def diff_pair(primal: object = None, grad: object = None) -> DiffPair:
    """A torch tensor (or a number) with its gradient: `bwds` adds to those of inputs, and reads those of outputs."""
    return DiffPair(primal, grad)


def diffPair(p: object = None, d: object = None, needs_grad: bool = True) -> DiffPair:
    """A DiffPair of a value and its derivative."""
    return DiffPair(p, d, needs_grad)


def floatDiffPair(p: float = 0.0, d: float = 1.0, needs_grad: bool = True) -> DiffPair:
    """A DiffPair of two floats, with the derivative 1 where none is given."""
    return DiffPair(float(p), float(d), needs_grad)


def snapshot(value: HostValue, of_tensor: Callable[[Tensor], Tensor] | None = None) -> HostValue:
    """A snapshot of the value. `of_tensor` copies tensors; without it they only lose gradients."""
    if isinstance(value, Tensor):
        return value.detach().copy() if of_tensor is None else of_tensor(value)
    if is_texture_type(type(value)):
        return value.detach().copy()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, HostArray):
        return type(value).of(value.data.copy())
    if is_torch_type(type(value)):
        return value.contiguous() if 0 in value.stride() else value.clone()
    if isinstance(value, ValueRef):
        return ValueRef(snapshot(value.value, of_tensor))
    if isinstance(value, DiffPair):
        return DiffPair(value.primal, value.grad, value.needs_grad)
    return mapped(lambda inner: snapshot(inner, of_tensor), value)


ALIGNMENT = 16


@dataclass(slots=True, frozen=True)
class CellPart:
    """A part of a cell: its type, how it is found in the Python value (None: zero) and put back there."""

    suffix: str
    checked: Type
    lowered: ir.Type
    in_memory: bool
    get: Callable[[HostValue], HostValue] | None = None
    put: Callable[[HostValue, HostValue], None] | None = None
    names: Names = ()  # of enums in it


@dataclass(slots=True, eq=False, kw_only=True)
class Cell(Leaf):
    """One value with up to three parts: parts that are only read are uniform, the others lie in scratch memory."""

    is_cell: ClassVar[bool] = True
    has_elements: ClassVar[bool] = True

    parts: tuple[CellPart, ...]
    offsets: tuple[int, ...] = ()

    def parameters(self, classes: str) -> list[KernelParameter]:
        return [KernelParameter(self._declared(part), self.name + part.suffix) for part in self.parts]

    def _declared(self, part: CellPart) -> str:
        if part.in_memory:
            return f"{ELEMENT_TYPES['r']}<{spell_on_page(part.checked)}, {self.rank}>"
        return spell_on_page(part.checked)

    def load(self) -> str:
        return self._read(PRIMAL_PART)

    def take(self) -> str:
        return self._read(TAKEN)

    def _read(self, suffix: str) -> str:
        part = next(candidate for candidate in self.parts if candidate.suffix == suffix)
        return f"{self.name}{suffix}" + (".load(id)" if part.in_memory else "")

    def store(self, value: str) -> str:
        return f"{self.name}.store(id, {value});"

    def give(self, value: str, alone: bool) -> str:
        word = "store" if self.role.gives == "store" else "add"
        return f"{self.name}{GIVEN}.{word}(id, {value});"

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        setters = {}
        for part, offset in zip(self.parts, self._offsets()):
            if part.in_memory:
                setters[self.name + part.suffix] = _cell_setter(part, offset, self.label)
            else:
                setters[self.name + part.suffix] = plain_setter(part.lowered, part.get, self.label)
        return setters

    def _offsets(self) -> list[int]:
        offsets, at = [], self.scratch_at
        for part in self.parts:
            offsets.append(at)
            at += _room(part.lowered) if part.in_memory else 0
        return offsets

    def finish(self, value: object, scratch: Scratch) -> HostValue:
        for part, offset in zip(self.parts, self._offsets()):
            if part.put is None:
                continue
            written = decode(part.lowered, scratch.memory, offset)
            part.put(value, named(part.names, written) if part.names else written)
        return value


def _room(t: ir.Type) -> int:
    return -(-layout_of(t).size // ALIGNMENT) * ALIGNMENT


def _cell_setter(part: CellPart, offset: int, label: str) -> Setter:
    pack = memory_format(part.lowered)
    nothing = bytes(pack.size)

    def put(values: list[object], place: int, value: object, scratch: Scratch) -> None:
        values[place] = scratch.address + offset
        if part.get is None:
            scratch.memory[offset : offset + pack.size] = nothing
        else:
            pack.pack_into(scratch.memory, offset, *encode(part.lowered, part.get(value), label))

    return put


def make_cell(spot: Spot, t: Type, role: Role, described: str, parts: Iterable[CellPart]) -> Cell:
    kept = tuple(parts)
    return Cell(
        **spot.node(t, role, described),
        parts=kept,
        scratch=sum(_room(part.lowered) for part in kept if part.in_memory),
        streams=tuple(
            StreamSpec(spot.name + part.suffix, layout_of(part.lowered).size, fixed=True)
            for part in kept
            if part.in_memory
        ),
    )


class ValueRefMarshal(Marshal):
    """A ValueRef around a value whose own marshal is `inner`; None while it is empty."""

    def __init__(self, inner: Marshal | None) -> None:
        self.inner = inner
        self.described = "ValueRef" if inner is None else f"ValueRef of {inner.described}"

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        if self.inner is None:
            return [] if types.lower(wanted) is None else [Way(wanted, 0)]
        return [Way(way.type, 0) for way in self.inner.ways(wanted, types, mode) if way.dims == 0]

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        lowered = spot.types.lower(way.type)
        assert lowered is not None
        if spot.role.takes and (spot.mode == BACKWARD or (spot.mode == HIGHER and not spot.role.reads)):
            message = f"argument '{spot.label}': a ValueRef has no gradient, and bwds reads one here"
            raise CallError("E1007", message, (), "pass diffPair(p, d) or a Tensor with gradients")
        role = spot.role.without_derivative()
        get = get_value if role.reads or self.inner is not None else None
        put = set_value if role.writes else None
        names = names_in(way.type, spot.types)
        parts = [CellPart(PRIMAL_PART, way.type, lowered, role.writes, get, put, names)]
        return make_cell(spot, way.type, role, self.described, parts if role.reads or role.writes else [])


def get_value(ref: ValueRef) -> HostValue:
    return ref.value


def set_value(ref: ValueRef, value: object) -> None:
    ref.value = value


class DiffPairMarshal(Marshal):
    """A value with its derivative."""

    def __init__(self, inner: Marshal, needs_grad: bool) -> None:
        self.inner = inner
        self.needs_grad = needs_grad
        self.described = f"diffPair of {inner.described}"

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        return [Way(way.type, 0) for way in self.inner.ways(wanted, types, mode) if way.dims == 0]

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        lowered = spot.types.lower(way.type)
        assert lowered is not None
        role = spot.role
        if not self.needs_grad and not role.takes:
            role = role.without_derivative()
        parts = []
        if role.reads or role.writes:
            put = set_primal if role.writes else None
            parts.append(CellPart(PRIMAL_PART, way.type, lowered, role.writes, get_primal, put))
        tangent = spot.types.tangent(way.type) if role.differentiates else None
        below = None if tangent is None else spot.types.lower(tangent)
        if tangent is not None and below is not None:
            if role.takes:
                parts.append(CellPart(TAKEN, tangent, below, False, get_grad))
            if role.gives:
                parts.append(CellPart(GIVEN, tangent, below, True, None, set_grad))
        return make_cell(spot, way.type, role, self.described, parts)


def get_primal(pair: DiffPair) -> HostValue:
    return pair.primal


def set_primal(pair: DiffPair, value: object) -> None:
    pair.primal = value


def get_grad(pair: DiffPair) -> HostValue:
    """The derivative; None, which is zero, for a dict's that was not given."""
    grad = pair.grad
    return None if type(grad) is dict and not grad else grad


def set_grad(pair: DiffPair, value: object) -> None:
    pair.grad = value
