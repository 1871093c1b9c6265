"""Large results pass the caches; every byte is written all the same."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.llvm.memory import streaming

SOURCE = (
    "float scaled(float x, uniform float k) { return k * x; }  void add(float x, inout float y) { y += x; }"
)


@pytest.fixture
def small_counts_as_large(monkeypatch):
    monkeypatch.setattr(streaming, "LARGE", 256)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 4097])
@pytest.mark.parametrize("start", [0, 1, 16])
def test_sizes_and_alignments(small_counts_as_large, size, start):
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "m", SOURCE)
    x = np.arange(size, dtype=np.float32)
    result = spy.Tensor.from_numpy(device, np.full(size + 2 * start, -1, np.float32))
    module.scaled(spy.Tensor.from_numpy(device, x), 3, _result=result[start : start + size])
    written = result.to_numpy()
    assert np.array_equal(written[start : start + size], 3 * x)
    assert (written[:start] == -1).all() and (written[start + size :] == -1).all()


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8"])
def test_other_types(small_counts_as_large, dtype):
    device = spy.create_device()
    name = {"float64": "double", "float16": "half", "int8": "int8_t"}[dtype]
    module = spy.Module.load_from_source(device, "m", f"{name} twice({name} x) {{ return x + x; }}")
    x = np.arange(3000).astype(dtype) % 50
    assert np.array_equal(module.twice(spy.Tensor.from_numpy(device, x.astype(dtype))).to_numpy(), x + x)


def test_only_what_is_not_read_is_streamed():
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "m", SOURCE)
    x, y = (spy.Tensor.zeros(device, (100,), "float") for _ in range(2))
    assert "!nontemporal" in module.scaled.compile(x, 3, _result=y).text("llvm")
    assert "!nontemporal" not in module.add.compile(x, y).text("llvm")
