"""Random valid programs: machine code equals the oracle bit for bit, atomic operations equal a model, and nothing crashes
or hangs.

Cases run in child processes, so that a crash is a failure with a seed and not the end of the test run.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BATCH = 24  # programs of a process, which parses the library once
SOME = 2


LENGTHS = {"short": ("0", "2", "24"), "long": ("2", "1", "80")}  # first, count, declarations of a program


@pytest.mark.parametrize("name", LENGTHS)
def test_long_programs(name: str) -> None:
    run(*LENGTHS[name])


@pytest.mark.deep
@pytest.mark.parametrize("first", range(100, 120, 5))
def test_many_long_programs(first: int) -> None:
    run(str(first), "5", "300")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 3 * BATCH, BATCH))
def test_machine_code_equals_the_oracle(first: int) -> None:
    run(str(first), str(BATCH))


@pytest.mark.cuda
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.deep) for first in range(25, 500, 25))]
)
def test_a_gpu_equals_the_cpu(gpu, first: int) -> None:
    run(str(first), "25", "cuda")


@pytest.mark.cuda
@pytest.mark.deep
@pytest.mark.parametrize("first", range(100, 104))
def test_a_gpu_equals_the_cpu_in_long_programs(gpu, first: int) -> None:
    run(str(first), "1", "300", "cuda")


def test_atomic_operations_through_places() -> None:
    run("0", str(SOME), script="run_atomics")


@pytest.mark.deep
@pytest.mark.parametrize("first", range(SOME, 103, 10))
def test_more_of_them(first: int) -> None:
    run(str(first), "10", script="run_atomics")


def run(*arguments: str, script: str = "run_valid") -> None:
    command = [sys.executable, "-m", f"tests.fuzz.{script}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-2000:]}"
