"""A residual network with batch norm reads handwritten digits.

The 1797 images of 8 x 8 pixels come with scikit-learn. The network is plain NumPy with `graph.conv2d` and
`graph.batch_norm`; a step, with its gradient, the update and the running statistics, is one graph.
"""

import sys

import numpy as np
import show

import slangrad as spy
from slangrad import graph

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit("scikit-learn brings the digits: pip install 'slangrad[examples]'")

QUICK = {"steps": 60, "channels": 8}


def load():
    """Images (1797, 1, 8, 8) from 0 to 1 and their digits, in random order."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return (found.images[order, None] / 16).astype(np.float32), found.target[order]


# --- the network: p are parameters, s running means and variances; both have the same form


def convolution(random, outputs, channels, size):
    """A kernel and the batch norm behind it: learned parameters, and running statistics."""
    w = random.normal(0, np.sqrt(2 / (channels * size * size)), (outputs, channels, size, size))
    learned = {"w": w, "gamma": np.ones(outputs), "beta": np.zeros(outputs)}
    return learned, {"mean": np.zeros(outputs), "variance": np.ones(outputs)}


def parameters(channels):
    random, c = np.random.default_rng(1), channels
    sizes = {"first": (c, 1, 3), "a1": (c, c, 3), "a2": (c, c, 3)}
    sizes |= {"b1": (2 * c, c, 3), "b2": (2 * c, 2 * c, 3), "skip": (2 * c, c, 1)}
    layers = {name: convolution(random, *size) for name, size in sizes.items()}
    p = {name: learned for name, (learned, _) in layers.items()}
    p["out"] = {"w": random.normal(0, 0.1, (2 * c, 10)), "b": np.zeros(10)}
    s = {name: counted for name, (_, counted) in layers.items()}
    single = lambda tree: {k: {n: a.astype(np.float32) for n, a in each.items()} for k, each in tree.items()}
    return single(p), single(s)


def network(p, s, x, training):
    """Logits (batch, 10), and the running statistics after this batch."""
    new = {}

    def layer(name, x, stride=1):
        q, padding = p[name], p[name]["w"].shape[-1] // 2
        y = graph.conv2d(x, q["w"], stride=stride, padding=padding)
        given = y, s[name]["mean"], s[name]["variance"], q["gamma"], q["beta"]
        if not training:
            return graph.batch_norm(*given)
        y, mean, variance = graph.batch_norm(*given, training=True)
        new[name] = {"mean": mean, "variance": variance}
        return y

    relu = lambda x: np.maximum(x, 0)
    x = relu(layer("first", x))
    x = relu(x + layer("a2", relu(layer("a1", x))))
    x = relu(layer("skip", x, stride=2) + layer("b2", relu(layer("b1", x, stride=2))))
    return x.mean((2, 3)) @ p["out"]["w"] + p["out"]["b"], new


def cross_entropy(logits, digits):
    return -np.take_along_axis(graph.log_softmax(logits), digits[:, None], 1).mean()


def loss(p, s, x, digits):
    """The loss, and the running statistics after this batch."""
    logits, new = network(p, s, x, training=True)
    return cross_entropy(logits, digits), new


@graph.jit
def predict(p, s, x):
    return network(p, s, x, training=False)[0].argmax(1)


def main(steps=300, channels=16, out="digits.png"):
    images, digits = load()
    train, test = slice(0, 1437), slice(1437, None)
    p, s = parameters(channels)
    step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), has_aux=True)
    random, progress = np.random.default_rng(2), show.Progress(steps)
    for _ in range(steps):
        batch = random.integers(0, train.stop, 64)
        before, s = step(s, images[batch], digits[batch])
        progress.add(before)
    found = predict(p, s, images[test])
    right = found == digits[test]
    print(f"read: {right.mean():.1%} of {right.size} digits that were not trained on")
    draw(out, progress.losses, images[test][:, 0], found, digits[test])
    return right.mean()


def draw(out, losses, images, found, digits):
    """Digits that were read wrong first, with their true values."""
    order = np.argsort(found == digits, kind="stable")[:32]
    with show.picture(out, (10, 3.6)) as figure:
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.7))
        show.draw_losses(left.subplots(), losses)
        for axes, i in zip(right.subplots(4, 8).flat, order, strict=True):
            is_right = found[i] == digits[i]
            axes.imshow(images[i], cmap="gray_r")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            said = f"{found[i]}" if is_right else f"{found[i]}, is {digits[i]}"
            axes.set_title(said, fontsize=8, color=show.INK if is_right else show.RED, pad=2)


if __name__ == "__main__":
    given = show.options(__doc__, "digits.png")
    main(out=given.out, **(QUICK if given.quick else {}))
