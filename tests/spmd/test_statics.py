"""Static variables under random control flow, and in calls: machine code against the oracle, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

import slangrad as spy
from tests.flat import flat_program
from tests.llvm.machine import LANES, assert_like_oracle

THREADS = 75

HEAD = """
static int a = 3;
static float u = 0.5 * a;
static int table[5] = { 1, 2, 3 };
int count(int by) { static int calls = 100; calls += by; return calls & 63; }
float mixed(float x) { u = clamp(u * 0.5 + x, -50.0, 50.0); table[a % 5] ^= a; return u; }
[shader("compute")] [numthreads(32, 1, 1)]
void kernel(uint thread : SV_DispatchThreadID, uniform int* k, uniform float* x, uniform float* y, uniform int* z)
{
    int b = k[thread];
"""
TAIL = """
    y[thread] = u + mixed(x[thread]);
    z[thread] = a * 64 + b + count(1) + table[0] + 2 * table[2] + 3 * table[4];
}
"""
ASSIGNMENTS = [
    "a = (a + b) & 63;",
    "b = count(b);",
    "b = (b ^ table[b % 5]) & 63;",
    "table[(a + b) % 5] += b & 3;",
    "mixed(float(b & 7));",
    "u = min(u, x[thread]);",
    "a = int(thread) & 15;",
]
CONDITIONS = ["a > b", "u < x[thread]", "count(1) > 20", "(thread & 1) == 0", "table[1] == 2"]


class Text:
    """A random body."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0

    def block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self.random.randint(1, 4)))

    def statement(self, depth: int) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.4:
            return self.random.choice(ASSIGNMENTS)
        inner = self.block(depth - 1)
        if choice < 0.6:
            return f"if ({self.random.choice(CONDITIONS)}) {{ {inner} }} else {{ {self.block(depth - 1)} }}"
        if choice < 0.9:
            self.loops += 1
            i = f"i{self.loops}"
            return (
                f"for (int {i} = 0; {i} < (a & 3) && {self.random.choice(CONDITIONS)}; {i}++) {{ {inner} }}"
            )
        return f"if ({self.random.choice(CONDITIONS)}) return;"


@pytest.mark.parametrize("seed", range(5))
def test_random_bodies(seed):
    body = Text(seed).block(3)
    rng = np.random.default_rng(0)
    arguments = {
        "k": rng.integers(0, 9, THREADS).astype(np.int32),
        "x": rng.uniform(-2, 2, THREADS).astype(np.float32),
        "y": np.full(THREADS, 7, np.float32),
        "z": np.full(THREADS, 7, np.int32),
    }
    try:
        assert_like_oracle(flat_program(HEAD + body + TAIL), arguments, THREADS, lanes=LANES)
    except AssertionError as difference:
        raise AssertionError(f"{body}\n{difference}") from None


def test_each_thread_of_each_call_begins_anew(device):
    text = "static int n = 10; int next(int by) { n += by; int m = n; n += by; return m + n; }"
    module = spy.Module.load_from_source(device, "anew", text)
    for _ in range(2):
        found = module.next(np.arange(5, dtype=np.int32), _result="numpy")
        assert found.tolist() == [20, 23, 26, 29, 32]


def test_a_static_variable_that_nobody_writes_costs_nothing(device):
    text = "static float scale = 3; static float twice = 2 * scale; float f(float x) { return twice * x; }"
    module = spy.Module.load_from_source(device, "unwritten", text)
    assert module.f(np.array([1, 2], dtype=np.float32), _result="numpy").tolist() == [6, 12]


def test_gradients_in_float64(device):
    """Weights and counters outside: forward = backward = by hand."""
    text = """
    static double weights[3] = { 1.0, -2.0, 0.5 };
    static int rounds;
    [Differentiable] double f(double x)
    {
        static double bias = weights[2] * 2;
        double sum = bias;
        for (int i = 0; i < 3; i++)
        {
            rounds++;
            sum += weights[i] * pow(x, double(rounds));
        }
        return sum * rounds;
    }
    """
    module = spy.Module.load_from_source(device, "weighted", text)
    x = np.linspace(0.5, 2, 19)
    wanted = 3 * (1 - 4 * x + 1.5 * x * x)
    inputs = spy.Tensor.from_numpy(device, x).with_grads()
    module.f.bwds(inputs)
    np.testing.assert_allclose(inputs.grad.to_numpy(), wanted, rtol=1e-12)
    for at, derivative in zip(x.tolist(), wanted.tolist(), strict=True):
        assert module.f.fwds(spy.diffPair(at, 1.0)).grad == pytest.approx(derivative, rel=1e-12)
