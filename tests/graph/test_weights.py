"""Weights on disk: trees and forms of arrays, damaged files, other trees."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph import weights

pytest.importorskip("safetensors")


@dataclass
class Layer:
    w: Any
    name: str = "first"


TREE = {
    "layers": [Layer(np.arange(6.0).reshape(2, 3).T), Layer(np.ones(3, np.float16), "second")],
    "scale": np.float32(2),
    "pair": (np.array([True, False]), np.zeros((0, 2), np.int8)),
    "steps": 3,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    graph.save(tmp_path / "model.safetensors", TREE)
    return tmp_path / "model.safetensors"


def test_a_tree_comes_back(path: Path) -> None:
    found = graph.load(path, like=TREE)
    assert [each.name for each in found["layers"]] == ["first", "second"]
    assert (found["steps"], found["scale"], type(found["scale"])) == (3, 2, np.float32)
    for a, b in ((found["layers"][i].w, TREE["layers"][i].w) for i in (0, 1)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert found["pair"][0].tolist() == [True, False]
    assert found["pair"][1].shape == (0, 2)


def test_without_a_form_there_are_dicts_and_lists(path: Path) -> None:
    found = graph.load(path)
    np.testing.assert_array_equal(found["layers"][0]["w"], TREE["layers"][0].w)
    assert found.keys() == {"layers", "scale", "pair"}


def test_arrays_keep_their_form(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensor = spy.Tensor.from_numpy(spy.default_device(), np.arange(4, dtype=np.float32))
    tree = [tensor, torch.arange(3.0, requires_grad=True), torch.ones(2, 2)[:, 0]]
    graph.save(tmp_path / "m", tree)
    found = graph.load(tmp_path / "m", like=tree)
    assert found[0].to_numpy().tolist() == [0, 1, 2, 3]
    vectors = spy.Tensor.zeros(spy.default_device(), (4,), "float3")
    graph.save(tmp_path / "vectors", vectors)
    assert graph.load(tmp_path / "vectors", like=vectors).element_type is vectors.element_type
    assert (found[1].tolist(), found[1].requires_grad, found[2].tolist()) == ([0, 1, 2], True, [1, 1])
    with pytest.raises(graph.GraphError, match="cannot hold"):
        graph.save(tmp_path / "m", [torch.ones(2, dtype=torch.bfloat16)])
    assert len(graph.load(tmp_path / "m")) == 3


@pytest.mark.parametrize("cut", [0, 5, 60, -1])
def test_damaged_files(path: Path, cut: int) -> None:
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(graph.GraphError, match="damaged") as caught:
        graph.load(path, like=TREE)
    assert caught.value.code == "E1046"


def test_nothing_else_is_left_in_the_folder(path: Path) -> None:
    graph.save(path, {"a": np.ones(2)})
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with pytest.raises(OSError, match="folder"):
        graph.save(path.parent, TREE)
    with pytest.raises(FileNotFoundError):
        graph.load(path.parent / "none")


@pytest.mark.parametrize(("like", "said"), [
    ({"a": np.ones((2, 3), "f"), "b": np.ones(2)}, "b is missing"),
    ({}, "a is not asked for"),
    ({"a": np.ones((3, 2), "f")}, r"a is float32\[2, 3\], not float32\[3, 2\]"),
    ({"a": np.ones((2, 3))}, r"not float64\[2, 3\]"),
    ({"a.b": np.ones(2)}, "texts without points"),
])  # fmt: skip
def test_other_trees(tmp_path: Path, like: Any, said: str) -> None:
    graph.save(tmp_path / "m", {"a": np.ones((2, 3), np.float32)})
    with pytest.raises(graph.GraphError, match=said):
        graph.load(tmp_path / "m", like=like)


@pytest.mark.parametrize(("tree", "said"), [
    ({"a": np.ma.masked_array([1.0, 2.0], [0, 1])}, "the mask"),
    ({"a": np.ones(2)}.values(), "arrays in a dict_values"),
    ([np.ones(1), iter([np.ones(2)])], "arrays in a list_iterator"),
])  # fmt: skip
def test_no_array_is_left_out(tmp_path: Path, tree: Any, said: str) -> None:
    with pytest.raises(graph.GraphError, match=said):
        graph.save(tmp_path / "m", tree)


def test_other_orders_of_bytes_are_other_forms_of_the_same_numbers(tmp_path: Path) -> None:
    tree = {"x": np.arange(3, dtype=">f8")}
    graph.save(tmp_path / "m", tree)
    assert graph.load(tmp_path / "m", like=tree)["x"].tolist() == [0, 1, 2]


def test_traced_arrays_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(graph.TracedValueError, match="no numbers yet"):
        graph.jit(lambda x: graph.save(tmp_path / "m", {"x": x}))(np.ones(2))


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SAFETENSORS_OF_NUMPY", weights.LazyModule("slangrad.no_such_module"))
    with pytest.raises(graph.GraphError, match=r"pip install 'slangrad\[safetensors\]'"):
        graph.save(tmp_path / "m", TREE)
