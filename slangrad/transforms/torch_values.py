"""Torch tensors among the arguments of a transform, and derivatives and values in the form in which PyTorch has them.

    torch tensor (n, 3)      ->  Tensor (n, 3) with a copy      its derivative, Tensor (n, 3)  ->  torch tensor (n, 3)
    f of torch tensors       ->  values are torch tensors, too: Tensor (n,) of float3  ->  (n, 3), 2.0  ->  ()

Autograd does not see what happens here: torch.func and backward() go through calls themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.launchable import Launchable
from slangrad.check.model.types import Scalar
from slangrad.marshal import results
from slangrad.marshal.errors import CallError
from slangrad.marshal.plain import mapped
from slangrad.marshal.vectors import HostArray
from slangrad.tensors.tensor import Tensor
from slangrad.tensors.torch_types import host_array_of, is_torch_type, torch_tensor_of

Place = int | str
_NUMBERS = {"half": np.float16, "float": np.float32}


class Given:
    """A function and its arguments by position and name, with Tensors in the place of torch tensors."""

    def __init__(self, function: Function, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
        self._places: dict[Place, Any] = dict(enumerate(args))
        self._places.update(kwargs)
        given = self._places.values()
        self.is_torch = function.result_kind == results.TORCH or any(map(_holds_torch, given))
        self.values = {place: _without_torch(value, place, function) for place, value in self._places.items()}
        self.function = function.return_type(Tensor) if function.result_kind == results.TORCH else function

    def with_values(self, values: dict[Place, Any]) -> Given:
        """The same call with other values in these places."""
        made = copy(self)
        made.values = {**self.values, **values}
        return made

    def number(self, place: Place) -> int:
        """Which of all arguments it is."""
        return list(self.values).index(place)

    @property
    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Those by position, and those by name."""
        args = [value for place, value in self.values.items() if isinstance(place, int)]
        return tuple(args), {place: value for place, value in self.values.items() if isinstance(place, str)}

    def run(self, function: Function | None = None, result: Any = None) -> Any:
        """Call the function, or another one in its place."""
        args, kwargs = self.arguments
        kwargs |= {} if result is None else {"_result": result}
        return (function or self.function)(*args, **kwargs)

    def bound(self, function: Function | None = None, result: Any = None) -> Launchable:
        """How such a call is bound."""
        args, kwargs = self.arguments
        kwargs |= {} if result is None else {"_result": result}
        return (function or self.function).bound(*args, **kwargs)

    def derivatives(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """Derivatives by arguments, each in the form of its argument."""
        return {place: _in_form_of(self._places[place], each) for place, each in found.items()}

    def value(self, made: Any) -> Any:
        """What the function returned, or its tangent."""
        if not self.is_torch:
            return made
        if isinstance(made, (float, np.floating)):
            kind = self.bound().leaves[-1].type
            made = np.asarray(made, _NUMBERS.get(kind.name if isinstance(kind, Scalar) else "", np.float64))
        return as_torch(made)


def numbers_of(value: Any) -> Any:
    """A tangent or cotangent with arrays in the place of torch tensors."""
    if is_torch_type(type(value)):
        return _array_of(value, "a tangent or cotangent")
    return mapped(numbers_of, list(value) if isinstance(value, tuple) else value)


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
    return mapped(lambda each: _without_torch(each, place, function), value)


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
