"""Each differentiable row of the table: forward, reverse and numeric derivatives, to second order."""

import math

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Parameter, Program, Region, Value, walk
from slangrad.ir.ops.primitives import CONSTANT, INEXACT, PRIMITIVES, SAME
from tests.autodiff.calculus import Derivatives, check, differentiated, request
from tests.ir.parse_text import parse_program

POINTS = {
    "div": [(0.7, -1.3), (-2.0, 0.4)],
    "rem": [(5.3, 2.0), (-5.3, 2.0), (5.3, -1.7), (0.4, 3.0)],
    "fma": [(0.7, -1.3, 0.2)],
    "min": [(0.7, -1.3), (-2.0, 0.4)],
    "max": [(0.7, -1.3), (-2.0, 0.4)],
    "abs": [(0.7,), (-0.3,)],
    "sqrt": [(0.7,), (4.0,)],
    "log": [(0.7,), (3.0,)],
    "log2": [(0.7,), (3.0,)],
    "log10": [(0.7,), (3.0,)],
    "pow": [(0.7, 2.5), (1.7, -0.4), (2.0, 0.0), (3.0, 1.0)],
    "acosh": [(1.7,), (4.0,)],
    "atan2": [(0.7, -1.3), (-0.4, 0.9), (0.5, 0.0), (0.0, 0.8)],
}
DIFFERENTIABLE = [row for row in PRIMITIVES.values() if callable(row.partials)]
ARITY = {
    "fma": 3,
    **dict.fromkeys(("add", "sub", "mul", "scale", "div", "rem", "min", "max", "pow", "atan2"), 2),
}


def applied(name: str, type: t.Type, arity: int) -> Program:
    """A function that is one op, behind another one so that cotangents are not constant."""
    parameters = tuple(Parameter(f"x{i}", type) for i in range(arity))
    values = tuple(Value(p.type, p.name) for p in parameters)
    b = Builder()
    result = b.emit(name, *values)
    return Program(
        {"f": Function("f", parameters, type, Region(values, b.ops, (b.emit("mul", result, result),)))}
    )


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_scalar(row):
    assert row.rule == SAME
    arity = ARITY.get(row.name, 1)
    for point in POINTS.get(row.name, [(0.4, -0.6)[:arity], (-0.3, 0.5)[:arity]]):
        check(applied(row.name, t.F64, arity), "f", point, order=3 if row.name in ("tanh", "pow") else 2)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_componentwise(row):
    arity = ARITY.get(row.name, 1)
    points = POINTS.get(row.name, [(0.4, -0.6)[:arity], (-0.3, 0.5)[:arity]])
    inputs = tuple((points[0][i], points[-1][i]) for i in range(arity))
    check(applied(row.name, t.vector(t.F64, 2), arity), "f", inputs)


@pytest.mark.parametrize("row", [r for r in PRIMITIVES.values() if r.partials == CONSTANT and r.rule == SAME])
def test_zero_derivative(row):
    d = Derivatives(applied(row.name, t.F64, 1), "f", (0.4,))
    assert d.forward() == d.reverse() == [[0.0]]


def test_every_row_states_its_derivative():
    assert {row.name for row in DIFFERENTIABLE} >= {"add", "mul", "pow", "tanh", "rem", "atan2"}


@pytest.mark.parametrize("name", ["min", "max"])
def test_tie_splits_in_half(name):
    d = Derivatives(applied(name, t.F64, 2), "f", (1.5, 1.5))
    assert d.forward() == d.reverse() == [[1.5, 1.5]]


@pytest.mark.parametrize(
    ("name", "point", "expected"),
    [
        ("pow", (0.0, 0.0), (0.0, 0.0)),
        ("pow", (0.0, 1.0), (0.0, 0.0)),
        ("pow", (0.0, 2.0), (0.0, 0.0)),
        ("pow", (-2.0, 3.0), (0.0, 0.0)),
        ("pow", (-2.0, 0.0), (0.0, 0.0)),
        ("atan2", (0.0, 0.0), (0.0, 0.0)),
        ("rem", (5.3, 2.0), (1.0, -2.0)),
        ("abs", (0.0,), (0.0,)),
        ("sqrt", (0.0,), (2.0**510,)),
        ("tanh", (1000.0,), (0.0,)),
    ],
)
def test_where_the_formula_has_a_special_case(name, point, expected):
    program = parse_program(
        f"func @f({', '.join(f'%{v}: f64' for v in 'xy'[: len(point)])}) -> (f64) {{\n"
        f"  %r = {name} {', '.join(f'%{v}' for v in 'xy'[: len(point)])}\n  yield %r\n}}"
    )
    d = Derivatives(program, "f", point)
    assert d.forward() == d.reverse() == [list(expected)]
    asking, entry = request(program, "f", "vjp")
    second = Derivatives(asking, entry, (*point, 1.0))
    assert all(math.isfinite(x) for row in second.forward() + second.reverse() for x in row)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
@pytest.mark.parametrize("scalar", [t.F16, t.F32], ids=str)
def test_derivatives_are_computed_in_the_type_of_the_value(row, scalar):
    """Of maths in half in float, as the functions themselves."""
    arity = ARITY.get(row.name, 1)
    made, _ = differentiated(applied(row.name, scalar, arity), "f", "vjp")
    types = {r.type for op in walk(made.program.functions["f.vjp"].region) for r in op.results}
    assert types <= {scalar, t.BOOL} | ({t.F32} if row.name in INEXACT else set())
