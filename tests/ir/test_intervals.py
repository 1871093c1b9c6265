"""Ranges hold for every input, and are as tight as the tests of indices need."""

import math
import random

import pytest

from slangrad.ir.analyses.intervals import Ranges, whole
from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Parameter, Program, Region, Value
from slangrad.ir.oracle.interpret import evaluate
from tests.ir.random_programs import random_number

BINARY = ("add", "sub", "mul", "div", "rem", "min", "max", "and", "shr", "shl")


@pytest.mark.parametrize("scalar", [t.I8, t.U8, t.I32, t.U64], ids=str)
def test_results_are_in_their_ranges(scalar):
    rng = random.Random(1)
    for _ in range(60):
        b, x, y = Builder(), Value(scalar), Value(scalar)
        values = [x, y, *(b.constant(scalar, n) for n in (0, 1, 3, 7))]
        for _ in range(6):
            values.append(b.emit(rng.choice(BINARY), rng.choice(values), rng.choice(values)))
        values.append(b.emit("convert", values[-1], type=rng.choice((t.I16, t.U32, t.I64))))
        values.append(b.emit("select", b.emit("less", x, y), values[6], values[7]))
        made = values[2:]
        parameters = (Parameter("x", scalar), Parameter("y", scalar))
        outs = tuple(Parameter("r", v.type, "out") for v in made)
        f = Function("f", parameters + outs, None, Region((x, y), b.ops, tuple(made)))
        program = Program({"f": f})
        for _ in range(10):
            inputs = [random_number(rng, scalar), random_number(rng, scalar)]
            for value, number in zip(made, evaluate(program, "f", inputs), strict=True):
                low, high, _ = Ranges().of(b, value)
                assert low <= number <= high


def test_indices_of_loops():
    b, ranges, index = Builder(), Ranges(), Value(t.I32)
    ranges.counted(b, b.constant(t.I32, 8), index)
    shifted = b.emit("add", index, b.constant(t.I32, 2))
    assert ranges.of(b, index)[:2] == (0, 7)
    assert ranges.of(b, b.emit("convert", shifted, type=t.U32))[:2] == (2, 9)
    assert ranges.is_below(b, shifted, 10) and not ranges.is_below(b, shifted, 9)
    unknown = Value(t.I32)
    ranges.counted(b, Value(t.I32), unknown)
    assert ranges.of(b, unknown)[:2] == (0, (1 << 31) - 2)


def test_what_may_wrap_is_unknown():
    b, x = Builder(), Value(t.U8)
    small = b.emit("and", x, b.constant(t.U8, 15))
    assert Ranges().of(b, b.emit("mul", small, small))[:2] == (0, 225)
    assert Ranges().of(b, b.emit("sub", small, b.constant(t.U8, 1)))[:2] == whole(t.U8)
    assert Ranges().of(b, b.emit("rem", x, b.constant(t.U8, 10)))[:2] == (0, 9)


def test_paths_to_a_value_are_not_counted():
    """There are 2^60 from the last sum to what it is made of."""
    b, total = Builder(), Value(t.I32)
    for _ in range(60):
        total = b.emit("add", total, total)
    assert Ranges().of(b, total)[:2] == whole(t.I32)


def test_floats():
    b, ranges, x = Builder(), Ranges(), Value(t.F32)
    square = b.emit("add", b.emit("mul", x, x), b.constant(t.F32, 0.5))
    assert ranges.of(b, square)[:2] == (0.5, math.inf)
    wave = b.emit("sub", b.emit("abs", b.emit("sin", x)), b.constant(t.F32, 2))
    assert ranges.of(b, wave)[:2] == (-2, -1)
    assert ranges.of(b, b.emit("div", wave, square))[:2] == whole(t.F32)
    assert ranges.of(b, b.emit("convert", square, type=t.I32))[:2] == whole(t.I32)
