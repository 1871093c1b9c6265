"""Fit an image with Gaussian splats.

A pixel blends the splats of its tile from front to back in a loop that ends when nothing behind shines through; `bwds`
goes back through it, and adds to the gradients of all splats.
"""

from functools import partial
from pathlib import Path

import numpy as np
import show
from matplotlib.patches import Ellipse

import slangrad as spy

FOLDER = Path(__file__).parent
TILE = 16  # as in the Slang file
RATES = {"centers": 0.4, "shapes": 0.03, "colors": 0.06}
QUICK = {"size": 64, "count": 150, "steps": 60}


def sunset(size, fine=3):
    """The image to fit: a low sun over mountains and water. A pixel is the mean of some points."""
    y, x = (np.mgrid[: fine * size, : fine * size] + 0.5) / (fine * size)
    horizon = 0.66
    mirrored = np.where(y > horizon, 2 * horizon - y, y)  # the water shows the sky

    def blend(low, high, amount):
        return np.asarray(low) * (1 - amount[..., None]) + np.asarray(high) * amount[..., None]

    image = blend((0.16, 0.17, 0.42), (0.99, 0.62, 0.33), np.clip(mirrored / horizon, 0, 1) ** 1.7)
    distance = np.hypot(x - 0.62, mirrored - 0.5)
    image += np.exp(-((distance / 0.22) ** 2))[..., None] * (0.35, 0.22, 0.02)
    image = blend(image, (1, 0.93, 0.7), 1.0 * (distance < 0.085))
    ridges = (
        (0.5, 0.055, 9, (0.52, 0.34, 0.46)),
        (0.57, 0.045, 17, (0.34, 0.24, 0.4)),
        (0.62, 0.03, 31, (0.17, 0.14, 0.28)),
    )
    for height, rise, waves, color in ridges:
        ridge = height + rise * (np.sin(waves * x + height * 40) + 0.5 * np.sin(2.7 * waves * x + 1))
        image = blend(image, color, 1.0 * (mirrored > ridge))
    ripples = 0.5 + 0.5 * np.sin(500 * (y - horizon) / (0.35 + 2 * y))
    image = np.where((y > horizon)[..., None], image * (0.72 + 0.12 * ripples[..., None]), image)
    points = np.clip(image, 0, 1).reshape(size, fine, size, fine, 3)
    return points.mean(axis=(1, 3)).astype(np.float32)


class Splats:
    """The parameters, as the struct `Splats` of the Slang file."""

    def __init__(self, device, count, size, random):
        spread = np.log(0.5 * size / np.sqrt(count))
        shapes = [np.full((count, 2), spread), random.uniform(0, np.pi, (count, 1))]
        start = {
            "centers": random.uniform(0, size, (count, 2)),
            "shapes": np.hstack(shapes),
            "colors": random.normal(0, 0.3, (count, 4)),
        }
        self.tensors, self.optimizers = {}, {}
        for name, values in start.items():
            dtype = f"float{values.shape[1]}"
            tensor = spy.Tensor.from_numpy(device, values.astype(np.float32), dtype=dtype).with_grads()
            self.tensors[name] = tensor
            self.optimizers[name] = spy.optim.Adam([tensor])

    def get_this(self):
        return self.tensors

    def step(self, factor):
        """Against the gradients, which are zero afterwards."""
        for name, optimizer in self.optimizers.items():
            optimizer.lr = factor * RATES[name]
            optimizer.step()
            optimizer.zero_grad()


def main(size=128, count=600, steps=300, out="splatting.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "splatting.slang"))

    image = sunset(size)
    target = spy.Tensor.from_numpy(device, image, dtype="float3")
    splats = Splats(device, count, size, np.random.default_rng(1))

    across = size // TILE
    tiles = {
        "counts": spy.Tensor.zeros(device, (across, across), "int"),
        "lists": spy.Tensor.zeros(device, (across, across, count), "int"),
    }

    pixels = spy.grid((size, size))
    fill = partial(module.fillTile, spy.grid((across, across)), splats, tiles)
    render = partial(module.render, pixels, splats, tiles, _result="numpy")
    loss = partial(module.loss, pixels, splats, tiles, target, _result="numpy")
    gradient = partial(module.loss.bwds, pixels, splats, tiles, target)
    module.compile_all([gradient, fill, render, loss])

    progress, shown = show.Progress(steps), {}
    for step in range(1, steps + 1):
        fill()
        if step - 1 in (0, steps // 10):
            shown[step - 1] = render()
        progress.add(loss().mean())
        gradient()
        splats.step(0.1 ** (step / steps))

    fill()
    shown[steps] = render()
    draw(out, image, shown, splats.tensors, progress.losses)
    return progress.losses


def draw(out, target, shown, tensors, losses):
    losses = [*losses, np.mean((shown[len(losses)] - target) ** 2)]
    with show.picture(out, (10, 2.4)) as figure:
        first, *others, last = figure.subplots(1, 5)
        show.draw_image(first, target, "the image")
        for axes, (step, image) in zip(others, shown.items()):
            show.draw_image(axes, image, f"after {step} steps: error {losses[step]:.1e}")
        draw_splats(last, len(target), *(tensor.to_numpy() for tensor in tensors.values()))


def draw_splats(axes, size, centers, shapes, colors):
    """Each as an ellipse, one standard deviation around its center; the first ones are in front."""
    red, green, blue, opaque = 1 / (1 + np.exp(-colors.T))
    axes.set(xlim=(0, size), ylim=(size, 0), xticks=[], yticks=[], aspect="equal")
    axes.set_title(f"the {len(centers)} splats", fontsize=9)
    for i in reversed(range(len(centers))):
        width, height = 2 * np.exp(shapes[i, :2])
        ellipse = Ellipse(centers[i], width, height, angle=np.degrees(shapes[i, 2]), lw=0.4)
        ellipse.set(facecolor=(red[i], green[i], blue[i]), alpha=np.sqrt(opaque[i]), edgecolor=show.INK)
        axes.add_patch(ellipse)


if __name__ == "__main__":
    options = show.options(__doc__, "splatting.png")
    main(**(QUICK if options.quick else {}), out=options.out)
