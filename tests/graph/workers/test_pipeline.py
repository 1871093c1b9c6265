"""Stages and micro-batches make the steps of one worker, whatever crosses from one stage to another.

The workers are threads; test_processes.py runs some with gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from linecache import getline
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.trees import all_leaves
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.stages import pipeline
from slangrad.graph.workers.stages.order import StageSchedule
from slangrad.graph.workers.stages.pipeline import StagePlan
from tests.graph.workers.test_train import cross_entropy, rows_of
from tests.graph.workers.threads import run

STEPS = 2
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 12)), RNG.integers(0, 8, 16)
IDS, NEXT = RNG.integers(0, 20, (16, 6)), RNG.integers(0, 20, (16, 6))
SCALE = RNG.normal(size=(16, 12))


def layers() -> Any:
    r = np.random.default_rng(1)
    p: dict[str, Any] = {"w": [r.normal(size=(12, 12)) * 0.3 for _ in range(4)]}
    return p | {"b": [r.normal(size=12) * 0.1 for _ in range(4)], "o": r.normal(size=(12, 8)) * 0.3}


def transformer() -> Any:
    r = np.random.default_rng(1)

    def drawn(*shape: int) -> Any:
        return r.normal(size=shape) * 0.3

    shapes = {"qkv": (16, 48), "p": (16, 16), "u": (16, 32), "d": (32, 16)}
    blocks = [{name: drawn(*shape) for name, shape in shapes.items()} for _ in range(2)]
    return {"e": drawn(20, 16), "blocks": blocks, "unread": drawn(3)}


def mlp(p: Any, x: Any, y: Any) -> Any:
    for w, b in zip(p["w"], p["b"], strict=True):
        x = np.tanh(x @ w + b)
    return cross_entropy(x @ p["o"], y)


def decayed(p: Any, x: Any, y: Any) -> Any:
    """Values of parameters alone are added over all stages."""
    decay: Any = 0.0
    for w in p["w"]:
        decay = decay + (w * w).sum()
    return mlp(p, x, y) + 0.01 * decay


def skipped(p: Any, x: Any, y: Any) -> Any:
    """Values pass over stages; a parameter is read by all of them; weights are computed from parameters."""
    first = x
    for w, b in zip(p["w"][:3], p["b"], strict=False):
        x = np.tanh(x @ p["w"][0] + b) + x @ (w / np.sqrt((w * w).sum(0)))
    return cross_entropy((x + first) @ p["o"], y)


def aimed(p: Any, x: Any, y: Any) -> Any:
    """The first stage has a parameter that the last one reads, too; the loss is the sum of those of two stages."""
    aim, h = graph.stop_gradient(np.tanh(x @ p["w"][3])), x
    for w in p["w"][:3]:
        h = np.tanh(h @ w)
    return ((h - aim) ** 2).mean() + cross_entropy(np.tanh(h @ p["w"][3]) @ p["o"], y)


def captured(p: Any, x: Any, y: Any) -> Any:
    """Each micro-batch reads its rows of an array, and the mean of all."""
    return mlp(p, x * SCALE + SCALE.mean(0), y)


def transformer_loss(p: Any, ids: Any, after: Any) -> Any:
    """Embeddings are tied: the first and the last stage read them. Each row drops what it drops with one worker. The
    gradient of a loop reads results that the loss does not."""
    x = p["e"][ids]
    for i, block in enumerate(p["blocks"]):
        h = (x @ block["qkv"]).reshape(*x.shape[:2], 3, 2, 8).transpose(2, 0, 3, 1, 4)
        attended = graph.attention(h[0], h[1], h[2], causal=True)
        x = x + attended.transpose(0, 2, 1, 3).reshape(x.shape) @ block["p"]
        x = x + np.maximum(graph.random.dropout(graph.random.key(i), x, 0.1) @ block["u"], 0) @ block["d"]
    z = (x @ p["e"].T).reshape(-1, 20)
    return cross_entropy(z, after.reshape(-1))


def normalized(p: Any, x: Any, y: Any) -> Any:
    """Statistics of all rows."""
    for w, b in zip(p["w"][:2], p["b"], strict=False):
        x = x @ w + b
        x = x / np.sqrt(x.var(0) + 1e-5)
    return cross_entropy(x @ p["o"], y)


def by_columns(p: Any, x: Any, y: Any) -> Any:
    for i in (0, 2):
        w1, w2 = graph.shard(p["w"][i], None, "model"), graph.shard(p["w"][i + 1], "model", None)
        x = graph.shard(np.tanh(x @ w1), None, "model") @ w2 + p["b"][i]
    return cross_entropy(x @ p["o"], y)


@dataclass(frozen=True)
class Case:
    loss: Callable[..., Any]
    sizes: Mapping[str, int]
    microbatches: int | None = 4
    partition: str | None = None


CASES = {
    "micro-batches of one worker": Case(mlp, {"data": 1}),
    "4 stages": Case(mlp, {"stages": 4}, None),
    "parameters": Case(mlp, {"stages": 2, "data": 2}, 4, "parameters"),
    "model and stages": Case(by_columns, {"data": 1, "stages": 2, "model": 2}, 2),
    "sums over stages": Case(decayed, {"stages": 3}),
    "values that pass over stages": Case(skipped, {"stages": 2}, 2),
    "parameters that pass over stages": Case(aimed, {"stages": 3}, 2),
    "rows of an array": Case(captured, {"data": 2, "stages": 2}, 2),
    "transformer": Case(transformer_loss, {"stages": 2}, 2),
    "statistics of all rows": Case(normalized, {"stages": 2}, 1),
}


def trained(case: Case, mesh: Mesh | None = None) -> tuple[list[Any], list[Any], Any]:
    """The losses, the parameters after them, and the step."""
    is_mlp = case.loss is not transformer_loss
    p, batch = (layers(), (X, Y)) if is_mlp else (transformer(), (IDS, NEXT))
    optimizer = spy.optim.Adam(p, lr=1e-2)
    if mesh is None:
        step = graph.train(case.loss, optimizer)
    else:
        known: Any = {"partition": case.partition, "microbatches": case.microbatches}
        step = graph.train(case.loss, optimizer, mesh=mesh, **known)
        batch = rows_of(mesh, *batch)  # type: ignore[assignment]
    return [step(*batch) for _ in range(STEPS)], numbers_of(step), step


def numbers_of(step: Any) -> list[Any]:
    return [np.array(getattr(x, "to_numpy", lambda x=x: x)()) for x in all_leaves(step.parameters)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_stages_make_the_steps_of_one_worker(case: Case) -> None:
    losses, after, _ = trained(case)

    def worker(mesh: Mesh) -> Any:
        found, made, step = trained(case, mesh)
        return found, made, [each.shape != (0,) for each in step._held.tensors], mesh.stage

    held = []
    for found, made, own, stage in run(case.sizes, worker):
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        for a, b in zip(made, after, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        held.append((stage, tuple(own)))
    stages = case.sizes.get("stages", 1)
    assert len(set(held)) == stages  # workers of a stage have the same parameters
    assert all(
        sum(each) == 1 for each in zip(*dict(held).values(), strict=True)
    )  # and no other stage has them


@pytest.mark.parametrize("loss", [skipped, transformer_loss])
def test_messages_are_waited_for_in_the_order_in_which_they_are_sent(loss: Any) -> None:
    """As NCCL wants them; gloo has tags."""
    p, batch = (layers(), (X, Y)) if loss is skipped else (transformer(), (IDS, NEXT))
    step = graph.train(loss, spy.optim.SGD(p, lr=0.1), microbatches=4)
    staged = step.planned_for(graph.cluster(stages=3), *batch)._staged
    assert staged is not None
    programs = [StageSchedule(staged.pieces, stage, 4) for stage in range(3)]
    for a, b in permutations(programs, 2):
        sent = [(x.tag, i) for key, i in a.turns for x in a.sent.get(key, ()) if x.to == b.stage]
        found = [(x.tag, i) for key, i in b.turns for x in b.arrivals[key] if x.source.stage == a.stage]
        assert found == sent


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_values_take_no_more_memory_than_is_counted(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait between turns, and those that are requested ahead."""
    most: dict[StagePlan, int] = {}
    turn = pipeline._Running.turn

    def counted(state: Any, at: int) -> None:
        turn(state, at)
        placed = [node for piece in state._plan.pieces.pieces.values() for node in piece.places]
        rows = {*state._plan._rows, state._plan.mesh.index, *placed}
        alive = [x for values in state.held for node, x in values.items() if node not in rows]
        alive += [x for node, x in state.once.items() if node.op != "input" and node not in rows]
        arrays = [x.host_view() for x in alive] + [
            array for receives in state._receives.values() for _, array, _ in receives
        ]
        size = sum(array.nbytes for array in {array.ctypes.data: array for array in arrays}.values())
        most[state._plan] = max(most.get(state._plan, 0), size)

    def worker(mesh: Mesh) -> Any:
        step = graph.train(mlp, spy.optim.SGD(layers(), lr=0.1), mesh=mesh, microbatches=8)
        return step(X, Y)

    monkeypatch.setattr(pipeline._Running, "turn", counted)
    run({"stages": stages}, worker)
    assert len(most) == stages
    for plan, size in most.items():
        assert size <= plan.program.most_alive()


def test_other_rows_later() -> None:
    """A worker keeps its parameters, whatever batches come; settings and numbers of a batch are those of all stages."""

    def scaled(p: Any, x: Any, y: Any, scale: Any) -> Any:
        return scale * mlp(p, x, y)

    def worker(mesh: Mesh | None) -> Any:
        optimizer = spy.optim.SGD(layers(), lr=0.1, momentum=0.9)
        step = graph.train(scaled, optimizer, **({} if mesh is None else {"mesh": mesh}))
        made = [step(X, Y, np.float64(2))]
        optimizer.lr = 0.05
        return [*made, *(step(X[:n], Y[:n], np.float64(1)) for n in (16, 8, 16))]

    alone = worker(None)
    for found in run({"stages": 2}, worker):
        np.testing.assert_allclose(found, alone, rtol=1e-12)


def test_other_layers_later() -> None:
    """A stage updates its parameters also where another one reads them first, and one may have nothing to do."""

    def reads(p: Any, x: Any, y: Any, order: Any) -> Any:
        for i in order:
            x = np.tanh(x @ (p["w"][i] if i < 4 else SCALE[:12]))
        return cross_entropy(x @ p["o"], y)

    def worker(mesh: Mesh | None) -> Any:
        known: Any = {} if mesh is None else {"mesh": mesh, "microbatches": 2}
        step = graph.train(reads, spy.optim.Adam(layers(), lr=0.01), **known)
        losses = [step(X, Y, order) for order in ((0, 4, 4, 4, 1), (0, 1, 2, 3), (2, 1), (0,))]
        return [*losses, *numbers_of(step)]

    alone = worker(None)
    for found in run({"stages": 3}, worker):
        for a, b in zip(found, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("partition", [None, "auto"])
def test_statistics_of_all_rows_are_refused(partition: str | None) -> None:
    mesh, known = Mesh({"data": 2, "stages": 2}, 0, ("data",)), {"microbatches": 4, "partition": partition}
    step = graph.train(normalized, spy.optim.SGD(layers(), lr=0.1), mesh=mesh, **known)  # type: ignore[arg-type]
    with pytest.raises(
        graph.GraphError, match=r"E1048.*test_pipeline.py:\d+: microbatches=4: a value of all rows"
    ):
        step.explain(X, Y)


def errors(p: Any, x: Any, y: Any) -> Any:
    return ((np.tanh(x @ p["w"][0]) @ p["o"] - y[:, None]) ** 2).mean(1)


def masked(p: Any, x: Any, y: Any) -> Any:
    total = (errors(p, x, y) * y).sum()
    return total / y.sum()  # refused


def root(p: Any, x: Any, y: Any) -> Any:
    e = errors(p, x, y)
    return np.sqrt(e.mean())  # refused


def of_two(p: Any, x: Any, y: Any) -> Any:
    return errors(p, x, y).mean() * (x @ p["w"][0]).mean()  # refused


def largest(p: Any, x: Any, y: Any) -> Any:
    e = errors(p, x, y)
    return e.max()  # refused


def first_rows(p: Any, x: Any, y: Any) -> Any:
    few = x[:4]  # refused
    return errors(p, few, y[:4]).mean()


def neighbors(p: Any, x: Any, y: Any) -> Any:
    e = errors(p, x, y)
    return ((e[1:] - e[:-1]) ** 2).mean()  # refused


def picked(p: Any, x: Any, y: Any) -> Any:
    x = np.take(x, np.arange(16)[::-1], axis=0)  # refused
    return errors(p, x, y).mean()


def by_rows_and_columns(p: Any, x: Any, y: Any) -> Any:
    e = errors(p, x, y)[:, None] * np.ones(3)
    return e[np.arange(16)[::-1], y.astype(int)].mean()  # refused


def scanned(p: Any, x: Any, y: Any) -> Any:
    x, _ = graph.scan(lambda h, _: (np.tanh(h), None), x, length=2)  # refused
    return errors(p, x, y).mean()


NOTES = {
    **dict.fromkeys((first_rows, neighbors, picked), "picked before the step"),
    **dict.fromkeys((masked, root, of_two, largest), "w.sum(), as a number"),
    by_rows_and_columns: "np.take_along_axis(x, ids[:, None], 1)",
    scanned: "graph.scan runs whole",
}


@pytest.mark.parametrize("loss", NOTES)
def test_what_needs_other_rows_is_refused_with_its_line(loss: Any) -> None:
    step = graph.train(loss, spy.optim.SGD(layers(), lr=0.1), microbatches=4)
    with pytest.raises(graph.GraphError, match="E1048") as found:
        step.explain(X, Y.astype(float))
    place = found.value.place
    assert place is not None
    assert getline(place.file, place.line).rstrip().endswith("# refused")
    assert NOTES[loss] in str(found.value.note)


def test_one_element_of_each_row_needs_no_other_rows() -> None:
    def loss(p: Any, x: Any, y: Any) -> Any:
        e = errors(p, x, y)[:, None] * np.array([1.0, 2, 4])
        return e[np.arange(len(x)), (3 * y).astype(int) % 3].mean()

    losses = []
    for settings in ({}, {"microbatches": 4}):
        parameters = layers()
        step = graph.train(loss, spy.optim.SGD(parameters, lr=0.1), **settings)
        losses.append([float(step(X, Y.astype(float))) for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_a_masked_mean_by_a_number() -> None:
    """As the note of the error says."""

    def loss(p: Any, x: Any, y: Any, total: Any) -> Any:
        return (errors(p, x, y) * y).sum() / total

    y = Y.astype(float)
    alone = graph.train(masked, spy.optim.SGD(layers(), lr=0.1))
    parts = graph.train(loss, spy.optim.SGD(layers(), lr=0.1), microbatches=4)
    for _ in range(STEPS):
        np.testing.assert_allclose(parts(X, y, y.sum()), alone(X, y), rtol=1e-12)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            {"microbatches": 5},
            r"E1048.*microbatches=5: 16 rows of a worker are no multiple.*\n.*microbatches=4",
        ),
        ({"microbatches": 0}, "E1048.*microbatches=0 is no integer from 1 on"),
        ({"stages": 40}, "E1048.*40 stages: this loss function can be cut at"),
        ({"memory": 4000}, r"E1047.*2 stages do not fit into 4000 bytes.*\n.*memory=\d+ would do"),
    ],
)
def test_what_does_not_fit_is_refused(known: dict[str, Any], words: str) -> None:
    stages, memory = known.pop("stages", 2), known.pop("memory", None)
    count = known.get("microbatches", 4)
    with pytest.raises(graph.GraphError, match=words):
        graph.train(
            mlp,
            spy.optim.SGD(layers(), lr=0.1),
            memory,
            mesh=Mesh({"stages": stages}, 0),
            microbatches=count,
        ).explain(X, Y)


def test_settings_that_exclude_each_other() -> None:
    given: Any = mlp, spy.optim.SGD(layers(), lr=0.1)
    with pytest.raises(ValueError, match="consistent='bits' has neither stages"):
        graph.train(*given, mesh=Mesh({"stages": 2}, 0), consistent="bits")
