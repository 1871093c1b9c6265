"""Directives and macros, seen as the tokens that are left."""

import pytest

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits
from slangrad.base.source import SourceFile
from slangrad.syntax.lexing.lexer import tokenize
from slangrad.syntax.lexing.preprocess import Preprocessor

FILES = {
    "once.h": "#pragma once\nint once;",
    "twice.h": "int twice;",
    "loop.h": '#include "loop.h"\n',
    "open.h": "#if 1\nint x;",
    "macro.h": "#define FROM_HEADER 7",
}


def run(text, limits=None, **defines):
    """The texts of what is left, and the codes with messages of what is reported."""
    reporter = Reporter()
    files = {name: SourceFile(name, body) for name, body in FILES.items()}
    preprocessor = Preprocessor(reporter, limits or Limits(), lambda path, _: files.get(path), defines)
    tokens = preprocessor.run(SourceFile("main.slang", text))
    assert tokens[-1].kind == "end"
    reported = [f"{each.code} {each.message}" for each in reporter.diagnostics]
    return " ".join(token.text for token in tokens[:-1]), reported


def left(text, **defines):
    output, reported = run(text, **defines)
    assert reported == []
    return output


def test_tokens_have_places_and_lines():
    name, assign, number, semicolon, end = tokenize(SourceFile("a", "x /* c */ =\n // d\n 1;"))
    assert (name.start, name.end, name.fresh) == (0, 1, True)
    assert (assign.kind, assign.fresh) == ("=", False)
    assert (number.kind, number.text, number.fresh, number.span.location) == ("integer", "1", True, "a:3:2")
    assert (semicolon.kind, end.kind, end.start) == (";", "end", 21)


# fmt: off
@pytest.mark.parametrize(("text", "kinds"), [
    ("a>>=b>>c>d",     ["name", ">>=", "name", ">>", "name", ">", "name"]),
    ("a->b=>c::d",     ["name", "->", "name", "=>", "name", "::", "name"]),
    ("x.0f",           ["name", "float"]),
    ("1.x",            ["integer", ".", "name"]),
    ("1.xyzw",         ["integer", ".", "name"]),
    ("1.e3",           ["float"]),
    ("a\\\nb",         ["name", "name"]),
    ("// a \\\n b\nc", ["name"]),
    ("R\"-(a\"b)-\"",  ["string"]),
    ("'a' \"b\\\"c\"", ["char", "string"]),
    ("größe π",        ["name", "name"]),
    ("\ufeffint",      ["name"]),
    ("\"open",         ["error"]),
    ("/* open",        ["error"]),
    ("@ `",            ["error", "error"]),
])
def test_lexing(text, kinds):
    assert [token.kind for token in tokenize(SourceFile("a", text))[:-1]] == kinds


@pytest.mark.parametrize(("text", "output"), [
    ("#define N 4\nint x[N];",                       "int x [ 4 ] ;"),
    ("#define SQ(x) ((x)*(x))\nSQ(a+1) SQ",          "( ( a + 1 ) * ( a + 1 ) ) SQ"),
    ("#define SQ (x)\nSQ",                           "( x )"),
    ("#define F(a, b) b a\nF((1, 2), [3, 4])",       "[ 3 , 4 ] ( 1 , 2 )"),
    ("#define F() 1\nF() F ( )",                     "1 1"),
    ("#define F(x) x\nF()",                          ""),
    ("#define F(x) x\nF(\n1\n)",                     "1"),
    ("#define F(x, ...) x: __VA_ARGS__\nF(1, 2, 3)", "1 : 2 , 3"),
    ("#define F(x, ...) g(x, ##__VA_ARGS__)\nF(1) F(1, 2)", "g ( 1 ) g ( 1 , 2 )"),
    ("#define S(x) #x\nS(a + \"b\")",                '"a + \\"b\\""'),
    ("#define C(a, b) a##b\nC(x, 1) C(, y) C(z, )",  "x1 y z"),
    ("#define C(a) pre_##a##_post\nC(x)",            "pre_x_post"),
    ("#define A B\n#define B A\nA B",                "A B"),
    ("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2 * 9 * g"),
    ("#define E\nE a E",                             "a"),
    ("#define X 1\n#undef X\nX",                     "X"),
    ("#define I(x) x\nI(I(I(1)))",                   "1"),
    ("__LINE__\n__LINE__ __FILE__",                  '1 2 "main.slang"'),
    ("#define L __LINE__\n\nL",                      "3"),
    ("__SLANG__ __SLANGRAD__",                       "1 1"),
    ("#define LONG a \\\n  b\nLONG",                 "a b"),
])
def test_macros(text, output):
    assert left(text) == output


@pytest.mark.parametrize(("condition", "value"), [
    ("1",                     True),  ("0",                       False),
    ("2 + 3 * 4 == 14",       True),  ("(2 + 3) * 4 == 14",       False),
    ("defined(A)",            True),  ("defined B",               False),
    ("!defined(B) && A > 3",  True),  ("A < 3 || B",              False),
    ("-7 / 2 == -3",          True),  ("-7 % 2 == -1",            True),
    ("1 << 4 | 1",            True),  ("~0 == -1",                True),
    ("0 && 1 / 0",            False), ("1 || 1 / 0",              True),
    ("0 ? 1 / 0 : 5",         True),  ("'a' == 97",               True),
    ("0x10 == 16u",           True),  ("true && !false",          True),
    ("IS_A",                  True),  ("IS_B",                    False),
    ("UNKNOWN",               False), ("A >> 1 == 2",             True),
])
def test_conditions(condition, value):
    text = f"#define IS_A defined(A)\n#define IS_B defined(B)\n#if {condition}\nyes\n#else\nno\n#endif"
    assert left(text, A="5") == ("yes" if value else "no")


@pytest.mark.parametrize(("text", "output"), [
    ("#ifdef A\na\n#elif 1\nb\n#else\nc\n#endif",             "b"),
    ("#ifndef A\na\n#elif 1\nb\n#else\nc\n#endif\nd",         "a d"),
    ("#if 0\n#if 1\na\n#else\nb\n#endif\n#else\nc\n#endif",   "c"),
    ("#if 0\n' \" @ #bad\n#error no\n#endif\nok",             "ok"),
    ("#if 1\n#if 0\n#elif 0\n#else\na\n#endif\n#endif",       "a"),
    ("#if 1\na\n#elif 1/0\nb\n#endif",                        "a"),
    ("#ifdef A\n#elifndef A\nx\n#endif",                      "x"),
    ("#\n#pragma anything\n#line 3\n#version 450\na",         "a"),
    ('#include "once.h"\n#include "once.h"',                  "int once ;"),
    ("#include <twice.h>\n#include <twice.h>",                "int twice ; int twice ;"),
    ('#define H "macro.h"\n#include H\nFROM_HEADER',          "7"),
])
def test_directives(text, output):
    assert left(text) == output


@pytest.mark.parametrize(("text", "reported"), [
    ("#error so  not",          "E0111 #error so  not"),
    ("#warning careful",        "E0112 #warning careful"),
    ("#frobnicate",             "E0105 unknown directive '#frobnicate'"),
    ("#include",                'E0106 #include needs "path" or <path>'),
    ('#include "no.h"',         "E0107 cannot find the included file 'no.h'"),
    ("#if 1",                   "E0108 this #if has no #endif"),
    ("#endif",                  "E0108 this #endif has no #if"),
    ("#else",                   "E0108 this #else has no #if"),
    ("#if 1\n#else\n#else\n#endif", "E0108 #else after #else"),
    ('#include "open.h"',       "E0108 this #if has no #endif"),
    ("#ifdef\n#endif",          "E0106 #ifdef needs a name"),
    ("#define",                 "E0109 #define needs a name"),
    ("#define F(1) x",          "E0109 macro parameters are names with commas between"),
    ("#define F(a, a) x",       "E0109 macro parameters need different names, '...' last"),
    ("#define F(a x",           "E0109 the parameters of this macro have no ')'"),
    ("#define A 1\n#define A 2", "E0109 macro 'A' gets another definition"),
    ("#define F(a, b) a\nF(1)", "E0109 macro 'F' takes 2 arguments, not 1"),
    ("#define F(a) a\nF(1",     "E0109 the use of macro 'F' has no closing ')'"),
    ("#define C(a, b) a##b\nC(<, >)", "E0109 '##' makes '<>', which is not one token"),
    ("#if 1 +\n#endif",         "E0110 in the condition of #if: a value expected before the end of the line"),
    ("#if 1 / 0\n#endif",       "E0110 in the condition of #if: division by zero"),
    ("#if (1\n#endif",          "E0110 in the condition of #if: ')' expected before the end of the line"),
    ("#if\n#endif",             "E0110 in the condition of #if: an expression is missing"),
    ("#if 1 2\n#endif",         "E0110 in the condition of #if: '2' is not expected here"),
    ("a \x01 b",                "E0101 unexpected character '\\x01'"),
    ("a \"b",                   "E0102 this string does not end"),
    ("/* a",                    "E0102 this comment does not end"),
])
def test_errors(text, reported):
    assert run(text)[1] == [reported]
# fmt: on


def test_limits():
    doubling = "#define A0 1 1\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(30)) + "A30"
    assert run(doubling, Limits(macro_tokens=1000))[1] == ["E0113 macros produce more than 1000 tokens"]
    nested = "#define F(x) x\n" + "F(" * 20 + "1" + ")" * 20
    assert run(nested, Limits(macro_depth=5))[1] == ["E0113 macros are nested more than 5 deep"]
    assert run(nested)[0] == "1"
    including = run('#include "loop.h"', Limits(include_depth=9))[1]
    assert including == ["E0113 files include each other more than 9 deep"]
    thrice = '#include "twice.h"\n' * 3
    assert run(thrice, Limits(include_count=2))[1] == ["E0113 more than 2 files are included"]


def test_places_of_expanded_tokens():
    text = "#define TWICE(x) (x + x)\nint a = TWICE(b);"
    tokens = Preprocessor(Reporter(), Limits(), None, {}).run(SourceFile("main.slang", text))
    by_text = {token.text: token.span.location for token in tokens}
    assert by_text["+"] == "main.slang:2:9" and by_text["b"] == "main.slang:2:15"


def test_definitions_come_from_the_caller():
    assert left("SIZE EMPTY x", SIZE="(2 + 2)", EMPTY="") == "( 2 + 2 ) x"
