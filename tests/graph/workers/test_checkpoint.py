"""Checkpoints: another number of workers goes on from them to the same losses, and one that is not complete is never read."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import torch.distributed as dist

import slangrad as spy
from slangrad import graph
from slangrad.base.lazy import LazyModule
from slangrad.graph.workers.checkpoints import checkpoint, storage
from slangrad.graph.workers.meshes.mesh import Mesh
from tests.graph.workers.threads import run

ROWS, TOTAL = 12, 40
X = np.random.default_rng(0).normal(size=(ROWS, 12))
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch.distributed.checkpoint", "slangrad.graph"])


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where workers meet, and find kernels that others have made."""
    made = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(made).items():
            patch.setenv(name, value)
        yield made


def environment(place: Path) -> dict[str, str]:
    return {"SLANGRAD_CACHE": str(place / "kernels"), "SLANGRAD_VERIFY": "0"}


@cache
def device() -> spy.Device:
    return spy.Device()


def parameters() -> dict[str, Any]:
    r = np.random.default_rng(1)
    return {
        "w": r.normal(size=(12, 24)) * 0.3,
        "others": [r.normal(size=24), np.ones(1)],
    }


def loss(p: Any, x: Any) -> Any:
    b, scale = p["others"]
    return ((x @ p["w"] * scale + b) ** 2).mean()


def by_columns(p: Any, x: Any) -> Any:
    b, scale = p["others"]
    return loss({"w": graph.shard(p["w"], None, "model"), "others": [graph.shard(b, "model"), scale]}, x)


def made(mesh: Mesh | None = None, partition: str | None = None, function: Any = loss) -> Any:
    with device():
        optimizer = spy.optim.Adam(parameters(), lr=1e-2)
    if mesh is None:
        return graph.train(function, optimizer)
    count = 3 if mesh.stages > 1 else None
    return graph.train(function, optimizer, mesh=mesh, partition=partition, microbatches=count)


def rows_of(mesh: Mesh) -> Any:
    count = int(np.prod([mesh.sizes[name] for name in mesh.batch], dtype=int))
    return np.split(X, count)[mesh.place(mesh.batch)]


@pytest.fixture(scope="module")
def expected() -> list[float]:
    step = made()
    return [float(step(X)) for _ in range(TOTAL)]


def started(place: Path, worker: Callable[..., None], workers: int, *args: Any) -> list[Any]:
    """Processes that are connected by gloo."""
    found = []
    store = f"file://{place / uuid4().hex}"
    for rank in range(workers):
        given = place, store, rank, workers, worker, args
        found.append(PROCESSES.Process(target=connected, args=given, daemon=True))
        found[-1].start()
    return found


def connected(
    place: Path, store: str, rank: int, workers: int, worker: Callable[..., None], args: Any
) -> None:
    os.environ.update(environment(place))
    dist.init_process_group("gloo", store, timedelta(seconds=300), rank=rank, world_size=workers)
    worker(*args)
    dist.barrier()
    dist.destroy_process_group()


def ended(processes: list[Any]) -> list[int | None]:
    for each in processes:
        each.join(300)
        each.kill()
    return [each.exitcode for each in processes]


def goes_on(folder: Path, losses: list[float]) -> int:
    """One worker, from the newest checkpoint."""
    step = made()
    start = graph.checkpoint(step, folder)
    np.testing.assert_allclose(step(X), losses[start], rtol=1e-9)
    return start


# --- another number of workers


MESHES: list[tuple[dict[str, int], str | None, Any]] = [
    ({"data": 3}, None, loss),
    ({"nodes": 2, "gpus": 2}, "parameters", loss),
    ({"data": 2, "model": 2}, "states", by_columns),
    ({"data": 2, "stages": 2}, "states", loss),
]


@pytest.mark.parametrize(
    ("sizes", "partition", "function"), MESHES, ids=["3", "2x2 rows", "2x2 rows and columns", "stages"]
)
@pytest.mark.parametrize("first", [0, 1], ids=["whole", "cut"])
def test_pieces_of_all_workers_are_the_tensors(
    sizes: Any, partition: Any, function: Any, first: int, tmp_path: Path, expected: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each number is written once, whatever the mesh; what is read is cut later, or now where steps were made."""
    monkeypatch.setattr(checkpoint, "DIVIDED", 256)
    monkeypatch.setattr(checkpoint.STORAGE, "group_of", lambda mesh: None)  # threads: each reads alone
    one = made()
    graph.checkpoint(one, tmp_path, every=4)
    for _ in range(4):
        one(X)
    one.wait()

    def worker(mesh: Mesh) -> Any:
        step = made(mesh, partition, function)
        for _ in range(first):
            step(rows_of(mesh))
        assert graph.checkpoint(step, tmp_path, every=100) == 4
        before = step.checkpoints._copies()
        return before, [float(step(rows_of(mesh))) for _ in range(2)]

    found = run(sizes, worker)
    for _, losses in found:
        np.testing.assert_allclose(losses, expected[4:6], rtol=1e-12)
    for key, whole in one.checkpoints._copies().items():
        times = np.zeros(whole.shape, int)
        for pieces, _ in found:
            if key in pieces:
                at = tuple(slice(k, k + n) for k, n in zip(pieces[key].starts, pieces[key].array.shape))
                times[at] += 1
                np.testing.assert_array_equal(pieces[key].array, whole.array[at])
        assert (times == 1).all(), key


def train_some(
    folder: Path, sizes: dict[str, int], partition: str | None, end: int, losses: list[float]
) -> None:
    """In a process: go on to step `end`, which is saved."""
    checkpoint.DIVIDED = 256
    mesh = graph.mesh(**sizes)
    step = made(mesh, partition, by_columns if "model" in sizes else loss)
    start = graph.checkpoint(step, folder, every=3)
    assert start == end - 3
    np.testing.assert_allclose([step(rows_of(mesh)) for _ in range(3)], losses[start:end], rtol=1e-12)
    step.wait()


def test_other_numbers_of_workers_go_on(place: Path, tmp_path: Path, expected: list[float]) -> None:
    runs: list[tuple[dict[str, int], str | None]] = [
        ({"data": 2}, "states"),
        ({"data": 2, "model": 2}, "parameters"),
        ({"stages": 2}, None),
    ]
    for i, (sizes, partition) in enumerate(runs):
        workers = int(np.prod(list(sizes.values())))
        args = tmp_path / "run", sizes, partition, 3 * i + 3, expected
        assert ended(started(place, train_some, workers, *args)) == [0] * workers
    assert sorted(os.listdir(tmp_path / "run")) == ["step-00000003", "step-00000006", "step-00000009"]
    assert goes_on(tmp_path / "run", expected) == 9


# --- killed


def train_until_killed(folder: Path, losses: list[float]) -> None:
    mesh = graph.mesh("data")
    step = made(mesh, "states")
    for i in range(graph.checkpoint(step, folder, every=1), TOTAL):
        np.testing.assert_allclose(step(rows_of(mesh)), losses[i], rtol=1e-9)
    raise AssertionError("it was to be killed")


def killed_during_a_save(place: Path, folder: Path, losses: list[float], wait: float) -> None:
    """There is one more complete checkpoint then."""
    processes = started(place, train_until_killed, 2, folder, losses)
    old = set(folder.glob("*"))
    while {each.name.partition("-")[0] for each in set(folder.glob("*")) - old} < {"step", "incomplete"}:
        assert all(each.is_alive() for each in processes)
    time.sleep(wait)
    for each in processes:
        os.kill(each.pid, signal.SIGKILL)
    assert ended(processes) == [-signal.SIGKILL] * 2


def test_a_killed_save_is_not_read(place: Path, tmp_path: Path, expected: list[float]) -> None:
    killed_during_a_save(place, tmp_path / "run", expected, 0.004)
    assert goes_on(tmp_path / "run", expected) > 0


@pytest.mark.deep
def test_twenty_killed_saves(place: Path, tmp_path: Path, expected: list[float]) -> None:
    start = 0
    for wait in np.random.default_rng(2).uniform(0, 0.02, 20):
        killed_during_a_save(place, tmp_path / "run", expected, wait)
        before, start = start, goes_on(tmp_path / "run", expected)
        assert start > before
        if start > TOTAL // 2:
            shutil.rmtree(tmp_path / "run")
            start = 0


def train_with_failures(folder: Path, losses: list[float]) -> None:
    """Worker 1 has no space, then again, and is gone."""
    mesh = graph.mesh("data")
    step = made(mesh)
    graph.checkpoint(step, folder, every=1)
    write = storage.seal

    def fail(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if mesh.rank == 1:
        storage.seal = fail
    step(rows_of(mesh))
    with pytest.raises(graph.GraphError, match=r"E1049.*step 1 .*: worker 1: .*No space left"):
        step.wait()
    storage.seal = write
    np.testing.assert_allclose(step(rows_of(mesh)), losses[1], rtol=1e-12)
    step.wait()
    assert os.listdir(folder) == ["step-00000002"]
    if mesh.rank == 1:
        storage.seal = lambda path: os._exit(3)
    step(rows_of(mesh))
    with pytest.raises(graph.WorkerLost):
        step.wait()
    os._exit(2)


def test_failures_of_one_worker_are_errors_of_all(place: Path, tmp_path: Path, expected: list[float]) -> None:
    assert ended(started(place, train_with_failures, 2, tmp_path / "run", expected)) == [2, 3]
    assert goes_on(tmp_path / "run", expected) == 2


def train_past_a_failure(folder: Path) -> None:
    """The save of step 20 fails, and one worker sees its end ten steps later than the other."""
    mesh = graph.mesh("data")
    for failing, late in (((0, 1), 1), ((0, 1), 0), ((0,), 0), ((1,), 1)):
        go_past_a_failure(folder, mesh, mesh.rank in failing, mesh.rank == late)


def go_past_a_failure(folder: Path, mesh: Mesh, fails: bool, is_late: bool) -> None:
    step, alone, ended = made(mesh), made(), Event()
    graph.checkpoint(step, folder, every=20)

    def write(steps: int, *_: Any) -> None:
        if is_late:
            ended.wait(60)
        if fails:
            step.checkpoints._failed = steps, OSError(errno.ENOSPC, "No space left on device")

    step.checkpoints._write = write
    errors = []
    for i in range(39):
        if i == 30:
            ended.set()
        try:
            value = step(rows_of(mesh) * (1 + i % 5))
        except graph.GraphError as error:
            errors.append(str(error))
        else:
            np.testing.assert_allclose(value, alone(X * (1 + i % 5)), rtol=1e-9)
        time.sleep(0.001)
    (message,) = errors
    own = "No space left on device" if fails else "see the error of another worker"
    assert "E1049" in message and "checkpoint of step 20 in " in message and own in message
    step.wait()


def test_workers_raise_the_error_of_a_save_before_the_same_step(place: Path, tmp_path: Path) -> None:
    """Otherwise those that catch it would make steps of different rows together."""
    assert ended(started(place, train_past_a_failure, 2, tmp_path / "run")) == [0, 0]


def train_with_own_folders(folder: Path, losses: list[float]) -> None:
    mesh = graph.mesh("data")
    step = made(mesh)
    own = folder / str(mesh.rank)
    with pytest.raises(
        graph.GraphError, match=r"E1049.*: worker 1: this folder is not that of worker 0"
    ) as caught:
        graph.checkpoint(step, own, every=1)
    assert caught.value.note == "use a folder on a disk that all workers share"
    assert os.listdir(own) == []
    np.testing.assert_allclose(step(rows_of(mesh)), losses[0], rtol=1e-12)
    assert os.listdir(own) == []


def test_folders_of_single_workers_are_refused(place: Path, tmp_path: Path, expected: list[float]) -> None:
    assert ended(started(place, train_with_own_folders, 3, tmp_path, expected)) == [0] * 3


def train_with_a_hanging_save(folder: Path, stop: Any) -> None:
    """Worker 1 stops while it writes."""
    mesh = graph.mesh("data")
    step = made(mesh)
    graph.checkpoint(step, folder, every=1)
    if mesh.rank == 1:
        storage.seal = lambda path: os.kill(os.getpid(), signal.SIGSTOP)
    step(rows_of(mesh))
    start = time.monotonic()
    with pytest.raises(graph.WorkerLost, match="worker 1 is gone or stopped") as caught:
        step.wait()
    assert caught.value.collective == "checkpoint"
    assert time.monotonic() - start < 15
    os._exit(2)


def test_a_hanging_save_is_an_error_of_the_others(place: Path, tmp_path: Path) -> None:
    first, second = started(place, train_with_a_hanging_save, 2, tmp_path / "run", None)
    first.join(40)
    second.kill()
    second.join()
    assert first.exitcode == 2


# --- one worker


def saved(folder: Path, steps: int = 2, **settings: Any) -> Any:
    step = made()
    graph.checkpoint(step, folder, **{"every": 1, **settings})
    for _ in range(steps):
        step(X)
    step.wait()
    return step


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for name in ("incomplete-00000001-left", "incomplete-00000009-left", "step-best", "notes"):
        (tmp_path / name).mkdir()
    saved(tmp_path, 4, every=2, keep=1)
    kept = ["incomplete-00000009-left", "notes", "step-00000004", "step-best"]
    assert sorted(os.listdir(tmp_path)) == kept


def test_settings_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    first = made()
    first.optimizer.betas = (0.8, 0.9)
    graph.checkpoint(first, tmp_path, every=1)
    first(X)
    first.wait()
    second = made()
    assert graph.checkpoint(second, tmp_path) == 1
    assert second.optimizer.state_dict()["settings"] == first.optimizer.state_dict()["settings"]


def test_parameters_of_all_kinds(tmp_path: Path) -> None:
    r = np.random.default_rng(3)

    def fresh() -> dict[str, Any]:
        pairs = r.normal(size=(5, 3)).astype(np.float32)
        return {
            "half": r.normal(size=3).astype(np.float16),
            "single": r.normal(size=(2, 3)).astype(np.float32),
            "number": r.normal(size=()),
            "vectors": spy.Tensor.from_numpy(device(), pairs, dtype="float3"),
            "columns": spy.Tensor.from_numpy(device(), r.normal(size=(3, 2)).astype(np.float32)).T,
        }

    def total(p: Any) -> Any:
        return sum((each.astype(np.float64) ** 2).sum() for each in p.values())

    with device():
        first, second = (graph.train(total, spy.optim.SGD(fresh(), lr=0.1)) for _ in range(2))
    graph.checkpoint(first, tmp_path, every=1)
    first()
    first.wait()
    assert graph.checkpoint(second, tmp_path) == 1
    assert second() == first()


def test_numbers_are_those_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Any
) -> None:
    """Steps that are made while it is written change nothing of it."""
    go, write = Event(), checkpoint.STORAGE.save
    monkeypatch.setattr(checkpoint.STORAGE, "save", lambda *given: go.wait(60) and write(*given))
    step = made()
    graph.checkpoint(step, tmp_path, every=2)
    for _ in range(3):
        step(X)
    assert not os.listdir(tmp_path)
    go.set()
    step.wait()
    again = made()
    assert graph.checkpoint(again, tmp_path) == 2
    np.testing.assert_allclose(again(X), expected[2], rtol=1e-12)


def test_a_save_that_fails_is_an_error_of_the_next_step(tmp_path: Path, expected: list[float]) -> None:
    step, folder = made(), tmp_path / "run"
    graph.checkpoint(step, folder, every=2)
    folder.rmdir()
    folder.touch()
    losses = [step(X), step(X)]
    step.checkpoints._writing.join()
    with pytest.raises(graph.GraphError, match=r"E1049.*checkpoint of step 2 in .*run was not written"):
        step(X)
    folder.unlink()
    losses += [step(X), step(X)]
    step.wait()
    np.testing.assert_allclose(losses, expected[:4])
    assert os.listdir(folder) == ["step-00000004"]


def test_an_old_torch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.__version__", "2.7.1+cpu")
    with pytest.raises(graph.GraphError, match=r"E1048.*need torch 2\.8, and this is 2\.7\.1") as caught:
        graph.checkpoint(made(), tmp_path / "run")
    assert caught.value.note == "pip install 'torch>=2.8'"


def test_torch_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "STORAGE", LazyModule("no_such_module"))
    with pytest.raises(ImportError, match=r"checkpoints need torch: pip install 'slangrad\[torch\]'"):
        graph.checkpoint(made(), tmp_path)


# --- folders that do not fit


def other_names(p: dict[str, Any]) -> Any:
    p["u"] = p.pop("w")


def other_shapes(p: dict[str, Any]) -> Any:
    p["w"] = np.zeros((12, 25))


def other_types(p: dict[str, Any]) -> Any:
    p["w"] = p["w"].astype(np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_names, "'u' is missing, 'w' is no parameter here"),
        (other_shapes, r"'w' is float64\[12, 24\], not float64\[12, 25\]"),
        (other_types, "'w' is float64.*, not float32"),
    ],
)
def test_other_models_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    saved(tmp_path, 1)
    p = parameters()
    change(p)
    before = {name: np.copy(each) for name, each in p.items() if name != "others"}
    step = graph.train(loss, spy.optim.Adam(p, lr=0.5))
    with pytest.raises(graph.GraphError, match=f"E1049.*{message}"):
        graph.checkpoint(step, tmp_path)
    assert step.optimizer.steps == 0 and step.optimizer.lr == 0.5
    for name, each in before.items():
        np.testing.assert_array_equal(p[name], each)


def test_another_optimizer_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    step = graph.train(loss, spy.optim.SGD(parameters()))
    with pytest.raises(graph.GraphError, match=r"E1049.*optimizer Adam, not SGD") as found:
        graph.checkpoint(step, tmp_path)
    assert "that run, or another folder" in str(found.value.note)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def rewrite(file: Path, old: str, new: str) -> None:
    """With a sum that is right."""
    text = file.read_text()
    assert old in text
    checkpoint.STORAGE.write(file, text.replace(old, new))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a bit of the numbers": lambda at: flip(at / "__0_0.distcp"),
    "a bit of the table": lambda at: flip(at / ".metadata"),
    "half of the numbers": lambda at: os.truncate(at / "__0_0.distcp", 100),
    "no numbers": lambda at: (at / "__0_0.distcp").unlink(),
    "no sum of the numbers": lambda at: (at / "__0_0.distcp.crc32").unlink(),
    "no numbers and no sum": lambda at: [each.unlink() for each in at.glob("__0_0*")],
    "no table": lambda at: (at / ".metadata").unlink(),
    "no settings": lambda at: (at / "about.json").unlink(),
    "half of the settings": lambda at: os.truncate(at / "about.json", 20),
    "other settings": lambda at: rewrite(at / "about.json", '"lr": 0.01', '"lr": -1'),
    "settings are missing": lambda at: rewrite(at / "about.json", '"lr"', '"rate"'),
    "a list": lambda at: checkpoint.STORAGE.write(at / "about.json", "[]"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_and_nothing_is_loaded(damage: Any, tmp_path: Path, expected: list[float]) -> None:
    saved(tmp_path, 1)
    damage(tmp_path / "step-00000001")
    step = made()
    with pytest.raises(graph.GraphError, match="E1049"):
        graph.checkpoint(step, tmp_path)
    np.testing.assert_allclose(step(X), expected[0])


def test_the_checkpoint_before_a_damaged_one(tmp_path: Path) -> None:
    """The error names the folder without which the older one is loaded."""
    saved(tmp_path, 2)
    newest = tmp_path / "step-00000002"
    os.truncate(newest / "__0_0.distcp", 100)
    with pytest.raises(graph.GraphError, match=r"E1049.*step-00000002.* is damaged") as found:
        graph.checkpoint(made(), tmp_path)
    assert (
        found.value.note
        == f"without the folder {newest.name}, the checkpoint before it is loaded, if there is one"
    )
    newest.rename(tmp_path / "damaged")
    assert graph.checkpoint(made(), tmp_path) == 1


def test_folders_and_numbers_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(graph.GraphError, match=r"E1049.*checkpoints in .*file"):
        graph.checkpoint(made(), tmp_path / "file")
    for given in ({"every": 0}, {"every": 2.0}, {"every": True}, {"keep": 0}):
        with pytest.raises(graph.GraphError, match=r"E1049.*is no integer from 1 on"):
            graph.checkpoint(made(), tmp_path / "run", **given)
    with pytest.raises(graph.GraphError, match=r"E1043.*checkpoint: a step, not a function"):
        graph.checkpoint(loss, tmp_path / "run")
