"""A torch call that an earlier process has met, and its derivative, need neither parser nor LLVM."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import sys
import torch
import slangrad as spy
device = spy.create_device()
module = spy.Module.load_from_source(device, "warm", "[Differentiable] float3 scale(float3 v, float s) { return v * s; }")
v, s = torch.ones(5, 3, requires_grad=True), torch.full((), 2.0, requires_grad=True)
module.scale(v, s).sum().backward()
print(v.grad.sum().item(), s.grad.item(), "slangrad.syntax.ast" in sys.modules, "llvmlite" in sys.modules)
"""


def test_warm_start(tmp_path):
    def run():
        environment = os.environ | {
            "SLANGRAD_CACHE": str(tmp_path),
            "SLANGRAD_BACKEND": "cpu",
            "SLANGRAD_VERIFY": "0",
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True
        )
        return done.stdout.split()

    assert run() == ["30.0", "15.0", "True", "True"]
    assert run() == ["30.0", "15.0", "False", "False"]
