"""Several processes train one network: each has its rows of a batch.

python examples/graph/data_parallel.py                                  one worker
torchrun --nproc-per-node 2 examples/graph/data_parallel.py             two: the same numbers, up to rounding
"""

import sys

import numpy as np

import slangrad as spy
from slangrad import graph

try:
    from sklearn.datasets import load_digits
except ImportError:
    sys.exit("scikit-learn brings the digits: pip install 'slangrad[examples]'")

TRAINED, STEPS, BATCH = 1437, 200, 64


def load():
    """Rows of 64 pixels from 0 to 1, and their digits, in the same random order on all workers."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return found.data[order] / 16, found.target[order]


def parameters():
    """The same seed on all workers: they must begin alike."""
    random = np.random.default_rng(1)
    matrix = lambda rows, columns: random.normal(0, rows**-0.5, (rows, columns))
    return {"w1": matrix(64, 128), "b1": np.zeros(128), "w2": matrix(128, 10), "b2": np.zeros(10)}


def logits(p, x):
    return np.maximum(x @ p["w1"] + p["b1"], 0) @ p["w2"] + p["b2"]


def loss(p, x, digits):
    """Of all rows of the batch: the mean is over those of all workers."""
    return -np.take_along_axis(graph.log_softmax(logits(p, x)), digits[:, None], 1).mean()


def main():
    mesh = graph.mesh("data")  # all workers that torchrun has started, or this process alone
    rank, workers = mesh.rank, mesh.workers
    pixels, digits = load()
    p = parameters()
    step = graph.train(loss, spy.optim.Adam(p, lr=3e-3), mesh=mesh)
    random = np.random.default_rng(2)  # all workers draw the same batch, and each takes another part of it
    for i in range(1, STEPS + 1):
        batch = random.integers(0, TRAINED, BATCH)
        mine = np.split(batch, workers)[rank]
        value = step(pixels[mine], digits[mine])
        if rank == 0 and i in (1, 50, 100, STEPS):
            print(f"step {i:3}   loss {value:.4f}")
    if rank == 0:  # all workers have the same parameters again
        right = logits(p, pixels[TRAINED:]).argmax(1) == digits[TRAINED:]
        print(f"{workers} worker{'s'[: workers > 1]} read {right.mean():.1%} of {right.size} new digits")


if __name__ == "__main__":
    main()
