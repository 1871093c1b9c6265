"""How lanes reach memory: one scalar access, one consecutive vector access, or a gather or scatter.

    load of a uniform address       load %p                      : f32
    ... of stride sizeof(T)         load %p, %mask               : lanes<f32>       the address of lane 0
    ... of any other                load %ps, %mask              : lanes<f32>       an address for each lane
    ... of an unknown stride        if (stride == sizeof(T)) { consecutive } { gather }

A store to a uniform address is that of the last lane, as if threads ran in order.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir.building.builder import Builder
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import I64, U32, U64, lanes, pointer_of
from slangrad.ir.ops.core import Attributes, Op, Value
from slangrad.spmd.forms import Strided
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import last_lane
from slangrad.spmd.records import addresses

Path = Callable[[Builder], tuple[Value, ...]]


def _alloc(w: Widening, b: Builder, op: Op) -> None:
    """Where lanes differ each has its own place for each element: element i of lane l is at i * lanes + l."""
    (result,) = op.results
    if not w.shapes.is_private(result):
        w.forms.set(result, b.primitive("alloc", (), result.type, op.attributes))
        return
    count = op.attributes.get("count", 1)
    zero = op.attributes.get("zero", False)
    clear_some = zero and not w.mask.is_entry
    attributes: Attributes = {
        **op.attributes,
        "count": count * w.count,
        "zero": zero and not clear_some,
    }
    base = b.primitive("alloc", (), result.type, attributes)
    if clear_some:
        _clear(w, b, base, count)
    w.forms.set(result, Strided(base, b.constant(I64, element_size(result.type))))


def _accumulators(w: Widening, b: Builder, op: Op) -> None:
    (result,) = op.results
    base = b.primitive("accumulators", (), result.type, op.attributes)
    w.forms.set(result, Strided(base, b.constant(I64, element_size(result.type))))


def _clear(w: Widening, b: Builder, base: Value, count: int) -> None:
    """Zero the elements of the lanes that are on; others may still use theirs."""
    zero = lanes(pointer_of(base.type).element)

    def clear(inner: Builder, index: Value) -> None:
        place = inner.emit("offset", base, inner.emit("mul", index, inner.constant(U32, w.count)))
        store_private(w, inner, place, inner.zero(zero))

    b.for_(b.constant(U32, count), (), clear)


def _load(w: Widening, b: Builder, op: Op) -> None:
    (p,), (r,) = op.operands, op.results
    shape = w.forms.shape(p)
    if shape.is_uniform:
        w.forms.set(r, b.primitive("load", (w.forms.scalar(p),), r.type, op.attributes))
        return

    def gather(b: Builder) -> tuple[Value, ...]:
        operands = (w.lanes_of(b, p), *w.mask.operands())
        return (b.primitive("load", operands, lanes(r.type), op.attributes),)

    def consecutive(b: Builder) -> tuple[Value, ...]:
        mask = () if w.shapes.is_private(p) else w.mask.operands()
        return (b.primitive("load", (w.forms.strided(p).base, *mask), lanes(r.type), op.attributes),)

    if shape.is_strided:
        (loaded,) = if_stride(b, w.forms.strided(p), element_size(p.type), consecutive, gather)
    else:
        (loaded,) = gather(b)
    w.forms.set(r, loaded)


def _store(w: Widening, b: Builder, op: Op) -> None:
    p, v = op.operands
    shape = w.forms.shape(p)

    def scatter(b: Builder) -> tuple[Value, ...]:
        b.effect("store", w.lanes_of(b, p), w.lanes_of(b, v), *w.mask.operands(), **op.attributes)
        return ()

    def consecutive(b: Builder) -> tuple[Value, ...]:
        base, value = w.forms.strided(p).base, w.lanes_of(b, v)
        if w.shapes.is_private(p):
            store_private(w, b, base, value)
        else:
            b.effect("store", base, value, *w.mask.operands(), **op.attributes)
        return ()

    if shape.is_uniform:
        b.effect("store", w.forms.scalar(p), _last(w, b, v), **op.attributes)
    elif shape.is_strided:
        if_stride(b, w.forms.strided(p), element_size(p.type), consecutive, scatter)
    else:
        scatter(b)


def store_private(w: Widening, b: Builder, base: Value, value: Value) -> None:
    """To a row where each lane has its own place. Without a masked store it can become a register."""
    if w.mask.value is not None and not w.mask.is_entry:
        value = blended(b, w.mask.value, value, b.primitive("load", (base,), value.type, {}))
    b.effect("store", base, value)


def blended(b: Builder, mask: Value, new: Value, old: Value) -> Value:
    """A value that is stored where `old` was loaded, in a form that LLVM does not turn into a masked store where
    these are slow."""
    return b.emit("select", mask, new, old, stored=True)


def _last(w: Widening, b: Builder, value: Value) -> Value:
    """The value of the last lane that is on."""
    if w.forms.shape(value).is_uniform:
        return w.forms.scalar(value)
    lane = last_lane(b, w.mask.bits(b, w.count))
    return b.emit("lane_get", w.lanes_of(b, value), lane, type=value.type)


def if_stride(b: Builder, address: Strided, wanted: int, then: Path, otherwise: Path) -> tuple[Value, ...]:
    """One way for lanes whose addresses are `wanted` bytes apart, another for all others."""
    stride = b.constant_of(address.stride)
    if stride is not None and stride != wanted:
        return otherwise(b)
    if stride is not None and address.guard is None:
        return then(b)
    condition = b.emit("equal", address.stride, b.constant(I64, wanted))
    if address.guard is not None:
        condition = b.emit("and", condition, address.guard)
    return b.if_(condition, then, otherwise)


# --- records: see records.py


def _load_record(w: Widening, b: Builder, op: Op) -> None:
    (p,), uniform = op.operands, w.forms.shape(op.operands[0]).is_uniform
    types = tuple(r.type for r in op.results)
    if uniform:
        places = addresses(b, w.forms.scalar(p))
        loaded = tuple(b.primitive("load", (a,), t, {}) for a, t in zip(places, types, strict=True))
    else:

        def apart(inner: Builder) -> tuple[Value, ...]:
            masks = w.mask.operands()
            pairs = zip(addresses(inner, w.lanes_of(inner, p)), types, strict=True)
            return tuple(inner.primitive("load", (a, *masks), lanes(t), {}) for a, t in pairs)

        def together(inner: Builder) -> tuple[Value, ...]:
            base = w.forms.strided(p).base
            return inner.several("load_record", (base,), map(lanes, types))

        loaded = _if_neighbors(w, b, p, together, apart)
    for result, value in zip(op.results, loaded, strict=True):
        w.forms.set(result, value)


def _store_record(w: Widening, b: Builder, op: Op) -> None:
    p, *values = op.operands
    if w.forms.shape(p).is_uniform:
        for place, value in zip(addresses(b, w.forms.scalar(p)), values, strict=True):
            b.effect("store", place, _last(w, b, value))
        return

    def apart(inner: Builder) -> tuple[Value, ...]:
        for place, value in zip(addresses(inner, w.lanes_of(inner, p)), values, strict=True):
            inner.effect("store", place, w.lanes_of(inner, value), *w.mask.operands())
        return ()

    def together(inner: Builder) -> tuple[Value, ...]:
        operands = (w.forms.strided(p).base, *(w.lanes_of(inner, v) for v in values))
        return inner.several("store_record", operands, ())

    _if_neighbors(w, b, p, together, apart)


def _if_neighbors(w: Widening, b: Builder, p: Value, then: Path, otherwise: Path) -> tuple[Value, ...]:
    """One way where the records of the lanes follow each other and all lanes are on."""
    if not w.forms.shape(p).is_strided:
        return otherwise(b)
    checked, mask = then, w.mask.value
    if mask is not None:
        everyone = b.constant(U64, (1 << w.count) - 1)
        checked = lambda inner: inner.if_(
            inner.emit("equal", inner.emit("lane_bits", mask, type=U64), everyone), then, otherwise
        )
    return if_stride(b, w.forms.strided(p), element_size(p.type), checked, otherwise)


RULES: dict[str, Rule] = {
    "alloc": _alloc,
    "accumulators": _accumulators,
    "load": _load,
    "store": _store,
    "load_record": _load_record,
    "store_record": _store_record,
}
