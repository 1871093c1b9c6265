"""Processes that gloo connects make the steps of one: the program is the same for any number of workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graph.workers.processes import Starter

PROGRAM = """
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x, y):
    return ((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()

r = np.random.default_rng(0)
p = {"w": r.normal(size=(12, 8)), "b": r.normal(size=8), "v": r.normal(size=(8, 8))}
x, y = r.normal(size=(3, 16, 12)), r.normal(size=(3, 16, 8))
mesh = graph.mesh(MESH)
n = 16 // mesh.sizes.get("data", 1)
first = n * mesh.coordinates.get("data", 0)
rows = slice(first, first + n)
step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), mesh=mesh, KNOWN)
for x, y in zip(x, y):
    print(float(step(x[rows], y[rows])))
for each in step.parameters.values():
    print(np.linalg.norm(each if isinstance(each, np.ndarray) else each.to_numpy()))
"""
RUNS = [
    (1, "'data'", ""),
    (2, "'data'", ""),
    (2, "stages=2", "microbatches=4"),
    (4, "'data'", "partition='parameters'"),
    (4, "stages=2, data=2", "microbatches=2"),
    (4, "stages=2, data=2", "microbatches=2, partition='auto'"),
]


@pytest.mark.parametrize("runs", [RUNS[::2], pytest.param(RUNS, marks=pytest.mark.deep)], ids=["some", "all"])
def test_processes_make_the_steps_of_one(
    start: Starter, tmp_path: Path, runs: list[tuple[int, str, str]]
) -> None:
    quick = {"SLANGRAD_VERIFY": "0", "SLANGRAD_CACHE": str(tmp_path)}  # kernels of one are those of the next
    found = []
    for workers, mesh, known in runs:
        for end in start(PROGRAM.replace("MESH", mesh).replace("KNOWN", known), workers, 100, **quick):
            assert end.code == 0, end.output
            found.append(np.array(end.output.split(), float))
    assert found[0].size == 6
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-9)
