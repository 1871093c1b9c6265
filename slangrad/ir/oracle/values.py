"""The oracle's arithmetic and movement: ops as functions of values.

    add %x, %y : f32    ->    lambda x, y: round_to_f32(x + y)

A rule gets the op, and where to report an index out of range. Control flow and memory are in interpret.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from slangrad.ir.data import types as t
from slangrad.ir.data.numbers import bitcast, convert, wrapper
from slangrad.ir.ops.core import Op
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.ir.oracle.memory import Datum, Tape, fill, zero_of

Frame = list[Datum]
Step = Callable[[Frame], None]
Meaning = Callable[..., Datum]  # from the operands to the result
Effect = Callable[..., None]  # of the operands
Report = Callable[[Op, int, int], None]
Rule = Callable[[Op, Report], Meaning]


def step_of(meaning: Meaning | Effect, places: Sequence[int], results: Sequence[int]) -> Step:
    """On a frame: the operands are at `places`; `results` has the place of the result, if there is one."""
    if not results:

        def effect(frame: Frame) -> None:
            meaning(*[frame[p] for p in places])

        return effect
    (r,) = results
    value = cast(Meaning, meaning)
    if len(places) == 2:
        a, b = places

        def binary(frame: Frame) -> None:
            frame[r] = value(frame[a], frame[b])

        return binary

    def step(frame: Frame) -> None:
        frame[r] = value(*[frame[p] for p in places])

    return step


def meaning_of(op: Op, report: Report) -> Meaning:
    """Of an op whose only effect is its result (and perhaps a report)."""
    return RULES.get(op.name, _elementwise)(op, report)


# --- arithmetic


def _scalars(op: Op) -> tuple[t.Scalar, t.Scalar]:
    """The scalars of the first operand and of the result; a pointer counts as its address."""
    source, target = t.scalar_of(op.operands[0].type), t.scalar_of(op.results[0].type)
    return source or t.U64, target or t.U64


def _elementwise(op: Op, report: Report) -> Meaning:
    """A primitive with a primal, on scalars or componentwise."""
    primal, (source, target) = PRIMITIVES[op.name].primal, _scalars(op)
    assert primal is not None, f"the oracle does not run {op.name}"
    wrap = wrapper(target)
    if not isinstance(op.results[0].type, t.Scalar):
        return _mapped(lambda *xs: wrap(primal(source, *xs)))
    if len(op.operands) == 2:
        return lambda x, y: wrap(primal(source, x, y))
    return lambda *xs: wrap(primal(source, *xs))


def _mapped(function: Meaning) -> Meaning:
    """`function` on corresponding components."""
    return lambda *xs: _map(function, *xs)


def _map(function: Meaning, *xs: Datum) -> Datum:
    if not isinstance(xs[0], tuple):
        return function(*xs)
    return tuple(_map(function, *parts) for parts in zip(*map(tuple_of, xs), strict=True))


def _convert(op: Op, report: Report) -> Meaning:
    source, target = _scalars(op)
    return _mapped(lambda x: convert(source, target, x))


def _bitcast(op: Op, report: Report) -> Meaning:
    source, target = _scalars(op)
    return _mapped(lambda x: bitcast(source, target, x))


def _select(op: Op, report: Report) -> Meaning:
    choose: Meaning = lambda condition, x, y: x if condition else y
    return choose if isinstance(op.operands[0].type, t.Scalar) else _mapped(choose)


def _const(op: Op, report: Report) -> Meaning:
    number, target = op.attributes["value"], op.results[0].type
    scalar = t.scalar_of(target)
    assert scalar is not None
    value = fill(target, wrapper(scalar)(number), scalar)
    return lambda: value


def _zero(op: Op, report: Report) -> Meaning:
    value = zero_of(op.results[0].type)
    return lambda: value


def combination(kind: str, element: t.Scalar) -> Meaning:
    """The new value of an atomic, from the old value and its operands; also the combination of two lanes."""
    if kind == "exchange":
        return lambda old, new: new
    if kind == "compare_exchange":
        return lambda old, expected, new: new if old == expected else old
    primal, wrap = PRIMITIVES[kind].primal, wrapper(element)
    assert primal is not None, f"nothing is combined by {kind}"
    return lambda x, y: wrap(primal(element, x, y))


# --- movement


def tuple_of(value: Datum) -> tuple[Datum, ...]:
    assert isinstance(value, tuple)
    return value


def integer_of(value: Datum) -> int:
    assert isinstance(value, int)
    return value


def _replaced(whole: Datum, index: int, part: Datum) -> Datum:
    parts = tuple_of(whole)
    return (*parts[:index], part, *parts[index + 1 :])


def _get(op: Op, report: Report) -> Meaning:
    index = op.attributes["index"]
    return lambda whole: tuple_of(whole)[index]


def _set(op: Op, report: Report) -> Meaning:
    index = op.attributes["index"]
    return lambda whole, part: _replaced(whole, index, part)


def _splat(op: Op, report: Report) -> Meaning:
    target, source = op.results[0].type, op.operands[0].type
    return lambda x: fill(target, x, source)


def _shuffle(op: Op, report: Report) -> Meaning:
    first, *others = op.attributes["indices"]
    if isinstance(op.results[0].type, t.Scalar):
        return lambda whole: tuple_of(whole)[first]
    return lambda whole: tuple(tuple_of(whole)[i] for i in (first, *others))


# --- movement with dynamic indices: total, and reported when the op asks for that


def _reaches(op: Op, report: Report) -> Callable[[int], bool]:
    """Is an index within the aggregate? A tape has no end."""
    aggregate, check = op.operands[0].type, op.attributes.get("check", False)
    extent = t.index_extent(aggregate)

    def reaches(index: int) -> bool:
        if index >= 0 and (extent is None or index < extent):
            return True
        if check:
            report(op, index, extent or 0)
        return False

    return reaches


def _index(op: Op, report: Report) -> Meaning:
    element_type, reaches = op.results[0].type, _reaches(op, report)

    def read(whole: Datum, index: int) -> Datum:
        element: Datum | None = None
        if reaches(index):
            element = whole.at(index) if isinstance(whole, Tape) else tuple_of(whole)[index]
        return zero_of(element_type) if element is None else element

    return read


def _put(op: Op, report: Report, combine: Callable[[Datum, Datum], Datum]) -> Meaning:
    """The aggregate with `combine(old element, operand)` at the index."""
    element, reaches = op.operands[2].type, _reaches(op, report)

    def put(whole: Datum, index: int, new: Datum) -> Datum:
        if not reaches(index):
            return whole
        if isinstance(whole, Tape):
            old = whole.at(index)
            return whole.put(index, combine(zero_of(element) if old is None else old, new))
        return _replaced(whole, index, combine(tuple_of(whole)[index], new))

    return put


def _adder(element: t.Type) -> Callable[[Datum, Datum], Datum]:
    """Componentwise addition of two data of a type."""
    if isinstance(element, t.Scalar):
        return combination("add", element)
    assert t.is_aggregate(element), f"{element} cannot be added"
    if isinstance(element, t.Array) and t.is_tape(element):
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
    "detach": lambda op, report: lambda x: x,
    "make": lambda op, report: lambda *parts: parts,
    "get": _get,
    "set": _set,
    "splat": _splat,
    "shuffle": _shuffle,
    "index": _index,
    "set_index": lambda op, report: _put(op, report, lambda old, new: new),
    "add_index": lambda op, report: _put(op, report, _adder(op.operands[2].type)),
}
assert RULES.keys() <= PRIMITIVES.keys()
