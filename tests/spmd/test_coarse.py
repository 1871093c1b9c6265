"""Kernels of a few neighboring threads: what becomes of loads and stores, when they are aligned, and which stay."""

import pytest

from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Program, walk
from slangrad.ir.oracle.interpret import evaluate
from slangrad.spmd.coarse import CoarseKernel, coarsen
from tests.ir.outcomes import Memory
from tests.spmd.kernels import program_of

# fmt: off
STAY = {
    "a loop":                       "for %n (%i: i32) { yield }  store %y_at, %x",
    "an atomic":                    '%o = atomic %y_at, %x {kind="add"} : f32  store %y_at, %x',
    "an element behind a number":   "%p = offset %xs, %k  %v = load %p : f32  store %y_at, %v",
    "every other element":          "%j = add %t, %t  %p = offset %ys, %j  store %p, %x",
    "an element that may wrap":     "%u = bitcast %n : u32  %j = add %t, %u  %p = offset %ys, %j  store %p, %x",
    "memory in a branch":           "%c = less %k, %3  if %c { store %y_at, %x  yield } { yield }",
    "one place for all threads":    "store %ys, %x",
}
# fmt: on


def coarse(body: str) -> CoarseKernel | None:
    return coarsen(program_of(body).functions["kernel"])


@pytest.mark.parametrize("body", STAY.values(), ids=STAY)
def test_kernels_that_stay(body: str) -> None:
    assert coarse(body) is None


def test_loads_and_stores_move_lanes() -> None:
    kernel = coarse("%s = mul %x, %x  store %y_at, %s")
    assert kernel is not None and kernel.lanes == 4
    ops = [op for op in walk(kernel.wide.region) if op.name in ("load", "mul", "store")]
    moved = [(op.name, str((*op.results, *op.operands)[-1 if op.name == "store" else 0].type)) for op in ops]
    assert ("mul", "lanes<f32>") in moved and ("store", "lanes<f32>") in moved
    assert moved.count(("load", "lanes<f32>")) == 1
    assert ("load", "i32") in moved  # %n is the same for all threads


def test_branches_without_memory_become_selections() -> None:
    kernel = coarse("%c = less %k, %3  %s = if %c : f32 { yield %x } { yield %one }  store %y_at, %s")
    assert kernel is not None
    assert [op.name for op in walk(kernel.wide.region)].count("select") == 1
    assert not [op for op in walk(kernel.wide.region) if op.regions]


def test_lanes_of_doubles_are_16_bytes() -> None:
    kernel = coarse(
        "%d = convert %x : f64  %p = bitcast %zs : ptr<f64, global>  %q = offset %p, %t  store %q, %d"
    )
    assert kernel is not None and kernel.lanes == 2


@pytest.mark.parametrize("shift, holds", [(0, True), (4, False), (8, False), (16, True), (20, False)])
def test_condition(shift: int, holds: bool) -> None:
    """The accesses of `x` begin at an address that is shifted by some bytes, all others at multiples of 16."""
    kernel = coarse("store %y_at, %x")
    assert kernel is not None
    memory = Memory(t.F32, 64, [0.0] * 64)
    start = -(-memory.address // 16) * 16
    fields = (("n", t.I32), *((name, t.pointer(t.F32)) for name in "xkyz"))
    kind = t.struct("Arguments", fields)
    arguments = Memory(kind, 1, [(5, start + shift, start, start, start)])
    program = Program({"aligned": kernel.aligned}, arguments=kind)
    assert evaluate(program, "aligned", (), arguments.address) == (holds,)
