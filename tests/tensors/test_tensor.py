"""Tensors: constructors, NumPy in and out, structs, text, DLPack."""

import numpy as np
import pytest

import slangrad.api.sessions.plain_types  # noqa: F401  how types are shown
from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferUsage, MemoryType
from slangrad.tensors.elements.element_types import TypeView
from slangrad.tensors.tensor import Tensor

DTYPES = {
    "bool": ir.BOOL, "int8": ir.I8, "int16": ir.I16, "int32": ir.I32, "int64": ir.I64,
    "uint8": ir.U8, "uint16": ir.U16, "uint32": ir.U32, "uint64": ir.U64,
    "float16": ir.F16, "float32": ir.F32, "float64": ir.F64,
}  # fmt: skip
PARTICLE = ir.struct("Particle", (("mass", ir.F16), ("position", ir.vector(ir.F32, 3)), ("id", ir.U8)))


class ModuleType:
    """A type of a module, as the public API will give it."""

    def __init__(self, ir_type: ir.Type, derivative: object = None) -> None:
        self.ir_type = ir_type
        self.derivative = derivative


@pytest.mark.parametrize("shape", [(1,), (7,), (4, 3), (2, 1, 5), (0,), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back(device: CpuDevice, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    tensor = Tensor.from_numpy(device, array)
    assert tensor.element_type is DTYPES[dtype]
    assert tensor.shape == shape
    assert tensor.element_count == array.size
    back = tensor.to_numpy()
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    assert back.flags.c_contiguous


@pytest.mark.parametrize(
    ("dtype", "element"),
    [("float3", (3,)), ("float3x4", (3, 4)), ("half2", (2,)), ("int[5]", (5,)), ("float3[2]", (2, 3))],
)
@pytest.mark.parametrize("shape", [(1,), (4, 3), (0,)])
def test_vectors_matrices_and_arrays(
    device: CpuDevice, dtype: str, element: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    array = np.arange(np.prod(shape + element)).reshape(shape + element)
    tensor = Tensor.zeros(device, shape, dtype)
    assert tensor.to_numpy().shape == shape + element
    tensor.copy_from_numpy(array)
    assert np.array_equal(tensor.to_numpy(), array)
    again = Tensor.from_numpy(device, array, dtype=dtype)
    assert (again.shape, again.element_type) == (shape, tensor.element_type)
    assert np.array_equal(again.to_numpy(), array)
    assert np.array_equal(again[:1].to_numpy(), array[:1])


def test_constructors(device: CpuDevice) -> None:
    assert Tensor.empty(device, (4, 3), "float").shape == (4, 3)
    assert Tensor.empty(device, shape=(4,), dtype=float).element_type is ir.F32
    assert Tensor.zeros(device, 5, "int").to_numpy().tolist() == [0] * 5
    assert Tensor.ones(device, shape=(2,), dtype="double").to_numpy().tolist() == [1.0, 1.0]
    assert Tensor.full(device, (2,), 7, "uint8_t").to_numpy().tolist() == [7, 7]
    assert Tensor.full(device, (1,), 0.1, "float").to_numpy()[0] == np.float32(0.1)
    assert Tensor.full(device, (2,), [1, 2, 3], "float3").to_numpy().tolist() == [[1, 2, 3]] * 2
    assert Tensor.full(device, (1,), 2, "float2x2").to_numpy().tolist() == [[[2, 2], [2, 2]]]
    assert Tensor.full(device, (2,), True, "bool").to_numpy().tolist() == [True, True]


def test_older_constructors(device: CpuDevice) -> None:
    for tensor in (
        Tensor(device, element_type="float", shape=(4,)),
        Tensor(device, dtype=np.float32, shape=4),
        Tensor(device, "float", (4,)),
    ):
        assert (tensor.shape, tensor.element_type, tensor.device) == ((4,), ir.F32, device)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        tensor = Tensor.numpy(device, np.array([1.0, 2.0], np.float32))
    assert tensor.to_numpy().tolist() == [1, 2]


def test_a_tensor_over_a_buffer(device: CpuDevice) -> None:
    storage = Buffer.create(device, data=np.arange(12, dtype=np.float32))
    tensor = Tensor(storage, "float", (2, 3), strides=(6, 2), offset=1)
    assert tensor.to_numpy().tolist() == [[1, 3, 5], [7, 9, 11]]
    assert tensor.storage is storage
    assert Tensor(storage, "float3", (4,)).to_numpy()[3].tolist() == [9, 10, 11]
    assert Tensor(storage, "float", ()).to_numpy() == 0
    with pytest.raises(ValueError, match="the view reaches element 12 of a storage of 12"):
        Tensor(storage, "float", (12,), offset=1)
    with pytest.raises(ValueError, match="the view reaches element 11 of a storage of 6 elements"):
        Tensor(storage, "double", (12,))


def test_likes(device: CpuDevice) -> None:
    usage = READ_WRITE | BufferUsage.shared
    tensor = Tensor.ones(device, (4, 3), "float3", usage, MemoryType.upload).with_grads()
    for like in (Tensor.zeros_like(tensor[1:, ::2]), Tensor.empty_like(tensor[1:, ::2])):
        assert (like.shape, like.strides, like.element_type) == ((3, 2), (2, 1), tensor.element_type)
        assert (like.usage, like.memory_type, like.grad_out) == (usage, MemoryType.upload, None)
    assert not Tensor.zeros_like(tensor).to_numpy().any()


def test_what_a_tensor_knows(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (4, 3), "float3")
    assert (tensor.strides, tensor.offset, tensor.element_size, tensor.element_count) == ((3, 1), 0, 12, 12)
    assert tensor.address == tensor.storage.device_address
    assert tensor.storage.size == 144
    assert tensor.device is device
    assert (tensor.usage, tensor.memory_type, tensor.writable) == (READ_WRITE, MemoryType.device_local, True)
    assert tensor.is_contiguous()


def test_transposed_arrays_keep_their_strides(device: CpuDevice) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axes in ((2, 0, 1), (0, 2, 1), (2, 1, 0)):
        turned = array.transpose(axes)
        tensor = Tensor.from_numpy(device, turned)
        assert tuple(4 * step for step in tensor.strides) == turned.strides
        assert tensor.storage.size == 96
        assert np.array_equal(tensor.to_numpy(), turned)
    assert Tensor.from_numpy(device, np.ones((1, 5, 1)).T).to_numpy().shape == (1, 5, 1)


@pytest.mark.parametrize("index", [np.s_[::2], np.s_[::-1], np.s_[:, 1], np.s_[1:, ::2]])
def test_arrays_with_gaps_become_contiguous(device: CpuDevice, index: object) -> None:
    array = np.arange(30, dtype=np.int32).reshape(6, 5)[index]
    tensor = Tensor.from_numpy(device, array)
    assert tensor.is_contiguous()
    assert tensor.storage.size == array.nbytes
    assert np.array_equal(tensor.to_numpy(), array)


def test_reversed_arrays_of_one_element(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.ones((1, 3))[::-1])
    assert tensor.strides == (3, 1)


def test_broadcast_and_scalar_arrays(device: CpuDevice) -> None:
    repeated = np.broadcast_to(np.float32(3), (2, 3))
    assert np.array_equal(Tensor.from_numpy(device, repeated).to_numpy(), repeated)
    scalar = Tensor.from_numpy(device, np.array(2.5, np.float32))
    assert (scalar.shape, scalar.to_numpy().item(), scalar.element_count) == ((), 2.5, 1)


def test_from_numpy_copies(device: CpuDevice) -> None:
    array = np.ones(3, np.float32)
    tensor = Tensor.from_numpy(device, array)
    array[:] = 5
    assert tensor.to_numpy().tolist() == [1, 1, 1]


def test_from_numpy_converts_to_the_dtype(device: CpuDevice) -> None:
    assert Tensor.from_numpy(device, np.arange(3), dtype="half").to_numpy().tolist() == [0, 1, 2]
    big_endian = Tensor.from_numpy(device, np.array([1, 2], ">i4"))
    assert big_endian.to_numpy().tolist() == [1, 2]
    with pytest.raises(
        ValueError, match=r"ndarray: float64 values do not all fit into float32: 0.1 does not"
    ):
        Tensor.from_numpy(device, np.array([0.1]), dtype="float")


@pytest.mark.parametrize("array", [np.zeros(2, np.complex64), np.array(["a"]), np.array([None])])
def test_other_arrays_are_refused(device: CpuDevice, array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="ndarray: Unsupported numpy dtype"):
        Tensor.from_numpy(device, array)


def test_bad_arguments(device: CpuDevice) -> None:
    with pytest.raises(ValueError, match=r"Element type .* must be specified"):
        Tensor.empty(device, (4,))
    with pytest.raises(ValueError, match="Cannot create a tensor with zero dimensions"):
        Tensor.empty(device, shape=(), dtype="float")
    with pytest.raises(TypeError, match="shape: give the size of each dimension"):
        Tensor(device, "float")
    with pytest.raises(ValueError, match=r"shape: \[-1\]"):
        Tensor.zeros(device, -1, "float")
    with pytest.raises(TypeError, match="ndarray: expected a NumPy array, not list"):
        Tensor.from_numpy(device, [1, 2])
    with pytest.raises(TypeError, match="device: expected a device"):
        Tensor.zeros("cpu", (4,), "float")
    with pytest.raises(
        ValueError, match=r"shape \(5, 2\) does not match: elements of type float3 need \(3,\)"
    ):
        Tensor.from_numpy(device, np.zeros((5, 2), np.float32), dtype="float3")
    with pytest.raises(
        ValueError, match=r"fill_value: float64 values do not all fit into int32: 2\.5 does not"
    ):
        Tensor.full(device, (2,), 2.5, "int")
    with pytest.raises(ValueError, match=r"fill_value: shape \(2,\) does not fit an element of type float3"):
        Tensor.full(device, (2,), [1, 2], "float3")
    with pytest.raises(ValueError, match="fill_value: elements of type Particle have no common value"):
        Tensor.full(device, (2,), 0, PARTICLE)


def test_copying_converts_or_refuses(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (2, 2), "float")
    tensor.copy_from_numpy(np.array([[1, 2], [3, 4]]))
    assert tensor.to_numpy().tolist() == [[1, 2], [3, 4]]
    tensor.copy_from_numpy(np.array([5, 6, 7, 8], np.float16))
    assert tensor.to_numpy().tolist() == [[5, 6], [7, 8]]
    with pytest.raises(ValueError, match=r"pass array.astype\(np.float32\) if rounding is meant"):
        tensor.copy_from_numpy(np.full((2, 2), 0.1))
    with pytest.raises(ValueError, match=r"Numpy array is larger than the tensor \(20 > 16 bytes\)"):
        tensor.copy_from_numpy(np.zeros(5, np.float32))
    with pytest.raises(
        ValueError, match=r"Numpy array is smaller than the tensor \(12 < 16 bytes\); copy into"
    ):
        tensor.copy_from_numpy(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="Source Numpy array must be contiguous"):
        tensor.copy_from_numpy(np.zeros(8, np.float32)[::2])
    with pytest.raises(ValueError, match="Destination tensor must be contiguous"):
        tensor.transpose().copy_from_numpy(np.zeros((2, 2), np.float32))
    with pytest.raises(TypeError, match="data: expected a NumPy array, not float"):
        tensor.copy_from_numpy(1.0)
    assert tensor.to_numpy().tolist() == [[5, 6], [7, 8]]


def test_copying_to_the_storage(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (2, 2), "float")
    tensor.storage.copy_from_numpy(np.ones((2, 2)))
    assert tensor.to_numpy().tolist() == [[1, 1], [1, 1]]


def test_structs_are_bytes_or_records(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (2, 3), ModuleType(PARTICLE))
    assert tensor.element_size == 20
    assert tensor.to_numpy().shape == (2, 3, 20)
    assert tensor.to_numpy().dtype == np.uint8
    records = tensor.to_numpy(structured=True)
    assert records.shape == (2, 3)
    records["position"] = [1, 2, 3]
    records["id"] = np.arange(6).reshape(2, 3)
    tensor.copy_from_numpy(records)
    back = tensor.to_numpy(structured=True)
    assert back["id"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back["position"][1, 2].tolist() == [1, 2, 3]
    assert tensor[1].to_numpy(structured=True)["id"].tolist() == [3, 4, 5]
    assert Tensor.zeros(device, (2,), ir.array(PARTICLE, 4)).to_numpy(structured=True).shape == (2, 4)
    assert Tensor.ones(device, (2,), "float3").to_numpy(structured=True).tolist() == [[1, 1, 1]] * 2
    tensor.copy_from_numpy(np.ones((2, 3, 20), np.uint8))
    assert tensor.to_numpy().all()


def test_structured_arrays_move_to_the_places_of_the_struct(device: CpuDevice) -> None:
    packed = np.dtype([("mass", np.float16), ("position", np.float32, (3,)), ("id", np.uint8)])
    assert packed.itemsize == 15
    array = np.zeros(3, packed)
    array["mass"], array["position"], array["id"] = [1, 2, 3], np.arange(9).reshape(3, 3), [7, 8, 9]
    tensor = Tensor.from_numpy(device, array, target_slang_dtype=ModuleType(PARTICLE))
    assert (tensor.shape, tensor.element_type) == ((3,), PARTICLE)
    back = tensor.to_numpy(structured=True)
    for field in packed.names:
        assert np.array_equal(back[field], array[field])
    assert np.array_equal(Tensor.from_numpy(device, back, dtype=PARTICLE).to_numpy(), tensor.to_numpy())


def test_structured_arrays_that_do_not_match(device: CpuDevice) -> None:
    array = np.zeros(2, [("x", np.float32), ("y", np.float32)])
    with pytest.raises(
        ValueError, match=r"Structured numpy dtype .* has no Slang type of its own; name the struct"
    ):
        Tensor.from_numpy(device, array)
    with pytest.raises(ValueError, match=r"\(8 bytes\) does not match type Particle \(20 bytes\)"):
        Tensor.from_numpy(device, array, dtype=PARTICLE)
    doubles = np.zeros(2, [("mass", np.float64), ("position", np.float32, (3,)), ("id", np.uint8)])
    with pytest.raises(ValueError, match="does not match type Particle"):
        Tensor.from_numpy(device, doubles, dtype=PARTICLE)
    with pytest.raises(ValueError, match="does not match type float"):
        Tensor.zeros(device, (2,), "float").copy_from_numpy(array)


def test_structs_of_one_type_of_number(device: CpuDevice) -> None:
    ball = ir.struct("Ball", (("center", ir.vector(ir.F32, 3)), ("radius", ir.F32)))
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    made = Tensor.from_numpy(device, np.asfortranarray(rows), dtype=ball)
    filled = Tensor.zeros(device, (2,), ball)
    filled.copy_from_numpy(rows)
    for tensor in (made, filled):
        assert tensor.shape == (2,)
        records = tensor.to_numpy(structured=True)
        assert records["center"].tolist() == [[0, 1, 2], [4, 5, 6]]
        assert records["radius"].tolist() == [3, 7]
    with pytest.raises(ValueError, match="float64 does not match type Ball, which is made of float"):
        filled.copy_from_numpy(rows.astype(np.float64))
    with pytest.raises(ValueError, match="larger than the tensor"):
        filled.copy_from_numpy(np.zeros(12, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_numbers_that_are_no_struct(device: CpuDevice, dtype: type) -> None:
    """Not their values as bytes, even where each would fit."""
    with pytest.raises(ValueError, match="does not match type Particle, which is made of"):
        Tensor.zeros(device, (2,), PARTICLE).copy_from_numpy(np.zeros(40, dtype))
    with pytest.raises(ValueError, match="does not match type Particle, which is made of"):
        Tensor.from_numpy(device, np.zeros((2, 20), dtype), dtype=PARTICLE)


def test_the_dtype_that_users_see(device: CpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ModuleType(PARTICLE)
    tensor = Tensor.zeros(device, (2,), declared)
    assert tensor.dtype is declared
    assert tensor[1:].dtype is declared
    assert Tensor.zeros_like(tensor).dtype is declared
    assert str(Tensor.zeros(device, (2,), "float3").dtype) == "float3"
    monkeypatch.setattr(TypeView, "show", str)
    assert Tensor.zeros(device, (2,), "float3").dtype == "f32x3"
    assert tensor.dtype is declared


def test_text(device: CpuDevice) -> None:
    array = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    tensor = Tensor.from_numpy(device, array)
    assert str(tensor) == str(array)
    assert repr(tensor) == "Tensor(dtype=float, shape=[2, 2], has_grad_in=false, has_grad_out=false)"
    assert (
        repr(tensor.with_grads()) == "Tensor(dtype=float, shape=[2, 2], has_grad_in=true, has_grad_out=true)"
    )


def test_clear_through_an_encoder(device: CpuDevice) -> None:
    recorded = []
    encoder = type("Encoder", (), {"clear_tensor": lambda self, tensor: recorded.append(tensor)})()
    tensor = Tensor.ones(device, (2,), "float")
    tensor.clear(command_encoder=encoder)
    assert recorded == [tensor]
    assert tensor.to_numpy().tolist() == [1, 1]


def test_numpy_functions_see_the_values(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.arange(4, dtype=np.float32))
    assert np.asarray(tensor).dtype == np.float32
    assert np.array_equal(tensor, np.arange(4))
    assert np.asarray(tensor, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy: a tensor is copied to the host"):
        np.array(tensor, copy=False)


def test_dlpack_shares_memory(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.arange(12, dtype=np.float32).reshape(4, 3))
    assert tensor.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(tensor[1:, ::2])
    assert array.tolist() == [[3, 5], [6, 8], [9, 11]]
    tensor.clear()
    assert not array.any()
    tensor.copy_from_numpy(np.ones(12, np.float32))
    del tensor
    assert array.all()


def test_from_dlpack_shares_memory(device: CpuDevice) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = Tensor.from_dlpack(device, array)
    array[1, 2] = 50
    assert np.array_equal(tensor.to_numpy(), array)
    assert tensor.writable
    turned = Tensor.from_dlpack(device, array.T)
    assert turned.strides == (1, 3)
    assert turned.address == array.ctypes.data
    again = Tensor.from_dlpack(device, tensor)
    assert again.address == tensor.address


def test_from_dlpack_shares_arrays_with_gaps(device: CpuDevice) -> None:
    array = np.arange(6, dtype=np.float32)
    tensor = Tensor.from_dlpack(device, array[::2])
    array[2] = 10
    assert (tensor.to_numpy().tolist(), tensor.strides) == ([0, 10, 4], (2,))


def test_from_dlpack_respects_read_only_arrays(device: CpuDevice) -> None:
    array = np.arange(3, dtype=np.float32)
    array.flags.writeable = False
    assert not Tensor.from_dlpack(device, array).writable
