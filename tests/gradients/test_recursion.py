"""Functions that call themselves, launched over many threads: depths that differ, memory that is linear in the depth."""

from __future__ import annotations

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Limits, Options
from tests.backends import ALL

COUNTS = """
int ackermann(int m, int n)
{
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

void visit(int n, inout int order[16], inout int next)
{
    if (n >= 16) return;
    visit(2 * n + 1, order, next);
    order[next++] = n;
    visit(2 * n + 2, order, next);
}
int[16] in_order(int n) { int order[16], next = 0; visit(n, order, next); return order; }
"""


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, ackermann(m, n - 1) if n else 1)


def in_order(n: int) -> list[int]:
    return [] if n >= 16 else [*in_order(2 * n + 1), n, *in_order(2 * n + 2)]


@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32, 0])
def test_each_thread_has_a_depth_of_its_own(lanes: int) -> None:
    """0: the interpreter."""
    device = spy.create_device(backend="cpu" if lanes else "interpreter", options=Options(lanes=lanes))
    module = spy.Module.load_from_source(device, "counts", COUNTS)
    m, n = (each.ravel().astype(np.int32) for each in np.indices((3, 7)))
    assert module.ackermann(m, n, _result="numpy").tolist() == [ackermann(*each) for each in zip(m, n)]
    found = module.in_order(np.arange(21, dtype=np.int32), _result="numpy")
    wanted = [in_order(k) for k in range(21)]
    assert found.tolist() == [each + [0] * (16 - len(each)) for each in wanted]


@pytest.mark.parametrize("backend", ALL)
def test_gradients_of_tensors(backend: str) -> None:
    device = spy.create_device(backend=backend)
    text = """
        [Differentiable] float energy(ITensor<float, 1> x, float scale, int low, int high)
        {
            if (high - low == 1)
                return x[low] * x[low] * scale;
            int middle = (low + high) / 2;
            return energy(x, scale, low, middle) + energy(x, scale * 2, middle, high);
        }
    """
    module = spy.Module.load_from_source(device, "sums", text)
    v = np.arange(1, 8, dtype=np.float32)
    x = spy.Tensor.from_numpy(device, v).with_grads()
    scale = np.float32([1, 2, 4, 2, 4, 4, 8])  # [0, 3) and [3, 7), halved again
    assert module.energy(x, 1.0, 0, 7) == (v * v * scale).sum()
    starts = np.array([0, 0], np.int32)
    module.energy.bwds(x, 1.0, starts, 7)
    assert x.grad.to_numpy().tolist() == (2 * 2 * v * scale).tolist()


ROWS = """
struct State : IDifferentiable { double v[3]; double w[12]; }

[Differentiable]
State walk(State s, int n)
{
    if (n == 0)
        return s;
    s.v[n % 3] = sin(s.v[0]) + s.v[1];
    s.w[n % 12] += s.v[2] * s.w[(n + 5) % 12];
    State t = walk(s, n - 1);
    t.v[n % 3] += s.v[0] * 0.5lf + s.w[3] * 0.125lf;
    return t;
}

[Differentiable]
double end(double x, int n)
{
    State s;
    for (int i = 0; i < 3; i++) s.v[i] = x * i;
    for (int i = 0; i < 12; i++) s.w[i] = 0.1lf * x;
    s = walk(s, n);
    return s.v[0] * s.v[1] + s.v[2] + s.w[4];
}

double slope(double x, int n) { return fwd_diff(end)(diffPair(x, 1.0lf), n).d; }
"""


def test_arrays_on_the_stack_are_not_copied_with_it() -> None:
    """A copy for each call would need a hundred times this memory."""
    device = spy.create_device(options=Options(threads=1, limits=Limits(tape_bytes=64 << 20)))
    module = spy.Module.load_from_source(device, "rows", ROWS)
    for n in (7, 1000):
        x = spy.Tensor.from_numpy(device, np.full(3, 0.02)).with_grads()
        module.end.bwds(x, n)
        np.testing.assert_allclose(x.grad.to_numpy(), module.slope(0.02, n), rtol=1e-9)


def test_a_depth_beyond_the_limit_is_an_error_of_the_call() -> None:
    for backend in ("cpu", "interpreter"):
        device = spy.create_device(backend=backend, options=Options(limits=Limits(recursion_depth=100)))
        text = "[Differentiable] float down(float x, int n) { return n == 0 ? x : 2 * down(x, n - 1); }"
        module = spy.Module.load_from_source(device, "down", text)
        n = np.array([3, 99, 100, 5], np.int32)
        with pytest.raises(RecursionError, match=r"E0904.*more than 100 calls deep[\s\S]*down:1:71"):
            module.down(1.0, n)
        x = spy.Tensor.from_numpy(device, np.ones(1, np.float32)).with_grads()
        with pytest.raises(RecursionError, match="E0904"):
            module.down.bwds(x, 100)
        assert module.down(1.0, n[:2] % 50, _result="numpy").tolist() == [8, 2.0**49]


def test_the_depth_is_told_without_checks_of_bounds() -> None:
    device = spy.create_device(options=Options(bounds_checks=False, limits=Limits(recursion_depth=10)))
    module = spy.Module.load_from_source(device, "endless", "int f(int n) { return f(n + 1) + 1; }")
    with pytest.raises(RecursionError, match="more than 10 calls deep"):
        module.f(1)
