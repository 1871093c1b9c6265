"""Throw cloths so that each lands on its mat.

One call simulates one cloth of masses and springs in the wind, step by step until it is on the ground; the number of
steps is not known in advance. `bwds` goes back through all of them, to the velocity and the spin of the throw.
"""

from functools import partial
from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
THROW = np.dtype([("velocity", np.float32, 3), ("spin", np.float32, 3)])
MATS = (
    ((3.1, 1.7), 0.5),
    ((3.6, -0.4), -0.6),
    ((2.2, -1.6), 0.2),
)  # where the middle is, and how it is turned
COLORS = (show.BLUE, show.RED, show.GREEN)
QUICK = {"steps": 15, "rate": 0.8, "mats": MATS[:1]}


def main(steps=80, rate=0.3, mats=MATS, out="cloth.png"):
    device = spy.create_device(include_paths=[FOLDER])
    module = spy.Module.load_from_file(device, "cloth.slang")

    guess = np.zeros(len(mats), THROW)
    guess["velocity"], guess["spin"] = (1.5, 0, 6), (0, 5, 0)
    throws = spy.Tensor.from_numpy(device, guess, dtype=module.Throw).with_grads()
    moments = spy.Tensor.zeros(device, throws.shape, module.ThrowMoments)
    rows = np.array([[*place, angle] for place, angle in mats], np.float32)
    targets = spy.Tensor.from_numpy(device, rows, dtype=module.Mat)
    world = {"from": spy.float3(0, 0, 1), "wind": 1.5, "stiffness": 60.0}

    loss = partial(module.loss, throws, targets, **world, _result="numpy")
    gradient = partial(module.loss.bwds, throws, targets, **world)
    adjust = partial(module.adjust, throws, throws.grad, moments)
    flight = partial(module.flight.map((0,), (1,)), throws, **world, _result="numpy")
    module.compile_all([gradient, partial(flight, np.zeros(9, np.float32)), loss, partial(adjust, 1, rate)])

    def flights(count):
        """The cloths at some times: throw, time, row, column, coordinate."""
        return flight(np.linspace(0, 1, count, dtype=np.float32))

    first = flights(9)
    progress = show.Progress(steps)
    for step in range(1, steps + 1):
        progress.add(loss().mean())
        gradient()
        adjust(step, rate * 0.1 ** (step / steps))
    places = module.Mat.corner.map((0,), (1,), (2,))(targets, range(9), range(9), _result="numpy")
    draw(out, places, first, flights(9), progress.losses)
    return progress.losses


def draw(out, places, first, last, losses):
    with show.picture(out, (10, 4.4), layout=None) as figure:
        axes = figure.add_axes((0.0, -0.06, 0.72, 1.16), projection="3d", computed_zorder=False)
        draw_ground(axes)
        for place, color in zip(places, COLORS):
            axes.plot_surface(*place.T, color=color, alpha=0.25, shade=False)
            axes.plot(*outline(place).T, color=color, lw=1.5)
        draw_flight(axes, first[0], "#c3c7cf")
        for cloths, color in zip(last, COLORS):
            draw_flight(axes, cloths, color)
        axes.set(xlim=(0, 4), ylim=(-2.5, 2.5), zlim=(0, 2.5))
        axes.set_box_aspect((4, 5, 2.5), zoom=1.22)
        axes.view_init(24, -68)
        loss = figure.add_axes((0.77, 0.14, 0.21, 0.74))
        show.draw_losses(loss, losses, "square meters")
        loss.set_title("Mean squared distance")
        figure.text(0.02, 0.93, "The throws that land on their mats; in gray the first guess", fontsize=10)


def draw_ground(axes):
    axes.set_axis_off()
    for at in np.arange(-2, 2.1, 1):
        axes.plot((0, 4), (at, at), (0, 0), color="#dfe2e8", lw=0.8)
    for at in np.arange(0, 4.1, 1):
        axes.plot((at, at), (-2, 2), (0, 0), color="#dfe2e8", lw=0.8)


def draw_flight(axes, cloths, color):
    axes.plot(*cloths[:, 4, 4].T, color=color, lw=1)
    for cloth in cloths:
        axes.plot_surface(*cloth.T, color=color, edgecolor="white", lw=0.2)


def outline(cloth):
    return np.concatenate([cloth[0], cloth[1:, -1], cloth[-1, ::-1], cloth[::-1, 0]])


if __name__ == "__main__":
    options = show.options(__doc__, "cloth.png")
    main(**(QUICK if options.quick else {}), out=options.out)
