"""What a reverse sweep stores, to the byte."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.pipeline import COMMON

COMMON_STAGES = [stage.name for stage in COMMON]
SOURCE = """[Differentiable]
float relax(float x)
{
    for (int i = 0; i < 64; i++)
        x = x - 0.1 * (x * x * x - 1);
    return x;
}

[Differentiable]
float branches(float x)
{
    float y;
    if (x > 0)
        y = exp(x) * tanh(x);
    else
        y = x;
    return y * sin(y);
}

[Differentiable]
double rounds(double x, int n)
{
    double s = x;
    for (int i = 0; i < n; i++)
        s = sin(s * x) + i;
    return s;
}
"""


@pytest.fixture
def module() -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(options=spy.Options(segment_trips=100)), "m", SOURCE)


def explained(module: spy.Module, name: str, kind: np.dtype, *more: int):  # type: ignore[no-untyped-def]
    x = spy.Tensor.from_numpy(module.device, np.ones(4, kind)).with_grads()
    y = spy.Tensor.from_numpy(module.device, np.ones(4, kind)).with_grads()
    return module.device.explain(getattr(module, name).bwds, x, *more, _result=y)


def rows(found) -> list[tuple[str, str, int | None, int | None]]:  # type: ignore[no-untyped-def]
    return [(each.name, each.type, each.line, each.bytes_a_thread) for each in found.stored]


def test_a_loop_keeps_what_it_carries(module: spy.Module) -> None:
    found = explained(module, "relax", np.float32)
    assert rows(found) == [("x", "f32", 4, 256)]
    assert found.stored[0].reason == "the loop carries it from one iteration to the next"
    assert found.bytes_a_thread == 256


def test_an_arm_keeps_what_is_dear(module: spy.Module) -> None:
    found = explained(module, "branches", np.float32)
    assert rows(found) == [("exp", "f32", 14, 4), ("tanh", "f32", 14, 4)]
    assert all("to compute it again would cost" in each.reason for each in found.stored)
    assert found.bytes_a_thread == 8


def test_a_long_loop_keeps_a_segment_and_states(module: spy.Module) -> None:
    found = explained(module, "rounds", np.float64, 1000)
    assert sorted(rows(found), key=str) == [
        ("s", "f64", 24, 800),
        ("s", "f64", 24, 800),
        ("s", "f64", 24, None),
    ]
    reasons = {each.reason for each in found.stored if each.bytes_a_thread is None}
    assert reasons == {"a state from which a segment of the loop is run again"}
    assert found.bytes_a_thread == 1608
    assert "800 bytes a thread and 8 a segment of loops whose length is not known" in str(found)
    assert "stored      %s: f64, 8 bytes a segment, line 24: a state from which" in str(found)


def test_forward_mode_stores_nothing(module: spy.Module) -> None:
    x = spy.Tensor.from_numpy(module.device, np.ones(4, np.float32))
    found = module.device.explain(module.relax, x)
    assert (found.stored, found.recomputed, found.sweeps) == ((), (), "no reverse sweep")


def test_the_costs_of_the_stages(module: spy.Module) -> None:
    found = explained(module, "relax", np.float32)
    assert list(found.costs) == [*COMMON_STAGES, "delayed", "lanes", "llvm", "asm"]
    assert all(each.milliseconds > 0 for each in found.costs.values())
    before, after = found.costs["autodiff"], found.costs["inlined"]
    assert before.functions > 1 and after.functions == 1
    assert found.costs["clean"].operations < after.operations
    assert found.costs["asm"].operations is None and found.costs["ast"].functions is None
    text = str(found)
    assert text.startswith(f"{found.sweeps}\n\nstage ")
    row = next(line for line in text.splitlines() if line.startswith("inlined"))
    assert row.split()[2:] == [str(after.operations), "1"]


def test_operations_are_counted_in_all_regions(module: spy.Module) -> None:
    compiled = module.relax.compile(np.ones(4, np.float32))
    text = compiled.text("clean").splitlines()
    ops = [line for line in text if line.startswith("  ") and not line.strip().startswith(("yield", "}"))]
    assert any(line.startswith("    ") for line in ops)  # inside the loop
    assert compiled.costs["clean"].operations == len(ops)
