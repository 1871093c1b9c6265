"""Barriers behind a `return`: the IR that is made, and kernels compared with threads in Python."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.diagnostics import CompileError
from slangrad.spmd.analyses.group_values import check_barriers
from slangrad.spmd.ended_threads import pass_ended_threads
from tests.ir.golden import assert_becomes
from tests.ir.parse_text import parse_program

HEAD = """
func @kernel(%n: u32, %g: ptr<u32, global>) -> () {{group_size=(4, 1, 1), kernel=true}} {{
  %x = thread_id {{axis=0}} : u32
  %mine = less %x, %n
  %p = offset %g, %x
  {body}
  yield
}}
"""

# fmt: off
STAYS = {
    "no barrier":                "if %mine { store %p, %x  yield } { yield }",
    "not the last op":           "if %mine { barrier yield } { yield }  store %p, %x",
    "a branch that all take":    "%all = less %n, %n  if %all { barrier yield } { yield }",
    "barriers in both arms":     "if %mine { barrier yield } { barrier yield }",
    "a loop":                    "for %x (%i: u32) { barrier yield }",
}
REFUSED = {
    "a count from memory":       "if %mine { %c = load %g : u32  for %c (%i: u32) { barrier yield } yield } { yield }",
    "a branch of some":          "if %mine { %b = less %x, %x  %c = load %p : u32  %d = less %c, %x  if %d { barrier yield } { yield } store %p, %x yield } { yield }",
}
# fmt: on


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_kernels_that_stay(body: str) -> None:
    functions = parse_program(HEAD.format(body=body)).functions
    assert pass_ended_threads(functions["kernel"], functions) is functions["kernel"]


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_barriers_about_which_ended_threads_know_too_little(body: str) -> None:
    functions = parse_program(HEAD.format(body=body)).functions
    with pytest.raises(CompileError, match="E9009"):
        check_barriers(pass_ended_threads(functions["kernel"], functions), functions)


def test_a_branch_becomes_two() -> None:
    before = HEAD.format(
        body="""
  if %mine {
    %v = load %p : u32
    %w = add %v, %n
    store %p, %x
    barrier
    store %p, %w
    yield
  } {
    store %p, %n
    yield
  }"""
    )
    after = HEAD.format(
        body="""
  %other = not %mine
  if %other {
    store %p, %n
    yield
  } {
    yield
  }
  %w = if %mine : u32 {
    %v = load %p : u32
    %sum = add %v, %n
    store %p, %x
    yield %sum
  } {
    %zero = const 0 : u32
    yield %zero
  }
  barrier
  if %mine {
    store %p, %w
    yield
  } {
    yield
  }"""
    )
    assert_becomes(lambda function: pass_ended_threads(function, {}), before, after)


TEXT = """
struct Cell { float value; float* place; }
groupshared float shared[16];
[shader("compute")] [numthreads(16, 1, 1)]
void kernel(uint t : SV_GroupIndex, uint3 id : SV_DispatchThreadID, uniform uint n, uniform uint m, uniform uint turns,
    uniform float* p, uniform Cell* cells)
{
    shared[t] = 100 + t;
    GroupMemoryBarrierWithGroupSync();
    if (id.x >= n)
        return;
    float v = p[id.x] + shared[15 - t];
    Cell cell = cells[id.x];
    GroupMemoryBarrierWithGroupSync();
    shared[t] = v;
    GroupMemoryBarrierWithGroupSync();
    for (uint i = 0; i < turns; i++)
    {
        float w = shared[(t + 1) % 16];
        if (t % 3 == i)
            w += 0.5;
        GroupMemoryBarrierWithGroupSync();
        shared[t] = w + i;
        GroupMemoryBarrierWithGroupSync();
        v += shared[t ^ 1];
    }
    if (t >= m)
    {
        p[id.x] = -v;
        return;
    }
    float local[4] = {};
    local[t % 4] = v;
    float sum = WaveActiveSum(v);
    GroupMemoryBarrierWithGroupSync();
    shared[t] = cell.value;
    GroupMemoryBarrierWithGroupSync();
    p[id.x] = v + local[t % 4] + shared[(t + 5) % 16] + sum;
    *cell.place = v;
}
"""


def thread(t: int, group: int, n: int, m: int, turns: int, p: np.ndarray, memory: dict[str, Any]) -> Iterator:
    """One thread of the kernel, which yields at barriers and gives a value there that a wave adds up."""
    shared, i = memory["shared"], 16 * group + t
    shared[t] = 100 + t
    yield
    if i >= n:
        return
    v = p[i] + shared[15 - t]
    yield
    shared[t] = v
    yield
    for turn in range(turns):
        w = shared[(t + 1) % 16] + (0.5 if t % 3 == turn else 0)
        yield
        shared[t] = w + turn
        yield
        v += shared[t ^ 1]
    if t >= m:
        p[i] = -v
        return
    memory["sum"][t] = v
    yield
    shared[t] = i
    yield
    p[i] = 2 * v + shared[(t + 5) % 16] + sum(memory["sum"].values())
    memory["cells"][i] = v


@pytest.mark.parametrize("backend, lanes", [("cpu", 1), ("cpu", 4), ("cpu", 16), ("interpreter", 0)])
def test_threads_that_end_before_a_barrier(backend: str, lanes: int) -> None:
    device = spy.create_device(backend=backend, options=spy.Options(lanes=lanes))
    module = device.load_module_from_source("ending", TEXT)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("kernel")]))
    numbers = np.random.default_rng(1).integers(0, 9, 32).astype(np.float32)
    for n, m, turns in ((32, 16, 2), (21, 16, 3), (21, 6, 1), (5, 3, 0), (0, 2, 1), (18, 0, 2)):
        memory = [device.create_buffer(data=x) for x in (numbers, np.zeros(32, np.float32))]
        places = memory[1].device_address + 4 * np.arange(32, dtype=np.uint64)
        cells = np.zeros(32, np.dtype([("value", "f4"), ("gap", "u4"), ("place", "u8")]))
        cells["value"], cells["place"] = np.arange(32), places
        inputs = device.create_buffer(data=cells.view(np.uint8))
        uniforms = {"p": memory[0].device_address, "cells": inputs.device_address}
        kernel.dispatch([32, 1, 1], n=n, m=m, turns=turns, **uniforms)

        p, written = numbers.copy(), np.zeros(32, np.float32)
        for group in range(2):
            state = {"shared": np.zeros(16, np.float32), "sum": {}, "cells": written}
            threads = [thread(t, group, n, m, turns, p, state) for t in range(16)]
            while threads:  # from barrier to barrier; the others of a thread that has ended go on
                threads = [x for x in threads if next(x, "ended") is None]
        np.testing.assert_array_equal(memory[0].to_numpy().view(np.float32), p)
        np.testing.assert_array_equal(memory[1].to_numpy().view(np.float32), written)
