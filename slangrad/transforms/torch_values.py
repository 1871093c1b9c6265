"""Torch tensors among the arguments of a transform, and derivatives and values in the form in which PyTorch has them.

    torch tensor (n, 3)      ->  Tensor (n, 3) with a copy      its derivative, Tensor (n, 3)  ->  torch tensor (n, 3)
    f of torch tensors       ->  values are torch tensors, too: Tensor (n,) of float3  ->  (n, 3), 2.0  ->  ()

Autograd does not see what happens here: torch.func and backward() go through calls themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.launchable import Launchable
from slangrad.check.model.types import Scalar
from slangrad.marshal import results
from slangrad.marshal.errors import CallError
from slangrad.marshal.vectors import HostArray
from slangrad.tensors.tensor import Tensor
from slangrad.tensors.torch_exchange import host_array_of, torch_tensor_of
from slangrad.tensors.torch_types import is_torch_type

_NUMBERS = {"half": np.float16, "float": np.float32}


class Given:
    """The arguments of a transform, with Tensors in the place of torch tensors, and the function for them."""

    def __init__(self, function: Function, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
        self._places: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
        given = self._places.values()
        self.is_torch = function.result_kind == results.TORCH or any(map(_holds_torch, given))
        made = {place: _without_torch(value, place, function) for place, value in self._places.items()}
        self.args = tuple(value for place, value in made.items() if isinstance(place, int))
        self.kwargs = {place: value for place, value in made.items() if not isinstance(place, int)}
        self.function = function.return_type(Tensor) if function.result_kind == results.TORCH else function

    def derivatives(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """Derivatives by arguments, each in the form of its argument."""
        return {place: _in_form_of(self._places[place], each) for place, each in found.items()}

    def value(self, made: Any, call: Launchable) -> Any:
        """What the function returned, or its tangent; `call` is the function with these arguments."""
        if not self.is_torch:
            return made
        if isinstance(made, (float, np.floating)):
            kind = call.leaves[-1].type
            made = np.asarray(made, _NUMBERS.get(kind.name if isinstance(kind, Scalar) else "", np.float64))
        return as_torch(made)


def numbers_of(value: Any) -> Any:
    """A tangent or cotangent with arrays in the place of torch tensors."""
    if is_torch_type(type(value)):
        return _array_of(value, "a tangent or cotangent")
    if isinstance(value, (list, tuple)):
        return [numbers_of(each) for each in value]
    if isinstance(value, dict):
        return {name: numbers_of(each) for name, each in value.items()}
    return value


def as_torch(made: Any) -> Any:
    """A value in PyTorch's form."""
    if isinstance(made, Tensor):
        return made.to_torch()
    if isinstance(made, HostArray):
        return torch_tensor_of(np.array(made.data))
    if isinstance(made, np.ndarray):
        return torch_tensor_of(made)
    return made


def _holds_torch(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_holds_torch, value))
    if isinstance(value, dict):
        return any(map(_holds_torch, value.values()))
    return is_torch_type(type(value))


def _without_torch(value: Any, place: Any, function: Function) -> Any:
    if is_torch_type(type(value)):
        array = _array_of(value, f"argument {place!r}")
        return Tensor.from_numpy(function.module.device, np.ascontiguousarray(array).reshape(array.shape))
    if isinstance(value, list):
        return [_without_torch(each, place, function) for each in value]
    if isinstance(value, dict):
        return {name: _without_torch(each, place, function) for name, each in value.items()}
    return value


def _array_of(tensor: Any, label: str) -> Any:
    try:
        return host_array_of(tensor, label)
    except ValueError as error:
        raise CallError("E1001", str(error)) from None
    except RuntimeError:
        message = f"{label}: a torch tensor of type {type(tensor).__name__} has no memory of its own"
        raise CallError("E1001", message, (), "torch.func goes through calls: torch.func.grad(f)") from None


def _in_form_of(given: Any, found: Any) -> Any:
    if is_torch_type(type(given)):
        return None if found is None else as_torch(found)
    if isinstance(given, dict) and isinstance(found, dict):
        return {name: _in_form_of(given.get(name), each) for name, each in found.items()}
    if isinstance(given, list) and isinstance(found, list):
        return [_in_form_of(own, each) for own, each in zip(given, found)]
    return found
