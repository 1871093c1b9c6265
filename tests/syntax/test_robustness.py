"""The parser reports and goes on: it never raises, never hangs, and says what is wrong once."""

import random

import pytest

from slangrad.base.diagnostics import CompileError, Reporter
from slangrad.base.options import Limits, Options
from slangrad.base.source import SourceFile
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk
from slangrad.syntax.parser import parse_module
from tests.syntax.shapes import errors, print_node

PROGRAM = """
#define LAYERS 3
import math;
namespace nets
{
    interface IActivation { [Differentiable] static float apply(float x); associatedtype State; }
    struct Relu : IActivation
    {
        static float apply(float x) { return x > 0.0 ? x : 0.01f * x; }
        typealias State = int;
    }
    [Differentiable]
    public struct Layer<A : IActivation, let N : int, let M : int> : IDifferentiable where A.State == int
    {
        float weights[N][M];
        DifferentialPtrPair<float*>[2] data = { { nullptr }, none };
        property int size { get { return N * M; } set(v) { } }
        __init(float w) { for (int i = 0; i < N; i++) weights[i][0] = (float)w * i; }
        __subscript(int i, int j) -> float { get { return weights[i][j]; } set; }
        vector<float, M> eval(no_diff vector<float, N> x, inout uint seed = 0x1Fu)
        {
            vector<float, M> result = {};
            [ForceUnroll] outer: for (int j = 0, k = 1; j < M && k > 0; ++j)
            {
                if (let a = x as IActivation) result[j] += a.apply(x[j]);
                else if (seed >> 3 == 1) continue outer;
                switch (j) { case 0: case 1: break; default: result[j] = A::apply(1.0 - -x[j]); }
            }
            return no_diff result;
        }
    }
    enum class Mode : uint { Train = 1 << 2, Test, }
    extension<T> Optional<T> { T or(T other) { return this.hasValue ? this.value : other; } }
}
func loss<each T>(expand each T xs, y : functype(float) -> float) throws Error -> float
{
    var total = 0.0; let f = (float x) => x * x;
    do { total = try f(total); } catch (e : Error) { throw e; }
    while (total < float(LAYERS)) total++;
    bwd_diff(nets::Layer<nets.Relu, 4, 16>.eval)(diffPair(total), 1.0h);
    return f<int, 2>(3)[1].xyz->w + sizeof(float4x4) + "a" "b";
}
"""

# fmt: off
WORDS = [
    "a", "b", "T", "f", "x", "float", "int", "struct", "class", "enum", "interface", "extension", "func",
    "let", "var", "if", "else", "for", "while", "do", "switch", "case", "default", "return", "break",
    "continue", "typedef", "typealias", "where", "each", "expand", "no_diff", "bwd_diff", "fwd_diff",
    "sizeof", "new", "this", "This", "operator", "__init", "__subscript", "property", "get", "set", "ref",
    "namespace", "using", "import", "module", "in", "is", "as", "try", "throw", "defer", "catch", "cbuffer",
    "register", "static", "const", "inout", "__generic", "__func_extension", "functype", "__target_switch",
    "__intrinsic_asm", "spirv_asm", "__first", "defined", "1", "2.0", "'c'", "\"s\"", "<", ">", ">>", ">=",
    ">>=", "(", ")", "[", "]", "{", "}", ",", ";", ":", "::", ".", "->", "=>", "=", "+=", "+", "-", "*",
    "/", "%", "&", "&&", "|", "||", "!", "~", "?", "++", "--", "$", "#", "##", "\n", "\n#define f(x) x",
    "\n#if 1\n", "\n#else\n", "\n#endif\n", "\n#include \"a\"\n", "@", "'", '"', "/*",
]
# fmt: on


def parse_anything(text):
    """Parse, and use all that comes out of it."""
    reporter = Reporter()
    source = SourceFile("any.slang", text)
    module = parse_module(source, reporter, resolver=lambda path, _: SourceFile(path, "int x;"))
    str(CompileError(reporter.diagnostics))
    print_node(module)
    for node in walk(module):
        assert 0 <= node.span.start <= node.span.end <= len(node.span.source.text)
    return module, reporter


def test_the_program_itself_is_fine():
    module, reporter = parse_anything(PROGRAM)
    assert reporter.diagnostics == []
    assert [member.name for member in module.members] == ["math", "nets", "loss"]


@pytest.mark.parametrize("seed", range(8))
def test_random_tokens(seed):
    chance = random.Random(seed)
    for _ in range(60):
        parse_anything(" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 250))))


@pytest.mark.parametrize("seed", range(4))
def test_truncated(seed):
    chance = random.Random(seed)
    for _ in range(40):
        _, reporter = parse_anything(PROGRAM[: chance.randint(0, len(PROGRAM))])
        assert len(reporter.diagnostics) <= 12


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes(seed):
    chance = random.Random(seed)
    for _ in range(30):
        text = list(PROGRAM)
        for _ in range(chance.randint(1, 25)):
            text[chance.randrange(len(text))] = chance.choice("(){}[]<>;:,.\"'#\\ab1\n\0\xff\u20ac")
        parse_anything("".join(text))


@pytest.mark.parametrize("seed", range(8))
def test_moved_words(seed):
    chance = random.Random(seed)
    for _ in range(30):
        words = PROGRAM.split(" ")
        for _ in range(chance.randint(1, 15)):
            here, there = chance.randrange(len(words)), chance.randrange(len(words))
            changed = [(words[there], words[here]), (chance.choice(WORDS), "")]
            words[here], words[there] = chance.choice(changed)
        parse_anything(" ".join(words))


def test_several_errors_in_one_run():
    text = """
    float f(float x)
    {
        float y = ;
        x = (y + 1;
        return x + / 2;
    }
    struct S { float a; int 3; float b; }
    float g( { return 1; }
    float h() { return 2; }
    """
    assert errors(text) == [
        "E0202 4: expected an expression, found ';'",
        "E0207 5: expected ')' to close '(', found ';'",
        "E0202 6: expected an expression, found '/'",
        "E0205 8: expected the name of what is declared, found '3'",
        "E0203 9: expected a type, found '{'",
    ]


def test_what_is_around_an_error_survives():
    module, _ = parse_anything(
        "struct A { int x; int 3; int y; int f() { x = ; return x; } } int g() { return 1 } int h;"
    )
    first, g, h = module.members
    assert [member.name for member in first.members] == ["x", "y", "f"]
    assert [type(each) for each in first.members[2].body.statements] == [ast.Return]
    assert (g.name, h.name) == ("g", "h")


def test_missing_semicolons_cost_one_error_each():
    assert errors("void f()\n{\n int x = 1\n int y = 2\n g(x)\n return\n}\nint z\nint w;") == [
        "E0201 3: expected ';' after the declaration",
        "E0201 4: expected ';' after the declaration",
        "E0201 5: expected ';' after the expression",
        "E0201 6: expected ';' after 'return'",
        "E0201 8: expected ';' after the declaration",
    ]


def test_unclosed_blocks():
    assert errors("void f() { if (x) { y = 1; ") == [
        "E0207 1: expected '}' to close '{', found the end of the text",
    ]
    assert errors("struct S { int x;\nvoid f() {}\n")[0].startswith("E0207 3: expected '}' to close '{'")


def test_the_message_points_at_the_text():
    reporter = Reporter()
    parse_module(SourceFile("dir/a.slang", "float f()\n{\n\treturn (1 + 2;\n}"), reporter)
    with pytest.raises(CompileError) as caught:
        reporter.raise_if_errors()
    assert str(caught.value) == (
        "error[E0207]: expected ')' to close '(', found ';'\n"
        "  --> dir/a.slang:3:15\n"
        "3 |     return (1 + 2;\n"
        "  |                  ^\n"
        "  opened here: dir/a.slang:3:9\n"
        "3 |     return (1 + 2;\n"
        "  |            ^"
    )


# fmt: off
DEEP = {
    "parentheses":   "void f() { x = " + "(" * 3000 + "1" + ")" * 3000 + "; }",
    "blocks":        "void f() { " + "{" * 3000,
    "calls":         "void f() { x = " + "f(" * 3000,
    "prefix":        "void f() { x = " + "!" * 3000 + "1; }",
    "casts":         "void f() { x = " + "(int)" * 3000 + "1; }",
    "conditionals":  "void f() { x = " + "a ? b : " * 3000 + "c; }",
    "assignments":   "void f() { " + "a = " * 3000 + "b; }",
    "generics":      "A<" * 3000 + "B" + ">" * 3000 + " x;",
    "comparisons":   "void f() { x = " + "a < " * 3000 + "b; }",
    "sums":          "void f() { x = " + "a + " * 3000 + "b; }",
    "members":       "void f() { x = a" + ".b" * 3000 + "; }",
    "commas":        "void f() { a" + ", b" * 3000 + "; }",
    "pointers":      "int" + "*" * 3000 + " x;",
    "dimensions":    "int x" + "[1]" * 3000 + ";",
    "conjunctions":  "A" + " & B" * 3000 + " x;",
    "modifiers":     "expand " * 3000 + "T x;",
    "functions":     "functype() -> " * 3000 + "int x;",
    "lambdas":       "void f() { x = " + "(x) => " * 3000 + "1; }",
    "else ifs":      "void f() { if (a) {} " + "else if (b) {} " * 3000 + "}",
    "ifs":           "void f() { " + "if (a) " * 3000 + "; }",
    "labels":        "void f() { " + "a: " * 3000 + "; }",
    "structs":       "struct S { " * 3000,
    "namespaces":    "namespace a" + ".b" * 3000 + " { }",
    "initializers":  "void f() { x = " + "{" * 3000,
    "defers":        "void f() { " + "defer " * 3000 + "; }",
}
# fmt: on


@pytest.mark.parametrize("name", DEEP)
def test_depth_is_one_error(name):
    found = errors(DEEP[name])
    assert len(found) == 1 and found[0].startswith("E0206 1: this ")


def test_reasonable_depth_is_none():
    assert errors("void f() { x = " + "(" * 200 + "1" + ")" * 200 + "; }") == []
    assert errors("void f() { x = " + "a + " * 1500 + "b; }") == []
    assert errors("void f() { if (a) {} " + "else if (b) {} " * 1500 + "}") == []


def test_limits_are_options():
    options = Options(limits=Limits(nesting_depth=10, chain_length=5, errors=3))
    for text, reported in {
        "void f() { x = ((((((((((1)))))))))); }": ["E0206"],
        "void f() { x = 1 + 2 + 3 + 4 + 5 + 6 + 7; }": ["E0206"],
        "int 1; int 2; int 3; int 4; int 5;": ["E0205", "E0205", "E0205"],
    }.items():
        reporter = Reporter()
        parse_module(SourceFile("a", text), reporter, options)
        assert [each.code for each in reporter.diagnostics] == reported


def test_many_lines_of_nonsense():
    assert len(errors("}\n" * 2000)) == 100
    assert len(errors("x;\n" * 2000)) == 100
    assert len(errors("'\n" * 2000)) == 1000
