"""slangrad on its CPU device, written as a user would: one Slang function a workload, called on whole arrays."""

import numpy as np
import workloads as w
from slang_functions import FOLDERS, Parameters, functions

import slangrad as spy

INFO = {"version": spy.__version__}

SOURCE = f"""{functions(w.A, w.B, w.C, w.LOOP_ITERS, w.LOOP_STEP)}
RWStructuredBuffer<Atomic<float>> total;

void gather(DiffTensor<float, 1> table, int index, float weight)
{{
    total[0] += term(table, index, weight);
    bwd_diff(term)(table, index, weight, 1.0);
}}

float escape(float cr, float ci)
{{
    float a = 0, b = 0, r2 = 0;
    int n = 0;
    while (r2 <= 4 && n < {w.MANDEL_ITERS})
    {{
        float next = a * a - b * b + cr;
        b = 2 * a * b + ci;
        a = next;
        r2 = a * a + b * b;
        n++;
    }}
    return r2 > 4 ? n + 1 - log2(0.5 * log2(r2)) : {w.MANDEL_ITERS};
}}

// W6. The falloff ends at exp(-40): below it are subnormal numbers, for which a CPU needs a hundred cycles each.
[Differentiable]
float3 blend(DiffTensor<float, 2> g, no_diff float2 at)
{{
    float3 color = 0;
    float light = 1;
    for (int k = 0; k < {w.NG}; k++)
    {{
        let offset = at - float2(g[0, k], g[1, k]);
        let axis = float2(cos(g[4, k]), sin(g[4, k]));
        let u = dot(axis, offset) / g[2, k];
        let v = (axis.x * offset.y - axis.y * offset.x) / g[3, k];
        let alpha = g[8, k] * exp(max(-0.5 * (u * u + v * v), -40.0));
        color += light * alpha * float3(g[5, k], g[6, k], g[7, k]);
        light *= 1 - alpha;
    }}
    return color;
}}

float squaredError(float3 color, float3 wanted)
{{
    return dot(color - wanted, color - wanted);
}}

// Adds the loss up where its derivative is taken, so that pixels are blended once.
[BackwardDerivativeOf(squaredError)]
void addSquaredError(inout DifferentialPair<float3> color, inout DifferentialPair<float3> wanted, float weight)
{{
    let error = color.p - wanted.p;
    total[0] += weight * dot(error, error);
    color = diffPair(color.p, 2 * weight * error);
}}

[Differentiable]
float pixelLoss(int pixel, DiffTensor<float, 2> g, no_diff float3 wanted)
{{
    let at = no_diff float2(pixel % {w.IMG} + 0.5, pixel / {w.IMG} + 0.5);
    return squaredError(blend(g, at), wanted);
}}

void fit(int pixel, DiffTensor<float, 2> g, Tensor<float, 2> target)
{{
    let wanted = float3(target[0, pixel], target[1, pixel], target[2, pixel]);
    bwd_diff(pixelLoss)(pixel, g, wanted, 1.0 / {3 * w.IMG * w.IMG});
}}
"""

# By itself, so that the other workloads run with commits that have no textures.
SAMPLED = """
[Differentiable]
float4 sampled(Texture2D<float4> image, SamplerState smooth, float2 uv) { return image.SampleLevel(smooth, uv, 0); }
"""

device = spy.create_device()
module = spy.Module.load_from_source(device, "benchmark", SOURCE)


def tensor(a):
    return spy.Tensor.from_numpy(device, np.ascontiguousarray(a))


def elementwise(function, d):
    x = tensor(d["x"]).with_grads()
    y = spy.Tensor.empty(device, x.shape, spy.float32).with_grads()
    y.grad.copy_from_numpy(d["gy"])
    return {
        "fwd": (lambda: function(x, _result=y), lambda: {"y": y.to_numpy()}),
        "bwd": (lambda: function.bwds(x, _result=y), lambda: {"gx": x.grad.to_numpy()}),
    }


def W1(d):
    return elementwise(module.polynomial, d)


def W8(d):
    """The calls of W1; with their arguments bound once; and with NumPy arrays."""
    x, y = tensor(d["x"]).with_grads(), spy.Tensor.empty(device, d["x"].shape, spy.float32).with_grads()
    y.grad.copy_from_numpy(d["gy"])
    array, out = np.array(d["x"]), np.empty_like(d["x"])
    bound = {
        "fwd/bound": (module.polynomial.bind_call(x, _result=y), lambda: {"y": y.to_numpy()}),
        "bwd/bound": (module.polynomial.bwds.bind_call(x, _result=y), lambda: {"gx": x.grad.to_numpy()}),
        "fwd/numpy": (lambda: module.polynomial(array, _result=out), lambda: {"y": out}),
    }
    return elementwise(module.polynomial, d) | bound


def W2(d):
    return elementwise(module.wave, d)


class Training:
    """W3: `variant` names the samples, `n` is how many there are."""

    LAYERS = (("w1", "b1"), ("w2", "b2"))

    def __init__(self, d, variant, n, dtype=np.float32):
        defines = {"NUMBER": {np.float16: "half", np.float32: "float"}[dtype]}
        self.device = device = spy.create_device(include_paths=FOLDERS, defines=defines)
        self.learn, self.adjust = (
            device.create_compute_kernel(device.load_program("training.slang", [k]))
            for k in ("learn", "adjust")
        )
        self.parameters = Parameters(
            device, [(d[weights], d[biases]) for weights, biases in self.LAYERS], dtype
        )
        self.n, self.rate = n, w.w3_lr(n)
        self.total = device.create_buffer(data=np.zeros(1, np.float32))
        self.samples = {k + "s": device.create_buffer(data=d[k + variant]) for k in "xy"}

    def step(self):
        p = self.parameters
        p.gradients.clear()
        self.total.clear()
        self.learn.dispatch(
            [self.n, 1, 1], parameters=p.argument, total=self.total, samples=self.n, **self.samples
        )
        self.adjust.dispatch([p.count, 1, 1], parameters=p.argument, rate=self.rate)

    def outputs(self):
        outputs = {"loss": self.total.to_numpy().view(np.float32)[0]}
        for prefix, buffer in (("g", self.parameters.gradients), ("new_", self.parameters.values)):
            for names, layer in zip(self.LAYERS, self.parameters.layers_in(buffer), strict=True):
                outputs |= {prefix + name: numbers for name, numbers in zip(names, layer, strict=True)}
        return outputs


def W3(d):
    trainings = {v: Training(d, v, n) for v, n in w.W3_SIZES.items()}
    return {v: (training.step, training.outputs) for v, training in trainings.items()}


def lookup(d, variant):
    table, index, weight = (
        tensor(d["table" + variant]).with_grads(),
        tensor(d["idx" + variant]),
        tensor(d["w"]),
    )
    total = device.create_buffer(data=np.zeros(1, np.float32))
    gather = module.gather.set(total=total)

    def run():
        table.grad.clear()
        total.clear()
        gather(table, index, weight)

    return run, lambda: {"loss": total.to_numpy().view(np.float32)[0], "gt": table.grad.to_numpy()}


def W4(d):
    return {variant: lookup(d, variant) for variant in w.W4_SIZES}


def W5a(d):
    cr, ci = tensor(d["cr"]), tensor(d["ci"])
    out = spy.Tensor.empty(device, cr.shape, spy.float32)
    return {"fwd": (lambda: module.escape(cr, ci, _result=out), lambda: {"smooth": out.to_numpy()})}


def W5b(d):
    p = tensor(d["p"]).with_grads()
    x = spy.Tensor.empty(device, p.shape, spy.float32).with_grads()
    x.grad.copy_from_numpy(np.ones(d["n"], np.float32))

    def grad():
        p.grad.clear()
        module.relax(p, _result=x)
        module.relax.bwds(p, _result=x)

    return {"grad": (grad, lambda: {"x": x.to_numpy(), "gp": p.grad.to_numpy()})}


def W6(d):
    g, target = tensor(d["g"]).with_grads(), tensor(d["target"])
    total = device.create_buffer(data=np.zeros(1, np.float32))
    fit, pixels = module.fit.set(total=total), spy.grid((w.IMG * w.IMG,))

    def grad():
        g.grad.clear()
        total.clear()
        fit(pixels, g, target)

    return {"grad": (grad, lambda: {"loss": total.to_numpy().view(np.float32)[0], "gg": g.grad.to_numpy()})}


def in_graph(variant, function, names, d):
    """A jitted function of tensors; it returns its outputs by name."""
    run, inputs, results = spy.graph.jit(function), [tensor(d[name]) for name in names], {}

    def call():
        results.update(run(*inputs))

    return {variant: (call, lambda: {name: array.to_numpy() for name, array in results.items()})}


def attention(x, wqkv, bqkv, wo, bo):
    split = lambda t: t.reshape(w.BT, w.TT, w.HH, -1).swapaxes(1, 2)
    q, k, v = (split(t) for t in np.split(x @ wqkv + bqkv, 3, -1))
    return spy.graph.attention(q, k, v).swapaxes(1, 2).reshape(x.shape) @ wo + bo


def W7a(d):
    names = ("x", "wqkv", "bqkv", "wo", "bo")

    def grad(*arrays):
        *parameters, gout = arrays
        gradients = spy.graph.grad(lambda p: (attention(*p) * gout).sum())(parameters)
        return {
            "out": attention(*parameters),
            **{f"g{name}": g for name, g in zip(names, gradients, strict=True)},
        }

    return in_graph("grad", grad, (*names, "gout"), d)


def W7b(d):
    def block(x, k, mean, var, gamma, beta):
        y = spy.graph.batch_norm(spy.graph.conv2d(x, k, padding=1), mean, var, gamma, beta)
        return {"y": np.maximum(y, 0)}

    return in_graph("fwd", block, ("x", "w", "mean", "var", "gamma", "beta"), d)


def W7c(d):
    return in_graph("fwd", lambda a, b, c, d: {"e": d + (a + b) * c}, "abcd", d)


def W9(d):
    sampled = spy.Module.load_from_source(device, "textures", SAMPLED).sampled
    clamp = spy.TextureAddressingMode.clamp_to_edge
    smooth = device.create_sampler(address_u=clamp, address_v=clamp)
    image = device.create_texture(
        format=spy.Format.rgba32_float, width=d["side"], height=d["side"], data=d["texels"]
    ).with_grads()
    color = spy.Tensor.empty(device, (d["n"],), "float4").with_grads()
    color.grad.copy_from_numpy(d["ct"])

    def sample(uv):
        return lambda: sampled(image, smooth, uv, _result=color)

    def learn(uv):
        def grad():
            image.grad.clear()
            sampled.bwds(image, smooth, uv, _result=color)

        return grad

    made = {}
    for order in ("random", "coherent"):
        uv = spy.Tensor.from_numpy(device, d["uv" + order], dtype="float2")
        made[order] = sample(uv), lambda: {"color": color.to_numpy()}
        made[f"grad {order}"] = learn(uv), lambda: {"gt": image.grad.to_numpy()}
    return made
