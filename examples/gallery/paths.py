"""Learn the colors of things, and of the light, from a picture with the light that they throw on each other.

A path tracer in two modules that import each other follows random paths; `bwds` goes back along each of them.
"""

from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
COLORS = np.array([[0.75, 0.72, 0.66], [0.9, 0.25, 0.15], [0.2, 0.45, 0.85], [1.0, 0.93, 0.82]], np.float32)
NAMES = ("floor", "left ball", "right ball", "light")
QUICK = {"size": (24, 16), "samples": 8, "steps": 40}


def main(size=(120, 80), samples=16, steps=120, out="paths.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "paths.slang"))
    ids, extent = spy.grid((size[1], size[0])), spy.int2(*size)

    def draw(colors, samples, seed):
        return module.draw(ids, extent, samples, seed, colors, _result="numpy")

    true = spy.Tensor.from_numpy(device, COLORS, dtype="float3")
    wanted = draw(true, 16 * samples, 0)
    colors = spy.Tensor.from_numpy(device, np.full((4, 3), 0.5, np.float32), dtype="float3").with_grads(
        zero=True
    )
    optimizer = spy.optim.Adam([colors], lr=0.04)
    start = draw(colors, 4 * samples, 1)
    progress, courses = show.Progress(steps), []
    for step in range(1, steps + 1):
        inputs = (ids, extent, samples, step, colors, wanted)
        progress.add(module.loss(*inputs, _result="numpy").mean())
        courses.append(colors.to_numpy())
        optimizer.zero_grad()
        module.loss.bwds(*inputs)
        optimizer.step()
    images = (wanted, start, draw(colors, 4 * samples, 1))
    picture(out, images, np.array(courses), steps)
    return progress.losses


def picture(out, images, courses, steps):
    titles = ("To learn from", "At the start", f"After {steps} steps")
    with show.picture(out, (10, 2.6)) as figure:
        *pictures, course = figure.subplots(1, 4, width_ratios=(1, 1, 1, 0.9))
        for axes, image, title in zip(pictures, images, titles):
            show.draw_image(axes, np.clip(image, 0, 1) ** (1 / 2.2), title)
        for k, name in enumerate(NAMES):
            shade = np.clip(COLORS[k], 0, 0.85)
            course.plot(np.abs(courses[:, k] - COLORS[k]).mean(1), color=shade, lw=1.6, label=name)
        course.set(yscale="log", xlabel="step", title="Error of the colors")
        course.legend(fontsize=7)


if __name__ == "__main__":
    options = show.options(__doc__, "paths.png")
    main(**(QUICK if options.quick else {}), out=options.out)
