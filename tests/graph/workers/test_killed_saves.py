"""A worker that is killed at any step of a save: another number of workers goes on from the last complete checkpoint."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.graph.workers.processes import End, Starter, quick_starter

BEFORE = """
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x):
    return ((np.tanh(x @ p["w"]) @ p["v"]) ** 2).mean()

def trained(mesh, folder):
    r = np.random.default_rng(0)
    p = {"w": r.normal(size=(12, 24)), "v": r.normal(size=(24, 6))}
    step = graph.train(loss, spy.optim.Adam(p, lr=1e-2), mesh=mesh, partition="states")
    rows = np.split(r.normal(size=(12, 12)), mesh.workers)[mesh.rank]
    return step, rows, graph.checkpoint(step, folder, every=1)
"""
# Each file that a save opens, makes, names or removes is a step of it, and each tensor that it writes.
SAVE = """
import os, signal, sys, threading
from slangrad.graph.workers.checkpoints import storage

mesh, folder, steps = graph.mesh("data"), {folder!r}, []
step, rows, _ = trained(mesh, folder)

def reach(name):
    if threading.current_thread() is not threading.main_thread() and step.optimizer.steps == 2:
        if (mesh.rank, len(steps)) == ({who}, {at}):
            os.kill(os.getpid(), signal.SIGKILL)
        steps.append(name)

def hear(event, arguments):
    if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir") and folder in str(arguments[0]):
        reach(event)

class Planner(storage._SavePlanner):
    def lookup_object(self, index):
        reach("tensor")
        return super().lookup_object(index)

storage._SavePlanner = Planner
try:
    step(rows)
    step.wait()
    sys.addaudithook(hear)
    step(rows)
    step.wait()
    print(*steps)
    step(rows)  # one that was killed after its last message is missed here
except graph.WorkerLost as error:
    print("lost", error.rank, error.collective)
"""
RESUME = """
step, rows, start = trained(graph.mesh("data"), {folder!r})
print(start, step(rows))
step.wait()
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    with quick_starter(BEFORE, tmp_path_factory) as starter:
        yield starter


@pytest.fixture(scope="module")
def losses(start: Starter, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Those of the first steps."""
    program = (
        'print(*[step(rows) for step, rows, _ in [trained(graph.mesh("data"), {!r})] for _ in range(3)])'
    )
    (end,) = start(program.format(str(tmp_path_factory.mktemp("run"))), 1)
    return [float(word) for word in end.output.split()]


def steps_of(start: Starter, folder: Path) -> list[list[str]]:
    """The steps of a save that is not killed, for each worker."""
    return [end.output.split() for end in start(SAVE.format(folder=str(folder), who=-1, at=0), 2)]


def killed(start: Starter, folder: Path, places: list[tuple[int, int]]) -> list[list[End]]:
    """Two workers each, of which one is killed at a step of its second save."""
    programs = [SAVE.format(folder=str(folder / f"{who} {at}"), who=who, at=at) for who, at in places]
    return start.together(programs, 2)


def check(start: Starter, folder: Path, places: list[tuple[int, int]], losses: list[float]) -> None:
    """Workers go on from the first save: the last step of a save gives its folder the name, so none of these did."""
    for (who, at), ends in zip(places, killed(start, folder, places), strict=True):
        assert ends[who].code == -signal.SIGKILL, ends[who].output
        other = ends[1 - who]
        assert other.code == 0 and f"lost {who} " in other.output, other.output
        run = folder / f"{who} {at}"
        assert [path.name for path in run.glob("step-*")] == ["step-00000001"]
    programs = [RESUME.format(folder=str(folder / f"{who} {at}")) for who, at in places]
    for (who, at), ends in zip(places, start.together(programs, 3), strict=True):
        for end in ends:
            assert end.code == 0, (who, at, end.output)
            resumed, loss = end.output.split()
            assert int(resumed) == 1, (who, at)
            np.testing.assert_allclose(float(loss), losses[1], rtol=1e-9)
        left = sorted(path.name for path in (folder / f"{who} {at}").iterdir())
        assert left == [f"step-{number:08}" for number in (1, 2)], (who, at)


@pytest.mark.deep
def test_a_worker_is_killed_within_a_save(start: Starter, tmp_path: Path, losses: list[float]) -> None:
    names = steps_of(start, tmp_path / "whole")
    middle = [(who, names[who].index("tensor") + 1) for who in range(2)]  # one tensor is written, another not
    check(start, tmp_path, middle, losses)


@pytest.mark.deep
def test_a_worker_is_killed_at_each_step_of_a_save(
    start: Starter, tmp_path: Path, losses: list[float]
) -> None:
    names = steps_of(start, tmp_path / "whole")
    places = [(who, at) for who in range(2) for at in range(len(names[who]))]
    assert len(places) >= 20, names
    for first in range(0, len(places), 4):
        check(start, tmp_path, places[first : first + 4], losses)
