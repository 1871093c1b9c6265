"""Which way products take: measured, kept on disk, switched off; libraries with threads of ours."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import process_time, thread_time
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.base.disk.store import Store
from slangrad.call.compiling import together
from slangrad.graph.lowering import choose
from slangrad.graph.lowering.library import NUMPY, TORCH, product
from slangrad.graph.lowering.steps import KernelStep, ProductStep
from slangrad.graph.planning.plan import Plan
from slangrad.runtime.processors import OtherPrograms

RNG = np.random.default_rng(4)
A, B = RNG.standard_normal((128, 130)), RNG.standard_normal((130, 140))


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(choose, "_known", {})
    at_work(monkeypatch, False)
    return spy.create_device(options=spy.Options(store=Store(str(tmp_path))))


def at_work(monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    monkeypatch.setattr(OtherPrograms, "were_at_work", lambda self: others)


def ways(function: Callable[..., Any], *arrays: Any) -> list[str]:
    steps = function.explain(*arrays).plan.steps
    return [step.library if isinstance(step, ProductStep) else "slang" for step in steps]


def timed(monkeypatch: pytest.MonkeyPatch, fastest: str) -> list[Any]:
    """Times are made up; what was asked for is noted."""
    asked: list[Any] = []

    def times(trial: choose.Trial) -> dict[str, Any]:
        asked.append((trial.plans["slang"].outputs[0].shape, [*trial.plans]))
        return {name: (1.0 + (name != fastest),) * 2 for name in trial.plans}

    monkeypatch.setattr(choose, "_times", times)
    return asked


def test_the_fastest_is_taken_and_kept(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = timed(monkeypatch, NUMPY)
    both = lambda a, b: np.tanh(a @ b) * 2
    for _ in range(2):  # the second time from the disk
        function = graph.jit(both, device=device)
        assert ways(function, A, B) == ["numpy", "slang"]
        np.testing.assert_allclose(function(A, B), both(A, B), rtol=1e-12, atol=1e-13)
        choose._known.clear()
    assert [shape for shape, _ in asked] == [(128, 140)]
    assert ways(graph.jit(both, device=device), A[:32], B) == ["slang"] * 2  # too small to be timed
    assert ways(graph.jit(both, device=device, consistent="bits"), A, B) == ["slang"] * 2
    monkeypatch.setenv("SLANGRAD_TUNE", "0")
    assert ways(graph.jit(both, device=device), A, B) == ["slang"] * 2
    assert len(asked) == 1


def test_answers_of_a_busy_machine_are_measured_again(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three the most frequent is kept; one of a quiet machine counts alone."""

    def answer(fastest: str) -> tuple[str, int]:
        choose._known.clear()
        asked = timed(monkeypatch, fastest)
        (way,) = {*ways(graph.jit(lambda a, b: a @ b, device=device), A, B)}
        return way, len(asked)

    at_work(monkeypatch, True)
    assert [answer(way) for way in (NUMPY, "slang", NUMPY)] == [(NUMPY, 1), ("slang", 1), (NUMPY, 1)]
    assert answer("slang") == (NUMPY, 0)  # from the disk
    for key in choose._known:
        device.options.store.put(key, b"")
    assert answer("slang") == ("slang", 1)
    at_work(monkeypatch, False)
    assert answer(NUMPY) == (NUMPY, 1)
    assert answer("slang") == (NUMPY, 0)


def test_the_fastest_takes_less_of_the_processors_too() -> None:
    """Or else others were at work while the template was timed."""
    times = {"slang": (2.0, 1.0), "numpy": (1.0, 1.1), "torch": (1.5, 0.9)}
    assert choose._fastest(times, 0.0) == "torch"
    assert choose._fastest(times, 0.2) == "slang"  # with the map that is left to do


@pytest.mark.parametrize("damage", [b"", b"oneMKL", b"\xff\x00"])
def test_answers_that_mean_nothing_are_measured_again(
    device: Any, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    asked = timed(monkeypatch, "slang")
    function = lambda: graph.jit(lambda a, b: a @ b, device=device)
    ways(function(), A, B)
    store = device.options.store
    for key in choose._known:
        store.put(key, damage)
    choose._known.clear()
    assert set(ways(function(), A, B)) == {"slang"}
    assert len(asked) == 2


def test_candidates_are_timed(device: Any) -> None:
    function = graph.jit(lambda a, b: a.T @ b, device=device)
    found = function(A.T.copy(), B)
    np.testing.assert_allclose(found, A @ B, rtol=1e-12, atol=1e-12)
    assert set(choose._known.values()) <= {"slang", NUMPY, TORCH}
    assert len(choose._known) == 1


def test_trials_of_a_plan_are_compiled_together(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of equal products once, and all before the first is timed."""
    asked, compiled = timed(monkeypatch, "slang"), []
    compile_trials = Plan.compile_together

    def compile_together(runs: Any, plan: Any) -> None:
        compiled.append((len(asked), [each.outputs[0].shape for each, _ in runs]))
        compile_trials(runs, plan)

    monkeypatch.setattr(Plan, "compile_together", compile_together)
    function = graph.jit(lambda a, b: (a @ b @ b.T, a @ a.T, a @ b), device=device)
    ways(function, A, B)
    ((before, shapes),) = compiled
    assert before == 0
    assert {(128, 140), (128, 130), (128, 128)} <= set(shapes)
    assert len(asked) == len(choose._known) == 3


def test_other_kernels_of_a_plan_are_compiled_with_its_trials(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the map behind the library's product is left for the first run."""
    timed(monkeypatch, NUMPY)
    batches, run = list[set[str]](), together._run

    def noted(jobs: Any, *others: Any) -> None:
        batches.append({job.request["page"][0].split(" of ")[1] for job in jobs})
        run(jobs, *others)

    monkeypatch.setattr(together, "_run", noted)
    c = RNG.standard_normal((3, 300))[:, ::2]
    several = lambda a, b, c: (np.tanh(a @ b), np.exp(c[:, 10:]).sum(1) * a[:3, 0], c.T + 1)
    function = graph.jit(several, device=device)
    for found, expected in zip(function(A, B, c), several(A, B, c), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)
    first, *_, last = batches
    plan = function.explain(A, B, c).plan
    kernels = [step.name for step in plan.steps if isinstance(step, KernelStep)]
    behind = kernels[[isinstance(step, ProductStep) for step in plan.steps].index(True)]
    assert last == {behind}
    assert first >= {*kernels} - last


def test_a_choice_is_there_when_it_is_measured(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that meets the product meanwhile waits for the answer, and measures nothing."""
    asked = timed(monkeypatch, NUMPY)
    times, found = choose._times, list[list[str]]()
    other = Thread(target=lambda: found.append(ways(graph.jit(lambda a, b: a @ b, device=device), A, B)))

    def slow(trial: choose.Trial) -> Any:
        assert not choose._known
        other.start()
        other.join(0.05)
        assert not found
        return times(trial)

    monkeypatch.setattr(choose, "_times", slow)
    assert ways(graph.jit(lambda a, b: a @ b, device=device), A, B) == ["numpy"]
    other.join()
    assert found == [["numpy"]]
    assert len(asked) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no clock of another thread")
def test_seconds_are_those_of_this_thread_and_of_ours() -> None:
    worked, ended, seconds = Event(), Event(), list[float]()

    def work() -> None:
        for _ in range(20):
            hashlib.sha1(bytes(1 << 20))
        seconds.append(thread_time())
        worked.set()
        ended.wait()

    for name, is_counted in (("foreign", False), ("slangrad worker", True)):
        thread = Thread(target=work, name=name)
        before = choose._spent()
        thread.start()
        worked.wait()
        spent, in_all = choose._spent(), process_time()
        assert spent - before >= seconds[-1] if is_counted else in_all - spent >= seconds[-1]
        ended.set()
        thread.join()
        worked.clear()
        ended.clear()


@pytest.mark.parametrize(("library", "threads"), [(NUMPY, 1), (NUMPY, 2), (NUMPY, 3), (TORCH, 1)])
@pytest.mark.parametrize(
    "letters",
    ["mk,kn->mn", "mk,kn->nm", "bmk,bkn->bmn", "kbm,bnk->bmn", "bmhk,bnhk->bhmn", "bhcmk,bchkn->bmhnc"],
)
def test_libraries(letters: str, library: str, threads: int) -> None:
    """Blocks of rows or batches on threads; several batch axes; operands and results that lie otherwise."""
    if library == TORCH:
        pytest.importorskip("torch")
    sizes = {"b": 5, "m": 131, "k": 90, "n": 200, "h": 3, "c": 2}
    ins, out = letters.split("->")
    a, b = (RNG.standard_normal([sizes[c] for c in names]) for names in ins.split(","))
    result = np.empty([sizes[c] for c in out])
    multiply = product(letters, library, threads, lambda: None)(a, b, result)
    for _ in range(2):  # the arrays that it was bound to may change
        multiply()
        np.testing.assert_allclose(result, np.einsum(letters, a, b), rtol=1e-12, atol=1e-12)
        a += 1
        b *= 2


@pytest.mark.parametrize("library", [NUMPY, TORCH])
def test_libraries_read_backwards(library: str) -> None:
    if library == TORCH:
        pytest.importorskip("torch")
    a, b, result = RNG.standard_normal((7, 9)), RNG.standard_normal((9, 5)), np.empty((7, 5))
    multiply = product("mk,kn->mn", library, 2, lambda: None)(a[::-1], b[:, ::-1], result)
    for _ in range(2):
        multiply()
        np.testing.assert_allclose(result, a[::-1] @ b[:, ::-1], rtol=1e-12)
        a += 1


def test_consistency_is_bits_or_nothing() -> None:
    with pytest.raises(ValueError, match="'bits', not 'fast'"):
        graph.jit(np.tanh, consistent="fast")
