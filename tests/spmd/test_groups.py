"""Groups with barriers and shared memory: machine code at all widths against the oracle, and by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.diagnostics import CompileError
from tests.flat import flat_program
from tests.llvm.machine import assert_group_like_oracle

REVERSED = """
groupshared int kept[{threads}];
[shader("compute")] [numthreads({x}, {y}, {z})]
void kernel(uint3 id : SV_DispatchThreadID, uint3 own : SV_GroupThreadID, uint3 group : SV_GroupID,
    uint index : SV_GroupIndex, uniform int width, uniform int height, uniform int* a, uniform int* b)
{{
    int at = (int(id.z) * height + int(id.y)) * width + int(id.x);
    kept[index] = a[at];
    int local[3] = {{ at, at * 2, at * 3 }};
    local[at % 3] += int(own.x);
    GroupMemoryBarrierWithGroupSync();
    b[at] = kept[{threads} - 1 - index] * 10 + local[(at + 1) % 3] + int(group.x + 100 * group.y) + int(own.y);
}}
"""


@pytest.mark.parametrize(
    "size",
    [(1, 1, 1), (5, 1, 1), (33, 1, 1), (256, 1, 1), (8, 8, 1), (16, 4, 1), (3, 5, 2), (32, 2, 2)],
    ids=str,
)
def test_groups_of_many_sizes(size):
    x, y, z = size
    program = flat_program(REVERSED.format(threads=x * y * z, x=x, y=y, z=z))
    width, height, depth = 3 * x, 2 * y, z
    count = width * height * depth
    rng = np.random.default_rng(1)
    arguments = {
        "width": width,
        "height": height,
        "a": rng.integers(0, 1000, count).astype(np.int32),
        "b": np.zeros(count, np.int32),
    }
    assert_group_like_oracle(program, arguments, (width, height, depth))


@pytest.mark.parametrize("threads", [7, 32, 33, 100])
def test_groups_at_the_edge_are_incomplete(threads):
    text = """
    groupshared int sum;
    groupshared int most[2];
    [shader("compute")] [numthreads(33, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform int* a, uniform int* b)
    {
        InterlockedAdd(sum, a[id.x]);
        InterlockedMax(most[id.x & 1], a[id.x]);
        GroupMemoryBarrierWithGroupSync();
        int before = sum + most[0] - most[1];
        GroupMemoryBarrierWithGroupSync();
        if (before > 10)
            InterlockedAdd(sum, 1);
        GroupMemoryBarrierWithGroupSync();
        b[id.x] = before * 1000 + sum;
    }
    """
    rng = np.random.default_rng(2)
    arguments = {"a": rng.integers(0, 9, threads).astype(np.int32), "b": np.zeros(threads, np.int32)}
    assert_group_like_oracle(flat_program(text), arguments, (threads, 1, 1))


HEAD = """
struct Item { float x; int n; half h; };
groupshared float f[64];
groupshared int k[64];
groupshared Item items[3];
groupshared int total;
static int moves = 3;
int next(int by) { moves = (moves + by) & 31; return moves; }
[shader("compute")] [numthreads(SIZE)]
void kernel(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uint3 g : SV_GroupID, uniform int count,
    uniform float* x, uniform int* z)
{
    int a = int(t) * 3 & 15;
    float u = x[id.x];
    int c = count;
    k[t] = a;
    f[t] = u;
    BARRIER
"""
BARRIER = "GroupMemoryBarrierWithGroupSync();"
TAIL = """
    x[id.x] = u + f[t] + items[0].x + float(items[2].h);
    z[id.x] = a + 64 * k[t] + 4096 * c + next(1) + total + items[1].n;
}
"""
OWN = [
    "a = (a + k[(t + 1) % N]) & 63; BARRIER",
    "a = (a ^ next(int(t & 3))) & 63;",
    "u = u * 0.5 + f[(t + N - 1) % N]; BARRIER",
    "BARRIER k[t] = (a + c) & 63; BARRIER",
    "BARRIER f[t] = clamp(u, -50.0, 50.0); BARRIER",
    "InterlockedAdd(total, a & 3); BARRIER",
    "if (t == 0) { items[1].n = (k[0] + c) & 63; items[2].h = half(c); items[0].x = f[N / 2]; } BARRIER",
    "if ((t & 1) == 0) { a = (a * 5 + 1) & 63; } else { u -= 1; }",
    "for (int j = 0; j < (a & 3); j++) { u += float(j); a = (a + j) & 63; }",
    "c = (c + k[0]) & 7; BARRIER",
    "c = (c + int(g.x)) & 7;",
]
SHARED_CONDITIONS = ["c > 3", "k[0] > 20", "g.x == 1", "total > 30", "items[1].n > 5"]


class Text:
    """A random body without races, whose barriers stand where all threads come."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0

    def block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self.random.randint(1, 4)))

    def statement(self, depth: int) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.45:
            return self.random.choice(OWN)
        inner = self.block(depth - 1)
        condition = self.random.choice(SHARED_CONDITIONS)
        if choice < 0.65:
            kept = f"bool b{self.loops} = {condition}; BARRIER"
            condition = f"b{self.loops}"
            self.loops += 1
            return f"{kept} if ({condition}) {{ {inner} }} else {{ {self.block(depth - 1)} }} BARRIER"
        self.loops += 1
        i = f"i{self.loops}"
        if choice < 0.85:
            return f"for (int {i} = 0; {i} < 3; {i}++) {{ {inner} if ({i} > c) break; BARRIER }}"
        return f"int {i} = 0; while ({i} < 4 && c < 6) {{ {i}++; {inner} BARRIER c++; }}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(5))
def test_random_bodies(seed):
    size = ((33, 1, 1), (8, 4, 1), (1, 1, 1), (64, 1, 1))[seed % 4]
    threads = size[0] * size[1]
    body = Text(seed).block(3)
    text = (HEAD + body + TAIL).replace("BARRIER", BARRIER).replace("N", str(threads))
    text = text.replace("SIZE", ", ".join(map(str, size)))
    grid = (3 * size[0], size[1], 1)
    rng = np.random.default_rng(seed)
    arguments = {
        "count": 3,
        "x": rng.integers(-20, 20, grid[0]).astype(np.float32),
        "z": np.zeros(grid[0], np.int32),
    }
    if size[1] > 1:
        text = text.replace("id.x]", "id.x + id.y * 24]")
        arguments["x"], arguments["z"] = (np.resize(each, 96) for each in (arguments["x"], arguments["z"]))
    try:
        assert_group_like_oracle(flat_program(text), arguments, grid)
    except AssertionError as difference:
        raise AssertionError(f"{text}\n{difference}") from None


WAVES = """
groupshared uint sums[4];
[shader("compute")] [numthreads(64, 2, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uniform int* a, uniform int* b)
{
    uint at = id.y * 128 + id.x;
    uint sum = WaveActiveSum(uint(a[at]));
    if (WaveIsFirstLane())
        sums[t / 32] = sum;
    GroupMemoryBarrierWithGroupSync();
    b[at] = int(sums[0] + 2 * sums[1] + 3 * sums[2] + 4 * sums[3] + WaveGetLaneIndex());
}
"""


@pytest.mark.parametrize("group", ["64, 2, 1", "16, 8, 1", "20, 3, 1"])
def test_waves_within_groups(group):
    rng = np.random.default_rng(3)
    arguments = {"a": rng.integers(0, 99, 768).astype(np.int32), "b": np.zeros(768, np.int32)}
    program = flat_program(WAVES.replace("64, 2, 1", group))
    assert_group_like_oracle(program, arguments, (128, 6, 1))


DIVERGENT = {
    "if (t < 3) {\nGroupMemoryBarrierWithGroupSync(); }": "branch",
    "for (uint i = 0; i < t; i++) {\nGroupMemoryBarrierWithGroupSync(); }": "loop",
    "for (uint i = 0; i < n; i++) { if (p[t] > i) return;\nGroupMemoryBarrierWithGroupSync(); }": "loop",
    "uint i = n; while (i > 0) { i -= t + 1;\nAllMemoryBarrierWithGroupSync(); }": "loop",
}


@pytest.mark.parametrize("body", DIVERGENT)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_barriers_that_not_all_threads_come_to(body, backend):
    text = f"""[shader("compute")] [numthreads(8, 1, 1)]
void kernel(uint t : SV_GroupIndex, uint3 g : SV_GroupID, uniform uint n, uniform uint* p) {{
{body} p[t] = g.x; }}"""
    device = spy.create_device(backend=backend)
    module = device.load_module_from_source("divergent", text)
    program = device.link_program([module], [module.entry_point("kernel")])
    with pytest.raises(CompileError) as caught:
        device.create_compute_kernel(program)
    (found,) = caught.value.diagnostics
    assert found.code == "E9009"
    assert "MemoryBarrierWithGroupSync()" in str(found) and f"the {DIVERGENT[body]} around it" in str(found)


def test_kernels_by_hand(device):
    """A reduction in groups of 256, and a count over all groups."""
    text = """
    groupshared double part[256];
    [shader("compute")] [numthreads(256, 1, 1)]
    void sum(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uint3 g : SV_GroupID, uniform double* x,
        uniform double* y)
    {
        part[t] = x[id.x];
        GroupMemoryBarrierWithGroupSync();
        for (uint s = 128; s > 0; s >>= 1)
        {
            if (t < s)
                part[t] += part[t + s];
            GroupMemoryBarrierWithGroupSync();
        }
        y[id.x] = x[id.x] - part[0] / 256;
    }
    """
    module = device.load_module_from_source("centered", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("sum")]))
    values = np.random.default_rng(4).integers(0, 1 << 20, 1024).astype(np.float64)
    x, y = device.create_buffer(data=values), device.create_buffer(size=8 * 1024)
    kernel.dispatch([1024, 1, 1], x=x, y=y)
    wanted = values - np.repeat(values.reshape(4, 256).mean(axis=1), 256)
    assert y.to_numpy().view(np.float64).tolist() == wanted.tolist()


def test_function_calls_have_groups(device):
    """The threads of a call come in groups of 256; those that there are meet at the barrier."""
    text = """
    groupshared int together;
    int count(int x)
    {
        InterlockedAdd(together, x);
        GroupMemoryBarrierWithGroupSync();
        return together;
    }
    """
    module = spy.Module.load_from_source(device, "together", text)
    found = module.count(np.ones(300, np.int32), _result="numpy")
    assert found.tolist() == [256] * 256 + [44] * 44


def test_indices_out_of_range(device):
    """Reports come from the threads that make them, and the others go on."""
    text = """
    groupshared int few[4];
    [shader("compute")] [numthreads(6, 1, 1)]
    void k(uint t : SV_GroupIndex, uniform int* y)
    {
        few[t] = int(t) + 1;
        GroupMemoryBarrierWithGroupSync();
        y[t] = few[5 - t];
    }
    """
    module = device.load_module_from_source("few", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("k")]))
    y = device.create_buffer(size=24)
    with pytest.raises(spy.BoundsError, match="index 4"):
        kernel.dispatch([6, 1, 1], y=y)
    assert y.to_numpy().view(np.int32).tolist() == [0, 0, 4, 3, 2, 1]
