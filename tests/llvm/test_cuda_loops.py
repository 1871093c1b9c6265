"""Loops of known length around local arrays: those that LLVM writes out on a GPU, so that the arrays are registers."""

import numpy as np
import pytest

from slangrad.base.traits import CUDA
from slangrad.ir.ops.core import walk
from slangrad.llvm.cuda.unrolling import loops_of_arrays
from slangrad.llvm.machine import nvptx
from slangrad.targets import cuda
from tests.flat import flat_kernel_of
from tests.llvm.gpu_threads import assert_like_oracle

NEWTON = """
[Differentiable] float f(float x)
{
    float y = 1;
    [MaxIters(TRIPS)] for (int i = 0; i < TRIPS; i++) y = STEP;
    return y;
}
[shader("compute")] [numthreads(32, 1, 1)] void kernel(uint3 id : SV_DispatchThreadID, uniform float* a)
{
    var p = diffPair(a[id.x]);
    bwd_diff(f)(p, 2.0);
    a[id.x] = p.d;
}
"""


def newton(trips, step="y - 0.1f * (y * y * y - x)"):
    return NEWTON.replace("TRIPS", str(trips)).replace("STEP", step)


@pytest.mark.parametrize(
    "text, size",
    [
        (newton(64), 256),
        (newton(31), 124),
        (newton(65), 0),  # too long
        (newton(64, "y + x * sin(y) * cos(y)"), 0),  # too many ops
    ],
)
def test_tapes_of_short_loops_are_registers(text, size):
    flat = flat_kernel_of(text, CUDA)
    loops, in_registers = loops_of_arrays(flat.function)
    assert (in_registers, len(loops)) == (size, 2 if size else 0)
    module = cuda.write_llvm(cuda.widen_kernel(cuda.find_sums(flat), "sm_90")).module
    ptx = nvptx.ptx(module.text, "sm_90")
    assert ("local" in ptx) == (not size)
    assert (".minnctapersm 3" in ptx) == (size >= 128)


def test_loops_within_loops():
    text = """
    [shader("compute")] [numthreads(32, 1, 1)] void kernel(uint3 id : SV_DispatchThreadID, uniform float* a, uniform uint n)
    {
        float known[16], unknown[16];
        for (uint i = 0; i < 16; i++) known[i] = a[id.x] * i;
        for (uint k = 0; k < n; k++) for (uint i = 0; i < 16; i++) unknown[(i + k) % 16] = known[(i * k) % 16] + k;
        float sum = 0;
        for (uint i = 0; i < 16; i++) sum += known[i] * unknown[i];
        a[id.x] = sum;
    }
    """
    kernel = flat_kernel_of(text, CUDA).function
    assert [op.attributes["count"] for op in walk(kernel.region) if op.name == "alloc"] == [16, 16]
    assert loops_of_arrays(kernel) == (
        frozenset(),
        0,
    )  # places in both arrays hang on a loop of unknown length


def test_numbers_are_those_of_one_thread():
    assert_like_oracle(newton(31), {"a": np.linspace(0.5, 2, 40, dtype=np.float32)}, (40, 1, 1))
