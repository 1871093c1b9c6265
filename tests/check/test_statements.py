"""Statements, declarations, initializers, and what is wrong with them."""

import pytest

from slangrad.check.model import checked
from tests.check.programs import check, codes, conversion_of, expression, problem, problems, type_of


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("float f(float x) { return sinn(x); }", "E0301: 'sinn' is not declared (did you mean 'sin'?)"),
        (
            "void f(float3 v) { v.foo; }",
            "E0304: 'float3' has no member 'foo' ('foo' is no swizzle of a 'float3')",
        ),
        (
            "struct S { int count; } void f(S s) { s.coumt; }",
            "E0304: 'S' has no member 'coumt' (did you mean 'count'?)",
        ),
        ("void f() { x y; }", "E0301: 'x' is not declared"),
        ("void f(int x) { x y; }", "E0303: 'x' is no type"),
        ("void f() { float = 1; }", "E0302: 'float' is a type, not a value (write 'float(...)' to make one)"),
        ("void f() { int x; int x; }", "E0308: 'x' is declared twice in this block"),
        ("struct S {} struct S {}", "E0308: 'S' is declared twice"),
        (
            "int f(int x) { return 1; } int f(int y) { return 2; }",
            "E0308: 'f' is declared twice with these parameters",
        ),
        ("void f(int n) { float a[n]; }", "E0309: this must be a whole number that is known when compiling"),
        ("void f() { float a[-1]; }", "E0309: an array cannot have -1 elements"),
        ('void f() { int x = "a"; }', "E0311: the value of 'x' must be 'int', not 'String'"),
        (
            "enum E { A } void f() { E e = 3; }",
            "E0311: the value of 'e' must be 'E', not 'int' (write '(E)' before it to convert)",
        ),
        ("void f(float3 v) { if (v) {} }", "E0311: a condition must be 'bool', not 'float3'"),
        ("void f() { let x = 1; x = 2; }", "E0314: cannot assign here: 'x' is a constant"),
        ("void f() { const int x = 1; x++; }", "E0314: cannot assign here: 'x' is a constant"),
        ("void f() { 1 = 2; }", "E0314: cannot assign here: it is a value, not a variable"),
        ("void f(float2 v) { v.xx = v; }", "E0314: cannot assign here: a component occurs twice"),
        (
            "float gain; void f() { gain = 1; }",
            "E0314: cannot assign here: 'gain' is a parameter of the program, which a kernel cannot change",
        ),
        (
            "struct S { int x; void f() { x = 1; } }",
            "E0314: cannot assign here: 'this' is read-only in a method that is not [mutating] "
            "(mark 'f' as [mutating])",
        ),
        (
            "void f() { let k = 1; let g = () => { k = 2; }; }",
            "E0314: cannot assign here: 'k' is captured by a lambda, which sees a copy",
        ),
        ("struct S { private int x; } void f(S s) { s.x; }", "E0306: 'x' is private to 'S'"),
        (
            "struct S { int x; static int f() { return x; } }",
            "E0307: 'x' is a member of an object, and there is none here",
        ),
        ("void f() { this; }", "E0307: 'this' has a meaning only in a method"),
        ("void f() { This x; }", "E0305: 'This' has a meaning only inside of a type"),
        (
            "void g() {} void f() { let x = g(); x; }",
            "E0322: 'x' holds no value (its initializer has no result)",
        ),
        ("void g() {} static let x = g();", "E0322: 'x' cannot be a 'void'"),
        (
            "void f() { let x = g; } void g() {} void g(int x) {}",
            "E0316: 'g' cannot be a value: there are several functions of this name (pass a lambda that calls it)",
        ),
        ("void f() { void x; }", "E0323: 'x' cannot be of type 'void'"),
        ("void f() { float x[]; }", "E0323: the array 'x' needs a size"),
        ("struct S { S s; }", "E0325: 'S' contains itself through 's' (hold its index in a buffer)"),
        ("static const int A = B; static const int B = A;", "E0321: the value of 'A' depends on itself"),
        ("typealias A = B; typealias B = A;", "E0321: 'A' depends on itself"),
        ("void f(float x[2]) { x[1.5]; }", "E0319: an index must be a whole number, not 'float'"),
        ("void f(float x) { x[0]; }", "E0319: a 'float' has no elements"),
        ("void f() { break; }", "E0601: 'break' outside of a loop or switch"),
        ("void f() { if (true) continue; }", "E0601: 'continue' outside of a loop"),
        ("void f(int x) { switch (x) { case 1: continue; } }", "E0601: 'continue' outside of a loop"),
        (
            "void f() { for (;;) { break outer; } }",
            "E0601: there is no statement labeled 'outer' around this",
        ),
        ("int f() { return; }", "E0602: a value of type 'int' must be returned here"),
        ("void f() { return 1; }", "E0602: 'f' returns nothing, so 'return' takes no value here"),
        ("void f(float x) { switch (x) {} }", "E0603: 'switch' needs a whole number or an enum, not 'float'"),
        ("void f(int x) { switch (x) { case 1: case 1: break; } }", "E0604: the case 1 occurs twice"),
        (
            "void f(int x) { switch (x) { default: x++; default: break; } }",
            "E0604: a switch can have one 'default' only",
        ),
        (
            "int f(int x) { if (x > 0) return 1; }",
            "E0605: 'f' can end without returning a 'int', which is zero then (add a 'return' at the end)",
        ),
        ("__init() {}", "E0305: '__init' has a meaning only inside of a type"),
    ],
)
def test_messages(text: str, message: str) -> None:
    assert problem(text) == message


def test_one_mistake_is_reported_once() -> None:
    text = """
        Unknown f(Missing x)
        {
            let y = x.a.b(1).c;
            let z = y + undefined;
            return z[2] * f(y).q;
        }"""
    assert sorted(codes(text)) == ["E0301", "E0301", "E0301"]


def test_several_mistakes_are_reported_together() -> None:
    text = 'void f() { a; b; } void g() { int x = ""; break; }'
    assert codes(text) == ["E0301", "E0301", "E0311", "E0601"]


@pytest.mark.parametrize(
    "body",
    [
        "if (x > 0) return 1; else return 2;",
        "while (true) { if (x > 0) return 1; }",
        "for (;;) { x++; }",
        "switch (x) { case 1: return 1; default: return 2; }",
        "switch (x) { case 1: case 2: x++; default: return 2; }",
        "do { return 1; } while (x > 0);",
        "{ return 1; }",
    ],
)
def test_functions_that_always_return(body: str) -> None:
    assert codes(f"int f(int x) {{ {body} }}") == []


@pytest.mark.parametrize(
    "body",
    [
        "if (x > 0) return 1;",
        "while (x > 0) return 1;",
        "while (true) { if (x > 0) break; }",
        "switch (x) { case 1: return 1; }",
        "switch (x) { case 1: break; default: return 2; }",
        "switch (x) { default: if (x > 0) break; return 2; }",
        "for (;;) { while (true) break; break; }",
    ],
)
def test_functions_that_may_not_return(body: str) -> None:
    assert codes(f"int f(int x) {{ {body} }}") == ["E0605"]


def test_scopes() -> None:
    text = """
        int f(int x)
        {
            { int x = 2; { float x = 3; x; } }
            for (int i = 0; i < 3; i++) { int x = i; }
            for (int i = 0; i < 3; i++) {}
            return x;
        }"""
    assert codes(text) == []
    assert codes("void f() { { int a; } a; }") == ["E0301"]
    assert codes("int f() { int x = x; return x; }") == ["E0301"]


def test_locals_without_initializer_start_at_their_defaults() -> None:
    text = """
        struct P { float x; float y = 2; }
        struct Q { float x; __init() { x = 3; } }
        void f() { float a; P p; Q q; P r[2]; a; p; q; r; }"""
    module = check(text)
    initial = {name: expression(module, name).ref.declaration.checked.initial for name in "apqr"}
    assert isinstance(initial["a"], checked.Zero)
    assert isinstance(initial["p"], checked.Construct)
    assert isinstance(initial["p"].parts[0], checked.Zero)
    assert isinstance(initial["p"].parts[1], checked.FieldDefault)
    assert isinstance(initial["q"], checked.FunctionCall)


# --- Initializer lists --------------------------------------------------------------------------------


def test_lists_take_their_type_from_their_place() -> None:
    text = """
        struct S { float2 a; int n; float b[2] = { 7, 8 }; }
        S f() { return { float2(1), 2 }; }
        void g(S s) {}
        void h()
        {
            g({ { 1, 2 }, 3 });
            S s = { { 1, 2 }, 3, { 4, 5 } };
            s = { s.a, 1 };
            float4 v = { s.a, 1, 2 };
        }"""
    module = check(text)
    assert type_of(module, "{ float2(1), 2 }") == "S"
    assert type_of(module, "{ s.a, 1, 2 }") == "float4"
    form = expression(module, "{ float2(1), 2 }").ref
    assert isinstance(form, checked.Construct)
    assert isinstance(form.parts[2], checked.FieldDefault)


def test_inner_braces_may_be_left_out() -> None:
    module = check(
        "void f() { float2x2 m = { 1, 2, 3, 4 }; float2 v[2] = { 1, 2, 3, 4 }; int a[2][2] = { 1, 2, 3 }; }"
    )
    form = expression(module, "{ 1, 2, 3, 4 }").ref
    assert [len(part.parts) for part in form.parts] == [2, 2]


def test_the_size_of_an_array_comes_from_its_list() -> None:
    module = check("void f() { float a[] = { 1, 2, 3 }; a; }")
    assert type_of(module, "a") == "float[3]"


def test_lists_call_constructors() -> None:
    text = "struct S { float x; __init(float a, int b) { x = a; } } S f() { return { 1, 2 }; }"
    form = expression(check(text), "{ 1, 2 }").ref
    assert isinstance(form, checked.FunctionCall)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("float2 v = { 1, 2, 3 };", "E0312: too many elements for 'float2': 3"),
        ("float a[2] = { 1, 2, 3 };", "E0312: too many elements for 'float[2]': 3"),
        ("S s = { 1, s2 };", "E0312: this element must be 'float', not 'S'"),
        ("S s = { 1, 2, 3 };", "E0312: too many elements for 'S': 3"),
        ("float x = { };", ""),
        (
            "let x = { 1 };",
            "E0322: the type of 'x' cannot be inferred from an initializer list "
            "(write the type instead of 'let' or 'var')",
        ),
    ],
)
def test_lists_that_do_not_fit(statement: str, message: str) -> None:
    text = f"struct S {{ float a; float b; }} void f(S s2) {{ {statement} }}"
    found = [
        f"{each.code}: {each.message}" + (f" ({each.note})" if each.note else "") for each in problems(text)
    ]
    assert found == ([message] if message else [])


def test_zero_becomes_any_struct_by_a_cast() -> None:
    module = check("struct S { float a; } S f() { return (S)0; }")
    form = expression(module, "(S)0").ref
    assert isinstance(form, checked.Construct) and form.parts == ()


def test_optional_values() -> None:
    text = """
        Optional<float> find(int i) { if (i > 0) return 2; return none; }
        float f() { let x = find(1); if (let y = find(2)) return y; return x.hasValue ? x.value : 0; }"""
    module = check(text)
    assert conversion_of(module, "none") == "optional Optional<float>"
    assert conversion_of(module, "2") == "optional Optional<float>"
    assert type_of(module, "x.value") == "float"
