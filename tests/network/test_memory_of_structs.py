"""A network whose layers stand in memory and point to their numbers: half, gradients by atomics of all threads, the wave.

`Room` holds speakers, a speaker turns N signals into M: soft(gain · signals + offset). NumPy computes the same in float64.
"""

from functools import cache

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
public typealias Real = half;

public struct Signals<int N> : IDifferentiable
{
    public Real levels[N];

    [Differentiable] public static Signals<N> of(Real[N] levels) { return { levels }; }
    [Differentiable] public Real[N] array() { return levels; }
}

Signals<M> amplified<int M, int N>(Signals<N> x, Real* gains, Real* offsets)
{
    Signals<M> y;
    for (int m = 0; m < M; m++)
    {
        y.levels[m] = offsets[m];
        for (int n = 0; n < N; n++)
            y.levels[m] += *(gains + m * N + n) * x.levels[n];
    }
    return y;
}

Signals<N> pulledBack<int N, int M>(Signals<M> dy, Real* gains)
{
    Signals<N> dx = {};
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++)
            dx.levels[n] += gains[m * N + n] * dy.levels[m];
    return dx;
}

public struct Speaker<int N, int M>
{
    public Real* gains;
    public Real* gainSums;
    public Real* offsets;
    public Real* offsetSums;

    public Signals<M> play(Signals<N> x)
    {
        var y = amplified<M>(x, gains, offsets);
        for (int m = 0; m < M; m++)
            y.levels[m] *= y.levels[m] < 0.0 ? 0.25h : 1.0h;
        return y;
    }

    [BackwardDerivativeOf(play)]
    public void rewind(inout DifferentialPair<Signals<N>> x, Signals<M> dy)
    {
        let y = play(x.p);
        Real before;
        for (int m = 0; m < M; m++)
        {
            if (y.levels[m] < 0.0)
                dy.levels[m] *= 0.25h;
            InterlockedAddF16Emulated(offsetSums + m, dy.levels[m], before);
            for (int n = 0; n < N; n++)
                InterlockedAddF16Emulated(&gainSums[m * N + n], dy.levels[m] * x.p.levels[n], before);
        }
        x = { x.p, pulledBack<N>(dy, gains) };
    }
}

public struct Room
{
    public Speaker<2, 3> front;
    public Speaker<3, 2> back;

    [Differentiable] internal Signals<2> through(Real a, Real b) { return back.play(front.play(Signals<2>.of({ a, b }))); }

    [Differentiable] public vector<Real, 2> heard(no_diff Real a, no_diff Real b)
    {
        let y = through(a, b).array();
        return { y[0], y[1] };
    }
}

[Differentiable]
public Real noise(Room* room, no_diff Real a, no_diff Real b)
{
    let wanted = no_diff half2(0.5 * a, b - 1);
    let rest = room->heard(a, b) - wanted;
    return dot(rest, rest);
}

[shader("compute")] [numthreads(64, 1, 1)]
void measure(uint32_t id : SV_DispatchThreadID, uniform Room* room, uniform Atomic<uint32_t>* loudest, uniform float2* places, uniform uint32_t size)
{
    if (id >= size) return;
    var place = (half2)places[id];
    bwd_diff(noise)(room, place.x, place.y, 1.0h);
    let most = WaveActiveMax((float)noise(room, place.x, place.y));
    if (WaveIsFirstLane())
        loudest.max(bit_cast<uint32_t>(most));
}

public struct Knob
{
    public static const Real turn = 0.0625h;
    public static void adjust(inout Real gain, inout Real sum) { gain = gain - sum * turn; sum = 0.f; }
}

[shader("compute")] [numthreads(64, 1, 1)]
void tune(uint32_t id : SV_DispatchThreadID, uniform Real* gains, uniform Real* sums, uniform uint32_t size)
{
    if (id < size) Knob::adjust(gains[id], sums[id]);
}
"""

SHAPES = ((3, 2), (3,), (2, 3), (2,))  # gains and offsets of both speakers
ENDS = np.cumsum([np.prod(shape) for shape in SHAPES])


@cache
def kernels(backend):
    device = spy.create_device(backend=backend)
    module = device.load_module_from_source("room", SOURCE)
    link = lambda name: device.link_program([module], [module.entry_point(name)])
    return device, *(device.create_compute_kernel(link(name)) for name in ("measure", "tune"))


def parts(numbers):
    return [part.reshape(shape) for part, shape in zip(np.split(numbers, ENDS[:-1]), SHAPES, strict=True)]


def expected(numbers, places):
    """The noise at each place, and the gradient of its sum."""
    a, a0, b, b0 = parts(numbers.astype(np.float64))
    x = places.astype(np.float16).astype(np.float64)
    z = x @ a.T + a0
    front_slope = np.where(z < 0, 0.25, 1)
    y = (z * front_slope) @ b.T + b0
    back_slope = np.where(y < 0, 0.25, 1)
    rest = y * back_slope - np.stack([0.5 * x[:, 0], x[:, 1] - 1], axis=1)
    dy = 2 * rest * back_slope
    dz = dy @ b * front_slope
    gradients = [dz.T @ x, dz.sum(axis=0), dy.T @ (z * front_slope), dy.sum(axis=0)]
    return (rest**2).sum(axis=1), np.concatenate([each.ravel() for each in gradients])


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize("count", [1, 5, 70])
def test_gradients_and_the_largest_value_of_a_network_in_memory(backend, count):
    device, measure, tune = kernels(backend)
    random = np.random.default_rng(count)
    first = random.uniform(-1, 1, ENDS[-1]).astype(np.float16)
    places = random.uniform(-1, 1, (count, 2)).astype(np.float32)
    numbers, sums = device.create_buffer(data=first), device.create_buffer(data=np.zeros_like(first))
    starts = 2 * np.array([0, *ENDS[:-1]])
    fields = [each.device_address + int(start) for start in starts for each in (numbers, sums)]
    room = device.create_buffer(data=np.array(fields, np.uint64))
    loudest = device.create_buffer(data=np.zeros(1, np.uint32))

    at = device.create_buffer(data=places)
    measure.dispatch([count, 1, 1], room=room, loudest=loudest, places=at, size=count)
    noise, gradients = expected(first, places)
    assert loudest.to_numpy().view(np.float32)[0] == pytest.approx(noise.max(), rel=0.02)
    found = sums.to_numpy().view(np.float16)
    np.testing.assert_allclose(found, gradients, atol=0.01 * np.abs(gradients).max())

    tune.dispatch([len(first), 1, 1], gains=numbers, sums=sums, size=len(first))
    assert (numbers.to_numpy().view(np.float16) == first - found * np.float16(0.0625)).all()
    assert not sums.to_numpy().any()
