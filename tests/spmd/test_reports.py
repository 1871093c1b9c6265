"""Indices out of range and prints, from lanes."""

import numpy as np
import pytest

from slangrad.base.options import Options
from slangrad.base.source import SourceFile, Span
from slangrad.ir.ops.core import Program, walk
from slangrad.runtime.cpu import CpuDevice
from slangrad.runtime.reports import BoundsError
from tests.ir.parse_text import parse_program
from tests.llvm.machine import KERNEL, argument_block, assert_like_oracle, compile_kernel, options_for

TEXT = """
struct "Arguments" {{ n: {extent}, i: ptr<{index}, global>, y: ptr<f32, global> }}
arguments struct "Arguments"
func @kernel() -> () {{kernel=true}} {{
  %t = thread_id {{axis=0}} : u32
  %n_at = parameter {{name="n"}} : ptr<{extent}, constant>
  %n = load %n_at : {extent}
  %i_in = parameter {{name="i"}} : ptr<ptr<{index}, global>, constant>
  %is = load %i_in : ptr<{index}, global>
  %y_in = parameter {{name="y"}} : ptr<ptr<f32, global>, constant>
  %ys = load %y_in : ptr<f32, global>
  %i_at = offset %is, %t
  %i = load %i_at : {index}
  %one = const 1.0 : f32
  %zero = const 0.0 : f32
  %y_at = offset %ys, %t
  {body}
  yield
}}
"""
CHECK = "%ok = in_bounds %i, %n  %v = select %ok, %one, %zero  store %y_at, %v"


def program_of(body: str, index: str = "i32", extent: str = "i32") -> Program:
    return parse_program(TEXT.format(body=body, index=index, extent=extent))


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("masked_only", [False, True])
def test_the_first_failure_is_reported(lanes: int, masked_only: bool) -> None:
    program = program_of(CHECK)
    compiled = compile_kernel(program, options_for("", lanes), masked_only)
    indices = np.array([0, 4, 1, 7, -3, 2, 3, 9, 0, 5], np.int32)
    data, arrays = argument_block(program, {"n": 5, "i": indices, "y": np.zeros(10, np.float32)})
    with pytest.raises(BoundsError, match="index 7 is out of range: there are 5 elements"):
        CpuDevice(Options()).launch(compiled.kernel, data, (10, 1, 1))
    assert arrays["y"].tolist() == [1, 1, 1, 0, 0, 1, 1, 0, 1, 0]


def test_no_report_for_lanes_that_are_off() -> None:
    program = program_of("%c = less %i, %n  if %c { %ok = in_bounds %i, %n yield } { yield }")
    arguments = {"n": 5, "i": np.arange(37, dtype=np.int32), "y": np.zeros(37, np.float32)}
    assert_like_oracle(program, arguments, 37)


TYPES = ["i8", "u8", "i32", "u32", "i64", "u64"]


@pytest.mark.parametrize("index", TYPES)
@pytest.mark.parametrize("extent", TYPES)
def test_all_integer_types(index: str, extent: str) -> None:
    program = program_of(CHECK, index, extent)
    dtype = np.dtype({"i": "int", "u": "uint"}[index[0]] + index[1:])
    info = np.iinfo(dtype)
    values = np.array(
        [v for v in (0, 1, 4, 5, 6, -1, info.max, info.min) if info.min <= v <= info.max], dtype
    )
    for n in (5, 0) if extent[0] == "u" else (5, 0, -1):
        arguments = {"n": n, "i": values, "y": np.zeros(len(values), np.float32)}
        assert_like_oracle(program, arguments, len(values), lanes=(1, 8))


def test_the_site_has_the_place() -> None:
    """Copies of an op for whole and for masked waves have one number."""
    program = program_of(CHECK)
    source = SourceFile("a.slang", "y[i] = 1;")
    for op in walk(program.functions[KERNEL].region):
        if op.name == "in_bounds":
            op.span = Span(source, 2, 3)
    compiled = compile_kernel(program, options_for("", 8))
    assert len(compiled.sites) == 1
    data, _ = argument_block(program, {"n": 5, "i": np.full(9, 5, np.int32), "y": np.zeros(9, np.float32)})
    with pytest.raises(BoundsError, match=r"a\.slang:1:3"):
        CpuDevice(Options()).launch(compiled.kernel, data, (9, 1, 1))


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_prints_are_in_the_order_of_threads(lanes: int, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
  %f = convert %i : f32
  %h = convert %f : f16
  %d = convert %f : f64
  %u = convert %i : u8
  %b = less %i, %n
  if %b { print %i, %f, %h, %d, %u, %b, %n {format="%d %g %g %g %u %d %d\\n"} yield } { yield }"""
    program = program_of(body)
    compiled = compile_kernel(program, options_for("", lanes), exclusive=True)
    indices = np.array([3, -1, 9, 4, 5, 1, 2], np.int32)
    data, _ = argument_block(program, {"n": 5, "i": indices, "y": np.zeros(7, np.float32)})
    CpuDevice(Options()).launch(compiled.kernel, data, (7, 1, 1))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{i} {i} {i} {i} {i & 255} 1 5" for i in (3, -1, 4, 1, 2)]
