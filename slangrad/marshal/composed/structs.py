"""Dicts and lists: structs, vectors and arrays made of their children, or one value a call.

    {"x": tensor, "y": 2.0} to struct P  ->  P p; p.x = p_x.load(id); p.y = p_y;
    [1.0, 2.0, 3.0] to float[3]          ->  uniform float[3]
    [1.0, 2.0, 3.0] to float             ->  three calls

A dict or list of plain values is packed as one uniform parameter. A call may write to a dict with containers: the
containers receive the outputs, and plain values stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slangrad.check.model.types import (
    ArrayType,
    MatrixType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    array,
    matrix,
    vector,
)
from slangrad.ir.data import types as ir
from slangrad.ir.data.layout import layout_of
from slangrad.marshal.composed.rows import bind_rows
from slangrad.marshal.composed.scalars import NumberMarshal
from slangrad.marshal.containers import values
from slangrad.marshal.containers.containers import CONVERTED, ELEMENTS
from slangrad.marshal.containers.elements import make_elements
from slangrad.marshal.containers.memory import ARRAY_ACCESS, PRIMAL_PART
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import encode, memory_format, missing_field
from slangrad.marshal.host.records import TYPE_KEY
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Composite, CompositePart, Leaf
from slangrad.marshal.protocol.patterns import matches
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import Role
from slangrad.marshal.simple.enums import names_in
from slangrad.marshal.simple.plain import bind_plain, refuse_writes
from slangrad.tensors.elements.conversion import HostValue

PLAIN, PARTS, EACH = "plain", "parts", "each"
MOST_DIMENSIONS = 64  # of NumPy's arrays, which lists become


class Held(dict[str, HostValue]):
    """The fields of an object that is updated after the call: if all are plain values, calls write into it."""


class DictMarshal(Marshal):
    """A struct, or a vector by its components; `_type` names the type where the parameter does not."""

    def __init__(self, children: Mapping[str, Marshal], type_name: str | None, is_held: bool = False) -> None:
        self.children = children
        self.type_name = type_name
        self.is_held = is_held
        self.described = f"dict with {', '.join(children) or 'no fields'}"

    @property
    def is_torch(self) -> bool:
        return any(child.is_torch for child in self.children.values())

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        t = self._type(wanted, types)
        if t is None:
            return []
        fields = dict(types.fields(t))
        parts = []
        for name, child in self.children.items():
            if name not in fields:
                return []
            ways = list(child.ways(fields[name], types, mode))
            if not ways:
                return []
            parts.append(min(ways, key=lambda way: way.cost))
        complete = len(fields) == len(parts)
        plain = complete and all(map(_is_packed, parts)) and self.is_plain
        dims = max((part.dims for part in parts), default=0)
        how = PLAIN if plain and types.lower(t) is not None else PARTS
        cost = max((part.cost for part in parts), default=0) + (not complete)
        return [Way(t, dims, how, cost, tuple(parts))]

    def _check_fields(self, t: Type, fields: Mapping[str, Type], spot: Spot) -> None:
        """CallError if the function would read a field that was left out, and that has no default."""
        initialized = spot.types.initialized_fields(t)
        missing = [name for name in fields if name not in self.children and name not in initialized]
        if missing and spot.role.reads:
            note = f"give it a value, or an initializer in Slang: '... {missing[0]} = ...;'"
            raise missing_field(spot.label, str(t), missing, note)

    def _type(self, wanted: Type, types: ProgramTypes) -> Type | None:
        if self.type_name is not None:
            named = types.find(self.type_name)
            return named if named is not None and types.matches(wanted, named) else None
        concrete = isinstance(wanted, (StructType, VectorType)) and not wanted.abstract
        return wanted if concrete else None

    @property
    def is_plain(self) -> bool:
        return all(child.is_plain for child in self.children.values())

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        if self.type_name is not None:
            named = types.find(self.type_name)
            if named is None:
                return f"there is no type named '{self.type_name}'"
            lacking = types.lacking(wanted, named)
            if lacking:
                return lacking
        t = self._type(wanted, types)
        if t is None:
            if self.type_name is not None:
                return f"a value of type '{self.type_name}' does not fit '{wanted}'"
            return f"a dict does not fit '{wanted}': add the key '{TYPE_KEY}' with the name of a type"
        fields = dict(types.fields(t))
        for name, child in self.children.items():
            if name not in fields:
                return f"Slang type '{t}' has no field '{name}'; its fields are {', '.join(fields) or 'none'}"
            if not list(child.ways(fields[name], types, "")):
                return f"field '{name}': {child.reason(fields[name], types)}"
        return super().reason(wanted, types)

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if way.how == PLAIN and not spot.role.writes:
            return bind_plain(way, spot, self.described)
        if way.how == PLAIN and self.is_held:
            return _bind_held(way, spot, self.described)
        node = _composite(way, spot, self.described)
        fields = dict(spot.types.fields(way.type))
        self._check_fields(way.type, fields, spot)
        for (name, child), part in zip(self.children.items(), way.parts):
            tangent_name = spot.types.tangent_field(way.type, name) if spot.role.differentiates else None
            role = spot.role if tangent_name is not None else _without(spot)
            if child.is_plain and part.dims == 0 and not self.is_plain:
                role = replace(role, writes=False)
            bound = child.bind(part, spot.child(name, f"{spot.label}.{name}", role))
            access = None if tangent_name is None else f".{tangent_name}"
            node.parts.append(CompositePart(name, f".{name}", bound, access))
        node.complete = set(fields) == set(self.children)
        return node


def _bind_held(way: Way, spot: Spot, described: str) -> BoundNode:
    lowered = spot.types.lower(way.type)
    assert lowered is not None
    names = names_in(way.type, spot.types)
    part = values.CellPart(PRIMAL_PART, way.type, lowered, True, _itself, Held.update, names)
    return values.make_cell(spot, way.type, spot.role.without_derivative(), described, [part])


def _itself(held: Held) -> Held:
    return held


def _composite(way: Way, spot: Spot, described: str) -> Composite:
    tangent = spot.types.tangent(way.type) if spot.role.differentiates else None
    return Composite(**spot.node(way.type, spot.role, described, way.dims), tangent=tangent)


def _without(spot: Spot) -> Role:
    """The role of a field that carries no derivative."""
    return Role(spot.role.reads, spot.role.writes)


class ListMarshal(Marshal):
    """An array or vector of its elements, or one call for each element."""

    def __init__(self, children: Sequence[Marshal]) -> None:
        self.children = children
        self.described = f"list of {len(children)}"
        lengths = sorted({len(child.children) for child in children if isinstance(child, ListMarshal)})
        if len(lengths) > 1:
            listed = " and ".join(map(str, lengths))
            raise CallError("E1005", f"Elements of nested array must all have equal lengths, not {listed}")

    @property
    def is_plain(self) -> bool:
        return all(child.is_plain for child in self.children)

    @property
    def is_torch(self) -> bool:
        return any(child.is_torch for child in self.children)

    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        yield from self._as_whole(wanted, types, mode)
        if self._is_short(wanted):
            return
        for part in self._common(wanted, types, mode):
            whole = self.is_plain or all(map(_has_no_elements, part))
            if whole and types.lower(part[0].type) is not None:
                yield Way(part[0].type, part[0].dims + 1, EACH, part[0].cost, part)

    def _is_short(self, wanted: Type) -> bool:
        """Whether it is a vector or matrix with too many or too few numbers, rather than numbers for one call each."""
        numbers = bool(self.children) and all(isinstance(child, NumberMarshal) for child in self.children)
        return numbers and isinstance(wanted, (VectorType, MatrixType))

    def _as_whole(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        count = len(self.children)
        pattern = _element_pattern(wanted, count)
        if pattern is None or count == 0:
            return
        for parts in self._common(pattern, types, mode):
            t = _made_of(wanted, parts[0].type, count)
            plain = self.is_plain and all(map(_is_packed, parts))
            dims = max(part.dims for part in parts)
            if t is not None and matches(wanted, t):
                yield Way(t, dims, PLAIN if plain else PARTS, max(part.cost for part in parts), parts)

    def _common(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[tuple[Way, ...]]:
        """Ways of all elements that agree in type, as many as the first element has."""
        if not self.children:
            yield from (() if wanted.abstract else ((Way(wanted, 0),),))
            return
        ways_of_children = [list(child.ways(wanted, types, mode)) for child in self.children]
        for first in ways_of_children[0]:
            row = [next((way for way in ways if way.type is first.type), None) for ways in ways_of_children]
            if all(way is not None for way in row):
                yield tuple(way for way in row if way is not None)

    def bind(self, way: Way, spot: Spot) -> BoundNode:
        if way.how == PLAIN and not spot.role.writes:
            return bind_plain(way, spot, self.described)
        if way.how == EACH and self.is_plain:
            return _bind_each(way, spot, self.described)
        if way.how == EACH:
            return bind_rows(way, spot, self.children, self.described)
        node = _composite(way, spot, self.described)
        for i, (child, part) in enumerate(zip(self.children, way.parts)):
            bound = child.bind(part, spot.child(str(i), f"{spot.label}[{i}]", spot.role))
            node.parts.append(
                CompositePart(i, f"[{i}]", bound, f"[{i}]" if spot.role.differentiates else None)
            )
        return node

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        pattern = _element_pattern(wanted, len(self.children))
        if isinstance(wanted, (ArrayType, VectorType)) and pattern is None:
            return f"a list of {len(self.children)} elements does not fit '{wanted}'"
        for i, child in enumerate(self.children):
            if pattern is not None and not list(child.ways(pattern, types, "")):
                return f"element {i}: {child.reason(pattern, types)}"
        return super().reason(wanted, types)


def _is_packed(part: Way) -> bool:
    """Whether a plain value is passed to the kernel unchanged: no dimensions, no field to be initialized there."""
    return part.dims == 0 and part.how != PARTS


def _has_no_elements(way: Way) -> bool:
    """Whether all containers in a value are passed whole to one call."""
    is_whole = way.dims == 0 and way.how not in (ELEMENTS, CONVERTED)
    return is_whole and all(map(_has_no_elements, way.parts))


def _element_pattern(wanted: Type, count: int) -> Type | None:
    """The type of each of `count` elements of a list that is to be a `wanted`; None if it cannot be one."""
    if isinstance(wanted, ArrayType) and wanted.count in (None, count):
        return wanted.element
    if isinstance(wanted, ArrayType) and not isinstance(wanted.count, int):
        return wanted.element
    if isinstance(wanted, VectorType) and (wanted.count == count or not isinstance(wanted.count, int)):
        return wanted.element
    if isinstance(wanted, MatrixType) and (wanted.rows == count or not isinstance(wanted.rows, int)):
        return vector(wanted.element, wanted.columns)
    return None


def _made_of(wanted: Type, element: Type, count: int) -> Type | None:
    if isinstance(wanted, ArrayType):
        return array(element, count)
    if isinstance(wanted, VectorType):
        return vector(element, count) if isinstance(element, ScalarType) and count <= 4 else None
    if isinstance(wanted, MatrixType) and isinstance(element, VectorType):
        return matrix(element.element, count, element.count)
    return None


def _bind_each(way: Way, spot: Spot, described: str) -> BoundNode:
    """The elements packed one after the other, as an array in memory."""
    refuse_writes(spot, described)
    if way.dims > MOST_DIMENSIONS:
        message = (
            f"argument '{spot.label}': lists in lists are the dimensions of a call, at most {MOST_DIMENSIONS}"
        )
        raise CallError("E1005", f"{message}, not {way.dims}")
    element = spot.types.lower(way.type)
    assert element is not None
    leaf = make_elements(way, spot, spot.role.without_derivative(), described, ARRAY_ACCESS, ())
    leaf.prepare = ListPacker(element, way.dims, spot.label)
    return leaf


@dataclass(frozen=True, slots=True)
class ListPacker:
    """Makes an array of the elements of a list."""

    element: ir.Type
    dims: int
    label: str

    def __call__(self, values: object) -> HostValue:
        pack, record = memory_format(self.element), np.dtype((np.void, layout_of(self.element).size))
        shape, items = _shape_of(values, self.dims), _items(values, self.dims)
        data = b"".join(pack.pack(*encode(self.element, item, self.label)) for item in items)
        return np.frombuffer(data or b"\0", record, count=len(items)).reshape(shape)


def packed_element(leaf: Leaf | None) -> ir.Type | None:
    """The type of the elements of a list that a leaf packs, an element for each call; None for other leaves."""
    prepare = None if leaf is None else leaf.prepare
    return prepare.element if isinstance(prepare, ListPacker) else None


def _shape_of(values: HostValue, dims: int) -> tuple[int, ...]:
    shape = []
    for _ in range(dims):
        shape.append(len(values))
        values = values[0] if values else []
    return tuple(shape)


def _items(values: HostValue, dims: int) -> list[object]:
    if dims == 1:
        return list(values)
    return [item for inner in values for item in _items(inner, dims - 1)]
