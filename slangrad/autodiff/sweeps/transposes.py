"""Linear data movement on tangents, and its transpose, which sends cotangents back.

    %e = index %a, %i       tangent:   %de = index %da, %i
                            transpose: %ct_a = add_index %ct_a, %i, %ct_e     (in place)

A rule gives the arriving cotangent to the op's operands, or to a component or an element of theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.autodiff.sweeps.cotangents import Cotangents
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import Scalar, Struct, component_count, components
from slangrad.ir.ops.core import Op, Value, without
from slangrad.ir.ops.primitives import LINEAR, PRIMITIVES

Fetch = Callable[[Value], Value]


# --- transposes: (op, fetch of primal values, arriving cotangent, where to give)


def _select(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    condition, then, otherwise = op.operands
    if to.wants(then):
        to.give(then, to.b.emit("select", fetch(condition), ct, to.zero(then.type)))
    if to.wants(otherwise):
        to.give(otherwise, to.b.emit("select", fetch(condition), to.zero(otherwise.type), ct))


def _convert(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    to.give(op.operands[0], to.b.emit("convert", ct, type=op.operands[0].type))


def _make(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    for i, x in enumerate(op.operands):
        position = to.space.field(op.results[0].type, i)
        if position is not None and to.wants(x):
            to.give(x, to.b.emit("get", ct, index=position))


def _get(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    to.give_component(op.operands[0], op.attributes["index"], ct)


def _set(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    whole, part = op.operands
    position = to.space.field(whole.type, op.attributes["index"])
    if position is None:
        to.give(whole, ct)
        return
    if to.wants(part):
        to.give(part, to.b.emit("get", ct, index=position))
    if to.wants(whole):
        to.give(whole, to.b.emit("set", ct, to.zero(part.type), index=position))


def _splat(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    (x,) = op.operands
    if x.type is op.results[0].type:
        to.give(x, ct)
        return
    for i, part in enumerate(components(ct.type)):
        component = to.b.emit("get", ct, index=i)
        if part is x.type:
            to.give(x, component)
            continue
        for j in range(component_count(part)):
            to.give(x, to.b.emit("get", component, index=j))


def _shuffle(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    indices = op.attributes["indices"]
    single = isinstance(ct.type, Scalar)
    for i, source in enumerate(indices):
        to.give_component(op.operands[0], source, ct if single else to.b.emit("get", ct, index=i))


def _index(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    array, index = op.operands
    if to.wants(array):
        to.give_element(array, fetch(index), ct)


def _set_index(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    array, index, element = op.operands
    if to.wants(element):
        to.give(element, to.b.emit("index", ct, fetch(index)))
    if to.wants(array):
        to.give(array, to.b.emit("set_index", ct, fetch(index), to.zero(element.type)))


def _add_index(op: Op, fetch: Fetch, ct: Value, to: Cotangents) -> None:
    array, index, element = op.operands
    if to.wants(element):
        to.give(element, to.b.emit("index", ct, fetch(index)))
    to.give(array, ct)


TRANSPOSES: dict[str, Callable[[Op, Fetch, Value, Cotangents], None]] = {
    "select": _select,
    "convert": _convert,
    "make": _make,
    "get": _get,
    "set": _set,
    "splat": _splat,
    "shuffle": _shuffle,
    "index": _index,
    "set_index": _set_index,
    "add_index": _add_index,
}
assert TRANSPOSES.keys() == {name for name, row in PRIMITIVES.items() if row.partials == LINEAR}


# --- tangents: (builder, space, op, operands' primals, operands' tangents) to the result's tangent

Tangent = Value | None


def move_tangent(
    b: Builder, space: VectorSpace, op: Op, primals: tuple[Value, ...], tangents: tuple[Tangent, ...]
) -> Tangent:
    """The tangent of a movement op's result; None when it is zero."""
    tangent_type = space.tangent(op.results[0].type)
    if tangent_type is None or not any(tangents):
        return None
    if isinstance(op.operands[0].type, Struct) and op.name in ("get", "set"):
        return _move_field(b, space, op, tangents)
    if op.name == "make" and isinstance(tangent_type, Struct):
        return _make_struct(b, space, op, tangents)
    operands = [_or_zero(b, space, p, d) for p, d in zip(primals, tangents, strict=True)]
    return b.primitive(op.name, tuple(operands), tangent_type, without(op.attributes, "check"))


def _or_zero(b: Builder, space: VectorSpace, primal: Value, tangent: Tangent) -> Value:
    """The operand of the op on tangents: an index or a condition stays what it is."""
    if tangent is not None:
        return tangent
    return primal if space.tangent(primal.type) is None else space.zero(b, primal.type)


def _move_field(b: Builder, space: VectorSpace, op: Op, tangents: tuple[Tangent, ...]) -> Tangent:
    whole, position = tangents[0], space.field(op.operands[0].type, op.attributes["index"])
    if op.name == "get":
        return None if position is None or whole is None else b.emit("get", whole, index=position)
    if position is None:
        return whole
    whole = space.zero(b, op.operands[0].type) if whole is None else whole
    part = _or_zero(b, space, op.operands[1], tangents[1])
    return b.emit("set", whole, part, index=position)


def _make_struct(b: Builder, space: VectorSpace, op: Op, tangents: tuple[Tangent, ...]) -> Tangent:
    """Fields of the tangent that belong to no field of the struct stay zero."""
    whole = space.zero(b, op.results[0].type)
    for i, tangent in enumerate(tangents):
        position = space.field(op.results[0].type, i)
        if position is not None and tangent is not None:
            whole = b.emit("set", whole, tangent, index=position)
    return whole
