"""Processes that run one test after another, and are started again where one crashed or took too long.

In: paths, one in a line of the worker's input.   Out: outcomes as JSON, one in a line of its output.

The worker is the script `conformance.py --worker`. What a test itself prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Outcome = dict[str, str]


def serve(outcome: Callable[[Path], Outcome]) -> None:
    """The worker's side."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(outcome(Path(line.rstrip("\n")))), file=answers, flush=True)


class Worker:
    """One process; used by one thread."""

    def __init__(self, command: list[str], seconds: float) -> None:
        self.command, self.seconds = command, seconds
        self.process: subprocess.Popen[str] | None = None

    def outcome(self, path: Path) -> Outcome:
        """The outcome of one test."""
        if self.process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(self.command, text=True, **pipes)
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], self.seconds)[0]:
            self.end()
            return {"status": "timeout", "reason": f"{self.seconds:g} s"}
        line = process.stdout.readline()
        if line:
            result: Outcome = json.loads(line)
            return result
        code = process.wait()
        self.end()
        return {"status": "crash", "reason": f"code {code}"}

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
