"""Buffers: sizes, copies, clearing, life time."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.runtime.memory import HOST_MEMORY
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferUsage, MemoryType

PARTICLE = ir.struct("Particle", (("mass", ir.F32), ("position", ir.vector(ir.F32, 3))))


def test_sizes(device: CpuDevice) -> None:
    assert Buffer.create(device, 100).size == 100
    assert Buffer.create(device, element_count=10, struct_size=12).size == 120
    particles = Buffer.create(device, element_type=PARTICLE, element_count=5)
    assert (particles.size, particles.struct_size, particles.element_count) == (80, 16, 5)
    assert Buffer.create(device, data=np.zeros(7, np.int16)).size == 14
    assert Buffer.create(device, 0).size == 0
    assert Buffer.typed(device, ir.vector(ir.F32, 3), 4).size == 48


def test_what_a_buffer_knows(device: CpuDevice) -> None:
    buffer = Buffer.create(
        device, 64, usage=BufferUsage.shader_resource, memory_type=MemoryType.upload, label="in"
    )
    assert buffer.device is device
    assert buffer.runtime is device
    assert buffer.device_address == buffer.address
    assert buffer.address % 64 == 0
    assert (buffer.usage, buffer.memory_type, buffer.label) == (
        BufferUsage.shader_resource,
        MemoryType.upload,
        "in",
    )
    assert not buffer.writable
    assert Buffer.create(device, 64).writable
    assert Buffer.create(device, 64, usage=READ_WRITE | BufferUsage.shared).writable


def test_a_device_may_be_anything_with_a_runtime_device(device: CpuDevice) -> None:
    public = SimpleNamespace(runtime=device)
    buffer = Buffer.create(public, 8)
    assert buffer.device is public
    assert buffer.runtime is device


@pytest.mark.parametrize("wrong", [None, "cpu", SimpleNamespace(runtime=3), np.zeros(3)])
def test_no_device(wrong: object) -> None:
    with pytest.raises(TypeError, match="device: expected a device, as create_device"):
        Buffer.create(wrong, 8)


def test_bytes_go_in_and_out(device: CpuDevice) -> None:
    buffer = Buffer.create(device, 16, zero=True)
    assert buffer.to_numpy().tolist() == [0] * 16
    buffer.copy_from_numpy(np.array([1, 2, 3], np.int32))
    assert buffer.to_numpy().view(np.int32).tolist() == [1, 2, 3, 0]
    assert buffer.to_numpy().dtype == np.uint8
    buffer.write_bytes(14, b"\x07\x08")
    assert buffer.read_bytes(12, 4) == b"\0\0\x07\x08"
    buffer.clear()
    assert not buffer.to_numpy().any()


def test_to_numpy_is_a_copy(device: CpuDevice) -> None:
    buffer = Buffer.create(device, data=np.array([1, 2], np.uint8))
    copy = buffer.to_numpy()
    copy[:] = 9
    assert buffer.to_numpy().tolist() == [1, 2]


def test_a_typed_buffer_converts_numbers(device: CpuDevice) -> None:
    buffer = Buffer.typed(device, ir.vector(ir.F32, 2), 2)
    buffer.copy_from_numpy(np.ones((2, 2)))
    assert buffer.to_numpy().view(np.float32).tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"data: float64 values do not all fit into float32"):
        buffer.copy_from_numpy(np.full(4, 0.1))


def test_structs_take_the_bytes_of_any_array(device: CpuDevice) -> None:
    buffer = Buffer.create(device, element_type=PARTICLE, element_count=2)
    buffer.copy_from_numpy(np.arange(8, dtype=np.float32))
    assert buffer.to_numpy().view(np.float32).tolist() == list(range(8))


def test_init_data_must_have_the_size(device: CpuDevice) -> None:
    data = np.arange(4, dtype=np.uint32)
    for size in (15, 17):
        with pytest.raises(ValueError, match=f"data: 16 bytes were given for a buffer of {size} bytes"):
            Buffer.create(device, size, data=data)
    with pytest.raises(ValueError, match="data: Source Numpy array must be contiguous"):
        Buffer.create(device, 16, data=data[::-1])


def test_bad_arguments(device: CpuDevice) -> None:
    buffer = Buffer.create(device, 8)
    with pytest.raises(ValueError, match="size: give a size in bytes, an element_count, or data"):
        Buffer.create(device)
    with pytest.raises(ValueError, match="size: a buffer cannot have -4 bytes"):
        Buffer.create(device, -4)
    with pytest.raises(ValueError, match=r"Numpy array is larger than the buffer \(12 > 8"):
        buffer.copy_from_numpy(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"must be contiguous; use np\.ascontiguousarray"):
        buffer.copy_from_numpy(np.zeros(4, np.int16)[::2])
    with pytest.raises(TypeError, match="data: expected a NumPy array, not list"):
        buffer.copy_from_numpy([1, 2])
    with pytest.raises(ValueError, match="offset: bytes 6 to 10 are not in a buffer of 8"):
        buffer.read_bytes(6, 4)
    with pytest.raises(ValueError, match="offset: bytes -1 to 1 "):
        buffer.write_bytes(-1, b"ab")


def test_memory_goes_back_with_the_last_reference(device: CpuDevice) -> None:
    gc.disable()
    try:
        before = HOST_MEMORY.in_use
        buffer = Buffer.create(device, 1 << 16)
        assert HOST_MEMORY.in_use == before + (1 << 16)
        del buffer
        assert HOST_MEMORY.in_use == before
    finally:
        gc.enable()


def test_foreign_memory_is_shared_and_kept(device: CpuDevice) -> None:
    array = np.arange(4, dtype=np.float32)
    buffer = Buffer.foreign(device, ir.F32, array.ctypes.data, array.nbytes, array, READ_WRITE)
    buffer.copy_from_numpy(np.array([7], np.float32))
    assert array.tolist() == [7, 1, 2, 3]
    del array
    assert buffer.to_numpy().view(np.float32).tolist() == [7, 1, 2, 3]
