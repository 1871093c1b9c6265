"""A fork at any moment: the child loads, compiles and calls, whatever the threads of its parent were doing."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import slangrad as spy
from slangrad.base.lazy import LazyModule
from slangrad.base.process import forks
from slangrad.llvm.machine import native

PACKAGE = Path(spy.__file__).parent

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def run(program: str, folder: Path, **environment: str) -> str:
    """A program of its own, as it has threads and a state that is made by the first call. A child that hangs is ended by
    its alarm."""
    known = {**os.environ, "SLANGRAD_CACHE": "off", **environment}
    text = textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        env=known,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kept", ["off", pytest.param("cache", marks=pytest.mark.deep)])
def test_forks_while_threads_load_compile_and_call(tmp_path: Path, kept: str) -> None:
    """From the very first moment, when all modules of the package are being loaded."""
    program = """
        import itertools, os, signal, threading, time, warnings
        import slangrad as spy

        warnings.simplefilter("ignore")
        numbers = itertools.count(1)

        def work(device, label):
            n = next(numbers)
            text = f"float f(float x) {{ return {n} * x; }} // {label}"
            module = spy.Module.load_from_source(device, f"{label}{n}", text)
            assert module.f(2.0) == 2 * n

        def go_on(device, label):
            while not done.wait(0.02):
                work(device, label)

        done = threading.Event()
        options = spy.Options(threads=2, optimize=0)
        devices = [spy.create_device(options=options) for _ in range(2)]
        threads = [threading.Thread(target=go_on, args=(devices[i % 2], f"thread{i}_")) for i in range(4)]
        for each in threads:
            each.start()
        ends = []
        for k in range(32):
            time.sleep(0.01 * (k % 5))
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                try:
                    work(devices[k % 2], f"child{k}_")
                    os._exit(0)
                finally:
                    os._exit(1)
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        done.set()
        for each in threads:
            each.join()
        print(ends.count(0), set(ends))
        """
    cache = kept if kept == "off" else str(tmp_path / kept)
    assert run(program, tmp_path, SLANGRAD_CACHE=cache, SLANGRAD_VERIFY="0") == "32 {0}\n"


def in_child(check: Callable[[], bool]) -> int:
    """How a child ends: 0 where the check holds, the number of a signal where it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def held_elsewhere(lock: AbstractContextManager[object], until: threading.Event) -> Iterator[None]:
    """By a thread that holds it until the event, or the end of the block."""
    holds = threading.Event()

    def hold() -> None:
        with lock:
            holds.set()
            until.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holds.wait(30)
    yield
    until.set()
    thread.join()


def can_be_taken(lock: Any) -> bool:
    return bool(lock.acquire(blocking=False))


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_fork_waits_for_the_lock(make: Callable[[], Any]) -> None:
    lock, until, done = forks.kept_at_fork(make(), forks.WORK), threading.Event(), []
    with held_elsewhere(lock, until):
        timer = threading.Timer(0.05, lambda: (done.append(1), until.set()))
        timer.start()
        assert in_child(lambda: done == [1] and can_be_taken(lock)) == 0
    assert can_be_taken(lock)


class Counted:
    """Something behind a lock, which counts how often it had to be put right."""

    def __init__(self) -> None:
        self.lock = forks.kept_at_fork(threading.RLock(), forks.WORK, self.put_right)
        self.times = 0

    def put_right(self) -> None:
        self.times += 1


def test_a_lock_that_is_not_given_back_is_new_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(forks.PATIENCE, forks.WORK, 0.05)
    broken, whole = Counted(), Counted()
    with held_elsewhere(broken.lock, threading.Event()):
        assert in_child(lambda: can_be_taken(broken.lock) and (broken.times, whole.times) == (1, 0)) == 0
        assert not can_be_taken(broken.lock)
    assert can_be_taken(broken.lock) and can_be_taken(whole.lock)


def test_the_thread_that_forks_may_hold_the_lock() -> None:
    own = Counted()
    with own.lock:
        assert in_child(lambda: own.times == 0 and can_be_taken(own.lock)) == 0
    with held_elsewhere(own.lock, threading.Event()):  # it is free again
        pass


def test_a_fork_waits_for_modules_that_are_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loads_slowly.py").write_text("import time\ntime.sleep(0.3)\nvalue = 5")
    monkeypatch.syspath_prepend(tmp_path)
    module, began = LazyModule("loads_slowly"), threading.Event()
    thread = threading.Thread(target=lambda: (began.set(), module.value))
    thread.start()
    began.wait(30)
    time.sleep(0.05)
    assert in_child(lambda: module.value == 5) == 0
    thread.join()


def test_a_session_in_use_is_begun_anew_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(forks.PATIENCE, forks.WORK, 0.05)
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "m", "float twice(float x) { return 2 * x; }")
    assert module.twice(1.0) == 2
    before = device.slang_session.generation
    with held_elsewhere(device.slang_session.lock, threading.Event()):
        assert in_child(lambda: module.twice(3.0) == 6 and device.slang_session.generation is not before) == 0
    assert module.twice(3.0) == 6 and device.slang_session.generation is before


def test_llvm_has_the_lock_that_forks_wait_for() -> None:
    assert native._lock is not None
    assert native._lock in [each.lock() for each in forks._in_order()]


def test_every_lock_is_kept_or_made_anew() -> None:
    """A new lock goes through `kept_at_fork`; these files make theirs anew in a child, or have them for one launch,
    compilation or mesh, which a child does not go on with."""
    making = re.compile(r"\b(R?Lock|Condition|Event)\(\)")
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for line in file.read_text().splitlines()
        if making.search(line) and "kept_at_fork" not in line
    }
    assert found == {
        "runtime/pool.py",
        "runtime/cpu.py",
        "runtime/team.py",
        "api/sessions/hot_reload.py",
        "base/process/forks.py",
        "base/progress.py",
        "graph/workers/connections/heartbeat.py",
        "graph/workers/connections/transfers.py",
    }
