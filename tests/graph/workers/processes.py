"""Programs as several processes, connected as `torchrun` connects them.

with Starter() as start:
    ends = start(PROGRAM, 2)          [End(code=0, output="...", seconds=0.4), ...] in the order of ranks
    start.together([FIRST, SECOND], 2)          the same of several programs that run at the same time

They are forks of one process that has loaded torch already, so a program takes some tenths of a second. They have a
normal end, with destructors. Those that are left after `timeout` seconds are killed, and have the code None; so is the
one that is to hang, when the others have ended.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pytest

PORTS = 10000, 32768


class End(NamedTuple):
    """`code`: negative for a signal; `seconds`: since the start."""

    code: int | None
    output: str
    seconds: float


class Starter:
    """`before`: a program that their parent runs, so that they begin with its names, modules and kernels.
    `environment`: variables of all of them."""

    def __init__(self, before: str = "", **environment: str) -> None:
        self._before, self._environment = before, environment

    def __enter__(self) -> Starter:
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._before],
            stdin=-1,
            stdout=-1,
            text=True,
            env={**os.environ, **one, **self._environment},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def __call__(
        self, program: str, workers: int, timeout: float = 60, hangs: int | None = None, **environment: str
    ) -> list[End]:
        return self._run([program], workers, timeout, hangs, environment)[0]

    def together(self, programs: list[str], workers: int, timeout: float = 60) -> list[list[End]]:
        """The ends of each program."""
        return self._run(programs, workers, timeout, None, {})

    def _run(
        self,
        programs: list[str],
        workers: int,
        timeout: float,
        hangs: int | None,
        environment: dict[str, str],
    ) -> list[list[End]]:
        assert self._process.stdin and self._process.stdout
        with TemporaryDirectory() as folder:
            job = {"programs": programs, "workers": workers, "timeout": timeout, "folder": folder}
            job |= {"hangs": hangs, "environment": environment}
            print(json.dumps(job), file=self._process.stdin, flush=True)
            ends = json.loads(self._process.stdout.readline())
            outputs = [(Path(folder) / str(place)).read_text() for place in range(len(ends))]
        found = [End(code, output, seconds) for (code, seconds), output in zip(ends, outputs, strict=True)]
        return [found[at : at + workers] for at in range(0, len(found), workers)]


def quick_starter(before: str, folders: pytest.TempPathFactory) -> Starter:
    """Of processes that keep kernels in a cache of their own, and do not verify their IR."""
    return Starter(before, SLANGRAD_CACHE=str(folders.mktemp("cache")), SLANGRAD_VERIFY="0")


def free_port() -> int:
    """One below those that the system gives to connections: they cannot take it before the first worker listens."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def serve() -> str:
    """Answers jobs; in a child, returns its program."""
    for line in sys.stdin:
        job = json.loads(line)
        pids: dict[int, int] = {}
        for program in job["programs"]:
            port = str(free_port())
            for rank in range(job["workers"]):
                place = len(pids)
                pid = os.fork()
                if not pid:
                    given = {"RANK": str(rank), "WORLD_SIZE": str(job["workers"]), "MASTER_PORT": port}
                    given |= {"MASTER_ADDR": "127.0.0.1", **job["environment"]}
                    begin(Path(job["folder"]) / str(place), given)
                    return str(program)
                pids[pid] = place
        print(json.dumps(ends_of(pids, job["timeout"], job["hangs"])), flush=True)
    return ""


def begin(path: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    output = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)


def ends_of(pids: dict[int, int], timeout: float, hangs: int | None) -> list[tuple[int | None, float]]:
    start = time.monotonic()
    ends: dict[int, tuple[int | None, float]] = {}
    while len(ends) < len(pids):
        is_late = time.monotonic() - start > timeout or set(pids.values()) - ends.keys() == {hangs}
        for pid, rank in pids.items():
            if rank in ends:
                continue
            if is_late:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if is_late else os.WNOHANG)
            if ended:
                code = None if is_late else os.waitstatus_to_exitcode(status)
                ends[rank] = code, time.monotonic() - start
        time.sleep(0.02)
    return [ends[rank] for rank in range(len(pids))]


if __name__ == "__main__":
    import torch.distributed  # noqa: F401  (here, as tests do not need it)

    import slangrad.graph.workers.checkpoints.storage
    import slangrad.graph.workers.connections.links  # noqa: F401

    names = {"__name__": "__main__"}
    exec(compile(sys.argv[1], "before.py", "exec"), names)
    exec(compile(serve(), "program.py", "exec"), names)
