"""PyTorch, eager, on the CPU. W1 and W2 `bwd` are the backward of a graph that is kept."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import workloads as w

INFO = {"version": torch.__version__}
tensor = torch.from_numpy


def elementwise(function: Any, d: w.Data) -> dict[str, Any]:
    x, gy, kept = tensor(d["x"]), tensor(d["gy"]), {}
    active = x.clone().requires_grad_()
    active.grad = torch.zeros_like(x)

    def fwd():
        kept["y"] = function(x)

    def bwd():
        if "graph" not in kept:
            kept["graph"] = function(active)
        kept["graph"].backward(gy, retain_graph=True)

    return {
        "fwd": (fwd, lambda: {"y": kept["y"].numpy()}),
        "bwd": (bwd, lambda: {"gx": active.grad.numpy()}),
    }


def W1(d):
    return elementwise(lambda x: w.A * x * x + w.B * x + w.C, d)


def W2(d):
    return elementwise(lambda x: torch.sin(x) * torch.exp(-x * x) + torch.log(1 + x * x), d)


def network_loss(weights: list[Any], x: Any, y: Any) -> Any:
    inputs = torch.stack([x, y, x * x, y * y], 1)
    hidden = F.leaky_relu(F.linear(inputs, weights[0], weights[1]), 0.01)
    output = F.leaky_relu(F.linear(hidden, weights[2], weights[3]), 0.01)
    target = torch.stack([(x + y) / (1 + y * y), 2 * x + y, 0.5 * x * x + 1.2 * y, x + 0.5 * y * y], 1)
    return ((output - target) ** 2).sum()


def W3(d):
    names = ("w1", "b1", "w2", "b2")

    def one(variant: str, n: int) -> Any:
        weights = [tensor(d[name].copy()).requires_grad_() for name in names]
        x, y, kept = tensor(d["x" + variant]), tensor(d["y" + variant]), {}
        optimizer = torch.optim.SGD(weights, lr=w.w3_lr(n))

        def step():
            optimizer.zero_grad()
            kept["loss"] = network_loss(weights, x, y)
            kept["loss"].backward()
            optimizer.step()

        def outputs():
            gradients = {f"g{name}": weight.grad.numpy() for name, weight in zip(names, weights)}
            updated = {f"new_{name}": weight.detach().numpy() for name, weight in zip(names, weights)}
            return {"loss": kept["loss"].item()} | gradients | updated

        return step, outputs

    return {variant: one(variant, n) for variant, n in w.W3_SIZES.items()}


def W4(d):
    def one(variant: str) -> Any:
        table, kept = tensor(d["table" + variant]).requires_grad_(), {}
        index, weight = tensor(d["idx" + variant]).long(), tensor(d["w"])

        def step():
            table.grad = None
            kept["loss"] = (table[index] * weight).sum()
            kept["loss"].backward()

        return step, lambda: {"loss": kept["loss"].item(), "gt": table.grad.numpy()}

    return {variant: one(variant) for variant in w.W4_SIZES}


def W5a(d):
    cr, ci, kept = tensor(d["cr"]), tensor(d["ci"]), {}

    def fwd():
        a, b, n = torch.zeros_like(cr), torch.zeros_like(cr), torch.zeros_like(cr)
        for _ in range(w.MANDEL_ITERS):
            inside = a * a + b * b <= 4
            a, b = torch.where(inside, a * a - b * b + cr, a), torch.where(inside, 2 * a * b + ci, b)
            n = n + inside
        r2 = a * a + b * b
        smooth = n + 1 - torch.log2(0.5 * torch.log2(r2))
        kept["smooth"] = torch.where(r2 > 4, smooth, float(w.MANDEL_ITERS))

    return {"fwd": (fwd, lambda: {"smooth": kept["smooth"].numpy()})}


def W5b(d):
    p, kept = tensor(d["p"]).requires_grad_(), {}
    ones = torch.ones_like(p)

    def grad():
        p.grad = None
        x = torch.ones_like(p)
        for _ in range(w.LOOP_ITERS):
            x = x - w.LOOP_STEP * (x * x * x - p)
        x.backward(ones)
        kept["x"] = x.detach()

    return {"grad": (grad, lambda: {"x": kept["x"].numpy(), "gp": p.grad.numpy()})}


def splat_loss(g: Any, target: Any, px: Any, py: Any) -> Any:
    mx, my, sx, sy, angle = (row[:, None] for row in g[:5])
    dx, dy, c, s = px - mx, py - my, torch.cos(angle), torch.sin(angle)
    u, v = (c * dx + s * dy) / sx, (c * dy - s * dx) / sy
    alpha = g[8][:, None] * torch.exp(-0.5 * (u * u + v * v))
    light = torch.cumprod(torch.cat([torch.ones_like(alpha[:1]), 1 - alpha[:-1]]), 0)
    return ((g[5:8] @ (alpha * light) - target) ** 2).mean()


def W6(d):
    g, target, kept = tensor(d["g"]).requires_grad_(), tensor(d["target"]), {}
    i = torch.arange(w.IMG * w.IMG)
    px, py = (i % w.IMG) + 0.5, (i // w.IMG) + 0.5

    def grad():
        g.grad = None
        kept["loss"] = splat_loss(g, target, px, py)
        kept["loss"].backward()

    return {"grad": (grad, lambda: {"loss": kept["loss"].item(), "gg": g.grad.numpy()})}


def W7c(d):
    (a, b, c, e), kept = [tensor(d[name]) for name in "abcd"], {}

    def fwd():
        kept["e"] = e + (a + b) * c

    return {"fwd": (fwd, lambda: {"e": kept["e"].numpy()})}


def W9(d):
    texels = tensor(d["texels"]).permute(2, 0, 1)[None].requires_grad_()
    ct, kept = tensor(d["ct"]).T[None, :, None], {}

    def sample(grid):
        return torch.nn.functional.grid_sample(texels, grid, padding_mode="border", align_corners=False)

    def values(grid):
        def run():
            with torch.no_grad():
                kept["color"] = sample(grid)

        return run, lambda: {"color": kept["color"][0, :, 0].T.numpy()}

    def gradient(grid):
        def run():
            texels.grad = None
            kept["color"] = sample(grid)
            kept["color"].backward(ct)

        return run, lambda: {"gt": texels.grad[0].permute(1, 2, 0).numpy()}

    made = {}
    for order in ("random", "coherent"):
        grid = (2 * tensor(d["uv" + order]) - 1)[None, None]
        made |= {order: values(grid), f"grad {order}": gradient(grid)}
    return made
