"""Versions of functions that a kernel of lanes calls."""

import re

import numpy as np
import pytest

from slangrad.base.options import KEEP, Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from slangrad.pipeline import compile_kernel
from tests.delayed.launching import compiled, oracle, run

KERNEL = """
[shader("compute")] [numthreads(32, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float a, uniform int n) { %s }
"""


def versions(functions: str, body: str) -> list[str]:
    """Signatures of the functions of lanes, in the order in which they are made."""
    options = Options(calls=KEEP, lanes=8)
    source = SourceFile("text", functions + KERNEL % body)
    lines = compile_kernel(CheckedProgram(options), source, "main", options, "cpu").text("lanes").splitlines()
    heads = [line for line in lines if line.startswith("func @") and "@main" not in line]
    return [re.sub(r"%\w+: |no_diff ", "", head[len("func @") : head.index(" {kept")]) for head in heads]


PLAIN = "float f(float x, float y) { return x * y + 1; }"
LOOP = "float f(float x, int n) { float s = x; while (n > 0 && s < 9) { s = s * 1.5; n--; } return s; }"


def test_a_version_for_each_pattern() -> None:
    made = versions(PLAIN, "x[id.x] = f(x[id.x], a) + f(a, x[id.x]) + f(x[id.x], a * 2) + f(a, a);")
    assert made == [
        "f.8.0(lanes<f32>, f32, out lanes<f32>) -> ()",
        "f.8.1(f32, lanes<f32>, out lanes<f32>) -> ()",
        "f.8.2(f32, f32) -> (f32)",
    ]


def test_only_what_needs_a_mask_has_one() -> None:
    body = "if (x[id.x] > 0) { x[id.x] = f(x[id.x], %s); x[id.x + 9] = f(x[id.x], %s); x[id.x + 40] = f(a, %s); }"
    assert not any("bool" in each for each in versions(PLAIN, body % ("a", "a", "a")))
    assert all("lanes<bool>" in each for each in versions(LOOP, body % ("n", "n", "n")))


def test_addresses_that_follow_each_other_stay_so() -> None:
    function = "float f(float* p) { return *p * 2; }"
    (made,) = versions(function, "x[id.x] = f(x + id.x);")[:1]
    assert made.startswith("f.8.0(ptr<f32, global>")


TOGETHER = {
    "a group": """
        groupshared float box[32];
        float weight(float x, int n) { float s = 0; for (int i = 0; i < n % 5; i++) s += x * i; return s + x; }
        int rounds(int n) { int k = 0; while (n > 1) { n /= 2; k++; } return k; }
        void push(inout float a[20], int i) { a[i % 20] *= 2; for (int k = 1; k < 20; k++) a[k] += a[k - 1]; }
        [shader("compute")] [numthreads(32, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, uint i : SV_GroupIndex, uniform float* x, uniform int n)
        {
            float a[20];
            for (int k = 0; k < 20; k++) a[k] = x[id.x] + k;
            box[i] = weight(x[id.x], int(i));
            GroupMemoryBarrierWithGroupSync();
            for (int k = 0; k < rounds(n); k++)
            {
                push(a, int(i));
                float y = weight(box[(i + 1) % 32], k) + a[3];
                GroupMemoryBarrierWithGroupSync();
                if (i > 3) box[i] = weight(y, int(i)) * 0.125;
                GroupMemoryBarrierWithGroupSync();
            }
            x[id.x] = box[i] + a[19];
        }
    """,
    "a wave": """
        float weight(float x, uint n) { float s = 0; for (int i = 0; i < n % 5; i++) s += x * i; return s + x; }
        [shader("compute")] [numthreads(32, 1, 1)]
        void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform int n)
        {
            float y = weight(x[id.x], id.x);
            if (y > 2) y = weight(WaveActiveMax(y), n + id.x) + weight(WaveReadLaneFirst(y), n);
            x[id.x] = y;
        }
    """,
}


@pytest.mark.parametrize("name", TOGETHER)
def test_threads_that_run_together_call_functions(name: str) -> None:
    text = TOGETHER[name]
    arguments = {"x": np.linspace(-3, 5, 128).astype(np.float32), "n": 9}
    expected = oracle(text, arguments, 96).arrays["x"]
    assert "call @weight" in compiled(text, calls=KEEP).text("flat")
    interpreted = run(text, arguments, 96, target="interpreter", calls=KEEP).arrays["x"]
    np.testing.assert_array_equal(interpreted, expected)
    for lanes in (1, 4, 16):
        found = run(text, arguments, 96, lanes, calls=KEEP).arrays["x"]
        np.testing.assert_array_equal(found, expected)
