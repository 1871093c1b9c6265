"""Random structured programs: reverse, forward and numeric derivatives agree along random directions."""

import math
import random
from dataclasses import replace

import pytest

from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Differential, Program, walk
from slangrad.ir.oracle.memory import Datum
from tests.autodiff.calculus import STEP, Derivatives, derivative, leaves, moved, request, to_tangent
from tests.ir.random_programs import SMOOTH, random_inputs, random_program

STYLE = replace(SMOOTH, tapes=False, exclude=frozenset({"detach"}))
TOO_LARGE = 1e6  # beyond that, rounding says more than derivatives do


def with_differentials(program: Program) -> Program:
    """The program with a tangent type for each struct that has floats."""
    made = Program(program.functions)
    for f in program.functions.values():
        values = [*f.region.parameters, *f.region.yields, *(r for op in walk(f.region) for r in op.results)]
        for type in {v.type for v in values}:
            list_differential(made, type)
    return made


def list_differential(program: Program, type: t.Type) -> None:
    if not t.is_aggregate(type) or type in program.differentials:
        return
    for c in t.components(type):
        list_differential(program, c)
    if not isinstance(type, t.Struct):
        return
    space = VectorSpace(program.differentials)
    carried = [(i, name) for i, (name, c) in enumerate(type.fields) if space.tangent(c) is not None]
    fields = tuple((f"d_{name}", space.tangent(type.fields[i][1])) for i, name in carried)
    pairs = tuple((i, k) for k, (i, _) in enumerate(carried))
    if carried:
        program.differentials[type] = Differential(t.struct(f"{type.name}.D", fields), pairs)


def direction(rng: random.Random, t_: t.Type) -> Datum:
    if isinstance(t_, t.Scalar):
        return rng.uniform(-1, 1)
    return tuple(direction(rng, c) for c in t.components(t_))


class Along:
    """Derivatives of a function along one tangent and one cotangent."""

    def __init__(self, program: Program, name: str, inputs: list[Datum], seed: int) -> None:
        self.d = Derivatives(program, name, inputs)
        rng, space = random.Random(seed), self.d.space
        tangent = lambda type: space.tangent(type)
        self.inputs = [self.d.f.inputs[i].type for i in self.d.varied]
        self.results = [self.d.f.result_types[i] for i in self.d.wanted]
        self.tangents = [direction(rng, tangent(type)) for type in self.inputs]
        self.cotangents = [direction(rng, tangent(type)) for type in self.results]

    def product(self, types: list[t.Type], x: tuple[Datum, ...], y: list[Datum]) -> tuple[float, float]:
        """The inner product, and the sum of its terms' sizes."""
        tangents = [self.d.space.tangent(type) for type in types]
        of = lambda values: [
            leaf for type, v in zip(tangents, values, strict=True) for leaf in leaves(type, v)
        ]
        terms = [a * b for a, b in zip(of(x), of(y), strict=True)]
        return sum(terms), sum(map(abs, terms))

    def forward(self) -> tuple[float, float]:
        out = derivative(self.d.program, self.d.name, "jvp", (*self.d.inputs, *self.tangents))
        return self.product(self.results, out[len(self.d.f.result_types) :], self.cotangents)

    def reverse(self) -> tuple[float, float]:
        out = derivative(self.d.program, self.d.name, "vjp", (*self.d.inputs, *self.cotangents))
        return self.product(self.inputs, out, self.tangents)

    def numeric(self, step: float) -> tuple[float, float]:
        """The derivative, and how large the values are that it is a difference of."""
        values, size = [], 0.0
        for sign in (step, -step):
            inputs = list(self.d.inputs)
            for i, tangent in zip(self.d.varied, self.tangents, strict=True):
                inputs[i] = moved(self.d.space, self.d.f.inputs[i].type, inputs[i], tangent, sign)
            out = self.d.results(inputs)
            shaped = [to_tangent(self.d.space, type, out[i]) for i, type in zip(self.d.wanted, self.results)]
            value, terms = self.product(self.results, tuple(shaped), self.cotangents)
            values.append(value)
            size += terms
        return (values[0] - values[1]) / (2 * step), size


def check_along(program: Program, name: str, inputs: list[Datum], seed: int) -> bool:
    """Whether the numeric derivative could be compared as well."""
    along = Along(program, name, inputs, seed)
    (forward, size), (reverse, other_size) = along.forward(), along.reverse()
    if not math.isfinite(size + other_size):
        return False
    assert math.isclose(forward, reverse, rel_tol=1e-9, abs_tol=1e-9 * (1 + size + other_size)), (
        forward,
        reverse,
    )
    (near, values), (far, _) = along.numeric(STEP), along.numeric(3 * STEP)
    smooth = math.isclose(near, far, rel_tol=1e-5, abs_tol=1e-5) and max(size, values) < TOO_LARGE
    if smooth:
        assert math.isclose(forward, near, rel_tol=1e-3, abs_tol=1e-3), (forward, near)
    return smooth


def smooth_program(seed: int) -> tuple[Program, list[Datum]]:
    program = with_differentials(random_program(seed, replace(STYLE, size=20 + seed % 30)))
    return program, off_the_kinks(program, random_inputs(program.functions["main"], seed), seed)


def off_the_kinks(program: Program, inputs: list[Datum], seed: int) -> list[Datum]:
    """Inputs a little aside, so that no two floats are equal by construction."""
    rng, space, made = random.Random(seed), VectorSpace(program.differentials), []
    for p, value in zip(program.functions["main"].inputs, inputs, strict=True):
        tangent = space.tangent(p.type)
        made.append(value if tangent is None else moved(space, p.type, value, direction(rng, tangent), 0.01))
    return made


@pytest.mark.parametrize("seed", range(150))
def test_first_derivatives(seed):
    program, inputs = smooth_program(seed)
    check_along(program, "main", inputs, seed)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_second_derivatives(seed, mode):
    program, inputs = smooth_program(seed)
    along = Along(program, "main", inputs, seed)
    asking, entry = request(program, "main", mode)
    check_along(asking, entry, [*inputs, *(along.tangents if mode == "jvp" else along.cotangents)], seed)


def test_most_of_them_are_compared_with_numeric_derivatives():
    compared = [check_along(*smooth_args(seed), seed) for seed in range(30)]
    assert sum(compared) > 15


def smooth_args(seed: int) -> tuple[Program, str, list[Datum]]:
    program, inputs = smooth_program(seed)
    return program, "main", inputs
