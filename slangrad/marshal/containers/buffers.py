"""Whole memory as a structured buffer, a byte-address buffer or a pointer.

Buffer or Tensor to StructuredBuffer<float>  ->  { address, number of elements }
Buffer or Tensor to float*                   ->  { address }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.check.model.types import VOID, Nominal, PointerType, StructType, Type, is_abstract, nominal
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.containers.memory import address_of_array, address_of_torch, home_of
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, Shape, StridedMemory, Use
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Find, KernelParameter, Leaf, Setter
from slangrad.marshal.protocol.patterns import consumed, from_elements, pointers_to
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.torch_types import TorchTensor
from slangrad.tensors.tensor import Tensor

HANDLES = LazyModule("slangrad.marshal.containers.handles")
BUFFER, HANDLE = "buffer", "handle"
MOST = (1 << 32) - 1

# fmt: off
STRUCTURED: dict[str, bool] = {"StructuredBuffer": False, "RWStructuredBuffer": True}    # name: written?
BYTES:      dict[str, bool] = {"ByteAddressBuffer": False, "RWByteAddressBuffer": True}
# fmt: on


def standard_name(t: Type) -> str:
    """The name of a type that the standard library declares; empty for all other types."""
    if not isinstance(t, Nominal) or not t.declaration.span.source.is_library:
        return ""
    name: str = t.declaration.name
    return name


def handle_ways(wanted: Type) -> list[Way]:
    """As the handle of the resource, which has no dimensions."""
    is_handle = standard_name(wanted) == "DescriptorHandle" and not wanted.abstract
    return [Way(wanted, 0, HANDLE)] if is_handle else []


def ways(element: Type | None, writable: bool, wanted: Type) -> Iterable[Way]:
    """`element` is None where the memory has no type of its own."""
    name = standard_name(wanted)
    if name in STRUCTURED and (writable or not STRUCTURED[name]):
        yield from (Way(t, 0, BUFFER, _consumes(t, element)) for t in _structured(wanted, element))
    elif name in BYTES and (writable or not BYTES[name]):
        yield Way(wanted, 0, BUFFER)
    elif isinstance(wanted, PointerType):
        yield from (Way(t, 0, BUFFER) for t in _pointers(wanted, element))


def _structured(wanted: Type, element: Type | None) -> Iterable[Type]:
    assert isinstance(wanted, StructType)
    pattern = wanted.inner
    if element is None or _is_atomic(pattern, element):
        return [] if is_abstract(pattern) else [wanted]
    return [nominal(wanted.declaration, (t,)) for t in dict.fromkeys(from_elements(pattern, element))]


def _consumes(t: Type, element: Type | None) -> int:
    """Whether elements are made of the last dimensions; other ways come first."""
    assert isinstance(t, StructType)
    inner = t.inner
    return int(element is not None and inner is not element and not _is_atomic(inner, element))


def _is_atomic(pattern: Type, element: Type | None) -> bool:
    """Whether `pattern` is Atomic<element>, which lies in memory as the element does."""
    return standard_name(pattern) == "Atomic" and getattr(pattern, "arguments", ()) == (element,)


def _pointers(wanted: PointerType, element: Type | None) -> Iterable[Type]:
    untyped = element is None or wanted.element is VOID or _is_atomic(wanted.element, element)
    if untyped and not wanted.abstract:
        return [wanted]
    return [] if element is None else pointers_to(wanted, element)


@dataclass(slots=True, eq=False, kw_only=True)
class BufferLeaf(Leaf):
    """Address and, but for pointers, the number of elements; each of `size` bytes."""

    is_whole: ClassVar[bool] = True

    size: int
    counted: bool
    written: bool
    trailing: tuple[int, ...] = ()  # the sizes of the last dimensions that make an element
    bounded: bool = False  # check mode: the kernel gets the bytes behind each pointer

    @property
    def content(self) -> Type | None:
        return None

    def parameters(self, classes: str) -> list[KernelParameter]:
        bounds = [KernelParameter("uint64_t", f"{self.name}_bytes")] if self.bounded else []
        return super(BufferLeaf, self).parameters(classes) + bounds

    @property
    def may_write(self) -> bool:
        return self.written

    def guard(self) -> None:
        self.bounded = not self.counted

    def layout_finder(self) -> Find:
        return self._home_and_size

    def _home_and_size(self, value: HostValue) -> tuple[object, int]:
        """The size counts where it is part of the footprint."""
        home = home_of(value)
        return home, self._find(value)[1] if self.counted or home is None else 0

    def footprint(self, value: HostValue) -> Footprint:
        """The memory of a buffer. A pointer into a device has none: the function itself decides which elements it
        touches. Memory of the host goes to devices that do not reach it as a whole."""
        home = home_of(value)
        homes = [(type(value).__name__, home)]
        if not self.counted and home is not None:
            return Footprint(homes=homes)
        address, size = self._find(value)
        memory = StridedMemory(address, (size,), (1,), 1, home)
        by_pointer = not self.counted
        use = Use(self.label, self.name, memory, reads=True, writes=self.written, by_pointer=by_pointer)
        return Footprint(uses=[use], homes=homes)

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        setters: dict[str, Setter] = {self.name: self._put}
        return setters | {f"{self.name}_bytes": self._put_size} if self.bounded else setters

    def _put_size(self, values: list[object], place: int, value: object, scratch: object) -> None:
        values[place] = self._find(value)[1]

    def _put(self, values: list[object], place: int, value: object, scratch: object) -> None:
        address, size = self._find(value)
        values[place] = address
        if self.counted:
            values[place + 1] = min(size // self.size if self.size else 0, MOST)

    def _find(self, value: HostValue) -> tuple[int, int]:
        """Address and bytes."""
        end = tuple(value.shape)[-len(self.trailing) :] if self.trailing else ()
        if end != self.trailing:
            message = f"argument '{self.label}': the shape ends in {end}, and elements of '{self.type}' need "
            raise CallError("E1005", f"{message}{self.trailing}")
        find = next((_MEMORY[kind] for kind in type(value).__mro__ if kind in _MEMORY), _of_torch)
        address_and_size = find(value)
        if address_and_size is None:
            message = f"argument '{self.label}': {self.described} with gaps cannot be a '{self.type}'"
            raise CallError("E1005", message, (), "pass a copy: tensor.copy() or np.ascontiguousarray()")
        return address_and_size


Range = tuple[int, int] | None


def _of_buffer(buffer: Buffer) -> Range:
    return buffer.address, buffer.size


def _of_tensor(tensor: Tensor) -> Range:
    if not tensor.is_contiguous():
        return None
    return tensor.address, tensor.element_count * tensor.element_size


def _of_torch(tensor: TorchTensor) -> Range:
    if not tensor.is_contiguous() or tensor.is_neg():
        return None
    return address_of_torch(tensor), tensor.numel() * tensor.element_size()


def _of_array(array: np.ndarray) -> Range:
    if not array.flags.c_contiguous or not array.flags.aligned:
        return None
    return address_of_array(array), array.nbytes


def bind(way: Way, spot: Spot, described: str, element: Type | None = None) -> BoundNode:
    """`element`: of a container with dimensions."""
    name = standard_name(way.type)
    made_of = way.type.inner if name in STRUCTURED and isinstance(way.type, StructType) else None
    trailing = None if made_of is None or element is None else consumed(made_of, element)
    return BufferLeaf(
        **spot.node(way.type, spot.role.without_derivative(), described),
        size=_element_size(way.type, spot.types),
        counted=not isinstance(way.type, PointerType),
        written=STRUCTURED.get(name, BYTES.get(name, True)),
        trailing=trailing or (),
    )


def _element_size(t: Type, types: ProgramTypes) -> int:
    if not isinstance(t, StructType) or not t.arguments:
        return 1
    lowered = types.lower(t.inner)
    return layout_of(lowered).size if lowered is not None else 1


class BufferMarshal(Marshal):
    """A Buffer; its element type may be unknown."""

    def __init__(self, buffer: Buffer) -> None:
        self.element = buffer.element_type
        self.writable = buffer.writable
        self.described = "Buffer" if buffer.writable else "read-only Buffer"

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        untyped = handle_ways(wanted) or list(ways(None, self.writable, wanted))
        if untyped or self.element is None:
            return untyped
        element = types.lift(self.element)
        return [] if element is None else ways(element, self.writable, wanted)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        return f"Buffer[rw={self.writable}] does not match slang type {wanted}"

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        bound: BoundNode = (HANDLES.bind if way.how == HANDLE else bind)(way, spot, self.described)
        return bound


_MEMORY: dict[type, Callable[[HostValue], Range]] = {
    Buffer: _of_buffer,
    Tensor: _of_tensor,
    np.ndarray: _of_array,
}
