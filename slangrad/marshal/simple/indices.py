"""Arguments that the kernel makes from the index of a call: grids, call and thread numbers, ranges, random numbers.

    i = grid((4, 3)) to int2     ->  uniform ContiguousIndex<2> i_0 ...   int2(i_1.at(id), i_0.at(id))
    x = rand_float(0, 1)         ->  __hashToFloat(x_words[0], x_low, x_high)

An index is a stream like memory, with a stride along each dimension of the call, so loops may merge and move.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter

from slangrad.check.model.types import (
    FLOAT,
    INT,
    UINT,
    ArrayType,
    ParameterType,
    ScalarType,
    Type,
    VectorType,
    array,
    vector,
)
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, Shape
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Find, Finder, KernelParameter, Leaf, StreamSpec
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.marshal.simple.generators import CallIdArg, GridArg, RandFloatArg, ThreadIdArg, WangHashArg
from slangrad.marshal.simple.plain import refuse_writes
from slangrad.tensors.elements.conversion import HostValue

INDEX_TYPES = {"c": "ContiguousIndex", "s": "StridedIndex", "r": "RepeatedIndex"}
MOST_CALLS = 1 << 31


@dataclass(slots=True, eq=False, kw_only=True)
class IndexLeaf(Leaf):
    """Some numbers in the order of the call's dimensions; `extra` components behind them are zero."""

    count: int
    extra: int = 0

    def parameters(self, classes: str) -> list[KernelParameter]:
        return [
            KernelParameter(f"{INDEX_TYPES[letter]}<{self.rank}>", stream.name)
            for letter, stream in zip(classes, self.streams)
        ]

    @property
    def content(self) -> Type | None:
        return None

    def stream_scalars(self, start: int, strides: Shape) -> list[int]:
        return [_word(start), *map(_word, strides)]

    def components(self) -> list[str]:
        """In the order of the type: vectors have the last dimension first."""
        numbers = [f"{stream.name}.at(id)" for stream in self.streams]
        return (numbers[::-1] if isinstance(self.type, VectorType) else numbers) + ["0"] * self.extra

    def before(self, classes: str) -> list[str]:
        if not isinstance(self.type, ArrayType):
            return []
        element = spell_on_page(self.type.element)
        values = ", ".join(f"{element}({number})" for number in self.components())
        return [f"{element} {self.name}_value[{len(self.components())}] = {{ {values} }};"]

    def load(self) -> str:
        if isinstance(self.type, ArrayType):
            return f"{self.name}_value"
        if isinstance(self.type, VectorType):
            return f"{spell_on_page(self.type)}({', '.join(self.components())})"
        return f"{spell_on_page(self.type)}({self.components()[0]})"

    def without_shape(self) -> CallError:
        """No argument gives a call shape, so there is one call, which needs no number."""
        message = f"argument '{self.label}': {self.described} numbers the calls, and no argument gives the call a shape"
        note = (
            "give a shape: grid((4, 3)) in its place, an array or Tensor as another argument, or as _result"
        )
        return CallError("E1005", message, (), note)


def _word(value: int) -> int:
    """An index as the 32-bit number that the kernel computes with."""
    return (value + MOST_CALLS) % (2 * MOST_CALLS) - MOST_CALLS


def check_calls(call_shape: Shape, label: str) -> None:
    """Indices have 32 bits."""
    if prod(call_shape) > MOST_CALLS:
        message = f"argument '{label}': a call of shape {call_shape} has more than {MOST_CALLS} indices"
        raise CallError("E1005", message, (), "split it into several calls")


def _names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}_{i}" for i in range(count)]


# --- Grids and ranges ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class GridIndex(IndexLeaf):
    """offset + index * stride for each dimension of the grid."""

    def layout_finder(self) -> Callable[[GridArg], Hashable]:
        return attrgetter("shape", "offset", "stride")

    def footprint(self, value: GridArg) -> Footprint:
        check_calls(value.shape, self.label)
        strides = [
            tuple(value.stride[i] if i == dim else 0 for i in range(self.count)) for dim in range(self.count)
        ]
        return Footprint(value.shape, strides, value.offset)


def _index_types(wanted: Type, count: int) -> Iterable[Type]:
    """A number for one dimension, else a vector or an array of so many."""
    if isinstance(wanted, ScalarType):
        return [wanted] if count == 1 and wanted.kind in ("int", "uint", "float") else []
    if isinstance(wanted, ParameterType):
        return [INT if count == 1 else vector(INT, count)] if count <= 4 else []
    if not isinstance(wanted, (VectorType, ArrayType)):
        return []
    if wanted.count not in (None, count) and isinstance(wanted.count, int):
        return []
    element = INT if isinstance(wanted.element, ParameterType) else wanted.element
    if not isinstance(element, ScalarType) or element.kind == "bool":
        return []
    return [array(element, count) if isinstance(wanted, ArrayType) else vector(element, count)]


@dataclass(slots=True, eq=False, kw_only=True)
class RangeIndex(IndexLeaf):
    """start + index * step."""

    def layout_finder(self) -> Callable[[range], Hashable]:
        return lambda value: value

    def footprint(self, value: range) -> Footprint:
        return Footprint((len(value),), [(value.step,)], (value.start,))


# --- Index of the call --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class CallIndex(IndexLeaf):
    """The index of the call: as many numbers as the call has dimensions."""

    def settle(self, call_dims: int) -> None:
        IndexLeaf.settle(self, call_dims)
        if call_dims == 0:
            raise self.without_shape()
        wanted = _length(self.type)
        has_extra = isinstance(self.type, VectorType) and wanted == call_dims + 1
        if wanted != call_dims and not has_extra:
            message = (
                f"argument '{self.label}': the call has {call_dims} dimensions, and '{self.type}' "
                f"has room for {wanted}"
            )
            raise CallError("E1005", message, (), "make the parameter a vector or array of that length")
        self.count = call_dims
        self.extra = 1 if has_extra else 0
        self.streams = tuple(StreamSpec(name, 1) for name in _names(self.name, call_dims))

    def along(self, sizes: Shape, strides: Sequence[Shape], call_shape: Shape) -> list[Shape]:
        check_calls(call_shape, self.label)
        count = len(call_shape)
        return [tuple(int(i == dim) for i in range(count)) for dim in range(count)]


def _length(t: Type) -> int:
    count = t.count if isinstance(t, (VectorType, ArrayType)) else 1
    assert isinstance(count, int), t
    return count


@dataclass(slots=True, eq=False, kw_only=True)
class FlatIndex(IndexLeaf):
    """The flat, row-major number of the call; in groups that of the thread."""

    in_groups: bool = False

    def settle(self, call_dims: int) -> None:
        IndexLeaf.settle(self, call_dims)
        if call_dims == 0:
            self.streams = tuple(StreamSpec(stream.name, 1, fixed=True) for stream in self.streams)

    def along(self, sizes: Shape, strides: Sequence[Shape], call_shape: Shape) -> list[Shape]:
        check_calls(call_shape, self.label)
        return [tuple(prod(call_shape[dim + 1 :]) for dim in range(len(call_shape)))]

    def group(self) -> None:
        self.in_groups, self.streams = True, ()

    def require_shape(self) -> None:
        raise self.without_shape()

    def number(self) -> str:
        return "thread.x" if self.in_groups else f"uint({self.streams[0].name}.at(id))"

    def components(self) -> list[str]:
        return [self.number()] + ["0"] * (_length(self.type) - 1)


# --- Random numbers -----------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class HashIndex(FlatIndex):
    """Words hashed from the thread's number; `low` and `high` make floats of them."""

    floats: bool

    def require_shape(self) -> None:
        """One random number is one, too."""

    def parameters(self, classes: str) -> list[KernelParameter]:
        more = [KernelParameter("uint", f"{self.name}_seed"), KernelParameter("uint", f"{self.name}_warmup")]
        if self.floats:
            more += [
                KernelParameter("float", f"{self.name}_low"),
                KernelParameter("float", f"{self.name}_high"),
            ]
        return IndexLeaf.parameters(self, classes) + more

    def before(self, classes: str) -> list[str]:
        count = _length(self.type)
        call = f"__threadHash<{count}>({self.number()}, {self.name}_seed, {self.name}_warmup)"
        return [f"uint {self.name}_words[{count}] = {call};"]

    def load(self) -> str:
        words = [f"{self.name}_words[{i}]" for i in range(_length(self.type))]
        if self.floats:
            words = [f"__hashToFloat({word}, {self.name}_low, {self.name}_high)" for word in words]
        return f"{spell_on_page(self.type)}({', '.join(words)})"

    def finders(self) -> list[Finder]:
        attributes = {"seed": "word", "warmup": "warmup"}
        if self.floats:
            attributes |= {"low": "min", "high": "max"}
        return [(f"{self.name}_{ending}", 0, attrgetter(name)) for ending, name in attributes.items()]


# --- Marshals of these arguments ----------------------------------------------------------------------


class IndexMarshal(Marshal):
    """`leaf` returns so many numbers of each call; `seen` maps the parameter's type to theirs; the value brings
    `dims` dimensions."""

    def __init__(
        self,
        described: str,
        leaf: type[IndexLeaf],
        seen: Callable[[Type], Iterable[Type]],
        dims: int = 0,
        count: int = 1,
        **leaf_fields: HostValue,
    ) -> None:
        self.described = described
        self._leaf, self._seen, self._dims, self._count, self._own = leaf, seen, dims, count, leaf_fields

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        return [Way(t, self._dims) for t in self._seen(wanted)]

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        refuse_writes(spot, self.described)
        node_fields = spot.node(way.type, spot.role.without_derivative(), self.described, way.dims)
        streams = tuple(StreamSpec(name, 1) for name in _names(spot.name, self._count))
        return self._leaf(**node_fields, **self._own, count=self._count, streams=streams)

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if self._leaf is not GridIndex:
            return super().reason(wanted, types)
        return f"Could not find suitable conversion from a {self.described} to '{wanted}'"  # SlangPy's words


def _for_grid(count: int) -> Marshal:
    seen = lambda wanted: _index_types(wanted, count)
    return IndexMarshal(f"grid of {count} dimensions", GridIndex, seen, count, count)


def _for_range(wanted: Type) -> list[Type]:
    if isinstance(wanted, ParameterType):
        return [INT]
    return [wanted] if isinstance(wanted, ScalarType) and wanted.is_integer else []


def _for_call_id(wanted: Type) -> Iterable[Type]:
    sized = isinstance(wanted, (VectorType, ArrayType)) and isinstance(wanted.count, int)
    return _index_types(wanted, _length(wanted)) if sized or isinstance(wanted, ScalarType) else []


def _for_thread_id(wanted: Type, dim: int) -> list[Type]:
    """uint, uint2 or uint3, with zeros behind the number."""
    element, count = _taken_apart(wanted)
    fits = (
        count in (1, 2, 3) and dim in (-1, count) and isinstance(element, ScalarType) and element.is_integer
    )
    return [wanted] if fits else []


def _for_hash(wanted: Type, floats: bool, dim: int) -> list[Type]:
    """`dim` is the number of components, -1: as many as the parameter has."""
    if isinstance(wanted, ParameterType):
        wanted = FLOAT if floats else UINT
    element, count = _taken_apart(wanted)
    right = isinstance(element, ScalarType) and (element is FLOAT if floats else element.is_integer)
    return [wanted] if right and dim in (-1, count) and isinstance(count, int) else []


def _taken_apart(t: Type) -> tuple[Type, object]:
    return (t.element, t.count) if isinstance(t, VectorType) else (t, 1)


def _hashed(value: WangHashArg) -> Marshal:
    floats, dim = isinstance(value, RandFloatArg), value.dims
    described = "rand_float(...)" if floats else "wang_hash(...)"
    return IndexMarshal(described, HashIndex, lambda t: _for_hash(t, floats, dim), floats=floats)


MAKERS: dict[type, Callable[[HostValue], Marshal]] = {
    GridArg: lambda value: _for_grid(len(value.shape)),
    CallIdArg: lambda value: IndexMarshal("call_id()", CallIndex, _for_call_id, count=0),
    ThreadIdArg: lambda value: IndexMarshal(
        "thread_id()", FlatIndex, lambda wanted: _for_thread_id(wanted, value.dim)
    ),
    range: lambda value: IndexMarshal("range", RangeIndex, _for_range, dims=1),
    WangHashArg: _hashed,
    RandFloatArg: _hashed,
}
KEYS: dict[type, Find] = {
    GridArg: lambda value: (GridArg, len(value.shape)),
    CallIdArg: lambda value: CallIdArg,
    ThreadIdArg: lambda value: (ThreadIdArg, value.dim),
    range: lambda value: range,
    WangHashArg: lambda value: (WangHashArg, value.dims),
    RandFloatArg: lambda value: (RandFloatArg, value.dims),
}
