"""Random valid programs: machine code equals the oracle bit for bit, atomic operations equal a model, and nothing crashes
or hangs.

Cases run in child processes, so that a crash is a failure with a seed and not the end of the test run.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BATCH = 24  # programs of a process, which parses the library once
SOME = 2


@pytest.mark.parametrize("first", range(0, 3 * BATCH, BATCH))
def test_machine_code_equals_the_oracle(first: int) -> None:
    run("run_valid.py", first, BATCH)


def test_atomic_operations_through_places() -> None:
    run("run_atomics.py", 0, SOME)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(SOME, 103, 10))
def test_more_of_them(first: int) -> None:
    run("run_atomics.py", first, 10)


def run(script: str, first: int, count: int) -> None:
    command = [sys.executable, str(HERE / script), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-2000:]}"
