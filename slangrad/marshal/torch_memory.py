"""Where the memory of torch tensors lies: their own, with their strides, and that of gradients in a `diff_pair`.

x of (4, 3), transposed  ->  address x.data_ptr(), shape (3, 4), strides in bytes (4, 12)

PyTorch itself is not loaded here; tensors answer all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from slangrad.marshal.errors import CallError
from slangrad.marshal.marshal import Role
from slangrad.marshal.memory import GIVEN, PRIMAL_PART, TAKEN, Access, Memory, Parts


class TorchAccess(Access):
    """Torch tensors by themselves. Derivatives that a type has a place for are empty."""

    def layout(self, value: Any, parts: Parts) -> Hashable:
        return _layout(value)

    def memories(self, value: Any, parts: Parts) -> list[Memory]:
        own = memory_of_torch(value)
        nothing = Memory(0, (0,) * len(own.shape), own.strides, own.item_size)
        return [own if part == PRIMAL_PART else nothing for part in parts]

    def address_of(self, part: str) -> Callable[[Any], int]:
        return address_of_torch if part == PRIMAL_PART else no_address

    def usable(self, value: Any) -> bool:
        return not value.is_neg()

    def copy(self, value: Any, role: Role) -> Any:
        return _copied(value)

    def copy_back(self, copied: Any, value: Any, role: Role) -> None:
        if role.writes:
            value.detach().copy_(copied)


class TorchCurve:
    """A torch tensor with the direction and the place of a derivative of its gradient."""

    __slots__ = ("grad", "primal", "tangent")

    def __init__(self, primal: Any, tangent: Any, grad: Any) -> None:
        self.primal = primal
        self.tangent = tangent
        self.grad = grad


class TorchPartsAccess(Access):
    """Objects that hold torch tensors: `names` tells which of them each part is."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def layout(self, value: Any, parts: Parts) -> Hashable:
        return tuple([_layout(getattr(value, self._names[part])) for part in parts])

    def memories(self, value: Any, parts: Parts) -> list[Memory]:
        return [memory_of_torch(getattr(value, self._names[part])) for part in parts]

    def address_of(self, part: str) -> Callable[[Any], int]:
        name = self._names[part]
        return lambda value: address_of_torch(getattr(value, name))

    def usable(self, value: Any) -> bool:
        return not any(getattr(value, name).is_neg() for name in self._names.values())

    def copy(self, value: Any, role: Role) -> Any:
        return type(value)(**{name: _copied(getattr(value, name)) for name in {*self._names.values()}})

    def copy_back(self, copied: Any, value: Any, role: Role) -> None:
        if role.writes:
            value.primal.detach().copy_(copied.primal)
        if role.gives:
            value.grad.detach().copy_(copied.grad)


def _layout(tensor: Any) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.is_neg()


def memory_of_torch(tensor: Any) -> Memory:
    size = tensor.element_size()
    steps = tuple([step * size for step in tensor.stride()])
    return Memory(address_of_torch(tensor), tuple(tensor.shape), steps, size)


def address_of_torch(tensor: Any) -> int:
    try:
        address: int = tensor.data_ptr()
    except RuntimeError:  # parts of batches, tensors without values
        address = 0
    if not address and tensor.numel():
        message = f"a torch tensor of type {type(tensor).__name__} has no memory of its own"
        note = "pass a plain torch.Tensor with the same values; of PyTorch's ways to make batches torch.func.vmap works"
        raise CallError("E1001", message, (), note)
    return address


def no_address(tensor: Any) -> int:
    return 0


def _copied(tensor: Any) -> Any:
    """The same values without gaps; autograd does not see it."""
    return tensor.detach().resolve_neg().contiguous()


TORCH_ACCESS = TorchAccess()
# Of a pair the second tensor is the gradient that comes in or goes out, as the role says.
TORCH_PAIR_ACCESS = TorchPartsAccess({PRIMAL_PART: "primal", TAKEN: "grad", GIVEN: "grad"})
TORCH_CURVE_ACCESS = TorchPartsAccess({PRIMAL_PART: "primal", TAKEN: "tangent", GIVEN: "grad"})
