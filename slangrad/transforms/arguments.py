"""Arguments of a transform's call with memory for derivatives, and the derivatives in the form of the argument.

    Tensor (n,)          ->  the same memory with a gradient of its own      ->  Tensor (n,)
    NumPy array (n,)     ->  a tensor with a copy, in the parameter's type   ->  array (n,) of the array's dtype
    Texture              ->  the same texels with a gradient of their own    ->  Texture
    2.0, float3(1, 2, 3) ->  diffPair                                        ->  a number, a host vector
    {"x": t, "n": 3}     ->  {"x": t', "n": 3}                               ->  {"x": Tensor, "n": None}
    torch tensor (n, 3)  ->  a Tensor with a copy, and so on                 ->  torch tensor (n, 3)

Gradients of the caller's tensors are not touched: tensors here have their own. Autograd does not record these runs:
torch.func and backward() go through calls themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from slangrad.api.functional.function import Function
from slangrad.call.binding.launchable import Launchable
from slangrad.check.model.types import ScalarType
from slangrad.ir.data import types as ir
from slangrad.marshal.composed import results
from slangrad.marshal.composed.structs import packed_element
from slangrad.marshal.containers.arrays import converted_to
from slangrad.marshal.containers.memory import is_texture_type
from slangrad.marshal.containers.values import DiffPair
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.records import TYPE_KEY
from slangrad.marshal.host.vectors import HostArray, plain_data
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.marshal.protocol.roles import BACKWARD, TANGENT
from slangrad.marshal.simple.plain import mapped
from slangrad.tensors.elements.conversion import AnyArray, HostValue, convert_exactly
from slangrad.tensors.elements.element_types import derivative_type, numpy_layout
from slangrad.tensors.elements.torch_types import host_array_of, is_torch_type, torch_tensor_of
from slangrad.tensors.tensor import Tensor

CODE = "E1030"
Path = tuple[object, ...]
Form = Callable[[AnyArray], object]


@dataclass(slots=True)
class Attached:
    """`passed` goes to the call; `read` gives the derivative afterwards, and is None for a constant. Dicts and lists
    have `parts`."""

    passed: object
    read: Callable[[], object] | None = None
    parts: dict[str, Attached] | list[Attached] | None = None

    @property
    def is_constant(self) -> bool:
        if self.parts is None:
            return self.read is None
        return all(
            part.is_constant for part in (self.parts.values() if isinstance(self.parts, dict) else self.parts)
        )

    def derivative(self) -> object:
        """None for constants, inside of dicts and lists as well."""
        if isinstance(self.parts, dict) and not self.is_constant:
            return {name: part.derivative() for name, part in self.parts.items() if name != TYPE_KEY}
        if isinstance(self.parts, list) and not self.is_constant:
            return [part.derivative() for part in self.parts]
        return None if self.read is None else self.read()


class Attacher:
    """Attaches memory for the derivatives of one mode to the arguments of a call that was bound."""

    def __init__(self, mode: str, call: Launchable, device: object) -> None:
        self._mode = mode
        self._device = device
        self._leaves = leaves_of(call)
        self._attached_values: list[tuple[int, Path, str, Attached]] = []

    def settle(self, call: Launchable) -> None:
        """An attached argument that the function treats as a constant becomes one. It must not have a tangent."""
        leaves = leaves_of(call)
        for index, path, label, attached in self._attached_values:
            leaf = leaves.get((index, path))
            carries = leaf is not None and (leaf.role.gives or (self._mode == TANGENT and leaf.role.takes))
            if not carries and self._mode == TANGENT:
                note = "pass None for it, or declare the parameter without no_diff"
                raise CallError(
                    CODE, f"{label}: the parameter carries no derivative, and a tangent is given", (), note
                )
            if not carries:
                attached.read = None

    def attach(self, value: object, index: int, label: str, tangent: object = None) -> Attached:
        """Argument number `index`. Without a tangent it is a constant in forward mode, and has a zero direction in
        `hvp`."""
        return self._attach(value, tangent, index, (), label)

    def _attach(self, value: object, tangent: object, index: int, path: Path, label: str) -> Attached:
        attached = self._attached(value, tangent, index, path, label)
        if attached.parts is None and (attached.read is not None):
            self._attached_values.append((index, path, label, attached))
        return attached

    def _attached(self, value: HostValue, tangent: object, index: int, path: Path, label: str) -> Attached:
        leaf = self._leaves.get((index, path))
        if self._mode == TANGENT and tangent is None:
            return Attached(constant(value))
        if isinstance(value, Tensor):
            return self._tensor(value, tangent, label)
        if is_texture_type(type(value)):
            return self._texture(value, tangent, label)
        if isinstance(value, np.ndarray):
            return self._array(value, tangent, leaf, label)
        if isinstance(value, HostArray):
            return self._host_array(value, tangent, leaf, label)
        if isinstance(value, (float, np.floating)):
            return self._pair(float(value), None if tangent is None else _number(tangent, label))
        if isinstance(value, dict):
            return self._dict(value, tangent, index, path, label)
        if isinstance(value, list):
            element = packed_element(leaf)
            if element is not None:
                return self._packed_list(value, tangent, element, label)
            if self._is_plain(index, path) and _is_differentiable_throughout(value):
                return self._plain_list(value, tangent, label)
            return self._list(value, tangent, index, path, label)
        if tangent is not None:
            raise CallError(CODE, f"{label}: {type(value).__name__} has no tangent", (), "pass None for it")
        return Attached(constant(value))

    def _is_plain(self, index: int, path: Path) -> bool:
        """Whether the call takes a value, or something it is a part of, as one that is packed."""
        around = (self._leaves.get((index, path[:end])) for end in range(len(path) + 1))
        return any(leaf is not None and leaf.is_packed for leaf in around)

    # --- kinds of values

    def _pair(self, value: object, tangent: object) -> Attached:
        pair = DiffPair(value, tangent)
        return Attached(pair, lambda: pair.grad)

    def _host_array(self, value: HostArray, tangent: object, leaf: Leaf | None, label: str) -> Attached:
        kind = type(value)
        if kind.dtype.kind != "f":
            return self._no_derivative(value, tangent, label)
        moved = None if tangent is None else _as_host_array(kind, tangent, label)
        if leaf is None or leaf.dims == 0:
            return self._pair(value, moved)
        return self._new(value.data, None if moved is None else moved.data, kind.dtype, label, kind.of)

    def _array(self, value: AnyArray, tangent: object, leaf: Leaf | None, label: str) -> Attached:
        dtype = value.dtype
        if dtype.kind != "f":
            return self._no_derivative(value, tangent, label)
        moved = None if tangent is None else np.asarray(tangent)
        if moved is not None and moved.shape != value.shape:
            raise _shape_error(label, moved.shape, value.shape)
        wanted = converted_to(leaf) or dtype
        if wanted.kind != "f":
            return self._no_derivative(value, tangent, label)
        return self._new(value, moved, wanted, label, lambda gradient: gradient.astype(dtype, copy=False))

    def _new(
        self, values: AnyArray, tangent: AnyArray | None, dtype: np.dtype, label: str, form: Form
    ) -> Attached:
        """A tensor with a copy of the values."""
        tensor, moved = Tensor.from_numpy(self._device, _exactly(values, dtype, label)), None
        if tangent is not None:
            moved = Tensor.from_numpy(self._device, _exactly(tangent, dtype, f"the tangent of {label}"))
        return self._tensor(tensor, moved, label, form)

    def _tensor(self, value: Tensor, tangent: object, label: str, form: Form | None = None) -> Attached:
        try:
            gradient = value.new_gradient()
        except ValueError:
            return self._no_derivative(value, tangent, label)
        passed = value.detach() if value.writable or self._mode == BACKWARD else value.detach().copy()
        if self._mode != BACKWARD:
            passed.grad_in = (
                value.new_gradient()
                if tangent is None
                else self._tangent_tensor(value, gradient, tangent, label)
            )
        if self._mode != TANGENT:
            passed.grad_out = gradient
        return Attached(passed, lambda: gradient if form is None else form(gradient.to_numpy()))

    def _texture(self, value: HostValue, tangent: object, label: str) -> Attached:
        try:
            gradient = value.new_gradient()
        except ValueError:
            return self._no_derivative(value, tangent, label)
        passed = value.detach()
        if self._mode != BACKWARD:
            try:
                passed.grad_in = value.new_gradient() if tangent is None else tangent
            except (TypeError, ValueError) as error:
                raise CallError(CODE, f"{label}: the tangent does not fit: {error}") from None
        if self._mode != TANGENT:
            passed.grad_out = gradient
        return Attached(passed, lambda: gradient)

    def _tangent_tensor(self, value: Tensor, like: Tensor, tangent: object, label: str) -> Tensor:
        if isinstance(tangent, np.ndarray):
            dtype, inner = numpy_layout(like.element_type)
            if tangent.shape != (*value.shape, *inner):
                raise _shape_error(label, tangent.shape, (*value.shape, *inner))
            tangent = _exactly(tangent, dtype, f"the tangent of {label}")
            return Tensor.from_numpy(self._device, tangent, dtype=like.element_type)
        if not isinstance(tangent, Tensor):
            raise CallError(
                CODE, f"{label}: the tangent of a Tensor is a Tensor or an array, not {tangent!r}"
            )
        if tuple(tangent.shape) != tuple(value.shape):
            raise _shape_error(label, tuple(tangent.shape), tuple(value.shape))
        if tangent.element_type is not like.element_type:
            message = (
                f"{label}: the tangent has elements of type {tangent.element_type}, not {like.element_type}"
            )
            raise CallError(CODE, message)
        return tangent.detach()

    def _dict(
        self, value: dict[str, object], tangent: object, index: int, path: Path, label: str
    ) -> Attached:
        moved = _fields(tangent, label)
        unknown = [name for name in moved if name not in value]
        if unknown:
            raise CallError(CODE, f"{label}: there is a tangent of '{unknown[0]}', and no such field")
        parts = {
            name: Attached(field)
            if name == TYPE_KEY
            else self._attach(field, moved.get(name), index, (*path, name), f"{label}.{name}")
            for name, field in value.items()
        }
        return Attached({name: part.passed for name, part in parts.items()}, None, parts)

    def _list(self, value: list[object], tangent: object, index: int, path: Path, label: str) -> Attached:
        moved = _elements(tangent, len(value), label)
        parts = [
            self._attach(element, tangent_of_element, index, (*path, i), f"{label}[{i}]")
            for i, (element, tangent_of_element) in enumerate(zip(value, moved))
        ]
        return Attached([part.passed for part in parts], None, parts)

    def _plain_list(self, value: list[object], tangent: object, label: str) -> Attached:
        """A list that is one value for the call."""
        moved = None if self._mode == BACKWARD else _tangent_of_list(value, tangent, label)
        pair = DiffPair(value, moved)
        return Attached(pair, lambda: _in_lists(value, pair.grad))

    def _packed_list(self, value: list[object], tangent: object, packed: ir.Type, label: str) -> Attached:
        """A list with an element for each call."""
        element = derivative_type(packed)
        if element is None:
            return self._no_derivative(value, tangent, label)
        if not isinstance(tangent, Iterable | None):
            raise _kind_error(label, "list", tangent)
        values = np.asarray([plain_data(element_value) for element_value in value], numpy_layout(element)[0])
        moved = (
            None
            if tangent is None
            else np.asarray([plain_data(element_value) for element_value in tangent], values.dtype)
        )
        if moved is not None and moved.shape != values.shape:
            raise _shape_error(label, moved.shape, values.shape)
        return self._new(values, moved, values.dtype, label, lambda gradient: gradient.tolist())

    def _no_derivative(self, value: object, tangent: object, label: str) -> Attached:
        if tangent is not None:
            raise CallError(CODE, f"{label}: {describe(value)} has no tangent", (), "pass None for it")
        return Attached(constant(value))


def leaves_of(call: Launchable) -> dict[tuple[int, Path], Leaf]:
    """The leaves of a call by the argument and the keys inside of it."""
    return {(source.value_index, source.path): leaf for source, leaf in zip(call.sources, call.leaves)}


def in_their_types(values: Sequence[object], call: Launchable) -> list[object]:
    """The values with arrays converted to what the parameters take, as the call does."""
    leaves = leaves_of(call)

    def converted(value: object, index: int, path: Path) -> object:
        if isinstance(value, dict):
            return {name: converted(inner, index, (*path, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [converted(inner, index, (*path, i)) for i, inner in enumerate(value)]
        leaf = leaves.get((index, path))
        if not isinstance(value, np.ndarray) or leaf is None or converted_to(leaf) is None:
            return value
        return value if leaf.prepare is None else leaf.prepare(value)

    return [converted(inner, i, ()) for i, inner in enumerate(values)]


def constant(value: HostValue) -> object:
    """The value without gradients, so that none go there."""
    if isinstance(value, Tensor) or is_texture_type(type(value)):
        return value.detach()
    if isinstance(value, DiffPair):
        return value.primal
    return mapped(constant, value)


def describe(value: object) -> str:
    if isinstance(value, (np.ndarray, Tensor)):
        return f"a {type(value).__name__} of {value.dtype}"
    return f"a value of type {type(value).__name__}"


def _is_differentiable_throughout(value: object) -> bool:
    """Whether all numbers in a list are floats."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_differentiable_throughout, value))
    return isinstance(value, (float, np.floating)) or (
        isinstance(value, HostArray) and type(value).dtype.kind == "f"
    )


def _tangent_of_list(value: object, tangent: object, label: str) -> object:
    """The tangent of a list, or of a part of it; zero without one."""
    if isinstance(value, HostArray):
        return type(value).zeros() if tangent is None else _as_host_array(type(value), tangent, label)
    if not isinstance(value, list):
        return 0.0 if tangent is None else _number(tangent, label)
    moved = _elements(tangent, len(value), label)
    return [
        _tangent_of_list(element, tangent_of_element, f"{label}[{i}]")
        for i, (element, tangent_of_element) in enumerate(zip(value, moved))
    ]


def _in_lists(value: object, derivative: object) -> object:
    """The derivative of a list as a list."""
    if not isinstance(value, list) or not isinstance(derivative, Iterable):
        return derivative
    return [
        _in_lists(element, derivative_of_element) for element, derivative_of_element in zip(value, derivative)
    ]


def _fields(tangent: object, label: str) -> dict[str, object]:
    if not isinstance(tangent, dict | None):
        raise _kind_error(label, "dict", tangent)
    return tangent or {}


def _elements(tangent: object, count: int, label: str) -> list[object]:
    if not isinstance(tangent, list | tuple | np.ndarray | None):
        raise _kind_error(label, "list", tangent)
    moved = [] if tangent is None else list(tangent)
    if moved and len(moved) != count:
        raise _shape_error(label, (len(moved),), (count,))
    return moved or [None] * count


def _kind_error(label: str, kind: str, tangent: object) -> CallError:
    return CallError(CODE, f"{label}: the tangent of a {kind} is a {kind}, not {tangent!r}")


def _number(value: object, label: str) -> float:
    number = np.asarray(value)
    if isinstance(value, (bool, str)) or number.ndim != 0:
        raise CallError(CODE, f"{label}: the tangent of a number is a number, not {value!r}")
    return float(number)


def _as_host_array(kind: type[HostArray], tangent: object, label: str) -> HostArray:
    if isinstance(tangent, kind):
        return tangent
    if not isinstance(tangent, (np.ndarray, HostArray, Sequence)) or np.asarray(tangent).shape != kind.shape:
        raise CallError(CODE, f"{label}: the tangent of a {kind.__name__} is one, too, not {tangent!r}")
    return kind(plain_data(tangent))


def _exactly(values: AnyArray, dtype: np.dtype, label: str) -> AnyArray:
    try:
        return convert_exactly(np.asarray(values), dtype, label)
    except ValueError as error:
        raise CallError("E1010", str(error)) from None


def _shape_error(label: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> CallError:
    return CallError(CODE, f"{label}: the tangent has shape {tuple(shape)}, the argument {tuple(expected)}")


ArgumentPlace = int | str
_NUMBERS = {"half": np.float16, "float": np.float32}


class DifferentiatedCall:
    """A function and its arguments by position and name, with Tensors in the place of torch tensors."""

    def __init__(self, function: Function, args: Iterable[object], kwargs: dict[str, object]) -> None:
        self._places: dict[ArgumentPlace, object] = dict(enumerate(args))
        self._places.update(kwargs)
        arguments = self._places.values()
        self.is_torch = function.result_kind == results.TORCH or any(map(_holds_torch, arguments))
        self.values = {place: _without_torch(value, place, function) for place, value in self._places.items()}
        self.function = function.return_type(Tensor) if function.result_kind == results.TORCH else function

    def with_values(self, values: dict[ArgumentPlace, object]) -> DifferentiatedCall:
        """The same call with other values in these places."""
        changed = copy(self)
        changed.values = {**self.values, **values}
        return changed

    def number(self, place: ArgumentPlace) -> int:
        """Which of all arguments it is."""
        return list(self.values).index(place)

    @property
    def arguments(self) -> tuple[tuple[object, ...], dict[str, object]]:
        """Those by position, and those by name."""
        args = [value for place, value in self.values.items() if isinstance(place, int)]
        return tuple(args), {place: value for place, value in self.values.items() if isinstance(place, str)}

    def run(self, function: Function | None = None, result: object = None) -> object:
        """Call the function, or another one in its place."""
        args, kwargs = self.arguments
        kwargs |= {} if result is None else {"_result": result}
        return (function or self.function)(*args, **kwargs)

    def bound(self, function: Function | None = None, result: object = None) -> Launchable:
        """How such a call is bound."""
        args, kwargs = self.arguments
        kwargs |= {} if result is None else {"_result": result}
        return (function or self.function).bound(*args, **kwargs)

    def derivatives(self, by_place: Mapping[ArgumentPlace, object]) -> dict[ArgumentPlace, object]:
        """Derivatives by arguments, each in the form of its argument."""
        return {place: _in_form_of(self._places[place], derivative) for place, derivative in by_place.items()}

    def value(self, returned: object) -> object:
        """The result of the function, or its tangent."""
        if not self.is_torch:
            return returned
        if isinstance(returned, (float, np.floating)):
            kind = self.bound().leaves[-1].type
            returned = np.asarray(
                returned, _NUMBERS.get(kind.name if isinstance(kind, ScalarType) else "", np.float64)
            )
        return as_torch(returned)


def numbers_of(value: object) -> object:
    """A tangent or cotangent with arrays in the place of torch tensors."""
    if is_torch_type(type(value)):
        return _array_of(value, "a tangent or cotangent")
    return mapped(numbers_of, list(value) if isinstance(value, tuple) else value)


def as_torch(value: object) -> object:
    """A value in PyTorch's form."""
    if isinstance(value, Tensor):
        return value.to_torch()
    if isinstance(value, HostArray):
        return torch_tensor_of(np.array(value.data))
    if isinstance(value, np.ndarray):
        return torch_tensor_of(value)
    return value


def _holds_torch(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_holds_torch, value))
    if isinstance(value, dict):
        return any(map(_holds_torch, value.values()))
    return is_torch_type(type(value))


def _without_torch(value: object, place: ArgumentPlace, function: Function) -> object:
    if is_torch_type(type(value)):
        array = _array_of(value, f"argument {place!r}")
        return Tensor.from_numpy(function.module.device, np.ascontiguousarray(array).reshape(array.shape))
    return mapped(lambda inner: _without_torch(inner, place, function), value)


def _array_of(tensor: object, label: str) -> AnyArray:
    try:
        return host_array_of(tensor, label)
    except ValueError as error:
        raise CallError("E1001", str(error)) from None
    except RuntimeError:
        message = f"{label}: a torch tensor of type {type(tensor).__name__} has no memory of its own"
        raise CallError("E1001", message, (), "torch.func goes through calls: torch.func.grad(f)") from None


def _in_form_of(argument: object, derivative: object) -> object:
    if is_torch_type(type(argument)):
        return None if derivative is None else as_torch(derivative)
    if isinstance(argument, dict) and isinstance(derivative, dict):
        return {name: _in_form_of(argument.get(name), part) for name, part in derivative.items()}
    if isinstance(argument, list) and isinstance(derivative, list):
        return [_in_form_of(inner, part) for inner, part in zip(argument, derivative)]
    return derivative
