"""Host vectors and matrices."""

import copy
import pickle

import numpy as np
import pytest

import slangrad as spy
from slangrad import float2, float3, float4, int2, uint4


def test_construction():
    assert float4() == float4(0, 0, 0, 0)
    assert float4(1) == float4(1, 1, 1, 1)
    assert float4(float3(1, 2, 3), 4) == float4(1, 2, 3, 4)
    assert float3([1, 2, 3]) == float3(np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="float3 takes 3 components, not 2"):
        float3(1, 2)


def test_components():
    v = float4(1, 2, 3, 4)
    v.x, v.w = 10, 40
    v[1] = 20
    assert list(v) == [10, 20, 3, 40]
    assert (v.y, v[2], len(v)) == (20, 3, 4)
    assert str(v) == "{10, 20, 3, 40}"
    assert repr(int2(1, 2)) == "int2(1, 2)"


def test_values_are_rounded_to_their_element():
    assert float2(0.1, 0).x == float(np.float32(0.1))
    assert int2(7, -7) / 2 == int2(3, -3)


def test_arithmetic():
    v = float3(1, 2, 4)
    assert v + v == float3(2, 4, 8)
    assert 1 - v == float3(0, -1, -3)
    assert 8 / v == float3(8, 4, 2)
    assert -v * 2 == float3(-2, -4, -8)
    with pytest.raises(TypeError):
        v + "text"


def test_comparison():
    assert uint4(1, 2, 3, 4) < uint4(1, 2, 3, 5)
    assert float3(1, 2, 3) != float3(1, 2, 4)
    assert float2(1, 2) != float3(1, 2, 3)
    assert hash(float3(1, 2, 3)) == hash(float3(1, 2, 3))


def test_matrices():
    m = spy.float2x3(1, 2, 3, 4, 5, 6)
    assert m[1] == float3(4, 5, 6)
    assert m[1, 2] == 6
    assert spy.float3x3.identity() @ spy.float3x3(np.arange(9)) == spy.float3x3(np.arange(9))
    assert (m @ np.array([1, 0, 1], np.float32)).tolist() == [4, 10]
    assert m.to_numpy().shape == (2, 3)
    assert m.shape == (2, 3)


def test_numpy_and_copies():
    v = float3(1, 2, 3)
    assert np.asarray(v).dtype == np.float32
    assert copy.deepcopy(v) == v
    assert pickle.loads(pickle.dumps(v)) == v
    assert float3.element_type is float
    assert float3.shape == (3,)


KINDS = ["bool", "int8_t", "int16_t", "int", "int64_t", "uint8_t", "uint16_t", "uint", "uint64_t", "float16_t", "float", "double"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", ["1", "2", "3", "4", "2x2", "3x4", "4x3"])
def test_every_type(kind, size):
    made = getattr(spy, kind + size)
    shape = tuple(map(int, size.split("x")))
    values = np.arange(np.prod(shape)).reshape(shape) % 2
    v = made(values.astype(made.dtype))
    assert (v.shape, len(v), v.dtype) == (shape, shape[0], made.dtype)
    assert v == made(values) == made(values.tolist()) == values.tolist()
    assert made() == (np.eye(*shape) if len(shape) == 2 else np.zeros(shape)).tolist()
    assert made.zeros() == np.zeros(shape).tolist()
    assert pickle.loads(pickle.dumps(v)) == v == copy.copy(v)
    assert {v: 1}[made(values)] == 1
    array = np.asarray(v)
    assert np.shares_memory(array, v.data)
    assert not np.shares_memory(np.array(v), v.data)
    assert np.array_equal(np.from_dlpack(v), values)
    assert (
        spy.Tensor.full(spy.create_device(), (2,), values, made).to_numpy().tolist() == [values.tolist()] * 2
    )


def test_values_that_do_not_fit():
    for wrong in (
        lambda: int2(1.5, 2),
        lambda: int2(float2(1, 2)),
        lambda: spy.bool2(0.0),
        lambda: float2("12"),
    ):
        with pytest.raises(TypeError, match=r"takes (whole numbers|truth values), not|is no number"):
            wrong()
    with pytest.raises(OverflowError, match="uint4: -1 is not from 0 to 4294967295"):
        uint4(1, 2, 3, -1)
    with pytest.raises(OverflowError, match="int2: 2147483648 is not from"):
        int2(1 << 31)
    v = int2(1, 2)
    with pytest.raises(TypeError, match=r"takes whole numbers, not 2\.5"):
        v.x = 2.5
    with pytest.raises(ValueError, match="int2: 2 components are set, not 3"):
        v[:] = [1, 2, 3]
    assert v == int2(1, 2)
    assert float2(1 << 60, True) == float2(2.0**60, 1)
    assert spy.float16_t2(1e6).x == float("inf")


def test_names_of_components():
    assert float3(x=1, y=2, z=3) == float3(float2(1, 2), z=3) == float3(x=1, yz=float2(2, 3))
    assert float4(xy=float2(1, 2), zw=float2(3, 4)) == float4(a=[1, 2, 3, 4])
    assert float2(scalar=2) == float2(2, 2)
    for wrong in ({"x": 1}, {"y": 1, "w": 2}, {"xz": 1, "y": 2}, {"q": 1}):
        with pytest.raises((TypeError, ValueError), match="float3 takes"):
            float3(**wrong)


def test_swizzles():
    v = float4(1, 2, 3, 4)
    assert (v.xyz, v.wx, v.yyyy) == (float3(1, 2, 3), float2(4, 1), float4(2))
    assert int2(1, 2).yx == int2(2, 1)
    for wrong in ("xyzwx", "xq", "foo"):
        with pytest.raises(AttributeError, match=f"float4 has no component or attribute '{wrong}'"):
            getattr(v, wrong)
    with pytest.raises(AttributeError):
        float2(1, 2).z  # noqa: B018


def test_whole_numbers_divide_as_in_slang():
    a, b = int2(-7, 7), int2(2, -2)
    assert (a / b, a % b, a / 2) == (int2(-3, -3), int2(-1, 1), int2(-3, 3))
    big = spy.int64_t2(2**62 + 1, -(2**62) - 1)
    assert big / 3 == spy.int64_t2((2**62 + 1) // 3, -((2**62 + 1) // 3))
    for wrong in (lambda: a / 0, lambda: 1 % int2(0, 1)):
        with pytest.raises(ZeroDivisionError):
            wrong()
    assert float2(1, -1) / 0 == float2(float("inf"), float("-inf"))
    assert uint4(1) - 2 == uint4(2**32 - 1)


def test_bits():
    a = uint4(1, 2, 3, 12)
    assert (a << 2, a >> 1, a | 4, a & 2, a ^ 1) == (
        uint4(4, 8, 12, 48), uint4(0, 1, 1, 6), uint4(5, 6, 7, 12), uint4(0, 2, 2, 0), uint4(0, 3, 2, 13)
    )  # fmt: skip
    assert (1 << uint4(0, 1, 2, 3), ~int2(0, 5)) == (uint4(1, 2, 4, 8), int2(-1, -6))
    flags = spy.bool2(True, False)
    assert (flags & True, flags | flags, ~flags) == (flags, flags, spy.bool2(False, True))
    with pytest.raises(ValueError, match="shifts of numbers of 32 bits go from 0 to 31"):
        a << 32
    for wrong in (lambda: float2(1) << 1, lambda: flags + flags, lambda: -flags, lambda: ~float2(1)):
        with pytest.raises(TypeError):
            wrong()


def test_types_are_not_mixed():
    for wrong in (lambda: int2(1) * 1.5, lambda: float3(1) + spy.int3(1), lambda: float3(1) + float2(1)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(OverflowError):
        uint4(1) + -1
    assert np.float32(2) * float2(1, 2) == float2(2, 4)
    assert type(float2(1, 2) / np.float64(2)) is float2
    assert (np.arange(2) + float2(1, 2)).tolist() == [1, 3]
    assert (float2(1, 2) - np.ones(2)).tolist() == [0, 1]


def test_operators_in_place_change_the_value():
    v = w = float3(1, 2, 3)
    v += 1
    v *= float3(1, 2, 3)
    assert w == float3(2, 6, 12)
    n = k = int2(5, 6)
    n <<= 1
    n -= int2(1, 1)
    assert k == int2(9, 11)


def test_comparison_of_matrices_and_sequences():
    a, b = spy.float2x2([1, 2, 3, 4]), spy.float2x2([1, 2, 3, 5])
    assert a < b
    assert b >= a
    assert not a > b
    assert a == [[1, 2], [3, 4]]
    assert float2(0.1, 0.2) == (0.1, 0.2)
    assert float2(1, 2) != [1, 2, 3]
    assert int2(1, 2) != [1.5, 2]
    with pytest.raises(TypeError):
        a < float2(1, 2)  # noqa: B015


def test_matrices_of_other_sizes():
    m = spy.float3x4(np.arange(12))
    assert spy.float4x4(m)[3] == float4(0, 0, 0, 1)
    assert spy.float2x2(m) == [[0, 1], [4, 5]]
    assert spy.float3x3(spy.float2x2(7)) == [[7, 7, 0], [7, 7, 0], [0, 0, 1]]


def test_rows_and_columns():
    m = spy.float2x3(range(6))
    m.set_row(0, float3(7, 8, 9))
    m.set_col(2, [1, 2])
    m[1, 0] = 30
    m[1][1] = 40
    assert m == [[7, 8, 1], [30, 40, 2]]
    assert (m.get_row(1), m.get_col(1)) == (float3(30, 40, 2), float2(8, 40))
    assert (m * 2 + m)[0] == float3(21, 24, 3)


def test_texts():
    assert str(float3(0.1, 1234567, 1e-10)) == "{0.1, 1234567, 1e-10}"
    assert str(spy.bool2(True, False)) == "{true, false}"
    assert str(spy.float2x2(1, 2, 3, 4)) == "{{1, 2}, {3, 4}}"


def test_derivatives_start_at_zero():
    assert spy.diffPair(spy.float2x2()).grad == spy.float2x2.zeros()
    assert spy.diffPair(float3(1)).grad == float3()


def test_quaternions_are_vectors_for_kernels(device, load):
    module = load("float4 turn(float4 q) { return q * 2; }")
    assert module.turn(spy.quatf(1, 2, 3, 4)) == float4(2, 4, 6, 8)
