"""Timelines of measured steps, and traces of timelines that browsers read."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.meshes.mesh import ONE
from slangrad.graph.workers.simulation.events import COMPARED, COMPARISON
from slangrad.graph.workers.simulation.recorded import StepRecorder
from slangrad.graph.workers.simulation.timeline import Timeline
from tests.graph.workers.processes import Starter
from tests.graph.workers.threads import run


def layers(p: Any, x: Any) -> Any:
    for w in p:
        x = np.tanh(x @ w)
    return (x**2).mean()


def parameters() -> list[np.ndarray]:
    return [np.full((6, 6), 0.1 * k) for k in range(1, 5)]


X = np.linspace(-1, 1, 48).reshape(8, 6)


def trace_of(timeline: Timeline, folder: Path) -> list[dict[str, Any]]:
    timeline.save(folder / "step.json")
    events: list[dict[str, Any]] = json.loads((folder / "step.json").read_text())["traceEvents"]
    return events


# --- traces


def test_the_trace_of_a_simulated_step(tmp_path: Path) -> None:
    step = graph.train(layers, spy.optim.SGD(parameters(), lr=0.1))
    simulated = graph.simulate(step, X, graph.cluster(4))
    events = trace_of(simulated, tmp_path)
    bars = [event for event in events if event["ph"] == "X"]
    assert [bar["name"] for bar in bars] == [event.name for event in simulated.events]
    assert max(bar["ts"] + bar["dur"] for bar in bars) == pytest.approx(1e6 * simulated.seconds)
    names = {(row["pid"], row.get("tid")): row["args"]["name"] for row in events if row["ph"] == "M"}
    assert names == {(0, None): "4 workers (data=4)", (0, 0): "compute", (0, 1): "communication"}
    assert {bar["tid"] for bar in bars if bar["cat"] == "communication"} == {1}
    assert sum(bar["args"]["is on the critical path"] for bar in bars) == len(simulated.path)
    sums = [bar["args"]["bytes"] for bar in bars if bar["name"] == "all_reduce over data"]
    assert [COMPARED, *sums] == [event.nbytes for event in simulated.events if event.nbytes]


def test_the_trace_of_stages_has_a_process_for_each(tmp_path: Path) -> None:
    step = graph.train(layers, spy.optim.SGD(parameters(), lr=0.1), microbatches=4)
    events = trace_of(graph.simulate(step, X, graph.cluster(stages=2)), tmp_path)
    processes = {row["pid"]: row["args"]["name"] for row in events if row["name"] == "process_name"}
    assert processes == {0: "a worker of stage 0", 1: "a worker of stage 1"}
    for pid in processes:
        ends: dict[int, float] = {}
        rows = [row for row in events if row["ph"] == "X" and row["pid"] == pid]
        for row in sorted(rows, key=lambda row: row["ts"]):  # bars of a thread follow each other
            assert row["ts"] >= ends.get(row["tid"], 0.0) - 1e-6
            ends[row["tid"]] = row["ts"] + row["dur"]


# --- recorded by hand


def test_exchanges_between_kernels() -> None:
    """gather      |=======|
    sum          |===========|
    kernels  |=a=| |=b=|       |=c=|"""
    recorder = StepRecorder(3, begin=100.0)
    recorder.compute("a", 101.0, 102.0)
    gather = recorder.began("gather", 64, 102.0, SimpleNamespace(has_ended=False))
    total = recorder.began("sum", 8, 102.5, SimpleNamespace(has_ended=False))
    recorder.compute("b", 103.0, 104.0)
    recorder.ended(gather, 104.5)
    recorder.ended(total, 105.0)
    recorder.compute("c", 105.0, 106.0)
    timeline = recorder.timeline(ONE, 7)
    assert [event.name for event in timeline.path] == ["call of the step", "a", "sum", "c"]
    assert (timeline.compute, timeline.communication, timeline.hidden) == (4.0, 3.0, 1.0)
    spans = {event.name: (event.start, event.stop, event.lane) for event in timeline.events}
    assert spans["gather"] == (2.0, 4.5, 3) and spans["sum"] == (2.5, 5.0, 3)


def test_an_exchange_ends_with_the_kernel_after_which_it_is_seen() -> None:
    recorder = StepRecorder(0, begin=0.0)
    number = recorder.began("sum", 8, 0.0, SimpleNamespace(has_ended=True))
    recorder.compute("a", 1.0, 2.0)
    recorder.ended(number, 9.0)
    assert recorder.events[number].stop == 2.0


# --- steps


def test_a_measured_step_of_one_worker_is_a_step() -> None:
    p, q = parameters(), parameters()
    step, other = (graph.train(layers, spy.optim.SGD(x, lr=0.1)) for x in (p, q))
    timeline = step.timeline(X)
    other(X)
    np.testing.assert_array_equal(p, q)
    assert (step.optimizer.steps, timeline.communication) == (1, 0.0)
    assert 0 < timeline.compute <= timeline.seconds
    assert str(timeline).startswith("1 worker  ") and "memory of a worker" in str(timeline)
    assert step(X) == other(X)  # which is not recorded
    assert timeline.events[0].name == "call of the step"


@pytest.mark.parametrize("partition", [None, "parameters"])
def test_a_measured_step_has_the_exchanges_of_its_plan(partition: str | None) -> None:
    def work(mesh: Any) -> tuple[list[str], list[str]]:
        step = graph.train(layers, spy.optim.SGD(parameters(), lr=0.1), mesh=mesh, partition=partition)
        rows = np.split(X, 2)[mesh.rank]
        timeline = step.timeline(rows)
        simulated = graph.simulate(step, rows, graph.cluster(2))
        measured = [event.name for event in timeline.events if event.nbytes]
        return sorted([COMPARISON, *measured]), sorted(
            event.name for event in simulated.events if event.nbytes
        )

    for measured, simulated in run({"data": 2}, work):  # workers that are threads compare no steps
        assert measured == simulated != [COMPARISON]


STAGES = """
import numpy as np
import slangrad as spy
from slangrad import graph

def loss(p, x):
    for w in p:
        x = np.tanh(x @ w)
    return (x ** 2).mean()

mesh = graph.mesh("stages")
step = graph.train(loss, spy.optim.SGD([np.eye(6) for _ in range(4)], lr=0.1), mesh=mesh, microbatches=2)
x = np.ones((8, 6))
step(x)
timeline = step.timeline(x)
messages = [event for event in timeline.events if event.queue == "communication"]
assert all(0 < event.seconds < timeline.seconds for event in messages), messages
print(timeline.workers, sorted({event.name for event in messages}), step.optimizer.steps)
"""


def test_a_measured_step_of_stages_has_its_messages(start: Starter) -> None:
    first, second = start(STAGES, 2)
    assert first.code == second.code == 0, first.output + second.output
    names = (
        "worker 0 of 2 workers (stages=2) ['comparison of steps', 'receive 1 from stages=1', 'receive 2 from stages=1',"
        " 'send 0 to"
    )
    assert first.output.startswith(names) and first.output.endswith(" 2\n"), first.output
    assert (
        "worker 1 of 2 workers (stages=2) ['comparison of steps', 'receive 0 from stages=0'" in second.output
    )


def test_bits_have_no_timeline() -> None:
    step = graph.train(
        layers, spy.optim.SGD(parameters(), lr=0.1), mesh=graph.mesh("data"), consistent="bits"
    )
    with pytest.raises(ValueError, match="consistent='bits' has no timeline"):
        step.timeline(X)


def test_an_error_of_a_step_ends_the_record() -> None:
    def lookup(p: Any, i: Any) -> Any:
        return p[0][i].sum()

    step = graph.train(lookup, spy.optim.SGD(parameters(), lr=0.1))
    with pytest.raises(spy.BoundsError):
        step.timeline(np.array([9]))
    assert step(np.array([1])) == pytest.approx(0.6)
