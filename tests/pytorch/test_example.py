"""The example with a Slang layer in a PyTorch model learns, at a small size, and draws its picture."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLE = Path(__file__).parent.parent.parent / "examples/pytorch/torch_layer.py"


def test_the_example_learns(tmp_path):
    options = ["--size", "16", "--blobs", "8", "--steps", "30", "--out", str(tmp_path / "picture.png")]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *options], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stderr == ""
    losses = [float(each) for each in re.findall(r"loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 11
    assert losses[-1] < losses[0] / 2
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
