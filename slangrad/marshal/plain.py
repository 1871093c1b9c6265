"""Plain Python values as flat lists of scalars, in the order of memory, and back.

    {"x": 1, "v": float2(2, 3)} as struct { int x; float2 v; }   <->   [1, 2.0, 3.0]

Numbers spread over vectors and matrices; a dict has all fields. A plain value that is the same in all calls is a
uniform parameter of the kernel:

    f(2, x) with float a  ->  uniform float a, packed as 2.0
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from slangrad.ir import types as ir
from slangrad.ir.forms import lies_by_columns, part_of
from slangrad.ir.layout import layout_of
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.footprint import Shape
from slangrad.marshal.marshal import Finder, Leaf, Parameter, Setter, Spot, Way
from slangrad.marshal.spelling import spell_on_page
from slangrad.marshal.vectors import HostArray, HostMatrix, HostVector, matrix_class, vector_class
from slangrad.tensors.element_types import slang_name

_FORMATS = {
    "bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip

COMPONENTS = "xyzw"
TYPE_KEY = "_type"


def format_of(t: ir.Type) -> str:
    """The letter of a scalar or pointer in a `struct` format."""
    return "Q" if isinstance(t, ir.Pointer) else _FORMATS[str(t)]


def scalars_of(t: ir.Type, offset: int = 0) -> Iterator[tuple[int, ir.Type]]:
    """Scalars and pointers of a value with their offsets."""
    if isinstance(t, (ir.Scalar, ir.Pointer)):
        yield offset, t
        return
    assert not isinstance(t, ir.Array) or t.length is not None, t
    for part, start in zip(ir.components(t), layout_of(t).offsets):
        yield from scalars_of(part, offset + start)


@cache
def memory_format(t: ir.Type) -> struct.Struct:
    """Packs the scalars of a value as they lie in memory, gaps included."""
    parts, end = ["="], 0
    for offset, scalar in scalars_of(t):
        parts.append("x" * (offset - end) + format_of(scalar))
        end = offset + layout_of(scalar).size
    return struct.Struct("".join(parts) + "x" * (layout_of(t).size - end))


def flatten(t: ir.Type, value: object, label: str) -> list[Any]:
    """The scalars of a plain value; a CallError names the part that is none."""
    if isinstance(t, (ir.Scalar, ir.Pointer)):
        return [_number(t, value, label)]
    if is_form_of_numbers(t):
        return in_memory(t, flatten(ir.value_of(t), value, label))
    if value is None:
        return [0] * sum(1 for _ in scalars_of(t))
    if isinstance(value, (bool, int, float, np.generic)) and isinstance(t, (ir.Vector, ir.Matrix)):
        return [_number(t.element, value, label)] * sum(1 for _ in scalars_of(t))
    if isinstance(value, HostArray):
        return _flatten_host_array(t, value, label)
    if isinstance(value, Mapping):
        return _flatten_mapping(t, value, label)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _flatten_sequence(t, value, label)
    raise BoundVariableException(
        "E1001", f"'{label}': {type(value).__name__} is no value of '{slang_name(t)}'"
    )


def _number(t: ir.Type, value: object, label: str) -> object:
    if value is None:
        return 0
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    raise BoundVariableException("E1001", f"'{label}': {type(value).__name__} is no number")


def _flatten_host_array(t: ir.Type, value: HostArray, label: str) -> list[object]:
    if value.data.size != sum(1 for _ in scalars_of(t)):
        raise BoundVariableException(
            "E1001", f"'{label}': {type(value).__name__} is no value of '{slang_name(t)}'"
        )
    found: list[Any] = value.data.ravel().tolist()
    return found


def _flatten_mapping(t: ir.Type, value: Mapping[str, object], label: str) -> list[object]:
    names = field_names(t)
    unknown = [name for name in value if name != TYPE_KEY and name not in names]
    if unknown:
        raise CallError("E1001", f"'{label}': Slang type '{slang_name(t)}' has no field '{unknown[0]}'")
    missing = [name for name in names if name not in value]
    if missing:
        raise missing_field(label, slang_name(t), missing)
    parts = zip(names, ir.components(t))
    return [scalar for name, part in parts for scalar in flatten(part, value[name], f"{label}.{name}")]


NEEDED = "lists with a call for each element, a ValueRef and values outside of functions need all fields"


def missing_field(label: str, t: str, names: Sequence[str], note: str = NEEDED) -> CallError:
    plural, listed = "s" if len(names) > 1 else "", ", ".join(map(repr, names))
    message = f"argument '{label}': the dict lacks the field{plural} {listed} of '{t}'"
    return CallError("E1001", message, (), note)


def _flatten_sequence(t: ir.Type, value: Sequence[object], label: str) -> list[object]:
    parts = list(ir.components(t))
    if len(parts) != len(value) or isinstance(t, ir.Struct):
        raise CallError("E1005", f"'{label}': {len(value)} elements are no value of {slang_name(t)}")
    return [
        scalar
        for i, (part, each) in enumerate(zip(parts, value))
        for scalar in flatten(part, each, f"{label}[{i}]")
    ]


def field_names(t: ir.Type) -> tuple[str, ...]:
    """The names a dict may use for a value of this type."""
    t = ir.value_of(t)
    if isinstance(t, ir.Struct):
        return tuple(name for name, _ in t.fields)
    return tuple(COMPONENTS[: t.length]) if isinstance(t, ir.Vector) else ()


def rebuild(t: ir.Type, scalars: Iterator[object]) -> Any:
    """A Python value from scalars: numbers, host vectors and matrices, dicts, lists."""
    if is_form_of_numbers(t):
        found = [next(scalars) for _ in scalars_of(t)]
        return rebuild(ir.value_of(t), iter(out_of_memory(t, found)))
    return _REBUILD[type(t)](t, scalars)


def mapped(change: Callable[[Any], object], value: object) -> Any:
    """Lists and dicts with `change` applied to what is in them; every other value as it is."""
    if isinstance(value, list):
        return [change(each) for each in value]
    return {name: change(each) for name, each in value.items()} if isinstance(value, dict) else value


# --- Forms in memory ----------------------------------------------------------------------------------


def is_form_of_numbers(t: ir.Type) -> bool:
    """Whether numbers, or an element of an array, lie in memory in another way than as they are."""
    return bool(part_of(t)) or (isinstance(t, ir.Matrix) and t.transposed)


def holds_forms(t: ir.Type) -> bool:
    """Whether that is so in an array."""
    return is_form_of_numbers(t) or (isinstance(t, ir.Array) and holds_forms(t.element))


def in_memory(t: ir.Type, scalars: list[object]) -> list[Any]:
    """The scalars of a value in the order of memory."""
    value = ir.value_of(t)
    if not lies_by_columns(t) or not isinstance(value, ir.Matrix):
        return scalars
    return [scalars[i * value.columns + j] for j in range(value.columns) for i in range(value.rows)]


def out_of_memory(t: ir.Type, scalars: list[object]) -> list[Any]:
    """The other way round; truth values may have been words."""
    value = ir.value_of(t)
    if ir.scalar_of(value) is ir.BOOL:
        scalars = [bool(each) for each in scalars]
    if not lies_by_columns(t) or not isinstance(value, ir.Matrix):
        return scalars
    return [scalars[j * value.rows + i] for i in range(value.rows) for j in range(value.columns)]


def _rebuild_vector(t: ir.Vector, scalars: Iterator[object]) -> HostVector:
    made = vector_class(t.element, t.length)
    return made.of(np.array([next(scalars) for _ in range(t.length)], made.dtype))


def _rebuild_matrix(t: ir.Matrix, scalars: Iterator[object]) -> HostMatrix:
    made = matrix_class(t.element, t.rows, t.columns)
    flat = np.array([next(scalars) for _ in range(t.rows * t.columns)], made.dtype)
    return made.of(flat.reshape(made.shape))


_REBUILD: dict[type, Callable[[Any, Iterator[Any]], object]] = {
    ir.Scalar: lambda t, scalars: next(scalars),
    ir.Pointer: lambda t, scalars: next(scalars),
    ir.Vector: _rebuild_vector,
    ir.Matrix: _rebuild_matrix,
    ir.Array: lambda t, scalars: [rebuild(t.element, scalars) for _ in range(t.length)],
    ir.Form: lambda t, scalars: {name: rebuild(part, scalars) for name, part in t.fields},
    ir.Struct: lambda t, scalars: {name: rebuild(part, scalars) for name, part in t.fields},
}


@dataclass(slots=True, eq=False, kw_only=True)
class Uniform(Leaf):
    """A plain value, packed with the arguments. `read` finds it in what was given."""

    is_packed: ClassVar[bool] = True

    lowered: ir.Type
    read: Callable[[Any], Any] | None = None

    def parameters(self, classes: str) -> list[Parameter]:
        return [Parameter(spell_on_page(self.type), self.name)]

    def load(self) -> str:
        return self.name

    @property
    def _is_scalar(self) -> bool:
        return isinstance(self.lowered, (ir.Scalar, ir.Pointer)) and self.read is None

    def finders(self) -> list[Finder]:
        return [(self.name, 0, None)] if self._is_scalar else []

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        return {} if self._is_scalar else {self.name: plain_setter(self.lowered, self.read, self.label)}


def plain_setter(t: ir.Type, read: Callable[[Any], object] | None, label: str) -> Setter:
    """What puts the scalars of a plain value at their place."""

    def put(values: list[object], place: int, value: object, scratch: object) -> None:
        scalars = flatten(t, value if read is None else read(value), label)
        values[place : place + len(scalars)] = scalars

    return put


def bind_plain(way: Way, spot: Spot, described: str, read: Callable[[Any], object] | None = None) -> Uniform:
    """A plain value as a uniform parameter; it cannot be written, and carries no derivative."""
    refuse_writes(spot, described)
    lowered = spot.types.lower(way.type)
    assert lowered is not None, f"{way.type} has no place in memory"
    own = spot.node(way.type, spot.role.without_derivative(), described)
    return Uniform(**own, lowered=lowered, read=read)


def refuse_writes(spot: Spot, described: str) -> None:
    """CallError where a value that cannot change is to receive one."""
    if spot.role.writes:
        message = f"argument '{spot.label}': {described} cannot receive what the function writes"
        raise CallError("E1011", message, (), "pass ValueRef(value), or a Tensor or NumPy array to fill")
