"""slangrad on its CUDA device, for a runner that times systems on a GPU: one Slang function a workload.

    CASES["W1.fwd"]["func"](inputs)  ->  run, outputs      `run()` starts one call, `outputs()` are arrays by name

`func` calls the function as a user would, `bound` has its arguments bound once, `graph` is a function of arrays. The
runner's module `work` has sizes and constants. W7a and W7b are in half: graphs have no bfloat16.
"""

import gc
import sys
from functools import partial
from pathlib import Path

import numpy as np
import work

import slangrad as spy
from slangrad import graph

sys.path.append(str(Path(__file__).resolve().parent))
from slang_functions import FOLDERS, Parameters, functions

SOURCE = f"""{functions(work.A, work.B, work.C, 64, 0.1)}
float chain(float a, float b, float c, float d) {{ return d + (a + b) * c; }}

// W6: a gaussian has its mean, the three numbers of its inverse covariance, its color and its opacity.
[Differentiable]
float3 blend(DiffTensor<float, 2> q, no_diff float2 at)
{{
    float3 color = 0;
    float light = 1;
    for (int k = 0; k < {work.G}; k++)
    {{
        let offset = at - float2(q[k, 0], q[k, 1]);
        let squares = q[k, 2] * offset.x * offset.x + q[k, 4] * offset.y * offset.y;
        let alpha = q[k, 8] * exp(-0.5f * squares - q[k, 3] * offset.x * offset.y);
        color += light * alpha * float3(q[k, 5], q[k, 6], q[k, 7]);
        light *= 1 - alpha;
    }}
    return color;
}}

void fit(int pixel, DiffTensor<float, 2> q, Tensor<float, 2> target)
{{
    let at = float2(pixel % {work.SIDE} + 0.5f, pixel / {work.SIDE} + 0.5f);
    let error = blend(q, at) - float3(target[pixel, 0], target[pixel, 1], target[pixel, 2]);
    bwd_diff(blend)(q, at, error * (2.0f / {3 * work.SIDE * work.SIDE}));
}}
"""

device = spy.create_device("cuda", include_paths=FOLDERS, defines={"NUMBER": "float"})
module = spy.Module.load_from_source(device, "gpu_workloads", SOURCE)


def sync():
    device.synchronize()


def cleanup():
    gc.collect()
    device.runtime.memory.trim()


def tensor(array):
    return spy.Tensor.from_numpy(device, array)


def with_gradient(array, gradient):
    """A tensor of the numbers, with this gradient."""
    return tensor(array).with_grads(tensor(gradient))


def bind(function, *arguments, **named):
    return function.bind_call(*arguments, **named)


VARIANTS = {"func": partial, "bound": bind}


def cases(make, *first):
    """A case for each way to call. `make(*first, start, inputs)` gives what a case does."""
    return {variant: partial(make, *first, start) for variant, start in VARIANTS.items()}


def forward(name, start, d):
    x = tensor(d["x"])
    y = spy.Tensor.zeros_like(x)
    return start(module[name], x, _result=y), lambda: {"y": work.sl(y.to_numpy())}


def backward(name, start, d):
    x, y = with_gradient(d["x"], np.zeros_like(d["x"])), with_gradient(np.zeros_like(d["x"]), d["gy"])
    return start(module[name].bwds, x, _result=y), lambda: {"gx": work.sl(x.grad.to_numpy())}


def chain(start, d):
    tensors = [tensor(d[name]) for name in "abcd"]
    e = spy.Tensor.zeros_like(tensors[0])
    return start(module.chain, *tensors, _result=e), lambda: {"e": work.sl(e.to_numpy())}


def lookup(start, d):
    table = with_gradient(d["table"], np.zeros_like(d["table"]))
    y = with_gradient(np.zeros_like(d["w"]), np.ones_like(d["w"]))
    run = start(module.term.bwds, table, tensor(d["idx"]), tensor(d["w"]), _result=y)
    return run, lambda: {"g": table.grad.to_numpy()}


def relaxation(start, d):
    p = with_gradient(d["p"], np.zeros_like(d["p"]))
    x = with_gradient(np.zeros_like(d["p"]), np.ones_like(d["p"]))
    return start(module.relax.bwds, p, _result=x), lambda: {"gp": work.sl(p.grad.to_numpy())}


def training(d):
    """W3: gradients of all samples, then a step of descent, which clears them."""
    learn, descend = (
        device.create_compute_kernel(device.load_program("training.slang", [name]))
        for name in ("learnGradients", "descend")
    )
    w1, b1, w2, b2 = np.split(d["p"], [64, 80, 144])
    parameters = Parameters(device, [(w1.reshape(16, 4), b1), (w2.reshape(4, 16), b2)])
    count, points = len(d["xy"]), device.create_buffer(data=d["xy"])

    def run():
        learn.dispatch([count, 1, 1], parameters=parameters.argument, points=points, samples=count)
        descend.dispatch([parameters.count, 1, 1], parameters=parameters.argument, rate=work.LR / count)

    def outputs():
        layers = parameters.layers_in(parameters.values)
        return {
            "grad": (d["p"] - np.concatenate([part.ravel() for layer in layers for part in layer])) / work.LR
        }

    return run, outputs


def splatting(start, d):
    q, pixels = with_gradient(d["q"], np.zeros_like(d["q"])), work.SIDE * work.SIDE
    fit = start(module.fit, spy.grid((pixels,)), q, tensor(d["target"].reshape(pixels, 3)))

    def run():
        q.grad.clear()
        fit()

    return run, lambda: {"grad": q.grad.to_numpy()}


def traced(f, names, arrays):
    """`f` as a graph of these arrays, which gives those that `names` names."""
    tensors, results = [tensor(array) for array in arrays], []
    compiled = graph.jit(f, device=device)

    def run():
        results[:] = [compiled(*tensors)]

    def outputs():
        (result,) = results
        tuple_of = result if isinstance(result, tuple) else (result,)
        return dict(zip(names, (x.to_numpy().astype(np.float32) for x in tuple_of), strict=True))

    return run, outputs


def layers(x, *weights):
    """W3L, without biases."""
    for weight in weights[:-1]:
        x = np.maximum(x @ weight.T, 0)
    return x @ weights[-1].T


def layers_forward(d):
    run, outputs = traced(layers, ["y"], [d["x"], *d["W"]])
    return run, lambda: {"y": outputs()["y"][:4096]}


def layers_gradient(d):
    def loss(weights, x, gy):
        return (layers(x, *weights) * gy).sum(dtype=np.float32)

    names = [str(i) for i in range(len(d["W"]))]
    gradient = graph.grad(loss)
    run, outputs = traced(lambda x, gy, *weights: gradient(weights, x, gy), names, [d["x"], d["gy"], *d["W"]])
    return run, lambda: {"grad": np.concatenate([part.ravel() for part in outputs().values()])}


def halves(d, names):
    return [d[name].astype(np.float16) for name in names]


def attention(d):
    """W7a: heads between two products, its result and all gradients."""

    def layer(x, wqkv, wo):
        batch, tokens, width = x.shape
        heads = (x @ wqkv).reshape(batch, tokens, 3, work.ATT["H"], -1).transpose(2, 0, 3, 1, 4)
        mixed = graph.attention(heads[0], heads[1], heads[2])
        return mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, width) @ wo

    def loss(x, wqkv, wo, gy):
        y = layer(x, wqkv, wo)
        return (y * gy).sum(dtype=np.float32), y

    def both(*arrays):
        (_, y), gradients = graph.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*arrays)
        return y, *gradients

    run, outputs = traced(both, ["y", "dx", "dwqkv", "dwo"], halves(d, ["x", "wqkv", "wo", "gy"]))
    return run, lambda: {name: outputs()[name][0] for name in ("y", "dx")}


def convolution(d):
    """W7b: the statistics of the normalization are given."""

    def layer(x, w, m, v, g, b):
        y = graph.conv2d(x, w, padding=1)
        m, v, g, b = (part[:, None, None] for part in (m, v, g, b))
        return np.maximum((y - m) * (g / np.sqrt(v + 1e-5)) + b, 0)

    run, outputs = traced(layer, ["y"], halves(d, ["x", "w", "m", "v", "g", "b"]))
    return run, lambda: {"y": outputs()["y"][0]}


CASES = {
    "W1.fwd": cases(forward, "polynomial"),
    "W1.bwd": cases(backward, "polynomial"),
    "W2.fwd": cases(forward, "wave"),
    "W2.bwd": cases(backward, "wave"),
    **{f"W3.{size}": {"raw": training} for size in ("14", "20", "24")},
    **{f"W4.{size}": cases(lookup) for size in ("16", "1k", "1M")},
    "W5": cases(relaxation),
    "W6": cases(splatting),
    "W3L.fwd": {"graph": layers_forward},
    "W3L.grad": {"graph": layers_gradient},
    "W7a": {"half": attention},
    "W7b": {"half": convolution},
    "W7c": cases(chain),
    "W8.fwd": cases(forward, "polynomial"),
    "W8.bwd": cases(backward, "polynomial"),
}
