"""Lanes that act one after the other: reports and atomics.

    in_bounds %i, %n           a mask; where it is false, the first such lane reports
    print "%f", %x             each lane that is on, in order
    atomic{add} %p, %v         each lane in order; where all have one address and the old value is not
                               used, the lanes are combined first and one atomic is made
    add_records %p, %i, %v...  each lane adds to elements that follow each other, from its %i on (records.py)

A kernel is *exclusive* when no other thread runs it at the same time: float atomics need not be atomic then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.numbers import neutral
from slangrad.ir.data.types import BOOL, U64, lanes
from slangrad.ir.ops.core import Function, Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.spmd.access import blended, if_stride
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import any_lane, each_lane


class Picked:
    """Operands from which one lane's are taken; they are computed before the loop over lanes."""

    def __init__(self, w: Widening, b: Builder, olds: tuple[Value, ...]) -> None:
        uniform = [w.forms.shape(old).is_uniform for old in olds]
        self._values = [
            w.forms.scalar(old) if same else w.lanes_of(b, old)
            for old, same in zip(olds, uniform, strict=True)
        ]
        self._types = [old.type for old in olds]

    def of(self, b: Builder, lane: Value) -> tuple[Value, ...]:
        return tuple(
            v if v.type is t else b.emit("lane_get", v, lane, type=t)
            for v, t in zip(self._values, self._types, strict=True)
        )


Act = Callable[[Builder, tuple[Value, ...], Value], Value | None]


def in_lane_order(w: Widening, b: Builder, op: Op, act: Act) -> Value | None:
    """`act(builder, operands, lane)` for each lane that is on; its values as lanes, if they are used."""
    picked = Picked(w, b, op.operands)
    wanted = any(w.is_used(r) for r in op.results)
    start = (b.zero(lanes(op.results[0].type)),) if wanted else ()

    def body(inner: Builder, lane: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        value = act(inner, picked.of(inner, lane), lane)
        return (inner.emit("lane_set", carried[0], lane, value),) if wanted and value is not None else ()

    ends = each_lane(b, w.mask.bits(b, w.count), start, body)
    return ends[0] if wanted else None


def lane_by_lane(w: Widening, b: Builder, op: Op, act: Act) -> None:
    """The same; its values are the result of the op."""
    values = in_lane_order(w, b, op, act)
    if values is not None:
        w.forms.set(op.results[0], values)


# --- reports


def _in_bounds(w: Widening, b: Builder, op: Op) -> None:
    (result,) = op.results
    if w.forms.shape(result).is_uniform:
        operands = tuple(w.forms.scalar(x) for x in op.operands)
        w.forms.set(result, b.primitive("in_bounds", operands, BOOL, op.attributes))
        return
    index, extent = (w.lanes_of(b, x) for x in op.operands)
    inside = _is_inside(b, index, extent)
    outside = w.mask.narrowed(b, b.emit("not", inside)).value
    assert outside is not None
    picked = Picked(w, b, op.operands)

    def report(inner: Builder) -> None:
        first = inner.emit("trailing_zeros", inner.emit("lane_bits", outside, type=U64))
        inner.primitive("in_bounds", picked.of(inner, first), BOOL, op.attributes)

    b.guarded(any_lane(b, outside), report)
    w.forms.set(result, inside)


def _is_inside(b: Builder, index: Value, extent: Value) -> Value:
    """0 <= index < extent; of different types, as u64 where both are positive."""
    not_negative = [x for x in (index, extent) if scalar_type(x).kind == "signed"]
    if index.type is extent.type:
        not_negative = not_negative[:1]
    else:
        index, extent = (b.emit("convert", x, type=lanes(U64)) for x in (index, extent))
    inside = b.emit("less", index, extent)
    for x in not_negative:
        negative = b.emit("less", x, b.zero(x.type))
        inside = b.emit("and", inside, b.emit("not", negative))
    return inside


def _is_memory(w: Widening, b: Builder, op: Op) -> None:
    (result,) = op.results
    if w.forms.shape(result).is_uniform:
        address = w.forms.scalar(op.operands[0])
        w.forms.set(result, b.primitive("is_memory", (address,), BOOL, op.attributes))
        return
    act = lambda inner, operands, lane: inner.primitive("is_memory", operands, BOOL, op.attributes)
    lane_by_lane(w, b, op, act)


def _print(w: Widening, b: Builder, op: Op) -> None:
    def act(inner: Builder, operands: tuple[Value, ...], lane: Value) -> None:
        inner.effect("print", *operands, **op.attributes)

    in_lane_order(w, b, op, act)


# --- atomics


def _atomic(w: Widening, b: Builder, op: Op) -> None:
    (result,), address = op.results, op.operands[0]
    shape, kind = w.forms.shape(address), op.attributes["kind"]

    def one_by_one(inner: Builder) -> tuple[Value, ...]:
        safe = op.attributes.get("alone") and not op.attributes.get(
            "own"
        )  # to touch memory that only lanes that are off reach
        if combines and safe and _add_to_elements(w, inner, op):
            return ()
        old = in_lane_order(w, inner, op, lambda b, operands, lane: _act(w, b, op, operands))
        return () if old is None else (old,)

    def combined(inner: Builder) -> tuple[Value, ...]:
        base = w.forms.terms(inner, address)[0]
        _act(w, inner, op, (base, reduced(w, inner, kind, op.operands[1])))
        return ()

    combines = kind in COMBINING and not w.is_used(result)
    row = w.adjacent.get(op, ())
    if row and shape.kind == "varying":
        if op is row[-1]:
            _add_to_row(w, b, row)
    elif w.shapes.is_private(address):
        _add_to_accumulators(w, b, op)
    elif shape.is_uniform:
        _define(w, op, (combined if combines else one_by_one)(b))
    elif not shape.is_strided:
        _define(w, op, one_by_one(b))
    else:
        form, otherwise = w.forms.strided(address), one_by_one
        if combines:
            otherwise = lambda inner: if_stride(inner, form, 0, combined, one_by_one)
        if _is_alone(w, op):
            together = lambda inner: _together(w, inner, op)
            results = if_stride(b, form, element_size(address.type), together, otherwise)
        else:
            results = otherwise(b)
        _define(w, op, results)


def _is_alone(w: Widening, op: Op) -> bool:
    """Whether no other thread reaches the address meanwhile."""
    return bool(op.attributes.get("alone")) or (w.exclusive and scalar_type(op.results[0]).kind == "float")


def _add_to_accumulators(w: Widening, b: Builder, op: Op) -> None:
    """Each lane that is on adds to its own; the old values are not used."""
    (address, value), kind = op.operands, op.attributes["kind"]
    assert w.forms.shape(address).is_strided and not w.is_used(op.results[0])
    base = w.forms.strided(address).base
    old = b.emit("load", base, type=lanes(value.type))
    new = b.emit(kind, old, w.lanes_of(b, value))
    if w.mask.value is not None:
        new = blended(b, w.mask.value, new, old)
    b.effect("store", base, new)


def _add_to_elements(w: Widening, b: Builder, op: Op) -> bool:
    """Lane after lane, without branches: lanes that are off add -0.0 to the first element, which changes nothing."""
    (address, value), kind = op.operands, op.attributes["kind"]
    source = w.forms.made_by(address)
    if source is None or source.name != "offset" or not w.forms.shape(source.operands[0]).is_uniform:
        return False
    base, index, values = (
        w.forms.scalar(source.operands[0]),
        w.lanes_of(b, source.operands[1]),
        w.lanes_of(b, value),
    )
    if w.mask.value is not None:
        index = b.emit("select", w.mask.value, index, b.zero(index.type))
        values = b.emit("select", w.mask.value, values, b.constant(values.type, -0.0))
    for number in range(w.count):
        lane = b.constant(U64, number)
        place = b.emit("offset", base, b.emit("lane_get", index, lane, type=source.operands[1].type))
        old = b.emit("load", place, type=value.type)
        b.effect("store", place, b.emit(kind, old, b.emit("lane_get", values, lane, type=value.type)))
    return True


def _add_to_row(w: Widening, b: Builder, row: Sequence[Op]) -> None:
    """Lane after lane, without branches, all adds of a row at once: lanes that are off add -0.0 to the elements of one
    that is on."""
    source = w.forms.made_by(row[0].operands[0])
    assert source is not None
    index, values = w.lanes_of(b, source.operands[1]), [w.lanes_of(b, op.operands[1]) for op in row]
    if w.mask.value is not None:
        first = b.emit("trailing_zeros", w.mask.bits(b, w.count))
        shared = b.emit("lane_get", index, first, type=source.operands[1].type)
        index = b.emit("select", w.mask.value, index, b.emit("splat", shared, type=index.type))
        nothing = b.constant(values[0].type, -0.0)
        values = [b.emit("select", w.mask.value, value, nothing) for value in values]
    b.several("add_records", (w.forms.scalar(source.operands[0]), index, *values), ())


def exclusive(kernel: Function) -> Function:
    """At one lane: float atomics need not be atomic."""

    def atomic(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        is_float = scalar_type(op.results[0]).kind == "float"
        attributes = op.attributes | {"alone": True} if is_float else op.attributes
        return (b.primitive("atomic", walk.values(op.operands), op.results[0].type, attributes),)

    return Rebuild({"atomic": atomic}).function(kernel)


def _define(w: Widening, op: Op, values: tuple[Value, ...]) -> None:
    for value in values:
        w.forms.set(op.results[0], value)


def _act(w: Widening, b: Builder, op: Op, operands: tuple[Value, ...]) -> Value:
    """The atomic for one lane."""
    element, kind = op.results[0].type, op.attributes["kind"]
    if not _is_alone(w, op):
        return b.primitive("atomic", operands, element, op.attributes)
    old = b.emit("load", operands[0], type=element)
    b.effect("store", operands[0], _replacement(b, kind, old, operands[1:]))
    return old


def _together(w: Widening, b: Builder, op: Op) -> tuple[Value, ...]:
    """All lanes at once, on consecutive addresses that no other thread reaches meanwhile."""
    address, *values = op.operands
    base, mask = w.forms.strided(address).base, w.mask.operands()
    old = b.primitive("load", (base, *mask), lanes(op.results[0].type), {})
    kind = op.attributes["kind"]
    b.effect("store", base, _replacement(b, kind, old, [w.lanes_of(b, v) for v in values]), *mask)
    return (old,) if w.is_used(op.results[0]) else ()


def _replacement(b: Builder, kind: str, old: Value, values: Sequence[Value]) -> Value:
    """The new value of an atomic in memory."""
    if kind == "exchange":
        return values[0]
    if kind == "compare_exchange":
        return b.emit("select", b.emit("equal", old, values[0]), values[1], old)
    return b.emit(kind, old, values[0])


def reduced(w: Widening, b: Builder, kind: str, old: Value) -> Value:
    """The values of the lanes that are on, combined in a fixed order."""
    scalar, values = scalar_type(old), w.lanes_of(b, old)
    if w.mask.value is not None:
        nothing = b.constant(values.type, neutral(kind, scalar))
        values = b.emit("select", w.mask.value, values, nothing)
    return b.emit("lane_reduce", values, type=scalar, kind=kind)


COMBINING = frozenset({"add", "min", "max", "and", "or", "xor"})  # kinds that many lanes can do as one


def _fence(w: Widening, b: Builder, op: Op) -> None:
    b.effect("fence", **op.attributes)


RULES: dict[str, Rule] = {
    "in_bounds": _in_bounds,
    "is_memory": _is_memory,
    "print": _print,
    "atomic": _atomic,
    "fence": _fence,
}
