"""Parameters for an optimizer: numbers in memory, inside of any vectors, structs or strides.

Tensor (5,) of float3, strides (2,)         ->  numbers (5, 3) of float, strides (6, 1), over the same memory
Tensor (5,) of { float3 at; int n; float m; }  ->  ".at": (5, 3), strides (5, 1); ".m": (5,), strides (5,)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from slangrad.api.devices.create import host_device
from slangrad.ir.data.types import Type
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.records import as_fields
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import (
    element_type,
    slang_name,
    structured_dtype,
)
from slangrad.tensors.elements.shape import contiguous_strides
from slangrad.tensors.elements.torch_types import is_torch_type
from slangrad.tensors.tensor import Tensor

CODE = "E1032"
_LEAVES = (Tensor, np.ndarray, str)


@dataclass(slots=True)
class ParameterPart:
    """The numbers of one field, or of a tensor without fields; `kind` their type's name, `computed` that of state."""

    numbers: Tensor
    kind: str
    computed: Type


@dataclass(slots=True)
class OptimizedParameter:
    """A tensor and its parts by their paths: ".at", ".inner.x", "" where there are no fields."""

    label: str
    tensor: Tensor
    parts: dict[str, ParameterPart]


def parameters_of(tree: object) -> list[OptimizedParameter]:
    """Those of lists, dicts and dataclasses, nested; checked, so that no number is changed twice in a step."""
    if isinstance(tree, (Tensor, np.ndarray)) or not isinstance(as_fields(tree), Iterable):
        note = "one tensor alone is a list of one: [x]"
        raise CallError(CODE, f"parameters: expected a list of tensors, not {type(tree).__name__}", (), note)
    parameters = [_parameter(f"parameter {label}", leaf) for label, leaf in leaves_of(tree)]
    if not parameters:
        raise CallError(CODE, "parameters: there are none")
    for i, first in enumerate(parameters):
        for second in parameters[i + 1 :]:
            if _overlap(first.tensor, second.tensor):
                raise CallError(
                    "E1008", f"{first.label} and {second.label} overlap in memory: both would be changed"
                )
    return parameters


def leaves_of(tree: object, path: str = "") -> Iterator[tuple[str, HostValue]]:
    """The leaves of lists, dicts and dataclasses, each with its keys."""
    tree = as_fields(tree)
    if isinstance(tree, Mapping):
        named: Iterable[tuple[object, object]] = tree.items()
    elif isinstance(tree, Iterable) and not isinstance(tree, _LEAVES) and not is_torch_type(type(tree)):
        named = enumerate(tree)
    else:
        yield path, tree
        return
    for name, inner in named:
        yield from leaves_of(inner, f"{path}[{name!r}]" if path else repr(name))


def _parameter(label: str, tensor: object) -> OptimizedParameter:
    if isinstance(tensor, np.ndarray):
        tensor = _over_memory(label, tensor)
    if is_torch_type(type(tensor)):
        note = "x.detach().numpy() is an array over its memory"
        raise CallError(CODE, f"{label}: expected a Tensor or an array, not a torch tensor", (), note)
    if not isinstance(tensor, Tensor):
        raise CallError(CODE, f"{label}: expected a Tensor, not {type(tensor).__name__}")
    parts = {path: _part(numbers) for path, numbers in numbers_of(tensor)}
    if not parts:
        message = (
            f"{label}: elements of type '{slang_name(tensor.element_type)}' hold no floating-point numbers"
        )
        note = "parameters are of half, float or double, or vectors, arrays and structs of these"
        raise CallError(CODE, message, (), note)
    if not tensor.writable:
        raise CallError(
            CODE, f"{label}: the tensor is read-only", (), "it needs BufferUsage.unordered_access"
        )
    return OptimizedParameter(label, tensor, parts)


def _over_memory(label: str, array: np.ndarray) -> Tensor:
    """A tensor over a NumPy array, which steps change in place."""
    if array.dtype.kind != "f" or not array.size:
        note = "parameters have elements of float16, float32 or float64" if array.size else "leave it out"
        raise CallError(CODE, f"{label}: an array of {array.dtype} with shape {array.shape}", (), note)
    try:
        return Tensor.from_dlpack(host_device(), array, copy=False)
    except (BufferError, ValueError) as error:
        raise CallError(CODE, f"{label}: {error}") from None


def _part(numbers: Tensor) -> ParameterPart:
    kind = slang_name(numbers.element_type)
    return ParameterPart(numbers, kind, element_type("double" if kind == "double" else "float"))


def numbers_of(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The floating-point numbers of each field over the same memory; dimensions of an element are further ones."""
    t = tensor.element_type
    for path, number, start, dims, steps in _fields(structured_dtype(t), 0, (), ()):
        size = number.itemsize
        strides = [step * tensor.element_size // size for step in tensor.strides]
        offset = (tensor.offset * tensor.element_size + start) // size
        inner = [step // size for step in steps]
        yield path, Tensor(tensor.storage, number, (*tensor.shape, *dims), (*strides, *inner), offset)


Field = tuple[str, np.dtype, int, tuple[int, ...], tuple[int, ...]]


def _fields(form: np.dtype, start: int, dims: tuple[int, ...], steps: tuple[int, ...]) -> Iterator[Field]:
    """Path, dtype, place in bytes, and the sizes and strides in bytes of each floating-point field."""
    if form.subdtype is not None:
        base, sizes = form.subdtype
        inner = tuple(step * base.itemsize for step in contiguous_strides(sizes))
        yield from _fields(base, start, (*dims, *sizes), (*steps, *inner))
    elif form.names is not None and form.fields is not None:
        for name in form.names:
            field, offset = form.fields[name][:2]
            for path, number, at, *shape in _fields(field, start + offset, dims, steps):
                yield f".{name}{path}", number, at, shape[0], shape[1]
    elif form.kind == "f":
        yield "", form, start, dims, steps


def gradient_of(parameter: OptimizedParameter, passed: object) -> dict[str, Tensor]:
    """The numbers of the gradient that was given, or of the attached one, by the parts that they belong to."""
    gradient = parameter.tensor.grad_out if passed is None else passed
    if gradient is None:
        note = "attach one: x = x.with_grads(), or pass step([gradient, ...])"
        raise CallError("E1007", f"{parameter.label} has no gradient", (), note)
    expected = _like_gradient(parameter)
    if isinstance(gradient, np.ndarray):
        gradient = Tensor.from_numpy(parameter.tensor.device, gradient, dtype=expected)
    if not isinstance(gradient, Tensor):
        raise CallError(
            CODE, f"the gradient of {parameter.label}: expected a Tensor, not {type(gradient).__name__}"
        )
    shape = parameter.tensor.shape
    if gradient.shape != shape or gradient.element_type is not expected:
        kind = slang_name(gradient.element_type)
        message = f"the gradient of {parameter.label} is {kind} {tuple(gradient.shape)}, not "
        raise CallError(CODE, f"{message}{slang_name(expected)} {tuple(shape)}")
    parts = dict(numbers_of(gradient))
    for path, numbers in parts.items():
        part = parameter.parts.get(path)
        if part is None or (part.numbers.shape, part.kind) != (
            numbers.shape,
            slang_name(numbers.element_type),
        ):
            kind = slang_name(parameter.tensor.element_type)
            message = f"the Differential of '{kind}' has a field '{path[1:]}', which the type has not"
            raise CallError(
                CODE, f"{parameter.label}: {message}", (), "steps need fields of the same names and types"
            )
    return parts


def _like_gradient(parameter: OptimizedParameter) -> Type:
    """The type of elements of a gradient."""
    try:
        element: Type = parameter.tensor.new_gradient(zero=False).element_type
    except ValueError as error:
        raise CallError("E1007", f"{parameter.label}: {error}") from None
    return element


def _overlap(first: Tensor, second: Tensor) -> bool:
    """Whether the bytes from the first to the last element do."""
    (start, end), (other, last) = _range(first), _range(second)
    return start < last and other < end


def _range(tensor: Tensor) -> tuple[int, int]:
    if 0 in tensor.shape:
        return tensor.address, tensor.address
    reach = [(size - 1) * step * tensor.element_size for size, step in zip(tensor.shape, tensor.strides)]
    low, high = (sum(distance for distance in reach if (distance > 0) == up) for up in (False, True))
    return tensor.address + low, tensor.address + high + tensor.element_size
