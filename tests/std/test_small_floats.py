"""BFloat16, FloatE4M3 and FloatE5M2: bit for bit like ml_dtypes, in kernels of all lanes and in the oracle."""

import ml_dtypes
import numpy as np
import pytest

import slangrad as spy
from slangrad.ir.data.small_floats import bits_of_small, round_small, small_of_bits
from slangrad.ir.data.types import BF16, E4M3, E5M2
from tests.std.programs import call, differentiated, lowered
from tests.std.test_half import assert_same

RNG = np.random.default_rng(11)
# The largest number of 8 bits stands for all beyond; the other library has NaN and infinities there.
KINDS = {
    "BFloat16": (BF16, ml_dtypes.bfloat16, np.inf),
    "FloatE4M3": (E4M3, ml_dtypes.float8_e4m3fn, 448),
    "FloatE5M2": (E5M2, ml_dtypes.float8_e5m2, 57344),
}


def numbers(greatest, count=400):
    """Of all exponents, ties and their neighbors, and limits."""
    wide = 10.0 ** RNG.uniform(-44, 38, count) * RNG.choice([-1, 1], count)
    near = RNG.normal(0, 4, count)
    ties = np.ldexp(RNG.integers(0, 512, count) * 2.0 + 1, RNG.integers(-24, 8, count))
    limits = [
        0.0,
        -0.0,
        448,
        464,
        465,
        57344,
        61440,
        65536,
        2.0**-9,
        2.0**-10,
        2.0**-16,
        2.0**-17,
        np.inf,
        -np.inf,
    ]
    values = np.concatenate([wide, near, ties, np.nextafter(ties, 0), -ties, limits]).astype(np.float32)
    return values, values.clip(-greatest, greatest)


def test_numbers_and_bits():
    for t, dtype, greatest in KINDS.values():
        values, limited = numbers(greatest)
        with np.errstate(over="ignore"):
            wanted = limited.astype(dtype)
        rounded = [round_small(t, float(value)) for value in values]
        assert_same(np.array(rounded, np.float32), wanted.astype(np.float32))
        assert [bits_of_small(t, value) for value in rounded] == wanted.view(f"u{t.size}").tolist()
        every = np.arange(1 << t.bits, dtype=np.uint32).astype(f"u{t.size}")
        with np.errstate(invalid="ignore"):
            wide = every.view(dtype).astype(np.float64)
        assert np.array_equal([small_of_bits(t, int(bits)) for bits in every], wide, equal_nan=True)
        assert all(np.isnan(small_of_bits(t, bits_of_small(t, x))) for x in (np.nan, -np.nan))


CONVERSIONS = """
    {T} narrow(float x) {{ return {T}(x); }}
    float widen({T} x) {{ return float(x); }}
    {T} from_double(double x) {{ return {T}(x); }}
    {T} from_int(int x) {{ return {T}(x); }}
    int to_int({T} x) {{ return int(x); }}
    uint{bits}_t bits({T} x) {{ return bit_cast<uint{bits}_t>(x); }}
    {T} from_bits(uint{bits}_t x) {{ return bit_cast<{T}>(x); }}
    {T} several({T} a, {T} b) {{
        {T} parts[3] = {{ a + b, a - b, a * b }};
        {T} sum = -abs(a) / (b * b + {T}(1));
        for (int i = 0; i < 3; i++)
            sum = i == 1 ? sum - parts[i] : max(sum + parts[i], min(a, b));
        return sum + floor(sqrt(abs(b)));
    }}
    int compared({T} a, {T} b) {{ return (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b); }}
"""


@pytest.mark.parametrize("name", KINDS)
def test_conversions_and_arithmetic(device, name):
    t, dtype, greatest = KINDS[name]
    module = spy.Module.load_from_source(device, f"small_{name}", CONVERSIONS.format(T=name, bits=t.bits))
    many = device.backend == "cpu"
    values, limited = numbers(greatest, 400 if many else 12)
    with np.errstate(over="ignore"):
        wanted = limited.astype(dtype)
    found = module.narrow(values, _result="numpy")
    assert found.dtype == dtype
    assert_same(found.astype(np.float32), wanted.astype(np.float32))
    assert_same(module.widen(wanted, _result="numpy"), wanted.astype(np.float32))
    assert_same(
        module.from_double(values.astype(np.float64), _result="numpy").astype(np.float32),
        wanted.astype(np.float32),
    )
    whole = RNG.integers(-70000, 70000, 50).astype(np.int32)
    rounded = whole.astype(np.float32).clip(-greatest, greatest).astype(dtype).astype(np.float32)
    assert_same(module.from_int(whole, _result="numpy").astype(np.float32), rounded)
    assert (module.to_int(module.from_int(whole, _result="tensor"), _result="numpy") == rounded).all()
    every = (
        np.arange(1 << t.bits, dtype=np.uint32)
        .astype(f"u{t.size}")[:: 1 if t.bits == 8 or many else 701]
        .copy()
    )
    defined = ~np.isnan(every.view(dtype).astype(np.float32))
    assert (module.bits(every.view(dtype), _result="numpy") == every)[defined].all()
    assert (module.from_bits(every, _result="numpy").view(every.dtype) == every)[defined].all()
    assert_same(module.widen(every.view(dtype), _result="numpy"), every.view(dtype).astype(np.float32))

    a, b = (RNG.normal(0, 2, 300 if many else 20).astype(np.float32).astype(dtype) for _ in "ab")
    round_ = lambda x: x.astype(np.float32).clip(-greatest, greatest).astype(dtype)
    f = lambda x: x.astype(np.float32)
    parts = [round_(f(a) + f(b)), round_(f(a) - f(b)), round_(f(a) * f(b))]
    total = round_(-abs(f(a)) / f(round_(f(round_(f(b) * f(b))) + 1)))
    least = np.minimum(f(a), f(b))
    for i in range(3):
        moved = f(round_(f(total) - f(parts[i]) if i == 1 else f(total) + f(parts[i])))
        total = (moved if i == 1 else np.maximum(moved, least)).astype(dtype)
    total = round_(f(total) + np.floor(f(round_(np.sqrt(abs(f(b)))))))
    assert_same(f(module.several(a, b, _result="numpy")), f(total))
    compared = (f(a) < f(b)) + 2 * (f(a) <= f(b)) + 4 * (f(a) == f(b)) + 8 * (f(a) != f(b))
    assert (module.compared(a, b, _result="numpy") == compared).all()


LANGUAGE = """
    struct Packed { BFloat16 scale; vector<FloatE4M3, 3> color; int count; FloatE5M2 rest[2]; }
    float unpack(Packed p) { return float(p.scale) * float(p.color.y) + p.count + float(p.rest[1]); }
    Packed twice(Packed p) { p.scale = p.scale * BFloat16(2); p.color = p.color + p.color; return p; }
    uint pack4x8(float4 v) { return bit_cast<uint>(vector<FloatE4M3, 4>(v)); }
    float4 unpack4x8(uint bits) { return float4(bit_cast<vector<FloatE5M2, 4>>(bits)); }
    int kinds(float x) { return sizeof(BFloat16(x) * half(x)) * 100 + sizeof(FloatE4M3(x) + BFloat16(x)) * 10 + sizeof(FloatE4M3[5]); }
    float vectors(vector<BFloat16, 3> v) { return float(dot(v, v)) + float(max(v, BFloat16(2)).x); }
    T scaled<T : __BuiltinFloatingPointType>(T x) { return x * T(1.5); }
    float generic(float x) { return float(scaled(BFloat16(x))) + float(BFloat16.maxValue > BFloat16(1)); }
    int bits_of<T : ICoopElement>(T x) { return bit_cast<uint8_t>(x); }
    int conforms() { return bits_of(FloatE4M3(1.25f)) * 1000 + bits_of(FloatE5M2(1.25f)); }
    float cooperative(float x) { return CoopVec<float, 4>(CoopVec<FloatE4M3, 4>(CoopVec<float, 4>(x)))[2]; }
"""


def test_in_structs_vectors_generics_and_cooperative_vectors(device):
    module = spy.Module.load_from_source(device, "small_language", LANGUAGE)
    packed = {"scale": 1.5, "color": [1, 2.6, 3], "count": 4, "rest": [0.5, 8]}
    assert module.unpack(packed) == 1.5 * 2.5 + 12  # 2.6 is rounded
    both = module.twice(packed)
    assert (both["scale"], list(both["color"]), both["rest"]) == (3.0, [2.0, 5.0, 6.0], [0.5, 8.0])
    assert module.pack4x8(spy.float4(1, 2, 3, 4)) == 0x48444038
    assert list(module.unpack4x8(0x4442403C)) == [1, 2, 3, 4]
    assert module.kinds(1.0) == 4 * 100 + 2 * 10 + 5  # half and BFloat16 give float
    assert module.vectors([1, 2, 3]) == 14 + 2
    assert module.generic(1.0) == 2.5
    assert module.conforms() == 0x3A * 1000 + 0x3D
    assert module.cooperative(1.3) == 1.25
    with pytest.raises(spy.CallError, match="Unsupported type"):
        module.unpack({**packed, "scale": "x"})


PRODUCT = """
    float product(float x, float y, RWByteAddressBuffer m)
    {
        CoopVec<float, 2> v = CoopVec<float, 2>(x, y);
        let r = coopVecMatMul<float, 3, 2>(v, CoopVecComponentType.FloatE4M3, m, 0, CoopVecComponentType.KIND,
            CoopVecMatrixLayout.RowMajor, false, 2);
        return r[0] + 10 * r[1] + 100 * r[2];
    }
"""


def test_products_with_matrices_of_8_bits(device):
    matrix = np.array([[1, 2], [3, -4], [0.5, 6]])
    for kind, dtype in {"FloatE4M3": ml_dtypes.float8_e4m3fn, "FloatE5M2": ml_dtypes.float8_e5m2}.items():
        module = spy.Module.load_from_source(device, f"small_product_{kind}", PRODUCT.replace("KIND", kind))
        data = np.append(matrix.astype(dtype).ravel().view(np.uint8), [0, 0]).astype(np.uint8)
        memory = device.create_buffer(data=data)
        x, y = np.float32([1.3, 2]).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        assert module.product(1.3, 2.0, memory) == np.dot([1, 10, 100], matrix @ [x, y])


def test_derivatives():
    """Each partial is computed in float and rounded once, and sums of cotangents in the type."""
    program = differentiated("""
        [Differentiable] BFloat16 f(BFloat16 x, BFloat16 y) { return x * y + sin(x) - y / x; }
        [Differentiable] double g(double x) { return double(BFloat16(x)) * x; }
        float fwd(float x, float y) { return float(fwd_diff(f)(diffPair(BFloat16(x), BFloat16(1)), diffPair(BFloat16(y), BFloat16(0))).d); }
        float2 bwd(float x, float y)
        {
            var p = diffPair(BFloat16(x), BFloat16(0));
            var q = diffPair(BFloat16(y), BFloat16(0));
            bwd_diff(f)(p, q, BFloat16(1));
            return float2(float(p.d), float(q.d));
        }
        double slope(double x) { var p = diffPair(x, 0.0lf); bwd_diff(g)(p, 1.0lf); return p.d; }
        [Differentiable] double inner(double x) { return fwd_diff(g)(diffPair(x * x, 1.0lf)).d * x; }
        double nested(double x) { var p = diffPair(x, 0.0lf); bwd_diff(inner)(p, 1.0lf); return p.d; }
    """)
    for x, y in [(1.5, 2.25), (-0.75, 3.0)]:
        want = (y + np.cos(x) + y / x**2, x - 1 / x)
        assert call(program, "fwd", x, y) == pytest.approx(want[0], rel=2**-6)
        assert call(program, "bwd", x, y) == pytest.approx(want, rel=2**-6)
    assert call(program, "slope", 1.5) == 3.0
    # inner(x) = 2 x^3 for numbers that a BFloat16 holds: the derivative passes the conversion
    assert call(program, "nested", 1.5) == pytest.approx(6 * 1.5**2, rel=2**-6)


def test_a_name_of_a_type_of_our_own_goes_before():
    program = lowered("struct FloatE4M3 { int x; } int f() { FloatE4M3 y = { 3 }; return y.x; }")
    assert call(program, "f") == 3


def test_tensors_have_gradients_of_their_type(device):
    module = spy.Module.load_from_source(
        device,
        "small_tensors",
        """
        [Differentiable] float weighted(no_diff int i, IDiffTensor<BFloat16, 1> w) { return float(w[i % 3]) * i; }
        [Differentiable] float loss(BFloat16 w, float x) { return float(w) * x * x; }
    """,
    )
    count = 40
    weights = spy.Tensor.from_numpy(device, np.ones(3, ml_dtypes.bfloat16)).with_grads()
    values = spy.Tensor.zeros(device, (count,), "float").with_grads()
    values.grad.copy_from_numpy(np.ones(count, np.float32))
    module.weighted.bwds(np.arange(count, dtype=np.int32), weights, values)
    assert weights.grad.dtype == weights.dtype
    total = [sum(range(k, count, 3)) for k in range(3)]
    assert weights.grad.to_numpy().astype(float) == pytest.approx(total, rel=2**-6)
    torch = pytest.importorskip("torch")
    x = torch.tensor([0.5, 1.5], dtype=torch.bfloat16, requires_grad=True)
    y = module.loss(x, torch.tensor([2.0, 3.0]))
    assert y.tolist() == [2.0, 13.5]
    y.sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (torch.bfloat16, [4.0, 9.0])


def test_memory_is_shared_with_pytorch(device):
    torch = pytest.importorskip("torch")
    for _, dtype, _ in KINDS.values():
        tensor = spy.Tensor.from_numpy(device, np.arange(6).reshape(2, 3).astype(dtype))
        shared, capsule = tensor.to_torch(), torch.from_dlpack(tensor[:, 1:])
        assert (shared.dtype, capsule.shape) == (capsule.dtype, (2, 2))
        capsule[1, 1] = 0.5
        assert float(tensor.to_numpy()[1, 2]) == shared[1, 2] == 0.5
        assert float(torch.from_dlpack(spy.Tensor.from_torch(device, shared))[1, 2]) == 0.5
        assert spy.Tensor.from_dlpack(device, shared).address == tensor.address
        assert spy.Tensor.zeros(device, (2,), shared.dtype).dtype == tensor.dtype
