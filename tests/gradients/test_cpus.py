"""Older instruction sets than this machine's: the same gradients, bit for bit with contraction off."""

from __future__ import annotations

import platform

import numpy as np
import pytest

import slangrad as spy
from tests.gradients.programs import PROGRAMS, REPRESENTATIVE, Program, points
from tests.gradients.test_programs import exact, load, reverse

HALF = """
[Differentiable] half f(half x, half y) { half s = x; for (int i = 0; i < 5; i++) s = s * y + x / (s + half(1)); return s; }
"""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names instruction sets of x86-64")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name in REPRESENTATIVE], ids=lambda p: p.name)
def test_gradients(program: Program, cpu: str) -> None:
    x, y = points(45)
    native, named = exact(), exact(cpu=cpu)
    wanted = reverse(native, load(native, program), x, y)
    for a, b in zip(reverse(named, load(named, program), x, y), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_half_rounds_after_each_operation(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_CPU", cpu)
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "halves", HALF)
    x, y = (v.astype(np.float16) for v in points(77))
    s = x
    for _ in range(5):
        s = s * y + x / (s + np.float16(1))
    np.testing.assert_array_equal(module.f(x, y, _result="numpy"), s)
