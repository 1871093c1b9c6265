"""Results of calls: values, new tensors and arrays, or an object that the caller gave.

float f(float x), D = 0            ->  a Python float, read from scratch memory
float f(float x), D = 1            ->  a new Tensor of the call's shape
f(x, _result="numpy")              ->  a new array;      f(x, _result=y)  ->  y, filled
f(x) with a torch tensor x         ->  a new torch tensor: the call's shape, then that of the type
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.check.model.types import MatrixType, ScalarType, Type, VectorType, vector
from slangrad.ir.data import types as ir
from slangrad.marshal.containers.containers import CONVERTED
from slangrad.marshal.containers.elements import make_elements
from slangrad.marshal.containers.memory import (
    ARRAY_ACCESS,
    GIVEN,
    PRIMAL_PART,
    TENSOR_ACCESS,
    TEXTURE_ACCESS,
    TORCH_ACCESS,
    TORCH_PAIR_ACCESS,
    is_texture_type,
)
from slangrad.marshal.containers.values import CellPart, DiffPair, get_primal, make_cell, set_grad, set_primal
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Shape
from slangrad.marshal.host.records import is_record, made_of
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Leaf
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import TANGENT
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.marshal.reflection.slang_type import SlangType, slang_type_of
from slangrad.marshal.simple.enums import names_in
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import holds_structs, scalar_and_sizes, structured_dtype
from slangrad.tensors.elements.shape import as_shape
from slangrad.tensors.elements.torch_types import TORCH as PYTORCH
from slangrad.tensors.elements.torch_types import dtype_of, is_torch_type
from slangrad.tensors.tensor import Tensor

TEXTURES = LazyModule("slangrad.tensors.textures.texture")
TEXTURE_DESCS = LazyModule("slangrad.tensors.textures.texture_desc")
MOST_TEXTURE_DIMENSIONS = 3

Binder = Callable[["Created", int, ir.Type], Leaf]

CREATED = -1
VALUE, TENSOR, NUMPY, TORCH, TEXTURE = "value", "tensor", "numpy", "torch", "texture"
KINDS = (TENSOR, NUMPY, TORCH, TEXTURE)


@dataclass(slots=True, frozen=True)
class Wanted:
    """The caller's choice of the result: a kind, or a value to fill (the marshal of given value `index`)."""

    kind: str = ""
    marshal: Marshal | None = None
    index: int = CREATED


def kind_of(wanted: object) -> str | None:
    """The kind that a string or class names, empty for a class of the user's; None for a value to fill."""
    if isinstance(wanted, str):
        if wanted not in KINDS:
            names = ", ".join(map(repr, KINDS))
            raise CallError("E1011", f"Unknown return type '{wanted}'", (), f"known are {names}")
        return wanted
    if wanted is Tensor:
        return TENSOR
    if wanted is np.ndarray:
        return NUMPY
    if isinstance(wanted, type):
        built_in = TORCH if is_torch_type(wanted) else TEXTURE if is_texture_type(wanted) else ""
        return built_in or _TAUGHT.get(wanted, "")
    return None


_TAUGHT: dict[type, str] = {}  # the kinds of results that are objects of users' classes


def teach(kind: type, binder: Binder | None) -> None:
    """Let `binder` bind results of a class from now on; None: the class is called with the default result."""
    name = _TAUGHT.pop(kind, None)
    if name is not None:
        del _BINDERS[name]
    if binder is not None:
        name = _TAUGHT[kind] = f"{kind.__qualname__} {next(_NUMBERS)}"
        _BINDERS[name] = binder


Wrap = Callable[[object, object], object]


def wrap_of(kind: object) -> Wrap | None:
    """A function of a module and a result, which makes an object of a user's class; None for other kinds."""
    if not isinstance(kind, type) or kind_of(kind):
        return None
    from_result: Wrap | None = getattr(kind, "from_result", None)
    if from_result is not None:
        return from_result
    if is_record(kind):
        return lambda module, result: made_of(kind, result)
    return lambda module, result: kind(result)


def bind_given(marshal: Marshal, t: Type, spot: Spot) -> BoundNode | None:
    """A value to fill (or, in `bwds`, to read a cotangent from)."""
    role = spot.role
    if not (role.reads or role.writes or role.differentiates):
        return None
    ways = sorted(marshal.ways(t, spot.types, spot.mode), key=lambda way: way.cost)
    exact = any(way.how != CONVERTED for way in ways)
    wider = None if exact or role.differentiates else _wider(t, marshal.holds(t, spot.types))
    if wider is not None:
        ways = sorted(marshal.ways(wider, spot.types, spot.mode), key=lambda way: way.cost)
    if not ways:
        message = f"argument '{spot.label}': {marshal.described} cannot hold results of type '{t}'"
        raise CallError("E1011", message, (marshal.reason(t, spot.types),))
    return marshal.bind(ways[0], spot)


def _wider(t: Type, held: Type | None) -> Type | None:
    """A type that Slang converts results of type `t` to, made of the elements of a container."""
    element = t.element if isinstance(t, VectorType) else t
    if not isinstance(element, ScalarType) or not isinstance(held, ScalarType) or not _widens(element, held):
        return None
    return vector(held, t.count) if isinstance(t, VectorType) else held


def _widens(t: ScalarType, to: ScalarType) -> bool:
    """Whether a number may become one of the other type: not of a lower kind, nor of fewer bits."""
    if to.is_float:
        return not t.is_float or t.bits <= to.bits
    return to.is_integer and not t.is_float and t.bits <= to.bits


def ones(t: Type, types: ProgramTypes) -> str:
    """The cotangent of a result without one: ones."""
    tangent = types.tangent(t)
    assert tangent is not None
    if isinstance(tangent, (ScalarType, VectorType, MatrixType)):
        return f"{spell_on_page(tangent)}(1)"
    message = f"bwds needs a cotangent of type '{t}': only numbers, vectors and matrices have ones"
    raise CallError("E1007", message, (), "pass _result with gradients")


Maker = Callable[[object, Shape, str | None], Callable[[], object]]


@dataclass(slots=True, frozen=True)
class CreatedResult:
    """`maker` takes a device, a shape and the device of torch tensors ("cuda:0", None for the CPU). It returns a
    function that makes the object to fill; `give` returns the caller's result from it."""

    maker: Maker
    give: Callable[[HostValue], HostValue]


@dataclass(slots=True)
class Created:
    """A result that each call creates; `bound` makes it, once its type is known."""

    type: Type
    spot: Spot
    kind: str
    bound: CreatedResult | None = None

    def bind(self, dims: int, types: ProgramTypes) -> Leaf:
        lowered = types.lower(self.type)
        if lowered is None:
            raise CallError("E1011", f"values of type '{self.type}' cannot be returned to Python")
        if self.kind:
            return _BINDERS[self.kind](self, dims, lowered)
        return bind_default(self, dims, lowered)


def bind_default(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    """A value of a call without dimensions, else a new Tensor."""
    return _BINDERS[TENSOR if dims else VALUE](created, dims, lowered)


def _bind_value(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    spot = created.spot
    names = names_in(created.type, spot.types)
    parts = [CellPart(PRIMAL_PART, created.type, lowered, True, None, set_primal, names)]
    tangent = spot.types.tangent(created.type) if spot.role.gives else None
    below = None if tangent is None else spot.types.lower(tangent)
    if tangent is not None and below is not None:
        parts.append(CellPart(GIVEN, tangent, below, True, None, set_grad))
    created.bound = CreatedResult(
        make_pair, give_itself if spot.mode == TANGENT and below is not None else get_primal
    )
    return make_cell(spot, created.type, spot.role, "result", parts)


def make_pair(device: object, shape: Shape, place: str | None) -> Callable[[], object]:
    return DiffPair


def give_itself(result: object) -> object:
    return result


@dataclass(slots=True, frozen=True)
class TensorMaker:
    """Tensors of a type, shown as `shown`."""

    lowered: ir.Type
    shown: SlangType
    differentiates: bool

    def __call__(self, device: object, shape: Shape, place: str | None) -> Callable[[], object]:
        sizes = as_shape(shape or (1,))
        make = Tensor.maker(device, self.lowered, sizes, self.shown)
        return (lambda: make().with_grads(zero=False)) if self.differentiates else make


def _bind_tensor(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    spot = created.spot
    maker = TensorMaker(lowered, slang_type_of(created.type, spot.types), spot.role.differentiates)
    created.bound = CreatedResult(maker, give_itself)
    way = Way(created.type, dims)
    return make_elements(way, spot, spot.role, "new Tensor", TENSOR_ACCESS, () if dims else (1,))


HELD = dict.fromkeys(("numpy array", "torch tensor"), "it holds numbers, vectors, matrices and arrays") | {
    "texture": "it holds numbers and vectors for which there is a format"
}


@dataclass(slots=True, frozen=True)
class ArrayMaker:
    """NumPy arrays of values of a type; structs are records."""

    lowered: ir.Type

    def __call__(self, device: object, shape: Shape, place: str | None) -> Callable[[], object]:
        record = structured_dtype(self.lowered)
        make = np.empty if record.base.names is None else np.zeros  # nothing of old memory shows in gaps
        return lambda: make(shape, record)


def _refused(created: Created, container: str) -> CallError:
    message = f"a {container} cannot hold results of type '{created.type}'"
    return CallError("E1011", message, (), f'{HELD[container]}; use _result="tensor"')


def _bind_numpy(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    spot = created.spot
    if isinstance(lowered, ir.Pointer):
        raise _refused(created, "numpy array")
    if spot.role.differentiates:
        message = "a numpy array has no place for the derivative of the result"
        raise CallError("E1011", message, (), 'use _result="tensor": its gradient is the derivative')
    created.bound = CreatedResult(ArrayMaker(lowered), give_itself)
    inner = structured_dtype(lowered).shape
    return make_elements(Way(created.type, dims), spot, spot.role, "new array", ARRAY_ACCESS, inner)


@dataclass(slots=True, frozen=True)
class TorchMaker:
    """Torch tensors of values of a type, with tangents if there are some."""

    lowered: ir.Type
    differentiates: bool

    def __call__(self, device: object, shape: Shape, place: str | None) -> Callable[[], object]:
        scalar, inner = scalar_and_sizes(self.lowered)
        sizes = (*shape, *inner)
        empty = partial(PYTORCH.empty, sizes, dtype=dtype_of(scalar), device=place or "cpu")
        if self.differentiates:
            return lambda: DiffPair(empty(), empty())
        return empty


def _bind_torch(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    spot = created.spot
    if holds_structs(lowered) or isinstance(lowered, ir.Pointer):
        raise _refused(created, "torch tensor")
    created.bound = CreatedResult(TorchMaker(lowered, spot.role.differentiates), give_itself)
    inner = scalar_and_sizes(lowered)[1]
    access = TORCH_PAIR_ACCESS if spot.role.differentiates else TORCH_ACCESS
    return make_elements(Way(created.type, dims), spot, spot.role, "new torch tensor", access, inner)


@dataclass(slots=True, frozen=True)
class TextureMaker:
    """Textures of texels of a type."""

    lowered: ir.Type
    differentiates: bool

    def __call__(self, device: object, shape: Shape, place: str | None) -> Callable[[], object]:
        desc = TEXTURE_DESCS.desc_of(self.lowered, shape)
        if self.differentiates:
            return lambda: TEXTURES.Texture(device, desc).with_grads()
        return lambda: TEXTURES.Texture(device, desc)


def _bind_texture(created: Created, dims: int, lowered: ir.Type) -> Leaf:
    spot = created.spot
    if TEXTURE_DESCS.format_of(lowered) is None:
        raise _refused(created, "texture")
    if not 1 <= dims <= MOST_TEXTURE_DIMENSIONS:
        message = f"a texture has 1 to {MOST_TEXTURE_DIMENSIONS} dimensions, and the call has {dims}"
        raise CallError("E1011", message, (), 'use _result="tensor"')
    created.bound = CreatedResult(TextureMaker(lowered, spot.role.differentiates), give_itself)
    return make_elements(Way(created.type, dims), spot, spot.role, "new Texture", TEXTURE_ACCESS, ())


_NUMBERS = count()
_BINDERS: dict[str, Binder] = {
    VALUE: _bind_value,
    TENSOR: _bind_tensor,
    NUMPY: _bind_numpy,
    TORCH: _bind_torch,
    TEXTURE: _bind_texture,
}
