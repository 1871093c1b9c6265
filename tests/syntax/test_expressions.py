"""What expressions mean: grouping, generics against comparisons, casts against parentheses."""

import pytest

from slangrad.syntax import ast
from tests.syntax.shapes import errors, expression, parse, shape


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    ("a + b * c",             "(a + (b * c))"),
    ("a - b - c",             "((a - b) - c)"),
    ("a < b == c > d",        "((a < b) == (c > d))"),
    ("a << 1 + b",            "(a << (1 + b))"),
    ("a >> b >> c",           "((a >> b) >> c)"),
    ("a & b | c ^ d && e || f", "((((a & b) | (c ^ d)) && e) || f)"),
    ("a == b & c",            "((a == b) & c)"),
    ("a = b += c",            "(a = (b += c))"),
    ("a ? b : c ? d : e",     "(a ? b : (c ? d : e))"),
    ("a ? b = c : d",         "(a ? (b = c) : d)"),
    ("a || b ? c : d",        "((a || b) ? c : d)"),
    ("-a * b",                "((-a) * b)"),
    ("!a.b[c]",               "(!a.b[c])"),
    ("- -a",                  "(-(-a))"),
    ("a++ + ++b",             "((a++) + (++b))"),
    ("*p++",                  "(*(p++))"),
    ("&a[1]",                 "(&a[1])"),
    ("a >>= 2",               "(a >>= 2)"),
    ("a >= b",                "(a >= b)"),
    ("(a, b)",                "[(a, b)]"),
    ("x is T && y",           "((x is T) && y)"),
    ("x as T ? 1 : 2",        "((x as T) ? 1 : 2)"),
    ("x as T*",               "(x as pointer(T))"),
    ("a + x is T",            "((a + x) is T)"),
])
def test_precedence(text, expected):
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("f(x, y)(z)",            "f(x, y)(z)"),
    ("t[i, j].x->y::z",       "t[i, j].x->y::z"),
    ("a[]",                   "a[]"),
    ("f(x: 1, y)",            "f(x: 1, y)"),
    ("float3(1, 2, 3).xy",    "float3(1, 2, 3).xy"),
    ("1.0.xxx",               "1.0.xxx"),
    ("2.xxx",                 "2.xxx"),
    ("::g(1)",                "::g(1)"),
    ("this.x + super.y",      "(this.x + super.y)"),
    ("This(1)",               "This(1)"),
    ("{1, {a, b}, }",         "{1, {a, b}}"),
    ("S{1, 2}",               "cast(S, {1, 2})"),
    ("S{}",                   "cast(S, {})"),
    ("no_diff f(x) * 2",      "(no_diff(f(x)) * 2)"),
    ("try f(x) + 1",          "(try(f(x)) + 1)"),
    ("fwd_diff(f)(a)",        "fwd_diff(f)(a)"),
    ("__bwd_diff(A.f)(a)",    "bwd_diff(A.f)(a)"),
    ("fwd_diff(bwd_diff(f<int>))", "fwd_diff(bwd_diff(f<int>))"),
    ("sizeof(float4)",        "sizeof(float4)"),
    ("sizeof(T*[2])",         "sizeof(array(pointer(T), 2))"),
    ("countof(x + y)",        "countof((x + y))"),
    ("new T(1)",              "new T(1)"),
    ("expand f(each x, y)",   "expand(f(each(x), y))"),
    ("a.operator+(b)",        "a.operator+(b)"),
    ("nullptr",               "nullptr"),
    ("none",                  "none"),
    ("new",                   "new"),
    ("expand",                "expand"),
    ('"a" "b\\n"',            "'ab\\n'"),
    ("spirv_asm { OpNop; }",  "assembly ' OpNop; '"),
])
def test_atoms_and_attachments(text, expected):
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("f<int>(x)",             "f<int>(x)"),
    ("f<float, 3>(x)",        "f<float, 3>(x)"),
    ("a < b",                 "(a < b)"),
    ("a < b && c > (d)",      "((a < b) && (c > [d]))"),
    ("f(a < b, c > d)",       "f((a < b), (c > d))"),
    ("f(a < b, c > (d))",     "f(a<b, c>(d))"),
    ("a < b ? c > (d) : e",   "((a < b) ? (c > [d]) : e)"),
    ("(a < b) > (c)",         "([(a < b)] > [c])"),
    ("A<B<int>>(x)",          "A<B<int>>(x)"),
    ("A<B<C<int>>>(x)",       "A<B<C<int>>>(x)"),
    ("a < b >> c",            "(a < (b >> c))"),
    ("f<N + 1>(x)",           "f<(N + 1)>(x)"),
    ("f<N * 2 - M>()",        "f<((N * 2) - M)>()"),
    ("f<(N > 2)>()",          "f<[(N > 2)]>()"),
    ("f<1 == 1, E::A>()",     "f<(1 == 1), E::A>()"),
    ("f<-1>()",               "f<(-1)>()"),
    ("f<int*>()",             "f<pointer(int)>()"),
    ("f<int[3]>()",           "f<array(int, 3)>()"),
    ("f<T?>()",               "f<optional(T)>()"),
    ("f<IFoo & IBar>()",      "f<(IFoo & IBar)>()"),
    ("f<(int, float)>()",     "f<tuple(int, float)>()"),
    ("f<functype(int) -> float>()", "f<function(int) -> float>()"),
    ("A<int>.f<3>()",         "A<int>.f<3>()"),
    ("A<int>::x",             "A<int>::x"),
    ("f<expand each T>()",    "f<expand(each(T))>()"),
    ("vector<float, 3>(1)",   "vector<float, 3>(1)"),
    ("x < 3",                 "(x < 3)"),
    ("i < n ? a[i] : b > c",  "((i < n) ? a[i] : (b > c))"),
    ("bit_cast<uint>(x) < 3", "(bit_cast<uint>(x) < 3)"),
    ("fwd_diff(f<3>)",        "fwd_diff(f<3>)"),
    ("f<__first(T)>()",       "f<__first(T)>()"),
])
def test_generic_arguments_and_comparisons(text, expected):
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("(float)x",              "cast(float, x)"),
    ("(half2)a[i]",           "cast(half2, a[i])"),
    ("(float)-x",             "cast(float, (-x))"),
    ("(S)-x",                 "cast(S, (-x))"),
    ("(x)-y",                 "([x] - y)"),
    ("(x)*y",                 "([x] * y)"),
    ("(float*)&x",            "cast(pointer(float), (&x))"),
    ("(A<int>)-x",            "cast(A<int>, (-x))"),
    ("(T)x",                  "cast(T, x)"),
    ("(A.B)1.0",              "cast(A.B, 1.0)"),
    ("(T.Differential)(x)",   "cast(T.Differential, [x])"),
    ("(T)(x)",                "[T](x)"),
    ("(A::B) -x",             "cast(A::B, (-x))"),
    ("(A::B) - x",            "([A::B] - x)"),
    ("(A::B)-x",              "([A::B] - x)"),
    ("(A::S)-x",              "cast(A::S, (-x))"),
    ("(float)(x).y",          "cast(float, [x].y)"),
    ("(int)(float)x",         "cast(int, cast(float, x))"),
    ("(float)x + y",          "(cast(float, x) + y)"),
    ("(float3)0.0.x",         "cast(float3, 0.0.x)"),
    ("(S){1}",                "cast(S, {1})"),
    ("(f)(x) + 1",            "([f](x) + 1)"),
    ("(a) is T",              "([a] is T)"),
    ("(float[2])x",           "cast(array(float, 2), x)"),
    ("(a[2])+x",              "([a[2]] + x)"),
    ("!(a) && b",             "((![a]) && b)"),
])
def test_casts_and_parentheses(text, expected):
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(("text", "value", "suffix"), [
    ("0", 0, ""), ("42u", 42, "u"), ("0xFFul", 255, "ul"), ("0b101", 5, ""), ("017", 15, ""), ("089", 89, ""),
    ("1'000'000LL", 1_000_000, "ll"), ("1_000Z", 1000, "z"), ("18446744073709551615LU", 2**64 - 1, "ul"),
])
def test_integers(text, value, suffix):
    literal = expression(text)
    assert isinstance(literal, ast.IntLiteral)
    assert (literal.value, literal.suffix) == (value, suffix)


@pytest.mark.parametrize(("text", "value", "suffix"), [
    ("1.0", 1.0, ""), (".5f", 0.5, "f"), ("1.f", 1.0, "f"), ("1e3h", 1000.0, "h"), ("2.5lf", 2.5, "lf"),
    ("1E-2L", 0.01, "l"), ("0x1.8p3", 12.0, ""), ("1.#INF", float("inf"), ""), ("1'0.2'5", 10.25, ""),
])
def test_floats(text, value, suffix):
    literal = expression(text)
    assert isinstance(literal, ast.FloatLiteral)
    assert (literal.value, literal.suffix) == (value, suffix)
# fmt: on


def test_lambdas_are_functions():
    short = expression("(int x, y) => x + y")
    assert isinstance(short, ast.Lambda)
    assert [parameter.name for parameter in short.function.parameters] == ["x", "y"]
    assert short.function.parameters[1].value_type is None
    returned = short.function.body.statements[0]
    assert isinstance(returned, ast.Return) and shape(returned.value) == "(x + y)"

    long = expression("() => { return 1; }")
    assert isinstance(long, ast.Lambda) and len(long.function.body.statements) == 1


def test_tuples_since_2026():
    text = "void f() { x = (a, b); y = (c); }"
    old, new = parse(text), parse("#lang 2026\n" + text)
    assert shape(old.members[0].body.statements[0].expression) == "(x = [(a, b)])"
    assert shape(new.members[0].body.statements[0].expression) == "(x = tuple(a, b))"
    assert shape(new.members[0].body.statements[1].expression) == "(y = [c])"
    assert (old.language, new.language) == (2025, 2026)


def test_spans_cover_what_was_written():
    text = "void f() { x = a + g<int>(b)[1] * c; }"
    assign = parse(text).members[0].body.statements[0].expression
    assert assign.span.text == "x = a + g<int>(b)[1] * c"
    assert assign.value.right.left.span.text == "g<int>(b)[1]"
    assert assign.value.right.left.base.span.text == "g<int>(b)"


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    ("1.5q",    "E0103 1: '1.5q' is not a number"),
    ("0x",      "E0103 1: '0x' is not a number"),
    ("99999999999999999999", "E0103 1: the number is larger than 64 bits"),
    ("'ab'",    "E0104 1: 'ab' is not one character"),
    ('"\\q"',   "E0104 1: '\\q' is not an escape sequence"),
    ("f(1, ",   "E0202 1: expected an expression, found ';'"),
    ("a[1",     "E0207 1: expected ']' to close '[', found ';'"),
    ("a ? b",   "E0201 1: expected ':' after the second operand of '?', found ';'"),
    ("()",      "E0202 1: expected an expression between '(' and ')'"),
    ("fwd_diff(f, g)", "E0202 1: fwd_diff takes one function"),
    ("a.1",     "E0201 1: expected ';' after the expression, found '.1'"),
])
def test_errors(text, expected):
    assert errors(f"void f() {{ x = {text}; }}")[0] == expected
# fmt: on
