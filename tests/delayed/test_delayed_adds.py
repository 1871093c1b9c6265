"""Adds to shared memory that wait for the end of the launch: when they do, and that nobody can tell."""

import numpy as np
import pytest

from slangrad import BoundsError
from tests.delayed.launching import LANES, compiled, may_wait, oracle, run

F = np.float32
SIZES = (1, 3, 255, 256, 1000, 4097)


def numbers(count, seed=1):
    """Whole numbers of few bits: their sums are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 9, count).astype(F)


def parts(count, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, count).astype(F)


SUM = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* total, uniform uint n)
{
    if (id.x < n)
        InterlockedAdd(total[0], x[id.x]);
}
"""


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("size", SIZES)
def test_a_sum(size, lanes):
    arguments = {"x": numbers(size), "total": np.full(1, 5, F), "n": size}
    outcome = run(SUM, arguments, -(-size // 64) * 64, lanes)
    assert outcome.waited
    assert outcome.arrays["total"][0] == 5 + arguments["x"].sum()
    assert (outcome.arrays["x"] == arguments["x"]).all()


def test_no_threads():
    arguments = {"x": numbers(4), "total": np.full(1, 5, F), "n": 4}
    assert run(SUM, arguments, 0).arrays["total"][0] == 5


def test_threads_that_add_nothing():
    arguments = {"x": numbers(4), "total": np.full(1, -0.0, F), "n": 0}
    left = run(SUM, arguments, 64).arrays["total"]
    assert left[0] == 0 and np.signbit(left[0])  # what nobody added to is not touched


@pytest.mark.parametrize("lanes", LANES)
def test_sums_are_the_same_in_each_run_and_for_any_number_of_threads(lanes):
    arguments = {"x": parts(100_003), "total": np.zeros(1, F), "n": 100_003}
    results = {
        run(SUM, arguments, 100_032, lanes, workers).arrays["total"].tobytes()
        for workers in (1, 2, 2, 3)
        for _ in range(2)
    }
    assert len(results) == 1


def test_sums_of_many_are_nearer_than_one_after_the_other():
    x = np.random.default_rng(0).uniform(0, 1, 1 << 20).astype(F)
    arguments = {"x": x, "total": np.zeros(1, F), "n": x.size}
    exact = x.astype(np.float64).sum()
    assert run(SUM, arguments, x.size).arrays["total"][0] == pytest.approx(exact, rel=1e-6)


WEIGHTS = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* weights, uniform float* gradients,
    uniform uint n)
{
    if (id.x >= n)
        return;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 40; j++)
            InterlockedAdd(gradients[i * 40 + j], x[id.x] * weights[j] + float(i));
}
"""


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("size", (1, 77, 2000))
def test_arrays_of_sums_in_loops(size, lanes):
    weights = numbers(40, 2)
    arguments = {"x": numbers(size), "weights": weights, "gradients": numbers(120, 3), "n": size}
    outcome = run(WEIGHTS, arguments, -(-size // 64) * 64, lanes)
    assert outcome.waited
    sums = arguments["x"].sum() * weights + size * np.arange(3)[:, None]
    assert (outcome.arrays["gradients"] == arguments["gradients"] + sums.ravel()).all()


def test_accumulators_are_kept_for_each_lane():
    text = compiled(WEIGHTS).text("delayed")
    assert "accumulators {block=0, count=120} : ptr<f32, local>" in text
    assert "lane_reduce" not in compiled(WEIGHTS).text("lanes")


@pytest.mark.parametrize(
    ("start", "waits"), [(0, False), (39, False), (40, True), (-119, False), (-120, True), (60, True)]
)
def test_weights_that_are_gradients_at_the_same_time(start, waits):
    memory = numbers(400)
    arguments = {
        "x": numbers(300, 5),
        "weights": memory[150:190],
        "gradients": memory[150 + start : 150 + start + 120],
        "n": 300,
    }
    outcome = run(WEIGHTS, arguments, 320)
    assert outcome.waited == waits
    if waits:
        expected = oracle(WEIGHTS, arguments, 320)
        assert (outcome.arrays["gradients"] == expected.arrays["gradients"]).all()


def test_overlap_gives_what_threads_one_after_the_other_give():
    memory = np.random.default_rng(4).integers(0, 2, 120).astype(F)
    x = np.where(np.arange(20) % 5 == 0, 1, 0).astype(F)
    arguments = {"x": x, "weights": memory[:40], "gradients": memory[:120], "n": 20}
    outcome, expected = run(WEIGHTS, arguments, 64), oracle(WEIGHTS, arguments, 64)
    assert not outcome.waited
    assert outcome.arrays["gradients"].tobytes() == expected.arrays["gradients"].tobytes()


LAYERS = """
struct Layer { float* weights; float* gradients; }
struct Network { Layer first; Layer second; }

[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform Network* network, uniform float* x)
{
    for (int i = 0; i < 8; i++)
    {
        InterlockedAdd(network.first.gradients[i], x[id.x] * network.second.weights[i]);
        InterlockedAdd(network.second.gradients[i], x[id.x] + network.first.weights[i]);
    }
}
"""


@pytest.mark.parametrize(
    ("places", "waits"),
    [
        ((0, 8, 16, 24), True),
        ((0, 8, 16, 8), True),  # two layers add to the same sums
        ((0, 8, 20, 12), True),
        ((0, 8, 8, 24), False),  # the second layer's weights are the first one's gradients
        ((0, 8, 1, 7), False),
        ((0, 0, 0, 0), False),
    ],
)
def test_layers_behind_pointers(places, waits):
    memory = np.random.default_rng(4).integers(0, 2, 40).astype(F)
    x = np.where(np.arange(64) % 9 == 0, 1, 0).astype(F)
    network = np.array([memory.ctypes.data + 4 * place for place in places], np.uint64)
    before = memory.copy()
    outcome = run(LAYERS, {"network": network.ctypes.data, "x": x}, 64)
    made, memory[:] = memory.copy(), before
    oracle(LAYERS, {"network": network.ctypes.data, "x": x}, 64)
    assert outcome.waited == waits
    assert made.tobytes() == memory.tobytes()


def test_pointers_that_the_kernel_changes():
    text = """
    struct Sums { float* place; uint more; }

    [shader("compute")] [numthreads(64, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uniform Sums* sums, uniform uint* word, uniform float* x)
    {
        InterlockedAdd(sums.place[0], x[id.x]);
        if (id.x == 40)
            word[0] += 4;
    }
    """
    memory = np.zeros(2, F)
    sums = np.array([memory.ctypes.data, 0], np.uint64)
    apart = np.zeros(1, np.uint32)
    x = np.ones(64, F)
    assert run(text, {"sums": sums.ctypes.data, "word": apart, "x": x}, 64).waited
    assert memory.tolist() == [64, 0]
    memory[:] = 0
    outcome = run(text, {"sums": sums.ctypes.data, "word": sums.ctypes.data, "x": x}, 64)
    assert not outcome.waited
    assert memory.tolist() == [41, 23]


def test_null_is_not_followed():
    text = """
    struct Sums { float* place; }

    [shader("compute")] [numthreads(64, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uniform Sums* sums, uniform uint n)
    {
        if (id.x < n)
            InterlockedAdd(sums.place[0], 1.0);
    }
    """
    run(text, {"sums": 0, "n": 0}, 64)


# --- what may not wait


READ = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* total, uniform float* seen)
{
    InterlockedAdd(total[0], 1.0);
    seen[id.x] = total[0];
}
"""


def test_sums_that_the_kernel_reads():
    arguments = {"total": np.zeros(1, F), "seen": np.zeros(256, F)}
    outcome = run(READ, arguments, 256)
    assert not outcome.waited
    assert outcome.arrays["total"][0] == 256
    assert (np.diff(outcome.arrays["seen"]) >= 0).all() and outcome.arrays["seen"].min() >= 1


USED = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* total, uniform float* seen)
{
    float before;
    InterlockedAdd(total[0], 1.0, before);
    seen[id.x] = before;
}
"""


def test_adds_whose_result_is_used_do_not_wait():
    assert not may_wait(USED)
    outcome = run(USED, {"total": np.zeros(1, F), "seen": np.zeros(256, F)}, 256)
    assert outcome.arrays["seen"].tolist() == list(range(256))


COUNTS = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* total, uniform uint* counts)
{
    InterlockedAdd(total[0], x[id.x]);
    InterlockedAdd(counts[x[id.x] > 0 ? 1 : 0], 1u);
    InterlockedMax(counts[2], id.x);
}
"""


@pytest.mark.parametrize("workers", (1, 2))
def test_atomics_of_whole_numbers_stay_atomics(workers):
    arguments = {"x": numbers(100_032), "total": np.zeros(1, F), "counts": np.zeros(3, np.uint32)}
    outcome = run(COUNTS, arguments, 100_032, workers=workers)
    positive = int((arguments["x"] > 0).sum())
    assert outcome.waited
    assert outcome.arrays["total"][0] == arguments["x"].sum()
    assert outcome.arrays["counts"].tolist() == [100_032 - positive, positive, 100_031]


def test_kernels_that_print_do_not_wait():
    assert not may_wait(SUM.replace("InterlockedAdd", 'printf("%u", id.x); InterlockedAdd'))


def test_addresses_that_cannot_be_followed_do_not_wait():
    assert not may_wait(SUM.replace("total[0]", "total[uint(x[id.x])]"))
    assert not may_wait(SUM.replace("total[0], x[id.x]", "total[0], x[uint(x[id.x])]"))


# --- other types and addresses


@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("double", np.float64)])
def test_sums_of_other_types(kind, dtype):
    text = SUM.replace("float", kind)
    if kind == "half":
        text = text.replace(
            "InterlockedAdd(total[0], x[id.x])",
            "{ half old; InterlockedAddF16Emulated(total, x[id.x], old); }",
        )
    arguments = {"x": numbers(5000).astype(dtype), "total": np.full(1, 5, dtype), "n": 5000}
    for lanes in LANES:
        outcome = run(text, arguments, 5056, lanes)
        assert outcome.waited
        assert outcome.arrays["total"][0] == dtype(5 + arguments["x"].astype(np.float64).sum())


def test_halves_are_summed_in_float_and_rounded_once():
    text = SUM.replace("float", "half")
    text = text.replace(
        "InterlockedAdd(total[0], x[id.x])", "{ half old; InterlockedAddF16Emulated(total, x[id.x], old); }"
    )
    x = np.full(6000, 1, np.float16)
    outcome = run(text, {"x": x, "total": np.zeros(1, np.float16), "n": 6000}, 6016)
    assert outcome.arrays["total"][0] == 6000  # one by one it stays at 2048


TABLE = """
RWStructuredBuffer<float> table;

[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform uint* index, uniform float* x)
{
    InterlockedAdd(table[index[id.x]], x[id.x]);
}
"""


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("size", "waits"), [(1, True), (16, True), (1000, True), (1 << 20, False)])
def test_tables(size, waits, lanes):
    index = np.random.default_rng(2).integers(0, size, 6400).astype(np.uint32)
    arguments = {"table": numbers(size), "index": index, "x": numbers(6400)}
    outcome = run(TABLE, arguments, 6400, lanes)
    assert outcome.waited == waits
    added = np.bincount(index, arguments["x"], size)
    assert (outcome.arrays["table"] == arguments["table"] + added).all()


@pytest.mark.parametrize("size", (16, 1000))
def test_tables_are_the_same_for_any_number_of_threads(size):
    index = np.random.default_rng(2).integers(0, size, 64_000).astype(np.uint32)
    arguments = {"table": np.zeros(size, F), "index": index, "x": parts(64_000)}
    results = {run(TABLE, arguments, 64_000, 0, n).arrays["table"].tobytes() for n in (1, 2, 2, 3)}
    assert len(results) == 1


SEVERAL = """
RWStructuredBuffer<float> table;

[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform uint* index, uniform float* x, uniform float* sums)
{
    uint i = id.y * 100 + id.x;
    if (id.x >= 100)
        return;
    InterlockedAdd(table[index[i]], x[i]);
    InterlockedAdd(sums[0], x[i]);
    InterlockedAdd(sums[1], 2 * x[i]);
}
"""


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(("size", "batches"), [(1, 60), (1000, 60), (5_000, 60), (100_000, 3), (200_000, 1)])
def test_the_larger_the_table_the_fewer_batches(size, batches, lanes):
    """Rows of a grid are chunks; neighboring ones share partial sums."""
    random = np.random.default_rng(2)
    index = random.integers(0, size, 30_000).astype(np.uint32)
    arguments = {"table": numbers(size), "index": index, "x": numbers(30_000), "sums": np.ones(2, F)}
    outcome = run(SEVERAL, arguments, (100, 300, 1), lanes)
    assert (outcome.waited, outcome.batches) == (True, batches)
    x = arguments["x"]
    assert (outcome.arrays["table"] == arguments["table"] + np.bincount(index, x, size)).all()
    assert outcome.arrays["sums"].tolist() == [1 + x.sum(), 1 + 2 * x.sum()]


@pytest.mark.parametrize("size", (5_000, 200_000))
def test_lots_are_the_same_for_any_number_of_threads(size):
    index = np.random.default_rng(2).integers(0, size, 30_000).astype(np.uint32)
    x = np.random.default_rng(3).normal(size=30_000).astype(F)
    arguments = {"table": np.zeros(size, F), "index": index, "x": x, "sums": np.zeros(2, F)}
    runs = [run(SEVERAL, arguments, (100, 300, 1), workers=n).arrays for n in (1, 2, 3)]
    results = {found["table"].tobytes() + found["sums"].tobytes() for found in runs}
    assert len(results) == 1
    assert runs[0]["table"] == pytest.approx(np.bincount(index, x, size), abs=1e-4)


def test_lots_stop_where_an_index_is_out_of_range():
    index = np.zeros(30_000, np.uint32)
    index[20_000] = 9_000
    arguments = {"table": np.zeros(5_000, F), "index": index, "x": np.ones(30_000, F), "sums": np.zeros(2, F)}
    with pytest.raises(BoundsError, match="9000"):
        run(SEVERAL, arguments, (100, 300, 1))


def test_a_table_that_is_what_is_added():
    index = np.arange(64, dtype=np.uint32) % 7
    memory = np.arange(64).astype(F)
    arguments = {"table": memory[:], "index": index, "x": memory[:]}
    outcome, expected = run(TABLE, arguments, 64), oracle(TABLE, arguments, 64)
    assert not outcome.waited
    assert (outcome.arrays["table"] == expected.arrays["table"]).all()


def test_vectors_in_a_buffer_of_atomics():
    text = """
    RWStructuredBuffer<Atomic<float>> sums;

    [shader("compute")] [numthreads(64, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uniform float2* x)
    {
        sums[0] += x[id.x].x;
        sums[1] += x[id.x].y;
        sums[2] -= x[id.x].x;
    }
    """
    x = numbers(512).reshape(256, 2).copy()
    outcome = run(text, {"sums": np.zeros(3, F), "x": x}, 256)
    assert outcome.waited
    assert outcome.arrays["sums"].tolist() == [x[:, 0].sum(), x[:, 1].sum(), -x[:, 0].sum()]


def test_each_row_of_threads_has_a_sum():
    text = """
    [shader("compute")] [numthreads(32, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* sums)
    {
        InterlockedAdd(sums[id.y], x[id.y * 96 + id.x]);
    }
    """
    x = numbers(96 * 10)
    for lanes in LANES:
        outcome = run(text, {"x": x, "sums": np.zeros(10, F)}, (96, 10, 1), lanes)
        assert outcome.waited
        assert outcome.arrays["sums"].tolist() == x.reshape(10, 96).sum(1).tolist()


@pytest.mark.parametrize("stride", ["256", "s"])
def test_threads_that_take_turns(stride):
    text = """
    [shader("compute")] [numthreads(64, 1, 1)]
    void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* total, uniform uint n,
        uniform uint s)
    {
        for (uint i = id.x; i < n; i += 256)
            InterlockedAdd(total[0], x[i]);
    }
    """
    for size in (0, 1, 255, 1000):
        arguments = {"x": numbers(size + 1), "total": np.zeros(1, F), "n": size}
        outcome = run(text.replace("256", stride), arguments | {"s": 256}, 256)
        assert outcome.waited
        assert outcome.arrays["total"][0] == arguments["x"][:size].sum()


PLACES = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* sums, uniform int stride, uniform int limit,
    uniform uint n)
{
    if (id.x >= n)
        return;
    float v[6] = {x[id.x], 1, 2, x[id.x] * 2, 3, -x[id.x]};
    for (int k = 0; k < 6; k++)
        if (k * stride < limit)
            InterlockedAdd(sums[k * stride], v[k]);
}
"""


@pytest.mark.parametrize("lanes", (1, 4, 8, 16))
@pytest.mark.parametrize("stride, limit", ((7, 100), (0, 1), (1, 4), (40, 41)))
def test_places_that_the_launch_knows(stride, limit, lanes):
    arguments = {"x": numbers(3000), "sums": numbers(50, 2), "stride": stride, "limit": limit, "n": 3000}
    outcome = run(PLACES, arguments, 3008, lanes)
    assert outcome.waited and "count=6" in compiled(PLACES, lanes=lanes).text("delayed")
    assert outcome.arrays["sums"].tolist() == oracle(PLACES, arguments, 3008).arrays["sums"].tolist()


def test_sums_at_places_are_the_same_for_any_number_of_threads():
    arguments = {"x": parts(50_000), "sums": np.zeros(50, F), "stride": 9, "limit": 50, "n": 50_000}
    results = {run(PLACES, arguments, 50_048, 16, each).arrays["sums"].tobytes() for each in (1, 2, 3)}
    assert len(results) == 1


NEIGHBORS = """
[shader("compute")] [numthreads(64, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float* a, uniform float* b, uniform float* c,
    uniform uint n)
{
    if (id.x >= n)
        return;
    InterlockedAdd(a[id.x], x[id.x]);
    InterlockedAdd(b[id.x], 2 * x[id.x]);
    InterlockedAdd(c[id.x / 2], 3 * x[id.x]);
}
"""


def neighbors(x, first, second, third):
    memory = numbers(9000, 2)
    places = {name: memory[at:] for name, at in zip("abc", (first, second, third), strict=True)}
    return {"x": x, **places, "n": x.size}


@pytest.mark.parametrize("lanes", (1, 4, 8, 16))
@pytest.mark.parametrize(
    "places",
    ((0, 1, 2), (5, 3, 0), (0, 0, 0), (0, 4500, 2000), (4500, 0, 6000), (0, 3000, 6000), (0, 6000, 2990)),
)
def test_memory_that_overlaps(places, lanes):
    arguments = neighbors(numbers(3000), *places)
    outcome = run(NEIGHBORS, arguments, 3008, lanes)
    expected = oracle(NEIGHBORS, arguments, 3008).arrays
    assert outcome.waited
    assert all(outcome.arrays[name].tolist() == expected[name].tolist() for name in "abc")


def test_sums_in_memory_that_overlaps_are_the_same_for_any_number_of_threads():
    arguments = neighbors(parts(4000), 1, 0, 2)
    results = {run(NEIGHBORS, arguments, 4032, 16, each).arrays["b"].tobytes() for each in (1, 2, 3)}
    assert len(results) == 1
