"""Each limit of base/options.py: what is said when a program exceeds it, and that the chapter on limits tells it."""

import re
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Limits, Options

CHAPTER = Path(__file__).parent / "limits.md"


def call(tmp_path, text, **limits):
    """The result of `f(x)` for x = 0.5, with these limits; or the text of the error."""
    (tmp_path / "program.slang").write_text(text)
    options = Options(limits=Limits(**limits), threads=1, segment_trips=0, calls="inline")
    device = spy.create_device(options=options, include_paths=[tmp_path])
    try:
        function = spy.Module.load_from_file(device, str(tmp_path / "program.slang")).f
        return float(function(np.float32(0.5)))
    except (ValueError, MemoryError, RecursionError) as error:
        return str(error)


def doubling(n):
    """A macro that stands for 2 ** n tokens."""
    lines = ["#define M0 x"] + [f"#define M{i} M{i - 1} M{i - 1}" for i in range(1, n + 1)]
    return "\n".join([*lines, f"M{n}"])


def pasting(n):
    """A macro that stands for a name of 2 ** n letters."""
    lines = ["#define CAT(a, b) a##b", "#define TWICE(a) CAT(a, a)", "#define M0 x"]
    return "\n".join([*lines, *(f"#define M{i} TWICE(M{i - 1})" for i in range(1, n + 1)), f"M{n}"])


def nested_macros(n):
    return "#define ONE(x) x\nfloat f(float x) { return " + "ONE(" * n + "x" + ")" * n + "; }"


def instances(n):
    sum = " + ".join(f"g<{i}>(x)" for i in range(n))
    return "float g<let N : int>(float x) { return x + N; }\n" + f"float f(float x) {{ return {sum}; }}"


def large(n):
    calls = " + ".join(["g(x)"] * n)
    return "float g(float x) { return x * x + x * 3 - x * 5; }\n" + f"float f(float x) {{ return {calls}; }}"


DEEPER = """
struct Box<T> { T value; }
float g<T>(T value, float x) { Box<T> box = { value }; return x > 0 ? g(box, x - 1) : 0; }
float f(float x) { return g(1, x); }
"""

# fmt: off
EXCEEDED = {
    "errors": (3, "int 1; int 2; int 3; int 4; int 5;", "E0205"),
    "macro_depth": (10, nested_macros(20), "E0113"),
    "macro_tokens": (100_000, doubling(18), "E0113"),
    "macro_characters": (1_000, pasting(10), "E0113"),
    "include_depth": (5, '#include "program.slang"', "E0113"),
    "include_count": (5, '#include "leaf.slang"\n' * 6, "E0113"),
    "nesting_depth": (40, f"float f(float x) {{ return {'(' * 50}x{')' * 50}; }}", "E0206"),
    "chain_length": (100, f"float f(float x) {{ return x{' + x' * 110}; }}", "E0206"),
    "generic_depth": (5, DEEPER, "E0702"),
    "instances": (20, instances(30), "E0702"),
    "inline_ops": (200, large(30), "E0791"),
    "recursion_depth": (10, "float f(float x) { return f(x) + 1; }", "E0904"),
    "unroll_iterations": (
        10,
        "float f(float x) { [ForceUnroll] for (int i = 0; i < 11; i++) x += i; return x; }",
        "E0792",
    ),
    "compile_time_steps": (10, "float f(float x) { $for (i in Range(11)) x += i; return x; }", "E0711"),
    "vector_components": (8, "float f(float x) { matrix<float, 3, 3> m = x; return m[1][2]; }", "E0710"),
    "type_parts": (
        8,
        "struct A { float4 v; int[7] a; } struct B { A a; A b; } float f(float x) { B b = {}; return b.a.v.x; }",
        "E0710",
    ),
    "array_bytes": (64, "float f(float x) { float a[17]; return a[int(x)]; }", "E0710"),
}
# fmt: on

SAID = {
    "errors": "this is error number 3, so the rest is not read",
    "macro_depth": "macros are nested more than 10 deep",
    "macro_tokens": "macros produce more than 100000 tokens",
    "macro_characters": "macros produce more than 1000 characters",
    "include_depth": "files include each other more than 5 deep",
    "include_count": "more than 5 files are included",
    "nesting_depth": "this is nested more than 40 deep",
    "chain_length": "this chain has more than 100 parts",
    "generic_depth": "'g' needs endless instances of itself",
    "instances": "the program needs more than 20 functions, 'g' the next of them",
    "inline_ops": "'f' has more than 200 operations after inlining",
    "recursion_depth": "functions that call themselves are more than 10 calls deep",
    "unroll_iterations": "a loop of 11 iterations is too long to be unrolled",
    "compile_time_steps": "11 rounds of a $for are more than the limit of 10",
    "vector_components": "'float3x3' has 9 components, more than the limit of 8",
    "type_parts": "'B' is made of 10 parts, more than the limit of 8",
    "array_bytes": "an array of 68 bytes is larger than the limit of 64",
}


@pytest.mark.parametrize("limit", EXCEEDED)
def test_a_limit_that_is_exceeded(tmp_path, limit):
    value, text, code = EXCEEDED[limit]
    (tmp_path / "leaf.slang").write_text("")
    said = call(tmp_path, text, **{limit: value})
    assert f"error[{code}]: " in said
    assert SAID[limit] in said
    assert "program.slang:" in said
    assert f"a larger limit can be set: Options(limits=Limits({limit}=...))" in said


def test_a_function_that_is_differentiated(tmp_path):
    derivative = "float f(float x) { var p = diffPair(x); bwd_diff(h)(p, 1.0); return p.d; }"
    text = (
        large(30)
        .replace("float f", "[Differentiable] float h")
        .replace("float g", "[Differentiable] float g")
    )
    said = call(tmp_path, f"{text}\n{derivative}", inline_ops=200)
    assert "'h' has more than 200 operations after inlining" in said
    assert "by 30 calls of 'g' with " in said


ROUNDS = """
[Differentiable] float step(float x, int n) { for (int i = 0; i < n; i++) x = sin(x) + x * x; return x; }
float f(float x) { var p = diffPair(x); bwd_diff(step)(p, %d, 1.0); return p.d; }
"""


def test_the_depth_that_is_just_allowed(tmp_path):
    text = "float f(float x) { return x > 4 ? x : f(x + 1) + 1; }"
    assert call(tmp_path, text, recursion_depth=5) == 4.5 + 4
    assert "E0904" in call(tmp_path, text, recursion_depth=4)


def test_unrolled_loops_multiply(tmp_path):
    nest = "float f(float x) {{ {0} for (int i = 0; i < 10; i++) {0} for (int j = 0; j < 10; j++) x += i * j; return x; }}"
    assert call(tmp_path, nest.format("[ForceUnroll]"), unroll_iterations=100) == 45 * 45 + 0.5
    said = call(tmp_path, nest.format("[ForceUnroll]"), unroll_iterations=99)
    assert "error[E0792]: a nest of loops of 100 iterations is too long to be unrolled" in said
    assert call(tmp_path, nest.format(""), unroll_iterations=99) == 45 * 45 + 0.5
    said = call(tmp_path, nest.format("[ForceUnroll]"), inline_ops=150)
    assert "error[E0792]: a loop that adds up to" in said


def test_memory_for_tapes(tmp_path):
    assert isinstance(call(tmp_path, ROUNDS % 4, tape_bytes=1 << 20), float)
    said = call(tmp_path, ROUNDS % 1_000_000, tape_bytes=1 << 20)
    assert said.startswith("error[E0902]: kernel ")
    assert "ran out of memory for the values that its reverse sweep or its recursion keeps" in said
    assert (
        "a thread may use 1048576 bytes; a larger limit can be set: Options(limits=Limits(tape_bytes=...))"
        in said
    )


def test_locals_beyond_the_stack_are_kept_elsewhere(tmp_path):
    text = """
        float f(float x)
        {
            float a[300];
            for (int i = 0; i < 300; i++)
                a[i] = x + i;
            float sum = 0;
            for (int i = 0; i < 300; i++)
                sum += a[(i * 7) % 300];
            return sum;
        }"""
    assert call(tmp_path, text) == call(tmp_path, text, local_bytes=64) == 300 * 0.5 + 299 * 150


def test_the_chapter_tells_all_limits():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", CHAPTER.read_text(), re.MULTILINE)
    told = {name: int(value.replace(",", "")) for name, value in rows}
    assert told == {name: getattr(Limits(), name) for name in Limits.__dataclass_fields__}
    assert set(EXCEEDED) | {"tape_bytes", "local_bytes"} == set(told)
