"""Numba: parallel loops; their gradients are written by hand, since Numba differentiates nothing."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import workloads as w
from numba import njit, prange

INFO = {"version": numba.__version__}
parallel = njit(parallel=True, fastmath=True, cache=True)

A, B, C, STEP = (np.float32(value) for value in (w.A, w.B, w.C, w.LOOP_STEP))
ONE, TWO, THREE, HALF, LEAK = (np.float32(value) for value in (1, 2, 3, 0.5, 0.01))
LIMIT, STEPS, SIZE, COUNT = w.MANDEL_ITERS, w.LOOP_ITERS, w.IMG, w.NG


@parallel
def w1_fwd(x, y):
    for i in prange(x.size):
        y[i] = A * x[i] * x[i] + B * x[i] + C


@parallel
def w1_bwd(x, gy, gx):
    for i in prange(x.size):
        gx[i] += gy[i] * (TWO * A * x[i] + B)


@parallel
def w2_fwd(x, y):
    for i in prange(x.size):
        v = x[i]
        y[i] = math.sin(v) * math.exp(-v * v) + math.log(ONE + v * v)


@parallel
def w2_bwd(x, gy, gx):
    for i in prange(x.size):
        v = x[i]
        bell = math.exp(-v * v)
        slope = math.cos(v) * bell - TWO * v * math.sin(v) * bell + TWO * v / (ONE + v * v)
        gx[i] += gy[i] * slope


def elementwise(forward: Any, backward: Any, d: w.Data) -> dict[str, Any]:
    y, gx = np.zeros_like(d["x"]), np.zeros_like(d["x"])
    return {
        "fwd": (lambda: forward(d["x"], y), lambda: {"y": y}),
        "bwd": (lambda: backward(d["x"], d["gy"], gx), lambda: {"gx": gx}),
    }


def W1(d):
    return elementwise(w1_fwd, w1_bwd, d)


def W2(d):
    return elementwise(w2_fwd, w2_bwd, d)


def W8(d):
    """W1 with four values; `serial` is the same without the thread pool."""
    serial = elementwise(*(njit(fastmath=True)(kernel.py_func) for kernel in (w1_fwd, w1_bwd)), d)
    return W1(d) | {f"{variant}/serial": function for variant, function in serial.items()}


@parallel
def w3_step(x, y, w1, b1, w2, b2, rate):
    """Each thread adds into a row of `parts`: 64 w1, 16 b1, 64 w2, 4 b2, the loss.

    One function, because a function for a sample makes it 20 times slower.
    """
    threads = numba.get_num_threads()
    parts = np.zeros((threads, 160), np.float32)
    share = (x.size + threads - 1) // threads
    for t in prange(threads):
        g, h, slope = np.zeros(160, np.float32), np.empty(16, np.float32), np.empty(16, np.float32)
        ct, inputs, targets = np.empty(4, np.float32), np.empty(4, np.float32), np.empty(4, np.float32)
        for i in range(t * share, min(x.size, (t + 1) * share)):
            a, b = x[i], y[i]
            inputs[0], inputs[1], inputs[2], inputs[3] = a, b, a * a, b * b
            targets[0], targets[1] = (a + b) / (ONE + b * b), TWO * a + b
            targets[2], targets[3] = HALF * a * a + np.float32(1.2) * b, a + HALF * b * b
            for j in range(16):
                z = (
                    b1[j]
                    + w1[j, 0] * inputs[0]
                    + w1[j, 1] * inputs[1]
                    + w1[j, 2] * inputs[2]
                    + w1[j, 3] * inputs[3]
                )
                slope[j] = ONE if z > 0 else LEAK
                h[j] = z * slope[j]
            for j in range(4):
                z = b2[j]
                for k in range(16):
                    z += w2[j, k] * h[k]
                s = ONE if z > 0 else LEAK
                error = z * s - targets[j]
                g[148] += error * error
                ct[j] = TWO * error * s
                g[144 + j] += ct[j]
                for k in range(16):
                    g[80 + 16 * j + k] += ct[j] * h[k]
            for k in range(16):
                back = slope[k] * (w2[0, k] * ct[0] + w2[1, k] * ct[1] + w2[2, k] * ct[2] + w2[3, k] * ct[3])
                g[64 + k] += back
                for j in range(4):
                    g[4 * k + j] += back * inputs[j]
        parts[t] = g
    g = parts.sum(0)
    w1 -= rate * g[:64].reshape(16, 4)
    b1 -= rate * g[64:80]
    w2 -= rate * g[80:144].reshape(4, 16)
    b2 -= rate * g[144:148]
    return g


def W3(d):
    def one(variant: str, n: int) -> Any:
        weights = {name: d[name].copy() for name in ("w1", "b1", "w2", "b2")}
        rate, kept = np.float32(w.w3_lr(n)), {}

        def step():
            kept["g"] = w3_step(d["x" + variant], d["y" + variant], *weights.values(), rate)

        def outputs():
            parts = np.split(kept["g"][:149], [64, 80, 144, 148])
            gradients = dict(zip(("gw1", "gb1", "gw2", "gb2", "loss"), parts))
            return gradients | {f"new_{name}": value for name, value in weights.items()}

        return step, outputs

    return {variant: one(variant, n) for variant, n in w.W3_SIZES.items()}


@parallel
def w4_step(table, index, weight, gradient):
    threads = numba.get_num_threads()
    parts = np.zeros((threads, table.size), np.float32)
    share, loss = (index.size + threads - 1) // threads, 0.0
    for t in prange(threads):
        part, total = parts[t], 0.0
        for i in range(t * share, min(index.size, (t + 1) * share)):
            total += table[index[i]] * weight[i]
            part[index[i]] += weight[i]
        loss += total
    gradient[:] = parts.sum(0)
    return loss


def W4(d):
    def one(variant: str, size: int) -> Any:
        gradient, kept = np.zeros(size, np.float32), {}

        def step():
            kept["loss"] = w4_step(d["table" + variant], d["idx" + variant], d["w"], gradient)

        return step, lambda: kept | {"gt": gradient}

    return {variant: one(variant, size) for variant, size in w.W4_SIZES.items()}


@parallel
def w5a(cr, ci, out):
    for i in prange(cr.size):
        a = b = r2 = np.float32(0)
        n = 0
        while r2 <= 4 and n < LIMIT:
            a, b = a * a - b * b + cr[i], TWO * a * b + ci[i]
            r2 = a * a + b * b
            n += 1
        out[i] = n + ONE - math.log2(HALF * math.log2(r2)) if r2 > 4 else np.float32(LIMIT)


def W5a(d):
    out = np.zeros_like(d["cr"])
    return {"fwd": (lambda: w5a(d["cr"], d["ci"], out), lambda: {"smooth": out})}


@parallel
def w5b(p, x, gp):
    for i in prange(p.size):
        tape = np.empty(STEPS, np.float32)
        v, ct, g = ONE, ONE, np.float32(0)
        for k in range(STEPS):
            tape[k] = v
            v -= STEP * (v * v * v - p[i])
        for k in range(STEPS):
            u = tape[STEPS - 1 - k]
            g += STEP * ct
            ct *= ONE - THREE * STEP * u * u
        x[i], gp[i] = v, g


def W5b(d):
    x, gp = np.zeros_like(d["p"]), np.zeros_like(d["p"])
    return {"grad": (lambda: w5b(d["p"], x, gp), lambda: {"x": x, "gp": gp})}


@njit(fastmath=True, cache=True)
def w6_pixel(g, cosine, sine, px, py, target, lights, falloffs, gradient):
    """Adds a pixel's gradients to `gradient` and returns its loss; lights and falloffs are room to work in."""
    light, ct_light = ONE, np.float32(0)
    red = green = blue = np.float32(0)
    for k in range(COUNT):
        dx, dy = px - g[0, k], py - g[1, k]
        u = (cosine[k] * dx + sine[k] * dy) / g[2, k]
        v = (cosine[k] * dy - sine[k] * dx) / g[3, k]
        lights[k], falloffs[k] = light, math.exp(-HALF * (u * u + v * v))
        seen = light * g[8, k] * falloffs[k]
        red, green, blue = red + g[5, k] * seen, green + g[6, k] * seen, blue + g[7, k] * seen
        light -= seen
    red, green, blue = red - target[0], green - target[1], blue - target[2]
    loss = red * red + green * green + blue * blue
    scale = np.float32(2 / (3 * SIZE * SIZE))
    red, green, blue = scale * red, scale * green, scale * blue
    for k in range(COUNT - 1, -1, -1):
        dx, dy, falloff = px - g[0, k], py - g[1, k], falloffs[k]
        u, v = cosine[k] * dx + sine[k] * dy, cosine[k] * dy - sine[k] * dx
        alpha, color = g[8, k] * falloff, g[5, k] * red + g[6, k] * green + g[7, k] * blue
        ct_alpha, seen = lights[k] * (color - ct_light), lights[k] * alpha
        ct_light = ct_light * (ONE - alpha) + color * alpha
        du = -ct_alpha * alpha * u / (g[2, k] * g[2, k])
        dv = -ct_alpha * alpha * v / (g[3, k] * g[3, k])
        gradient[0, k] += dv * sine[k] - du * cosine[k]
        gradient[1, k] -= du * sine[k] + dv * cosine[k]
        gradient[2, k] -= du * u / g[2, k]
        gradient[3, k] -= dv * v / g[3, k]
        gradient[4, k] += du * v - dv * u
        gradient[5, k] += red * seen
        gradient[6, k] += green * seen
        gradient[7, k] += blue * seen
        gradient[8, k] += ct_alpha * falloff
    return loss


@parallel
def w6(g, target, gg):
    threads, n = numba.get_num_threads(), SIZE * SIZE
    parts, share = np.zeros((threads, 9, COUNT), np.float32), (n + threads - 1) // threads
    cosine, sine, loss = np.cos(g[4]), np.sin(g[4]), 0.0
    for t in prange(threads):
        lights, falloffs, total = np.empty(COUNT, np.float32), np.empty(COUNT, np.float32), 0.0
        for i in range(t * share, min(n, (t + 1) * share)):
            px, py = np.float32(i % SIZE) + HALF, np.float32(i // SIZE) + HALF
            total += w6_pixel(g, cosine, sine, px, py, target[:, i], lights, falloffs, parts[t])
        loss += total
    gg[:] = parts.sum(0)
    return loss / (3 * n)


def W6(d):
    gg, kept = np.zeros_like(d["g"]), {}

    def grad():
        kept["loss"] = w6(d["g"], d["target"], gg)

    return {"grad": (grad, lambda: kept | {"gg": gg})}


@parallel
def w7c(a, b, c, d, e):
    for i in prange(a.size):
        e[i] = d[i] + (a[i] + b[i]) * c[i]


def W7c(d):
    e = np.zeros_like(d["a"])
    return {"fwd": (lambda: w7c(d["a"], d["b"], d["c"], d["d"], e), lambda: {"e": e})}
