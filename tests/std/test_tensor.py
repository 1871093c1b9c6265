"""Tensors in NumPy's memory: indices, bounds, strides, and gradients through loads and stores."""

from __future__ import annotations

import numpy as np
import pytest

from slangrad.ir.oracle.interpret import Recorded
from slangrad.ir.oracle.memory import Datum
from tests.std.programs import call, differentiated, lowered

Array = np.ndarray


def tensor(array: Array, element_rank: int = 0) -> Datum:
    """The fields of a Tensor on an array; the last `element_rank` dimensions are inside of an element."""
    rank = array.ndim - element_rank
    element = array.itemsize * int(np.prod(array.shape[rank:], dtype=int))
    return array.ctypes.data, array.shape[:rank], tuple(s // element for s in array.strides[:rank])


def numbers(*shape: int) -> Array:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def test_indices_in_three_spellings() -> None:
    program = lowered("""
        import slangpy;
        float list(Tensor<float, 2> t, int i, int j) { return t[i, j] + t.load(i, j); }
        float array(Tensor<float, 2> t, int i, int j) { int at[2] = { i, j }; return t[at] + t.load(at); }
        float turned(Tensor<float, 2> t, int x, int y) { return t[int2(x, y)] + t.load(uint2(x, y)); }
        float one(Tensor<float, 1> t, uint i) { return t[i]; }
        float four(Tensor<float, 4> t) { return t[1, 0, 2, 1]; }
        uint2 extents(Tensor<float, 2> t) { return uint2(t.shape[0], t.shape[1]); }
    """)
    a, b = numbers(3, 4), numbers(2, 2, 3, 2)
    assert call(program, "list", tensor(a), 2, 1) == 2 * a[2, 1]
    assert call(program, "array", tensor(a), 2, 1) == 2 * a[2, 1]
    assert call(program, "turned", tensor(a), 3, 1) == 2 * a[1, 3]
    assert call(program, "one", tensor(a[1]), 2) == a[1, 2]
    assert call(program, "four", tensor(b)) == b[1, 0, 2, 1]
    assert call(program, "extents", tensor(a)) == (3, 4)


def test_strides() -> None:
    program = lowered("float f(Tensor<float, 2> t, int i, int j) { return t[i, j]; }")
    a = numbers(6, 8)
    for view in (a.T, a[1::2, ::3], a[::-1], np.broadcast_to(a[0], (5, 8))):
        assert [call(program, "f", tensor(view), 2, j) for j in range(3)] == view[2, :3].tolist()


def test_outside_reads_zero_writes_nothing_and_reports() -> None:
    program = lowered("""
        float get(Tensor<float, 2> t, int i, int j) { return t[i, j]; }
        float wide(Tensor<float, 1> t, int64_t i) { int64_t at[1] = { i }; return t[at]; }
        void set(RWTensor<float, 2> t, int i, int j) { t[i, j] = 9; }
        void add(AtomicTensor<float, 2> t, int i, int j) { t.add(i, j, 9); }
    """)
    a = numbers(2, 3)
    before = a.copy()
    for at, report in (((2, 0), (2, 2)), ((0, 3), (3, 3)), ((-1, 0), (-1, 2))):
        for name in ("get", "set", "add"):
            reports = Recorded()
            result = call(program, name, tensor(a), *at, reports=reports)
            assert result in (0.0, ())
            assert reports.bounds == [report]
    assert call(program, "wide", tensor(a[0]), 2**32 + 1) == 0.0
    assert call(program, "wide", tensor(a[0]), 1) == 2.0
    assert (a == before).all()


def test_stores() -> None:
    program = lowered("""
        void w(WTensor<float, 2> t) { t[0, 1] = 5; t.store(1, 0, 6); t[int2(2, 1)] = 7; t.store(int2(0, 0), 8); }
        void rw(RWTensor<float, 2> t) { t[0, 1] += 5; t[int2(0, 1)] *= 3; }
        void flat(RWTensor<float, 2> t) { t.write_buffer(5, t.read_buffer(0) + 0.5); }
    """)
    a, b, c = numbers(2, 3), numbers(2, 3), numbers(2, 3)
    call(program, "w", tensor(a))
    assert a.tolist() == [[8, 5, 3], [6, 5, 7]]
    call(program, "rw", tensor(b))
    assert b.tolist() == [[1, 7, 3], [12, 5, 6]]
    call(program, "flat", tensor(c))
    assert c.tolist() == [[1, 2, 3], [4, 5, 1.5]]


def test_interfaces() -> None:
    program = lowered("""
        float sum(ITensor<float, 2> t)
        {
            float total = 0;
            for (uint i = 0; i < t.shape[0]; i++)
                for (uint j = 0; j < t.shape[1]; j++)
                    total += t[i, j];
            return total;
        }
        T first<T, let D : int, X : ITensor<T, D>>(X t) { int at[D]; return t[at]; }
        void fill(IWTensor<float, 1> t, float x) { for (uint i = 0; i < t.shape[0]; i++) t[i] = x; }
        void twice(IRWTensor<float, 1> t) { for (uint i = 0; i < t.shape[0]; i++) t[i] *= 2; }
        float a(Tensor<float, 2> t) { return sum(t); }
        float b(Tensor<float, 2> t) { return first<float, 2>(t); }
        void c(WTensor<float, 1> t) { fill(t, 3); }
        void d(RWTensor<float, 1> t) { twice(t); }
    """)
    a, row = numbers(2, 3), numbers(3)
    assert call(program, "a", tensor(a)) == 21.0
    assert call(program, "b", tensor(a)) == 1.0
    call(program, "d", tensor(row))
    assert row.tolist() == [2, 4, 6]
    call(program, "c", tensor(row))
    assert row.tolist() == [3, 3, 3]


def test_elements_of_several_numbers() -> None:
    program = lowered("""
        struct Pair { float a; int b; }
        float3 vectors(Tensor<float3, 1> t) { return t[1]; }
        float2x2 matrices(Tensor<float2x2, 1> t) { return t[1]; }
        float arrays(Tensor<float[3], 1> t) { return t[1][2]; }
        void add(AtomicTensor<float2x2, 1> t) { t.add(0, float2x2(1, 2, 3, 4)); }
        int structs(Tensor<Pair, 1> t) { return t[1].b; }
    """)
    a, m = numbers(2, 3), numbers(2, 2, 2)
    pairs = np.array([(1.5, 2), (2.5, 7)], dtype=[("a", np.float32), ("b", np.int32)])
    assert call(program, "vectors", tensor(a, 1)) == (4.0, 5.0, 6.0)
    assert call(program, "matrices", tensor(m, 2)) == ((5.0, 6.0), (7.0, 8.0))
    assert call(program, "arrays", tensor(a, 1)) == 6.0
    call(program, "add", tensor(m, 2))
    assert m[0].tolist() == [[2, 4], [6, 8]]
    assert call(program, "structs", tensor(pairs)) == 7


def test_sampling() -> None:
    program = lowered("""
        float f(Tensor<float, 2> t, float u, float v) { return t.sample(float2(u, v)); }
        float2 g(RWTensor<float2, 2> t, float u, float v) { return t.sample(float2(u, v)); }
    """)
    a = numbers(2, 4)
    assert call(program, "f", tensor(a), 0.5, 0.5) == pytest.approx(0.25 * (2 + 3 + 6 + 7))
    assert call(program, "f", tensor(a), 0.125, 0.25) == 1.0
    assert call(program, "f", tensor(a), 5.0, 5.0) == 8.0
    assert call(program, "f", tensor(a), -1.0, 0.0) == pytest.approx(1.0)
    b = np.stack([a, 10 * a], axis=-1)
    assert call(program, "g", tensor(b, 1), 0.5, 0.5) == pytest.approx((4.5, 45.0))


def test_older_names() -> None:
    program = lowered("""
        float a(NDBuffer<float, 2> t) { int at[2] = { 1, 0 }; return t.get(at) + t.get(1, 2) + t.getv(int2(1, 0)); }
        void b(RWNDBuffer<float, 1> t) { t.set(1, 5); t.setv(vector<int, 1>(0), 6); }
        float c(GradOutTensor<float, 1> t) { return t.get(1); }
        float d(Tensor<float, 2> t) { return t.get({ 1, 0 }) + 10 * t.getv({ 2, 1 }); }
        void e(RWTensor<float, 2> t) { t.set({ 1, 0 }, 8); t.setv({ 2, 1 }, 9); }
        uint f(Tensor<float, 2> t) { uint rows, columns; t.GetDimensions(rows, columns); return 10 * rows + columns; }
        float g(GradOutTensor<float, 1> t) { return t.primal.get({ 1 }) + t.primal[0]; }
    """)
    a, row = numbers(2, 3), numbers(2)
    assert call(program, "a", tensor(a)) == 4 + 6 + 2
    call(program, "b", tensor(row))
    assert row.tolist() == [6, 5]
    assert call(program, "c", (tensor(row), tensor(row))) == 5
    assert call(program, "d", tensor(a)) == 4 + 10 * 6
    assert call(program, "f", tensor(a)) == 23
    assert call(program, "g", (tensor(row), tensor(row))) == 5 + 6
    call(program, "e", tensor(a))
    assert (a[1, 0], a[1, 2]) == (8, 9)


POLYNOMIAL = """
    [Differentiable]
    void polynomial(int i, float a, IDiffTensor<float, 1> x, IWDiffTensor<float, 1> result)
    {
        float value = x[i];
        result[i] = a * value * value + value;
    }
    void run(int i, PrimalTensor<float, 1> x, WPrimalTensor<float, 1> y) { polynomial(i, 2, x, y); }
    float back(int i, DiffTensor<float, 1> x, WDiffTensor<float, 1> y)
    {
        var a = diffPair(2.0f);
        bwd_diff(polynomial)(i, a, x, y);
        return a.d;
    }
"""


def test_gradients_of_loads_and_stores() -> None:
    program = differentiated(POLYNOMIAL)
    x, y = numbers(3), np.zeros(3, np.float32)
    call(program, "run", 1, (tensor(x),), (tensor(y),))
    assert y.tolist() == [0, 10, 0]
    of_x, of_y, unchanged = np.full(3, 0.5, np.float32), numbers(3), np.full(3, 7, np.float32)
    of_a = call(program, "back", 1, (tensor(x), tensor(of_x)), (tensor(unchanged), tensor(of_y)))
    assert of_x.tolist() == [0.5, 0.5 + 2 * (2 * 2 * 2 + 1), 0.5]
    assert of_a == 2 * 2 * 2
    assert unchanged.tolist() == [7, 7, 7]


def test_gradients_in_place() -> None:
    """The gradient of what was stored is read, that of what was loaded is added; the store runs again."""
    program = differentiated("""
        [Differentiable] void twice(int i, IRWDiffTensor<float, 1> t) { t[i] = t[i] * 2; }
        void back(int i, RWDiffTensor<float, 1> t) { bwd_diff(twice)(i, t); }
    """)
    x, read, added = numbers(2), np.ones(2, np.float32), np.zeros(2, np.float32)
    call(program, "back", 1, (tensor(x), tensor(read), tensor(added)))
    assert (read.tolist(), added.tolist()) == ([1, 1], [0, 2])


def test_layer_with_a_loop() -> None:
    program = differentiated("""
        [Differentiable]
        void layer(int row, IDiffTensor<float, 2> weights, IDiffTensor<float, 1> bias,
                   IDiffTensor<float, 1> input, IWDiffTensor<float, 1> output)
        {
            uint count = weights.shape[1];
            float sum = bias[row];
            for (uint i = 0; i < count; i++)
                sum += weights[row, i] * input[i];
            output[row] = sum;
        }
        void back(int row, DiffTensor<float, 2> w, DiffTensor<float, 1> b, DiffTensor<float, 1> x, WDiffTensor<float, 1> y)
        {
            bwd_diff(layer)(row, w, b, x, y);
        }
    """)
    w, b, x, y = numbers(2, 3), numbers(2), numbers(3) * 10, np.zeros(2, np.float32)
    dw, db, dx, dy = np.zeros_like(w), np.zeros_like(b), np.zeros_like(x), np.array([2, 3], np.float32)
    pairs = [(tensor(p), tensor(d)) for p, d in ((w, dw), (b, db), (x, dx), (y, dy))]
    for row in range(2):
        call(program, "back", row, *pairs)
    assert dw.tolist() == np.outer(dy, x).tolist()
    assert db.tolist() == dy.tolist()
    assert dx.tolist() == (dy @ w).tolist()


def test_structs_with_derivatives() -> None:
    program = differentiated("""
        struct Ray : IDifferentiable { float3 origin; no_diff int id; float length; }
        [Differentiable] float f(DiffTensor<Ray, 1> t, int i) { Ray r = t[i]; return dot(r.origin, r.origin) * r.length; }
        void back(DiffTensor<Ray, 1> t, int i) { bwd_diff(f)(t, i, 1.0f); }
    """)
    ray = np.dtype([("origin", np.float32, 3), ("id", np.int32), ("length", np.float32)])
    rays = np.array([((1, 2, 2), 5, 3), ((0, 1, 0), 6, 2)], dtype=ray)
    gradients = np.zeros(2, np.dtype([("origin", np.float32, 3), ("length", np.float32)]))
    call(program, "back", (tensor(rays), tensor(gradients)), 0)
    assert gradients["origin"].tolist() == [[6, 12, 12], [0, 0, 0]]
    assert gradients["length"].tolist() == [9, 0]


def test_other_ways_to_accumulate() -> None:
    program = differentiated("""
        [Differentiable] float f(DiffTensor<float, 1> t) { int at[1] = { 1 }; return t.load_once(at) * 3 + t.load_uniform(at); }
        void back(DiffTensor<float, 1> t) { bwd_diff(f)(t, 1.0f); }
        DifferentialPair<float> ahead(DiffTensor<float, 1> t) { return fwd_diff(f)(t); }
    """)
    x, of_x = numbers(2), np.full(2, 0.5, np.float32)
    call(program, "back", (tensor(x), tensor(of_x)))
    assert of_x[1] in (3.0, 4.0)  # stored, then added to, or the other way round
    assert call(program, "ahead", (tensor(x), tensor(of_x))) == (8.0, 0.0)


def test_custom_derivatives_by_the_fields() -> None:
    """A ramp, flat outside of one half to two, which reads its tensor's parts and adds its gradient by hand."""
    program = differentiated("""
        [Differentiable] [BackwardDerivative(addSlope)]
        float ramp(int i, DiffTensor<float, 1> heights)
        {
            float h = heights.load(i);
            if (h < 0.5)
                return 0.25;
            return h > 2 ? 4.0 : h * h;
        }
        void addSlope(int i, DiffTensor<float, 1> heights, float ct)
        {
            let h = heights._primal.load(i);
            heights._grad_out.add(i, h < 0.5 || h > 2 ? 0.0 : 2 * h * ct);
        }
        float value(int i, DiffTensor<float, 1> t) { return ramp(i, t); }
        void back(int i, DiffTensor<float, 1> t) { bwd_diff(ramp)(i, t, 2.0f); }
    """)
    x, of_x = np.array([-1, 0.5, 1.5, 3], np.float32), np.zeros(4, np.float32)
    pair = (tensor(x), tensor(of_x))
    assert [call(program, "value", i, pair) for i in range(4)] == [0.25, 0.25, 2.25, 4.0]
    for i in range(4):
        call(program, "back", i, pair)
    assert of_x.tolist() == [0, 2, 6, 0]
