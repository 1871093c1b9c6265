"""Dr.Jit on its LLVM backend; DRJIT_LIBLLVM_PATH names a libLLVM.so where it finds none. Each call traces anew."""

from __future__ import annotations

from typing import Any

import drjit as dr
import numpy as np
import workloads as w
from drjit import nn
from drjit.llvm.ad import Float, Int, TensorXf, UInt

LLVM = getattr(dr.detail, "llvm_version", lambda: "")()
INFO = {"version": dr.__version__, "LLVM": ".".join(map(str, LLVM))}


def done(*values: Any) -> None:
    """Waits until the values are computed."""
    dr.eval(*values)
    dr.sync_thread()


def elementwise(function: Any, d: w.Data) -> dict[str, Any]:
    x, gy, active, kept = Float(d["x"]), Float(d["gy"]), Float(d["x"]), {}
    dr.enable_grad(active)
    done(x, gy, active)

    def fwd():
        kept["y"] = function(x)
        done(kept["y"])

    def bwd():
        dr.backward(function(active) * gy)
        done(active.grad)

    return {
        "fwd": (fwd, lambda: {"y": kept["y"].numpy()}),
        "bwd": (bwd, lambda: {"gx": active.grad.numpy()}),
    }


def polynomial(x):
    return w.A * x * x + w.B * x + w.C


def W1(d):
    return elementwise(polynomial, d)


def W2(d):
    return elementwise(lambda x: dr.sin(x) * dr.exp(-x * x) + dr.log(1 + x * x), d)


@dr.freeze
def frozen_forward(x):
    return polynomial(x)


@dr.freeze
def frozen_backward(x, gy, gx):
    dr.enable_grad(x)
    dr.backward(polynomial(x) * gy)
    return gx + x.grad


def W8(d):
    """W1 with four values; `freeze` replays the launches of an earlier call instead of tracing."""
    x, gy, kept = Float(d["x"]), Float(d["gy"]), {"gx": dr.zeros(Float, d["n"])}
    done(x, gy, kept)

    def fwd():
        kept["y"] = frozen_forward(x)
        done(kept["y"])

    def bwd():
        kept["gx"] = frozen_backward(Float(x), gy, kept["gx"])
        done(kept["gx"])

    return W1(d) | {
        "fwd/freeze": (fwd, lambda: {"y": kept["y"].numpy()}),
        "bwd/freeze": (bwd, lambda: {"gx": kept["gx"].numpy()}),
    }


def leaky(z):
    return dr.maximum(z, z * 0.01)


def network_loss(views: Any, x: Any, y: Any) -> Any:
    w1, b1, w2, b2 = views
    hidden = leaky(nn.matvec(w1, nn.CoopVec(x, y, x * x, y * y), b1))
    output = list(leaky(nn.matvec(w2, hidden, b2)))
    target = ((x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y)
    return dr.sum(sum(dr.square(value - wanted) for value, wanted in zip(output, target)))


def unpacked(view: Any, buffer: Any) -> np.ndarray:
    """A packed matrix or vector as an array."""
    values = buffer.numpy()
    rows = [values[view.offset + i * view.stride + np.arange(view.shape[1])] for i in range(view.shape[0])]
    return np.array(rows)


def W3(d):
    names = ("w1", "b1", "w2", "b2")

    def one(variant: str, n: int) -> Any:
        views = nn.pack(*(TensorXf(d[name]) for name in names), layout="training")
        x, y, rate, kept = Float(d["x" + variant]), Float(d["y" + variant]), w.w3_lr(n), {}
        done(x, y)

        def use(buffer):
            for view in views:
                view.buffer = buffer

        def step():
            weights = Float(dr.detach(views[0].buffer))
            dr.enable_grad(weights)
            use(weights)
            kept["loss"] = network_loss(views, x, y)
            dr.backward(kept["loss"])
            kept["g"], kept["new_"] = weights.grad, dr.detach(weights) - rate * weights.grad
            use(kept["new_"])
            done(kept)

        def outputs():
            arrays = {"loss": kept["loss"].numpy()[0]}
            for prefix in ("g", "new_"):
                arrays |= {prefix + name: unpacked(view, kept[prefix]) for name, view in zip(names, views)}
            return arrays

        return step, outputs

    return {variant: one(variant, n) for variant, n in w.W3_SIZES.items()}


def W4(d):
    def one(variant: str) -> Any:
        index, weight, kept = UInt(d["idx" + variant]), Float(d["w"]), {}
        values = Float(d["table" + variant])
        done(index, weight, values)

        def step():
            table = Float(values)
            dr.enable_grad(table)
            kept["loss"] = dr.sum(dr.gather(Float, table, index) * weight)
            dr.backward(kept["loss"])
            kept["gt"] = table.grad
            done(kept)

        return step, lambda: {"loss": kept["loss"].numpy()[0], "gt": kept["gt"].numpy()}

    return {variant: one(variant) for variant in w.W4_SIZES}


@dr.syntax
def escape(cr, ci):
    a, b, r2, n = Float(0), Float(0), Float(0), Int(0)
    while (r2 <= 4) & (n < w.MANDEL_ITERS):
        t = a * a - b * b + cr
        b = 2 * a * b + ci
        a = t
        r2 = a * a + b * b
        n += 1
    return dr.select(r2 > 4, Float(n) + 1 - dr.log2(0.5 * dr.log2(r2)), w.MANDEL_ITERS)


def W5a(d):
    cr, ci, kept = Float(d["cr"]), Float(d["ci"]), {}

    def fwd():
        kept["smooth"] = escape(cr, ci)
        done(kept)

    return {"fwd": (fwd, lambda: {"smooth": kept["smooth"].numpy()})}


@dr.syntax
def relax(p):
    x, k = dr.ones(Float, dr.width(p)), UInt(0)
    while dr.hint(k < w.LOOP_ITERS, max_iterations=w.LOOP_ITERS):
        x -= w.LOOP_STEP * (x * x * x - p)
        k += 1
    return x


def unrolled(p):
    x = Float(1)
    for _ in range(w.LOOP_ITERS):
        x = x - w.LOOP_STEP * (x * x * x - p)
    return x


def W5b(d):
    def one(function: Any) -> Any:
        p, kept = Float(d["p"]), {}

        def grad():
            active = Float(p)
            dr.enable_grad(active)
            x = function(active)
            dr.backward(x)
            kept["x"], kept["gp"] = dr.detach(x), active.grad
            done(kept)

        return grad, lambda: {name: value.numpy() for name, value in kept.items()}

    return {"grad": one(relax), "grad/unrolled": one(unrolled)}


@dr.syntax
def splat(g, px, py):
    light, red, green, blue, k = Float(1), Float(0), Float(0), Float(0), dr.zeros(UInt, dr.width(px))
    while dr.hint(k < w.NG, max_iterations=w.NG, exclude=[g]):
        mx, my, sx, sy, angle, r, g_, b, opacity = [dr.gather(Float, row, k) for row in g]
        dx, dy, (s, c) = px - mx, py - my, dr.sincos(angle)
        u, v = (c * dx + s * dy) / sx, (c * dy - s * dx) / sy
        alpha = opacity * dr.exp(-0.5 * (u * u + v * v))
        red += light * alpha * r
        green += light * alpha * g_
        blue += light * alpha * b
        light *= 1 - alpha
        k += 1
    return red, green, blue


def W6(d):
    rows, target, kept = [Float(row) for row in d["g"]], [Float(row) for row in d["target"]], {}
    i = dr.arange(UInt, w.IMG * w.IMG)
    px, py = Float(i % w.IMG) + 0.5, Float(i // w.IMG) + 0.5
    done(rows, target, px, py)

    def grad():
        g = [Float(row) for row in rows]
        dr.enable_grad(g)
        colors = splat(g, px, py)
        kept["loss"] = dr.mean(sum(dr.square(a - b) for a, b in zip(colors, target))) / 3
        dr.backward(kept["loss"])
        kept["gg"] = [row.grad for row in g]
        done(kept)

    def outputs():
        return {"loss": kept["loss"].numpy()[0], "gg": np.array([row.numpy() for row in kept["gg"]])}

    return {"grad": (grad, outputs)}


def W7c(d):
    (a, b, c, e), kept = [Float(d[name]) for name in "abcd"], {}
    done(a, b, c, e)

    def fwd():
        kept["e"] = e + (a + b) * c
        done(kept)

    return {"fwd": (fwd, lambda: {"e": kept["e"].numpy()})}
