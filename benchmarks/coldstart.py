"""From the start of a process to the first gradient (W1, four values), and imports alone.

In: the peers. Out: medians, with kernel caches empty and full.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import machine
from peers import HERE, Peer, command, environment, interpreter

REPEATS = 5
LONGEST_WAIT = 1.0  # seconds before each process
IMPORTS = ("pass", "import numpy", "import slangrad; slangrad.Module")  # names load when they are used


class Failed(Exception):
    """The peer has no first gradient; the message says why."""


def timed(arguments: list[str], variables: dict[str, str], log: IO[str]) -> tuple[float, str]:
    """Seconds of a process, and what it printed."""
    machine.wait_until_quiet(LONGEST_WAIT)
    start = time.perf_counter()
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=variables, check=False
    )
    passed = time.perf_counter() - start
    if done.returncode:
        raise Failed(f"ended with code {done.returncode}")
    return passed, done.stdout


def first_gradient(peer: Peer, folders: list[Path], cache: str, log: IO[str]) -> tuple[float, float]:
    """Seconds of the whole process, and of its import of the peer."""
    seconds, printed = timed(command(peer, folders, "--cold"), environment(peer, cache), log)
    answer = json.loads(printed)
    if "failed" in answer:
        raise Failed(answer["failed"])
    return seconds, answer["imported"]


def of_peer(peer: Peer, folders: list[Path], log: IO[str]) -> dict[str, Any]:
    """The peer's row."""
    empty, full, imported = [], [], []
    try:
        for repeat in range(REPEATS + 1):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
                first = first_gradient(peer, folders, cache, log)
                second = first_gradient(peer, folders, cache, log)
            if repeat:  # the very first reads the library's files from disk
                empty.append(first[0])
                full.append(second[0])
                imported.append(second[1])
    except Failed as error:
        return {"peer": str(peer), "skip": str(error)}
    medians = {"empty": statistics.median(empty), "full": statistics.median(full)}
    return {"peer": str(peer), "imported": statistics.median(imported)} | medians


def of_import(statement: str, log: IO[str]) -> dict[str, Any]:
    """The row of a statement that Python runs and ends."""
    text = f"import sys; sys.path.append({str(HERE.parent)!r}); {statement}"
    arguments = [interpreter("slangrad"), "-c", text]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        try:
            times = [
                timed(arguments, environment(Peer("slangrad"), cache), log)[0] for _ in range(REPEATS + 1)
            ]
        except Failed as error:
            return {"statement": statement, "skip": str(error)}
    return {"statement": statement, "seconds": statistics.median(times[1:])}


def cold_start(peers: list[Peer], folders: list[Path], log: IO[str]) -> dict[str, Any]:
    """Rows of the peers and of the imports."""
    print("  cold start", file=sys.stderr, flush=True)
    return {
        "peers": [of_peer(peer, folders, log) for peer in peers],
        "imports": [of_import(statement, log) for statement in IMPORTS],
    }
