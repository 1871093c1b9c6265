"""The times of a GPU, on a driver without one: all parts run, and their tables are whole."""

import pytest

from benchmarks import gpu
from tests.runtime.fake_cuda import fake_gpu


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(gpu.Gpu, "_round", _once)
    monkeypatch.setattr(gpu.Gpu, "host_seconds", _second)
    with fake_gpu():
        yield gpu.Gpu()


def _second(self, run, *counts):
    run()
    return 1.0


def _once(self, run, launches, real=gpu.Gpu._round):
    return real(self, run, 1)


@pytest.mark.parametrize(("part", "rows"), [("kernels", 6), ("calls", 8), ("copies", 12)])
def test_parts(device, part, rows):
    numbers = gpu.PARTS[part](device, 64)
    assert len(numbers) == rows
    assert len(gpu.table(numbers).splitlines()) == rows + 2
