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


LEFT_BEFORE = """
try:
    step(np.ones((4, {columns})))
except graph.GraphError as error:
    print("caught", "matmul: shapes" in str(error))
    {then}
except graph.WorkerLost as error:
    print(error)
    sys.exit()
try:
    step(np.full((4, 3), 2.0))
    print("stepped", float(step(np.ones((4, 3)))))
except graph.WorkerLost as error:
    print(error)
"""


def test_an_error_before_a_step_on_all_workers(start: Starter) -> None:
    for end in start(BEFORE + LEFT_BEFORE.format(columns=2, then=""), 2):
        assert end.code == 0 and end.output.startswith("caught True\nstepped "), end.output


@pytest.mark.parametrize("then", ["", "sys.exit()"])
def test_an_error_before_a_step_on_one_worker(start: Starter, then: str) -> None:
    """Its next step would have met this one of the other worker."""
    program = BEFORE + LEFT_BEFORE.format(columns="2 + (mesh.rank == 0)", then=then)
    first, second = start(program, 2)
    assert first.code == second.code == 0, first.output + second.output
    words = "GraphError: error[E1042]: "
    assert first.output.startswith("worker 1 ") and words in first.output, first.output
    if then:
        assert "has ended its program, at step 1, outside of a collective, after" in first.output
        return
    difference = "the last error before a step is GraphError: error[E1042]: "
    assert difference in first.output and " on worker 1 and none on worker 0" in first.output, first.output
    assert difference in second.output and second.output.startswith("caught True\nworker 1 "), second.output


LAST_STEP = """
import numpy as np
import slangrad as spy
from slangrad import graph
from torch.distributed import destroy_process_group

def loss(p, x, scale):
    return (np.tanh(x @ p["w"]) @ p["v"]).mean() * scale

def new():
    p = {{"w": np.eye(4), "v": np.eye(4)}}
    return graph.train(loss, spy.optim.SGD(p, lr=0.1), mesh=mesh, **{settings})

mesh, x, scale = {mesh}, np.ones((8, 4)), 1.0
step, other = new(), new()
{before}
for step.optimizer.lr in (0.2, 0.1):  # alike on all workers
    for each in (step, other):
        each(x, np.float64(scale))
if mesh.rank == mesh.workers - 1:
    {change}
try:
    step(x, np.float64(scale))
finally:
    destroy_process_group()
"""
RATE = (
    "step.optimizer.lr = 0.5",
    "lr is 0.5 on worker {last} and 0.1 on worker 0; all workers set the same numbers",
)
LAST_STEPS = {
    "rate": ({}, RATE),
    "number": (
        {},
        ("scale = 3", "array 1 of the batch is 3 on worker {last} and 1 on worker 0; all workers set"),
    ),
    "step function": (
        {},
        ("step = other", "number of the step function is 2 on worker {last} and 1 on worker 0"),
    ),
    "bits": ({"settings": {"consistent": "bits"}}, RATE),
    "stages": ({"mesh": "graph.mesh('stages')"}, RATE),
    "parameters": ({"settings": {"partition": "parameters"}}, RATE),
    "four": ({"mesh": "graph.mesh(data=2, model=2)", "workers": 4}, RATE),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LAST_STEPS)
def test_another_last_step(start: Starter, name: str) -> None:
    """Nothing comes after it: the step itself finds what differs, on all workers."""
    given, (change, words) = LAST_STEPS[name]
    workers = given.get("workers", 2)
    fields = {"mesh": "graph.mesh('data')", "settings": {}, "before": "", "change": change, **given}
    for end in start(LAST_STEP.format(**fields), workers):
        assert end.code == 1, end.output
        assert f"worker {workers - 1} made another plan of the step than worker" in end.output, end.output
        assert words.format(last=workers - 1) in end.output, end.output


def test_another_last_step_is_not_saved(start: Starter, tmp_path: Path) -> None:
    before = f"graph.checkpoint(step, {str(tmp_path)!r}, every=3)"
    fields = {"mesh": "graph.mesh('data')", "settings": {}, "before": before, "change": RATE[0]}
    for end in start(LAST_STEP.format(**fields), 2):
        assert end.code == 1 and RATE[1].format(last=1) in end.output, end.output
    assert not list(tmp_path.glob("step-*"))


DAEMON = """
import threading, time

def work():
    while True:
        step(np.ones((4, 3)))

threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""


def test_a_thread_that_steps_while_the_program_ends(start: Starter) -> None:
    """PyTorch would abort the process in such a thread."""
    for rank, end in enumerate(start(BEFORE + DAEMON, 2)):
        assert end.code == 0, end.output
        assert "has ended its program, but not its thread that steps: join the thread" in end.output, rank


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
