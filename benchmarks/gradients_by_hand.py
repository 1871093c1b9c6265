"""Functions that call `bwd_diff` themselves and add to an AtomicTensor, beside `bwds` of the same: milliseconds.

    PYTHONPATH=. python benchmarks/gradients_by_hand.py [rounds]

All are timed in turn; the best of the rounds is shown.
"""

import sys
import time

import numpy as np

import slangrad as spy

SOURCE = """
[Differentiable] float wave(float x) { return x * x * sin(x); }
[Differentiable] float slope(float a, float b) { return (a - b) * (a - b) * a; }
[Differentiable] float loss(float x, float w[16])
{
    float sum = 0;
    for (int k = 0; k < 16; k++)
        sum += w[k] * sin(k * x);
    return sum * sum;
}

void waveByHand(int i, Tensor<float, 1> x, AtomicTensor<float, 1> g)
{
    var a = diffPair(x[i]);
    bwd_diff(wave)(a, 1.0);
    g.add(i, a.d);
}
void imageByHand(int2 at, Tensor<float, 2> x, AtomicTensor<float, 2> g)
{
    var a = diffPair(x[at]);
    bwd_diff(wave)(a, 1.0);
    g.add(at, a.d);
}
void slopeByHand(int i, Tensor<float, 1> x, AtomicTensor<float, 1> g)
{
    var a = diffPair(x[i]);
    var b = diffPair(x[i + 1]);
    bwd_diff(slope)(a, b, 1.0);
    g.add(i, a.d);
    g.add(i + 1, b.d);
}
void lossByHand(int i, Tensor<float, 1> x, Tensor<float, 1> w, AtomicTensor<float, 1> g)
{
    float v[16];
    for (int k = 0; k < 16; k++)
        v[k] = w[k];
    var pair = diffPair(v);
    var at = diffPair(x[i]);
    bwd_diff(loss)(at, pair, 1.0);
    for (int k = 0; k < 16; k++)
        g.add(k, pair.d[k]);
}
"""

COUNT = 1 << 20
device = spy.create_device()
module = spy.Module.load_from_source(device, "by_hand", SOURCE)
random = np.random.default_rng(0)


def tensor(*shape):
    return spy.Tensor.from_numpy(device, random.normal(size=shape).astype(np.float32)).with_grads()


x, image, line, w = tensor(COUNT), tensor(1024, 1024), tensor(COUNT + 1), tensor(16)
grid = spy.grid((COUNT,))

CASES = {
    "one element": (lambda: module.wave.bwds(x), lambda: module.waveByHand(grid, x, x.grad)),
    "one pixel": (
        lambda: module.wave.bwds(image),
        lambda: module.imageByHand(spy.grid((1024, 1024)), image, image.grad),
    ),
    "16 weights": (lambda: module.loss.bwds(x.detach(), w), lambda: module.lossByHand(grid, x, w, w.grad)),
    "two neighbors": (
        lambda: module.slope.bwds(line[:-1], line[1:]),
        lambda: module.slopeByHand(grid, line, line.grad),
    ),
}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    best = {(name, i): float("inf") for name in CASES for i in (0, 1)}
    for _ in range(rounds + 1):
        for name, i in best:
            start = time.perf_counter()
            CASES[name][i]()
            best[name, i] = min(best[name, i], (time.perf_counter() - start) * 1e3)
    for name in CASES:
        print(f"{name:14s} bwds {best[name, 0]:7.2f}   by hand {best[name, 1]:7.2f}")


if __name__ == "__main__":
    main()
