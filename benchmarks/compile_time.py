"""Times how long slangrad and SlangPy compile: a markdown table to stdout, everything as JSON if wanted.

    python benchmarks/compile_time.py --programs chain,first --limit 20
    python benchmarks/compile_time.py --json compile.json && python benchmarks/run.py --update-readme compile.json

Each program runs in a process of its own, with no kernel kept: CPU seconds from its text to its first result.
README.md beside this file says more.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import machine
import report
from against import checkout
from compile_programs import CHECKED, PROGRAMS
from peers import HERE, Peer, ending, environment, interpreter

GALLERY = [f"gallery: {path.stem}" for path in sorted((HERE.parent / "examples" / "gallery").glob("*.py"))]
GALLERY.remove("gallery: show")
CHECK = "slangrad check, 20 lines"
NAMES = [*PROGRAMS, *GALLERY, CHECK]
GLANCE = 0.1  # seconds between two looks at a process
REPEATS = 5  # of whole processes

# fmt: off
OPTIONS: dict[str, dict[str, Any]] = {
    "--programs": {"default": "", "metavar": "WORD,...", "help": "those with a word in their name (default: all)"},
    "--limit":    {"type": float, "default": 60.0, "metavar": "SECONDS", "help": "CPU seconds of a program (60)"},
    "--against":  {"metavar": "COMMIT", "help": "time a commit, or a folder with a checkout, too"},
    "--json":     {"type": Path, "metavar": "FILE", "help": "write everything there"},
    "--log":      {"default": os.devnull, "metavar": "FILE", "help": "append what the processes print"},
}
# fmt: on


class Ended(Exception):
    """A process took longer than the limit; `peak` is its memory by then, in MiB."""

    def __init__(self, peak: float) -> None:
        super().__init__()
        self.peak = peak


# --- Processes ------------------------------------------------------------------------------------------


def cpu_of(process: int) -> float:
    """CPU seconds of a process, and of those that it has waited for."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / machine.TICKS


def peak_of(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def output_of(words: list[str], variables: dict[str, str], limit: float, log: IO[str]) -> str:
    """What a process prints. Ended, CalledProcessError."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, env=variables) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=GLANCE)
                break
            except subprocess.TimeoutExpired:
                if cpu_of(process.pid) > limit:
                    peak = peak_of(process.pid)
                    process.kill()
                    raise Ended(peak) from None
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return printed


def answer_of(peer: Peer, name: str, cache: str, limit: float, log: IO[str]) -> dict[str, Any]:
    """What the worker says; {"over": the limit} where it took longer, {"failed": why}."""
    words = [interpreter(peer.name), str(HERE / "compile_worker.py"), peer.name, name]
    try:
        return json.loads(output_of(words, environment(peer, cache), limit, log))
    except Ended as ended:
        return {"over": limit, "peak": ended.peak}
    except subprocess.CalledProcessError as error:
        return {"failed": ending(error.returncode)}


# --- Rows -----------------------------------------------------------------------------------------------


def row_of(name: str, package: Path | None, limit: float, log: IO[str]) -> dict[str, Any]:
    """slangrad's part of a row: with the standard library's file, if it keeps one, and without."""
    peer = Peer("slangrad", package=package)
    if name == CHECK:
        return checked(peer, log)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        if name not in GALLERY:
            answer_of(peer, "warm-up", cache, limit, log)
        row = answer_of(peer, name, cache, limit, log)
    if "seconds" in row and name not in GALLERY:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            row["bare"] = answer_of(peer, name, cache, 2 * limit, log).get("seconds")
    return row


def checked(peer: Peer, log: IO[str]) -> dict[str, Any]:
    """Wall time of the command, the least of five, as is its CPU time."""
    wall, cpu = [], []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "program.slang"
        file.write_text(CHECKED)
        words = [interpreter(peer.name), "-m", "slangrad", "check", str(file)]
        variables = environment(peer, folder)
        variables["PYTHONPATH"] = os.pathsep.join(
            filter(None, [variables.get("PYTHONPATH"), str(HERE.parent)])
        )
        for _ in range(REPEATS + 1):  # the first one may keep the library
            machine.wait_until_quiet(1.0)
            begun, used = time.perf_counter(), os.times()
            code = subprocess.run(words, stdout=log, stderr=log, env=variables, check=False).returncode
            wall.append(time.perf_counter() - begun)
            now = os.times()
            cpu.append(now.children_user + now.children_system - used.children_user - used.children_system)
            if code:
                return {"failed": ending(code)}
    return {"seconds": min(cpu[1:]), "wall": min(wall[1:]), "median": statistics.median(wall[1:])}


def measured(names: list[str], arguments: argparse.Namespace, log: IO[str]) -> Iterator[dict[str, Any]]:
    with checkout(arguments.against or str(HERE.parent)) as old:
        for name in names:
            row = {"program": name, "slangrad": row_of(name, HERE.parent, arguments.limit, log)}
            if arguments.against:
                row["before"] = row_of(name, old, arguments.limit, log)
            if name in PROGRAMS:
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
                    row["slangpy"] = answer_of(Peer("slangpy"), name, cache, arguments.limit, log)
            yield row


def main() -> None:
    if not hasattr(os, "sched_getaffinity"):
        sys.exit("the benchmarks need Linux: they read /proc")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, settings in OPTIONS.items():
        parser.add_argument(name, **settings)
    arguments = parser.parse_args()
    words = arguments.programs.split(",")
    names = [name for name in NAMES if any(word in name for word in words)]
    if not names:
        parser.error(
            f"--programs {arguments.programs}: no program has such a name; there are {'; '.join(NAMES)}"
        )
    command = shlex.join(["python", "benchmarks/compile_time.py", *sys.argv[1:]])
    run: dict[str, Any] = {
        "command": command,
        "machine": machine.describe(),
        "limit": arguments.limit,
        "compile": [],
    }
    try:
        with open(arguments.log, "a") as log:
            for row in measured(names, arguments, log):
                print(
                    f"  {row['program']}: {report.cpu(row['slangrad']) or 'failed'}",
                    file=sys.stderr,
                    flush=True,
                )
                run["compile"].append(row)
                if arguments.json:
                    arguments.json.write_text(json.dumps(run, indent=1) + "\n")
    except ValueError as error:
        parser.error(f"--against: {error}")
    print(report.compile_times(run))


if __name__ == "__main__":
    main()
