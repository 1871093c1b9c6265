"""Pickles, copies, notebooks, and what may not be written or used any more."""

import copy
import pickle

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

PROGRAM = """
struct Point { float3 at; int id; }
int next(Point p) { return p.id + 1; }
"""


@pytest.fixture
def own():
    """A device that is current and may be closed."""
    with spy.create_device() as device:
        yield device


def same(a: Tensor, b: Tensor) -> bool:
    return np.array_equal(a.to_numpy(), b.to_numpy()) and (a.shape, a.element_type) == (
        b.shape,
        b.element_type,
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "half", "float3", "int64_t", "float2x3", "uint8_t[3]", "double2[2]"]
)
def test_pickles(own, dtype):
    tensor = Tensor.full(own, (2, 3), 1, dtype, spy.BufferUsage.shader_resource)[:, ::-2]
    back = pickle.loads(pickle.dumps(tensor))
    assert same(back, tensor)
    assert back.is_contiguous()
    assert (back.usage, back.memory_type, back.device) == (tensor.usage, tensor.memory_type, own)


def test_pickles_hold_gradients(own):
    x = Tensor.from_numpy(own, np.arange(4.0)).with_grads()
    x.grad.copy_from_numpy(np.ones(4))
    back = pickle.loads(pickle.dumps(x[1:]))
    assert back.grad_in is back.grad_out
    assert same(back.grad, x[1:].grad)
    y = x.with_grads(grad_in=Tensor.zeros(own, (4,), "double"), grad_out=Tensor.ones(own, (4,), "double"))
    back = pickle.loads(pickle.dumps(y))
    assert same(back.grad_in, y.grad_in)
    assert same(back.grad_out, y.grad_out)
    assert pickle.loads(pickle.dumps(x.detach())).grad_out is None


def test_pickles_of_structs(own):
    module = spy.Module.load_from_source(own, "pickled_points", PROGRAM)
    points = Tensor.zeros(own, (3,), module.Point)
    cursor = points.cursor()
    cursor[2].id = 5
    cursor.apply()
    back = pickle.loads(pickle.dumps(points))
    assert same(back, points)
    assert module.next(back).to_numpy().tolist() == [1, 1, 6]


def test_pickles_go_to_the_current_device(own):
    text = pickle.dumps(Tensor.ones(own, (2,), "float"))
    other = spy.create_device()
    assert pickle.loads(text).device is other
    with own:
        assert pickle.loads(text).device is own


def test_copies(own):
    x = Tensor.from_numpy(own, np.arange(6.0).reshape(2, 3)).with_grads()
    x.grad.copy_from_numpy(np.ones(6))
    for made in (x.T[::-1].copy(), copy.deepcopy(x.T[::-1])):
        assert same(made, x.T[::-1])
        assert made.is_contiguous()
        assert made.storage is not x.storage
        assert made.grad_in is made.grad_out
        assert made.grad.storage is not x.grad.storage
        assert np.array_equal(made.grad.to_numpy(), np.ones((3, 2)))
    separate = x.detach().with_grads(grad_in=x.grad, grad_out=Tensor.zeros(own, (2, 3), "double")).copy()
    assert (separate.grad_in.to_numpy().sum(), separate.grad_out.to_numpy().sum()) == (6, 0)
    view = copy.copy(x)
    view.clear()
    assert not x.to_numpy().any()
    assert Tensor.zeros(own, (0, 3), "float").copy().shape == (0, 3)


def test_notebooks(own):
    numbers = Tensor.from_numpy(own, np.arange(12).reshape(3, 4))._repr_html_()
    assert "Tensor(dtype=int64_t, shape=[3, 4]" in numbers
    assert (numbers.count("<tr>"), numbers.count("<td>")) == (3, 12)
    long = Tensor.zeros(own, (100, 100), "float")._repr_html_()
    assert (long.count("<tr>"), long.count("<td>"), long.count("&hellip;")) == (9, 81, 17)
    assert Tensor.zeros(own, (100,), "float3")._repr_html_().count("[0. 0. 0.]") == 8
    cube = Tensor.zeros(own, (2, 2, 2), "float")._repr_html_()
    assert "<pre>" in cube
    assert "<table>" not in cube
    assert "<pre>[]" in Tensor.zeros(own, (0,), "float")._repr_html_()


def test_read_only_memory_is_not_written(own):
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    tensor = Tensor.from_dlpack(own, array)
    cursor = tensor.cursor()
    cursor[0] = 5
    encoder = own.create_command_encoder()
    writes = [
        tensor.clear, lambda: tensor.copy_from_numpy(np.ones(4)), lambda: tensor[1:].clear(), cursor.apply,
        tensor.storage.clear, lambda: tensor.storage.write_bytes(0, b"x"),
        lambda: tensor.storage.copy_from_numpy(np.ones(4)), lambda: encoder.clear_tensor(tensor),
        lambda: encoder.clear_buffer(tensor.storage), lambda: encoder.upload_buffer_data(tensor.storage, 0, np.ones(1)),
        lambda: encoder.copy_buffer(tensor.storage, 0, tensor.storage, 4, 4),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(ValueError, match="the memory belongs to a read-only array: copy it"):
            write()
    assert array.tolist() == [0, 1, 2, 3]
    own_memory = tensor.copy()
    own_memory.clear()
    assert not own_memory.to_numpy().any()


def test_clearing_as_a_command(own):
    x = Tensor.from_numpy(own, np.arange(1.0, 7.0).reshape(2, 3))
    encoder = own.create_command_encoder()
    x[:, ::2].clear(encoder)
    assert x.to_numpy().all()
    own.submit_command_buffer(encoder.finish())
    assert x.to_numpy().tolist() == [[0, 2, 0], [0, 5, 0]]
    with pytest.raises(RuntimeError, match="a tensor of the encoder's device is needed"):
        own.create_command_encoder().clear_tensor(x.to_numpy())


def test_a_closed_device():
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "closed", "float f(float x) { return x; }")
    tensor = Tensor.ones(device, (3,), "float")
    shown = tensor.host_view()
    buffer, cursor = tensor.storage, tensor.cursor()
    assert module.f(tensor).to_numpy().tolist() == [1, 1, 1]
    device.close()
    uses = [
        tensor.to_numpy, tensor.clear, tensor.host_view, tensor.copy, lambda: np.from_dlpack(tensor), lambda: str(tensor),
        lambda: tensor.copy_from_numpy(np.zeros(3)), lambda: Tensor.zeros_like(tensor), lambda: pickle.dumps(tensor),
        buffer.to_numpy, buffer.clear, lambda: cursor[0].read(), lambda: module.f(tensor), lambda: tensor.with_grads(),
        lambda: Tensor.from_numpy(device, np.zeros(3)), lambda: Tensor.from_dlpack(device, np.zeros(3)),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(spy.DeviceClosedError, match=r"E1023.*the device is closed"):
            use()
    assert shown.tolist() == [1, 1, 1]


def test_structs_are_shown_with_their_fields(own):
    point = spy.Module.load_from_source(own, "points", PROGRAM).Point
    tensor = Tensor.zeros(own, (2,), point)
    assert str(tensor) == "[([0., 0., 0.], 0) ([0., 0., 0.], 0)]"
    assert "<td>([0.0, 0.0, 0.0], 0)</td>" in tensor._repr_html_()
