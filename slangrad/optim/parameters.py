"""Parameters as an optimizer sees them: numbers in memory, whatever vectors or strides they are in.

Tensor (5,) of float3, strides (2,)  ->  numbers (5, 3) of float, strides (6, 1), over the same memory
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from slangrad.ir.types import Type
from slangrad.marshal.errors import CallError
from slangrad.tensors.element_types import element_type, holds_structs, numpy_layout, slang_name
from slangrad.tensors.shape import contiguous_strides
from slangrad.tensors.tensor import Tensor

CODE = "E1032"


@dataclass(slots=True)
class Parameter:
    """`numbers` is the tensor itself, number by number; `kind` their type's name, `computed` that of state."""

    label: str
    tensor: Tensor
    numbers: Tensor
    kind: str
    computed: Type


def parameters_of(given: Any) -> list[Parameter]:
    """Checked, so that no number is changed twice in a step."""
    if isinstance(given, Tensor) or not isinstance(given, Iterable):
        note = "one tensor alone is a list of one: [x]"
        raise CallError(CODE, f"parameters: expected a list of tensors, not {type(given).__name__}", (), note)
    named = given.items() if isinstance(given, dict) else enumerate(given)
    found = [_parameter(f"parameter {name!r}", each) for name, each in named]
    if not found:
        raise CallError(CODE, "parameters: there are none")
    for i, first in enumerate(found):
        for second in found[i + 1 :]:
            if _overlap(first.tensor, second.tensor):
                raise CallError(
                    "E1008", f"{first.label} and {second.label} overlap in memory: both would be changed"
                )
    return found


def _parameter(label: str, tensor: Any) -> Parameter:
    if not isinstance(tensor, Tensor):
        raise CallError(CODE, f"{label}: expected a Tensor, not {type(tensor).__name__}")
    if not is_floating(tensor.element_type):
        message = (
            f"{label}: elements of type '{slang_name(tensor.element_type)}' are no floating-point numbers"
        )
        raise CallError(
            CODE, message, (), "parameters are of half, float or double, or vectors and arrays of these"
        )
    if not tensor.writable:
        raise CallError(
            CODE, f"{label}: the tensor is read-only", (), "it needs BufferUsage.unordered_access"
        )
    numbers = as_numbers(tensor)
    kind = slang_name(numbers.element_type)
    computed = element_type("double" if kind == "double" else "float")
    return Parameter(label, tensor, numbers, kind, computed)


def is_floating(t: Type) -> bool:
    return not holds_structs(t) and numpy_layout(t)[0].kind == "f"


def as_numbers(tensor: Tensor) -> Tensor:
    """The same memory, with the dimensions of an element as further ones."""
    dtype, inner = numpy_layout(tensor.element_type)
    count = prod(inner)
    assert tensor.element_size == count * dtype.itemsize, "an element has gaps"
    strides = (*(step * count for step in tensor.strides), *contiguous_strides(inner))
    return Tensor(tensor.storage, dtype, (*tensor.shape, *inner), strides, tensor.offset * count)


def gradient_of(parameter: Parameter, given: Any) -> Tensor:
    """The numbers of the gradient that was given, or of the attached one."""
    found = parameter.tensor.grad_out if given is None else given
    if found is None:
        note = "attach one: x = x.with_grads(), or pass step([gradient, ...])"
        raise CallError("E1007", f"{parameter.label} has no gradient", (), note)
    if isinstance(found, np.ndarray):
        found = Tensor.from_numpy(parameter.tensor.device, found, dtype=parameter.tensor.element_type)
    if not isinstance(found, Tensor):
        raise CallError(
            CODE, f"the gradient of {parameter.label}: expected a Tensor, not {type(found).__name__}"
        )
    expected = parameter.tensor
    if found.shape != expected.shape or found.element_type is not expected.element_type:
        message = f"the gradient of {parameter.label} is {slang_name(found.element_type)} {tuple(found.shape)}, not "
        message += f"{slang_name(expected.element_type)} {tuple(expected.shape)}"
        raise CallError(CODE, message)
    return as_numbers(found)


def _overlap(first: Tensor, second: Tensor) -> bool:
    """Whether the bytes from the first to the last element do."""
    (start, end), (other, last) = _range(first), _range(second)
    return start < last and other < end


def _range(tensor: Tensor) -> tuple[int, int]:
    if 0 in tensor.shape:
        return tensor.address, tensor.address
    reach = [(size - 1) * step * tensor.element_size for size, step in zip(tensor.shape, tensor.strides)]
    low, high = (sum(each for each in reach if (each > 0) == up) for up in (False, True))
    return tensor.address + low, tensor.address + high + tensor.element_size
