"""Steps on clusters that are not here: exact by hand, and plans that make no array of the cluster's."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.workers.connections.costs import PATTERNS, Cost, Links
from slangrad.graph.workers.simulation.events import COMPARISON
from slangrad.graph.workers.simulation.timeline import WorkerQueues, bytes_text, path_text, time_text

# A host and a network where a worker sends 1000 bytes a second; a kernel takes a second.
LINKS = Links(
    dict.fromkeys(PATTERNS, Cost(0.0, 1000.0)),
    dict.fromkeys(PATTERNS, Cost(0.0, 1000.0)),
    overlap=1.0,
    machine=MachineRates(1e30, 1e30, 1.0),
)


# --- the two queues


@pytest.mark.parametrize(("overlap", "seconds"), [(1.0, 6.0), (0.5, 7.5), (0.0, 9.0)])
def test_the_hidden_part_of_the_shorter_one(overlap: float, seconds: float) -> None:
    worker = WorkerQueues(overlap)
    worker.compute("a", 2)
    number = worker.begin("sum", 4, 0)
    worker.compute("b", 3)
    worker.wait(number)
    assert worker.now == pytest.approx(seconds)
    assert [each.name for each in worker.path] == ["a", "sum"]


def test_a_collective_that_ends_beside_a_kernel() -> None:
    worker = WorkerQueues(0.5)
    number = worker.begin("sum", 2, 0)
    worker.compute("a", 5)
    worker.wait(number)
    kernel = worker.events[1]
    assert (worker.events[0].stop, kernel.stop) == (pytest.approx(3), pytest.approx(6))  # 1.5 of 2 at once
    assert worker.path == [kernel]


def test_collectives_follow_each_other() -> None:
    worker = WorkerQueues(1.0)
    worker.compute("a", 1)
    first, second = worker.begin("first", 2, 0), worker.begin("second", 3, 0)
    worker.wait(first)
    worker.compute("b", 1)
    worker.wait(second)
    worker.compute("c", 1)
    found = [(each.name, each.start, each.stop) for each in worker.events]
    assert found == [("a", 0, 1), ("first", 1, 3), ("second", 3, 6), ("b", 3, 4), ("c", 6, 7)]
    assert [each.name for each in worker.path] == ["a", "first", "second", "c"]
    assert path_text(worker.path) == "1 kernel 1 s -> first, second 5 s -> 1 kernel 1 s"


def test_a_collective_without_bytes() -> None:
    worker = WorkerQueues(0.5)
    number = worker.begin("sum", 0, 0)
    worker.compute("a", 1)
    worker.wait(number)
    assert worker.now == 1


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (time_text(1.25), "1.25 s"),
        (time_text(0.02), "20 ms"),
        (time_text(0.0), "0 us"),
        (bytes_text(12), "12 bytes"),
        (bytes_text(1000), "0.977 KiB"),
        (bytes_text(3 << 29), "1.5 GiB"),
        (bytes_text(1 << 50), "1.02e+03 TiB"),
    ],
)
def test_texts(found: str, text: str) -> None:
    assert found == text


# --- plans


def line(p: Any, x: Any) -> Any:
    return (x @ p["w"]).sum()


def step_of(loss: Any, **shapes: Any) -> Any:
    """Of parameters that take no memory: one number is seen as all."""
    number = np.zeros(1, np.float32)
    p = {
        name: np.lib.stride_tricks.as_strided(number[:1].copy(), shape, (0,) * len(shape))
        for name, shape in shapes.items()
    }
    return graph.train(loss, spy.optim.SGD(p, lr=0.1))


X = np.ones((4, 6), np.float32)


def test_the_call_of_a_step_is_part_of_it() -> None:
    """A parameter, the rows and the settings are its arrays."""
    links = replace(LINKS, machine=MachineRates(1e30, 1e30, 1.0, 10.0, 2.0))
    step = step_of(line, w=(6, 5))
    plain, called = (graph.simulate(step, X, graph.cluster(1, each)) for each in (LINKS, links))
    assert called.seconds == plain.seconds + 10 + 3 * 2
    assert (called.events[0].name, called.events[0].seconds) == ("call of the step", 16)
    assert f"{len(plain.events)} kernels" in str(called)


def test_kernels_and_the_sum_of_gradients() -> None:
    alone = graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(1, LINKS))
    assert (alone.seconds, alone.communication) == (alone.compute, 0)
    assert [each.seconds for each in alone.events] == [1.0] * len(alone.events)
    four = graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(4, LINKS))
    sums = [each.nbytes for each in four.events if each.queue == "communication"]
    assert four.communication == pytest.approx(1.5 * sum(sums) / 1000)
    assert sum(sums) >= 4  # the loss
    assert four.seconds <= four.compute + four.communication
    assert four.hidden == pytest.approx(four.compute + four.communication - four.seconds)


def test_workers_compare_their_steps() -> None:
    """24 bytes of all workers, from the first kernel on. One worker compares nothing."""
    alone, four = (graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(n, LINKS)) for n in (1, 4))
    assert COMPARISON not in {event.name for event in alone.events}
    comparison = four.events[0]
    assert (comparison.name, comparison.nbytes, comparison.start) == (COMPARISON, 24, 0)
    assert comparison.seconds == pytest.approx(1.5 * 24 / 1000)
    slow = replace(LINKS, host=LINKS.host | {"all_reduce": Cost(100.0, 1000.0)})
    waits = graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(4, slow))
    count = sum(event.queue == "communication" for event in waits.events)
    assert waits.seconds > 400 * count  # two doublings, there and back


def test_workers_on_several_hosts() -> None:
    slow = Links(LINKS.host, dict.fromkeys(PATTERNS, Cost(10.0, 1e30)), 8, 0.0, LINKS.machine)
    near, far = (
        graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(8, slow, hosts)) for hosts in (8, 2)
    )
    count = sum(each.queue == "communication" for each in far.events)
    rounds = 2 * 2 * 10.0  # 4 hosts: two doublings, there and back
    assert far.seconds - near.seconds == pytest.approx(count * rounds, rel=1e-2)


def test_the_slowest_worker() -> None:
    given = step_of(line, w=(6, 5)), X
    usual = graph.simulate(*given, graph.cluster(64, LINKS))
    slow = graph.cluster(64, LINKS, stragglers=0.1, seed=3)
    assert 1.1 < slow.slowest < 1.5
    assert graph.simulate(*given, slow).compute == pytest.approx(usual.compute * slow.slowest)
    assert slow.slowest == graph.cluster(64, LINKS, stragglers=0.1, seed=3).slowest


def two_layers(p: Any, x: Any) -> Any:
    w1, w2 = graph.shard(p["w1"], None, "model"), graph.shard(p["w2"], "model", None)
    return (np.tanh(x @ w1) @ w2).mean()


def test_axes_of_the_mesh() -> None:
    step = step_of(two_layers, w1=(6, 64), w2=(64, 6))
    found = graph.simulate(step, X, graph.cluster(data=16, model=8))
    names = {each.name for each in found.events if each.queue == "communication"}
    assert names == {"all_reduce over data", "all_reduce over model", COMPARISON}
    assert found.workers == "128 workers (data=16, model=8)"
    assert [tuple(each.shape) for each in step.optimizer.parameters] == [(6, 64), (64, 6)]  # they stay whole


def test_parameters_that_this_machine_could_not_hold() -> None:
    side = 1 << 15  # 4 GiB for each matrix
    step = step_of(two_layers, w1=(side, side), w2=(side, side))
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (8, side), (0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = graph.simulate(step, x, graph.cluster(data=128, model=8))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
    assert found.peak > 2 * side * side * 4 // 8


def test_measured_kernels() -> None:
    step = step_of(line, w=(6, 5))
    found = graph.simulate(step, X, graph.cluster(2, LINKS), measured=True)
    assert found.compute > 0
    assert all(0 < each.seconds < 1 for each in found.events if each.queue == "compute")


def test_the_mesh_of_a_step() -> None:
    mesh = graph.cluster(data=2)
    p = {"w": np.zeros((6, 5), np.float32)}
    step = graph.train(line, spy.optim.SGD(p, lr=0.1), mesh=mesh)
    with pytest.raises(graph.GraphError, match=r"graph\.mesh\(data=2\) is only planned for"):
        step(X)


@pytest.mark.parametrize("sizes", [{"workers": 6, "data": 2, "model": 2}, {"data": 0}])
def test_sizes_that_do_not_fit(sizes: Any) -> None:
    with pytest.raises(graph.GraphError, match="E1048"):
        graph.cluster(**sizes)


def test_bits_have_no_plan_for_clusters() -> None:
    p = {"w": np.zeros((6, 5), np.float32)}
    mesh = graph.mesh("data")
    step = graph.train(line, spy.optim.SGD(p, lr=0.1), mesh=mesh, consistent="bits")
    with pytest.raises(ValueError, match="consistent='bits'"):
        graph.simulate(step, X, graph.cluster(2))


# --- what is shown


def test_explain_tells_of_shards_and_exchanges() -> None:
    p = {"w1": np.zeros((6, 64), np.float32), "w2": np.zeros((64, 6), np.float32)}
    step = graph.train(two_layers, spy.optim.SGD(p, lr=0.1), mesh=graph.cluster(data=2, model=4))
    shown = [line.partition("  #")[0].rstrip() for line in str(step.explain(X)).splitlines()]
    assert "f32[8,6] [data, -] batch0" in shown
    assert "f32[64,6] [model, -] parameter1" in shown
    assert "f32[8,64] [data, model] tanh" in shown
    assert any(line.startswith("  all_reduce over model ") for line in shown)
    assert any(line.startswith("critical path: ") for line in shown)
    slow = Links(dict.fromkeys(PATTERNS, Cost(7.0, 1e30)), workers_per_host=8)
    assert "all_reduce over data" in str(step.explain(X, links=slow))
    assert " 14 s " in str(step.explain(X, links=slow))  # two rounds along "data"


def test_explain_of_one_worker_does_not() -> None:
    step = graph.train(two_layers, spy.optim.SGD({"w1": X[:, :4].copy(), "w2": X[:, :4].copy()}, lr=0.1))
    assert step.explain(X[:, :4]).workers == ""


def test_the_table() -> None:
    step = step_of(two_layers, w1=(6, 64), w2=(64, 6))
    found = graph.simulate(step, X, graph.cluster(4, LINKS, data=2, model=2))
    first, *rows, last = str(found).splitlines()
    assert first.split() == [
        "4",
        "workers",
        "(data=2,",
        "model=2)",
        *time_text(found.seconds).split(),
        "a",
        "step",
    ]
    assert [row.split("  ")[0] for row in rows if row[0] != " "] == [
        "compute",
        "communication",
        "memory of a worker",
    ]
    assert last.startswith("critical path: ")


def test_the_picture(tmp_path: Path) -> None:
    found = graph.simulate(step_of(line, w=(6, 5)), X, graph.cluster(4, LINKS))
    found.save(tmp_path / "step.svg")
    picture = ElementTree.parse(tmp_path / "step.svg").getroot()
    bars = [each for each in picture if each.tag.endswith("rect")]
    assert len(bars) == len(found.events)
    assert [bar[0].text for bar in bars] == [
        f"{each.name}, {time_text(each.seconds)}" for each in found.events
    ]
    assert float(bars[-1].attrib["x"]) + float(bars[-1].attrib["width"]) <= float(picture.attrib["width"])
    found.save(tmp_path / "step.html")
    assert "critical path" in (tmp_path / "step.html").read_text()


@pytest.mark.parametrize(
    "make",
    [
        lambda: graph.cluster(workers=0), lambda: graph.cluster(workers=1.5), lambda: graph.cluster(workers="2"),
        lambda: graph.cluster(data=0), lambda: graph.cluster(data=True), lambda: graph.cluster(workers=2, data=4),
        lambda: graph.simulate(None, graph.cluster(workers=2)),
        lambda: graph.simulate(graph.train(np.sum, spy.optim.SGD([np.ones(2)], lr=1)), graph.mesh("data")),
    ],
)  # fmt: skip
def test_clusters_that_cannot_be(make: Any) -> None:
    with pytest.raises(graph.GraphError, match=r"E1048|E1043"):
        make()


@pytest.mark.parametrize("stragglers", [-1, float("nan"), "1"])
def test_stragglers_are_a_part_of_a_time(stragglers: Any) -> None:
    with pytest.raises(ValueError, match="stragglers="):
        graph.cluster(workers=2, stragglers=stragglers)


def test_links_of_a_file(tmp_path: Path) -> None:
    LINKS.save(tmp_path / "links.json")
    step = graph.train(lambda p: p[0].sum(), spy.optim.SGD([np.ones(2)], lr=1), links=tmp_path / "links.json")
    assert step.links == LINKS
