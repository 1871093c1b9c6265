"""A small transformer learns to sort: ten digits in, the same digits in order out.

It sees rows and the same rows in order, nothing else. The picture shows where the places of the result look, that is
how much each digit counts there in the attention of each head.
"""

import numpy as np
import show

import slangrad as spy
from slangrad import graph

LENGTH, DIGITS = 10, 10
QUICK = {"steps": 150, "width": 32, "layers": 1}


def parameters(width, layers):
    random = np.random.default_rng(0)
    matrix = lambda *shape: random.normal(0, shape[0] ** -0.5, shape).astype(np.float32)
    layer = lambda: {
        "qkv": matrix(width, 3 * width),
        "out": matrix(width, width),
        "up": matrix(width, 4 * width),
        "down": matrix(4 * width, width),
        "norms": np.ones((2, width), np.float32),
    }
    table = random.normal(0, 1, (DIGITS, width)).astype(np.float32)
    places = random.normal(0, 1, (LENGTH, width)).astype(np.float32)
    layers = [layer() for _ in range(layers)]
    return {"digits": table, "places": places, "layers": layers, "logits": matrix(width, DIGITS)}


def heads_of(x, qkv, heads=4):
    """Queries, keys and values: (batch, heads, places, width / heads) each."""
    split = lambda t: t.reshape(*t.shape[:2], heads, -1).swapaxes(1, 2)
    return tuple(split(t) for t in np.split(x @ qkv, 3, -1))


def transformer(p, digits):
    """The result before logits, and the input of each layer's attention."""
    x, seen = p["digits"][digits] + p["places"], []
    for each in p["layers"]:
        seen.append(graph.layer_norm(x, each["norms"][0]))
        mixed = graph.attention(*heads_of(seen[-1], each["qkv"]))
        x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ each["out"]
        x = x + np.maximum(graph.layer_norm(x, each["norms"][1]) @ each["up"], 0) @ each["down"]
    return x, seen


def logits(p, digits):
    return graph.layer_norm(transformer(p, digits)[0]) @ p["logits"]


def loss(p, digits, wanted):
    return -np.take_along_axis(graph.log_softmax(logits(p, digits)), wanted[..., None], -1).mean()


def main(steps=1000, width=64, layers=2, batch=128, out="sorting.png"):
    p = parameters(width, layers)
    step = graph.train(loss, spy.optim.Adam(p, lr=3e-3))
    random, progress = np.random.default_rng(1), show.Progress(steps)
    for i in range(steps):
        step.optimizer.lr = 3e-3 * (1 - i / steps)
        digits = random.integers(0, DIGITS, (batch, LENGTH))
        progress.add(step(digits, np.sort(digits)))
    digits = random.integers(0, DIGITS, (1000, LENGTH))
    right = graph.jit(logits)(p, digits).argmax(-1) == np.sort(digits)
    print(f"sorted: {right.all(1).mean():.1%} of 1000 rows, {right.mean():.1%} of their digits")
    draw(out, progress.losses, p, digits[:1])
    return right.mean()


def draw(out, losses, p, digits):
    """How much each place of the result looks at each digit, for each layer and head; digits are drawn in order."""
    found, seen = logits(p, digits).argmax(-1)[0], transformer(p, digits)[1]
    order, places = np.argsort(digits[0], kind="stable"), range(LENGTH)
    with show.picture(out, (10, 4.4)) as figure:
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.9))
        show.draw_losses(left.subplots(), losses)
        grid = right.subplots(len(seen), 4, squeeze=False)
        for layer, (row, x, each) in enumerate(zip(grid, seen, p["layers"], strict=True)):
            q, k, _ = heads_of(x, each["qkv"])
            weights = graph.softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)[0][:, :, order]
            for head, (axes, shares) in enumerate(zip(row, weights, strict=True)):
                axes.imshow(shares, cmap="Blues", vmin=0)
                axes.set(xticks=places, xticklabels=digits[0][order], yticks=places, yticklabels=found)
                axes.tick_params(length=0, labelsize=6)
                axes.spines[:].set_visible(False)
                axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
        grid[-1][0].set(xlabel="given", ylabel="result")


if __name__ == "__main__":
    given = show.options(__doc__, "sorting.png")
    main(out=given.out, **(QUICK if given.quick else {}))
