"""Processes that gloo connects make the steps of one: the program is the same for any number of workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.graph.workers.processes import Starter

PROGRAM = """
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x, y):
    return ((np.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()

r = np.random.default_rng(0)
p = {"w": r.normal(size=(12, 8)), "b": r.normal(size=8)}
x, y = r.normal(size=(3, 16, 12)), r.normal(size=(3, 16, 8))
mesh = graph.mesh("data")
n = 16 // mesh.workers
rows = slice(mesh.rank * n, mesh.rank * n + n)
step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), mesh=mesh, partition=PARTITION)
for x, y in zip(x, y):
    print(float(step(x[rows], y[rows])))
for each in step.parameters.values():
    print(np.linalg.norm(each if isinstance(each, np.ndarray) else each.to_numpy()))
"""


def test_processes_make_the_steps_of_one(start: Starter, tmp_path: Path) -> None:
    quick = {"SLANGRAD_VERIFY": "0", "SLANGRAD_CACHE": str(tmp_path)}  # kernels of one are those of the next
    found = []
    for workers, partition in ((1, None), (2, None), (4, "parameters")):
        for end in start(PROGRAM.replace("PARTITION", repr(partition)), workers, 100, **quick):
            assert end.code == 0, end.output
            found.append(np.array(end.output.split(), float))
    assert found[0].size == 5
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-9)
