"""How lanes reach memory: one scalar access, one consecutive vector access, or a gather or scatter.

    load of a uniform address       load %p                      : f32
    ... of stride sizeof(T)         load %p, %mask               : lanes<f32>       the address of lane 0
    ... of any other                load %ps, %mask              : lanes<f32>       an address for each lane
    ... of an unknown stride        if (stride == sizeof(T)) { consecutive } { gather }

A store to a uniform address is that of the last lane, as if threads ran in order.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir.builder import Builder
from slangrad.ir.core import Op, Region, Value
from slangrad.ir.layout import layout_of
from slangrad.ir.types import I64, Pointer, lanes
from slangrad.spmd.forms import Strided
from slangrad.spmd.lanes import Rule, Widening
from slangrad.spmd.masks import last_lane
from slangrad.spmd.shapes import element_size

Path = Callable[[Builder], tuple[Value, ...]]


def _alloc(w: Widening, b: Builder, op: Op) -> None:
    """Where lanes differ each has its own place for each element: element i of lane l is at i * lanes + l."""
    (result,) = op.results
    if not w.shapes.is_private(result):
        w.forms.set(result, b.primitive("alloc", (), result.type, op.attributes))
        return
    count = op.attributes.get("count", 1)
    assert isinstance(count, int)
    attributes = op.attributes | {"count": count * w.count}
    base = b.primitive("alloc", (), result.type, attributes)
    w.forms.set(result, Strided(base, b.constant(I64, element_size(result.type))))


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
        (loaded,) = _if_consecutive(b, w.forms.strided(p), consecutive, gather)
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
        mask = () if w.shapes.is_private(p) and w.mask.is_entry else w.mask.operands()
        b.effect("store", w.forms.strided(p).base, w.lanes_of(b, v), *mask, **op.attributes)
        return ()

    if shape.is_uniform:
        b.effect("store", w.forms.scalar(p), _last(w, b, v), **op.attributes)
    elif shape.is_strided:
        _if_consecutive(b, w.forms.strided(p), consecutive, scatter)
    else:
        scatter(b)


def _last(w: Widening, b: Builder, value: Value) -> Value:
    """The value of the last lane that is on."""
    if w.forms.shape(value).is_uniform:
        return w.forms.scalar(value)
    lane = last_lane(b, w.mask.bits(b, w.count))
    return b.emit("lane_get", w.lanes_of(b, value), lane, type=value.type)


def _if_consecutive(b: Builder, address: Strided, then: Path, otherwise: Path) -> tuple[Value, ...]:
    pointer = address.base.type
    assert isinstance(pointer, Pointer)
    size, stride = layout_of(pointer.element).size, b.constant_of(address.stride)
    if stride is not None and stride != size:
        return otherwise(b)
    if stride is not None and address.guard is None:
        return then(b)
    condition = b.emit("equal", address.stride, b.constant(I64, size))
    if address.guard is not None:
        condition = b.emit("and", condition, address.guard)
    return choose(b, condition, then, otherwise)


def choose(b: Builder, condition: Value, then: Path, otherwise: Path) -> tuple[Value, ...]:
    """A branch that all lanes take together."""
    regions = []
    for path in (then, otherwise):
        inner = b.nested()
        yields = path(inner)
        regions.append(Region((), inner.ops, yields))
    types = tuple(v.type for v in regions[0].yields)
    return b.control("if", (condition,), types, tuple(regions))


RULES: dict[str, Rule] = {"alloc": _alloc, "load": _load, "store": _store}
