"""Processes that compile kernels for this one: `python -m slangrad compile-worker`, at the other end of two pipes.

    with CompileWorkers(jobs, 2):            two workers, which take jobs until there are none; they end with the block
    with worker_ahead():                     the first worker of this block starts at once, before there are jobs

A worker sends a frame when it is up. Then it takes messages (JSON) and answers each with the bytes of a kernel. The
bytes are empty after an error, or if the worker has another compiler, LLVM or processor. Frames are a length and so
many bytes; no code in them is run. A worker ends with its input, so it ends with its parent in any case. It is no
child of `multiprocessing`, which would run the user's script or need a main guard, and no fork, which would copy a
process with threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from threading import Thread
from typing import IO

from slangrad.base.process.threads import start_thread
from slangrad.call.compiling.together import CompileJob, next_job

COMMAND = ("-P", "-m", "slangrad", "compile-worker")  # -P: no modules of the current folder
READY = b"ready"
_LENGTH = Struct("<Q")
_LARGEST = 1 << 30  # bytes
_running: set[subprocess.Popen[bytes]] = set()
_ahead: list[subprocess.Popen[bytes]] = []  # workers without jobs


class CompileWorkers:
    """Workers for the jobs of a queue: `count`, or as many as the system can start."""

    def __init__(self, jobs: deque[CompileJob], count: int) -> None:
        self._jobs = jobs
        self._count = count if _can_start() else 0
        self._workers: list[tuple[subprocess.Popen[bytes], Thread | None]] = []

    def __enter__(self) -> CompileWorkers:
        try:
            for _ in range(self._count):
                self._start()
        except OSError:
            pass  # there is no room for a process, or none is allowed
        return self

    def _start(self) -> None:
        process = _ahead.pop() if _ahead else _started()
        thread = start_thread("slangrad worker", _serve, process, self._jobs)
        self._workers.append((process, thread))

    def __exit__(self, *raised: object) -> None:
        self._jobs.clear()
        for process, _ in self._workers:
            process.kill()
        for process, thread in self._workers:
            if thread is not None:
                thread.join()
            process.wait()
            _close(process)


@contextmanager
def worker_ahead() -> Iterator[None]:
    """A worker starts with this block, and gets ready while the block reads a program. It ends with the block if no
    `CompileWorkers` has taken it."""
    with suppress(OSError):
        if _can_start():
            _ahead.append(_started())
    try:
        yield
    finally:
        while _ahead:
            process = _ahead.pop()
            process.kill()
            process.wait()
            _close(process)


def _started() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, *COMMAND],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(_folders())},
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    _running.add(process)
    return process


def _can_start() -> bool:
    """Whether this is a Python that can be started, and not a program that has one inside."""
    name = Path(sys.executable or "").name.lower()
    return ("python" in name or "pypy" in name) and not getattr(sys, "frozen", False)


def _folders() -> list[str]:
    """The folders of this process's modules, without the current folder, and that of slangrad."""
    folders = (os.path.abspath(path) for path in map(str, sys.path) if path)
    return list(dict.fromkeys([*folders, str(Path(__file__).parents[3])]))


def _serve(process: subprocess.Popen[bytes], jobs: deque[CompileJob]) -> None:
    """Send jobs to a worker, until none is left or it is gone."""
    assert process.stdin is not None and process.stdout is not None
    job: CompileJob | None = None
    try:
        if receive(process.stdout) != READY:
            return
        while job := next_job(jobs):
            send(process.stdin, job.message)
            job.finish(receive(process.stdout))
    except (OSError, EOFError):
        if job is not None:
            job.finish(b"")


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    _running.discard(process)


def _leave_to_parent() -> None:
    """Workers of the parent end with that, and not with its child."""
    _ahead.clear()
    for process in list(_running):
        _close(process)
        process.returncode = 0  # it is no child of this process


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


# --- Frames -------------------------------------------------------------------------------------------


def send(stream: IO[bytes], data: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[stream.write(left) :]
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """EOFError if the other end is gone, or sends a malformed frame."""
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    if length > _LARGEST:
        raise EOFError
    return _read(stream, length)


def _read(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
