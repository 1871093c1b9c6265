"""half rounds after each operation: bit for bit like NumPy's float16, in kernels of all lanes and in the oracle."""

import numpy as np
import pytest

import slangrad as spy

RNG = np.random.default_rng(5)
# fmt: off
SPECIAL = np.array([
    0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x07FF, 0x3BFF, 0x3C00, 0xBC00, 0x3C01, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
    0x7E00,
], np.uint16).view(np.float16)
# fmt: on
PAIRS = [each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL)]
ALL = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)


def run(device, body, arrays, types, result_type, dtype):
    """`body` for each element: `a`, `b`, ... are the arrays' elements."""
    names = "abc"[: len(arrays)]
    parameters = "".join(f", uniform {t}* {n}s" for n, t in zip(names, types, strict=True))
    reads = " ".join(f"{t} {n} = {n}s[i];" for n, t in zip(names, types, strict=True))
    text = f"""
        [shader("compute")] [numthreads(64, 1, 1)]
        void main(uint i : SV_DispatchThreadID, uniform {result_type}* result, uniform uint count{parameters})
        {{ if (i >= count) return; {reads} result[i] = {body}; }}
    """
    module = device.load_module_from_source(f"half_{abs(hash(text))}", text)
    kernel = device.create_compute_kernel(device.link_program([module], [module.entry_point("main")]))
    count = len(arrays[0])
    result = device.create_buffer(data=np.zeros(count, dtype))
    given = {f"{n}s": device.create_buffer(data=x) for n, x in zip(names, arrays, strict=True)}
    kernel.dispatch([count, 1, 1], result=result, count=count, **given)
    return result.to_numpy().view(dtype)


def assert_same(found, expected):
    """Bit for bit; one NaN is like another."""
    different = found.view(f"u{found.itemsize}") != expected.view(f"u{expected.itemsize}")
    if expected.dtype.kind == "f":
        different &= ~(np.isnan(found) & np.isnan(expected))
    assert not different.any(), (np.argmax(different), found[different][:4], expected[different][:4])


def operands(device, count):
    """Pairs of special numbers, numbers of all exponents, and numbers of like size."""
    n = 60_000 if device.backend == "cpu" else 500
    bits = [RNG.integers(0, 1 << 16, n, dtype=np.uint16).view(np.float16) for _ in range(count)]
    near = [RNG.normal(0, 1, n).astype(np.float16) for _ in range(count)]
    special = [*PAIRS, PAIRS[0][::-1].copy()][:count]
    return [np.concatenate(each) for each in zip(special, bits, near, strict=True)]


OPERATIONS = {
    "a + b": np.add,
    "a - b": np.subtract,
    "a * b": np.multiply,
    "a / b": np.divide,
    "a * b + a": lambda a, b: a * b + a,
    "a - b * b": lambda a, b: a - b * b,
    "-a": lambda a, b: -a,
    "abs(a)": lambda a, b: np.abs(a),
    "sqrt(a)": lambda a, b: np.sqrt(a),
    "floor(a)": lambda a, b: np.floor(a),
    "round(a)": lambda a, b: np.rint(a),
}


@pytest.mark.parametrize("body", OPERATIONS)
def test_arithmetic(device, body):
    a, b = operands(device, 2)
    with np.errstate(all="ignore"):
        expected = OPERATIONS[body](a, b)
    assert expected.dtype == np.float16
    assert_same(run(device, body, [a, b], ["half", "half"], "half", np.float16), expected)


def test_a_product_and_a_sum_are_rounded_each(device):
    a, b, c = operands(device, 3)
    with np.errstate(all="ignore"):
        expected = a * b + c
        fused = (a.astype(np.float64) * b + c).astype(np.float16)
    found = run(device, "a * b + c", [a, b, c], ["half"] * 3, "half", np.float16)
    assert_same(found, expected)
    assert (fused != expected)[~np.isnan(expected)].any()


COMPARISONS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


@pytest.mark.parametrize("sign", COMPARISONS)
def test_comparisons(device, sign):
    a, b = operands(device, 2)
    found = run(device, f"(a {sign} b) ? 1 : 0", [a, b], ["half", "half"], "int", np.int32)
    assert (found == COMPARISONS[sign](a, b)).all()


@pytest.mark.parametrize(("t", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_from_half(device, t, dtype):
    a = ALL if device.backend == "cpu" else ALL[::97].copy()
    assert_same(run(device, f"{t}(a)", [a], ["half"], t, dtype), a.astype(dtype))


def ties(dtype):
    """Numbers half way between neighbors, just below and just above; overflows; what is too small."""
    finite = ALL[np.isfinite(ALL) & (ALL >= 0)].astype(dtype)
    middle = (finite[:-1] + finite[1:]) / 2
    around = [middle, np.nextafter(middle, dtype(0)), np.nextafter(middle, dtype(np.inf))]
    largest = np.array(
        [65504, 65519.99, 65520, 65536, 1e30, np.inf, np.nan, 2.0**-25, 2.0**-26, 2.9e-8, 3.0e-8], dtype
    )
    positive = np.concatenate([*around, largest])
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize(("t", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_to_half(device, t, dtype):
    a = ties(dtype)
    a = a if device.backend == "cpu" else a[::131].copy()
    with np.errstate(over="ignore"):
        expected = a.astype(np.float16)
    assert_same(run(device, "half(a)", [a], [t], "half", np.float16), expected)


def test_a_double_is_rounded_once(device):
    """By way of float it would be rounded to the tie first, and then down."""
    a = np.array([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40, 2.0**-25 + 2.0**-60])
    found = run(device, "half(a)", [a], ["double"], "half", np.float16)
    assert found.tolist() == [1 + 2.0**-10, 1 + 2.0**-10, 2.0**-24]


@pytest.mark.parametrize(("t", "dtype"), [("int", np.int32), ("uint", np.uint32), ("int16_t", np.int16)])
def test_integers(device, t, dtype):
    limits = np.iinfo(dtype)
    a = np.concatenate(
        [np.arange(2040, 4200), RNG.integers(limits.min, limits.max, 500), [limits.min, limits.max]]
    )
    a = a.astype(dtype)
    with np.errstate(over="ignore"):
        expected = a.astype(np.float64).astype(np.float16)
    assert_same(run(device, "half(a)", [a], [t], "half", np.float16), expected)
    h = ALL[:: 1 if device.backend == "cpu" else 97].copy()
    wide = np.nan_to_num(h.astype(np.float64), nan=0, posinf=2.0**40, neginf=-(2.0**40))
    assert (
        run(device, f"{t}(a)", [h], ["half"], t, dtype) == wide.clip(limits.min, limits.max).astype(dtype)
    ).all()


def test_bits(device):
    bits = np.arange(1 << 16, dtype=np.uint32)[:: 1 if device.backend == "cpu" else 97].copy()
    halves = bits.astype(np.uint16).view(np.float16)
    assert_same(run(device, "f16tof32(a)", [bits], ["uint"], "float", np.float32), halves.astype(np.float32))
    same = run(device, "uint(asuint16(asfloat16(uint16_t(a))))", [bits], ["uint"], "uint", np.uint32)
    assert (same == bits)[~np.isnan(halves)].all()
    found = run(device, "bit_cast<uint16_t>(a)", [halves], ["half"], "uint16_t", np.uint16)
    assert (found == bits)[~np.isnan(halves)].all()
    floats = ties(np.float32)[:: 1 if device.backend == "cpu" else 131].copy()
    with np.errstate(over="ignore"):
        expected = floats.astype(np.float16).view(np.uint16)
    found = run(device, "f32tof16(a)", [floats], ["float"], "uint", np.uint32)
    assert (found == expected)[~np.isnan(floats)].all()


def test_literals_are_halves(device):
    zero = np.zeros(3, np.float16)
    assert (
        run(device, "a + 0.1h * 3.0h", [zero], ["half"], "half", np.float16)
        == np.float16(0.1) * np.float16(3)
    ).all()
    assert (run(device, "a + 65504.0h + 16.0h", [zero], ["half"], "half", np.float16) == np.inf).all()
    assert (run(device, "a + 1e-7h", [zero], ["half"], "half", np.float16) == np.float16(1e-7)).all()


def test_sums_in_loops_and_local_arrays_round_after_each_operation(device):
    text = """
        half chain(half a, half b)
        {
            half parts[5];
            half sum = b;
            for (int i = 0; i < 5; i++)
            {
                parts[i] = sum * a + half(i);
                sum += parts[(i * 3) % (i + 1)] * half(0.3);
                if (sum < half(0))
                    sum *= half(-0.01);
            }
            return max(sum, parts[4] / (b + half(1)));
        }
    """
    a, b = operands(device, 2)
    f = np.float16
    with np.errstate(all="ignore"):
        parts, total = [], b
        for i in range(5):
            parts.append(total * a + f(i))
            total = total + parts[(i * 3) % (i + 1)] * f(0.3)
            total = np.where(total < 0, total * f(-0.01), total)
        other = parts[4] / (b + f(1))
        expected = np.where(np.isnan(other), total, np.where(other < total, total, other))
    module = spy.Module.load_from_source(device, "half_chain", text)
    ties = (total == 0) & (other == 0)  # either zero is the larger one
    assert_same(module.chain(a, b, _result="numpy")[~ties], expected[~ties])
