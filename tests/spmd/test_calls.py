"""Versions of functions that a kernel of lanes calls."""

import re

from slangrad.base.options import KEEP, Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import Program
from slangrad.pipeline import compile_kernel

KERNEL = """
[shader("compute")] [numthreads(32, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x, uniform float a, uniform int n) { %s }
"""


def versions(functions: str, body: str) -> list[str]:
    """Signatures of the functions of lanes, in the order in which they are made."""
    options = Options(calls=KEEP, lanes=8)
    source = SourceFile("text", functions + KERNEL % body)
    lines = compile_kernel(Program(options), source, "main", options, "cpu").text("lanes").splitlines()
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
