"""Gradients of tensors: attaching, zeroing, checking, viewing."""

import numpy as np
import pytest

from slangrad.ir.data import types as ir
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.buffer import BufferUsage
from slangrad.tensors.tensor import Tensor

PARTICLE = ir.struct("Particle", (("mass", ir.F32), ("id", ir.I32)))
PARTICLE_TANGENT = ir.struct("Particle.Differential", (("mass", ir.F32),))


class ModuleType:
    """A type of a module, as the public API will give it."""

    def __init__(self, ir_type: ir.Type, derivative: object = None) -> None:
        self.ir_type = ir_type
        self.derivative = derivative


def floats(device: CpuDevice, *values: float) -> Tensor:
    return Tensor.from_numpy(device, np.array(values, np.float32))


def test_one_buffer_serves_as_both(device: CpuDevice) -> None:
    plain = floats(device, 1, 2, 3)
    tensor = plain.with_grads()
    assert tensor.storage is plain.storage
    assert tensor.grad_in is tensor.grad_out is tensor.grad
    assert tensor.grad.to_numpy().tolist() == [0, 0, 0]
    assert (tensor.grad.shape, tensor.grad.element_type) == ((3,), ir.F32)
    assert plain.grad_in is plain.grad_out is None


def test_new_gradients_are_contiguous(device: CpuDevice) -> None:
    tensor = floats(device, 1, 2, 3).broadcast_to((4, 3)).with_grads()
    assert (tensor.strides, tensor.grad.shape, tensor.grad.strides) == ((0, 1), (4, 3), (3, 1))
    assert tensor.grad.storage.size == 48


@pytest.mark.parametrize("dtype", ["half", "double", "float3", "float2x2", "float[4]"])
def test_gradients_have_the_derivative_type(device: CpuDevice, dtype: str) -> None:
    tensor = Tensor.zeros(device, (2,), dtype).with_grads()
    assert tensor.grad.element_type is tensor.element_type


def test_types_of_a_module_say_what_their_derivative_is(device: CpuDevice) -> None:
    tangent = ModuleType(PARTICLE_TANGENT)
    tensor = Tensor.zeros(device, (2,), ModuleType(PARTICLE, tangent)).with_grads()
    assert tensor.grad.element_type is PARTICLE_TANGENT
    assert tensor.grad.dtype is tangent


@pytest.mark.parametrize("dtype", ["int", "bool", "uint3", PARTICLE, ModuleType(PARTICLE)])
def test_types_without_a_derivative(device: CpuDevice, dtype: object) -> None:
    tensor = Tensor.zeros(device, (2,), dtype)
    with pytest.raises(ValueError, match=r"No derivative type found for (int|bool|uint3|Particle)"):
        tensor.with_grads()


def test_a_given_gradient_serves_as_both_and_keeps_its_values(device: CpuDevice) -> None:
    ones = Tensor.ones(device, (2,), "float")
    for tensor in (floats(device, 1, 2).with_grads(ones), floats(device, 1, 2).with_grads(grad_out=ones)):
        assert tensor.grad_in is tensor.grad_out is ones
        assert ones.to_numpy().tolist() == [1, 1]


def test_separate_gradients(device: CpuDevice) -> None:
    ones, zeros = Tensor.ones(device, (2,), "float"), Tensor.zeros(device, (2,), "float")
    tensor = floats(device, 1, 2).with_grads(grad_in=ones, grad_out=zeros)
    assert (tensor.grad_in, tensor.grad_out, tensor.grad) == (ones, zeros, zeros)
    assert ones.to_numpy().tolist() == [1, 1]


def test_zero_clears_what_was_given(device: CpuDevice) -> None:
    first, second = Tensor.ones(device, (2,), "float"), Tensor.ones(device, (2,), "float")
    floats(device, 1, 2).with_grads(first, second, zero=True)
    assert not first.to_numpy().any()
    assert not second.to_numpy().any()
    third = Tensor.ones(device, (2,), "float")
    floats(device, 1, 2).with_grads(third, zero=False)
    assert third.to_numpy().all()


def test_gradients_are_replaced(device: CpuDevice) -> None:
    tensor = floats(device, 1, 2)
    tensor.grad_in = Tensor.ones(device, (2,), "float")
    assert tensor.grad_in.to_numpy().tolist() == [1, 1]
    tensor.grad_in = None
    assert tensor.grad_in is None
    storage = tensor.storage
    made = Tensor(storage, "float", (2,), grad_out=Tensor.zeros(device, (2,), "float"))
    assert (made.grad_in, made.grad.shape) == (None, (2,))


def test_no_gradient(device: CpuDevice) -> None:
    with pytest.raises(
        RuntimeError, match=r"Tensor has no grad\. Attach one with tensor = tensor\.with_grads"
    ):
        _ = floats(device, 1).grad


def test_detaching(device: CpuDevice) -> None:
    tensor = floats(device, 1, 2, 3).with_grads()[1:]
    plain = tensor.detach()
    assert (plain.grad_in, plain.grad_out, plain.offset, plain.shape) == (None, None, 1, (2,))
    assert plain.storage is tensor.storage


@pytest.mark.parametrize(
    ("gradient", "error", "message"),
    [
        (
            ("double", (2,)),
            ValueError,
            "Invalid element type of output gradient for tensor of type float: Expected",
        ),
        (("float", (3,)), ValueError, r"shape \[3\] does not match the tensor's shape \[2\]"),
        (("float", (2, 1)), ValueError, r"shape \[2, 1\] does not match"),
    ],
)
def test_gradients_that_do_not_fit(device: CpuDevice, gradient: tuple, error: type, message: str) -> None:
    tensor = floats(device, 1, 2)
    with pytest.raises(error, match=f"grad_out: {message}"):
        tensor.with_grads(grad_out=Tensor.zeros(device, gradient[1], gradient[0]))


def test_a_gradient_is_a_tensor(device: CpuDevice) -> None:
    with pytest.raises(TypeError, match="grad_in: expected a Tensor, not ndarray"):
        floats(device, 1).grad_in = np.zeros(1)


def test_a_tensor_that_is_not_differentiable_takes_no_gradient(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (2,), "int")
    with pytest.raises(ValueError, match="grad_out: No derivative type found for int"):
        tensor.grad_out = Tensor.zeros(device, (2,), "int")


def test_read_only_tensors_have_no_input_gradient(device: CpuDevice) -> None:
    array = np.ones(2, np.float32)
    tensor = Tensor.from_numpy(device, array, usage=BufferUsage.shader_resource)
    attached = tensor.with_grads()
    assert attached.grad_in is None
    assert attached.grad.to_numpy().tolist() == [0, 0]
    with pytest.raises(
        ValueError, match="Supplying input gradients is only allowed if the primal tensor is writable"
    ):
        tensor.with_grads(grad_in=Tensor.zeros(device, (2,), "float"))


def test_views_take_the_same_view_of_their_gradients(device: CpuDevice) -> None:
    tensor = Tensor.zeros(device, (4, 3), "float").with_grads()
    tensor.grad.copy_from_numpy(np.arange(12, dtype=np.float32))
    row = tensor[2]
    assert row.grad.to_numpy().tolist() == [6, 7, 8]
    assert row.grad_in is row.grad_out
    assert tensor.transpose()[1].grad.to_numpy().tolist() == [1, 4, 7, 10]
    assert tensor.view((12,))[5].grad.to_numpy().tolist() == [5]
    assert row.broadcast_to((2, 3)).grad.strides == (0, 1)
    row.grad.clear()
    assert tensor.grad.to_numpy()[2].tolist() == [0, 0, 0]
    assert tensor.grad.to_numpy()[3].tolist() == [9, 10, 11]


def test_views_keep_separate_gradients_separate(device: CpuDevice) -> None:
    ones, zeros = Tensor.ones(device, (4,), "float"), Tensor.zeros(device, (4,), "float")
    view = Tensor.zeros(device, (4,), "float").with_grads(ones, zeros)[1:3]
    assert view.grad_in.storage is ones.storage
    assert view.grad_out.storage is zeros.storage


def test_gradients_of_a_transposed_tensor(device: CpuDevice) -> None:
    tensor = Tensor.from_numpy(device, np.ones((2, 3), np.float32).T).with_grads()
    assert (tensor.strides, tensor.grad.strides) == ((1, 3), (2, 1))
    assert tensor[1].grad.offset == 2
    with pytest.raises(
        ValueError, match=r"view: the gradients have other strides; use tensor.detach\(\).view"
    ):
        tensor.view((6,))
    assert tensor.detach().view((6,)).shape == (6,)
