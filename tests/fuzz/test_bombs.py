"""Programs that grow: what compiling them costs grows linearly with the text, or a limit refuses them with a code.

Cost is counted as calls that Python makes, of its own functions and of builtin ones; a time would differ between runs.
"""

from __future__ import annotations

import cProfile
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Limits, Options
from tests.fuzz.long_programs import generate_long

LIMITS = Limits(macro_tokens=50_000)  # which takes a while to reach otherwise
DEVICE = spy.create_device(options=Options(threads=1, lanes=1, optimize=0, verify=False, limits=LIMITS))


def compiled(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spy.Module.load_from_source(DEVICE, "bomb", text).f(1.0)


def work(text: str) -> int:
    """How many calls it takes to compile a program and to run it once."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        compiled(text)
    finally:
        profile.disable()
    return sum(each.callcount for each in profile.getstats())


def function(*lines: str, result: str = "x") -> str:
    return "float f(float x)\n{\n" + "\n".join(lines) + f"\nreturn {result};\n}}\n"


def many(line: str, n: int, between: str = "\n") -> str:
    """A line for each number below n, which stands in it as `@`; `@-` is the number before."""
    return between.join(line.replace("@-", str(i - 1)).replace("@", str(i)) for i in range(1, n + 1))


def switch(case: str) -> Callable[[int], str]:
    return lambda n: function("switch (int(x)) {", many(case, n), "}")


def nested(open: str, inner: str, close: str) -> Callable[[int], str]:
    return lambda n: function(result=open * n + inner + close * n)


# fmt: off
# Each is a size, and the program of a size; counted are this one and four times as much, in the deep tier sixteen times.
LINEAR: dict[str, tuple[int, Callable[[int], str]]] = {
    "lists":          (100, lambda n: function(f"int a[{n}] = {{ {many('@', n, ', ')} }};", result="a[int(x)]")),
    "tables":         (100, lambda n: f"static const int t[{n}] = {{ {many('@', n, ', ')} }};\n" + function(result="t[int(x)]")),
    "switches":       (65,  switch("case @: x += @; break;")),
    "returns":        (40,  switch("case @: return @;")),
    "falling":        (30,  switch("case @: x += @;")),
    "labels":         (100, lambda n: function("switch (int(x)) {", many("case @:", n), "x += 1; break; }")),
    "enums":          (500, lambda n: f"enum E {{ {many('m@', n, ', ')} }}\n" + function(result=f"float(E.m{n})")),
    "enum values":    (200, lambda n: f"enum E {{ m0, {many('m@ = m@- + 1', n, ', ')} }}\n" + function(result=f"float(E.m{n})")),
    "statements":     (60, lambda n: function("x = x * 1.01 + 0.5;\n" * n)),
    "declarations":   (100, lambda n: function("float v0 = x;", many("float v@ = v@- * 1.01;", n), result=f"v{n}")),
    "elements":       (25,  lambda n: function("float a[16];", many("a[(int(x) + @) & 15] += x;", n), result="a[3]")),
    "calls":          (60,  lambda n: "float g(float x) { return x * 2; }\n" + function("x = g(x);\n" * n)),
    "ifs":            (40,  lambda n: function(many("if (x > @) x = x * 1.01;", n))),
    "loops":          (20,  lambda n: function("int k = int(x);", many("for (int i = 0; i < k; i++) x += @;", n))),
    "exits":          (65,  lambda n: function(many("if (x == -@) return @;", n))),
    "breaks":         (30,  lambda n: function("while (true) {", many("if (x > @) break; x += 1;", n), "break; }")),
    "sums":           (100, lambda n: function(result=" + ".join(["x"] * n))),
    "conditions":     (100, lambda n: function(f"if ({' && '.join(['x > 1'] * n)}) x = 1;")),
    "parentheses":    (15,  nested("(", "x", ")")),
    "nested calls":   (15,  nested("max(x, ", "x", ")")),
    "nested casts":   (7,   nested("(float)(", "x", ")")),
    "nested types":   (7,   lambda n: "struct A<T> { T a; }\n" + function("A<" * n + "float" + ">" * n + " a;")),
    "overloads":      (15,  lambda n: many("struct S@ {} float g(S@ s) { return @; }", n) + "\n" + function("S1 s;", result="g(s)")),
    "nested overloads": (15, lambda n: "int g(int x) { return x; } float g(float x) { return x; } half g(half x) { return x; }\n"
                                       + nested("g(", "x", ")")(n)),
    "arguments":      (50,  lambda n: f"float g({many('float a@', n, ', ')}) {{ return a1; }}\n"
                                      + function(result=f"g({', '.join(['x'] * n)})")),
    "functions":      (40,  lambda n: "float g0(float x) { return x; }\n" + many("float g@(float x) { return g@-(x) + @; }", n)
                                      + "\n" + function(result=f"g{n}(x)")),
    "doubled calls":  (16,  lambda n: "float g0(float x) { return x * x; }\n"
                                      + many("float g@(float x) { if (x < 0) return x; return g@-(x) + g@-(x + 1); }", n)
                                      + "\n" + function(result=f"g{n}(-1 - x)")),
    "structs":        (40,  lambda n: "struct S0 { float x; }\n" + many("struct S@ { S@- s; float y; }", n) + "\n"
                                      + function(f"S{n} s;")),
    "fields":         (80,  lambda n: f"struct S {{ {many('float m@ = @;', n)} }}\n" + function("S s = {};", result=f"s.m{n}")),
    "interfaces":     (50,  lambda n: many("interface I@ { float m@(); }", n) + f"\nstruct C : {many('I@', n, ', ')} {{ "
                                      + many("float m@() { return @; }", n) + " }\n" + function("C c;", result="c.m1()")),
    "structs in reverse": (40, lambda n: many("struct S@- { S@ s; float y; }", n) + f"\nstruct S{n} {{ float x; }}\n"
                                      + function("S0 s;")),
    "interfaces in a row": (40, lambda n: "interface I0 { float m(); }\n" + many("interface I@ : I@- {}", n) + "\n"
                                      + f"struct C : I{n} {{ float m() {{ return 1; }} }}\n" + function("C c;", result="c.m()")),
    "aliases":        (100, lambda n: "typealias t0 = float;\n" + many("typealias t@ = t@-;", n) + "\n"
                                      + function(f"t{n} a = x;", result="a")),
    "constants":      (80,  lambda n: "static const int c0 = 1;\n" + many("static const int c@ = c@- + 1;", n) + "\n"
                                      + function(f"int a[c{n}];")),
    "statics":        (50,  lambda n: many("static float g@ = @;", n) + "\n" + function(many("g@ += x;", n), result="g1")),
    "macros":         (200, lambda n: many("#define M@ @", n) + "\n" + function(result="M1")),
    "conditionals":   (100, lambda n: many("#ifdef X@\n#elif defined(Y)\n#else\n#endif", n) + "\n" + function()),
    "long program":   (10,  lambda n: generate_long(7, n).replace("float f(", "float whole(") + function(result="whole(x, x, 3)")),
}
# fmt: on


@pytest.fixture(scope="module")
def least() -> int:
    compiled(function())  # the library is read with the first program
    return work(function("x += 1;"))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", LINEAR)
def test_work_grows_with_the_text(name: str, least: int) -> None:
    size, program = LINEAR[name]
    compiled(program(2))
    check_growth(program, size, 4 * size, least)


@pytest.mark.deep
@pytest.mark.parametrize("name", LINEAR)
def test_work_grows_with_a_longer_text(name: str, least: int) -> None:
    size, program = LINEAR[name]
    compiled(program(2))
    check_growth(program, 4 * size, 16 * size, least)


def check_growth(program: Callable[[int], str], size: int, larger: int, least: int) -> None:
    """Four times the text is at most five times the work. A random program may grow by more than its size says."""
    small, large = (work(program(n)) - least for n in (size, larger))
    growth = max(4.0, len(program(larger)) / len(program(size)))
    assert large <= 1.25 * growth * small + least, f"{small} calls for {size}, {large} for {larger}"


# fmt: off
TOKENS = {
    "hexadecimal": lambda n: "0x" + "1" * n,
    "fractions":   lambda n: "1" * n + "." + "1" * n,
    "raw strings": lambda n: 'R"(\n' * n,
    "characters":  lambda n: "'" + "\\'" * n,
}
# fmt: on


@pytest.mark.parametrize("name", TOKENS)
def test_long_tokens_end(name: str) -> None:
    """Patterns that try each place again would take minutes."""
    with pytest.raises(spy.CompileError, match=r"E0\d\d\d"):
        compiled(function(result=TOKENS[name](30_000) + "q"))


def doubled(first: str, line: str, n: int = 40) -> str:
    return first + "\n" + many(line, n) + "\n"


# fmt: off
REFUSED: dict[str, tuple[str, str]] = {
    "sum":             ("E0206", function(result=" + ".join(["x"] * 10_000))),
    "else if":         ("E0206", function("if (x < 0) x = 1;", many("else if (x == @) x = 2;", 10_000))),
    "parentheses":     ("E0206", nested("(", "x", ")")(50_000)),
    "lambdas":         ("E0206", nested("((float y) => ", "x", ")(x)")(1_000)),
    "doubled text":    ("E0113", doubled("#define C(a, b) a##b\n#define T(a) C(a, a)\n#define M0 x", "#define M@ T(M@-)")
                                 + function(result="M40")),
    "doubled tokens":  ("E0113", doubled("#define M0 x", "#define M@ M@- + M@-") + function(result="M40")),
    "chain of macros": ("E0113", "#define M0(x) x\n" + many("#define M@(x) M@-(x)", 3_000) + "\n" + function(result="M3000(x)")),
    "chain of constants": ("E0206", many("static const int c@- = c@;", 3_000) + "\nstatic const int c3000 = 1;\n"
                                    + function("int a[c0];")),
    "deferred":        ("E0206", function("defer x += 1;\n" * 3_000)),
    "doubled struct":  ("E0710", doubled("struct S0 { float x; }", "struct S@ { S@- a; S@- b; }") + function("S40 s = {};")),
    "doubled generic": ("E0702", doubled("struct P<A, B> { A a; B b; }\ntypealias S0 = int;", "typealias S@ = P<S@-, S@->;")
                                 + function("S40 s;")),
    "doubled tuple":   ("E0702", doubled("typealias S0 = int;", "typealias S@ = Tuple<S@-, S@->;") + function("S40 s;")),
    "doubled array":   ("E0710", function(f"float a{'[2]' * 40};")),
    "doubled type argument": ("E0710", "struct P<A> { A a; A b; }\nfloat g<T>(T t, int n) { P<T> p = { t, t }; return n > 0 ? g(p, n - 1) : 1; }\n"
                                 + function(result="g(1, 3)")),
    "vector":          ("E0710", function("vector<float, 2147483647> v = x;", result="v[0]")),
    "matrix":          ("E0710", function("matrix<float, 1000, 1000> m = x; m = mul(m, m);", result="m[0][0]")),
    "unrolled nest":   ("E0792", function("[ForceUnroll] for (int i = 0; i < 100; i++)" * 3, "x += 1;")),
    "array":           ("E0710", function("float a[1000000000] = {};", result="a[int(x)]")),
    "interfaces":      ("E0413", "interface A : B {}\ninterface B : A {}\nstruct S : A {}\n" + function()),
    "interface":       ("E0413", "interface A : A {}\n" + function()),
    "generic interfaces": ("E0413", "interface A<T> : B<T> {}\ninterface B<T> : A<A<T>> {}\n" + function()),
    "structs":         ("E0325", "struct A : B {}\nstruct B : A {}\n" + function("A a;")),
    "type aliases":    ("E0321", "typealias A = B;\ntypealias B = A;\n" + function("A a;")),
    "generic alias":   ("E0321", "typealias A<T> = A<A<T>>;\n" + function("A<int> a;")),
    "static constants": ("E0321", "static const int a = b;\nstatic const int b = a;\n" + function("float q[a];")),
    "generic constants": ("E0321", "struct S<let N : int> { static const int v = S<N + 1>.v; }\n" + function("float q[S<0>.v];")),
    "defaults":        ("E0321", "struct S { float x = T().y; }\nstruct T { float y = S().x; }\n" + function("S s = {};")),
    "associated types": ("E0702", "interface I { associatedtype A : I; }\nstruct S<T> : I { typealias A = S<S<T>>; }\n"
                                  "float g<T : I>(int n) { return n > 0 ? g<T.A>(n - 1) : 1; }\n" + function(result="g<S<int>>(3)")),
    "enum cases":      ("E0321", "enum E { a = b, b = a }\n" + function(result="float(E.a)")),
    "size of itself":  ("E0321", "struct S { int a[sizeof(S)]; }\n" + function("S s;")),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_end_has_a_code(name: str) -> None:
    code, text = REFUSED[name]
    with pytest.raises(ValueError, match=rf"error\[{code}\]") as raised:
        compiled(text)
    assert len(str(raised.value)) < 10_000
    assert "bomb:" in str(raised.value)


@pytest.mark.parametrize("default", ["", "default: x -= 5; break;"])
def test_a_long_switch_chooses_as_a_short_one(default: str) -> None:
    """Of more than 64 cases: with several labels, with `return`, with and without a default."""
    cases = "\n".join(
        f"case {i}: {f'case {i + 1000}:' if i % 7 == 0 else ''} x += {i}; {'break' if i % 3 else 'return x * 2'};"
        for i in range(200)
    )
    text = f"float g(float x, int k) {{ switch (k) {{ {cases} {default} }} return x; }}"
    numbers = np.arange(-2, 1210, dtype=np.int32)
    got = spy.Module.load_from_source(DEVICE, "switch", text).g(1.0, numbers, _result="numpy")

    def expected(k: int) -> float:
        i = k - 1000 if k >= 1000 and k % 7 == 1000 % 7 else k
        if not 0 <= i < 200:
            return -4.0 if default else 1.0
        return (1.0 + i) * (1 if i % 3 else 2)

    assert got.tolist() == [expected(k) for k in numbers.tolist()]


def test_many_exits_leave_where_they_did() -> None:
    """Of more than 64 in a row; what is declared among them is there behind them: numbers, arrays, structs, lambdas."""
    lines = [f"float v{i} = x + {i}; if (k == {i}) return v{i} + v{i // 2};" for i in range(200)]
    lines[9] += " float a[3] = { 1, 2, x }; S s = { x, { 3, 4 } }; let l = (float y) => y + v5;"
    lines[99] += " a[1] += v3; s.b.y = a[1]; while (s.a < 9) { s.a += 1; if (k == 300) break; }"
    text = "struct S { float a; float2 b; }\nfloat g(float x, int k)\n{\n" + "\n".join(lines)
    text += "\nreturn v199 + a[1] + s.a + s.b.y + l(x);\n}"
    numbers = np.array([*range(-1, 202), 300], dtype=np.int32)
    for backend in (DEVICE, spy.create_device(backend="interpreter")):
        got = spy.Module.load_from_source(backend, "exits", text).g(0.5, numbers, _result="numpy")
        end = 199.5 + 5.5 + 5.5 + 6
        want = [
            k + k // 2 + 1.0 if 0 <= k < 200 else end + (1.5 if k == 300 else 9.5) for k in numbers.tolist()
        ]
        assert got.tolist() == want


def test_derivatives_of_many_exits() -> None:
    lines = [f"double v{i} = x * {i}; if (x > {300 - i}) return v{i} * v{i // 2};" for i in range(100)]
    text = "[Differentiable] double g(double x)\n{\n" + "\n".join(lines) + "\nreturn v99 * v98 * v5;\n}"
    function = spy.Module.load_from_source(DEVICE, "derivatives", text).g
    for x, slope in (
        (0.5, 3 * 99 * 98 * 5 * 0.25),
        (250.5, 2 * 50 * 25 * 250.5),
        (210.0, 2 * 91 * 45 * 210.0),
    ):
        assert spy.grad(function)(x) == pytest.approx(slope, rel=1e-12)
