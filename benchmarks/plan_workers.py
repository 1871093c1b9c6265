"""CPU seconds of planning a step of a transformer of 24 layers for 1,024 workers that are not here.

    python benchmarks/plan_workers.py

Nothing is compiled and no parameter takes memory: an array shows one number as all of its elements. A row of the table
is a way to put the workers on a mesh, with the CPU seconds of this process and the step's time by the cost model.
"""

from time import process_time

import numpy as np

import slangrad as spy
from slangrad import graph

LAYERS, WIDTH, HEADS, LENGTH, ROWS = 24, 1024, 16, 128, 8  # rows: sequences of a worker
WAYS = {
    "data": ({"data": 1024}, {}),
    "data, state cut": ({"data": 1024}, {"partition": "states"}),
    "data and model, found": ({"data": 128, "model": 8}, {"partition": "auto"}),
    "data and stages": ({"data": 128, "stages": 8}, {"microbatches": 8}),
}


def seen(*shape):
    """An array of zeros that takes no memory."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, (0,) * len(shape))


def layer():
    shapes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "o": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    return {name: seen(*shape) for name, shape in shapes.items()}


def loss(p, x, y):
    for w in p:
        q, k, v = np.split(graph.layer_norm(x) @ w["qkv"], 3, axis=-1)
        q, k, v = (t.reshape(*t.shape[:2], HEADS, -1).swapaxes(1, 2) for t in (q, k, v))
        scores = graph.softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
        x = x + (scores @ v).swapaxes(1, 2).reshape(x.shape) @ w["o"]
        x = x + np.maximum(graph.layer_norm(x) @ w["up"], 0) @ w["down"]
    return ((x - y) ** 2).mean()


def main():
    x = seen(ROWS, LENGTH, WIDTH)
    print("| mesh | CPU s of planning | step | memory of a worker |\n| --- | --- | --- | --- |")
    for name, (sizes, settings) in WAYS.items():
        step = graph.train(loss, spy.optim.Adam([layer() for _ in range(LAYERS)]), **settings)
        start = process_time()
        planned = graph.simulate(step, x, x, graph.cluster(**sizes))
        cells = (
            name,
            f"{process_time() - start:.1f}",
            f"{planned.seconds:.3g} s",
            f"{planned.peak / 2**20:.0f} MiB",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
