"""Tensors as Python programs use arrays: lengths, elements, lists, iteration, assignment, other shapes."""

import itertools

import numpy as np
import pytest

import slangrad as spy
from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.host_values import CHUNK
from slangrad.tensors.tensor import Tensor

POINT = ir.Struct("Point", (("place", ir.Vector(ir.F32, 3)), ("mass", ir.F32), ("ids", ir.Array(ir.I32, 2))))


def floats(device: CpuDevice, *shape: int) -> Tensor:
    return Tensor.from_numpy(device, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_sizes(device: CpuDevice) -> None:
    x = floats(device, 3, 4)
    assert (len(x), x.ndim, x.size) == (3, 2, 12)
    assert (len(x.T), x[0].ndim, x[:0].size, len(x[:0])) == (4, 1, 0, 0)
    vectors = Tensor.zeros(device, (5,), "float3")
    assert (len(vectors), vectors.ndim, vectors.size) == (5, 1, 5)
    scalar = Tensor.from_numpy(device, np.array(2.5))
    assert (scalar.ndim, scalar.size, scalar.item(), scalar.tolist()) == (0, 1, 2.5, 2.5)
    for ask in (len, iter):
        with pytest.raises(TypeError, match="without dimensions"):
            ask(scalar)


def test_elements_are_python_values(device: CpuDevice) -> None:
    x = floats(device, 3, 4)
    assert type(x[1, 2].item()) is float
    assert x[1, 2].item() == 6
    assert x.T.tolist() == x.to_numpy().T.tolist()
    assert x[:0].tolist() == []
    with pytest.raises(ValueError, match=r"shape \[3, 4\] has 12 elements, not one; use tolist"):
        x.item()
    with pytest.raises(ValueError, match="has 0 elements"):
        x[:0].item()
    assert Tensor.full(device, (2,), 1, bool).tolist() == [True, True]
    vectors = Tensor.from_numpy(device, np.arange(6, dtype=np.int32).reshape(2, 3), dtype="int3")
    assert (vectors[1].item(), vectors.tolist()) == (spy.int3(3, 4, 5), [[0, 1, 2], [3, 4, 5]])
    matrix = Tensor.from_numpy(device, np.arange(6, dtype=np.float32).reshape(1, 2, 3), dtype="float2x3")
    assert matrix.item() == next(iter(matrix)) == spy.float2x3(range(6))
    assert x.numpy().tolist() == x.tolist()


def test_structs_are_dicts(device: CpuDevice) -> None:
    t = Tensor.zeros(device, (2, 2), POINT)
    t[0, 1] = {"place": [1, 2, 3], "ids": (4, 5)}
    t[1] = [{"mass": 6}, {"mass": np.float32(7), "ids": np.array([8, 9])}]
    zero = {"place": [0, 0, 0], "mass": 0, "ids": [0, 0]}
    expected = [
        [zero, zero | {"place": [1, 2, 3], "ids": [4, 5]}],
        [zero | {"mass": 6}, zero | {"mass": 7, "ids": [8, 9]}],
    ]
    assert t.tolist() == expected
    assert t[0, 1].item() == {"place": spy.float3(1, 2, 3), "mass": 0, "ids": [4, 5]}
    assert [each["mass"] for each in t[1]] == [6, 7]
    t[:, 0] = t[:, 1]
    assert t.tolist() == [[row[1], row[1]] for row in expected]
    t.fill({"mass": 3})
    assert [each["mass"] for row in t for each in row] == [3] * 4
    records = t.to_numpy(structured=True)
    records["mass"] = [[1, 2], [3, 4]]
    t[...] = records
    t[0] = records[1, 1]
    assert t.to_numpy(structured=True)["mass"].tolist() == [[4, 4], [3, 4]]
    t[1] = t.to_numpy()[0]
    assert t.to_numpy(structured=True)["mass"].tolist() == [[4, 4], [4, 4]]
    with pytest.raises(ValueError, match="3 values for 2 elements"):
        t[0] = [{}] * 3
    with pytest.raises(RuntimeError, match="'weight'"):
        t[0] = {"weight": 3}
    with pytest.raises(ValueError, match="elements of type float do not fit Point"):
        t[0] = floats(device, 2)


def test_iteration(device: CpuDevice) -> None:
    x = floats(device, 3, 4)
    rows = list(x)
    assert all(isinstance(row, Tensor) for row in rows)
    rows[1][0] = 50
    assert x.to_numpy()[1, 0] == 50
    assert list(x[1, ::-1]) == [7, 6, 5, 50]
    assert 6 in x[1]
    assert list(itertools.chain(*x)) == x.to_numpy().ravel().tolist()
    long = Tensor.from_numpy(device, np.arange(2 * CHUNK + 3))
    assert list(long[::2]) == list(range(0, 2 * CHUNK + 3, 2))
    vectors = floats(device, 2, 3).view((2,), dtype="float3")
    first, second = vectors
    assert (first, second) == (spy.float3(0, 1, 2), spy.float3(3, 4, 5))
    first.x = 9  # a value, not the memory
    assert vectors.to_numpy()[0, 0] == 0


INDICES = [
    0,
    -1,
    (1, 2),
    slice(1, None),
    (slice(None, None, -2), 1),
    (..., 0),
    (0, slice(None, None, -1)),
    ...,
]
VALUES = [7, 2.5, [1], np.array([[3]]), np.float32(4), np.arange(3.0)[:, None], spy.float4(1, 2, 3, 4), True]


def test_assignment_is_that_of_numpy(device: CpuDevice) -> None:
    refused = 0
    for index, value in itertools.product(INDICES, VALUES):
        x, expected = floats(device, 3, 4), np.arange(12, dtype=np.float32).reshape(3, 4)
        shown = expected[index]
        fits = True
        try:
            np.broadcast_to(np.asarray(value), np.shape(shown) or (1,))
        except ValueError:
            fits, refused = False, refused + 1
        if fits:
            x[index] = value
            expected[index] = np.broadcast_to(np.asarray(value), np.shape(shown) or (1,)).reshape(
                np.shape(shown)
            )
        else:
            with pytest.raises(ValueError, match=r"value: shape .* does not fit a part of shape"):
                x[index] = value
        assert np.array_equal(x.to_numpy(), expected), (index, value)
    assert 10 < refused < 40


def test_assignment_of_elements_that_have_parts(device: CpuDevice) -> None:
    v = Tensor.zeros(device, (2, 2), "float3")
    v[0] = [1, 2, 3]
    v[1, 0] = spy.float3(4, 5, 6)
    v[1, 1] = 7
    assert v.tolist() == [[[1, 2, 3], [1, 2, 3]], [[4, 5, 6], [7, 7, 7]]]
    v[:, ::-1] = v
    assert v.tolist() == [[[1, 2, 3], [1, 2, 3]], [[7, 7, 7], [4, 5, 6]]]
    with pytest.raises(
        ValueError, match=r"shape \(2,\) does not fit a part of shape \(2,\), elements .* add \(3,\)"
    ):
        v[0] = [1, 2]


def test_what_is_assigned_is_converted_or_refused(device: CpuDevice) -> None:
    x = floats(device, 3).with_grads()
    x[0] = 0.1  # as a literal
    x[1:] = [0.1, np.float64(0.2)]
    assert np.array_equal(x.to_numpy(), np.array([0.1, 0.1, 0.2], np.float32))
    with pytest.raises(ValueError, match=r"0\.1 does not; pass array.astype"):
        x[1:] = np.array([0.1, 0.2])
    with pytest.raises(ValueError, match=r"1e\+300 is too large for float32"):
        x[0] = 1e300
    x[0] = np.inf
    x.fill(2)
    assert x.tolist() == [2, 2, 2]
    assert x.grad.tolist() == [0, 0, 0]
    whole = Tensor.zeros(device, (2,), "int8_t")
    for wrong in (1.5, 200, "1", None):
        with pytest.raises(ValueError, match=r"^value: "):
            whole[0] = wrong
    with pytest.raises(IndexError, match="index 2 is out of range"):
        whole[2] = 1
    with pytest.raises(TypeError, match=r"found ndarray instead; tensor.host_view\(\) takes masks"):
        whole[whole.to_numpy() > 0] = 1
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        Tensor.from_dlpack(device, array)[0] = 1


def test_memory_that_overlaps(device: CpuDevice) -> None:
    x = floats(device, 5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    x[...] = x[::-1]
    assert x.tolist() == [3, 2, 1, 0, 0]
    x[:3] = Tensor.from_numpy(device, np.array([7, 8, 9]))
    assert x.tolist() == [7, 8, 9, 0, 0]


def shapes_of(count: int) -> list[tuple[int, ...]]:
    sizes = [each for each in range(1, count + 1) if count % each == 0]
    found = [
        each for rank in range(4) for each in itertools.product(sizes, repeat=rank) if np.prod(each) == count
    ]
    return [tuple(map(int, each)) for each in found]


def test_reshaped_views_are_those_of_numpy(device: CpuDevice) -> None:
    """Every shape of every kind of view: a view where NumPy makes one, an error where NumPy would copy."""
    base = floats(device, 2, 3, 4)
    made = [
        base,
        base.T,
        base[::-1],
        base[:, ::-1, ::2],
        base[:, :2],
        base[1:],
        base.transpose(0, 2, 1),
        base[:, None],
    ]
    made += [base[:1, :, :1].broadcast_to((2, 3, 4)), base[..., :1].broadcast_to((2, 3, 4)), base[:0]]
    copied = 0
    for x in made:
        shown = x.host_view()
        for shape in shapes_of(x.size) if x.size else [(0,), (3, 0), (0, 1, 5)]:
            is_view = np.shares_memory(shown.reshape(shape), shown) or not x.size
            if is_view:
                found = x.reshape(shape)
                assert found.shape == shape
                assert found.storage is x.storage
                assert np.array_equal(found.to_numpy(), shown.reshape(shape)), (x.shape, x.strides, shape)
            else:
                copied += 1
                with pytest.raises(ValueError, match=r"use tensor.copy\(\).reshape\(\)"):
                    x.reshape(shape)
    assert copied > 50


def test_reshape(device: CpuDevice) -> None:
    x = floats(device, 3, 4).with_grads()
    assert x.reshape(2, -1).shape == x.reshape((2, 6)).shape == x.reshape([-1, 6]).shape == (2, 6)
    x.reshape(-1).grad[5] = 3
    assert x.grad.to_numpy()[1, 1] == 3
    assert x.reshape(12).grad_in is not None
    for shape in ((5,), (-1, 5), (-1, -1), (-2, -6), (0, -1), ()):
        with pytest.raises(ValueError, match="12 elements do not fill shape"):
            x.reshape(shape)
    assert x[0, 0].reshape(()).tolist() == 0
    with pytest.raises(TypeError, match="expected an int"):
        x.reshape("12")
