"""`slangrad doctor`: a report on the machine, and whether gradients come out right."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.lazy import LazyModule
from slangrad.cli import doctor
from slangrad.runtime.cuda import driver as drivers
from tests.runtime.fake_cuda import fake_gpu


@pytest.fixture(autouse=True)
def without_cuda(monkeypatch):
    """Whatever the machine of the test has."""
    drivers.load_driver.cache_clear()
    monkeypatch.setattr(drivers, "BINDINGS", LazyModule("cuda.no_such_module"))
    yield
    drivers.load_driver.cache_clear()


def test_report(slangrad):
    code, printed, errors = slangrad("doctor", SLANGRAD_LANES="8", SLANGRAD_THREADS="3")
    assert (code, errors) == (0, "")
    assert spy.__version__ in printed and np.__version__ in printed and "LLVM" in printed
    assert "8 of 32 bits" in printed and "3 (SLANGRAD_THREADS)" in printed
    assert printed.count("works") == 2


def test_no_package_for_gpus(slangrad):
    code, printed, _ = slangrad("doctor", COLUMNS="200")
    assert code == 0
    assert "cuda         absent" in printed and "pip install 'slangrad[cuda]'" in printed
    assert "GPU 0" not in printed


def test_gpus(slangrad):
    with fake_gpu(gpus=2):
        code, printed, _ = slangrad("doctor", COLUMNS="200")
    assert code == 0 and printed.count("works") == 3
    assert "driver for CUDA 13.0, cuda-bindings" in printed
    for index in (0, 1):
        assert f"GPU {index}" in printed
    assert printed.count("A fake GPU, compute capability 9.0 (target cuda:sm_90), 0.2 GiB") == 2


@pytest.mark.parametrize(
    ("settings", "code", "told"),
    [
        ({"gpus": 0}, 0, ["absent", "nvidia-smi"]),
        ({"version": 11080}, 0, ["absent", "CUDA 12.1 is needed", "install a newer driver"]),
        ({"capability": (7, 0)}, 1, ["compute capability 7.0 (7.5 is needed)", "fails", "E1015"]),
    ],
)
def test_gpus_that_cannot_be_used(slangrad, settings, code, told):
    with fake_gpu(**settings):
        result, printed, _ = slangrad("doctor", COLUMNS="200")
    assert result == code
    for words in told:
        assert words in printed


def test_a_device_that_fails(slangrad, monkeypatch):
    monkeypatch.setattr(doctor, "PROBE", "float probe(float x) { return x; }")
    code, printed, _ = slangrad("doctor")
    assert code == 1
    assert printed.count("fails") == 2 and "not differentiable" in printed


def test_the_cache(slangrad, write, tmp_path):
    settings = {"SLANGRAD_CACHE": str(tmp_path / "kept"), "SLANGRAD_VERIFY": "0"}
    write("two.slang", "int main() { return 2; }")
    assert "0 entries, 0.0 MiB of 256.0 MiB" in slangrad("cache", "info", **settings)[1]
    assert slangrad("run", "two.slang", **settings)[:2] == (0, "2\n")
    kept = [each for each in (tmp_path / "kept" / "entries").rglob("*") if each.is_file()]
    assert len(kept) >= 1
    assert f"{tmp_path / 'kept' / 'entries'}, {len(kept)} entries" in slangrad("cache", "info", **settings)[1]
    assert slangrad("cache", "clear", **settings)[:2] == (0, f"{len(kept)} entries removed\n")
    assert slangrad("run", "two.slang", **settings)[:2] == (0, "2\n")


def test_no_cache(slangrad):
    assert slangrad("cache", "info")[1] == "none: switched off (SLANGRAD_CACHE)\n"
    assert "switched off" in slangrad("doctor")[1]
