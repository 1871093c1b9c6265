"""Lost derivatives follow the order of statements: which store a load sees, on all paths that lead there."""

import pytest

from tests.check.programs import problems

START = """
float plain(float x) { return x; }
void put(float x, out float y) { y = x; }
enum Wrong { one }
void fail(float x) throws Wrong { if (x > 3) throw Wrong.one; }
[Differentiable] void square(float x, out float y) { y = x * x; }
struct Pair : IDifferentiable { float a; float b; }
[Differentiable] float apply<F : IDifferentiableFunc<float, float>>(F f, float x) { return f(x) * 2; }
struct Box { float a; }
struct Cell : IDifferentiable
{
    float a;
    no_diff float k;
    property float half { get { return a / 2; } set { a = newValue * 2; } }
    property int count { get { return int(a); } set { a = newValue; } }
}
"""

LOST = [
    "return plain(plain(x));",
    "float y = plain(x); y = plain(y); y = plain(y) * 2; return y;",
    "float y = 2; y = x; return plain(y);",
    "float y = x; if (c) y = 2; return plain(y);",
    "float y = 2; if (c) y = x; else y = 3; return plain(y);",
    "float y = 2; if (c) { y = x; return 1; } else y = 3; y = x; return plain(y);",
    "float y = 2; float z = 0; for (int i = 0; i < 3; i++) { z += plain(y); y = x; } return z;",
    "float y = x; float z = 0; while (z < 3) { z += plain(y); y = 2; } return z;",
    "float y = x; while (c) y = 2; return plain(y);",
    "float y = x; while (true) { if (c) break; y = 2; } return plain(y);",
    "float y = 2; do { y = 2; if (c) continue; y = x; } while (c); return plain(y);",
    "float y = 2; do { y = x; if (c) continue; y = 2; } while (c); return plain(y);",
    "float y = 2; outer: for (int i = 0; i < 3; i++) { for (int j = 0; j < 3; j++) { y = x; if (c) continue outer;"
    " y = 2; } } return plain(y);",
    "float y = 2; outer: for (int i = 0; i < 3; i++) { for (int j = 0; j < 3; j++) { y = x; if (c) break outer;"
    " y = 2; } } return plain(y);",
    "float y = 2; float z = 0; for (int i = 0; i < 3; i++) { for (int j = 0; j < 3; j++) z += plain(y); y = x; }"
    " return z;",
    "float y = 2; switch (int(x)) { case 0: y = x; case 1: return plain(y); } return 0;",
    "float y = x; switch (int(x)) { case 0: y = 1; break; case 1: y = 2; break; } return plain(y);",
    "float y = 2; switch (int(x)) { case 0: y = x; break; default: y = 2; } return plain(y);",
    "float y = x; bool b = c && (y = 2) > 1; return plain(y);",
    "float y = 2; float z = c ? (y = x) : 1; return plain(y);",
    "float y = 2; do { y = x; try fail(x); y = 2; } catch { return plain(y); } return 1;",
    "float y = 2; do { try fail(x); y = x; throw Wrong.one; } catch (e : Wrong) { } return plain(y);",
    "float y = x; float* p = &y; y = 2; *p = x; return plain(y);",
    "Pair p = { x, x }; p.a = 2; return plain(p.b);",
    "float a[2] = { x, x }; a[0] = 2; return plain(a[1]);",
    "float2 v = x; v.x = 2; return plain(v.y);",
    "float y = x; { defer y = 2; } return plain(y);",
    "float y = 1; square(x, y); return plain(y);",
    "float y; put(x, y); return y;",
    "float y = plain(x); if (c) y = x; return y;",
    "float y = 2; float z; let f = (float t) => t * y; y = x; z = plain(y); return f(2) + z;",
    "float y = x; float z = plain(y); y = 2; return z + y;",
    "float y = 0; $for (i in Range(2)) { if (c) y += plain(y); else y = x; } return y;",
    "Cell s = {}; s.half = plain(x); return s.a;",
    "Cell s = {}; s.half += plain(x); return s.a;",
    "Cell s = {}; s.half = x; return s.a;",
    "Cell s = { x }; s.half = 2; return s.a;",
    "Cell s = { x }; if (c) s.count = 2; return s.a;",
    "Cell s[2] = {}; s[1].a = x; s[1].half = 2; return s[1].a;",
    "let g = (float q) => plain(q); return g(x);",
    "let g = (float q) => q * plain(x); return g(2);",
    "float y = x; let g = (float q) => { float z = q; z = plain(z); return z * y; }; y = 2; return g(x);",
    "let g = (float q) => plain(q) + 1; return apply(g, x);",
    "let g = (float q) => { let h = (float p) => plain(p); return h(q); }; return g(x);",
]
KEPT = [
    "let g = (float q) => plain(q); return g(2) * x;",
    "let g = (float q) => no_diff plain(q); return g(x) * x;",
    "float y = 2; let g = (float q) => q * plain(y); y = x; return g(x) * y;",
    "let g = (float q) => plain(q) + 1; return apply(g, 2) * x;",
    "Cell s = { x }; float y = s.a; s.half = 2; return y;",
    "Cell s = { x }; s.half = 2; s = { x }; return s.a;",
    "Cell s = { 3 }; s.count = 2; s.a = x; return s.a;",
    "Cell s = {}; s.half = plain(x); s = { x }; return s.a;",
    "Cell s = {}; s.half = 2; return s.a * x;",
    "Box b = {}; b.a = plain(x); return b.a * x;",
    "Cell s = {}; s.k = plain(x); return s.a * x;",
    "float y = x; y = 2; return plain(y) + x;",
    "float y = plain(x); y = x; return y;",
    "float y = x; if (c) y = 2; else y = 3; return plain(y);",
    "float y = 2; if (c) { y = x; return y; } return plain(y);",
    "float y = x; float z = 0; for (int i = 0; i < 3; i++) { y = 2; z += plain(y); y = x; } return z;",
    "float z = 0; for (int i = 0; i < 3; i++) { float y; z += plain(y); y = x; } return z;",
    "float y = x; while (true) { y = 2; if (c) break; y = x; } return plain(y);",
    "float y = x; do { y = 2; } while (c); return plain(y);",
    "float y = 2; outer: for (int i = 0; i < 3; i++) { y = x; for (int j = 0; j < 3; j++) { y = 2; if (c) break outer; }"
    " y = 2; } return plain(y);",
    "float y = 2; switch (int(x)) { case 0: y = x; break; case 1: return plain(y); } return y;",
    "float y = x; switch (int(x)) { case 0: y = 1; break; default: y = 2; } return plain(y);",
    "float y = x; square(2, y); return plain(y);",
    "float y = x; put(2, y); return y + plain(y);",
    "float y = 2; do { try fail(2); y = x; } catch { return plain(y); } return y;",
    "Pair p = { x, x }; p = { 1, 2 }; return plain(p.a);",
    "float a[2] = { x, x }; a = { 1, 2 }; return plain(a[1]);",
    "Box b = { x }; b = { 2 }; return b.a;",
    "float y = 2; while (y < 3) { y += plain(y); } y = x; return y;",
    "float y = plain(x); while (c) { y = x; if (c) return y; } y = 1; return y * x;",
]  # fmt: skip


def program(body: str) -> str:
    return f"{START} [Differentiable] float f(float x, bool c) {{ {body} }}"


@pytest.mark.parametrize("body", LOST)
def test_losses(body: str) -> None:
    assert [problem.code for problem in problems(program(body))] == ["E0505"]


@pytest.mark.parametrize("body", KEPT)
def test_values_that_were_overwritten(body: str) -> None:
    assert [problem.message for problem in problems(program(body))] == []


def test_parameters_that_go_out() -> None:
    """The caller gets the value of each return."""
    cases = {
        "y = plain(x); y = x;": [],
        "y = plain(x); if (x > 1) return; y = x;": ["E0505"],
        "y = x; if (x > 1) return; y = plain(x);": ["E0505"],
        "y = plain(x); for (int i = 0; i < 3; i++) { y = 2; if (x > 1) return; y = x; } y = x;": [],
        "y = plain(x); for (int i = 0; i < 3; i++) { if (x > 1) return; y = x; } y = x;": ["E0505"],
    }
    for body, codes in cases.items():
        text = f"{START} [Differentiable] void f(float x, inout float y) {{ {body} }}"
        assert [problem.code for problem in problems(text)] == codes, body


def test_objects_that_change() -> None:
    start = f"{START} struct S : IDifferentiable {{ float a; [Differentiable] [mutating] void f(float x)"
    assert problems(f"{start} {{ this = {{ plain(x) }}; this = {{ x }}; }} }}") == []
    assert len(problems(f"{start} {{ this = {{ x }}; this = {{ plain(x) }}; }} }}")) == 1
    assert len(problems(f"{start} {{ a = plain(x); a = x; }} }}")) == 1  # a part of one variable
