"""Peers: which there are, what they are started with, their processes.

In: a name as written after --peers; `slangrad@1` is the peer slangrad on one CPU, in a process that sees no other.
Out: a `Worker`, which is asked to set up a workload and to time its variants (worker.py).

The first folder that has a file peer_NAME.py counts; this one comes first. PYTHON_NAME in the environment
is the interpreter of peer NAME. Caches on disk go to an empty folder for each process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve().parent
THREADS = ("SLANGRAD_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
CACHES = {"HOME": "", "XDG_CACHE_HOME": "", "NUMBA_CACHE_DIR": "numba"}  # SLANGRAD_CACHE is left out


@dataclass(frozen=True)
class Peer:
    """A peer on `cpus` CPUs, 0: all that the runner may use; `package` is the folder that it is imported from."""

    name: str
    cpus: int = 0
    package: Path | None = None

    @staticmethod
    def of(text: str) -> Peer:
        """From NAME or NAME@CPUS; a ValueError says what is wrong."""
        name, at, cpus = text.partition("@")
        if not at:
            return Peer(name)
        available = len(os.sched_getaffinity(0))
        if not cpus.isdecimal() or not 1 <= int(cpus) <= available:
            raise ValueError(f"{text}: after @ comes a number of CPUs, 1 to {available}")
        return Peer(name, int(cpus))

    def __str__(self) -> str:
        return f"{self.name}@{self.cpus}" if self.cpus else self.name


def known_peers(folders: list[Path]) -> list[str]:
    """The names of all peers in the folders."""
    files = [file.name for folder in folders for file in sorted(folder.glob("peer_*.py"))]
    return list(dict.fromkeys(re.sub(r"^peer_(.+)\.py$", r"\1", name) for name in files))


def interpreter(name: str) -> str:
    return os.environ.get(f"PYTHON_{name.upper()}", sys.executable)


def environment(peer: Peer, cache: str) -> dict[str, str]:
    """What the peer's process finds in its environment; kernels are cached under `cache`."""
    kept = {name: value for name, value in os.environ.items() if name != "SLANGRAD_CACHE"}
    caches = {name: os.path.join(cache, folder) for name, folder in CACHES.items()}
    threads = dict.fromkeys(THREADS, str(peer.cpus)) if peer.cpus else {}
    path = {"PYTHONPATH": str(peer.package)} if peer.package else {}
    return kept | caches | threads | path | {"CUDA_VISIBLE_DEVICES": ""}


def command(peer: Peer, folders: list[Path], *flags: str) -> list[str]:
    """How the peer's process is started."""
    pinned = sorted(os.sched_getaffinity(0))[: peer.cpus] if peer.cpus else []
    cpus = ["--cpus", ",".join(map(str, pinned))] if pinned else []
    return [interpreter(peer.name), str(HERE / "worker.py"), peer.name, *map(str, folders), *cpus, *flags]


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


class Worker:
    """A peer's process; `failed` says why it cannot be asked anything, `info` what it says of itself."""

    def __init__(self, peer: Peer, folders: list[Path], log: IO[str]) -> None:
        self.cache = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            command(peer, folders),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(peer, self.cache.name),
        )
        hello = self._answer()
        self.failed: str = hello.get("failed", "")
        self.info: dict[str, Any] = hello.get("info", {})

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": ending(self.process.wait())}

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer; {"failed": why} when the process has died."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the end of its stdout says how it ended
        answer = self._answer()
        self.failed = answer.get("failed", "")
        return answer

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.cache.cleanup()
