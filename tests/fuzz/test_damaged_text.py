"""Damaged texts give a CompileError, or compile; nothing else is raised, nothing crashes or hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BATCH = 60


@pytest.mark.parametrize("first", range(0, 4 * BATCH, BATCH))
def test_damage_is_reported(first: int) -> None:
    command = [sys.executable, "-m", "tests.fuzz.run_damaged", str(first), str(BATCH)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-2000:]}"
