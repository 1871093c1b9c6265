"""Steps of two workers of one thread each, measured, beside what `graph.simulate` says of them.

    PYTHONPATH=. torchrun --nproc-per-node 2 benchmarks/simulated.py [rounds]

Each worker has one processor. Links, kernels and steps are measured in turn in each round; times are the least of all.
"""

import os
import sys
from time import perf_counter

import machine
import numpy as np

import slangrad as spy
from slangrad import graph

SIZES = {"small": (128, 256), "middle": (256, 1024), "large": (512, 2048)}  # rows of a worker, width
STEPS = 10


def loss(p, x, y):
    h = np.tanh(x @ p["w1"] + p["b1"])
    h = np.tanh(h @ p["w2"] + p["b2"])
    return ((h @ p["w3"] - y) ** 2).mean()


def made(mesh, rows, width):
    """A step, and the rows of this worker."""
    random = np.random.default_rng(0)
    matrix = lambda *shape: random.normal(0, 0.02, shape).astype(np.float32)
    p = {f"w{i}": matrix(width, width) for i in (1, 2, 3)} | {f"b{i}": matrix(width) for i in (1, 2)}
    return graph.train(loss, spy.optim.SGD(p, lr=1e-3), mesh=mesh), [matrix(rows, width) for _ in range(2)]


def seconds_of(step, batch):
    """The least of some steps."""
    seconds = []
    for _ in range(STEPS):
        start = perf_counter()
        step(*batch)
        seconds.append(perf_counter() - start)
    return min(seconds)


def main(rounds):
    rank = int(os.environ["LOCAL_RANK"])
    os.sched_setaffinity(0, {machine.cpu_of(rank)})
    mesh = graph.mesh("data")
    steps = {name: made(mesh, *size) for name, size in SIZES.items()}
    for step, batch in steps.values():
        step(*batch)
    measured, simulated = ({name: [] for name in SIZES} for _ in range(2))
    for _ in range(rounds):
        cluster = graph.cluster(mesh.workers, graph.measure_links())
        for name, (step, batch) in steps.items():
            measured[name].append(seconds_of(step, batch))
            simulated[name].append(graph.simulate(step, *batch, cluster, measured=True))
    for name in SIZES if rank == 0 else ():
        least, best = min(measured[name]), min(simulated[name], key=lambda simulation: simulation.seconds)
        print(f"{name:8} measured {least * 1e3:8.2f} ms   simulated {best.seconds * 1e3:8.2f} ms   "
              f"{best.seconds / least - 1:+.1%}   compute {best.compute * 1e3:.2f}, "
              f"communication {best.communication * 1e3:.2f}, hidden {best.hidden * 1e3:.2f} ms")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
