"""What the builder simplifies is what the ops would have computed, bit for bit."""

import math
import random

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.data.numbers import greatest, least, wrap
from slangrad.ir.ops.core import Function, Op, Parameter, Program, Region, Value
from slangrad.ir.ops.primitives import INEXACT, PRIMITIVES, SAME
from slangrad.ir.oracle.interpret import Recorded, evaluate
from tests.ir.outcomes import same
from tests.ir.random_programs import ARITY

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, math.inf, -math.inf, math.nan)


def run(parameters, ops, yields, inputs, reports=None):
    declared = tuple(Parameter("x", p.type) for p in parameters)
    outs = tuple(Parameter("r", y.type, "out") for y in yields)
    f = Function("f", declared + outs, None, Region(tuple(parameters), ops, tuple(yields)))
    return evaluate(Program({"f": f}), "f", inputs, reports=reports)


def numbers(scalar):
    if scalar.kind == "bool":
        return (False, True)
    if scalar.kind == "float":
        return tuple(wrap(scalar, x) for x in SPECIAL)
    return (0, 1, 2, wrap(scalar, -1), least(scalar), greatest(scalar))


@pytest.mark.parametrize("scalar", t.SCALARS.values(), ids=str)
def test_folding_and_identities_of_arithmetic(scalar):
    rng = random.Random(1)
    rows = [p for p in PRIMITIVES.values() if p.primal is not None and scalar.kind[0] in p.kinds]
    for row in (p for p in rows if p.rule == SAME and p.name not in INEXACT):
        for _ in range(30):
            b, x = Builder(), Value(scalar)
            picks = [rng.choice((x, *numbers(scalar))) for _ in range(ARITY.get(row.name, 2))]
            operands = tuple(p if p is x else b.constant(scalar, p) for p in picks)
            constants = list(b.ops)
            made, plain = b.emit(row.name, *operands), Value(scalar)
            for number in numbers(scalar):
                simplified = run((x,), b.ops, (made,), (number,))
                literal = run((x,), [*constants, Op(row.name, operands, (plain,))], (plain,), (number,))
                if row.name == "scale" and literal == (0.0,):  # of any sign
                    simplified, literal = tuple(map(abs, simplified)), (0.0,)
                assert same(simplified, literal), (row.name, picks, number)


@pytest.mark.parametrize("length", [3, None])
@pytest.mark.parametrize("index", [t.I32, t.U32], ids=str)
def test_identities_of_elements(length, index):
    rng, whole = random.Random(2), t.array(t.F32, length)
    for _ in range(150):
        b, x, i, k = Builder(), Value(t.F32), Value(index), Value(index)
        literal: list[Op] = []
        arrays, scalars = [_both(b, literal, "zero", (), whole)], [(x, x)]
        scalars.append(_both(b, literal, "zero", (), t.F32))
        places = [(i, i), (k, k), _constant(b, literal, index, 1)]
        for _ in range(5):
            name = rng.choice(("index", "set_index", "add_index"))
            (a, a2), (at, at2), (v, v2) = rng.choice(arrays), rng.choice(places), rng.choice(scalars)
            if name == "index":
                scalars.append(_both(b, literal, name, ((a, a2), (at, at2)), t.F32))
            else:
                arrays.append(_both(b, literal, name, ((a, a2), (at, at2), (v, v2)), whole))
        results = scalars[1:]
        for numbers_ in ((1.5, 0, 1), (-0.0, 2, 2), (2.5, 5, 0)):
            before = run((x, i, k), literal, [pair[1] for pair in results], numbers_)
            assert same(before, run((x, i, k), b.ops, [pair[0] for pair in results], numbers_))


def _both(b, literal, name, operands, type):
    """An op through the builder, and as it is."""
    plain = Value(type)
    literal.append(Op(name, tuple(pair[1] for pair in operands), (plain,)))
    if name == "zero":
        return b.zero(type), plain
    return b.emit(name, *[pair[0] for pair in operands]), plain


def _constant(b, literal, type, number):
    plain = Value(type)
    literal.append(Op("const", (), (plain,), {"value": number}))
    return b.constant(type, number), plain


def test_reports_are_not_lost():
    b, a, i, x = Builder(), Value(t.array(t.F32, 2)), Value(t.I32), Value(t.F32)
    written = b.emit("set_index", a, i, x)
    again = b.emit("set_index", written, i, x, check=True)
    read = b.emit("index", b.zero(a.type), i, check=True)
    reports = Recorded()
    run((a, i, x), b.ops, (again, read), ((1.0, 2.0), 7, 3.0), reports)
    assert reports.bounds == [(7, 2), (7, 2)]


def test_inexact_maths_is_not_folded():
    b = Builder()
    one = b.constant(t.F32, 1.0)
    assert b.constant_of(b.emit("sin", one)) is None
    assert b.constant_of(b.emit("sqrt", one)) == 1.0


@pytest.mark.parametrize("scalar", [s for s in t.SCALARS.values() if s.kind != "bool"], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "neg"])
def test_signs_move_through_sums_and_products(scalar, name):
    for negated in ((True, False), (False, True), (True, True)):
        b, parameters = Builder(), (Value(scalar), Value(scalar))
        literal: list[Op] = []
        pairs = [(p, p) for p in parameters]
        operands = [
            _both(b, literal, "neg", (pair,), scalar) if n else pair for n, pair in zip(negated, pairs)
        ]
        made, plain = _both(b, literal, name, operands[: 1 if name == "neg" else 2], scalar)
        for x in numbers(scalar):
            for y in numbers(scalar):
                assert same(
                    run(parameters, b.ops, (made,), (x, y)), run(parameters, literal, (plain,), (x, y))
                )


def test_a_product_of_negatives_has_no_sign_to_change():
    b, x, y = Builder(), Value(t.F32), Value(t.F32)
    b.emit("sub", x, b.emit("mul", b.emit("neg", x), y))
    assert [op.name for op in b.ops if op.results[0] in used(b)] == ["mul", "add"]


def used(b):
    """What the last op needs."""
    found = {b.ops[-1].results[0]}
    for op in reversed(b.ops):
        if op.results[0] in found:
            found.update(op.operands)
    return found


def test_a_zero_is_written_where_what_is_not_written_is_not_zero() -> None:
    for attributes, written in (({}, False), ({"written_first": True}, True)):
        b = Builder()
        whole = b.emit("zero", type=t.array(t.F32, None), **attributes)
        made = b.emit("set_index", whole, b.constant(t.U32, 3), b.zero(t.F32))
        assert (made is not whole) == written


@pytest.mark.parametrize("scalar", [t.I32, t.U32, t.I64], ids=str)
def test_a_number_is_its_quotient_and_its_rest(scalar) -> None:
    b, x = Builder(), Value(scalar)
    by, other = b.constant(scalar, 4), b.constant(scalar, 5)
    product, rest = b.emit("mul", b.emit("div", x, by), by), b.emit("rem", x, by)
    assert b.emit("add", product, rest) is x and b.emit("add", rest, product) is x
    unlike = b.emit("add", b.emit("mul", b.emit("div", x, by), other), rest)
    assert run((x,), b.ops, (unlike,), (11,)) == (2 * 5 + 3,)
    first, again, third = (b.emit("thread_id", type=t.U32, axis=axis) for axis in (0, 0, 1))
    by = b.constant(t.U32, 256)
    product = b.emit("mul", b.emit("div", first, by), by)
    assert b.emit("add", product, b.emit("rem", again, by)) is first
    assert b.emit("add", product, b.emit("rem", third, by)) is not first
