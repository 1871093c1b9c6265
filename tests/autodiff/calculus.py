"""Derivatives of IR functions, checked against each other and against finite differences.

    check(program, "f", (0.3, 2), order=2)

For order 1 the whole Jacobian by forward mode, by reverse mode and by central differences; for order 2
the same of the functions that request the first derivatives, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from slangrad.autodiff.requests import Differentiated, differentiate
from slangrad.autodiff.signatures import (
    input_flags,
    jvp_parameters,
    result_flags,
    vjp_parameters,
)
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import Scalar, Struct, Type, component, components
from slangrad.ir.ops.core import Function, Program, Region, Value
from slangrad.ir.oracle.interpret import Machine, Recorded
from slangrad.ir.oracle.memory import Datum, zero_of
from slangrad.ir.text.verify import DIFFERENTIATED, verify
from slangrad.opt.calls.inline import inline_into
from tests.ir.parse_text import parse_program

STEP = 1e-5
Data = tuple[Datum, ...]


def parse(text: str) -> Program:
    return parse_program(text)


def request(program: Program, name: str, mode: str) -> tuple[Program, str]:
    """The program with a function that requests a derivative of `name`, and that function's name."""
    f, space = program.functions[name], VectorSpace(program.differentials)
    b, asking = Builder(), f"{name}_{mode}"
    function = Function(asking, _PARAMETERS[mode](f, space), None, f.region)
    parameters = tuple(Value(p.type, p.name) for p in function.inputs)
    made = b.call(name, parameters, function.result_types, name=mode)
    function.region = Region(parameters, b.ops, made)
    return Program({**program.functions, asking: function}, program.differentials, program.arguments), asking


_PARAMETERS = {"jvp": jvp_parameters, "vjp": vjp_parameters}


def differentiated(program: Program, name: str, mode: str) -> tuple[Differentiated, str]:
    """The program without requests, and the name of the function that gives the derivative of `name`."""
    asking, entry = request(program, name, mode)
    made = differentiate(asking, inline_into)
    verify(made.program, DIFFERENTIATED)
    return made, entry


def run(program: Program, name: str, inputs: Sequence[Datum], reports: Recorded | None = None) -> Data:
    return Machine(program, 0, reports or Recorded()).call(name, tuple(inputs))


def derivative(program: Program, name: str, mode: str, inputs: Sequence[Datum]) -> Data:
    """What `jvp` or `vjp` of a function gives."""
    made, entry = differentiated(program, name, mode)
    return run(made.program, entry, inputs)


# --- vectors: data as lists of their float leaves


def unit_tangents(t: Type) -> Iterator[Datum]:
    """The tangents of type `t` with one leaf 1 and the others 0."""
    if isinstance(t, Scalar):
        if t.kind == "float":
            yield 1.0
        return
    for i, c in enumerate(components(t)):
        for unit in unit_tangents(c):
            parts = [zero_of(other) for other in components(t)]
            parts[i] = unit
            yield tuple(parts)


def leaves(t: Type, value: Datum) -> list[float]:
    """The float leaves of a tangent."""
    if isinstance(t, Scalar):
        assert not isinstance(value, tuple)
        return [float(value)] if t.kind == "float" else []
    assert isinstance(value, tuple)
    return [leaf for i, c in enumerate(components(t)) for leaf in leaves(c, value[i])]


def moved(space: VectorSpace, t: Type, value: Datum, tangent: Datum, step: float) -> Datum:
    """`value + step * tangent`."""
    if isinstance(t, Scalar):
        assert isinstance(value, float) and isinstance(tangent, float)
        return value + step * tangent
    assert isinstance(value, tuple) and isinstance(tangent, tuple)
    parts = list(value)
    for i in range(len(parts)):
        position = space.field(t, i)
        if position is not None and space.tangent(component(t, i)) is not None:
            parts[i] = moved(space, component(t, i), parts[i], tangent[position], step)
    return tuple(parts)


def to_tangent(space: VectorSpace, t: Type, value: Datum) -> Datum:
    """The float leaves of a value, in the shape of its tangent."""
    if isinstance(t, Scalar):
        return value
    assert isinstance(value, tuple)
    made = space.tangent_of(t)
    parts = list(_tuple(zero_of(made))) if isinstance(t, Struct) else [zero_of(made)] * len(value)
    for i, part in enumerate(value):
        position = space.field(t, i)
        if position is not None and space.tangent(component(t, i)) is not None:
            parts[position] = to_tangent(space, component(t, i), part)
    return tuple(parts)


def _tuple(value: Datum) -> Data:
    assert isinstance(value, tuple)
    return value


# --- Jacobians: one row for each leaf of the results, one column for each leaf of the inputs

Matrix = list[list[float]]


class Derivatives:
    """Jacobians of one function at one point."""

    def __init__(self, program: Program, name: str, inputs: Sequence[Datum]) -> None:
        self.program, self.name, self.inputs = program, name, tuple(inputs)
        self.f = program.functions[name]
        self.space = VectorSpace(program.differentials)
        self.varied = _flagged(self.f.inputs, input_flags(self.f, self.space))
        self.wanted = _flagged(self.f.result_types, result_flags(self.f, self.space))
        self._machine = Machine(differentiate(program, inline_into).program, 0, Recorded())

    def results(self, inputs: Sequence[Datum]) -> Data:
        return self._machine.call(self.name, tuple(inputs))

    def forward(self) -> Matrix:
        """By columns: one tangent at a time. Also asserts that the primal results come out unchanged."""
        made, entry = differentiated(self.program, self.name, "jvp")
        machine, count, columns = Machine(made.program, 0, Recorded()), len(self.f.result_types), []
        for tangents in self._units([self.f.inputs[i].type for i in self.varied]):
            out = machine.call(entry, (*self.inputs, *tangents))
            assert _equal(out[:count], self.results(self.inputs))
            columns.append(self._leaves(out[count:], [self.f.result_types[i] for i in self.wanted]))
        return [list(row) for row in zip(*columns)]

    def reverse(self) -> Matrix:
        """By rows: one cotangent at a time."""
        made, entry = differentiated(self.program, self.name, "vjp")
        machine, rows = Machine(made.program, 0, Recorded()), []
        for cotangents in self._units([self.f.result_types[i] for i in self.wanted]):
            out = machine.call(entry, (*self.inputs, *cotangents))
            rows.append(self._leaves(out, [self.f.inputs[i].type for i in self.varied]))
        return rows

    def numeric(self, step: float = STEP) -> Matrix:
        columns = []
        for tangents in self._units([self.f.inputs[i].type for i in self.varied]):
            up, down = (self._shifted(tangents, s) for s in (step, -step))
            columns.append([(u - d) / (2 * step) for u, d in zip(up, down)])
        return [list(row) for row in zip(*columns)]

    def _units(self, types: list[Type]) -> Iterator[Data]:
        tangents = [self.space.tangent_of(t) for t in types]
        zeros = [self._zero(t) for t in tangents]
        for i, t in enumerate(tangents):
            for unit in unit_tangents(t):
                yield (*zeros[:i], unit, *zeros[i + 1 :])

    def _zero(self, t: Type) -> Datum:
        return zero_of(t)

    def _shifted(self, tangents: Data, step: float) -> list[float]:
        inputs = list(self.inputs)
        for i, tangent in zip(self.varied, tangents):
            inputs[i] = moved(self.space, self.f.inputs[i].type, inputs[i], tangent, step)
        out, types = self.results(inputs), self.f.result_types
        shaped = [to_tangent(self.space, types[i], out[i]) for i in self.wanted]
        return self._leaves(tuple(shaped), [types[i] for i in self.wanted])

    def _leaves(self, values: Data, types: list[Type]) -> list[float]:
        tangents = [self.space.tangent_of(t) for t in types]
        return [leaf for t, v in zip(tangents, values, strict=True) for leaf in leaves(t, v)]


def _flagged(items: Sequence[object], flags: Sequence[bool]) -> list[int]:
    return [i for i, flag in zip(range(len(items)), flags, strict=True) if flag]


def _equal(x: Datum, y: Datum) -> bool:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return all(map(_equal, x, y))
    return x == y or (x != x and y != y)


def close(x: float, y: float, tolerance: float) -> bool:
    return math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance) or (x != x and y != y)


def check(
    program: Program, name: str, inputs: Sequence[Datum], order: int = 1, tolerance: float = 1e-5
) -> None:
    """Forward, reverse and numeric derivatives agree, up to an order."""
    d = Derivatives(program, name, inputs)
    forward, reverse = d.forward(), d.reverse()
    _compare(name, "forward and reverse", forward, reverse, 1e-9)
    _compare(name, "forward and numeric", forward, d.numeric(), tolerance)
    if order == 1:
        return
    f, space = d.f, d.space
    tangents = [_some(space.tangent_of(f.inputs[i].type), 0.7) for i in d.varied]
    cotangents = [_some(space.tangent_of(f.result_types[i]), 1.3) for i in d.wanted]
    for mode, more in (("jvp", tangents), ("vjp", cotangents)):
        asking, entry = request(program, name, mode)
        check(asking, entry, (*d.inputs, *more), order - 1, tolerance)


def _some(t: Type, start: float) -> Datum:
    """A tangent without symmetries."""
    if isinstance(t, Scalar):
        return start if t.kind == "float" else 0
    return tuple(_some(c, start * (1.0 + 0.3 * i) - 0.2 * i) for i, c in enumerate(components(t)))


def _compare(name: str, what: str, x: Matrix, y: Matrix, tolerance: float) -> None:
    assert len(x) == len(y) or not x or not y, (name, what, len(x), len(y))
    for row, other in zip(x, y):
        for a, b in zip(row, other, strict=True):
            assert close(a, b, tolerance), f"{name}: {what} differ: {a} {b}\n{x}\n{y}"
