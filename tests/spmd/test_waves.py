"""Waves under random control flow: machine code against the oracle, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.flat import flat_program
from tests.llvm.machine import ALL_FEATURES, assert_like_oracle

THREADS = 75

HEAD = """
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint thread : SV_DispatchThreadID, uniform uint count, uniform int* k, uniform float* x, uniform float* y,
    uniform int* z)
{
    if (thread >= count)
        return;
    int a = k[thread];
    int b = int(thread % 5);
    float u = x[thread];
    float v = 1;
"""
TAIL = """
    y[thread] = u + v;
    z[thread] = a * 3 + b;
}
"""

INTEGERS = [
    "a + b",
    "a - 3",
    "b ^ a",
    "WaveActiveSum(a)",
    "WaveActiveMin(b)",
    "int(WaveActiveBallot(a > b).x)",
    "int(WaveActiveCountBits(u > v))",
    "WavePrefixSum(b)",
    "WaveReadLaneFirst(a)",
    "WaveReadLaneAt(a, b & 31)",
    "WaveReadLaneAt(b, 7)",
    "int(WaveGetLaneIndex())",
    "WaveActiveBitXor(a)",
    "int(WavePrefixCountBits(a < 2))",
    "WavePrefixMax(a) & 31",
    "WavePrefixBitXor(b)",
    "WaveMaskSum(WaveMatch(b & 1).x, a)",
    "int(WavePrefixBitOr(a > b))",
]
FLOATS = [
    "u * 0.5",
    "v - u",
    "WaveActiveSum(u)",
    "WaveActiveMax(v)",
    "WavePrefixSum(u)",
    "WavePrefixProduct(v) * 0.25",
    "WaveReadLaneAt(u, a & 31)",
    "float(a & 15)",
    "clamp(WavePrefixMin(v), -9.0, 9.0)",
]
CONDITIONS = [
    "a > b",
    "u < v",
    "WaveIsFirstLane()",
    "WaveActiveAnyTrue(a == 3)",
    "(thread & 1) == 0",
    "count > 50",
]


class Text:
    """A random body. Numbers stay small, so that nothing overflows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0

    def block(self, depth: int, in_loop: bool) -> str:
        return " ".join(self.statement(depth, in_loop) for _ in range(self.random.randint(1, 4)))

    def statement(self, depth: int, in_loop: bool) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.45:
            return self.assignment()
        if choice < 0.7:
            inner = self.block(depth - 1, in_loop)
            otherwise = f" else {{ {self.block(depth - 1, in_loop)} }}" if self.random.random() < 0.5 else ""
            return f"if ({self.random.choice(CONDITIONS)}) {{ {inner} }}{otherwise}"
        if choice < 0.95:
            return self.loop(depth)
        leave = self.random.choice(["break", "continue"]) if in_loop else "return"
        return f"if ({self.random.choice(CONDITIONS[:2])}) {leave};"

    def assignment(self) -> str:
        if self.random.random() < 0.5:
            return f"{self.random.choice('ab')} = ({self.random.choice(INTEGERS)}) & 63;"
        return f"{self.random.choice('uv')} = clamp({self.random.choice(FLOATS)}, -50.0, 50.0);"

    def loop(self, depth: int) -> str:
        self.loops += 1
        i, bound = f"i{self.loops}", self.random.choice(["3", "b & 3", "int(thread & 3)"])
        inner = self.block(depth - 1, True)
        if self.random.random() < 0.5:
            return f"for (int {i} = 0; {i} < ({bound}); {i}++) {{ {inner} }}"
        return f"int {i} = 0; while ({i} < ({bound}) && a != 5) {{ {i}++; {inner} }}"


def arguments() -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "count": 70,
        "k": rng.integers(0, 9, THREADS).astype(np.int32),
        "x": rng.uniform(-2, 2, THREADS).astype(np.float32),
        "y": np.full(THREADS, 7, np.float32),
        "z": np.full(THREADS, 7, np.int32),
    }


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed):
    body = Text(seed).block(3, False)
    try:
        program = flat_program(HEAD + body + TAIL)
        assert_like_oracle(program, arguments(), THREADS, lanes=(32,), cpus=("", ALL_FEATURES))
    except AssertionError as difference:
        raise AssertionError(f"{body}\n{difference}") from None
