"""`slangrad doctor`: a report on the machine, and whether gradients come out right."""

import numpy as np

import slangrad as spy
from slangrad.cli import doctor


def test_report(slangrad):
    code, printed, errors = slangrad("doctor", SLANGRAD_LANES="8", SLANGRAD_THREADS="3")
    assert (code, errors) == (0, "")
    assert spy.__version__ in printed and np.__version__ in printed and "LLVM" in printed
    assert "8 of 32 bits" in printed and "3 (SLANGRAD_THREADS)" in printed
    assert printed.count("works") == 2


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
