"""The memory of a container: the primal, and the incoming and outgoing derivatives.

In: a Tensor, a NumPy array, a torch tensor or a pair of these.   Out: addresses (in every call), shapes and strides
(once for each layout).

A leaf holds an Access, which is the same for all of these. PyTorch is not loaded here; methods of tensors suffice.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

import numpy as np

from slangrad.ir.data import types as ir
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Shape, StridedMemory
from slangrad.marshal.protocol.nodes import Find, Leaf
from slangrad.marshal.protocol.roles import Role
from slangrad.runtime.device import Device
from slangrad.tensors.buffer import Buffer
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.torch_types import TorchTensor, home_of_torch, is_torch_type
from slangrad.tensors.tensor import Tensor

PRIMAL_PART, TAKEN, GIVEN = "", "_in", "_grad"
Parts = tuple[str, ...]
Address = Callable[[HostValue], int]
Held = TypeVar("Held")


def parts_of(role: Role) -> Parts:
    """Which memories a role touches, as endings of names."""
    parts: Parts = (PRIMAL_PART,) if role.reads or role.writes else ()
    parts += (TAKEN,) if role.takes else ()
    return parts + ((GIVEN,) if role.gives else ())


@dataclass(slots=True, frozen=True)
class Contents:
    """The properties of a container on which its binding depends; they are in the key of a call."""

    element: ir.Type | None
    rank: int
    writable: bool = True
    has_in: bool = False
    has_out: bool = False
    shared: bool = False  # one buffer for the derivatives of both directions
    sizes: Shape = ()  # in the key of functions only that have arrays of any size as parameters
    gradients_may_lack: bool = False  # forward calls give empty ones to types that have a place for them


Doing = dict[str, bool]


def doing(role: Role, part: str, stores: bool = False) -> Doing:
    """The access of a call to the memory of one part. `stores`: derivatives that go out replace old values."""
    primal = part == PRIMAL_PART
    return {
        "reads": part == TAKEN or (primal and role.reads),
        "writes": (primal and role.writes) or (part == GIVEN and stores),
        "adds": part == GIVEN and not stores,
        "takes": part == TAKEN,
    }


class AccessTo(ABC, Generic[Held]):
    """Access to the memory of one kind of container."""

    @abstractmethod
    def layout_finder(self, parts: Parts) -> Find:
        """A function of a value, which returns the key of its shapes and strides."""

    @abstractmethod
    def memories(self, value: Held, parts: Parts) -> list[StridedMemory] | None:
        """The memory of each part; None where the kernel cannot work on it, only on a copy."""

    @abstractmethod
    def address_of(self, part: str) -> Address:
        """A function of a value, which returns the address of a part."""

    @abstractmethod
    def copy(self, value: Held, role: Role) -> Held:
        """The value, and the derivatives that its role touches, in fresh memory without gaps."""

    @abstractmethod
    def copy_back(self, copied: Held, value: Held, role: Role) -> None:
        """Copy the call's results from a copy to the value."""


Access = AccessTo[HostValue]  # to the values that a leaf is bound to


class ArrayAccess(AccessTo[AnyArray]):
    """NumPy arrays, which have no derivatives."""

    def layout_finder(self, parts: Parts) -> Find:
        return _layout_of_array

    def memories(self, value: AnyArray, parts: Parts) -> list[StridedMemory] | None:
        if not value.flags.aligned:
            return None
        return [StridedMemory(address_of_array(value), value.shape, value.strides, value.dtype.itemsize)]

    def address_of(self, part: str) -> Address:
        return address_of_array

    def copy(self, value: AnyArray, role: Role) -> AnyArray:
        return np.array(value, order="C")

    def copy_back(self, copied: AnyArray, value: AnyArray, role: Role) -> None:
        if role.writes:
            value[...] = copied


def as_tensor(label: str, described: str) -> str:
    """The text of a Tensor, or of a texture, with the values of an argument."""
    has_gradients = described.startswith("Tensor") or "Texture" in described
    return label if has_gradients else f"Tensor.from_numpy(device, {label})"


def home_of(value: HostValue) -> Device | str | None:
    """The device of a value's memory, "cuda:0" for PyTorch on that GPU; None for memory of the host."""
    if is_torch_type(type(value)):
        return home_of_torch(value)
    if isinstance(value, Tensor):
        value = value.storage
    return value.runtime if isinstance(value, Buffer) else None


def _layout_of_array(array: AnyArray) -> Hashable:
    return array.shape, array.strides, array.flags.aligned


def address_of_array(array: AnyArray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


_PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    PRIMAL_PART: lambda tensor: tensor,
    TAKEN: attrgetter("_grad_in"),
    GIVEN: attrgetter("_grad_out"),
}
_ADDRESSES: dict[str, Address] = {
    PRIMAL_PART: attrgetter("address"),
    TAKEN: attrgetter("_grad_in.address"),
    GIVEN: attrgetter("_grad_out.address"),
}


class AccessToTensor(AccessTo[Tensor]):
    """Tensors with their gradients."""

    def layout_finder(self, parts: Parts) -> Find:
        if parts == (PRIMAL_PART,):
            return attrgetter("layout")
        finders = [_PARTS[part] for part in parts]
        return lambda value: tuple([find(value).layout for find in finders])

    def memories(self, value: Tensor, parts: Parts) -> list[StridedMemory]:
        memories = []
        for part in parts:
            tensor = _PARTS[part](value)
            size = tensor.element_size
            steps = tuple([step * size for step in tensor.strides])
            memories.append(
                StridedMemory(tensor.address, tuple(tensor.shape), steps, size, tensor.storage.runtime)
            )
        return memories

    def address_of(self, part: str) -> Address:
        return _ADDRESSES[part]

    def copy(self, value: Tensor, role: Role) -> Tensor:
        copied = value.detach().copy()
        if role.differentiates:
            cotangents = _PARTS[TAKEN](value).copy() if role.takes else None
            gradient = _PARTS[GIVEN](value).copy() if role.gives else None
            copied = copied.with_grads(grad_in=cotangents, grad_out=gradient, zero=False)
        return copied

    def copy_back(self, copied: Tensor, value: Tensor, role: Role) -> None:
        if role.writes:
            value.put_numbers(copied.numbers())
        if role.gives:
            _PARTS[GIVEN](value).put_numbers(_PARTS[GIVEN](copied).numbers())


def is_texture_type(kind: type) -> bool:
    """Whether objects of a class are textures. None are before their module is loaded."""
    textures = sys.modules.get("slangrad.tensors.textures.texture")
    base = getattr(textures, "Texture", None)  # absent while the module is being loaded
    return isinstance(base, type) and issubclass(kind, base)


class AccessToTexture(AccessTo[HostValue]):
    """Textures, by the texels of their first level."""

    def layout_finder(self, parts: Parts) -> Find:
        return attrgetter("layout")

    def memories(self, value: HostValue, parts: Parts) -> list[StridedMemory] | None:
        return None if value.is_converted else TENSOR_ACCESS.memories(value.texels, parts)

    def address_of(self, part: str) -> Address:
        return _ADDRESSES[part]

    def copy(self, value: HostValue, role: Role) -> HostValue:
        return value.decoded() if value.is_converted else value.copy()

    def copy_back(self, copied: HostValue, value: HostValue, role: Role) -> None:
        if not value.is_converted:
            TENSOR_ACCESS.copy_back(copied.texels, value.texels, role)
        elif role.writes:
            value.put_values(copied)


ARRAY_ACCESS = ArrayAccess()
TENSOR_ACCESS = AccessToTensor()
TEXTURE_ACCESS = AccessToTexture()


class TorchAccess(AccessTo[TorchTensor]):
    """Torch tensors by themselves. The places of a type for derivatives are empty."""

    def layout_finder(self, parts: Parts) -> Find:
        return _layout_of_torch

    def memories(self, value: TorchTensor, parts: Parts) -> list[StridedMemory] | None:
        if value.is_neg():
            return None
        memory = memory_of_torch(value)
        nothing = memory._replace(address=0, shape=(0,) * len(memory.shape))
        return [memory if part == PRIMAL_PART else nothing for part in parts]

    def address_of(self, part: str) -> Address:
        return address_of_torch if part == PRIMAL_PART else no_address

    def copy(self, value: TorchTensor, role: Role) -> TorchTensor:
        return _copied(value)

    def copy_back(self, copied: TorchTensor, value: TorchTensor, role: Role) -> None:
        if role.writes:
            value.detach().copy_(copied)


class TorchCurve:
    """A torch tensor with the direction and the place of a derivative of its gradient."""

    __slots__ = ("grad", "primal", "tangent")

    def __init__(self, primal: TorchTensor, tangent: TorchTensor, grad: TorchTensor) -> None:
        self.primal = primal
        self.tangent = tangent
        self.grad = grad


class TorchPartsAccess(AccessTo[HostValue]):
    """Objects that hold torch tensors: `names` has the attribute of each part."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def layout_finder(self, parts: Parts) -> Find:
        names = [self._names[part] for part in parts]
        return lambda value: tuple([_layout_of_torch(getattr(value, name)) for name in names])

    def memories(self, value: object, parts: Parts) -> list[StridedMemory] | None:
        if any(getattr(value, name).is_neg() for name in self._names.values()):
            return None
        return [memory_of_torch(getattr(value, self._names[part])) for part in parts]

    def address_of(self, part: str) -> Address:
        name = self._names[part]
        return lambda value: address_of_torch(getattr(value, name))

    def copy(self, value: object, role: Role) -> object:
        return type(value)(**{name: _copied(getattr(value, name)) for name in {*self._names.values()}})

    def copy_back(self, copied: HostValue, value: HostValue, role: Role) -> None:
        if role.writes:
            value.primal.detach().copy_(copied.primal)
        if role.gives:
            value.grad.detach().copy_(copied.grad)


def _layout_of_torch(tensor: TorchTensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.is_neg()


def memory_of_torch(tensor: TorchTensor) -> StridedMemory:
    size = tensor.element_size()
    steps = tuple([step * size for step in tensor.stride()])
    return StridedMemory(address_of_torch(tensor), tuple(tensor.shape), steps, size, home_of_torch(tensor))


def address_of_torch(tensor: TorchTensor) -> int:
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # parts of batches, tensors without values
        address = 0
    if not address and tensor.numel():
        message = f"a torch tensor of type {type(tensor).__name__} has no memory of its own"
        note = "pass a plain torch.Tensor with the same values; of PyTorch's ways to make batches torch.func.vmap works"
        raise CallError("E1001", message, (), note)
    return address


def no_address(tensor: object) -> int:
    return 0


def _copied(tensor: TorchTensor) -> TorchTensor:
    """The same values without gaps; autograd does not see it."""
    return tensor.detach().resolve_neg().contiguous()


@dataclass(slots=True, eq=False, kw_only=True)
class MemoryLeaf(Leaf):
    """A leaf whose values have memory that the kernel uses as it lies. `trailing` sizes of a value make one
    element."""

    access: Access
    trailing: Shape = ()

    @property
    def seen_parts(self) -> Parts:
        """The memories that determine the launch."""
        raise NotImplementedError

    @property
    def is_tensor(self) -> bool:
        return self.access is TENSOR_ACCESS

    def layout_finder(self) -> Find:
        return self.access.layout_finder(self.seen_parts)

    def merged(self, memories: list[StridedMemory]) -> list[StridedMemory] | None:
        """Memories with their trailing dimensions as parts of elements; None where these have gaps."""
        for memory in memories:
            end = memory.shape[len(memory.shape) - len(self.trailing) :]
            if end != self.trailing:
                message = (
                    f"argument '{self.label}': in shape {memory.shape} the end, {end}, does not match the "
                )
                raise CallError("E1005", f"{message}expected shape {self.trailing} of '{self.content}'")
        merged = [_merged(memory, len(self.trailing)) for memory in memories]
        gapless = [memory for memory in merged if memory is not None]
        return gapless if len(gapless) == len(merged) else None

    def copy(self, value: object) -> object:
        return self.access.copy(value, self.role)

    def copy_back(self, copied: object, value: object) -> None:
        self.access.copy_back(copied, value, self.role)


def _merged(memory: StridedMemory, count: int) -> StridedMemory | None:
    """The memory with its last `count` dimensions as parts of elements; None where these have gaps."""
    size, rank = memory.item_size, len(memory.shape) - count
    for length, stride in zip(reversed(memory.shape[rank:]), reversed(memory.strides[rank:])):
        if stride != size and length > 1 and 0 not in memory.shape:
            return None
        size *= length
    return StridedMemory(memory.address, memory.shape[:rank], memory.strides[:rank], size, memory.home)


TORCH_ACCESS = TorchAccess()
# Of a pair the second tensor is the gradient that comes in or goes out, as the role says.
TORCH_PAIR_ACCESS = TorchPartsAccess({PRIMAL_PART: "primal", TAKEN: "grad", GIVEN: "grad"})
TORCH_CURVE_ACCESS = TorchPartsAccess({PRIMAL_PART: "primal", TAKEN: "tangent", GIVEN: "grad"})
