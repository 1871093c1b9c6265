"""Random programs that call a function without a derivative: the checker finds every loss.

A program that it accepts has the gradient that it would have if the called function had a derivative.
"""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

import slangrad as spy
from tests.check.programs import problems

START = """
float plain(float x) { return x * 0.5 + 1; }
[Differentiable] float smooth(float x) { return x * 0.5 + 1; }
[Differentiable] void square(float x, out float y) { y = x * 0.3; }
[Differentiable] void mix(float x, inout float y) { y = x * 0.3 + y * 0.2; }
struct Pair : IDifferentiable { float a; float b; }
"""
HEAD = "[Differentiable] float {name}(float x, no_diff int c) {{ {body} }}\n"
COMPARED = """
int t{i}(float x, int c)
{{
    var p = diffPair(x); bwd_diff(lost{i})(p, c, 1.0);
    var q = diffPair(x); bwd_diff(whole{i})(q, c, 1.0);
    float d = fwd_diff(lost{i})(diffPair(x, 1.0), c).d;
    return p.d == q.d && abs(d - q.d) <= 1e-4 * (1 + abs(d)) ? 0 : {bit};
}}
"""
PLACES = ("y", "z", "p.a", "p.b", "a[0]", "a[1]")


class Writer:
    """Statements with values that depend on x and values that do not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def body(self) -> str:
        statements = " ".join(self.statement(0, False) for _ in range(self.random.randint(2, 6)))
        start = "int n = 0; float y = 1; float z = x; Pair p = { 1, 2 }; float a[2] = { 1, 2 };"
        return f"{start} {statements} return y + z * 0.5 + p.a * 0.25 + a[1] * 0.125;"

    def value(self, depth: int = 0) -> str:
        kind = self.random.random()
        if kind < 0.25:
            return str(self.random.randint(1, 3))
        if kind < 0.7 or depth > 1:
            return self.random.choice(("x", *PLACES))
        inner = [self.value(depth + 1) for _ in range(3)]
        if kind < 0.85:
            return f"({inner[0]} * {inner[1]} * 0.25 + {inner[2]})"
        return (
            f"(c > {self.random.randint(0, 3)} ? {inner[0]} : {inner[1]})"
            if kind < 0.95
            else f"(y = {inner[0]})"
        )

    def block(self, depth: int, in_loop: bool) -> str:
        count = self.random.randint(1, 3)
        return "{ " + " ".join(self.statement(depth + 1, in_loop) for _ in range(count)) + " }"

    def statement(self, depth: int, in_loop: bool) -> str:
        random, place = self.random, self.random.choice(PLACES)
        number = random.randint(0, 3)
        simple: list[Callable[[], str]] = [
            lambda: f"{place} = {self.value()};",
            lambda: f"{place} = {self.value()};",
            lambda: f"{random.choice('pa')} = {{ {self.value()}, {self.value()} }};",
            lambda: f"{random.choice(('square', 'mix'))}({self.value()}, {place});",
            lambda: f"{place} = CALL({self.value()});",
            lambda: f"if (c == {number}) return {self.value()};",
            lambda: f"if (c + n++ > {number}) {random.choice(('break', 'continue'))};" if in_loop else "",
        ]
        nested: list[Callable[[], str]] = [
            lambda: f"if (c > {number}) {self.block(depth, in_loop)}",
            lambda: f"if (c > {number}) {self.block(depth, in_loop)} else {self.block(depth, in_loop)}",
            lambda: f"for (int i{depth} = 0; i{depth} < c % 3; i{depth}++) {self.block(depth, True)}",
            lambda: f"do {self.block(depth, True)} while (n++ < {number});",
            lambda: f"while (n++ < {number}) {self.block(depth, True)}",
            lambda: (
                f"switch (c) {{ case 0: {self.statement(depth + 1, in_loop)} {random.choice(('break;', ''))}"
                f" case 1: {self.statement(depth + 1, in_loop)} break; default: {self.statement(depth + 1, in_loop)} }}"
            ),
        ]
        return random.choice(simple if depth > 2 or random.random() < 0.55 else nested)()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_accepted_programs_lose_nothing(seed: int) -> None:
    writer, accepted = Writer(seed), []
    while len(accepted) < 12:
        body = writer.body()
        errors = {
            problem.code
            for problem in problems(START + HEAD.format(name="f", body=body.replace("CALL", "plain")))
            if problem.severity == "error"
        }
        assert errors <= {"E0505"}
        accepted += [body] if "CALL" in body and not errors else []
    text = START
    for i, body in enumerate(accepted):
        text += HEAD.format(name=f"lost{i}", body=body.replace("CALL", "plain"))
        text += HEAD.format(name=f"whole{i}", body=body.replace("CALL", "smooth")) + COMPARED.format(
            i=i, bit=1 << i
        )
    text += f"int run(float x, int c) {{ return {' | '.join(f't{i}(x, c)' for i in range(len(accepted)))}; }}"
    module = spy.Module.load_from_source(spy.default_device(), f"lost_{seed}", text)
    wrong = np.bitwise_or.reduce(module.run(0.7, np.arange(4, dtype=np.int32), _result="numpy"))
    assert [body for i, body in enumerate(accepted) if wrong >> i & 1] == []
