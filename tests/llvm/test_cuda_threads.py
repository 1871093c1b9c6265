"""What threads of a GPU do together, without one: groups and waves of random kernels, against the oracle."""

import numpy as np
import pytest

from slangrad.base.options import INLINE, KEEP
from slangrad.base.traits import CUDA
from slangrad.targets.cuda import find_sums
from tests.flat import flat_kernel_of
from tests.llvm.gpu_threads import assert_flat_like_oracle, assert_like_oracle, run
from tests.llvm.machine import argument_block
from tests.spmd import test_groups, test_waves

WAVES = pytest.mark.parametrize(
    "seed", [2, 4, 8, *(pytest.param(n, marks=pytest.mark.deep) for n in range(40, 80))]
)


@WAVES
def test_random_waves(seed):
    body = test_waves.Text(seed).block(3, False)
    try:
        assert_like_oracle(test_waves.HEAD + body + test_waves.TAIL, test_waves.arguments(), (75, 1, 1))
    except AssertionError as difference:
        raise AssertionError(f"{body}\n{difference}") from None


GROUPS = pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(n, marks=pytest.mark.deep) for n in range(40, 80))]
)


@GROUPS
def test_random_groups(seed):
    size = ((33, 1, 1), (8, 4, 1), (1, 1, 1), (64, 1, 1))[seed % 4]
    threads = size[0] * size[1]
    text = test_groups.HEAD + test_groups.Text(seed).block(3) + test_groups.TAIL
    text = text.replace("BARRIER", test_groups.BARRIER).replace("N", str(threads))
    text = text.replace("SIZE", ", ".join(map(str, size)))
    grid = (3 * size[0], size[1], 1)
    values = np.random.default_rng(seed).integers(-20, 20, grid[0]).astype(np.float32)
    arguments = {"count": 3, "x": values, "z": np.zeros(grid[0], np.int32)}
    if size[1] > 1:
        text = text.replace("id.x]", "id.x + id.y * 24]")
        arguments["x"], arguments["z"] = (np.resize(a, 96) for a in (arguments["x"], arguments["z"]))
    try:
        assert_like_oracle(text, arguments, grid)
    except AssertionError as difference:
        raise AssertionError(f"{text}\n{difference}") from None


@pytest.mark.parametrize("group", ["64, 2, 1", "16, 8, 1", "20, 3, 1"])
def test_waves_within_groups(group):
    values = np.random.default_rng(3).integers(0, 99, 768).astype(np.int32)
    text = test_groups.WAVES.replace("64, 2, 1", group)
    assert_like_oracle(text, {"a": values, "b": np.zeros(768, np.int32)}, (128, 6, 1))


def test_small_groups_are_waves_with_lanes_off():
    text = """
    [shader("compute")] [numthreads(8, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform double* a, uniform int16_t* b)
    {
        double sum = a[id.x];
        if ((id.x & 3) != 1)
            sum = WaveActiveSum(a[id.x]) + WavePrefixProduct(a[id.x]) + WaveReadLaneAt(sum, int(id.x) - 1);
        a[id.x] = sum;
        b[id.x] = WaveActiveMin(b[id.x]) + int16_t(WaveActiveAllTrue(b[id.x] > 3)) + int16_t(WaveGetLaneIndex());
    }
    """
    rng = np.random.default_rng(5)
    arguments = {"a": rng.uniform(-2, 2, 20), "b": rng.integers(0, 99, 20).astype(np.int16)}
    assert_like_oracle(text, arguments, (20, 1, 1))


@pytest.mark.parametrize("group", ["8, 1, 1", "4, 2, 1", "16, 4, 1"])
def test_differences_in_quads(group):
    """In all threads, and where some quads are not there."""
    text = f"""
    [shader("compute")] [numthreads({group})]
    void kernel(uint3 id : SV_DispatchThreadID, uniform float* a, uniform float* b)
    {{
        uint at = id.y * 16 + id.x;
        float x = a[at];
        b[3 * at] = ddx_fine(x) + 8 * ddy_coarse(float2(x, x * x)).y;
        if ((at & 8) != 0)
        {{
            b[3 * at + 1] = fwidth_fine(x);
            b[3 * at + 2] = ddy_fine(x) - ddx(x);
        }}
    }}
    """
    values = np.random.default_rng(8).uniform(-2, 2, 64).astype(np.float32)
    assert_like_oracle(text, {"a": values, "b": np.zeros(192, np.float32)}, (16, 4, 1))


def test_equal_numbers_keep_the_order_of_lanes():
    text = """
    [shader("compute")] [numthreads(32, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform float* a, uniform float* b)
    {
        float x = a[id.x];
        if (id.x % 7 != 2) { a[id.x] = WaveActiveMin(x); b[id.x] = WaveActiveMax(x); }
    }
    """
    zeros = np.where(np.arange(64) % 3 == 0, np.float32(-0.0), np.float32(0)).astype(np.float32)
    assert_like_oracle(text, {"a": zeros, "b": zeros[::-1].copy()}, (64, 1, 1))


@pytest.mark.parametrize("grid", [(33, 1, 1), (40, 3, 1), (5, 7, 3)], ids=str)
def test_groups_at_the_edge_are_incomplete(grid):
    text = """
    groupshared int sum;
    groupshared int kept[16];
    [shader("compute")] [numthreads(4, 2, 2)]
    void kernel(uint3 id : SV_DispatchThreadID, uint t : SV_GroupIndex, uint3 g : SV_GroupID, uniform int width,
        uniform int height, uniform int* a)
    {
        int at = (int(id.z) * height + int(id.y)) * width + int(id.x);
        kept[15 - t] = a[at];
        InterlockedAdd(sum, a[at]);
        GroupMemoryBarrierWithGroupSync();
        a[at] = sum * 100 + kept[t] + int(g.x + 10 * g.y + 100 * g.z);
    }
    """
    count = grid[0] * grid[1] * grid[2]
    arguments = {"width": grid[0], "height": grid[1], "a": np.arange(count, dtype=np.int32)}
    assert_like_oracle(text, arguments, grid)


def test_indices_out_of_range_in_large_shared_memory():
    text = """
    groupshared float most[20000];
    [shader("compute")] [numthreads(6, 1, 1)]
    void kernel(uint t : SV_GroupIndex, uniform float* y)
    {
        most[19999 - t] = float(t) + 1;
        GroupMemoryBarrierWithGroupSync();
        y[t] = most[19995 + t];
    }
    """
    assert_like_oracle(text, {"y": np.zeros(6, np.float32)}, (6, 1, 1))


def test_printed_lines_come_in_the_order_of_threads():
    text = """
    [shader("compute")] [numthreads(4, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform float* x, uniform half* h)
    {
        if (id.x % 3 == 1)
            printf("%u %u %f %f\\n", id.x, id.y, x[id.x], h[id.y]);
        printf("%d %lld\\n", -int(id.x), int64_t(id.z) - 5);
    }
    """
    arguments = {"x": np.arange(20, dtype=np.float32) / 3, "h": np.arange(3, dtype=np.float16) / 7}
    assert_like_oracle(text, arguments, (20, 3, 2))


WALKS = """
[Differentiable] float walk(float x, int n) { while (n > 0) { x = sin(x) + 0.1 * x; n -= 1; } return x; }
[Differentiable] float walks(float x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += walk(x, (i * n) & 31) * x;
    return sum;
}
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uniform float* x, uniform int* k)
{
    var p = diffPair(x[id.x]);
    bwd_diff(walks)(p, k[id.x], 1.0);
    x[id.x] = p.d;
}
"""


SETTINGS = [{}, *(pytest.param(s, marks=pytest.mark.deep) for s in ({"calls": "keep"}, {"segment_trips": 4}))]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_tapes_grow(settings):
    """Few threads run the grid, so that each takes its memory again."""
    x = np.linspace(0, 2, 300, dtype=np.float32)
    k = np.where(np.arange(300) % 61 == 0, 7, np.arange(300) % 2).astype(np.int32)
    k[299] = 34
    assert_like_oracle(WALKS, {"x": x, "k": k}, (300, 1, 1), most_blocks=1, **settings)


RECURSION = """
interface IShape { float area(float x); }
struct Square : IShape { float side; float area(float x) { return side * x; } }
struct Disk : IShape { float radius; float area(float x) { return 3 * radius * x - 1; } }
float total(int n, float x)
{
    float a = x;
    if (n <= 0) return a;
    float* p = &a;
    IShape shape = n % 2 == 0 ? (IShape)Square(x) : (IShape)Disk(a);
    *p += shape.area(float(n)) + total(n - 1, x * 0.5);
    return a;
}
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uniform float* x, uniform int* k) { x[id.x] = total(k[id.x], x[id.x]); }
"""


def test_recursion_with_variables_and_dynamic_dispatch():
    k = np.where(np.arange(300) % 61 == 0, 40, np.arange(300) % 3).astype(np.int32)
    arguments = {"x": np.linspace(0, 2, 300, dtype=np.float32), "k": k}
    assert_like_oracle(RECURSION, arguments, (300, 1, 1), most_blocks=1)


def test_check_mode_asks_which_memory_there_is():
    text = """
    struct Node { float* value; }
    [shader("compute")] [numthreads(4, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform Node* nodes, uniform float* y)
    {
        y[id.x] = *nodes[id.x].value;
    }
    """
    flat = flat_kernel_of(text, CUDA, check=True)
    values = np.arange(1, 9, dtype=np.float32)
    start = values.ctypes.data
    nodes = np.array([start, start + 28, start + 32, start - 4, start + 16], np.uint64)
    data, arrays = argument_block(flat.program, {"nodes": nodes, "y": np.full(5, 9, np.float32)})
    memory = [values, *arrays.values()]
    _, status = run(flat, np.frombuffer(data, np.uint8).ctypes.data, (5, 1, 1), memory=memory)
    assert arrays["y"].tolist() == [1, 8, 0, 0, 5] and status.error == 1


def test_exhausted_memory_is_reported():
    flat = flat_kernel_of(WALKS, CUDA)
    arguments = {"x": np.ones(40, np.float32), "k": np.full(40, 90, np.int32)}
    data, _ = argument_block(flat.program, arguments)
    _, status = run(flat, np.frombuffer(data, np.uint8).ctypes.data, (40, 1, 1), arena_size=1 << 14)
    assert (status.error, status.kernel) == (2, 1)


LARGE_ARRAYS = """
float scrambled(float x, int k)
{
    float numbers[700];
    for (int i = 0; i < 5; i++)
        numbers[(i * 141 + k) % 700] = x + i * k;
    float sum = 0;
    for (int i = 0; i < 5; i++)
        sum += numbers[(i * 141 + k) % 700] * i;
    double others[600];
    others[k % 600] = sum;
    return sum + float(others[(k * 601) % 600]) + (k > 5 ? AGAIN : 0);
}
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint3 id : SV_DispatchThreadID, uniform float* x, uniform int* k)
{
    int places[7000];
    places[k[id.x]] = k[id.x] * 10 + id.y;
    x[id.x + 100 * id.y] = scrambled(x[id.x + 100 * id.y], k[id.x]) + places[k[id.x]];
}
"""


@pytest.mark.parametrize("again", ["0", "scrambled(x * 0.5, k - 6)"])
def test_large_arrays_of_threads_lie_in_the_arena(again):
    """Each thread has its own, beside memory that functions take which call themselves."""
    values, k = np.random.default_rng(5).random(900, np.float32), np.arange(40, dtype=np.int32) % 9
    text = LARGE_ARRAYS.replace("AGAIN", again)
    for calls in (INLINE, KEEP):
        flat = flat_kernel_of(text, CUDA, calls=calls)
        assert_flat_like_oracle(flat, {"x": values.copy(), "k": k}, (40, 9, 1), most_blocks=1)


def test_large_arrays_beside_sums_of_all_threads():
    """Blocks of such a kernel stay, so their threads have places in the arena, too."""
    text = LARGE_ARRAYS.replace("AGAIN", "0").replace("places[7000]", "places[9000]")
    text = text.replace("int* k)", "int* k, uniform double* total)")
    text = text.replace(
        "places[k[id.x]];", "places[k[id.x]]; __atomic_add(*total, double(x[id.x + 100 * id.y]));"
    )
    values, k = np.random.default_rng(5).integers(0, 4, 300), np.arange(40, dtype=np.int32) % 9
    arguments = {"x": values.astype(np.float32), "k": k, "total": np.ones(1)}
    for calls in (INLINE, KEEP):
        flat = flat_kernel_of(text, CUDA, calls=calls)
        assert find_sums(flat).sums is not None
        assert_flat_like_oracle(flat, arguments | {"x": arguments["x"].copy()}, (40, 3, 1), most_blocks=1)
