"""Structs, vectors and matrices become scalars; arrays become arrays of scalars of one dimension.

    %v = load %p : f32x2                %v_x = load (member %p {index=0})    %v_y = load (member %p {index=1})
    %w = mul %v, %v                     %w_x = mul %v_x, %v_x                %w_y = mul %v_y, %v_y
    %e = index %v, %i {check=true}      in_bounds %i, 2       %e = select (equal %i, 0), %v_x, ...

Also for what control flow carries. Indices are u32 afterwards and reports are ops of their own (`in_bounds`;
none when bounds are not to be checked). Arrays go to memory in arrays.py; leaves.py knows how types come
apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slangrad.flatten.leaves import (
    Leaf,
    LeafElements,
    extent_of,
    is_fixed_array,
    leaf_names,
    leaf_types,
    span_of,
)
from slangrad.flatten.rows import rows_to_read
from slangrad.ir.analyses.intervals import Ranges
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import same_region
from slangrad.ir.data.types import (
    BOOL,
    I64,
    U32,
    U64,
    Array,
    Matrix,
    Pointer,
    Scalar,
    Type,
    Vector,
    component_count,
    components,
    index_extent,
    is_aggregate,
    is_long,
    pointer_of,
)
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.primitives import PRIMITIVES, WAVES
from slangrad.ir.ops.type_rules import scalar_type

Leaves = tuple[Leaf, ...]
TypedLeaves = Iterable[tuple[Leaf, Type]]


def flatten_aggregates(function: Function, bounds_checks: bool = True) -> Function:
    """The function on scalars and arrays of scalars, which it takes and returns, too."""
    return function.on(_Flatten(bounds_checks, rows_to_read(function)).function(function))


class _Flatten:
    """`leaves` maps each old value to its scalars and arrays."""

    def __init__(self, bounds_checks: bool, rows_to_read: set[Op]) -> None:
        self.bounds_checks = bounds_checks
        self.rows_to_read = rows_to_read
        self.ranges = Ranges()
        self.elements = LeafElements(self.ranges)
        self._leaves: dict[Value, Leaves] = {}

    def function(self, function: Function) -> Region:
        b = Builder(span=function.span)
        parameters = self.parameters(function.region.parameters)
        self.ops(b, function.region)
        return Region(parameters, b.ops, self.values(b, function.region.yields))

    # --- values

    def leaves(self, old: Value) -> Leaves:
        return self._leaves[old]

    def single(self, old: Value) -> Value:
        """The new value of a scalar or pointer."""
        (leaf,) = self._leaves[old]
        assert isinstance(leaf, Value)
        return leaf

    def values(self, b: Builder, old: Iterable[Value]) -> tuple[Value, ...]:
        """All leaves of old values, as values."""
        return tuple(self.elements.as_value(b, leaf) for v in old for leaf in self._leaves[v])

    def define(self, old: Value, leaves: Sequence[Leaf]) -> None:
        assert len(leaves) == len(leaf_types(old.type)), f"{len(leaves)} leaves for {old.type}"
        for leaf, name in zip(leaves, leaf_names(old.type), strict=True):
            if isinstance(leaf, Value) and not leaf.hint and old.hint:
                leaf.hint = old.hint + name
        self._leaves[old] = tuple(leaves)

    def define_all(self, old: Iterable[Value], leaves: Sequence[Leaf]) -> None:
        """Leaves of several old values in a row."""
        for value in old:
            count = len(leaf_types(value.type))
            self.define(value, leaves[:count])
            leaves = leaves[count:]

    def parameters(self, old: Sequence[Value]) -> tuple[Value, ...]:
        leaves_of_each = list(map(_made_of, old))
        for value, leaves in zip(old, leaves_of_each, strict=True):
            self.define(value, leaves)
        return tuple(leaf for leaves in leaves_of_each for leaf in leaves)

    # --- ops

    def ops(self, b: Builder, region: Region) -> None:
        for op in region.ops:
            if self._stays(op):
                self._leaves[op.results[0]] = b.again(op)
                continue
            outer, b.span = b.span, op.span or b.span
            leaves = RULES[op.name](self, b, op)
            b.span = outer
            self.define_all(op.results, leaves)

    def _stays(self, op: Op) -> bool:
        """Whether it is on scalars, all of which are in the new function."""
        if op.key is None or op.name not in ON_LEAVES or not _is_leaf(op.results[0].type):
            return False
        return all(self._leaves[v] == (v,) for v in op.operands)

    def report(self, b: Builder, op: Op, index: Value, extent: int) -> None:
        """Check an index at run time, if checks are on and it is not proved."""
        wanted = op.attributes.get("check") and self.bounds_checks
        if wanted and not self.ranges.is_below(b, index, extent):
            b.emit("in_bounds", index, b.constant(U32, extent))


def _is_leaf(t: Type) -> bool:
    return isinstance(t, (Scalar, Pointer))


def _made_of(value: Value) -> tuple[Value, ...]:
    """The leaves of a value that no op makes, or an op of several results; a leaf is itself."""
    return (value,) if _is_leaf(value.type) else tuple(map(Value, leaf_types(value.type)))


Rule = Callable[[_Flatten, Builder, Op], Sequence[Leaf]]


# --- arithmetic: leaf by leaf


def _elementwise(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    types = leaf_types(op.results[0].type)
    columns = zip(*(f.values(b, (operand,)) for operand in op.operands), strict=True)
    return [b.primitive(op.name, xs, t, op.attributes) for xs, t in zip(columns, types, strict=True)]


def _const(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    return [b.primitive("const", (), t, op.attributes) for t in leaf_types(op.results[0].type)]


def _zero(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    """The attributes of an array say whether its zeros are read; without them it is zero."""
    return [
        b.primitive("zero", (), t, op.attributes) if isinstance(t, Array) else b.zero(t)
        for t in leaf_types(op.results[0].type)
    ]


def _same(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    return f.leaves(op.operands[0])


def _select(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    conditions = f.values(b, op.operands[:1])
    x, y = (f.leaves(operand) for operand in op.operands[1:])
    conditions = conditions * len(x) if len(conditions) == 1 else conditions
    return [_choose(f, b, *choice) for choice in zip(conditions, x, y, strict=True)]


def _choose(f: _Flatten, b: Builder, condition: Value, x: Leaf, y: Leaf) -> Leaf:
    """A scalar by `select`; an array by `if`, so that it need not be copied when it is in memory."""
    if x is y:
        return x
    if isinstance(x, Value) and isinstance(y, Value) and not isinstance(x.type, Array):
        return b.emit("select", condition, x, y)
    as_value = f.elements.as_value
    return b.if_(condition, lambda arm: (as_value(arm, x),), lambda arm: (as_value(arm, y),))[0]


# --- movement


def _make(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    parts = [f.leaves(operand) for operand in op.operands]
    if isinstance(op.results[0].type, Array):
        return _array(f, b, op.results[0].type, parts)
    return [leaf for part in parts for leaf in part]


def _array(f: _Flatten, b: Builder, t: Array, parts: Sequence[Leaves]) -> Sequence[Leaf]:
    """The leaves of an array from those of its elements."""
    if not parts:
        return [b.zero(leaf) for leaf in leaf_types(t)]
    return [f.elements.joined(b, list(column)) for column in zip(*parts, strict=True)]


def _get(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    t = op.operands[0].type
    if isinstance(t, Array):
        return _element(f, b, t, f.leaves(op.operands[0]), b.constant(U32, op.attributes["index"]))
    start, end = span_of(t, op.attributes["index"])
    return f.leaves(op.operands[0])[start:end]


def _set(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    whole, part = (f.leaves(operand) for operand in op.operands)
    t = op.operands[0].type
    if isinstance(t, Array):
        return _put(f, b, whole, b.constant(U32, op.attributes["index"]), _typed(t, part))
    start, end = span_of(t, op.attributes["index"])
    return (*whole[:start], *part, *whole[end:])


def _element(f: _Flatten, b: Builder, t: Array, whole: Leaves, index: Value) -> Sequence[Leaf]:
    """The leaves of an element of an array, at an index of any integer type."""
    parts: list[Leaf] = []
    for leaf, part in zip(whole, leaf_types(t.element), strict=True):
        if is_fixed_array(part):
            assert isinstance(part, Array) and part.length is not None
            parts.append(f.elements.read_row(leaf, _row(f, b, leaf, part, index), part.length))
        else:
            parts.append(f.elements.read(b, leaf, f.elements.position(b, index, extent_of(leaf))))
    return parts


def _typed(t: Array, element: Leaves) -> TypedLeaves:
    """The leaves of an element of an array, each with its type."""
    return zip(element, leaf_types(t.element), strict=True)


def _put(
    f: _Flatten, b: Builder, whole: Leaves, index: Value, element: TypedLeaves, adds: bool = False
) -> Sequence[Leaf]:
    """The leaves of an array after an element was written, or added to."""
    leaves: list[Leaf] = []
    for leaf, (value, part) in zip(whole, element, strict=True):
        if is_fixed_array(part):
            assert isinstance(part, Array) and part.length is not None
            row = _row(f, b, leaf, part, index)
            leaves.append(f.elements.write_row(b, leaf, row, part.length, value, adds))
        else:
            at = f.elements.position(b, index, extent_of(leaf))
            leaves.append(f.elements.write(b, leaf, at, f.elements.as_value(b, value), adds))
    return leaves


def _row(f: _Flatten, b: Builder, leaf: Leaf, part: Array, index: Value) -> Value:
    extent = extent_of(leaf)
    return f.elements.row(b, index, None if extent is None else extent // max(1, part.length or 0))


def _index(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    t, index, extent = op.operands[0].type, f.single(op.operands[1]), index_extent(op.operands[0].type)
    if extent is not None:
        f.report(b, op, index, extent)
    if isinstance(t, Array):
        leaves = _element(f, b, t, f.leaves(op.operands[0]), index)
        return [f.elements.as_value(b, leaf) for leaf in leaves] if op in f.rows_to_read else leaves
    chosen: Sequence[Leaf] = [b.zero(leaf) for leaf in leaf_types(op.results[0].type)]
    for hit, part in _components(f, b, t, f.leaves(op.operands[0]), index):
        chosen = [_choose(f, b, hit, x, y) for x, y in zip(part, chosen, strict=True)]
    return chosen


def _change(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    """An element written, or added to."""
    adds = op.name == "add_index"
    t, index, extent = op.operands[0].type, f.single(op.operands[1]), index_extent(op.operands[0].type)
    whole, new = f.leaves(op.operands[0]), f.leaves(op.operands[2])
    if extent is not None:
        f.report(b, op, index, extent)
    if isinstance(t, Array):
        return _put(f, b, whole, index, _typed(t, new), adds)
    leaves: list[Leaf] = []
    values = f.values(b, op.operands[2:])
    for hit, part in _components(f, b, t, whole, index):
        for value, old in zip(values, part, strict=True):
            assert isinstance(old, Value)
            leaves.append(b.emit("select", hit, b.emit("add", old, value) if adds else value, old))
    return leaves


def _components(
    f: _Flatten, b: Builder, t: Type, whole: Leaves, index: Value
) -> Iterable[tuple[Value, Leaves]]:
    """For each component of a vector or matrix: whether the index is its number, and its leaves."""
    assert isinstance(t, (Vector, Matrix)), t
    extent = component_count(t)
    position = f.elements.position(b, index, extent)
    for k in range(extent):
        start, end = span_of(t, k)
        yield b.emit("equal", position, b.constant(U32, k)), whole[start:end]


def _splat(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    return _fill(f, b, op.results[0].type, op.operands[0].type, f.leaves(op.operands[0]))


def _fill(f: _Flatten, b: Builder, t: Type, source: Type, leaves: Leaves) -> Leaves:
    if t is source:
        return leaves
    parts = [_fill(f, b, c, source, leaves) for c in components(t)]
    return tuple(_array(f, b, t, parts)) if isinstance(t, Array) else tuple(leaf for p in parts for leaf in p)


def _shuffle(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    indices = op.attributes["indices"]
    return [f.leaves(op.operands[0])[i] for i in indices]


# --- memory


def _plain(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    """An op on scalars and pointers."""
    operands = tuple(f.single(operand) for operand in op.operands)
    if op.results:
        return [b.primitive(op.name, operands, op.results[0].type, op.attributes)]
    b.effect(op.name, *operands, **op.attributes)
    return []


def _load(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    return _read(f, b, f.single(op.operands[0]))


def _element_address(b: Builder, address: Value, index: Value) -> Value:
    return b.emit("offset", b.emit("member", address, index=0), index)


def _read(f: _Flatten, b: Builder, address: Value) -> Leaves:
    """The leaves of what is at an address."""
    t = pointer_of(address.type).element
    if not is_aggregate(t):
        return (b.emit("load", address, type=t),)
    if isinstance(t, Array) and is_long(t):
        return _read_long(f, b, t, address)
    parts = [_read(f, b, b.emit("member", address, index=i)) for i in range(component_count(t))]
    return tuple(_array(f, b, t, parts)) if isinstance(t, Array) else tuple(leaf for p in parts for leaf in p)


def _read_long(f: _Flatten, b: Builder, t: Array, address: Value) -> Leaves:
    """An array from memory, element by element in a loop."""
    count = b.constant(U32, t.length or 0)

    def read_one(b: Builder, index: Value, *carried: Value) -> Iterable[Value]:
        f.ranges.counted(b, count, index)
        element = _read(f, b, _element_address(b, address, index))
        return [f.elements.as_value(b, leaf) for leaf in _put(f, b, carried, index, _typed(t, element))]

    return b.for_(count, map(b.zero, leaf_types(t)), read_one, hint="k")


def _store(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    _write(f, b, f.single(op.operands[0]), f.leaves(op.operands[1]))
    return []


def _write(f: _Flatten, b: Builder, address: Value, leaves: Leaves) -> None:
    t = pointer_of(address.type).element
    if not is_aggregate(t):
        b.effect("store", address, f.elements.as_value(b, leaves[0]))
    elif isinstance(t, Array):
        _write_array(f, b, t, address, leaves)
    else:
        for i in range(component_count(t)):
            start, end = span_of(t, i)
            _write(f, b, b.emit("member", address, index=i), leaves[start:end])


def _write_array(f: _Flatten, b: Builder, t: Array, address: Value, leaves: Leaves) -> None:
    assert t.length is not None
    if not is_long(t):
        for i in range(t.length):
            element = _element(f, b, t, leaves, b.constant(U32, i))
            _write(f, b, b.emit("member", address, index=i), tuple(element))
        return
    count = b.constant(U32, t.length)

    def write_one(b: Builder, index: Value) -> None:
        f.ranges.counted(b, count, index)
        element = _element(f, b, t, leaves, index)
        _write(f, b, _element_address(b, address, index), tuple(element))

    b.for_(count, (), write_one, hint="k")


def _print(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    b.effect("print", *f.values(b, op.operands), **op.attributes)
    return []


def _in_bounds(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    """Kept when it may report; true where the ranges prove it."""
    index, extent = (f.single(operand) for operand in op.operands)
    if f.ranges.is_below(b, index, f.ranges.of(b, extent).low):
        return [b.constant(BOOL, True)]
    if f.bounds_checks or "text" in op.attributes:
        return [b.primitive("in_bounds", (index, extent), None, op.attributes)]
    wide = U64 if U64 in (scalar_type(index), scalar_type(extent)) else I64
    low = b.emit("less_equal", b.constant(index.type, 0), index)
    below = b.emit("less", *(b.emit("convert", x, type=wide) for x in (index, extent)))
    has_elements = b.emit("less", b.constant(extent.type, 0), extent)
    return [b.emit("and", b.emit("and", low, has_elements), below)]


# --- control flow


def _nested(f: _Flatten, b: Builder, region: Region, parameters: tuple[Value, ...]) -> Region:
    nested = b.nested()
    f.ops(nested, region)
    return Region(parameters, nested.ops, f.values(nested, region.yields))


def _control(b: Builder, op: Op, operands: tuple[Value, ...], regions: tuple[Region, ...]) -> Sequence[Leaf]:
    if operands == op.operands and all(map(same_region, regions, op.regions)):
        return b.again(op)
    results = tuple(v for r in op.results for v in _made_of(r))
    return b.several(op.name, operands, (), regions, op.attributes, results)


def _if(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    regions = tuple(_nested(f, b, region, ()) for region in op.regions)
    return _control(b, op, (f.single(op.operands[0]),), regions)


def _for(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    count, starts, (body,) = f.single(op.operands[0]), f.values(b, op.operands[1:]), op.regions
    parameters = f.parameters(body.parameters)
    f.ranges.counted(b, count, parameters[0])
    region = _nested(f, b, body, parameters)
    return _control(b, op, (count, *starts), (region,))


def _while(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    starts = f.values(b, op.operands)
    regions = tuple(_nested(f, b, region, f.parameters(region.parameters)) for region in op.regions)
    return _control(b, op, starts, regions)


def _call(f: _Flatten, b: Builder, op: Op) -> Sequence[Leaf]:
    types = [t for r in op.results for t in leaf_types(r.type)]
    return b.several("call", f.values(b, op.operands), types, (), op.attributes)


RULES: dict[str, Rule] = {
    **{name: _elementwise for name, row in PRIMITIVES.items() if row.primal is not None},
    "convert": _elementwise,
    "bitcast": _elementwise,
    "const": _const,
    "zero": _zero,
    "detach": _same,
    "select": _select,
    "make": _make,
    "get": _get,
    "set": _set,
    "index": _index,
    "set_index": _change,
    "add_index": _change,
    "splat": _splat,
    "shuffle": _shuffle,
    "parameter": _plain,
    "thread_id": _plain,
    "shared": _plain,
    "barrier": _plain,
    "fence": _plain,
    "offset": _plain,
    "member": _plain,
    "atomic": _plain,
    **dict.fromkeys(WAVES, _plain),
    "alloc": _plain,
    "variable": _plain,
    "is_memory": _plain,
    "load": _load,
    "store": _store,
    "print": _print,
    "in_bounds": _in_bounds,
    "if": _if,
    "for": _for,
    "while": _while,
    "call": _call,
}
ON_LEAVES = frozenset(name for name, rule in RULES.items() if rule in (_elementwise, _plain, _const))
