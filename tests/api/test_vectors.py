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
