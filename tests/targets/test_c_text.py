"""Plain C, the smallest target: what a C compiler makes of it gives the interpreter's bits."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from slangrad.pipeline import compile_kernel
from tests.delayed.launching import argument_block, oracle

COMPILER = shutil.which("cc")
FLAGS = ["-O1", "-std=gnu11", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
THREADS = 37

HEAD = """
[shader("compute")] [numthreads(32, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform int count, uniform float* x, uniform float* y, uniform int* k,
    uniform double* d)
{
    if (id.x >= count)
        return;
    uint i = id.x;
"""

BODIES = {
    "floats": """
        y[i] = sin(x[i]) * exp(-x[i] * x[i]) + log(1 + x[i] * x[i]) + fmod(x[i], 0.3) + min(x[i], 0.0 / x[i]);
        d[i] = sqrt(abs(double(x[i]))) + floor(d[i]) + round(x[i] * 3.5) + fma(x[i], 2.0, 1.0);
    """,
    "integers": """
        int a = k[i];
        k[i] = a / (a - 3) + a % 5 + (a << 3) + (a >> 1) + countbits(a) + firstbithigh(a) + (a ^ 77) - ~a;
        y[i] = uint(a * 7919) / 13u + (uint(a) >> 3) + (uint8_t)(a * 3) + (int16_t)(a * 12345);
    """,
    "conversions": """
        k[i] = int(x[i] * 1e10f) + int(half(x[i])) + (x[i] > 0 ? 1 : 0) + asint(x[i]);
        y[i] = float(half(x[i]) * half(3.1)) + float(uint64_t(d[i] * 1e15)) + uint(x[i]);
    """,
    "loops": """
        float s = 0;
        int n = 0;
        while (s < abs(x[i]) * 10 && n < 40)
        {
            for (int j = 0; j < n % 4; j++)
                s += y[i] * 0.1 + j;
            s += 1;
            n++;
        }
        y[i] = s;
        k[i] = n;
    """,
    "arrays": """
        float kept[5];
        for (int j = 0; j < 5; j++)
            kept[j] = x[i] * j;
        kept[k[i] & 3] += 10;
        y[i] = kept[4] - kept[k[i] & 3];
        InterlockedAdd(k[0], 3);
        InterlockedMax(y[0], x[i]);
    """,
    "derivatives": """
        var p = diffPair(x[i]);
        bwd_diff(curve)(p, 2.0);
        y[i] = p.d;
    """,
}
CURVE = """
[Differentiable]
float curve(float x)
{
    float s = x;
    [MaxIters(6)]
    for (int i = 0; i < 6; i++)
        s = s * x > 0.5 ? sin(s) : s * s + x;
    return s;
}
"""


def build(text, folder):
    made = compile_kernel(CheckedProgram(Options(), []), SourceFile("kernel", text), "main", Options(), "c")
    (folder / "kernel.c").write_text(made.text("c"))
    library = str(folder / "kernel.so")
    subprocess.run([COMPILER, *FLAGS, str(folder / "kernel.c"), "-o", library, "-lm"], check=True)
    return made, ctypes.CDLL(library)


def run(text, arguments, folder):
    """The arrays afterwards, and the reports."""
    made, library = build(text, folder)
    copies = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    block = bytes(argument_block(made.arguments, copies))
    reports = []
    tell = REPORT(lambda to, site, index, extent: reports.append((index, extent)))
    for i in range(THREADS):
        library.kernel(block, i, 0, 0, tell, None)
    return copies, reports


def values():
    rng = np.random.default_rng(5)
    return {
        "count": THREADS - 2,
        "x": rng.uniform(-3, 3, THREADS).astype(np.float32),
        "y": rng.uniform(-1, 1, THREADS).astype(np.float32),
        "k": rng.integers(-50, 50, THREADS).astype(np.int32),
        "d": rng.uniform(-9, 9, THREADS),
    }


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", BODIES)
def test_c_gives_the_bits_of_the_interpreter(name, tmp_path):
    text = CURVE + HEAD + BODIES[name] + "}\n"
    arguments = values()
    found, reports = run(text, arguments, tmp_path)
    wanted = oracle(text, arguments, THREADS).arrays
    for key, array in wanted.items():
        np.testing.assert_array_equal(found[key].view(np.uint8), array.view(np.uint8), err_msg=key)
    assert reports == []


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_c_reports_an_index_out_of_range(tmp_path):
    text = HEAD + "float kept[3] = { 1, 2, 3 }; y[i] = kept[k[i]]; }"
    arguments = values()
    _, reports = run(text, arguments, tmp_path)
    asked = arguments["k"][: THREADS - 2]
    assert reports == [(k, 3) for k in asked.tolist() if not 0 <= k < 3]


@pytest.mark.parametrize("body", ['printf("%d", i);', "k[i] = WaveActiveSum(k[i]);"], ids=["print", "wave"])
def test_what_c_lacks_is_refused(body):
    text = HEAD + body + "}"
    with pytest.raises(CompileError, match="E9003"):
        compile_kernel(CheckedProgram(Options(), []), SourceFile("kernel", text), "main", Options(), "c")
