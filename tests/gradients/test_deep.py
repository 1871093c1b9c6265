"""Long chains and deep nesting compile and are differentiated, or are refused with a place: never a RecursionError."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy
from tests.std.programs import lowered

ELSE_IFS = 300
CHAIN = " ".join(f"else if (x < {i}) s = s * {i}.0;" for i in range(1, ELSE_IFS))
RETURNS = " ".join(f"if (x < {i}) return s * {i}.0;" for i in range(1, ELSE_IFS))
CASES = " ".join(f"case {i}: s = s * {i}.0; break;" for i in range(ELSE_IFS))


@pytest.mark.parametrize(
    "body",
    [
        f"float s = x; if (x < 0) s = 1; {CHAIN} return s;",
        f"float s = x; {RETURNS} return s;",
        f"float s = x; switch (int(x) + 1) {{ {CASES} }} return s;",
    ],
    ids=["else if", "return", "switch"],
)
def test_long_chains(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_OPTIMIZE", "0")
    monkeypatch.setenv("SLANGRAD_LANES", "1")
    monkeypatch.setenv("SLANGRAD_VERIFY", "0")
    text = f"""
        [Differentiable] float f(float x) {{ {body} }}
        float slope(float x) {{ var p = diffPair(x); bwd_diff(f)(p, 1.0f); return p.d; }}"""
    module = spy.Module.load_from_source(spy.create_device(), "chain", text)
    x = np.array([0.5, 2.5, 200.5], dtype=np.float32)
    np.testing.assert_array_equal(module.slope(x, _result="numpy"), [1.0, 3.0, 201.0])


@pytest.mark.parametrize(
    "body",
    [
        "float s = x; " + "for (int i = 0; i < 1; i++) { " * 500 + "s = s * 2;" + "}" * 500 + " return s;",
        "float s = x; " + "if (s > 0) { " * 500 + "s = s * 2;" + "}" * 500 + " return s;",
        "return " + "(" * 500 + "x" + ")" * 500 + ";",
        "return " + "".join(f"x < {i} ? x * {i} : " for i in range(500)) + "x;",
    ],
    ids=["loops", "ifs", "parentheses", "choices"],
)
def test_deep_nesting_is_refused(body: str) -> None:
    with pytest.raises(spy.CompileError, match=r"E0206.*nested more than 256 deep"):
        spy.Module.load_from_source(
            spy.create_device(), "deep", f"[Differentiable] float f(float x) {{ {body} }}"
        )


@pytest.mark.parametrize(
    "text",
    [
        "float f<let N : int>(float x) { return f<N + 1>(x) + 1; } float g(float x) { return f<0>(x); }",
        "struct Wrapped<T> { T value; } float f<T>(T x) { Wrapped<T> w = { x }; return f(w); } float g(float x) { return f(x); }",
    ],
    ids=["numbers", "types"],
)
def test_instances_without_an_end_are_refused(text: str) -> None:
    with pytest.raises(spy.CompileError, match=r"E0702.*'f' needs endless instances of itself"):
        lowered(text)
