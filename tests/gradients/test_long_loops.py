"""Reverse mode through long loops: little memory, and the same gradients at all widths, whatever is kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Limits
from slangrad.ir.data.layout import element_size
from slangrad.ir.ops.core import Op
from slangrad.llvm import cpu
from slangrad.llvm.memory import memory
from slangrad.llvm.text.emit import RegionEmitter
from slangrad.runtime.launch_record import LaunchRecord
from slangrad.runtime.memory import HOST_MEMORY

SOURCE = """
[Differentiable] double counted(double x, int n)
{
    double s = x, unused = 1;
    for (int i = 0; i < n; i++)
    {
        s = sin(s * x) + 0.01lf * i;
        unused = sqrt(unused);
    }
    return s;
}
[Differentiable] double ended(double x, int n)
{
    double a[3] = { x, 0.5lf, 1.0lf };
    int i = 0;
    while (true)
    {
        if (i >= n || a[i % 3] > 2.5lf) break;
        a[i % 3] = cos(a[(i + 1) % 3] * x) + 0.2lf * a[(i + 2) % 3];
        i++;
        if (i % 5 == 4) continue;
        a[1] = a[1] * 0.9lf + 0.1lf * x;
    }
    return a[0] * a[1] + a[2];
}
[Differentiable] double nested(double x, int n)
{
    double s = x;
    for (int i = 0; i < n; i++)
    {
        double t = s;
        for (int j = i % 4; j < n; j += 2)
        {
            if (t > 1.4lf) return s + t * x;
            t = sin(t) + 0.3lf * x;
        }
        s = 0.5lf * (s + cos(t));
    }
    return s;
}
"""
NAMES = ("counted", "ended", "nested")


def source(name: str) -> str:
    return f"""
    {SOURCE}
    [Differentiable] double slope(double x, int n)
    {{
        var p = diffPair(x);
        bwd_diff({name})(p, n, 1.0lf);
        return p.d;
    }}
    double4 all(double x, int n)
    {{
        var bend = diffPair(x);
        bwd_diff(slope)(bend, n, 1.0lf);
        let first = fwd_diff({name})(diffPair(x, 1.0lf), n);
        return double4(first.p, first.d, slope(x, n), bend.d);
    }}
    """


POINTS = np.array([-0.9, -0.2, 0.3, 0.7, 0.8, 1.1, 1.2], dtype=np.float64)
ROUNDS = np.array([7, 0, 1, 2, 3, 12, 5], dtype=np.int32)


def load(name: str, options: spy.Options, backend: str = "cpu") -> spy.Module:
    device = spy.create_device(backend=backend, options=options)
    return spy.Module.load_from_source(device, "long", source(name))


def values(module: spy.Module, points: np.ndarray = POINTS) -> np.ndarray:
    """The value, the slope by forward and by reverse mode, the slope of the latter by reverse mode."""
    found: np.ndarray = module.all(points, ROUNDS, _result="numpy")
    return found


@cache
def kept_whole(name: str) -> np.ndarray:
    return values(load(name, spy.Options(segment_trips=0), "interpreter"))


@pytest.mark.parametrize("name", NAMES)
def test_modes_and_finite_differences_agree(name: str) -> None:
    module = load(name, spy.Options(segment_trips=2), "interpreter")
    found, up, down = (values(module, POINTS + h) for h in (0, 1e-6, -1e-6))
    np.testing.assert_allclose(found, kept_whole(name), rtol=1e-12)
    np.testing.assert_allclose(found[:, 1], found[:, 2], rtol=1e-12)
    numeric = (up - down)[:, [0, 2]] / 2e-6
    np.testing.assert_allclose(found[:, [1, 3]], numeric, rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize(
    ("name", "lanes", "trips"),
    [("nested", 1, 3), ("counted", 4, 1), ("ended", 8, 3), ("nested", 16, 1), ("ended", 32, 2)],
)
def test_widths(name: str, lanes: int, trips: int) -> None:
    found = values(load(name, spy.Options(segment_trips=trips, lanes=lanes, optimize=0)))
    np.testing.assert_allclose(found, kept_whole(name), rtol=1e-11)


@pytest.mark.cuda
@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_tapes_of_a_gpu(name: str, trips: int) -> None:
    found = values(load(name, spy.Options(segment_trips=trips), "cuda"))
    np.testing.assert_allclose(found, kept_whole(name), rtol=1e-11)


LOGISTIC = """
[Differentiable] float counted(float r, int n)
{
    float x = 0.25;
    for (int i = 0; i < n; i++)
        x = r * x * (1 - x);
    return x;
}
[Differentiable] float ended(float r, int n)
{
    float x = 0.25;
    int i = 0;
    while (i < n && x < 5)
    {
        x = r * x * (1 - x);
        i++;
    }
    return x;
}
"""


@pytest.mark.parametrize("name", ["counted", "ended"])
def test_a_million_rounds_need_little_memory(name: str) -> None:
    """16 lanes that keep each round would need 64 MB for one value; here all is within 2 MiB."""
    options = spy.Options(lanes=16, threads=1, limits=Limits(tape_bytes=2 << 20))
    module = spy.Module.load_from_source(spy.create_device(options=options), "long", LOGISTIC)
    r = np.linspace(2.1, 2.9, 16, dtype=np.float32)
    x = spy.Tensor.from_numpy(module.device, r).with_grads()
    out = spy.Tensor.empty(module.device, (16,), spy.float32).with_grads()
    out.grad.copy_from_numpy(np.ones(16, np.float32))
    getattr(module, name).bwds(x, 1_000_000, _result=out)
    np.testing.assert_allclose(x.grad.to_numpy(), 1 / r**2, rtol=1e-4)  # of the fixed point 1 - 1 / r


SHARED_BUFFER = """
[BackwardDerivative(weight_bwd)] float weight(no_diff float* w, float x) { return w[0] * x; }
void weight_bwd(float* w, inout DifferentialPair<float> x, float d) { w[0] += d; x = diffPair(x.p, d); }

[Differentiable] float f(float x, no_diff float* w, int n)
{
    for (int i = 0; i < n; i++)
        x = sin(weight(w, x));
    return x;
}
float slope(float x, float* w, int n) { var p = diffPair(x); bwd_diff(f)(p, w, n, 1.0f); return p.d; }
"""


def test_what_is_read_may_be_where_gradients_go() -> None:
    """The iterations that are walked backwards first must not change what the others were made from."""
    found = []
    for trips in (0, 3):
        device = spy.create_device(options=spy.Options(segment_trips=trips))
        module = spy.Module.load_from_source(device, "shared", SHARED_BUFFER)
        w = spy.Tensor.from_numpy(device, np.array([1.3], np.float32))
        found.append((float(module.slope(0.7, w.storage, 10)), float(w.to_numpy()[0])))
    assert found[0] == found[1]
    assert found[0][1] != np.float32(1.3)


NESTED = """
[Differentiable] float nest(float r, int n, int m)
{
    float x = 0.25;
    for (int i = 0; i < n; i++)
    {
        float y = x;
        int j = 0;
        while (j < m - i % 3 && y < 5)
        {
            y = r * y * (1 - y);
            j++;
        }
        x = 0.5 * (x + sin(y));
    }
    return x;
}
"""


def nest(lanes: int, trips: int, tape_bytes: int, threads: int = 1) -> Callable[[int, int], np.ndarray]:
    options = spy.Options(
        lanes=lanes, threads=threads, segment_trips=trips, limits=Limits(tape_bytes=tape_bytes)
    )
    module = spy.Module.load_from_source(spy.create_device(options=options), "nest", NESTED)
    r = np.linspace(2.1, 2.9, 40, dtype=np.float32)
    x = spy.Tensor.from_numpy(module.device, r).with_grads()
    out = spy.Tensor.empty(module.device, (40,), spy.float32).with_grads()
    out.grad.copy_from_numpy(np.ones(40, np.float32))

    def slopes(n: int, m: int) -> np.ndarray:
        x.grad.clear()
        module.nest.bwds(x, n, m, _result=out)
        return x.grad.to_numpy()

    return slopes


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_nested_loops_give_memory_back(lanes: int) -> None:
    """What inner loops keep is free when the segment around them is done: 1 MiB is enough, however long it takes."""
    few, many = nest(lanes, 16, 1 << 20), nest(lanes, 0, 1 << 30)
    np.testing.assert_allclose(few(40, 30), many(40, 30), rtol=1e-4)
    found, shorter = few(1200, 100), few(900, 100)
    np.testing.assert_allclose(found, shorter, rtol=1e-4)  # the outer loop has settled


DEEP = """
[Differentiable] float three(float r, int n, int m)
{
    float x = 0.25;
    for (int i = 0; i < n; i++)
    {
        int k = 0;
        while (k < n && x < 2)
        {
            float z = x;
            for (int j = 0; j < m; j++)
                z = r * z * (1 - z);
            x = 0.5 * (x + sin(z));
            k++;
        }
    }
    return x;
}
[Differentiable] float down(float r, float x, int n, int m)
{
    if (n == 0) return x;
    float z = x;
    for (int j = 0; j < m; j++)
        z = r * z * (1 - z);
    return down(r, 0.5 * (x + sin(z)), n - 1, m);
}
[Differentiable] float recursive(float r, int n, int m) { return down(r, 0.25, n * n, m); }
"""


@pytest.mark.parametrize("name", ["three", "recursive"])
def test_deep_nests_need_little_memory(name: str) -> None:
    """All values of 40 * 40 * 300 rounds would be 30 MB for 16 lanes."""
    options = spy.Options(lanes=16, threads=1, optimize=0, limits=Limits(tape_bytes=2 << 20))
    module = spy.Module.load_from_source(spy.create_device(options=options), "deep", DEEP)
    r = np.linspace(2.1, 2.9, 16, dtype=np.float32)
    x = spy.Tensor.from_numpy(module.device, r).with_grads()
    out = spy.Tensor.empty(module.device, (16,), spy.float32).with_grads()
    out.grad.copy_from_numpy(np.ones(16, np.float32))
    getattr(module, name).bwds(x, 40, 300, _result=out)
    # x = sin(z) at z = 1 - 1 / r, where both loops stand still
    np.testing.assert_allclose(x.grad.to_numpy(), np.cos(1 - 1 / r) / r**2, rtol=1e-4)


UNROLLED = """
[Differentiable] double counted(double r, int n)
{
    double x = 0.25lf;
    for (int i = 0; i < n; i++)
        x = r * x * (1 - x);
    return x;
}
[Differentiable] double twin(double r, int n)
{
    double x = 0.25lf;
    [ForceUnroll] for (int i = 0; i < 11; i++)
        if (i < n) x = r * x * (1 - x);
    return x;
}
"""


def test_like_the_unrolled_loop() -> None:
    """In segments of 4 rounds, and written out."""
    found = []
    for trips, name in ((4, "counted"), (0, "twin")):
        device = spy.create_device(options=spy.Options(segment_trips=trips))
        module = spy.Module.load_from_source(device, "twins", UNROLLED)
        r = spy.Tensor.from_numpy(device, np.linspace(2.1, 2.9, 40, dtype=np.float64)).with_grads()
        x = spy.Tensor.empty(device, (40,), spy.float64).with_grads()
        x.grad.copy_from_numpy(np.ones(40, np.float64))
        getattr(module, name).bwds(r, np.arange(40, dtype=np.int32) % 12, _result=x)
        found.append(r.grad.to_numpy())
    np.testing.assert_allclose(*found, rtol=1e-13)


def test_memory_ends_with_an_error() -> None:
    with pytest.raises(MemoryError, match="E0902"):
        nest(16, 0, 1 << 20)(1200, 100)


def test_launches_leave_no_memory_behind() -> None:
    slopes = nest(8, 4, 1 << 22, threads=2)
    first, used = slopes(60, 20), HOST_MEMORY.in_use
    for _ in range(100):
        np.testing.assert_array_equal(slopes(60, 20), first)
    assert HOST_MEMORY.in_use <= used + (1 << 21)  # what a second thread keeps


@pytest.mark.parametrize(
    ("name", "lanes", "trips"), [("ended", 1, 3), ("counted", 4, 3), ("counted", 8, 0), ("nested", 16, 3)]
)
def test_what_memory_held_before_does_not_matter(
    name: str, lanes: int, trips: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residuals are in memory that is not cleared. Here it is full of bytes that are no numbers."""

    def filled(e: RegionEmitter, op: Op) -> None:
        memory.RULES["alloc"](e, op)
        if op.attributes.get("written_first"):
            found.append(op)
            (place,), count = op.results, op.attributes["count"]
            assert isinstance(count, int)
            size = element_size(place.type) * count
            place_text = e.operand(place)
            e.w.line(f"call void @llvm.memset.inline.p0.i64(ptr {place_text}, i8 -1, i64 {size}, i1 false)")

    def add_arena(self: LaunchRecord, size: int) -> bool:
        if not given(self, size):
            return False
        ctypes.memset(self._arenas[-1].address, 255, self._arenas[-1].size)
        return True

    found: list[Op] = []
    given = LaunchRecord._add_arena
    monkeypatch.setitem(cpu.RULES, "alloc", filled)
    monkeypatch.setattr(LaunchRecord, "_add_arena", add_arena)
    monkeypatch.setenv("SLANGRAD_CACHE", "0")
    made = values(load(name, spy.Options(segment_trips=trips, lanes=lanes, optimize=0)))
    np.testing.assert_allclose(made, kept_whole(name), rtol=1e-11)
    assert bool(found) == bool(trips)
