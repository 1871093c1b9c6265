"""`Options.deterministic`: kernels for a GPU whose results are the same in every run, and those that are refused."""

from dataclasses import replace

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Options
from tests.delayed.gpu_sums import HEAD, run, summed
from tests.runtime.fake_cuda import fake_gpu

F = np.float32
NUMBERS = np.random.default_rng(3).uniform(-1, 1, 400).astype(F)  # whose sums depend on the order

# Accepted: sums in registers, atomics of whole numbers whose results no one reads, memory of a thread, no atomics.
ORDERED = [
    "InterlockedAdd(y[0], x[id.x]); InterlockedAdd(y[1], 2 * x[id.x]);",
    "for (int i = 0; i < 9; i++) InterlockedAdd(y[i], x[id.x] * i);",
    "InterlockedAdd(k[int(x[id.x]) & 3], 1); InterlockedMax(k[5], int(id.x)); InterlockedOr(k[6], 4);",
    "y[id.x] = 2 * x[id.x];",
    "InterlockedMin(k[int(id.x) & 7], 2); InterlockedAdd(y[3], x[id.x]);",
]
# Refused: tables, adds of a wave, adds that are atomics, results of atomics, floats in shared memory.
UNORDERED = [
    "InterlockedAdd(y[int(x[id.x]) & 7], 1.0f);",
    "for (int i = 0; i < 2000; i++) InterlockedAdd(y[i], x[id.x]);",
    "float old; InterlockedAdd(y[0], 1.0f, old); y[id.x] = old;",
    "int place; InterlockedAdd(k[0], 1, place); y[place] = x[id.x];",
    "int old; InterlockedExchange(k[0], int(id.x), old);",
    "InterlockedAdd(y[0], x[id.x]); InterlockedAdd(y[9 + (int(x[id.x]) & 7)], 1.0f);",
    'InterlockedAdd(y[0], x[id.x]); printf("%d\\n", id.x);',
]
PARAMETERS = "uniform float* x, uniform float* y, uniform int* k) { "


@pytest.mark.parametrize("body", ORDERED)
def test_kernels_that_keep_the_promise(body):
    """The code is that without the option, but for launches whose sums may not wait."""
    text = HEAD + PARAMETERS + body + " }"
    if summed(text, deterministic=True).sums is None:  # it runs as it was written
        assert "InterlockedAdd(y" not in body
        return
    arguments = lambda: {"x": NUMBERS.copy(), "y": np.zeros(400, F), "k": np.zeros(8, np.int32)}
    runs = [run(summed(text, deterministic=on), arguments(), (400, 1, 1)).arrays for on in (False, True)]
    for name in ("y", "k"):
        assert runs[0][name].tobytes() == runs[1][name].tobytes()


@pytest.mark.parametrize("body", UNORDERED)
def test_kernels_that_are_refused(body):
    with pytest.raises(CompileError, match=r"E9013.*deterministic is on") as refused:
        summed(HEAD + PARAMETERS + body + " }", deterministic=True)
    assert "Interlocked" in str(refused.value) and "create_device('cpu')" in str(refused.value)
    assert summed(HEAD + PARAMETERS + body + " }")


@pytest.mark.parametrize("grid", [(400, 1, 1), (20, 5, 4)])
def test_sums_that_may_not_wait_are_made_in_order(grid):
    """Two sums share memory, so one thread makes both. It takes the threads in their order, as the CPU does."""
    text = (
        HEAD
        + PARAMETERS.replace("uniform int* k", "uniform uint at")
        + (
            "uint i = id.x + 20 * (id.y + 5 * id.z); InterlockedAdd(y[0], x[i]); InterlockedAdd(y[at], 0.5f * x[i]); }"
        )
    )
    y = np.zeros(2, F)
    found = run(summed(text, deterministic=True), {"x": NUMBERS, "y": y, "at": 0}, grid, blocks=3).arrays["y"]
    total = F(0)
    for number in NUMBERS:
        total += number
        total += F(0.5) * number
    assert found.tolist() == [total, 0]


def test_groups():
    text = """
    groupshared float s[2];
    groupshared int k[2];
    [shader("compute")] [numthreads(32, 1, 1)]
    void kernel(uint3 id : SV_DispatchThreadID, uniform float* x) { BODY GroupMemoryBarrierWithGroupSync(); x[id.x] = s[0] + k[0]; }
    """
    assert summed(text.replace("BODY", "InterlockedAdd(k[0], 2);"), deterministic=True)
    with pytest.raises(CompileError, match=r"E9013.*adds floats in no fixed order"):
        summed(text.replace("BODY", "InterlockedAdd(s[0], x[id.x]);"), deterministic=True)


TEXT = """
[Differentiable] float line(float a, float x) { return a * x; }
[Differentiable] float lookup(DiffTensor<float, 1> table, int i) { return table[i]; }
"""


def test_calls_on_both_devices():
    """A gradient that all calls share is a sum in registers; that of a table at given indices is refused on a GPU only."""
    options = replace(Options.from_environment(), deterministic=True)
    with fake_gpu():
        for kind in ("cpu", "cuda"):
            device = spy.create_device(kind, options=options)
            module = spy.Module.load_from_source(device, "ordered", TEXT)
            x = spy.Tensor.from_numpy(device, NUMBERS[:70])
            a = spy.Tensor.from_numpy(device, F([3])).with_grads()
            y = module.line(a, x).with_grads(spy.Tensor.ones(device, (70,), "float"))
            module.line.bwds(a, x, _result=y)
            np.testing.assert_allclose(a.grad.to_numpy(), [NUMBERS[:70].sum()], rtol=1e-5)
            table = spy.Tensor.from_numpy(device, NUMBERS[:8]).with_grads()
            places = spy.Tensor.from_numpy(device, np.arange(70, dtype=np.int32) % 8)
            values = module.lookup(table, places).with_grads(spy.Tensor.ones(device, (70,), "float"))
            if kind == "cuda":
                with pytest.raises(spy.CallError, match="E9013"):
                    module.lookup.bwds(table, places, _result=values)
            else:
                module.lookup.bwds(table, places, _result=values)
                assert table.grad.to_numpy().tolist() == [9] * 6 + [8] * 2
