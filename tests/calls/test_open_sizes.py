"""Arrays and vectors of any size as parameters: their sizes are the last of NumPy arrays and tensors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
[Differentiable] float squares<let N : int>(float x[N]) { float s = 0; for (int i = 0; i < N; i++) s += x[i] * x[i]; return s; }
float product<let N : int>(vector<float, N> a, vector<float, N> b) { return dot(a, b); }
int sizes<let N : int, let M : int>(float x[N][M]) { return N * 10 + M; }
int vectors<let N : int>(float3 x[N]) { return N; }
T first<T, let N : int>(T x[N]) { return x[0]; }
void count<let N : int>(inout float x[N]) { for (int i = 0; i < N; i++) x[i] = i; }
int unsized(float x[]) { return int(x.getCount()); }
"""
F = np.float32


class Holder:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def get_this(self) -> np.ndarray:
        return self.values


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, F)


def loaded(backend: str = "cpu") -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(backend=backend), "sizes", SOURCE)


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def module(request: pytest.FixtureRequest) -> spy.Module:
    return loaded(request.param)


CASES: dict[str, Callable[[spy.Module], object]] = {
    "arrays": lambda m: m.squares(ones(4, 3)).tolist() == [3] * 4,
    "of other sizes": lambda m: m.squares(ones(4, 5)).tolist() == [5] * 4,
    "one call": lambda m: m.squares(ones(7)) == 7,
    "tensors": lambda m: m.squares(spy.Tensor.ones(m.device, (2, 6), "float")).tolist() == [6, 6],
    "converted": lambda m: m.squares(np.ones((2, 3), np.int32)).tolist() == [3, 3],
    "lists": lambda m: m.squares([1.0, 2.0]) == 5,
    "two dimensions": lambda m: m.sizes(ones(4, 2, 3)).tolist() == [23] * 4,
    "two others": lambda m: m.sizes(ones(3, 2)) == 32,
    "vectors in arrays": lambda m: m.vectors(ones(4, 2, 3)).tolist() == [2] * 4,
    "tensors of vectors": lambda m: (
        m.vectors(spy.Tensor.ones(m.device, (4, 5), "float3")).tolist() == [5] * 4
    ),
    "vectors": lambda m: m.product(ones(4, 3), ones(3)).tolist() == [3] * 4,
    "unsized": lambda m: m.unsized(ones(2, 5)).tolist() == [5, 5],
    "objects": lambda m: [m.squares(Holder(ones(2, n))).tolist() for n in (3, 4)] == [[3, 3], [4, 4]],
    "types": lambda m: m.first(np.ones((4, 3), np.int32)).to_numpy().dtype == np.int32,
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_those_of_the_value(module: spy.Module, name: str) -> None:
    assert CASES[name](module)


def test_what_is_written_comes_back(module: spy.Module) -> None:
    for count in (3, 4):
        x = np.zeros((2, count), F)
        module.count(x)
        assert x.tolist() == [list(range(count))] * 2


def test_gradients(module: spy.Module) -> None:
    for count in (3, 4):
        x = np.arange(2 * count, dtype=F).reshape(2, count)
        assert np.array_equal(spy.grad(module.squares)(x), 2 * x)
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 7, requires_grad=True)
    module.squares(x).sum().backward()
    assert x.grad.tolist() == [[2] * 7] * 2


def test_what_does_not_fit(module: spy.Module) -> None:
    with pytest.raises(spy.ResolveException, match="'N' would be both 3 and 2"):
        module.product(ones(4, 3), ones(4, 2))
    with pytest.raises(spy.ResolveException, match="does not fit"):
        module.product(ones(4, 5), ones(4, 5))
    with pytest.raises(spy.ResolveException, match="does not fit"):
        module.sizes(ones(3))


def test_each_size_has_its_plan_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path))
    for count in (3, 4, 3, 4):
        assert loaded().squares(ones(2, count)).tolist() == [count] * 2
