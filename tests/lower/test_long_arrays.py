"""What is done to all elements of an array: written out for few scalars, a loop for more, whatever the length is."""

import pytest

from slangrad.ir.ops.core import walk
from tests.lower.lowering import lower

TEXTS = {
    "atomic": "struct S { int2 v[N]; int n; } S f(S* p, S value) { return __atomicAdd(p, value); }",
    "convert": "double[N] f(int x[N]) { return double[N](x); }",
    "begin": "float[N] f(float x) { float a[N] = { x, 2 }; return a; }",
    "columns": """
        struct S { column_major float3x2 m[N]; bool3 b[N]; }
        S f(S* p, int i) { S s = p[0]; s.b[i].x = true; p[1] = s; return s; }""",
    "dzero": """
        struct D : IDifferentiable
        {
            typealias Differential = D;
            float x;
            static D dzero() { return { 1 }; }
            static D dadd(D a, D b) { return { a.x + b.x }; }
        }
        struct S : IDifferentiable { D d[N]; }
        S f() { return S.dadd(S.dzero(), S.dzero()); }""",
    "dmul": "struct S : IDifferentiable { float w[N]; } S f(S s) { return S.dmul(2.0, s); }",
    "wave": "struct S { float2 w[N]; } S f(S s) { return WaveReadLaneFirst(s); }",
    "bit_cast": """
        struct S { half h; uint16_t n; float w[N]; }
        struct T { uint u[N]; uint v; }
        T f(S s) { return bit_cast<T>(s); }""",
    "bytes": """
        struct S { half h; half w[2 * N]; bool b[N]; }
        struct T { uint8_t a[N]; int16_t c; float3 d[N]; }
        T f(S s) { return reinterpret<T>(s); }""",
    "interface": """
        interface I { float at(int i); }
        struct A : I { float w[N]; half h[N]; float at(int i) { return w[i] + float(h[i]); } }
        struct B : I { float x; float at(int i) { return x; } }
        float f(I* p, int i) { I a = p[0]; p[1] = a; return a.at(i); }""",
}


def ops(name: str, length: int) -> list[str]:
    """All but constants, of which numbers that happen to be equal are one."""
    program = lower(f"static const int N = {length};\n{TEXTS[name]}")
    names = (op.name for f in program.functions.values() for op in walk(f.region))
    return [each for each in names if each != "const"]


@pytest.mark.parametrize("name", TEXTS)
def test_code_does_not_depend_on_the_length(name):
    short, long, odd = (ops(name, length) for length in (64, 4096, 1001))
    assert short == long
    assert short.count("for") == odd.count("for") and len(odd) < 1.5 * len(short)
    assert ("for" in short) == (name != "begin")
    assert "for" not in ops(name, 2)
