"""Programs of workers that differ by mistake: one error that says what differs, on all workers, and no wrong numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.processes import Starter
from tests.graph.workers.threads import run

BEFORE = """
import os, sys
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x):
    return ((x @ p["w"]) ** 2).mean()

mesh = graph.mesh("data")
step = graph.train(loss, spy.optim.SGD({"w": np.eye(3)}, lr=0.1), mesh=mesh)
step(np.ones((4, 3)))
"""

OTHER_ROWS = """
try:
    step(np.ones((3 if mesh.rank == 1 else 4, 3)))
except graph.WorkerLost as error:
    print(error)
"""


def test_other_rows_in_a_later_step(start: Starter) -> None:
    """Two workers have the plan of their rows, and one makes another one."""
    for rank, end in enumerate(start(BEFORE + OTHER_ROWS, 3)):
        assert end.code == 0, end.output
        assert "run different programs: step " in end.output, (rank, end.output)
        assert "worker 1 is at a step with a batch of f64[3,3]" in end.output
        assert "is at a step with a batch of f64[4,3]" in end.output
        assert "all workers pass arrays of the same shape and dtype: leave out or pad rows" in end.output


OTHER_RATE = """
if mesh.rank == 1:
    step.optimizer.lr = 0.2
try:
    print(step(np.ones((4, 3))) > 0)  # it ends before others read of it
    {call}
    print("was not seen")
except (graph.WorkerLost, graph.GraphError) as error:
    print(error)
"""
SAVED = """
graph.checkpoint(step, {folder!r}, every=2)
"""


@pytest.mark.parametrize("call", ["graph.mesh('data')", "graph.measure_links()"])
def test_another_rate_is_seen_by_the_next_call(start: Starter, call: str) -> None:
    for end in start(BEFORE + OTHER_RATE.format(call=call), 2):
        assert (end.code, end.output[:5]) == (0, "True\n"), end.output
        assert "made another plan of the step" in end.output or "run different programs" in end.output


def test_steps_that_differ_are_not_saved(start: Starter, tmp_path: Path) -> None:
    program = BEFORE + SAVED.format(folder=str(tmp_path)) + OTHER_RATE.format(call="step.wait()")
    for end in start(program, 2):
        assert (end.code, end.output[:5]) == (0, "True\n"), end.output
        assert "E1049" in end.output and "workers have made other steps" in end.output, end.output
    assert not list(tmp_path.glob("step-*"))


CHILD = """
child = os.fork()
if not child:
    calls = [lambda: step(np.ones((4, 3))), lambda: step(np.ones((2, 3))), lambda: graph.mesh("data")]
    for call in [*calls, lambda: graph.measure_links(), lambda: step.timeline(np.ones((4, 3)))]:
        try:
            call()
        except graph.GraphError as error:
            print(error.code, f"worker {mesh.rank} has forked is no worker" in str(error), flush=True)
    sys.exit()
os.waitpid(child, 0)
print(step(np.ones((4, 3))))
"""


def test_a_child_of_a_fork_is_no_worker(start: Starter) -> None:
    """It has the sockets of its parent, whose exchanges it would disturb."""
    outputs = []
    for end in start(BEFORE + CHILD, 2):
        assert end.code == 0, end.output
        *errors, value = end.output.splitlines()
        assert errors == ["E1048 True"] * 5, end.output
        outputs.append(value)
    assert outputs[0] == outputs[1]


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((x @ p["w"] - y) ** 2).mean()


@pytest.mark.parametrize(
    ("sizes", "batch", "place", "words"),
    [
        (
            {"data": 2, "model": 2},
            ("data",),
            "model",
            "array 1 of the batch is not the same on workers along model",
        ),
        ({"model": 2}, (), "model", "array 1 of the batch is not the same on workers along model"),
        ({"stages": 2}, (), "stages", "array 1 of the batch is not the same on workers along stages"),
        (
            {"model": 2, "data": 1, "more": 2},
            ("data",),
            "more",
            "array 1 of the batch is not the same on workers along model and more",
        ),
    ],
    ids=str,
)
def test_rows_that_are_to_be_the_same(
    sizes: dict[str, int], batch: tuple[str, ...], place: str, words: str
) -> None:
    """The losses of workers would differ, and so would their copies of parameters."""

    def work(mesh: Mesh) -> tuple[str, str, Any]:
        optimizer = spy.optim.SGD({"w": np.eye(3)}, lr=0.1)
        step = graph.train(loss, optimizer, mesh=mesh, microbatches=1)
        x, y = np.ones((4, 3)), np.full((4, 3), 2.0)
        with pytest.raises(graph.GraphError) as caught:
            step(x, y + mesh.coordinates[place])
        return caught.value.code, str(caught.value), step(x, y)

    for code, message, value in run(sizes, work, batch):
        assert code == "E1048" and words in message
        assert value == 1.0


def test_rows_of_places_along_the_batch_differ() -> None:
    def work(mesh: Mesh) -> Any:
        step = graph.train(loss, spy.optim.SGD({"w": np.eye(3)}, lr=0.1), mesh=mesh)
        return step(np.ones((4, 3)), np.full((4, 3), 2.0 * mesh.coordinates["data"]))

    assert run({"data": 2, "model": 2}, work) == [1.0] * 4
