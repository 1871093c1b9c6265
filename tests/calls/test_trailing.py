"""The last dimensions of arrays make the vectors, matrices and arrays that tensor parameters and buffers ask for."""

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

SOURCE = """
float3 at(ITensor<float3, 2> t, int i, int j) { return t[i, j]; }
void put(int i, RWTensor<float3, 1> t) { t[i] = float3(i, 2 * i, 3 * i); }
void put_one(int i, IWTensor<float3, 1> t) { t[i] = float3(i, 2 * i, 3 * i); }
float corner(Tensor<float2x3, 1> t, int i) { return t[i][1][2]; }
float last(Tensor<float[3], 1> t, int i) { return t[i][2]; }
int which(ITensor<float, 3> t) { return 1; }
int which(ITensor<float3, 2> t) { return 3; }
void fill(int i, RWStructuredBuffer<float3> b) { b[i] = float3(i, 1, 2); }
float3 of_buffer(StructuredBuffer<float3> b, int i) { return b[i]; }
[Differentiable] float weighted(ITensor<float3, 2> t, float3 w)
{
    float sum = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            sum += dot(t[i, j], w) * t[i, j].y;
    return sum;
}
"""
IMAGE = np.arange(24, dtype=np.float32).reshape(2, 4, 3)


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def module(request: pytest.FixtureRequest) -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(backend=request.param), "trailing", SOURCE)


def test_elements_are_read(module: spy.Module) -> None:
    tensor = spy.Tensor.from_numpy(module.device, IMAGE)
    views = [
        IMAGE,
        IMAGE[:, ::-1],
        IMAGE[..., ::-1],
        np.asfortranarray(IMAGE),
        np.stack([IMAGE] * 2, -1)[..., 1],
    ]
    for given in [*views, tensor, tensor[::-1], tensor[..., ::-1]]:
        found = module.at(given, 1, np.arange(4, dtype=np.int32)).to_numpy()
        assert np.array_equal(found, np.asarray(given)[1])
    many = np.stack([IMAGE, IMAGE + 1])
    assert np.array_equal(module.at(many, 1, 2).to_numpy(), many[:, 1, 2])
    assert module.corner(IMAGE[:, :2], 1) == IMAGE[1, 1, 2]
    assert module.last(IMAGE[0], 2) == IMAGE[0, 2, 2]
    assert module.of_buffer(IMAGE[1], 2) == module.of_buffer(tensor, 6) == spy.float3(*IMAGE[1, 2])


@pytest.mark.parametrize("name", ["put", "put_one", "fill"])
def test_elements_are_written(module: spy.Module, name: str) -> None:
    """Into the memory itself, and into arrays that had to be copied."""
    ids = np.arange(5, dtype=np.int32)
    rows = np.stack([ids, ids * 2, ids * 3] if name != "fill" else [ids, ids * 0 + 1, ids * 0 + 2], -1)
    plain, gaps, columns = (np.zeros(shape, np.float32) for shape in ((5, 3), (10, 6), (3, 5)))
    for given in (plain, gaps[::2, ::2], columns.T) if name != "fill" else (plain,):
        getattr(module, name)(ids, given)
        assert np.array_equal(given, rows)
    assert not gaps[1::2].any() and not gaps[:, 1::2].any()
    tensor = spy.Tensor.zeros(module.device, (5, 3), "float")
    getattr(module, name)(ids, tensor)
    assert np.array_equal(tensor.to_numpy(), rows)


def test_gradients(module: spy.Module) -> None:
    weights = spy.float3(1, 2, 3)
    tensor = spy.Tensor.from_numpy(module.device, IMAGE)
    vectors = spy.Tensor.from_numpy(module.device, IMAGE, dtype="float3")
    expected = spy.grad(module.weighted)(vectors, weights).to_numpy()
    found = spy.grad(module.weighted)(IMAGE, weights)
    assert isinstance(found, np.ndarray)
    assert found.shape == IMAGE.shape
    assert np.array_equal(found, expected)
    assert np.array_equal(expected[..., 0], IMAGE[..., 1])
    for given in (
        tensor.with_grads(),
        spy.Tensor.from_numpy(module.device, np.asfortranarray(IMAGE)).with_grads(),
    ):
        module.weighted.bwds(given, weights)
        assert np.array_equal(given.grad.to_numpy(), expected)
    ones = np.ones_like(IMAGE)
    _, slope = spy.jvp(module.weighted, (IMAGE, weights), (ones, None))
    assert slope == expected.sum()
    curved = spy.hvp(module.weighted, (IMAGE, weights), (ones, None))[0]
    assert np.array_equal(curved, np.broadcast_to([1, 8, 3], IMAGE.shape))
    spy.check_gradients(module.weighted, IMAGE, weights)


def test_torch_tensors(module: spy.Module) -> None:
    torch = pytest.importorskip("torch")
    image = torch.tensor(IMAGE, requires_grad=True)
    assert module.at(image.detach(), 1, 2).tolist() == IMAGE[1, 2].tolist()
    module.weighted(image, spy.float3(1, 2, 3)).backward()
    assert np.array_equal(image.grad.numpy(), spy.grad(module.weighted)(IMAGE, spy.float3(1, 2, 3)))
    written = torch.zeros(5, 3)
    module.put(torch.arange(5, dtype=torch.int32), written)
    assert written[4].tolist() == [4, 8, 12]


def test_what_does_not_fit(module: spy.Module) -> None:
    assert module.which(IMAGE) == 1  # the overload for the elements that there are
    assert module.which(spy.Tensor.zeros(module.device, (2, 4), "float3")) == 3
    with pytest.raises(CallError, match=r"E1005.*shape \(2, 4, 2\) the end, \(2,\), does not match .*\(3,\)"):
        module.at(IMAGE[..., :2], 0, 0)
    with pytest.raises(CallError, match=r"E1005.*the shape ends in \(2,\), and elements .* need \(3,\)"):
        module.of_buffer(np.zeros((4, 2), np.float32), 0)
    with pytest.raises(spy.ResolveException, match="has too few"):
        module.at(IMAGE[0], 0, 0)
    with pytest.raises(spy.ResolveException, match="element type int to tensor with element type float3"):
        module.at(IMAGE.astype(np.int32), 0, 0)
    frozen = np.zeros((5, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(spy.ResolveException, match="read-only"):
        module.put(0, frozen)
