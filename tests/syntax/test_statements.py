"""Statements: their parts, and what is a declaration."""

import pytest

from slangrad.syntax import ast
from tests.syntax.shapes import errors, listed, shape, statements


def only(text):
    (statement,) = statements(text)
    return statement


# fmt: off
@pytest.mark.parametrize(("text", "declares"), [
    ("float x = 1;",          True),
    ("A<int> x;",             True),
    ("A<B<int>> x;",          True),
    ("A.B::C<3>.D x;",        True),
    ("A x[2];",               True),
    ("A[2] x;",               True),
    ("A* x = y;",             True),
    ("A* x;",                 True),
    ("A? x = none;",          True),
    ("const A x;",            True),
    ("static const int x = 1;", True),
    ("no_diff A x = y;",      True),
    ("let x = 1;",            True),
    ("var x : int;",          True),
    ("functype(int) -> int f = g;", True),
    ("struct S { int x; };",  True),
    ("typedef int I;",        True),
    ("typealias I = int;",    True),
    ("using a.b;",            True),
    ("enum E { A }",          True),
    ("expand each T x;",      True),
    ("a * b * c;",            False),
    ("a < b;",                False),
    ("x = 1;",                False),
    ("a.b<int>(c);",          False),
    ("a[2] = c;",             False),
    ("no_diff f(x);",         False),
    ("c ? f() : g();",        False),
    ("x is T;",               False),
    ("expand f(each x);",     False),
    ("let(x);",               False),
    ("struct_ = 3;",          False),
    ("++x;",                  False),
    ("(a);",                  False),
])
def test_declaration_or_expression(text, declares):
    first = statements(text)[0]
    assert type(first) is (ast.DeclarationStatement if declares else ast.ExpressionStatement)
# fmt: on


def test_if_chain():
    first = only("if (a) x = 1; else if (b < c) { } else y = 2;")
    assert isinstance(first, ast.If) and shape(first.condition) == "a"
    second = first.otherwise
    assert isinstance(second, ast.If) and shape(second.condition) == "(b < c)"
    assert isinstance(second.then, ast.Block) and isinstance(second.otherwise, ast.ExpressionStatement)


def test_if_let():
    statement = only("if (let x = y as T) f(x); else g();")
    assert isinstance(statement, ast.IfLet)
    assert (statement.binding.name, shape(statement.binding.initializer)) == ("x", "(y as T)")
    assert statement.binding.parent.name == "test"
    assert isinstance(statement.otherwise, ast.ExpressionStatement)


def test_switch():
    statement = only("switch (x) { case 1: case N + 1: a(); b(); break; default: { } case 2: }")
    assert isinstance(statement, ast.Switch) and shape(statement.value) == "x"
    shown = [(listed(case.values), case.is_default, len(case.body)) for case in statement.cases]
    assert shown == [("1, (N + 1)", False, 3), ("", True, 1), ("2", False, 0)]


def test_loops():
    loop = only("for (int i = 0, j = 1; i < 3; i++, j--) { }")
    assert isinstance(loop, ast.For) and isinstance(loop.initializer, ast.DeclarationStatement)
    assert len(loop.initializer.declarations) == 2
    assert (shape(loop.condition), shape(loop.step)) == ("(i < 3)", "((i++), (j--))")
    empty = only("for (;;) ;")
    assert (empty.initializer, empty.condition, empty.step) == (None, None, None)
    assert isinstance(empty.body, ast.Empty)
    assigned = only("for (i = 0; ; ) { }")
    assert isinstance(assigned.initializer, ast.ExpressionStatement)
    assert isinstance(only("while (x) { }"), ast.While)
    assert shape(only("do { } while (x > 1);").condition) == "(x > 1)"


def test_compile_time_loop():
    loop = only("$for (i in Range(1, N)) x += i;")
    assert isinstance(loop, ast.CompileTimeFor)
    assert (loop.variable.name, shape(loop.start), shape(loop.stop)) == ("i", "1", "N")
    assert only("$for (i in Range(N)) { }").start is None


def test_attributes():
    loop = only("[MaxIters(10)] [unroll] for (;;) { }")
    assert [each.name for each in loop.attributes] == ["MaxIters", "unroll"]
    declared = only("[Attr] int x = 1;")
    assert declared.attributes == () and declared.declarations[0].attributes[0].name == "Attr"
    assert only("[branch] if (x) { }").attributes[0].name == "branch"


def test_jumps_and_labels():
    labeled = only(
        "outer: for (;;) { break outer; continue outer; break; continue; return; discard; return 1; }"
    )
    assert isinstance(labeled, ast.Labeled) and labeled.label == "outer"
    inner = labeled.statement.body.statements
    assert [type(each).__name__ for each in inner] == [
        "Break",
        "Continue",
        "Break",
        "Continue",
        "Return",
        "Discard",
        "Return",
    ]
    assert [each.label for each in inner[:4]] == ["outer", "outer", None, None]
    assert inner[4].value is None and shape(inner[6].value) == "1"
    assert shape(only("return {a, {b}};").value) == "{a, {b}}"


def test_errors_and_defer():
    statement = only("do { throw E.A; } catch (e : E) { } catch { }")
    assert isinstance(statement, ast.DoCatch)
    first, last = statement.handlers
    assert (first.parameter.name, shape(first.parameter.value_type)) == ("e", "E")
    assert last.parameter is None
    assert isinstance(only("defer f();").statement, ast.ExpressionStatement)
    assert shape(statements("let a = try f(x);")[0].declarations[0].initializer) == "try(f(x))"


def test_targets():
    switch = only('__target_switch { case cpu: case cuda: f(); default: __intrinsic_asm "add $0", x; }')
    assert isinstance(switch, ast.TargetSwitch)
    assert [case.targets for case in switch.cases] == [["cpu", "cuda"], ["default"]]
    assert switch.cases[1].body[0].text == "add $0"


def test_local_function_scope():
    declared = only("int x = 1, y = x;").declarations
    assert [each.name for each in declared] == ["x", "y"]
    assert all(each.parent.name == "test" for each in declared)


# fmt: off
@pytest.mark.parametrize(("text", "expected"), [
    ("if x { }",              "E0201 2: expected '(' after 'if', found 'x'"),
    ("if (x { }",             "E0207 3: expected ')' to close '(', found '}'"),
    ("return x",              "E0201 2: expected ';' after the returned value"),
    ("for (int i = 0; i < 3) { }", "E0201 2: expected ';' after the condition of 'for', found ')'"),
    ("do { } until (x);",     "E0201 2: expected 'while' after the body of 'do', found 'until'"),
    ("case 1: x = 2;",        "E0209 2: 'case' has nothing that it belongs to"),
    ("else { }",              "E0209 2: 'else' has nothing that it belongs to"),
    ("float = 3;",            None),
    ("float x y;",            "E0201 2: expected ';' after the declaration"),
    ("x + ;",                 "E0202 2: expected an expression, found ';'"),
    ("$for (i in Range()) {}", "E0201 2: Range takes a start and an end"),
])
def test_errors(text, expected):
    found = errors(f"void f()\n{{ {text} \n}}")
    assert found[0] == expected if expected else found == []
# fmt: on
