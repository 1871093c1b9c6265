"""Derivatives that would be lost where they are stored, or that come from memory."""

import pytest

from tests.check.programs import codes, problem

TYPES = """
struct Plain
{
    float x;
    [Differentiable] [mutating] void add(float by) { x += detach(by); }
}
struct Part : IDifferentiable
{
    float x;
    no_diff float k;
    property float twice
    {
        [Differentiable] get { return 2 * x; }
        set { x = newValue / 2; }
    }
    property float half_of
    {
        [Differentiable] get { return x / 2; }
        [Differentiable] set { x = newValue * 2; }
    }
}
float plain(float x) { return x; }
[Differentiable] void square(float x, out float y) { y = x * x; }
[Differentiable] void reset(float x, out Plain p) { p = { detach(x) }; }
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("Plain p; p.x = x; return 0;", "'Plain' has no derivative"),
        ("Plain p[2]; p[1].x += x; return 0;", "'Plain' has no derivative"),
        ("Part p = {}; p.k = x; return 0;", "'k' is no_diff"),
        ("Part p = {}; p.twice = x; return 0;", "the setter of 'twice' is not differentiable"),
        ("Plain p; square(x, p.x); return 0;", "'Plain' has no derivative"),
        ("Plain p; square(1, p.x); return 0;", "'Plain' has no derivative"),
    ],
)
def test_places_that_hold_no_derivative(body: str, reason: str) -> None:
    found = problem(f"{TYPES}[Differentiable] float f(float x) {{ {body} }}")
    assert found.startswith(f"E0505: {reason}, so the derivative of 'f' would be lost here")


@pytest.mark.parametrize(
    "body",
    [
        "Plain p; p.x = detach(x); return x;",
        "Plain p; p.x = 2; return x;",
        "Plain p; p.x = no_diff plain(x); return x;",
        "Plain p; p.x = plain(x); return x;",
        "Plain p; p.add(x); return p.x * x;",
        "Plain p; reset(x, p); return p.x * x;",
        "Part p = {}; p.x = x; p.half_of = x; p.half_of *= x; return p.x;",
        "float2 v; v.x = x; v[1] = x; return v.y;",
        "float a[3]; square(x, a[1]); return a[1];",
        "no_diff float y; y = x; return y * x;",
    ],
)
def test_places_that_hold_what_is_stored(body: str) -> None:
    assert codes(f"{TYPES}[Differentiable] float f(float x) {{ {body} }}") == []


def test_each_place_is_reported() -> None:
    text = "[Differentiable] void f(float x, no_diff out Plain p, float* q) { p.x = x; q[0] = x; q[1] = x; }"
    assert codes(TYPES + text) == ["E0505", "E0505", "E0505"]


def test_objects_that_hold_no_derivative() -> None:
    methods = """
        struct Sum { float s; [Differentiable] [mutating] void add(float x) { s += x; } }
        struct Mean : IDifferentiable
        {
            float s;
            [Differentiable] [NoDiffThis] [mutating] void add(float x) { s += x; }
            [Differentiable] [mutating] void multiply(float x) { s *= x; }
        }"""
    assert codes(methods) == ["E0505", "E0505"]


def test_whole_objects_that_go_out() -> None:
    assert codes(f"{TYPES} [Differentiable] void f(float x, out Plain p) {{ p = {{ x }}; }}") == ["E0505"]
    assert codes("struct S { float x; [Differentiable] [mutating] void f(float y) { this = { y }; } }") == [
        "E0505"
    ]


def test_tensors_take_derivatives() -> None:
    text = "[Differentiable] void f(int i, float x, IRWDiffTensor<float, 1> t) { t[i] = x; t.store({ i }, t[i] * x); }"
    assert codes(text) == []
    assert codes("[Differentiable] void f(int i, float x, RWStructuredBuffer<float> t) { t[i] = x; }") == [
        "E0505"
    ]


def test_derivatives_that_come_from_memory() -> None:
    get = "[Differentiable] float f(int i, IDiffTensor<float, 1> t)"
    assert codes(f"{TYPES} {get} {{ return plain(t[i]); }}") == ["E0505"]
    assert codes(f"{TYPES} {get} {{ return plain(t.load({{ i }})); }}") == ["E0505"]
    assert codes(f"{TYPES} {get} {{ return no_diff plain(t[i]); }}") == []
    assert codes(f"{TYPES} {get} {{ return t[i] * plain(i); }}") == []
    constant = "[Differentiable] no_diff float one() { return 1; }"
    assert codes(f"{TYPES} {constant} [Differentiable] float f(float x) {{ return x * plain(one()); }}") == []


def test_the_hints() -> None:
    start = f"{TYPES}[Differentiable] void f(float x, no_diff out Plain p)"
    assert problem(f"{start} {{ p.x = x; }}").endswith(
        "(put 'detach(...)' around what is stored if this is meant)"
    )
    assert problem(f"{start} {{ square(x, p.x); }}").endswith(
        "(pass a variable, and store detach(...) of it if this is meant)"
    )
