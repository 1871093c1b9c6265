"""Tapes of lanes: what the oracle reads, growth, running out of memory."""

import numpy as np
import pytest

from slangrad.base.options import Limits, Options
from slangrad.runtime.cpu import CpuDevice
from tests.llvm.machine import ALL_FEATURES, argument_block, assert_like_oracle, compile_kernel, options_for
from tests.spmd.kernels import program_of

# fmt: off
BODIES = {
    "forwards and back": """
  %tape = tape_new : ptr<f32, tape>
  %a = for %n, %x : f32 (%i: i32, %v: f32) { tape_store %tape, %i, %v %w = mul %v, %x yield %w }
  %r = for %n, %a {reverse=true} : f32 (%i: i32, %v: f32) {
    %o = tape_load %tape, %i %w = sub %o, %v yield %w
  }
  store %y_at, %r""",
    "counts that differ": """
  %tape = tape_new : ptr<f32, tape>
  %a = for %k, %x : f32 (%i: i32, %v: f32) { tape_store %tape, %i, %v %w = add %v, %x yield %w }
  %r = for %k, %a {reverse=true} : f32 (%i: i32, %v: f32) {
    %o = tape_load %tape, %i %w = sub %o, %v yield %w
  }
  store %y_at, %r""",
    "a while loop": """
  %tape = tape_new : ptr<f32, tape>
  %a, %c = while %x, %0 : f32, i32 (%v: f32, %c: i32) { %m = less %c, %k yield %m } (%v: f32, %c: i32) {
    tape_store %tape, %c, %v %w = mul %v, %x %c2 = add %c, %1 yield %w, %c2
  }
  %r = for %c, %a {reverse=true} : f32 (%i: i32, %v: f32) {
    %o = tape_load %tape, %i %w = sub %o, %v yield %w
  }
  store %y_at, %r""",
    "indices of one's own": """
  %tape = tape_new : ptr<f32, tape>
  %j = mul %k, %k
  tape_store %tape, %j, %x
  tape_add %tape, %j, %one
  %r = tape_load %tape, %3
  %s = tape_load %tape, %j
  %q = add %r, %s
  store %y_at, %q""",
    "unwritten and negative": """
  %tape = tape_new : ptr<f32, tape>
  %7 = const 7 : i32
  tape_store %tape, %7, %x
  %a = tape_load %tape, %3
  %b = tape_load %tape, %k
  %minus = const -1 : i32
  %c = tape_load %tape, %minus
  %far = const 1000000 : i32
  %d = tape_load %tape, %far
  %none = zero : ptr<f32, tape>
  %e = tape_load %none, %3
  %f = add %a, %b
  %g = add %c, %d
  %h = add %e, %f
  %r = add %g, %h
  store %y_at, %r""",
    "added to": """
  %tape = tape_new : ptr<f32, tape>
  for %n (%i: i32) { tape_add %tape, %3, %x yield }
  for %k (%i: i32) { tape_add %tape, %i, %one yield }
  %a = tape_load %tape, %3
  %b = tape_load %tape, %0
  %r = add %a, %b
  store %y_at, %r""",
    "copies": """
  %tape = tape_new : ptr<f32, tape>
  tape_store %tape, %3, %x
  %copy = tape_copy %tape
  tape_store %tape, %3, %one
  tape_store %copy, %0, %one
  %none = zero : ptr<f32, tape>
  %new = tape_copy %none
  tape_store %new, %1, %x
  %a = tape_load %tape, %3
  %b = tape_load %copy, %3
  %c = tape_load %tape, %0
  %d = tape_load %new, %1
  %e = tape_load %new, %0
  %f = sub %a, %b
  %g = sub %c, %d
  %h = add %e, %f
  %r = mul %g, %h
  store %y_at, %r""",
    "handles chosen by lanes": """
  %t1 = tape_new : ptr<f32, tape>
  %t2 = tape_new : ptr<f32, tape>
  tape_store %t1, %0, %x
  tape_store %t2, %0, %one
  %c = less %x, %zero
  %h = if %c : ptr<f32, tape> { tape_store %t1, %1, %one yield %t1 } {
    %t3 = tape_copy %t2
    tape_store %t3, %1, %x
    yield %t3
  }
  tape_store %h, %3, %x
  %h2 = tape_copy %h
  tape_add %h2, %3, %one
  %a = tape_load %h, %0
  %b = tape_load %h, %1
  %d = tape_load %h, %3
  %e = tape_load %h2, %3
  %f = add %a, %b
  %g = mul %d, %e
  %r = sub %f, %g
  store %y_at, %r""",
    "tapes in tapes": """
  %outer = tape_new : ptr<ptr<f32, tape>, tape>
  %a = for %n, %x : f32 (%i: i32, %v: f32) {
    %inner = tape_new : ptr<f32, tape>
    tape_store %outer, %i, %inner
    %w = for %k, %v : f32 (%j: i32, %u: f32) { tape_store %inner, %j, %u %u2 = add %u, %x yield %u2 }
    yield %w
  }
  %r = for %n, %a {reverse=true} : f32 (%i: i32, %v: f32) {
    %inner = tape_load %outer, %i
    %w = for %k, %v {reverse=true} : f32 (%j: i32, %u: f32) {
    %o = tape_load %inner, %j %u2 = sub %o, %u yield %u2
  }
    yield %w
  }
  store %y_at, %r""",
    "truth values and doubles": """
  %flags = tape_new : ptr<bool, tape>
  %wide = tape_new : ptr<f64, tape>
  %c = less %x, %zero
  for %n (%i: i32) {
    %odd = and %i, %1
    %is = equal %odd, %1
    %both = and %is, %c
    tape_store %flags, %i, %both
    %d = convert %x : f64
    tape_store %wide, %i, %d
    yield
  }
  %sum = const 0.0 : f64
  %r = for %n, %sum : f64 (%i: i32, %u: f64) {
    %f = tape_load %flags, %i
    %d = tape_load %wide, %i
    %g = select %f, %d, %u
    yield %g
  }
  %q = convert %r : f32
  store %y_at, %q""",
    "freed": """
  %r = for %n, %x : f32 (%i: i32, %v: f32) {
    %tape = tape_new : ptr<f32, tape>
    %other = tape_new : ptr<f32, tape>
    %last = mul %i, %i
    %end = for %last, %v : f32 (%j: i32, %u: f32) {
      tape_store %tape, %j, %u
      %next = add %j, %1
      tape_add %other, %next, %one
      %w = sub %u, %x
      yield %w
    }
    %a = tape_load %tape, %0
    %b = tape_load %tape, %last
    %c = tape_load %other, %0
    %d = tape_load %other, %last
    tape_free %other
    tape_free %tape
    %ab = add %a, %b
    %cd = add %c, %d
    %s = sub %ab, %cd
    %w = mul %s, %x
    yield %w
  }
  store %y_at, %r""",
    "freed by some lanes": """
  %tape = tape_new : ptr<f32, tape>
  %r = for %k, %x : f32 (%i: i32, %v: f32) {
    tape_store %tape, %i, %v
    %c = less %x, %zero
    %s = if %c : f32 {
      %own = tape_new : ptr<f32, tape>
      tape_store %own, %i, %v
      %a = tape_load %own, %0
      %b = tape_load %own, %i
      tape_free %own
      %s = add %a, %b
      yield %s
    } {
      %copy = tape_copy %tape
      tape_store %copy, %3, %one
      %a = tape_load %copy, %i
      %b = tape_load %tape, %3
      tape_free %copy
      %s = sub %a, %b
      yield %s
    }
    yield %s
  }
  %t0 = tape_load %tape, %0
  %q = add %r, %t0
  store %y_at, %q""",
    "copies of one's own": """
  %t1 = tape_new : ptr<f32, tape>
  %t2 = tape_new : ptr<f32, tape>
  tape_store %t2, %0, %one
  %c = less %x, %zero
  %h = if %c : ptr<f32, tape> { yield %t1 } { yield %t2 }
  %many = const 60 : i32
  %r = for %many, %x : f32 (%i: i32, %v: f32) {
    %d = less %k, %i
    %w = if %d : f32 {
      %own = tape_copy %h
      tape_store %own, %n, %v
      %a = tape_load %own, %0
      %b = tape_load %own, %n
      tape_free %own
      %s = add %a, %b
      yield %s
    } { yield %v }
    yield %w
  }
  store %y_at, %r""",
    "nothing unwritten is read": """
  %r = for %n, %x : f32 (%j: i32, %y: f32) {
    %tape = tape_new {written_first=true} : ptr<f32, tape>
    %a = for %k, %y : f32 (%i: i32, %v: f32) { tape_store %tape, %i, %v %w = add %v, %x yield %w }
    %b = for %k, %a {reverse=true} : f32 (%i: i32, %v: f32) {
      %o = tape_load %tape, %i %w = sub %o, %v yield %w
    }
    tape_free %tape
    yield %b
  }
  store %y_at, %r""",
}
# fmt: on


def arguments(count: int, n: int = 5, most: int = 9) -> dict[str, object]:
    rng = np.random.default_rng(count)
    return {
        "n": n,
        "x": rng.uniform(-1, 1, count).astype(np.float32),
        "k": rng.integers(0, most, count).astype(np.int32),
        "y": np.full(count, 7, np.float32),
        "z": np.full(count, 7, np.int32),
    }


@pytest.mark.parametrize("name", BODIES)
def test_like_the_oracle(name: str) -> None:
    for count in (1, 37):
        assert_like_oracle(program_of(BODIES[name]), arguments(count), count)


@pytest.mark.parametrize("name", ["forwards and back", "counts that differ", "copies"])
def test_growth(name: str) -> None:
    """Far more than the first capacity."""
    assert_like_oracle(program_of(BODIES[name]), arguments(19, n=900, most=700), 19, lanes=(1, 8))


def test_on_other_machines() -> None:
    cpus = ("x86-64-v2", "x86-64-v3", ALL_FEATURES)
    assert_like_oracle(program_of(BODIES["counts that differ"]), arguments(23), 23, lanes=(8,), cpus=cpus)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(
    "name",
    ["forwards and back", "copies", "handles chosen by lanes", "indices of one's own", "copies of one's own"],
)
def test_running_out_of_memory(name: str, lanes: int) -> None:
    """An error, at whatever allocation it happens, and nothing worse."""
    program = program_of(BODIES[name])
    compiled = compile_kernel(program, options_for("", lanes))
    for limit in (0, 64, 128, 1024, 1 << 14):
        data, _ = argument_block(program, arguments(300, n=20_000, most=300))
        device = CpuDevice(Options(threads=1, limits=Limits(tape_bytes=limit)))
        try:
            device.launch(compiled.kernel, data, (300, 1, 1))
        except MemoryError as error:
            assert "ran out of memory" in str(error)
        else:
            assert limit > 128 and name not in ("forwards and back", "copies of one's own")


def test_a_huge_index_is_out_of_memory() -> None:
    body = """
  %tape = tape_new : ptr<f32, tape>
  %far = const 9000000000000000000 : i64
  tape_store %tape, %far, %x"""
    program = program_of(body)
    data, _ = argument_block(program, arguments(3))
    with pytest.raises(MemoryError):
        CpuDevice(Options()).launch(compile_kernel(program, options_for()).kernel, data, (3, 1, 1))


def test_growth_of_what_is_not_cleared() -> None:
    given = arguments(19, n=2, most=300)
    assert_like_oracle(program_of(BODIES["nothing unwritten is read"]), given, 19, lanes=(1, 8))


def test_freed_memory_is_zero_again() -> None:
    assert_like_oracle(program_of(BODIES["freed"]), arguments(21, n=20), 21)


MANY = """
  %size = const 300 : i32
  %many = const 1000 : i32
  %r = for %many, %x : f32 (%i: i32, %v: f32) {
    %tape = tape_new : ptr<f32, tape>
    %end = for %size, %v : f32 (%j: i32, %u: f32) { tape_store %tape, %j, %u %w = add %u, %one yield %w }
    %a = tape_load %tape, %k
    FREE
    yield %a
  }
  store %y_at, %r"""


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_freed_memory_is_used_again(lanes: int) -> None:
    """One tape of 300 elements at a time, a thousand in all."""
    for free in ("tape_free %tape", ""):
        program = program_of(MANY.replace("FREE", free))
        compiled = compile_kernel(program, options_for("", lanes))
        data, arrays = argument_block(program, given := arguments(40))
        device = CpuDevice(Options(threads=1, limits=Limits(tape_bytes=1 << 20)))
        if not free:
            with pytest.raises(MemoryError, match="E0902"):
                device.launch(compiled.kernel, data, (40, 1, 1))
            continue
        device.launch(compiled.kernel, data, (40, 1, 1))
        expected = given["x"].astype(np.float64)
        for _ in range(1000):
            expected = expected + given["k"]
        np.testing.assert_allclose(arrays["y"], expected, rtol=1e-4)


@pytest.mark.parametrize(("lanes", "most"), [(1, 1 << 16), (8, 1 << 18)])
def test_copies_of_lanes_give_memory_back(lanes: int, most: int) -> None:
    """60 copies of 500 rows for each lane, one after the other, take no more memory than one."""
    program = program_of(BODIES["copies of one's own"])
    compiled = compile_kernel(program, options_for("", lanes))
    data, arrays = argument_block(program, given := arguments(40, n=500))
    device = CpuDevice(Options(threads=1, limits=Limits(tape_bytes=most)))
    device.launch(compiled.kernel, data, (40, 1, 1))
    x, rounds = given["x"], 59 - given["k"]
    np.testing.assert_allclose(arrays["y"], np.where(x < 0, x, x + rounds), rtol=1e-5)
