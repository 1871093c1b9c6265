"""Learn an image with a multiresolution hash grid and a small network.

The Slang function `learn` calls `bwd_diff` itself; gradients of the table and of the weights are added to tensors that
all threads share.
"""

from functools import partial
from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
LEVELS, FEATURES, TABLE, HIDDEN = 8, 2, 16384, 24  # as in the Slang file
QUICK = {"size": 64, "points": 1 << 12, "steps": 60}


class Parameters:
    """Numbers that are learned, as the struct `Parameters` of the Slang file."""

    def __init__(self, device, values):
        self.values = spy.Tensor.from_numpy(device, values.astype(np.float32))
        self.gradients = spy.Tensor.zeros(device, values.shape, "float")

    def get_this(self):
        return {"values": self.values, "gradients": self.gradients}


def first_weights(random, inputs, outputs):
    """Rows of a layer, each with a bias of zero at its end."""
    weights = random.normal(0, np.sqrt(2 / inputs), (outputs, inputs))
    return np.hstack([weights, np.zeros((outputs, 1))]).ravel()


def main(size=256, points=1 << 14, steps=400, rate=0.01, out="hash_grid.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "hash_grid.slang"))

    random = np.random.default_rng(1)
    table = Parameters(device, random.uniform(-1e-2, 1e-2, LEVELS * TABLE * FEATURES))
    layers = [first_weights(random, LEVELS * FEATURES, HIDDEN), first_weights(random, HIDDEN, 3)]
    weights = Parameters(device, np.concatenate(layers))
    image, learned = {"table": table, "weights": weights}, (table, weights)
    optimizer = spy.optim.Adam([each.values for each in learned])

    at = spy.Tensor.empty(device, (points,), "float2")
    learn = partial(module.learn, image, at, 1 / points, _result="numpy")
    pixels, drawings = spy.grid((size, size)), {}
    for name, corner, part in (("all of it", (0, 0), 1.0), ("a part", (0.3, 0.45), 0.25)):
        window = {"corner": spy.float2(*corner), "size": part, "pixels": size}
        drawings[f"the image: {name}"] = partial(module.showMarble, pixels, window, _result="numpy")
        drawings[f"hash grid: {name}"] = partial(module.showImage, image, pixels, window, _result="numpy")
    module.compile_all([learn, *drawings.values()])

    progress = show.Progress(steps)
    for step in range(1, steps + 1):
        at.copy_from_numpy(random.random((points, 2), np.float32))
        progress.add(learn().mean())
        optimizer.lr = rate * 0.1 ** (step / steps)
        optimizer.step([each.gradients for each in learned])
        for each in learned:
            each.gradients.clear()

    draw(out, {name: drawing() for name, drawing in drawings.items()}, progress.losses)
    return progress.losses


def draw(out, shown, losses):
    text = (
        f"{LEVELS * TABLE * FEATURES:,} features and a network of {HIDDEN} hidden units: "
        f"mean squared error {losses[0]:.2f} before, {losses[-1]:.4f} after {len(losses)} steps"
    )
    show.draw_images(out, shown, text)


if __name__ == "__main__":
    options = show.options(__doc__, "hash_grid.png")
    main(**(QUICK if options.quick else {}), out=options.out)
