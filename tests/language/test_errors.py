"""How errors look: a code, the place with its line and caret, a sentence, and what can be tried."""

from textwrap import dedent

import numpy as np
import pytest

import slangrad as spy

SHOWN = {
    "a misspelled variable": """
        float radius;
        float f() { return raduis; }
        ---
        error[E0301]: 'raduis' is not declared
          --> p.slang:2:20
        2 | float f() { return raduis; }
          |                    ^^^^^^
          note: did you mean 'radius'?
    """,
    "a misspelled type": """
        float f() { flaot x = 1; return x; }
        ---
        error[E0301]: 'flaot' is not declared
          --> p.slang:1:13
        1 | float f() { flaot x = 1; return x; }
          |             ^^^^^
          note: did you mean 'float'?
    """,
    "a misspelled member": """
        struct S { float width; }
        float f(S s) { return s.widht; }
        ---
        error[E0304]: 'S' has no member 'widht'
          --> p.slang:2:25
        2 | float f(S s) { return s.widht; }
          |                         ^^^^^
          note: did you mean 'width'?
    """,
    "the wrong type": """
        struct S { float x; }
        float f(S s) { float y = s; return y; }
        ---
        error[E0311]: the value of 'y' must be 'float', not 'S'
          --> p.slang:2:26
        2 | float f(S s) { float y = s; return y; }
          |                          ^
    """,
    "no overload": """
        float g(float3 v) { return v.x; }
        float g(int a, int b) { return a; }
        struct S {}
        float f(S s) { return g(s); }
        ---
        error[E0405]: no overload of 'g' takes (S)
          --> p.slang:4:23
        4 | float f(S s) { return g(s); }
          |                       ^^^^
          note: float g(float3 v): argument 1 must be 'float3', not 'S'
                float g(int a, int b): it takes 2 arguments, not 1
    """,
    "two overloads": """
        float g(int a, float b) { return 1; }
        float g(float a, int b) { return 2; }
        float f() { return g(1, 2); }
        ---
        error[E0406]: the call of 'g' with (int, int) is ambiguous
          --> p.slang:3:20
        3 | float f() { return g(1, 2); }
          |                    ^^^^^^^
          note: candidates: float g(int a, float b)
                float g(float a, int b)
    """,
    "not differentiable": """
        float g(float x) { return x; }
        float f() { return fwd_diff(g)(diffPair(1.0, 1.0)).d; }
        ---
        error[E0503]: 'g' is not differentiable, so fwd_diff cannot be taken of it
          --> p.slang:2:29
        2 | float f() { return fwd_diff(g)(diffPair(1.0, 1.0)).d; }
          |                             ^
          note: mark it: [Differentiable] before 'g'
    """,
    "a derivative that gets lost": """
        float g(float x) { return x * x; }
        [Differentiable] float f(float x) { return g(x); }
        ---
        error[E0505]: 'g' is not differentiable, so the derivative of 'f' would be lost here
          --> p.slang:2:44
        2 | [Differentiable] float f(float x) { return g(x); }
          |                                            ^^^^
          note: mark 'g' as [Differentiable], or write 'no_diff g(...)' if this is meant
    """,
    "several errors in one run": """
        float f(float x)
        {
            float y = a;
            return x.q
        }
        int g() { return f(1, 2); }
        ---
        error[E0301]: 'a' is not declared
          --> p.slang:3:15
        3 |     float y = a;
          |               ^

        error[E0304]: 'float' has no member 'q'
          --> p.slang:4:14
        4 |     return x.q
          |              ^

        error[E0201]: expected ';' after the returned value
          --> p.slang:4:15
        4 |     return x.q
          |               ^

        error[E0405]: cannot call 'f': it takes 1 argument, not 2
          --> p.slang:6:18
        6 | int g() { return f(1, 2); }
          |                  ^^^^^^^
          note: it is declared as float f(float x)
    """,
}


@pytest.mark.parametrize("name", SHOWN)
def test_errors_of_the_compiler(name):
    text, _, shown = dedent(SHOWN[name]).strip().partition("\n---\n")
    with pytest.raises(spy.CompileError) as raised:
        spy.Module.load_from_source(spy.create_device(), "p.slang", text)
    assert str(raised.value) == shown


PROGRAM = """
float f(float x, float y) { return x; }
[Differentiable] float square(float x) { return x * x; }
float plain(float x) { return x; }
float3 same(float3 v) { return v; }
int whole(int i) { return i; }
float at(int i) { float t[3] = { 1, 2, 3 }; return t[i]; }
"""


@pytest.fixture(scope="module")
def module():
    return spy.Module.load_from_source(spy.create_device(), "calls.slang", PROGRAM)


def tensor(module, values):
    return spy.Tensor.from_numpy(module.device, np.asarray(values, dtype=np.float32))


# fmt: off
CALLS = {
    "a missing argument": (lambda m: m.f(1.0), """
        error[E1004]: Could not call function 'f': Parameter 'y' not specified
          float f(float x, float y)"""),
    "an unknown name": (lambda m: m.f(x=1.0, z=2.0), """
        error[E1004]: Could not call function 'f': No parameter named 'z'; there are x, y
          float f(float x, float y)"""),
    "values that do not fit": (lambda m: m.whole(np.array([0.5, 1.5])), """
        error[E1010]: Could not call function 'whole': argument 'i': float64 values do not all fit into int32: 0.5 does not; pass array.astype(np.int32) if rounding is meant"""),
    "the wrong rank": (lambda m: m.same(tensor(m, [1, 2, 3, 4])), """
        error[E1005]: Could not call function 'same': argument 'v': in shape (4,) the end, (4,), does not match the expected shape (3,) of 'float3'"""),
    "shapes that do not fit": (lambda m: m.f(tensor(m, [1, 2, 3]), tensor(m, [1, 2])), """
        error[E1005]: Could not call function 'f': Shape mismatch for argument 'y' between value (2) and call (3) in call dimension 0
          argument  value                             sizes  call dimensions
          x         Tensor of float with 1 dimension  (3,)   (0,)
          y         Tensor of float with 1 dimension  (2,)   (0,)
        note: sizes of one call dimension must be equal or 1; map() chooses other dimensions"""),
    "no derivative": (lambda m: m.plain.bwds(tensor(m, [1])), """
        error[E1006]: Could not call function 'plain': Function is not differentiable
          float plain(float x)
        note: mark it [Differentiable]"""),
    "a missing gradient": (lambda m: m.square.bwds(tensor(m, [1, 2]).with_grads(), _result=tensor(m, [0, 0])), """
        error[E1007]: Could not call function 'square': argument '_result': Tensor of float with 1 dimension has no input gradient, and bwds requires a tensor with an associated input gradient here
        note: attach one: _result = _result.with_grads()"""),
    "an index out of range": (lambda m: m.at(np.array([0, 7], dtype=np.int32)), """
        error[E0901]: index 7 is out of range: there are 3 elements
          --> calls.slang:7:52
        7 | float at(int i) { float t[3] = { 1, 2, 3 }; return t[i]; }
          |                                                    ^^^^
          note: in kernel 'kernel'; the read gave 0 or the write was dropped"""),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_errors_of_calls(module, name):
    call, shown = CALLS[name]
    with pytest.raises((ValueError, IndexError)) as raised:
        call(module)
    assert str(raised.value) == dedent(shown).strip()
