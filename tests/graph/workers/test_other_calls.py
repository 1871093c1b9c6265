"""Workers that make different calls: both get an error that names the other one, whichever call comes first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.graph.workers.processes import Starter, quick_starter

BEFORE = """
import numpy as np
import slangrad as spy
from slangrad import graph

step = graph.train(lambda p, x: ((p[0] * x).sum(1) ** 2).mean(), spy.optim.SGD([np.ones(4)], lr=1e-3))
step(np.ones((2, 4)))
"""
# Both workers make three steps. Then each makes its own call, and goes on with steps.
PROGRAM = """
import json, time
import numpy as np
import slangrad as spy
from slangrad import graph

mesh, x = graph.mesh("data", timeout=60), np.ones((2, 4))

def loss(p, x):
    return ((p[0] * x).sum(1) ** 2).mean()

def half(p, x):
    return 0.5 * loss(p, x)

def trained(loss):
    return graph.train(loss, spy.optim.SGD([np.ones((4,))], lr=1e-3), mesh=mesh, partition="parameters")

step, other, saving = trained(loss), trained(half), trained(loss)
graph.checkpoint(saving, {folder!r}, every=1)
for known in (step, other, saving):
    known(x)
saving.wait()
time.sleep({late} * (mesh.rank == {later}))
began = time.time()
try:
    if mesh.rank:
        {odd}
    else:
        {usual}
    while time.time() < began + 20:
        step(x)
except graph.WorkerLost as error:
    found = {{"rank": error.rank, "step": error.step, "collective": error.collective, "message": str(error)}}
    print(json.dumps(found | {{"seconds": time.time() - began}}))
"""
CALLS = {
    "step": "step(x)",
    "another step": "other(x)",
    "a twin": "saving(x)",  # which saves
    "a new plan": "step(np.ones((4, 4)))",
    "explain": "step.explain(np.ones((6, 4)))",
    "parameters": "step.parameters",
    "parameters of another": "other.parameters",
    "mesh": "graph.mesh('data', model=1)",
    "links": "graph.measure_links()",
    "links of a mesh": "graph.measure_links(mesh)",
    "load": "graph.checkpoint(step, {folder!r})",
    "load, and save often": "graph.checkpoint(step, {folder!r}, every=1)",
}
ENDS = {"end": "raise SystemExit", "error": "raise ValueError('here')"}
LATE = 1.5  # seconds between the calls
SOON = 4.0 + 4.0  # seconds, and those of a machine that has other work


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    with quick_starter(BEFORE, tmp_path_factory) as starter:
        yield starter


def pairs() -> Iterator[tuple[str, str]]:
    """Each two different calls, in an order that makes each of them that of worker 0 about as often."""
    names = list(CALLS)
    for i, name in enumerate(names):
        others = [*range(i + 1, len(names))]
        yield from ((name, names[j]) if (i + j) % 2 else (names[j], name) for j in others)
        yield from ((name, end) for end in ENDS)


TOGETHER = 4  # programs
PAIRS = list(pairs())
GROUPS = [PAIRS[at : at + TOGETHER] for at in range(0, len(PAIRS), TOGETHER)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("later", [0, 1])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: " and ".join(group[0]))
def test_two_calls(start: Starter, tmp_path: Path, group: list[tuple[str, str]], later: int) -> None:
    texts = []
    for place, names in enumerate(group):
        own = str(tmp_path / str(place))
        usual, odd = ((CALLS | ENDS)[name].format(folder=own) for name in names)
        texts.append(PROGRAM.format(folder=own, late=LATE, later=later, usual=usual, odd=odd))
    for names, ends in zip(group, start.together(texts, 2, 50), strict=True):
        for rank, end in enumerate(ends):
            if names[rank] in ENDS:
                continue
            assert end.code == 0, (names, end.output)
            found = json.loads(end.output.splitlines()[0])
            assert found["rank"] == 1 - rank, (names, found)
            assert found["step"] >= 3 and found["collective"], (names, found)
            assert found["seconds"] < SOON + LATE * (rank != later), (names, found)
