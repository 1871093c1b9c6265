"""Each row of the table as instructions: edge values of each type, several widths and instruction sets."""

import itertools
import math

import numpy as np
import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.data.numbers import Number, bitcast, convert, greatest, least, numpy_dtype, wrap
from slangrad.ir.ops.core import Function, Program, Region, Value
from slangrad.ir.ops.primitives import COMPARE, INEXACT, PRIMITIVES, SAME, SHIFT
from slangrad.llvm.text.exact import EXACT
from slangrad.llvm.text.instructions import CPU
from tests.llvm.machine import KERNEL, assert_equal_arrays, compile_kernel, options_for, run

# Rows that no back end sees: functions of the standard library, and `scale`, which opt/simplify/products.py makes other rows.
MATHS = INEXACT | {"scale"}

SCALARS = tuple(
    scalar for scalar in t.SCALARS.values() if scalar not in t.SMALL_FLOATS
)  # tests/std/test_small_floats.py
ELEMENTWISE = [
    row
    for row in PRIMITIVES.values()
    if row.rule in (SAME, COMPARE, SHIFT) and row.primal and row.name not in MATHS
]
UNARY = {"neg", "abs", "floor", "ceil", "round", "trunc", "sqrt", "not"}
UNARY |= {"popcount", "leading_zeros", "trailing_zeros", "reverse_bits"}


def arity(name: str) -> int:
    return 1 if name in UNARY else 3 if name == "fma" else 2


def edge_values(scalar: t.Scalar) -> list[Number]:
    if scalar.kind == "bool":
        return [False, True]
    if scalar.kind != "float":
        return sorted(
            {wrap(scalar, v) for v in (0, 1, 2, 3, 7, -1, -2, -7, 31, 100, greatest(scalar), least(scalar))}
        )
    info = np.finfo(numpy_dtype(scalar))
    tiny, largest, step = float(info.smallest_subnormal), float(info.max), float(info.eps)
    positive = [
        0.0,
        tiny,
        3 * tiny,
        float(info.tiny),
        0.5,
        1.0,
        1.0 + step,
        1.5,
        2.5,
        3.7,
        1e4,
        largest,
        math.inf,
    ]
    values = [wrap(scalar, v) for v in positive]
    return [*values, *(-v for v in values), math.nan]


def random_values(scalar: t.Scalar, count: int) -> list[Number]:
    """Random bits, so that floats come from the whole range."""
    rng = np.random.default_rng(7)
    raw = rng.integers(0, 256, count * scalar.size, dtype=np.uint8)
    if scalar.kind == "bool":
        raw &= 1
    return raw.view(numpy_dtype(scalar)).tolist()


def operand_columns(scalar: t.Scalar, count: int) -> list[list[Number]]:
    edges = edge_values(scalar)
    pool = edges if count < 3 else edges[::3]
    combined = list(itertools.product(*[pool] * count))
    columns = [list(column) for column in zip(*combined)]
    extra = random_values(scalar, 200 * count)
    for i, column in enumerate(columns):
        column += extra[i * 200 : (i + 1) * 200]
    return columns


class KernelOfOps:
    """A kernel that applies ops to elements of buffers: results by name."""

    def __init__(self) -> None:
        self.b = Builder()
        self.fields: list[tuple[str, t.Type]] = []
        self.thread = self.b.emit("thread_id", type=t.U32, axis=0)

    def pointer(self, name: str, element: t.Scalar) -> Value:
        pointer = t.pointer(element)
        self.fields.append((name, pointer))
        field = self.b.emit("parameter", type=t.pointer(pointer, "constant"), name=name)
        return self.b.emit("offset", self.b.emit("load", field, type=pointer), self.thread)

    def read(self, name: str, element: t.Scalar) -> Value:
        return self.b.emit("load", self.pointer(name, element), type=element)

    def write(self, name: str, value: Value) -> None:
        scalar = value.type
        assert isinstance(scalar, t.Scalar)
        self.b.effect("store", self.pointer(name, scalar), value)

    def program(self) -> Program:
        program = Program(arguments=t.struct("Arguments", tuple(self.fields)))
        program.add(Function(KERNEL, (), None, Region((), self.b.ops, ()), attributes={"kernel": True}))
        return program


def test_each_row_has_an_instruction() -> None:
    missing = []
    for row in ELEMENTWISE:
        for kind in row.kinds:
            if (row.name, kind) not in CPU and (row.name, kind) not in EXACT:
                missing.append((row.name, kind))
    assert not missing


CASES = [("", 1), ("", 4), ("", 8), ("", 16), ("", 32), ("x86-64-v2", 8), ("x86-64-v2", 1), ("x86-64-v3", 16)]


@pytest.mark.sampled(48)
@pytest.mark.parametrize("cpu, lanes", CASES)
@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_primitives(scalar: t.Scalar, cpu: str, lanes: int) -> None:
    for count in (1, 2, 3):
        rows = [r for r in ELEMENTWISE if arity(r.name) == count and scalar.kind[0] in r.kinds]
        if not rows:
            continue
        columns = operand_columns(scalar, count)
        kernel = KernelOfOps()
        operands = [kernel.read(f"x{i}", scalar) for i in range(count)]
        arguments = {f"x{i}": np.array(column, numpy_dtype(scalar)) for i, column in enumerate(columns)}
        expected = {}
        for row in rows:
            result = kernel.b.emit(row.name, *operands)
            kernel.write(row.name, result)
            made = result.type
            assert isinstance(made, t.Scalar) and row.primal is not None
            values = [wrap(made, row.primal(scalar, *xs)) for xs in zip(*columns)]
            expected[row.name] = np.array(values, numpy_dtype(made))
            arguments[row.name] = np.zeros(len(values), numpy_dtype(made))
        program = kernel.program()
        compiled = compile_kernel(program, options_for(cpu, lanes))
        found = run(compiled, program, arguments, (len(columns[0]), 1, 1))
        assert_equal_arrays(expected, found.arrays, f"{scalar}, {count} operands")


@pytest.mark.parametrize("cpu, lanes", CASES)
@pytest.mark.parametrize("source", SCALARS, ids=str)
def test_conversions(source: t.Scalar, cpu: str, lanes: int) -> None:
    values = edge_values(source) + random_values(source, 300)
    if source.kind == "float":
        limits = [
            float(edge)
            for target in SCALARS
            if t.is_integer(target)
            for edge in (least(target), greatest(target))
        ]
        limits += [
            65504.0,
            65519.0,
            65520.0,
            2.0**-24,
            2.0**-25,
            1.5 * 2.0**-25,
            1 + 2.0**-11,
            1 + 2.0**-11 + 2.0**-40,
        ]
        values += [wrap(source, sign * v + d) for v in limits for d in (-1.5, 0, 0.5) for sign in (1, -1)]
    if source.bits >= 32 and source.kind != "float":
        values += [wrap(source, (1 << k) + d) for k in (11, 24, 25, 53, 54, 62, 63) for d in (-1, 0, 1, 3)]
        values += [wrap(source, 0x7FFFFFBFFFFFFFFF), wrap(source, 0x7FFFFFC000000001)]
    kernel = KernelOfOps()
    x = kernel.read("x", source)
    arguments = {"x": np.array(values, numpy_dtype(source))}
    expected = {}
    for target in SCALARS:
        kernel.write(f"to_{target}", kernel.b.emit("convert", x, type=target))
        expected[f"to_{target}"] = np.array([convert(source, target, v) for v in values], numpy_dtype(target))
        if target.bits == source.bits and "bool" not in (source.kind, target.kind):
            kernel.write(f"as_{target}", kernel.b.emit("bitcast", x, type=target))
            expected[f"as_{target}"] = np.array(
                [bitcast(source, target, v) for v in values], numpy_dtype(target)
            )
    arguments |= {name: np.zeros(len(values), array.dtype) for name, array in expected.items()}
    program = kernel.program()
    compiled = compile_kernel(program, options_for(cpu, lanes))
    found = run(compiled, program, arguments, (len(values), 1, 1))
    assert_equal_arrays(expected, found.arrays, str(source))
