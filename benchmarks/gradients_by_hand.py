"""Functions that call `bwd_diff` themselves and add to an AtomicTensor, beside `bwds` of the same.

    PYTHONPATH=. python benchmarks/gradients_by_hand.py [rounds]

CPU time of one thread in ms, the least of all rounds; both are timed in turn. 2^20 calls each.
"""

import sys
import time

import numpy as np

import slangrad as spy


def weighted(count):
    """A loss with so many weights."""
    return f"""
[Differentiable] float loss{count}(float x, float w[{count}])
{{
    float sum = 0;
    for (int k = 0; k < {count}; k++)
        sum += w[k] * sin(k * x);
    return sum * sum;
}}
void loss{count}ByHand(int i, Tensor<float, 1> x, Tensor<float, 1> w, AtomicTensor<float, 1> g)
{{
    float v[{count}];
    for (int k = 0; k < {count}; k++)
        v[k] = w[k];
    var pair = diffPair(v);
    var at = diffPair(x[i]);
    bwd_diff(loss{count})(at, pair, 1.0);
    for (int k = 0; k < {count}; k++)
        g.add(k, pair.d[k]);
}}
"""


SOURCE = """
[Differentiable] float wave(float x) { return x * x * sin(x); }
[Differentiable] float slope(float a, float b) { return (a - b) * (a - b) * a; }
[Differentiable] float affine(float x, float3x3 m)
{
    float3 y = mul(m, float3(x, x * x, 1));
    return dot(y, y);
}
struct Net : IDifferentiable { float w[16]; float3 b; }
[Differentiable] float net(float x, Net n)
{
    float sum = 0;
    for (int k = 0; k < 16; k++)
        sum += n.w[k] * sin(k * x);
    return sum * sum + dot(n.b, float3(x, x, x));
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
void affineByHand(int i, Tensor<float, 1> x, Tensor<float, 2> m, AtomicTensor<float, 2> g)
{
    float3x3 v;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            v[r][c] = m[r, c];
    var pair = diffPair(v);
    var at = diffPair(x[i]);
    bwd_diff(affine)(at, pair, 1.0);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++)
            g.add(int2(c, r), pair.d[r][c]);
}
void netByHand(int i, Tensor<float, 1> x, Tensor<float, 1> w, AtomicTensor<float, 1> g)
{
    Net v;
    for (int k = 0; k < 16; k++)
        v.w[k] = w[k];
    for (int k = 0; k < 3; k++)
        v.b[k] = w[16 + k];
    var pair = diffPair(v);
    var at = diffPair(x[i]);
    bwd_diff(net)(at, pair, 1.0);
    for (int k = 0; k < 16; k++)
        g.add(k, pair.d.w[k]);
    for (int k = 0; k < 3; k++)
        g.add(16 + k, pair.d.b[k]);
}
"""

COUNT, SIDE = 1 << 20, 1 << 10
device = spy.create_device(options=spy.Options(threads=1))
module = spy.Module.load_from_source(device, "by_hand", SOURCE + "".join(map(weighted, (4, 16, 64))))
random = np.random.default_rng(0)


def tensor(*shape, dtype=None):
    return spy.Tensor.from_numpy(
        device, random.normal(size=shape).astype(np.float32), dtype=dtype
    ).with_grads()


x, image, line = tensor(COUNT), tensor(SIDE, SIDE), tensor(COUNT + 1)
weights = {count: tensor(count) for count in (4, 16, 19, 64)}
flat, matrix, bias = tensor(3, 3), tensor(1, 3, 3, dtype="float3x3"), tensor(1, 3, dtype="float3")
grid, constant = spy.grid((COUNT,)), x.detach()


def of_weights(count):
    w = weights[count]
    by_hand = getattr(module, f"loss{count}ByHand")
    return lambda: getattr(module, f"loss{count}").bwds(constant, w), lambda: by_hand(grid, x, w, w.grad)


CASES = {
    "one element": (lambda: module.wave.bwds(x), lambda: module.waveByHand(grid, x, x.grad)),
    "one pixel": (
        lambda: module.wave.bwds(image),
        lambda: module.imageByHand(spy.grid((SIDE, SIDE)), image, image.grad),
    ),
    "two neighbors": (
        lambda: module.slope.bwds(line[:-1], line[1:]),
        lambda: module.slopeByHand(grid, line, line.grad),
    ),
    "4 weights": of_weights(4),
    "16 weights": of_weights(16),
    "64 weights": of_weights(64),
    "a matrix": (
        lambda: module.affine.bwds(constant, matrix),
        lambda: module.affineByHand(grid, x, flat, flat.grad),
    ),
    "a struct": (
        lambda: module.net.bwds(constant, {"w": weights[16], "b": bias[0]}),
        lambda: module.netByHand(grid, x, weights[19], weights[19].grad),
    ),
}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print("| gradient of | `bwds` | by hand | ratio |\n| --- | --- | --- | --- |")
    for name, calls in CASES.items():
        best = [float("inf")] * 2
        for call in calls:
            call()
        for _ in range(rounds):
            for i, call in enumerate(calls):
                start = time.process_time()
                call()
                best[i] = min(best[i], (time.process_time() - start) * 1e3)
        print(f"| {name} | {best[0]:.2f} ms | {best[1]:.2f} ms | {best[1] / best[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
