"""Learn the distance from a figure with a small network of slang.neural.

A point of the plane goes through three layers; `bwd_diff` adds to the gradients of all parameters. The normals are the
network's slopes by the place.
"""

from pathlib import Path

import numpy as np
import show

import slangrad as spy

FOLDER = Path(__file__).parent
QUICK = {"points": 512, "steps": 250}


def figure(x, y):
    """The distance from a snowman: three balls and a hat."""
    balls = ((0, -0.45, 0.38), (0, 0.1, 0.27), (0, 0.48, 0.18))
    hat = np.stack([np.abs(x) - 0.16, np.abs(y - 0.74) - 0.12])
    outside = np.hypot(*np.maximum(hat, 0)) + np.minimum(hat.max(0), 0)
    return np.min([*(np.hypot(x - a, y - b) - r for a, b, r in balls), outside], 0)


def main(points=4096, steps=3000, out="distances.png"):
    device = spy.create_device()
    module = spy.Module.load_from_file(device, str(FOLDER / "distances.slang"))
    random = np.random.default_rng(3)
    start = random.normal(0, 0.4, module.parameterCount()).astype(np.float32)
    start[:24] *= 6  # sines of several waves
    parameters = spy.Tensor.from_numpy(device, start).with_grads(zero=True)
    optimizer = spy.optim.Adam([parameters], lr=0.01)
    addresses = parameters.storage.device_address, parameters.grad.storage.device_address

    rows, columns = np.mgrid[1:-1:120j, -1:1:120j].astype(np.float32)
    grid = np.stack([columns, rows], -1)
    progress, fields = show.Progress(steps), {}
    for step in range(1, steps + 1):
        if step in (1, steps // 10, steps):
            fields[step] = module.value(grid, addresses[0], _result="numpy")
        places = random.uniform(-1, 1, (points, 2)).astype(np.float32)
        wanted = figure(*places.T).astype(np.float32)
        optimizer.zero_grad()
        progress.add(module.train(places, wanted, *addresses, _result="numpy").mean())
        parameters.grad.copy_from_numpy(parameters.grad.to_numpy() / points)
        optimizer.step()

    unused = spy.Tensor.zeros(device, start.shape, "float").storage.device_address
    sparse = grid[6::12, 6::12]
    normals = module.normal(sparse, addresses[0], unused, _result="numpy")
    draw(out, figure(columns, rows), fields, sparse, normals)
    return progress.losses


def draw(out, true, fields, places, normals):
    with show.picture(out, (10, 2.9)) as page:
        axes = page.subplots(1, 4)
        panels = [("The distance", true), *((f"Step {step}", field) for step, field in fields.items())]
        for panel, (title, field) in zip(axes, panels):
            x = np.linspace(-1, 1, field.shape[1])
            panel.contourf(
                x, -x, field, levels=np.linspace(-0.5, 1.2, 18), cmap="RdBu", extend="both", alpha=0.6
            )
            panel.contour(x, -x, field, levels=[0], colors=show.INK, linewidths=1.6)
            panel.set(xticks=[], yticks=[], aspect="equal", title=title)
        axes[-1].quiver(*places.transpose(2, 0, 1), *normals.transpose(2, 0, 1), color=show.BLUE, width=0.005)


if __name__ == "__main__":
    options = show.options(__doc__, "distances.png")
    main(**(QUICK if options.quick else {}), out=options.out)
