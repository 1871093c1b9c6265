"""Which values a reverse sweep stores: a minimum cut, against all that it needs and against a fixed rule.

    PYTHONPATH=. python benchmarks/residuals.py [rounds]

All are timed in turn, on one CPU, and each of them thrice, as it matters where a tensor lies. Times are CPU
times, the least of all, ratios are to the cut. Bytes are those that one thread stores.
"""

import sys

import numpy as np
from long_loops import timed

import slangrad as spy
from slangrad.base.options import RESIDUALS

SOURCE = """
// Four neurons that see themselves, 32 times: each value of a step is expensive.
[Differentiable]
float network(float4 x, float4 k)
{
    float4 h = x;
    for (int i = 0; i < 32; i++)
    {
        float4 sum = k.x * h + k.y * h.yzwx + k.z * h.zwxy + k.w * h.wxyz + x;
        h = tanh(sum) * exp(-0.1 * h * h);
    }
    return dot(h, h);
}

// Two coupled oscillators, 64 steps: the values of a step are cheap, and many.
[Differentiable]
float oscillators(float4 x, float4 k)
{
    float2 q = x.xy;
    float2 v = x.zw;
    for (int i = 0; i < 64; i++)
    {
        float d = q.x - q.y;
        float spring = k.x * d + k.y * d * d * d;
        float drag = k.z * (v.x * v.x + v.y * v.y);
        float2 force = float2(-spring, spring) - k.w * q * (1 + q * q) - drag * v;
        v = v + 0.01 * force;
        q = q + 0.01 * v;
    }
    return q.x * q.y;
}

// A long expression for each of 16 lights: cheap and expensive values, one made of the other.
[Differentiable]
float shading(float4 x, float4 k)
{
    float sum = 0;
    for (int i = 0; i < 16; i++)
    {
        float3 light = float3(0.1 * i - 0.8, 1.0, 0.5 - 0.05 * i);
        float3 to = light - x.xyz;
        float square = dot(to, to);
        float3 l = to / sqrt(square);
        float3 half = l + float3(0, 0, 1);
        float3 h = half / sqrt(dot(half, half));
        float wide = k.x * k.x;
        float depth = h.z * h.z * (wide - 1) + 1;
        float spread = wide / (3.14159 * depth * depth);
        float edge = 1 - dot(h, l);
        float fresnel = k.y + (1 - k.y) * edge * edge * edge * edge * edge;
        float dim = exp(-k.z * square) / (1 + square);
        sum += (x.w + spread * fresnel * k.w) * l.z * dim;
    }
    return sum;
}

// A particle in a field that is read from a table, 32 steps: what was read from memory cannot be read again.
[Differentiable]
float particle(float4 x, float4 k, no_diff Tensor<float, 1> field)
{
    float q = x.x;
    float v = x.y;
    for (int i = 0; i < 32; i++)
    {
        float at = 60 * abs(sin(k.x * q));
        int cell = int(detach(at));
        float t = at - float(cell);
        float a = field[cell];
        float b = field[cell + 1];
        float c = field[cell + 2];
        float d = field[cell + 3];
        float force = 0.5 * ((2 * b) + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t
                             + (3 * b - a - 3 * c + d) * t * t * t);
        v = v + 0.01 * (force - k.y * v);
        q = q + 0.01 * v;
    }
    return q * q;
}
"""
PROGRAMS = ("network", "oscillators", "shading", "particle")
SIZE = 1 << 12


def prepared(residuals, name):
    device = spy.create_device(options=spy.Options(residuals=residuals, threads=1))
    module = spy.Module.load_from_source(device, "residuals", SOURCE)
    rng = np.random.default_rng(1)
    low, high = np.full((2, SIZE, 4), 0.1, np.float32), np.full((2, SIZE, 4), 0.9, np.float32)
    x, k = (
        spy.Tensor.from_numpy(device, value, dtype=module.float4).with_grads()
        for value in rng.uniform(low, high).astype(np.float32)
    )
    out = spy.Tensor.empty(device, (SIZE,), spy.float32).with_grads()
    out.grad.copy_from_numpy(np.ones(SIZE, np.float32))
    f = getattr(module, name)
    table = spy.Tensor.from_numpy(device, np.cos(np.arange(64, dtype=np.float32)))
    arguments = (x, k, table) if name == "particle" else (x, k)

    def run():
        f.bwds(*arguments, _result=out)

    run()
    gradients = np.concatenate([x.grad.to_numpy().ravel(), k.grad.to_numpy().ravel()])
    return run, gradients, device.explain(f.bwds, *arguments, _result=out).bytes_a_thread


def main(rounds=15):
    print("| program | what is stored | bytes | time | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for name in PROGRAMS:
        runs = [[prepared(residuals, name) for residuals in RESIDUALS] for _ in range(3)]
        for _, gradients, _ in runs[0][1:]:
            np.testing.assert_allclose(gradients, runs[0][0][1], rtol=2e-3, atol=1e-5)
        times = np.array([[[timed(run) for run, *_ in row] for row in runs] for _ in range(rounds)])
        least = 1e6 * times.min((0, 1))
        for residuals, (_, _, size), time in zip(RESIDUALS, runs[0], least, strict=True):
            print(f"| {name} | {residuals} | {size} | {time:.0f} us | {time / least[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
