"""Memory of other libraries: shared where it can be, copied where it must be, never written where it must not be."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.buffer import BufferUsage
from slangrad.tensors.tensor import Tensor

DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
          np.float16, np.float32, np.float64]  # fmt: skip
PARTICLE = ir.struct("Particle", (("position", ir.vector(ir.F32, 3)), ("mass", ir.F32)))
MIXED = ir.struct("Mixed", (("position", ir.vector(ir.F32, 3)), ("id", ir.I32)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_both_ways(device: CpuDevice, dtype: type) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)
    tensor = Tensor.from_dlpack(device, array)
    assert (tensor.shape, tensor.strides, tensor.address) == ((3, 4), (4, 1), array.ctypes.data)
    tensor[0].clear()
    assert not array[0].any()
    back = np.from_dlpack(tensor)
    assert back.dtype == dtype
    assert np.shares_memory(back, array)
    assert np.array_equal(back, array)


STEPS = st.none() | st.integers(-3, 3).filter(bool)
SLICES = st.builds(slice, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4), STEPS)


@given(st.tuples(SLICES, SLICES, SLICES), st.permutations(range(3)), st.sampled_from([np.uint8, np.float64]))
def test_strides_are_kept(index: tuple[slice, ...], axes: tuple[int, ...], dtype: type) -> None:
    array = np.arange(60).reshape(3, 4, 5).astype(dtype)[index].transpose(axes)
    tensor = Tensor.from_dlpack(CpuDevice(), array)
    assert np.array_equal(tensor.to_numpy(), array)
    if array.size:
        assert tuple(step * array.itemsize for step in tensor.strides) == array.strides
        assert tensor.address == array.ctypes.data
        assert np.array_equal(tensor[::-1].to_numpy(), array[::-1])


def test_elements_of_several_numbers(device: CpuDevice) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    vectors = Tensor.from_dlpack(device, array[:, ::-2], dtype="float3")
    assert (vectors.shape, vectors.strides) == ((2, 2), (4, -2))
    assert vectors.address == array[:, ::-2].ctypes.data
    assert np.array_equal(vectors.to_numpy(), array[:, ::-2])
    turned = Tensor.from_dlpack(device, array.transpose(0, 2, 1), dtype="float4")
    assert not np.shares_memory(np.from_dlpack(turned), array)
    assert np.array_equal(turned.to_numpy(), array.transpose(0, 2, 1))
    with pytest.raises(ValueError, match=r"elements of type float2 need \(2,\) as the last dimensions"):
        Tensor.from_dlpack(device, array, dtype="float2")


def test_what_cannot_be_shared(device: CpuDevice) -> None:
    pairs = np.zeros(4, [("a", np.uint8), ("b", np.float32)])
    pairs["b"] = [1, 2, 3, 4]
    for array in (pairs["b"], np.arange(3, dtype=np.float32)[:0]):
        copied = Tensor.from_dlpack(device, array)
        assert np.array_equal(copied.to_numpy(), array)
        with pytest.raises(BufferError, match=r"copy: an array of float32 .* cannot be used as it lies"):
            Tensor.from_dlpack(device, array, copy=False)
    array = np.arange(3.0)
    copied = Tensor.from_dlpack(device, array, copy=True)
    array[0] = 7
    assert copied.to_numpy().tolist() == [0, 1, 2]
    assert np.shares_memory(np.from_dlpack(Tensor.from_dlpack(device, array, copy=False)), array)
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        Tensor.from_dlpack(device, [1, 2])


class Elsewhere:
    """An array of another device."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **options: object) -> object:
        raise AssertionError("nobody can use it")


def test_memory_of_other_devices(device: CpuDevice) -> None:
    with pytest.raises(BufferError, match=r"DLPack's kind 2, .* copy it to the host first"):
        Tensor.from_dlpack(device, Elsewhere())


def test_read_only_memory_stays_read_only(device: CpuDevice) -> None:
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    tensor = Tensor.from_dlpack(device, array)
    assert not tensor.writable
    assert not tensor.host_view().flags.writeable
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError, match=r"[Rr]eadonly"):
        tensor.__dlpack__()  # without a version there is no way to say so
    shown = Tensor.from_numpy(device, np.arange(3.0), usage=BufferUsage.shader_resource)
    assert not np.from_dlpack(shown).flags.writeable
    with pytest.raises(
        ValueError, match="grad_out: gradients are added here, and the memory belongs to a read-only array"
    ):
        Tensor.zeros(device, (3,), "float").grad_out = tensor


def test_versions_and_devices(device: CpuDevice) -> None:
    tensor = Tensor.ones(device, (3,), "float")
    assert tensor.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert np.from_dlpack(tensor, copy=True).ctypes.data != tensor.address


def test_negative_strides_are_not_shared(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.arange(6, dtype=np.float32).reshape(2, 3))
    for reversed_, strides in ((tensor[::-1], r"\(-3, 1\)"), (tensor[:, ::-1], r"\(3, -1\)")):
        wanted = reversed_.to_numpy().tolist()
        with pytest.raises(
            BufferError, match=rf"strides {strides} .* tensor\.copy\(\), .*tensor\.host_view\(\)"
        ):
            np.from_dlpack(reversed_)
        copied = np.from_dlpack(reversed_, copy=True)
        assert copied.tolist() == wanted and copied.flags.c_contiguous
        assert np.from_dlpack(reversed_.copy()).tolist() == wanted
        assert reversed_.host_view().tolist() == wanted
        assert np.shares_memory(reversed_.host_view(), np.from_dlpack(tensor))
        assert Tensor.from_dlpack(device, reversed_).to_numpy().tolist() == wanted
        assert Tensor.from_dlpack(device, reversed_, copy=True).to_numpy().tolist() == wanted
    Tensor.from_dlpack(device, tensor[::-1])[0].clear()
    assert tensor.to_numpy()[1].tolist() == [0, 0, 0]
    assert np.from_dlpack(tensor[::-1][::-1]).tolist() == tensor.to_numpy().tolist()


def test_views_keep_their_memory_alive(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.arange(1000.0))
    storage, shown = weakref.ref(tensor.storage), [tensor.host_view()[5:9], np.from_dlpack(tensor)[::-1]]
    del tensor
    gc.collect()
    assert storage() is not None
    assert shown[0].tolist() == [5, 6, 7, 8]
    assert shown[1][0] == 999
    shown.clear()
    gc.collect()
    assert storage() is None


def test_foreign_memory_is_kept_alive(device: CpuDevice) -> None:
    array = np.arange(1000.0)
    owner = weakref.ref(array)
    view = Tensor.from_dlpack(device, array)[10:12]
    del array
    gc.collect()
    assert owner() is not None
    assert view.to_numpy().tolist() == [10, 11]
    del view
    gc.collect()
    assert owner() is None


def test_structs_from_rows_of_numbers(device: CpuDevice) -> None:
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    for tensor in (
        Tensor.from_numpy(device, rows, dtype=PARTICLE),
        Tensor.from_dlpack(device, rows, dtype=PARTICLE),
        Tensor.from_dlpack(device, rows.view(np.uint8), dtype=PARTICLE),
        Tensor.from_numpy(device, rows.view(np.uint8), dtype=MIXED),
    ):
        assert tensor.shape == (2,)
        assert np.array_equal(tensor.to_numpy().view(np.float32), rows)
    assert Tensor.from_dlpack(device, rows.view(np.uint8), dtype=PARTICLE, copy=False).element_count == 2
    with pytest.raises(ValueError, match="elements of type Particle need 4 numbers in the last dimension"):
        Tensor.from_numpy(device, rows.reshape(-1, 2), dtype=PARTICLE)
    with pytest.raises(ValueError, match="float32 does not match type Mixed, which is made of float, int"):
        Tensor.from_numpy(device, rows, dtype=MIXED)
    with pytest.raises(ValueError, match="float64 does not match type Particle"):
        Tensor.from_numpy(device, rows.astype(np.float64), dtype=PARTICLE)


def test_pytorch(device: CpuDevice) -> None:
    torch = pytest.importorskip("torch")
    source = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    shared = Tensor.from_dlpack(device, source.T[::2])
    assert (shared.shape, shared.strides) == ((2, 3), (2, 4))
    shared.clear()
    assert source[:, ::2].sum() == 0
    back = torch.from_dlpack(shared)
    back += 1
    assert source[0].tolist() == [1, 1, 1, 3]
    copied = Tensor.from_torch(device, source.requires_grad_(), dtype=PARTICLE)
    assert np.array_equal(copied.to_numpy().view(np.float32), source.detach().numpy())
    assert not np.shares_memory(copied.host_view(), source.detach().numpy())
