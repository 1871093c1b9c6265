"""Tensors from torch tensors and back."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import Tensor

torch = pytest.importorskip("torch")

TEXT = """
struct Particle { float3 position; float3 velocity; };
Particle moved(Particle p, float t) { Particle q; q.position = p.position + t * p.velocity; q.velocity = p.velocity; return q; }
float twice(float x) { return 2 * x; }
"""


@pytest.fixture
def module(load):
    return load(TEXT)


def test_from_torch(device, module):
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    made = Tensor.from_torch(device, x)
    assert np.array_equal(made.to_numpy(), x.detach().numpy())
    vectors = Tensor.from_torch(device, torch.ones(4, 3), dtype="float3")
    assert (vectors.shape, vectors.dtype.name) == ((4,), "float3")
    with torch.no_grad():
        x.zero_()
    assert made.to_numpy().sum() == 15


def test_structs(device, module):
    x = torch.arange(12.0).reshape(2, 6)
    made = module.moved(Tensor.from_torch(device, x, dtype=module.Particle), 2.0).to_torch()
    assert made.dtype is torch.uint8
    expected = torch.cat([x[:, :3] + 2 * x[:, 3:], x[:, 3:]], 1)
    assert torch.equal(made.view(torch.float32).cpu(), expected)
    with pytest.raises(ValueError, match="does not match"):
        Tensor.from_torch(device, torch.zeros(3, 3), dtype=module.Particle)


def test_to_torch_shares_memory(device, module):
    x = Tensor.from_numpy(device, np.arange(6, dtype=np.float32).reshape(2, 3))
    made = x.to_torch()
    assert made.shape == (2, 3)
    made[0, 0] = 100
    assert x.to_numpy()[0, 0] == 100
    assert x[:, 1:].to_torch().stride() == (3, 1)
    vectors = Tensor.zeros(device, (4,), "float3")
    assert vectors.to_torch().shape == (4, 3)
    del x
    assert made.sum() == 115


def test_what_torch_cannot_share_is_copied(device):
    x = Tensor.from_numpy(device, np.arange(4, dtype=np.float32))
    assert x[::-1].to_torch().tolist() == [3, 2, 1, 0]
    constant = Tensor.from_numpy(device, np.arange(4, dtype=np.float32), spy.BufferUsage.shader_resource)
    constant.to_torch()[0] = 100
    assert constant.to_numpy()[0] == 0


def test_negative_strides_are_refused_before_torch_sees_them(device):
    x = Tensor.from_numpy(device, np.arange(4, dtype=np.float32))
    with pytest.raises(BufferError, match=r"strides \(-1,\) .*tensor\.to_torch\(\)"):
        torch.from_dlpack(x[::-1])
    copied = torch.from_dlpack(x[::-1], copy=True)
    copied[0] = 100
    assert copied.tolist() == [100, 2, 1, 0] and x.to_numpy().tolist() == [0, 1, 2, 3]
    torch.from_dlpack(x[::2])[0] = 7
    assert x.to_numpy().tolist() == [7, 1, 2, 3]


def test_copy_from_torch(device, module):
    x = Tensor.zeros(device, (2, 3), "float")
    x.copy_from_torch(torch.arange(6.0).reshape(3, 2).t().requires_grad_())
    assert x.to_numpy().tolist() == [[0, 2, 4], [1, 3, 5]]
    x.copy_from_torch(torch.ones(2, 3, dtype=torch.float64))
    assert x.to_numpy().sum() == 6
    with pytest.raises(ValueError, match=r"do not all fit into float32.*0\.1"):
        x.copy_from_torch(torch.full((2, 3), 0.1, dtype=torch.float64))
    with pytest.raises(ValueError, match="smaller than the tensor"):
        x.copy_from_torch(torch.ones(2))


def test_refused(device):
    for make in (lambda t: Tensor.from_torch(device, t), Tensor.zeros(device, (3,), "float").copy_from_torch):
        with pytest.raises(ValueError, match="lies on the device 'meta'"):
            make(torch.ones(3, device="meta"))
        with pytest.raises(ValueError, match=r"torch\.complex64 has no Slang type"):
            make(torch.ones(3, dtype=torch.complex64))
        with pytest.raises(TypeError, match="expected a torch tensor, not list"):
            make([1.0, 2.0, 3.0])
