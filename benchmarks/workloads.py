"""The workloads: their inputs, their references in float64, what a run of each costs.

A workload has variants; each names its outputs and has a cost. A peer implements a workload as a function of
the same name (W8 is W1 again unless a peer has a W8) that takes the dictionary `data()` and returns
{variant: (run, outputs)}. Inputs are float32, indices int32. Nothing here is timed.

    WORKLOADS["W1"].data()             -> {"n": 16777216, "x": ..., "gy": ...}
    WORKLOADS["W1"].reference(data)    -> {"fwd": {"y": ...}, "bwd": {"gx": ...}}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

Data = dict[str, Any]
References = dict[str, dict[str, Any]]

FLOAT = np.float32
A, B, C = 0.75, -1.25, 0.5  # coefficients of W1
ELEMENTS = 1 << 24  # of W1, W2 and W7c
W3_SIZES = {"2^14": 1 << 14, "2^20": 1 << 20}  # samples
W4_SIZES = {"T16": 16, "T1k": 1 << 10, "T1M": 1 << 20}  # entries of the table
W4_INDICES = 1 << 22
MANDEL_SIZE, MANDEL_ITERS = 1024, 100  # W5a
LOOP_ITERS, LOOP_STEP = 64, 0.1  # W5b
LOOP_ELEMENTS = 1 << 20
W9_SIDE, W9_SAMPLES = 2048, 1 << 22  # texels along an edge
IMG, NG = 256, 256  # W6: pixels along an edge, gaussians


@dataclass(frozen=True)
class Cost:
    """Of one run: items, the least bytes of memory traffic, useful operations (sin, exp and log count one)."""

    items: int
    bytes: int
    operations: int


@dataclass(frozen=True)
class Workload:
    title: str
    data: Callable[[], Data]
    reference: Callable[[Data], References]
    cost: dict[str, Cost]
    same_as: str = ""  # the workload whose function serves, where a peer has none of this name

    def cost_of(self, variant: str) -> Cost:
        """The cost of a variant; `fwd/other` is another formulation of `fwd`."""
        return self.cost[base_variant(variant)]


def base_variant(variant: str) -> str:
    return variant.split("/")[0]


def in_doubles(data: Data) -> SimpleNamespace:
    """The inputs as attributes, float32 arrays as float64."""
    single = {name for name, value in data.items() if getattr(value, "dtype", None) == FLOAT}
    return SimpleNamespace(
        **{name: value.astype(np.float64) if name in single else value for name, value in data.items()}
    )


# --- W1, W2, W8: element by element


def elementwise_data(n: int = ELEMENTS) -> Data:
    random = np.random.default_rng(1)
    return {
        "n": n,
        "x": random.uniform(-2, 2, n).astype(FLOAT),
        "gy": random.uniform(0.5, 1.5, n).astype(FLOAT),
    }


def w1_reference(data: Data) -> References:
    d = in_doubles(data)
    return {"fwd": {"y": A * d.x * d.x + B * d.x + C}, "bwd": {"gx": d.gy * (2 * A * d.x + B)}}


def w2_reference(data: Data) -> References:
    d = in_doubles(data)
    bell, q = np.exp(-(d.x**2)), 1 + d.x**2
    slope = np.cos(d.x) * bell - 2 * d.x * np.sin(d.x) * bell + 2 * d.x / q
    return {"fwd": {"y": np.sin(d.x) * bell + np.log(q)}, "bwd": {"gx": d.gy * slope}}


# --- W3: a network (x, y) -> (x, y, x^2, y^2) -> 16 -> 4, leaky ReLU 0.01 after both layers, one step of training


def w3_data() -> Data:
    random = np.random.default_rng(3)
    data: Data = {
        "w1": random.normal(0, 0.5, (16, 4)),
        "b1": random.normal(0, 0.1, 16),
        "w2": random.normal(0, 0.3, (4, 16)),
        "b2": random.normal(0, 0.1, 4),
    }
    data = {name: weights.astype(FLOAT) for name, weights in data.items()}
    for variant, n in W3_SIZES.items():
        data["x" + variant], data["y" + variant] = random.uniform(-1, 1, (2, n)).astype(FLOAT)
    return data


def w3_lr(n: int) -> float:
    """The step along the gradient of n samples."""
    return 1e-3 / n


def leaky(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leaky ReLU and its slope."""
    slope = np.where(z > 0, 1, 0.01)
    return z * slope, slope


def w3_step(weights: Data, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Loss, gradients and new weights of one step."""
    inputs = np.stack([x, y, x * x, y * y], 1)
    target = np.stack([(x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y], 1)
    hidden, slope1 = leaky(inputs @ weights["w1"].T + weights["b1"])
    output, slope2 = leaky(hidden @ weights["w2"].T + weights["b2"])
    g2 = 2 * (output - target) * slope2
    g1 = (g2 @ weights["w2"]) * slope1
    gradients = {"w1": g1.T @ inputs, "b1": g1.sum(0), "w2": g2.T @ hidden, "b2": g2.sum(0)}
    outputs: dict[str, Any] = {"loss": ((output - target) ** 2).sum()}
    for name, gradient in gradients.items():
        outputs["g" + name] = gradient
        outputs["new_" + name] = weights[name] - w3_lr(x.size) * gradient
    return outputs


def w3_reference(data: Data) -> References:
    d = vars(in_doubles(data))
    return {variant: w3_step(d, d["x" + variant], d["y" + variant]) for variant in W3_SIZES}


# --- W4: loss = sum(table[index] * w): loss and gradient of the table


def w4_data(n: int = W4_INDICES) -> Data:
    random = np.random.default_rng(4)
    data: Data = {"n": n, "w": random.uniform(0.5, 1.5, n).astype(FLOAT)}
    for variant, size in W4_SIZES.items():
        data["table" + variant] = random.uniform(0, 1, size).astype(FLOAT)
        data["idx" + variant] = random.integers(0, size, n).astype(np.int32)
    return data


def w4_reference(data: Data) -> References:
    d = vars(in_doubles(data))

    def one(variant: str, size: int) -> dict[str, Any]:
        table, index = d["table" + variant], d["idx" + variant]
        return {"loss": np.sum(table[index] * d["w"]), "gt": np.bincount(index, d["w"], minlength=size)}

    return {variant: one(variant, size) for variant, size in W4_SIZES.items()}


# --- W5a: a loop that ends at another step in every element; W5b: reverse mode through a loop


def w5a_data() -> Data:
    size = MANDEL_SIZE
    real = np.linspace(-2, 0.6, size, dtype=FLOAT)
    imaginary = np.linspace(-1.3, 1.3, size, dtype=FLOAT)
    cr, ci = np.meshgrid(real, imaginary)
    return {"cr": np.ascontiguousarray(cr.ravel()), "ci": np.ascontiguousarray(ci.ravel())}


def w5a_reference(data: Data) -> References:
    d = in_doubles(data)
    a, b, n = np.zeros_like(d.cr), np.zeros_like(d.cr), np.zeros_like(d.cr)
    for _ in range(MANDEL_ITERS):
        inside = a * a + b * b <= 4
        a, b = np.where(inside, a * a - b * b + d.cr, a), np.where(inside, 2 * a * b + d.ci, b)
        n += inside
    r2 = a * a + b * b
    with np.errstate(all="ignore"):
        return {"fwd": {"smooth": np.where(r2 > 4, n + 1 - np.log2(0.5 * np.log2(r2)), MANDEL_ITERS)}}


def w5b_data(n: int = LOOP_ELEMENTS) -> Data:
    return {"n": n, "p": np.random.default_rng(5).uniform(0.1, 2, n).astype(FLOAT)}


def w5b_reference(data: Data) -> References:
    p = in_doubles(data).p
    xs = [np.ones_like(p)]
    for _ in range(LOOP_ITERS):
        xs.append(xs[-1] - LOOP_STEP * (xs[-1] ** 3 - p))
    ct, gp = np.ones_like(p), np.zeros_like(p)
    for x in xs[-2::-1]:
        gp += LOOP_STEP * ct
        ct *= 1 - 3 * LOOP_STEP * x * x
    return {"grad": {"x": xs[-1], "gp": gp}}


# --- W6: gaussians blended front to back; the rows of g: mx, my, sx, sy, angle, red, green, blue, opacity


def w6_data() -> Data:
    random = np.random.default_rng(6)
    ranges = [(0, IMG)] * 2 + [(4, 20)] * 2 + [(0, np.pi)] + [(0, 1)] * 3 + [(0.1, 0.6)]
    rows = [random.uniform(low, high, NG) for low, high in ranges]
    return {"g": np.array(rows).astype(FLOAT), "target": random.uniform(0, 1, (3, IMG * IMG)).astype(FLOAT)}


@dataclass(frozen=True)
class Splat:
    """One gaussian at all pixels: what is left of the light before it, its own coordinates, its falloff."""

    light: np.ndarray
    u: np.ndarray
    v: np.ndarray
    falloff: np.ndarray


def w6_blend(g: np.ndarray) -> tuple[np.ndarray, list[Splat]]:
    """The image of the gaussians and what the gradient needs."""
    py, px = (v.ravel() + 0.5 for v in np.divmod(np.arange(IMG * IMG), IMG))
    light, image, splats = np.ones(IMG * IMG), np.zeros((3, IMG * IMG)), []
    for mx, my, sx, sy, angle, *color, opacity in g.T:
        c, s = np.cos(angle), np.sin(angle)
        u, v = c * (px - mx) + s * (py - my), c * (py - my) - s * (px - mx)
        falloff = np.exp(-0.5 * ((u / sx) ** 2 + (v / sy) ** 2))
        splats.append(Splat(light, u, v, falloff))
        image += np.array(color)[:, None] * (light * opacity * falloff)
        light = light * (1 - opacity * falloff)
    return image, splats


def w6_gradient(g: np.ndarray, splats: list[Splat], ct_image: np.ndarray) -> np.ndarray:
    """The gradient of the gaussians, from the last to the first."""
    gg, ct_light = np.zeros_like(g), np.zeros(IMG * IMG)
    for k in range(NG - 1, -1, -1):
        splat, (_, _, sx, sy, angle, *color, opacity) = splats[k], g[:, k]
        c, s, seen = np.cos(angle), np.sin(angle), np.array(color) @ ct_image
        alpha, u, v = opacity * splat.falloff, splat.u, splat.v
        ct_alpha = splat.light * (seen - ct_light)
        ct_light = ct_light * (1 - alpha) + seen * alpha
        ct_exponent = ct_alpha * alpha
        du, dv = -ct_exponent * u / sx**2, -ct_exponent * v / sy**2
        position = [-(du * c - dv * s).sum(), -(du * s + dv * c).sum()]
        scale = [(ct_exponent * u * u).sum() / sx**3, (ct_exponent * v * v).sum() / sy**3]
        colors = (ct_image * (splat.light * alpha)).sum(1)
        rotation, strength = (du * v - dv * u).sum(), (ct_alpha * splat.falloff).sum()
        gg[:, k] = [*position, *scale, rotation, *colors, strength]
    return gg


def w6_reference(data: Data) -> References:
    d = in_doubles(data)
    image, splats = w6_blend(d.g)
    difference = image - d.target
    gg = w6_gradient(d.g, splats, 2 * difference / difference.size)
    return {"grad": {"loss": (difference**2).mean(), "gg": gg}}


# --- W7c: three operations on four arrays


def w7c_data(n: int = ELEMENTS) -> Data:
    random = np.random.default_rng(9)
    return {"n": n} | {name: random.uniform(0, 1, n).astype(FLOAT) for name in "abcd"}


def w7c_reference(data: Data) -> References:
    d = in_doubles(data)
    return {"fwd": {"e": d.d + (d.a + d.b) * d.c}}


# --- W9: bilinear samples of a texture, clamped at its edges: values, and the gradient of the texels


def w9_data(side: int = W9_SIDE, n: int = W9_SAMPLES) -> Data:
    """Places in random order, and places of the pixels of a picture that is turned a little and enlarged."""
    random = np.random.default_rng(9)
    rows = int(np.sqrt(n))
    y, x = np.divmod(np.arange(n), n // rows) / np.array([[rows], [n // rows]]) - 0.5
    turned = np.stack([0.9 * x - 0.3 * y, 0.3 * x + 0.9 * y], -1) + 0.5
    return {
        "n": n, "side": side, "texels": random.uniform(0.1, 1, (side, side, 4)).astype(FLOAT),
        "ct": random.uniform(0.1, 1, (n, 4)).astype(FLOAT),
        "uvrandom": random.uniform(-0.05, 1.05, (n, 2)).astype(FLOAT), "uvcoherent": turned.astype(FLOAT),
    }  # fmt: skip


def w9_reference(data: Data) -> References:
    side, texels, ct = data["side"], data["texels"].reshape(-1, 4).astype(float), data["ct"].astype(float)
    results: References = {}
    for order in ("random", "coherent"):
        places = data["uv" + order].astype(float) * side - 0.5
        low = np.floor(places).astype(int)
        values, gradient = np.zeros((data["n"], 4)), np.zeros((side * side, 4))
        for corner in range(4):
            step = np.array([corner & 1, corner >> 1])
            x, y = np.clip(low + step, 0, side - 1).T
            weight = np.prod(np.where(step == 1, places - low, 1 - places + low), -1)
            values += weight[:, None] * texels[y * side + x]
            for k in range(4):
                gradient[:, k] += np.bincount(y * side + x, weight * ct[:, k], side * side)
        results |= {order: {"color": values.ravel()}, f"grad {order}": {"gt": gradient.ravel()}}
    return results


# --- The table


def elementwise_cost(n: int, fwd: int, bwd: int) -> dict[str, Cost]:
    return {"fwd": Cost(n, 8 * n, fwd * n), "bwd": Cost(n, 16 * n, bwd * n)}


PAIRS = IMG * IMG * NG
PIXELS = MANDEL_SIZE**2

# fmt: off
WORKLOADS = {
    "W1":  Workload("polynomial, 2^24 values", elementwise_data, w1_reference, elementwise_cost(ELEMENTS, 4, 4)),
    "W2":  Workload("sin(x) exp(-x²) + log(1 + x²), 2^24 values", elementwise_data, w2_reference,
                    elementwise_cost(ELEMENTS, 8, 16)),
    "W3":  Workload("training step of a network of 148 parameters", w3_data, w3_reference,
                    {variant: Cost(n, 8 * n, 640 * n) for variant, n in W3_SIZES.items()}),
    "W4":  Workload("lookups in a table, its gradient, 2^22 indices", w4_data, w4_reference,
                    {variant: Cost(W4_INDICES, 12 * W4_INDICES, 3 * W4_INDICES) for variant in W4_SIZES}),
    "W5a": Workload("escape-time loop, 1024 x 1024 pixels", w5a_data, w5a_reference,
                    {"fwd": Cost(PIXELS, 12 * PIXELS, 0)}),
    "W5b": Workload("gradient through 64 steps, 2^20 values", w5b_data, w5b_reference,
                    {"grad": Cost(LOOP_ELEMENTS, 12 * LOOP_ELEMENTS, 9 * LOOP_ITERS * LOOP_ELEMENTS)}),
    "W6":  Workload("gradient of 256 gaussians on 256 x 256 pixels", w6_data, w6_reference,
                    {"grad": Cost(PAIRS, 0, 70 * PAIRS)}),
    "W7c": Workload("d + (a + b) c, 2^24 values", w7c_data, w7c_reference,
                    {"fwd": Cost(ELEMENTS, 20 * ELEMENTS, 3 * ELEMENTS)}),
    "W8":  Workload("polynomial, 4 values: what a call costs", lambda: elementwise_data(4), w1_reference,
                    elementwise_cost(4, 4, 4), same_as="W1"),
    "W9":  Workload("bilinear samples of a texture of 2048 x 2048 float4, 2^22 places", w9_data, w9_reference,
                    {f"{kind}{order}": Cost(W9_SAMPLES, 24 * W9_SAMPLES + 16 * W9_SIDE**2, 60 * W9_SAMPLES)
                     for kind in ("", "grad ") for order in ("random", "coherent")}),
}
# fmt: on


def largest_error(name: str, got: dict[str, Any], reference: dict[str, Any]) -> float:
    """Largest |got - reference| over max(|reference|, 1 % of the largest of its row).

    W5a is chaotic: the share of pixels that are off by more than 1 %.
    """
    worst = 0.0
    for output, wanted in reference.items():
        wanted = np.asarray(wanted)
        values = np.asarray(got[output], np.float64).reshape(wanted.shape)
        row = np.max(np.abs(wanted), axis=-1 if wanted.ndim else None, keepdims=True)
        error = np.abs(values - wanted) / np.maximum(np.abs(wanted), 1e-2 * row)
        worst = max(worst, float(np.mean(error > 1e-2)) if name == "W5a" else float(np.max(error)))
    return worst
