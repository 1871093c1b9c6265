"""The oracle's arithmetic and movement: one closure for each op that computes values from values.

    add %x, %y : f32    ->    frame[r] = round_to_f32(frame[x] + frame[y])

A rule gets the op, the places of its operands in the frame, the place of its result, and where to report an
index out of range. Control flow and memory are in interpret.py.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir import types as t
from slangrad.ir.core import Op
from slangrad.ir.interpret_memory import Datum, Tape, fill, zero_of
from slangrad.ir.numbers import bitcast, convert, wrapper
from slangrad.ir.primitives import PRIMITIVES

Frame = list[Datum]
Step = Callable[[Frame], None]
Report = Callable[[Op, int, int], None]
Rule = Callable[[Op, list[int], int, Report], Step]


def compile_value(op: Op, places: list[int], r: int, report: Report) -> Step:
    """The closure of an op whose only effect is its result (and perhaps a report)."""
    return RULES.get(op.name, _elementwise)(op, places, r, report)


# --- arithmetic


def _scalars(op: Op) -> tuple[t.Scalar, t.Scalar]:
    """What the first operand and the result are made of; a pointer counts as its address."""
    source, made = t.scalar_of(op.operands[0].type), t.scalar_of(op.results[0].type)
    return source or t.U64, made or t.U64


def _elementwise(op: Op, places: list[int], r: int, report: Report) -> Step:
    """A primitive with a primal, on scalars or componentwise."""
    primal, (source, made) = PRIMITIVES[op.name].primal, _scalars(op)
    assert primal is not None, f"the oracle does not run {op.name}"
    wrap = wrapper(made)
    if not isinstance(op.results[0].type, t.Scalar):
        return _mapped(lambda *xs: wrap(primal(source, *xs)), places, r)
    if len(places) == 2:
        a, b = places

        def binary(frame: Frame) -> None:
            frame[r] = wrap(primal(source, frame[a], frame[b]))

        return binary

    def step(frame: Frame) -> None:
        frame[r] = wrap(primal(source, *[frame[p] for p in places]))

    return step


def _mapped(function: Callable[..., Datum], places: list[int], r: int) -> Step:
    """`function` on corresponding components."""

    def step(frame: Frame) -> None:
        frame[r] = _map(function, *[frame[p] for p in places])

    return step


def _map(function: Callable[..., Datum], *xs: Datum) -> Datum:
    if not isinstance(xs[0], tuple):
        return function(*xs)
    return tuple(_map(function, *parts) for parts in zip(*map(tuple_of, xs), strict=True))


def _convert(op: Op, places: list[int], r: int, report: Report) -> Step:
    source, made = _scalars(op)
    return _mapped(lambda x: convert(source, made, x), places, r)


def _bitcast(op: Op, places: list[int], r: int, report: Report) -> Step:
    source, made = _scalars(op)
    return _mapped(lambda x: bitcast(source, made, x), places, r)


def _select(op: Op, places: list[int], r: int, report: Report) -> Step:
    if not isinstance(op.operands[0].type, t.Scalar):
        return _mapped(lambda c, x, y: x if c else y, places, r)
    condition, a, b = places

    def step(frame: Frame) -> None:
        frame[r] = frame[a] if frame[condition] else frame[b]

    return step


def _copy(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a,) = places

    def step(frame: Frame) -> None:
        frame[r] = frame[a]

    return step


def _const(op: Op, places: list[int], r: int, report: Report) -> Step:
    number, made = op.attributes["value"], op.results[0].type
    scalar = t.scalar_of(made)
    assert scalar is not None
    value = fill(made, wrapper(scalar)(number), scalar)

    def step(frame: Frame) -> None:
        frame[r] = value

    return step


def _zero(op: Op, places: list[int], r: int, report: Report) -> Step:
    value = zero_of(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = value

    return step


# --- movement


def tuple_of(value: Datum) -> tuple[Datum, ...]:
    assert isinstance(value, tuple)
    return value


def integer_of(value: Datum) -> int:
    assert isinstance(value, int)
    return value


def _make(op: Op, places: list[int], r: int, report: Report) -> Step:
    def step(frame: Frame) -> None:
        frame[r] = tuple([frame[p] for p in places])

    return step


def _get(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a,), index = places, op.attributes["index"]

    def step(frame: Frame) -> None:
        frame[r] = tuple_of(frame[a])[index]

    return step


def _set(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a, v), index = places, op.attributes["index"]

    def step(frame: Frame) -> None:
        whole = tuple_of(frame[a])
        frame[r] = (*whole[:index], frame[v], *whole[index + 1 :])

    return step


def _splat(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a,), made, source = places, op.results[0].type, op.operands[0].type

    def step(frame: Frame) -> None:
        frame[r] = fill(made, frame[a], source)

    return step


def _shuffle(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a,), indices = places, op.attributes["indices"]
    single = isinstance(op.results[0].type, t.Scalar)

    def step(frame: Frame) -> None:
        whole = tuple_of(frame[a])
        frame[r] = whole[indices[0]] if single else tuple(whole[i] for i in indices)

    return step


# --- movement with dynamic indices: total, and reported when the op asks for that


def _reaches(op: Op, report: Report) -> Callable[[int], bool]:
    """Is an index within the aggregate? A tape has no end."""
    aggregate, check = op.operands[0].type, op.attributes.get("check", False)
    endless = isinstance(aggregate, t.Array) and aggregate.length is None
    extent = 0 if endless else sum(1 for _ in t.components(aggregate))

    def reaches(index: int) -> bool:
        if index >= 0 and (endless or index < extent):
            return True
        if check:
            report(op, index, extent)
        return False

    return reaches


def _index(op: Op, places: list[int], r: int, report: Report) -> Step:
    (a, i), made, reaches = places, op.results[0].type, _reaches(op, report)

    def step(frame: Frame) -> None:
        index, whole = integer_of(frame[i]), frame[a]
        found: Datum | None = None
        if reaches(index):
            found = whole.at(index) if isinstance(whole, Tape) else tuple_of(whole)[index]
        frame[r] = zero_of(made) if found is None else found

    return step


def _set_index(op: Op, places: list[int], r: int, report: Report) -> Step:
    return _put(op, places, r, report, lambda old, new: new)


def _add_index(op: Op, places: list[int], r: int, report: Report) -> Step:
    return _put(op, places, r, report, _adder(op.operands[2].type))


def _put(op: Op, places: list[int], r: int, report: Report, combine: Callable[[Datum, Datum], Datum]) -> Step:
    """The aggregate with `combine(old element, operand)` at the index."""
    (a, i, v), element, reaches = places, op.operands[2].type, _reaches(op, report)

    def step(frame: Frame) -> None:
        index, whole = integer_of(frame[i]), frame[a]
        if not reaches(index):
            frame[r] = whole
        elif isinstance(whole, Tape):
            old = whole.at(index)
            frame[r] = whole.put(index, combine(zero_of(element) if old is None else old, frame[v]))
        else:
            parts = tuple_of(whole)
            frame[r] = (*parts[:index], combine(parts[index], frame[v]), *parts[index + 1 :])

    return step


def _adder(element: t.Type) -> Callable[[Datum, Datum], Datum]:
    """Componentwise addition of two data of a type."""
    if isinstance(element, t.Scalar):
        wrap, add = wrapper(element), PRIMITIVES["add"].primal
        assert add is not None
        return lambda x, y: wrap(add(element, x, y))
    assert t.is_aggregate(element), f"{element} cannot be added"
    if isinstance(element, t.Array) and element.length is None:
        return _tape_adder(_adder(element.element))
    parts = [_adder(c) for c in t.components(element)]
    return lambda x, y: tuple(add(p, q) for add, p, q in zip(parts, tuple_of(x), tuple_of(y), strict=True))


def _tape_adder(add: Callable[[Datum, Datum], Datum]) -> Callable[[Datum, Datum], Datum]:
    def add_tapes(x: Datum, y: Datum) -> Datum:
        assert isinstance(x, Tape) and isinstance(y, Tape)
        for index, value in y.items().items():
            old = x.at(index)
            x = x.put(index, value if old is None else add(old, value))
        return x

    return add_tapes


RULES: dict[str, Rule] = {
    "const": _const,
    "zero": _zero,
    "convert": _convert,
    "bitcast": _bitcast,
    "select": _select,
    "detach": _copy,
    "make": _make,
    "get": _get,
    "set": _set,
    "splat": _splat,
    "shuffle": _shuffle,
    "index": _index,
    "set_index": _set_index,
    "add_index": _add_index,
}
assert RULES.keys() <= PRIMITIVES.keys()
