"""Stages of pipelines: cuts as good as the best of all, and the order of sweeps."""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import Any

import numpy as np
import pytest

from slangrad.graph.workers.stages.layers import LayerCosts, divided, least_memory
from slangrad.graph.workers.stages.order import one_forward_one_backward


def drawn(seed: int, pieces: int) -> LayerCosts:
    r = np.random.default_rng(seed)
    crossing = r.uniform(0, 12, pieces)
    crossing[0] = 0
    seconds, held, kept = (r.integers(1, 9, pieces).astype(float) for _ in range(3))
    enters = r.uniform(0, 0.5, pieces)
    enters[0] = 0
    return LayerCosts(seconds, held, kept, crossing, seconds / 3, enters, kept / 8, 2.0)


def cost_of(line: LayerCosts, starts: Any, microbatches: int, memory: float) -> float:
    """Of the micro-batches that wait, and of one more on its way to a stage and one from it, what enters and leaves is
    there. The largest value is there with its gradient and a copy in another order."""
    ends, total, slowest = [*starts[1:], len(line)], 0.0, 0.0
    for s, (a, b) in enumerate(zip(starts, ends, strict=True)):
        waits, kept = min(microbatches, len(starts) - s), line.kept[a:b].sum()
        moving = (waits + 1 + 1) * (line.enters[a] + (line.enters[b] if b < len(line) else 0))
        always = line.held[a:b].sum() + moving + 3 * line.largest[a:b].max() + line.rows
        whole, least = always + waits * kept, always + min(waits * kept, waits * line.enters[a] + kept)
        if least > memory:
            return inf
        again = (whole - memory) / (whole - least) if whole > memory else 0.0
        computes, sends = line.seconds[a:b].sum() + again * line.forward[a:b].sum(), line.crossing[a]
        total, slowest = total + computes + sends, max(slowest, computes, sends)
    return total + microbatches * slowest


@pytest.mark.parametrize("seed", range(30))
def test_no_cuts_are_better(seed: int) -> None:
    pieces, stages, microbatches = 9, 1 + seed % 5, (1, 2, 8)[seed % 3]
    line = drawn(seed, pieces)
    for memory in (inf, 90.0, 50.0, 20.0):
        ways = ((0, *each) for each in combinations(range(1, pieces), stages - 1))
        best = min(cost_of(line, each, microbatches, memory) for each in ways)
        found = divided(line, stages, microbatches, memory)
        if best == inf:
            assert found is None
        else:
            assert found is not None
            assert found[0] == pytest.approx(best)
            assert cost_of(line, found[1], microbatches, memory) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_memory_is_enough(seed: int) -> None:
    line = drawn(seed, 7)
    least, starts = least_memory(line, 3, 4)
    assert divided(line, 3, 4, least) is not None
    assert divided(line, 3, 4, least - 0.5) is None
    assert cost_of(line, starts, 4, least) < inf


def test_fewer_pieces_than_stages() -> None:
    assert divided(drawn(0, 3), 4, 8) is None


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 4, 9])
def test_one_forward_one_backward(stages: int, microbatches: int) -> None:
    """Each sweep runs once, when what it needs is there; few micro-batches wait; and no time is lost but that to fill
    and drain the pipeline."""
    tables = [one_forward_one_backward(s, stages, microbatches) for s in range(stages)]
    for s, table in enumerate(tables):
        assert sorted(table) == sorted((back, i) for back in (False, True) for i in range(microbatches))
        waiting = np.cumsum([-1 if back else 1 for back, _ in table])
        assert waiting.max() <= stages - s
    ends: dict[Any, int] = {}
    places, clocks = [0] * stages, [0] * stages
    while any(place < len(table) for place, table in zip(places, tables, strict=True)):
        moved = False
        for s, table in enumerate(tables):
            if places[s] == len(table):
                continue
            back, i = table[places[s]]
            near = s + 1 if back else s - 1
            before = (back, near, i) if 0 <= near < stages else (False, s, i)
            if (back and near == stages) or before in ends or (not back and not s):
                clocks[s] = max(clocks[s], ends.get(before, 0)) + 1
                ends[back, s, i] = clocks[s]
                places[s], moved = places[s] + 1, True
        assert moved
    assert max(clocks) == 2 * (microbatches + stages - 1)
