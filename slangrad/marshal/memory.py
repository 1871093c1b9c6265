"""Where the memory of a container lies: the primal, and the derivatives that come in and go out.

In: a Tensor or a NumPy array.   Out: addresses (in every call), shapes and strides (once for each layout).

A leaf holds an Access and need not know which of the two it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from slangrad.ir import types as ir
from slangrad.marshal.marshal import Role, Shape
from slangrad.runtime.device import Device
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.tensor import Tensor

PRIMAL_PART, TAKEN, GIVEN = "", "_in", "_grad"
Parts = tuple[str, ...]


def parts_of(role: Role) -> Parts:
    """Which memories a role touches, as endings of names."""
    found: Parts = (PRIMAL_PART,) if role.reads or role.writes else ()
    found += (TAKEN,) if role.takes else ()
    return found + ((GIVEN,) if role.gives else ())


@dataclass(slots=True, frozen=True)
class Contents:
    """What binding a container depends on: it is in the key of a call."""

    element: ir.Type | None
    rank: int
    writable: bool = True
    has_in: bool = False
    has_out: bool = False
    shared: bool = False  # one buffer for the derivatives of both directions
    sizes: Shape = ()  # in the key of functions only that have arrays of any size as parameters
    gradients_may_lack: bool = False  # forward calls give empty ones to types that have a place for them


class Memory(NamedTuple):
    """Items in memory; strides in bytes."""

    address: int
    shape: Shape
    strides: Shape
    item_size: int

    @property
    def span(self) -> tuple[int, int]:
        """The bytes around the address that the items take."""
        if 0 in self.shape:
            return 0, 0
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides)]
        return sum(each for each in reach if each < 0), sum(
            each for each in reach if each > 0
        ) + self.item_size


class Access(ABC):
    """How a kind of container tells about its memory."""

    @abstractmethod
    def layout(self, value: Any, parts: Parts) -> Hashable:
        """What shapes and strides depend on."""

    @abstractmethod
    def memories(self, value: Any, parts: Parts) -> list[Memory]:
        """The memory of each part."""

    @abstractmethod
    def address_of(self, part: str) -> Callable[[Any], int]:
        """What finds the address of a part."""

    def usable(self, value: Any) -> bool:
        """Whether the kernel can work on this memory; if not, on a copy."""
        return True

    @abstractmethod
    def copy(self, value: Any, role: Role) -> Any:
        """The value, and the derivatives that its role touches, in fresh memory without gaps."""

    @abstractmethod
    def copy_back(self, copied: Any, value: Any, role: Role) -> None:
        """What the call wrote into a copy goes to the value."""


class ArrayAccess(Access):
    """NumPy arrays, which have no derivatives."""

    def layout(self, value: Any, parts: Parts) -> Hashable:
        return value.shape, value.strides, value.flags.aligned

    def memories(self, value: Any, parts: Parts) -> list[Memory]:
        return [Memory(address_of_array(value), value.shape, value.strides, value.dtype.itemsize)]

    def address_of(self, part: str) -> Callable[[Any], int]:
        return address_of_array

    def usable(self, value: Any) -> bool:
        aligned: bool = value.flags.aligned
        return aligned

    def copy(self, value: Any, role: Role) -> Any:
        return np.array(value, order="C")

    def copy_back(self, copied: Any, value: Any, role: Role) -> None:
        if role.writes:
            value[...] = copied


def home_of(value: Any) -> Device | None:
    """The device whose memory a value lies in; None for what is no device's."""
    if isinstance(value, Tensor):
        value = value.storage
    return value.runtime if isinstance(value, Buffer) else None


def address_of_array(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


_PARTS: dict[str, Callable[[Any], Any]] = {
    PRIMAL_PART: lambda tensor: tensor,
    TAKEN: attrgetter("_grad_in"),
    GIVEN: attrgetter("_grad_out"),
}
_ADDRESSES: dict[str, Callable[[Any], int]] = {
    PRIMAL_PART: attrgetter("address"),
    TAKEN: attrgetter("_grad_in.address"),
    GIVEN: attrgetter("_grad_out.address"),
}


class TensorAccess(Access):
    """Tensors with their gradients."""

    def layout(self, value: Any, parts: Parts) -> Hashable:
        if parts == (PRIMAL_PART,):
            return value.storage.runtime, tuple(value.shape), tuple(value.strides)
        strides = tuple(tuple(_PARTS[part](value).strides) for part in parts)
        return value.storage.runtime, tuple(value.shape), strides

    def memories(self, value: Any, parts: Parts) -> list[Memory]:
        return [memory_of(_PARTS[part](value)) for part in parts]

    def address_of(self, part: str) -> Callable[[Any], int]:
        return _ADDRESSES[part]

    def copy(self, value: Any, role: Role) -> Any:
        copied = without_gaps(value)
        if role.differentiates:
            taken = without_gaps(value.grad_in) if role.takes else None
            given = without_gaps(value.grad_out) if role.gives else None
            copied = copied.with_grads(grad_in=taken, grad_out=given, zero=False)
        return copied

    def copy_back(self, copied: Any, value: Any, role: Role) -> None:
        if role.writes:
            value.memory()[...] = copied.memory()
        if role.gives:
            value.grad_out.memory()[...] = copied.grad_out.memory()


def memory_of(tensor: Tensor) -> Memory:
    size = tensor.element_size
    return Memory(tensor.address, tuple(tensor.shape), tuple(step * size for step in tensor.strides), size)


def without_gaps(tensor: Tensor) -> Tensor:
    """A contiguous copy."""
    copied = Tensor.empty_like(tensor)
    copied.copy_from_numpy(np.ascontiguousarray(tensor.to_numpy()))
    return copied


ARRAY_ACCESS = ArrayAccess()
TENSOR_ACCESS = TensorAccess()
