"""Values as points of a vector space: their numbers, random directions, steps along these.

    floats_of(x)  ->  its numbers as arrays           random_like(x)  ->  a tangent of the same form
    moved(x, v, h)  ->  x + h v                       inner(a, b)     ->  the terms of their inner product

Integers, and fields without a derivative, do not change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slangrad.ir.data.types import Type
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.records import TYPE_KEY
from slangrad.marshal.host.vectors import HostArray
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import holds_structs, slang_name, structured_dtype
from slangrad.tensors.tensor import Tensor

Array = np.ndarray


def has_derivative(value: object) -> bool:
    """Whether some of its numbers can move."""
    if isinstance(value, Tensor):
        return _derivative_of(value) is not None
    return next(floats_of(value), None) is not None


def floats_of(value: object) -> Iterator[Array]:
    """The floating-point numbers of a value."""
    if isinstance(value, Tensor):
        yield from _floats_of_array(value.to_numpy(structured=holds_structs(value.element_type)))
    elif isinstance(value, HostArray):
        yield from _floats_of_array(value.data)
    elif isinstance(value, np.ndarray):
        yield from _floats_of_array(value)
    elif isinstance(value, (float, np.floating)):
        yield np.asarray(value)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from floats_of(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name != TYPE_KEY:
                yield from floats_of(inner)


def _floats_of_array(array: Array) -> Iterator[Array]:
    if array.dtype.names is not None:
        for name in array.dtype.names:
            yield from _floats_of_array(array[name])
    elif array.dtype.kind == "f":
        yield array


def inner(a: object, b: object) -> Array:
    """The products of the numbers of two values of the same form."""
    pairs = zip(floats_of(a), floats_of(b), strict=True)
    terms = [np.ravel(x).astype(np.float64) * np.ravel(y).astype(np.float64) for x, y in pairs]
    return np.concatenate(terms) if terms else np.zeros(0)


def random_like(value: object, random: np.random.Generator) -> HostValue:
    """A random tangent; None for a value without one."""
    if isinstance(value, Tensor):
        return _random_tensor(value, random)
    if isinstance(value, np.ndarray):
        return _random(value.shape, random).astype(value.dtype) if value.dtype.kind == "f" else None
    if isinstance(value, HostArray):
        return type(value)(_random(value.shape, random)) if value.dtype.kind == "f" else None
    if isinstance(value, (float, np.floating)):
        return float(_random((), random))
    if isinstance(value, list):
        return [random_like(inner, random) for inner in value]
    if isinstance(value, dict):
        tangents = {name: random_like(inner, random) for name, inner in value.items() if name != TYPE_KEY}
        return {name: inner for name, inner in tangents.items() if inner is not None}
    return None


def restricted(direction: object, gradient: object) -> HostValue:
    """The direction without the parts that have no gradient."""
    if isinstance(direction, dict) and isinstance(gradient, dict):
        parts = {name: restricted(part, gradient.get(name)) for name, part in direction.items()}
        return {name: part for name, part in parts.items() if part is not None}
    if isinstance(direction, list) and isinstance(gradient, list):
        return [restricted(part, own_gradient) for part, own_gradient in zip(direction, gradient)]
    return None if gradient is None else direction


def _random(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers that all floating-point types have."""
    return random.normal(size=shape).astype(np.float16)


def _derivative_of(value: Tensor) -> Type | None:
    try:
        return value.new_gradient(zero=False).element_type
    except ValueError:
        return None


def _random_tensor(value: Tensor, random: np.random.Generator) -> Tensor | None:
    element = _derivative_of(value)
    if element is None:
        return None
    numbers = np.zeros(value.shape, structured_dtype(element))
    for floats in _floats_of_array(numbers):
        floats[...] = _random(floats.shape, random)
    return Tensor.from_numpy(value.device, numbers, dtype=element)


def moved(value: HostValue, direction: HostValue, step: float) -> HostValue:
    """A copy of the value, `step` times the direction further on."""
    if direction is None:
        return value
    if isinstance(value, Tensor):
        return _moved_tensor(value, direction, step)
    if isinstance(value, HostArray):
        return type(value)(value.data + step * direction.data)
    if isinstance(value, np.ndarray):
        return (value + step * direction).astype(value.dtype)
    if isinstance(value, list):
        return [moved(part, part_direction, step) for part, part_direction in zip(value, direction)]
    if isinstance(value, dict):
        return {name: moved(part, direction.get(name), step) for name, part in value.items()}
    return value + step * direction


def _moved_tensor(value: Tensor, direction: Tensor, step: float) -> Tensor:
    structured = holds_structs(value.element_type)
    numbers, steps = value.to_numpy(structured=structured), direction.to_numpy(structured=structured)
    _move_array(numbers, steps, step, value)
    tensor = Tensor.empty_like(value)
    tensor.copy_from_numpy(numbers)
    return tensor


def _move_array(numbers: Array, steps: Array, step: float, value: Tensor) -> None:
    if numbers.dtype.names is None:
        numbers += (step * steps).astype(numbers.dtype)
        return
    assert steps.dtype.names is not None
    for name in steps.dtype.names:
        if name not in numbers.dtype.names:
            kind = slang_name(value.element_type)
            message = f"the Differential of '{kind}' has a field '{name}', which the type has not"
            raise CallError("E1030", message, (), "finite differences need fields of the same names")
        _move_array(numbers[name], steps[name], step, value)
