"""Steps with stages on clusters that are not here: turns wait for messages, and equal stages fill the pipeline."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.workers.connections.costs import PATTERNS, Cost, Links
from slangrad.graph.workers.simulation.stage_times import StagesTimeline

LAYERS, SIDE, ROWS = 8, 64, 32
FREE = Cost(0.0, 1e30)


def links(send: Cost = FREE, overlap: float = 1.0) -> Links:
    """Links that cost nothing but for messages; a kernel takes the time of its arithmetic."""
    costs = {**dict.fromkeys(PATTERNS, FREE), "send": send}
    return Links(costs, costs, overlap=overlap, machine=MachineRates(1e9, 1e30, 0.0))


def loss(p: Any, x: Any) -> Any:
    for w in p:
        x = np.tanh(x @ w)
    return (x * x).mean()


def planned(
    cluster: Any, microbatches: int | None = None, memory: int | None = None, rows: int = ROWS
) -> StagesTimeline:
    p = [np.zeros((SIDE, SIDE), np.float32) for _ in range(LAYERS)]
    step = graph.train(loss, spy.optim.SGD(p, lr=0.1), memory, microbatches=microbatches)
    found = graph.simulate(step, np.zeros((rows, SIDE), np.float32), cluster)
    assert isinstance(found, StagesTimeline)
    return found


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 4), (4, 8), (4, 2)])
def test_equal_stages_wait_only_at_both_ends(stages: int, microbatches: int) -> None:
    found = planned(graph.cluster(stages=stages, links=links()), microbatches)
    ideal = (stages - 1) / (microbatches + stages - 1)
    assert found.bubble == pytest.approx(ideal, abs=0.03)  # the first layer has no gradient of its input
    assert found.workers == f"{stages} workers (stages={stages})"
    assert [each.parameters.split()[0] for each in found.stages] == [str(LAYERS // stages)] * stages


def test_turns_begin_when_messages_are_there() -> None:
    found = planned(graph.cluster(stages=4, links=links(Cost(1e-4, 1e8))), 4)
    turns = {(each.lane, each.name): each for each in found.events if each.queue == "compute"}
    for stage in range(4):
        own = [each for each in found.events if each.lane == stage and each.queue == "compute"]
        assert all(a.stop <= b.start for a, b in pairwise(own))
    for stage in range(3):
        for i in range(4):
            sent = 1e-4 + ROWS / 4 * SIDE * 4 / 1e8
            there = turns[stage, f"forward {i}"].stop + sent
            assert turns[stage + 1, f"forward {i}"].start >= there * (1 - 1e-9)
            back = turns[stage + 1, f"{'backward' if stage < 2 else 'forward'} {i}"].stop + sent
            assert turns[stage, f"backward {i}"].start >= back * (1 - 1e-9)
    path = found.path
    assert path[-1].stop == pytest.approx(found.seconds)
    assert all(a.stop == pytest.approx(b.start) for a, b in pairwise(path))


def test_messages_that_kernels_do_not_hide() -> None:
    """A stage that sends is slower, by the part that `overlap` says."""
    slow = Cost(1e-3, 1e30)
    hidden, seen = (planned(graph.cluster(stages=2, links=links(slow, part)), 8) for part in (1.0, 0.0))
    assert hidden.seconds < seen.seconds
    assert hidden.communication == pytest.approx(seen.communication)


def test_more_stages_need_less_memory() -> None:
    """With 256 rows values outweigh the weights that the last stage keeps in another order."""
    two, four = (planned(graph.cluster(stages=n, links=links()), 8, rows=256) for n in (2, 4))
    assert four.peak < two.peak
    first, *_, last = four.stages
    assert first.peak > last.peak  # values of four micro-batches wait in the first stage, of one in the last
    with pytest.raises(graph.GraphError, match="E1047"):
        planned(graph.cluster(stages=2), 8, two.peak // 2, 256)
    assert planned(graph.cluster(stages=4), 8, two.peak, 256).peak <= two.peak


def test_the_table_and_the_picture(tmp_path: Path) -> None:
    found = planned(graph.cluster(data=2, stages=4))
    lines = str(found).splitlines()
    assert lines[0].startswith("8 workers (data=2, stages=4)")
    assert lines[0].endswith("a step, 16 micro-batches")
    assert [line.split()[:2] for line in lines[1:5]] == [["stage", str(i)] for i in range(4)]
    assert "2 parameters 0 to 1" in lines[1]
    assert lines[5].startswith("bubble")
    found.save(tmp_path / "step.svg")
    picture = ElementTree.parse(tmp_path / "step.svg").getroot()
    words = [each.text for each in picture if each.tag.endswith("text")]
    assert words[:4] == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert sum(each.tag.endswith("rect") for each in picture) == len(found.events)


def test_explain_shows_stages() -> None:
    p = [np.zeros((SIDE, SIDE), np.float32) for _ in range(2)]
    step = graph.train(loss, spy.optim.SGD(p, lr=0.1), mesh=graph.cluster(stages=2), microbatches=2)
    shown = str(step.explain(np.zeros((4, SIDE), np.float32)))
    assert "2 workers (stages=2)" in shown
    assert "bubble" in shown
    assert "[micro-batches, -] batch0" in shown
