"""Find a shape by what it looks like.

Sphere tracing in Slang draws balls that melt into each other. A figure of sixteen is seen from four sides; sixteen
others start anywhere, and follow the derivative of their images: through the loop of the tracer, and through normals,
which are derivatives themselves.
"""

from functools import partial
from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
COUNT = 16  # as in the Slang file

FUR, LIGHT, PINK, DARK = (0.62, 0.38, 0.2), (0.87, 0.7, 0.5), (0.85, 0.45, 0.42), (0.12, 0.09, 0.1)
TEDDY = (  # center, radius, color; the right of what lies beside the middle has its twin on the left
    ((0, -0.32, 0), 0.42, FUR),
    ((0, -0.34, -0.2), 0.3, LIGHT),
    ((0, 0.42, 0), 0.36, FUR),
    ((0, 0.33, -0.3), 0.15, LIGHT),
    ((0, 0.39, -0.45), 0.05, DARK),
    ((0, -0.5, 0.42), 0.12, LIGHT),
    ((0.29, 0.72, 0.02), 0.15, FUR),
    ((0.3, 0.72, -0.09), 0.08, PINK),
    ((0.13, 0.52, -0.32), 0.055, DARK),
    ((0.47, -0.12, -0.12), 0.15, FUR),
    ((0.3, -0.72, -0.18), 0.19, FUR),
)
QUICK = {"size": 24, "views": 3, "steps": 60, "seed": 8}


def teddy():
    """A row for each ball: center, radius, color."""
    mirrored = [((-x, y, z), radius, color) for (x, y, z), radius, color in TEDDY if x]
    return np.array([[*center, radius, *color] for center, radius, color in (*TEDDY, *mirrored)], np.float32)


def anything(random):
    """Gray balls of one size, all around."""
    centers = random.normal(size=(COUNT, 3))
    centers *= random.uniform(0.5, 0.7, (COUNT, 1)) / np.linalg.norm(centers, axis=1, keepdims=True)
    return np.hstack([centers, np.full((COUNT, 1), 0.15), np.full((COUNT, 3), 0.6)]).astype(np.float32)


def main(size=64, views=4, steps=240, rate=0.03, seed=27, out="ray_marcher.png"):
    device = spy.create_device(include_paths=[FOLDER])
    module = spy.Module.load_from_file(device, "ray_marcher.slang")

    def balls_of(rows):
        return spy.Tensor.from_numpy(device, rows, dtype=module.Ball)

    def render(balls, size, views):
        return module.render(spy.grid((views, size, size)), size, views, balls, _result="tensor")

    wanted = balls_of(teddy())
    target = spy.Tensor.empty(device, (views, size, size), "float3")
    balls = balls_of(anything(np.random.default_rng(seed)))
    gradients = spy.Tensor.zeros(device, (COUNT,), module.Ball.Differential)
    moments = spy.Tensor.zeros(device, (COUNT,), module.BallMoments)

    pixels = spy.grid((views, size, size))
    learn = partial(module.learn, pixels, size, views, target, balls, gradients, _result="numpy")
    adjust = partial(module.adjust, balls, gradients, moments)
    drawn = partial(module.render, pixels, size, views, wanted, _result=target)
    module.compile_all([learn, drawn, partial(adjust, 1, rate)])

    drawn()
    progress, shown = show.Progress(steps), {}
    for step in range(1, steps + 1):
        if step - 1 in (0, steps // 12, steps // 4):
            shown[step - 1] = render(balls, 180, 4).to_numpy()
        progress.add(learn().mean())
        adjust(step, rate * 0.1 ** (step / steps))
    shown[steps] = render(balls, 180, 4).to_numpy()
    draw(out, render(wanted, 180, 4).to_numpy(), shown, progress.losses)
    return progress.losses


def draw(out, target, shown, losses):
    images = {"the figure": target}
    for step, image in shown.items():
        images[f"after {step} steps"] = image
    with show.picture(out, (10, 4.2)) as figure:
        rows = figure.subplots(2, len(images))
        for row, view in zip(rows, (0, 1)):
            for axes, (title, image) in zip(row, images.items()):
                show.draw_image(axes, image[view], "" if view else title)
        words = f"Mean squared error {losses[0]:.3f} before, {losses[-1]:.5f} after {len(losses)} steps"
        figure.suptitle(words, fontsize=10)


if __name__ == "__main__":
    options = show.options(__doc__, "ray_marcher.png")
    main(**(QUICK if options.quick else {}), out=options.out)
