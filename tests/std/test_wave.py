"""Waves in kernels, compiled and interpreted, against NumPy."""

import numpy as np
import pytest

import slangrad as spy

COUNT, LIMIT = 150, 141  # the last waves are not full


def kernel_of(device, body, element, group="64, 1, 1", result=None):
    text = f"""
        [shader("compute")] [numthreads({group})]
        void main(uint3 id : SV_DispatchThreadID, uniform {element}* x, uniform {result or element}* y, uniform uint n)
        {{
            uint i = id.x;
            if (i >= n) return;
            {body}
        }}
    """
    module = device.load_module_from_source(f"wave_{abs(hash(text))}", text)
    return device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))


def run(device, body, x, element, result=None, group="64, 1, 1", dtype=None):
    """What `body` leaves in y, for the threads below the limit."""
    y = device.create_buffer(data=np.zeros(len(x), dtype or x.dtype))
    kernel = kernel_of(device, body, element, group, result)
    kernel.dispatch([len(x), 1, 1], x=device.create_buffer(data=x), y=y, n=LIMIT)
    return y.to_numpy().view(dtype or x.dtype)[:LIMIT]


def waves(x):
    """The values of each wave, each with its threads."""
    return [(x[i : min(i + 32, LIMIT)], slice(i, min(i + 32, LIMIT))) for i in range(0, LIMIT, 32)]


def in_order(values, combine, neutral):
    """Lane i with lane i + n / 2, until there is one."""
    padded = np.full(32, neutral, values.dtype)
    padded[: len(values)] = values
    while len(padded) > 1:
        padded = combine(padded[: len(padded) // 2], padded[len(padded) // 2 :])
    return padded[0]


COMBINED = {
    "WaveActiveSum": (np.add, 0),
    "WaveActiveProduct": (np.multiply, 1),
    "WaveActiveMin": (np.fmin, None),
    "WaveActiveMax": (np.fmax, None),
}
TYPES = {
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "uint": np.uint32,
    "int64_t": np.int64,
    "uint16_t": np.uint16,
}


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", COMBINED)
def test_combinations(device, name, element):
    dtype, (combine, neutral) = TYPES[element], COMBINED[name]
    rng = np.random.default_rng(len(name))
    numbers = rng.uniform(0.5, 1.5, COUNT) if np.dtype(dtype).kind == "f" else rng.integers(1, 9, COUNT)
    x = numbers.astype(dtype)
    found = run(device, f"y[i] = {name}(x[i]);", x, element)
    for values, threads in waves(x):
        with np.errstate(over="ignore"):
            expected = in_order(values, combine, values[0] if neutral is None else neutral)
        assert (found[threads] == expected).all(), (element, found[threads][0], expected)


@pytest.mark.parametrize("name", ["WaveActiveBitAnd", "WaveActiveBitOr", "WaveActiveBitXor"])
def test_bits(device, name):
    combine = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}[name[13:]]
    x = np.random.default_rng(1).integers(0, 1 << 32, COUNT, dtype=np.uint32)
    found = run(device, f"y[i] = {name}(x[i]);", x, "uint")
    for values, threads in waves(x):
        assert (found[threads] == combine.reduce(values)).all()


def test_scans(device):
    x = np.random.default_rng(2).uniform(0.5, 1.5, COUNT).astype(np.float16)
    found = run(device, "y[i] = WavePrefixSum(x[i]);", x, "half")
    products = run(device, "y[i] = WavePrefixProduct(x[i]);", x, "half")
    for values, threads in waves(x):
        for results, combine, first in ((found, np.add, 0), (products, np.multiply, 1)):
            before = np.float16(first)
            for value, result in zip(values, results[threads], strict=True):
                assert result == before
                before = combine(before, value)


def test_votes_and_values_of_other_lanes_in_an_arm(device):
    x = np.random.default_rng(3).uniform(-1, 1, COUNT).astype(np.float32)
    body = """
        if (x[i] < 0) return;
        uint ballot = WaveActiveBallot(x[i] > 0.5).x;
        uint first = WaveReadLaneFirst(i);
        uint at = WaveReadLaneAt(i, int(i % 40) - 3);
        uint before = WavePrefixCountBits(true);
        y[4 * i] = ballot;
        y[4 * i + 1] = first;
        y[4 * i + 2] = at;
        y[4 * i + 3] = before + 100 * WaveActiveCountBits(true) + (WaveIsFirstLane() ? 10000 : 0);
    """
    y = device.create_buffer(data=np.zeros((COUNT, 4), np.uint32))
    kernel_of(device, body, "float", result="uint").dispatch(
        [COUNT, 1, 1], x=device.create_buffer(data=x), y=y, n=LIMIT
    )
    found = y.to_numpy().view(np.uint32).reshape(COUNT, 4)
    for values, threads in waves(x):
        on = [lane for lane, value in enumerate(values) if value >= 0]
        for lane, row in enumerate(found[threads]):
            i = threads.start + lane
            read = i % 40 - 3
            expected = (
                sum(1 << k for k in on if values[k] > 0.5),
                threads.start + on[0],
                threads.start + read if read in on else 0,
                on.index(lane) + 100 * len(on) + 10000 * (lane == on[0]) if lane in on else 0,
            )
            assert tuple(row) == (expected if lane in on else (0, 0, 0, 0))
    assert not found[LIMIT:].any()


def test_a_loop_that_threads_leave_one_after_the_other(device):
    x = np.random.default_rng(4).integers(0, 9, COUNT).astype(np.int32)
    body = """
        int total = 0;
        for (int k = 0; ; k++)
        {
            if (k >= x[i]) break;
            total += k * WaveActiveSum(x[i]) - int(WaveActiveCountBits(k % 2 == 0));
        }
        y[i] = total;
    """
    found = run(device, body, x, "int")
    for values, threads in waves(x):
        for value, result in zip(values, found[threads], strict=True):
            live = [values[values > k] for k in range(value)]
            assert result == sum(k * v.sum() - (len(v) if k % 2 == 0 else 0) for k, v in enumerate(live))


def test_vectors_matrices_and_structs(device):
    body = """
        float3 v = WaveActiveSum(float3(1, x[i], 2));
        float2x2 m = WaveActiveMax(float2x2(x[i], 0, -x[i], 5));
        float3 w = WaveReadLaneAt(float3(x[i], i, 7), 2);
        y[i] = v.x + 100 * m[1][1] + w.z * 1000 + (WaveActiveAllEqual(w) ? 0.5 : 0) + (m[0][0] >= -m[1][0] ? 0.25 : 0);
    """
    found = run(device, body, np.linspace(0, 1, COUNT).astype(np.float32), "float")
    for values, threads in waves(found):
        assert (values == len(values) + 500 + 7000 + 0.75).all(), threads


@pytest.mark.parametrize(
    ("group", "size"), [("32, 1, 1", 32), ("96, 2, 1", 32), ("8, 1, 1", 8), ("1, 1, 1", 1)]
)
def test_a_group_that_is_smaller_is_a_wave(device, group, size):
    x = np.arange(COUNT, dtype=np.uint32)
    body = """
        y[i] = WaveActiveCountBits(true) + 100 * WaveGetLaneIndex() + 10000 * WaveActiveMax(x[i])
            + (WaveIsFirstLane() ? 100000000 : 0) + WavePrefixSum(1u) + WaveReadLaneAt(7u, 0);
    """
    found = run(device, body, x, "uint", group=group)
    for i, result in enumerate(found):
        lane, start = i % size, i - i % size
        count = min(start + size, LIMIT) - start
        expected = count + 100 * lane + 10000 * (start + count - 1) + 100000000 * (lane == 0) + lane + 7
        assert result == expected


IN_GROUPS = """
[shader("compute")] [numthreads(GX, GY, GZ)]
void main(uint3 id : SV_DispatchThreadID, uniform uint3 grid, uniform float* x, uniform uint4* y, uniform float2* z)
{
    if (any(id >= grid))
        return;
    uint i = (id.z * grid.y + id.y) * grid.x + id.x;
    y[i] = uint4(WaveGetLaneIndex(), WaveGetWaveIndex(), WaveActiveCountBits(true), WaveGetNumWaves());
    if (x[i] < 0)
        return;
    z[i] = float2(WaveActiveSum(x[i]), WavePrefixMax(x[i]));
}
"""


@pytest.mark.parametrize("group", [(16, 16, 1), (48, 1, 1), (3, 1, 1), (8, 1, 4), (5, 7, 2)])
def test_waves_of_groups_are_numbered_as_on_gpus(device, group):
    """x runs fastest, then y, then z. Threads outside of the grid leave at once."""
    text = IN_GROUPS
    for name, size in zip(("GX", "GY", "GZ"), group, strict=True):
        text = text.replace(name, str(size))
    module = device.load_module_from_source(f"wave_groups_{group[0]}_{group[1]}_{group[2]}", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    nx, ny, nz = (3 * group[0] - 1, 2 * group[1], group[2] + 1)
    x = np.random.default_rng(7).integers(-4, 9, (nz, ny, nx)).astype(np.float32)
    y = device.create_buffer(data=np.zeros((nz, ny, nx, 4), np.uint32))
    z = device.create_buffer(data=np.zeros((nz, ny, nx, 2), np.float32))
    kernel.dispatch([nx, ny, nz], grid=[nx, ny, nz], x=device.create_buffer(data=x), y=y, z=z)
    numbers, results = y.to_numpy().view(np.uint32), z.to_numpy().view(np.float32)
    numbers, results = numbers.reshape(nz, ny, nx, 4), results.reshape(nz, ny, nx, 2)
    members = {}
    for k, j, i in np.ndindex(nz, ny, nx):
        number = ((k % group[2]) * group[1] + j % group[1]) * group[0] + i % group[0]
        wave = (k // group[2], j // group[1], i // group[0], number // 32)
        members.setdefault(wave, []).append((number % 32, (k, j, i)))
    for (*_, wave), threads in members.items():
        on = sorted((lane, x[place]) for lane, place in threads if x[place] >= 0)
        for lane, place in threads:
            waves = -(-group[0] * group[1] * group[2] // 32)
            assert numbers[place].tolist() == [lane, wave, len(threads), waves]
            before = [value for number, value in on if number < lane]
            expected = [sum(value for _, value in on), max(before, default=-np.inf)]
            assert results[place].tolist() == (expected if x[place] >= 0 else [0, 0])


def test_waves_and_barriers_in_a_group_of_two_dimensions(device):
    """The sum of a tile of 16 x 16: waves first, then their sums in shared memory."""
    text = """
        groupshared float sums[8];
        [shader("compute")] [numthreads(16, 16, 1)]
        void main(uint3 id : SV_DispatchThreadID, uint3 g : SV_GroupID, uint t : SV_GroupIndex, uniform float* x,
            uniform float* y)
        {
            float sum = WaveActiveSum(x[id.y * 48 + id.x]);
            if (WaveIsFirstLane())
                sums[WaveGetWaveIndex()] = sum;
            GroupMemoryBarrierWithGroupSync();
            float total = t < 8 ? sums[t] : 0;
            total = WaveActiveSum(total);
            if (t == 0)
                y[g.y * 3 + g.x] = total;
        }
    """
    module = device.load_module_from_source("wave_tiles", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    x = np.random.default_rng(8).integers(0, 99, (32, 48)).astype(np.float32)
    y = device.create_buffer(data=np.zeros(6, np.float32))
    kernel.dispatch([48, 32, 1], x=device.create_buffer(data=x), y=y)
    tiles = x.reshape(2, 16, 3, 16).sum(axis=(1, 3))
    assert y.to_numpy().view(np.float32).tolist() == tiles.reshape(-1).tolist()


SETS = {  # what a lane gets from the values of its set before it, its own, and those of the whole set
    "WaveMultiSum(x[i], s)": lambda before, own, all: sum(all),
    "WaveMultiProduct(x[i], s)": lambda before, own, all: int(np.prod(all)),
    "WaveMultiMin(x[i], s)": lambda before, own, all: min(all),
    "WaveMaskMax(m, x[i])": lambda before, own, all: max(all),
    "WaveMultiBitAnd(x[i], s)": lambda before, own, all: np.bitwise_and.reduce(all),
    "WaveMaskBitOr(m, x[i])": lambda before, own, all: np.bitwise_or.reduce(all),
    "WaveMaskBitXor(m, int2(0, x[i])).y": lambda before, own, all: np.bitwise_xor.reduce(all),
    "WaveMultiPrefixInclusiveSum(x[i], s)": lambda before, own, all: sum(before) + own,
    "WaveMultiPrefixExclusiveSum(int2x2(0, 0, 0, x[i]), s)[1][1]": lambda before, own, all: sum(before),
    "WaveMaskPrefixProduct(m, x[i])": lambda before, own, all: int(np.prod(before)),
    "WaveMaskPrefixMin(m, x[i])": lambda before, own, all: min(before, default=2**31 - 1),
    "WaveMultiPrefixExclusiveMax(x[i], s)": lambda before, own, all: max(before, default=-(2**31)),
    "WaveMultiPrefixInclusiveMax(int3(x[i]), s).z": lambda before, own, all: max([*before, own]),
    "WaveMultiPrefixInclusiveBitXor(x[i], s)": lambda before, own, all: np.bitwise_xor.reduce([*before, own]),
    "WaveMaskPrefixBitAnd(m, x[i])": lambda before, own, all: np.bitwise_and.reduce([*before, -1]),
    "WaveMaskReadLaneFirst(m, x[i])": lambda before, own, all: all[0],
    "int(WaveMaskPrefixCountBits(m, x[i] > 3))": lambda before, own, all: sum(v > 3 for v in before),
    "int(WaveMultiBitXor(x[i] > 3, s))": lambda before, own, all: sum(v > 3 for v in all) % 2,
    "int(WaveMaskAllTrue(m, x[i] > 1))": lambda before, own, all: min(all) > 1,
    "int(WaveMaskAnyTrue(m, x[i] > 6))": lambda before, own, all: max(all) > 6,
}


def test_sets_of_lanes(device):
    """Sets are the lanes with the same remainder by 3; all functions in one kernel, in an arm that some lanes take."""
    x = np.random.default_rng(9).integers(1, 8, COUNT).astype(np.int32)
    statements = "".join(f"y[{k} * COUNT + i] = {name};" for k, name in enumerate(SETS))
    body = f"if (i % 7 == 0) return; let s = WaveMatch(i % 3); WaveMask m = s.x; {statements}"
    y = device.create_buffer(data=np.zeros((len(SETS), COUNT), np.int32))
    kernel = kernel_of(device, body.replace("COUNT", str(COUNT)), "int")
    kernel.dispatch([COUNT, 1, 1], x=device.create_buffer(data=x), y=y, n=LIMIT)
    results = y.to_numpy().view(np.int32).reshape(len(SETS), COUNT)
    for i in range(LIMIT):
        wave = range(i - i % 32, min(i - i % 32 + 32, LIMIT))
        of_set = [j for j in wave if j % 7 and j % 3 == i % 3]
        values, before = [int(x[j]) for j in of_set], [int(x[j]) for j in of_set if j < i]
        for (name, expected), result in zip(SETS.items(), results[:, i].tolist(), strict=True):
            wanted = int(np.int64(int(expected(before, int(x[i]), values))).astype(np.int32))
            assert result == (wanted if i % 7 else 0), (name, i)


def test_functions_that_are_called_over_arrays(device):
    text = "float share(float x) { return x / WaveActiveSum(x); }"
    module = spy.Module.load_from_source(device, "wave_calls", text)
    shares = module.share(np.arange(1, 65, dtype=np.float32), _result="numpy")
    np.testing.assert_allclose(shares.reshape(2, 32).sum(axis=1), 1, rtol=1e-6)
    assert shares[31] == np.float32(32 / 528)


GRADIENT = """
[Differentiable]
float share(float x, no_diff float k)
{
    float r = x;
    for (int i = 0; i < 3; i++)
        r = r * x + k / no_diff WaveActiveSum(r);
    return r;
}

[shader("compute")] [numthreads(32, 1, 1)]
void main(uint i : SV_DispatchThreadID, uniform float* x, uniform float* y, uniform uint n)
{
    if (i >= n) return;
    var pair = diffPair(x[i]);
    bwd_diff(share)(pair, 2.0, 1.0);
    y[i] = pair.d;
    y[i + n] = fwd_diff(share)(diffPair(x[i], 1.0), 2.0).d;
}
"""


def test_derivatives_keep_what_waves_gave(device):
    """Backward, each sum is that of the iteration; no derivative passes through it."""
    module = device.load_module_from_source("wave_gradient", GRADIENT)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    x = np.random.default_rng(6).uniform(0.5, 1, COUNT).astype(np.float32)
    y = device.create_buffer(data=np.zeros(2 * LIMIT, np.float32))
    kernel.dispatch([COUNT, 1, 1], x=device.create_buffer(data=x), y=y, n=LIMIT)
    backward, forward = y.to_numpy().view(np.float32).reshape(2, LIMIT)
    for values, threads in waves(x.astype(np.float64)):
        r, d = values, np.ones_like(values)
        for _ in range(3):
            r, d = r * values + 2 / r.sum(), d * values + r
        np.testing.assert_allclose(backward[threads], d, rtol=1e-5)
        np.testing.assert_allclose(forward[threads], d, rtol=1e-5)
