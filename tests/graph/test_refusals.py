"""Code that needs the elements of a traced array: one error with a code, the user's line and a way out, whichever
library notices it first."""

import json
import math
import pickle
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph


def set_shape(x: Any, n: Any) -> None:
    x.shape = (4, 3)


def set_dtype(x: Any, n: Any) -> None:
    x.dtype = np.int64


def set_any(x: Any, n: Any) -> None:
    x.label = "x"


INTEGER = r"a Python integer of a traced array .*\n.*pass an int"
NUMBER = r"a Python number of a traced array .*\n.*keep it an array"
ARRAY = r"a NumPy array of a traced array .*\n.*np\.stack"
CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "zeros": (lambda x, n: np.zeros(n), INTEGER),
    "zeros of a pair": (lambda x, n: np.zeros((n, 2)), INTEGER),
    "ones": (lambda x, n: np.ones(n), INTEGER),
    "empty": (lambda x, n: np.empty(n), INTEGER),
    "full": (lambda x, n: np.full(n, 1.0), INTEGER),
    "eye": (lambda x, n: np.eye(n), INTEGER),
    "ndarray": (lambda x, n: np.ndarray(n), INTEGER),
    "numbers by chance": (lambda x, n: np.random.default_rng(0).normal(size=n), INTEGER),
    "reshape": (lambda x, n: x.reshape(n), INTEGER),
    "reshape by several": (lambda x, n: x.reshape(-1, n), INTEGER),
    "broadcast": (lambda x, n: np.broadcast_to(x, (n, 3, 4)), INTEGER),
    "axis": (lambda x, n: x.sum(axis=n), INTEGER),
    "slice": (lambda x, n: x[:n], INTEGER),
    "range": (lambda x, n: list(range(n)), INTEGER),
    "float": (lambda x, n: float(n), NUMBER),
    "int": (lambda x, n: int(n), NUMBER),
    "complex": (lambda x, n: complex(n), NUMBER),
    "math": (lambda x, n: math.sqrt(n), NUMBER),
    "list": (lambda x, n: list(n), r"without dimensions\n.*np\.stack"),
    "array": (lambda x, n: np.array(x), ARRAY),
    "array of several": (lambda x, n: np.array([x[0, 0], 1.0]), ARRAY),
    "NumPy's number": (lambda x, n: np.float32(n), ARRAY),
    "index of another": (lambda x, n: np.arange(4)[n], ARRAY),
    "format": (lambda x, n: f"{x[0, 0]:.2f}", NUMBER),
    "format of %f": (lambda x, n: "%.2f" % x[0, 0], NUMBER),  # noqa: UP031
    "format of %d": (lambda x, n: "%d" % n, NUMBER),  # noqa: UP031
    "shape": (set_shape, r"'shape' of a traced array .* cannot be set\n.*y = x\.reshape\(shape\)"),
    "dtype": (set_dtype, r"'dtype' of a traced array .* cannot be set\n.*y = x\.astype\(dtype\)"),
    "attribute": (set_any, "'label' of a traced array .* cannot be set"),
    "list times": (lambda x, n: [0] * n, r"the length of a list .*\n.*np\.asarray\(list\)"),
    "times list": (lambda x, n: n * [0, 1], r"the length of a list .*\n.*np\.asarray\(list\)"),
    "Decimal": (lambda x, n: Decimal(n), "elements are needed"),
    "bytes": (lambda x, n: memoryview(x), "elements are needed"),
    "pickle": (lambda x, n: pickle.dumps([x]), r"a copy on disk .*\n.*return it"),
    "power": (lambda x, n: pow(n, 2, 3), "elements are needed"),
}
TORCH: dict[str, tuple[Callable[..., Any], str]] = {
    "tensor": (lambda torch, x: torch.tensor(x), "the memory of a traced array .*"),
    "tensor of a number": (lambda torch, x: torch.tensor(x[0, 0]), "the memory of a traced array .*"),
    "tensor of several": (
        lambda torch, x: torch.tensor([[x[0, 0], 1.0]]),
        r"without dimensions\n.*np\.stack",
    ),
    "as_tensor": (lambda torch, x: torch.as_tensor(x), "the memory of a traced array .*"),
    "asarray": (lambda torch, x: torch.asarray(x), "the memory of a traced array .*"),
    "from_numpy": (lambda torch, x: torch.from_numpy(x), "elements are needed"),
    "from_dlpack": (lambda torch, x: torch.from_dlpack(x), "the memory of a traced array .*"),
    "Tensor": (lambda torch, x: torch.Tensor(x), "elements are needed"),
    "zeros": (lambda torch, x: torch.zeros(x[0, 0].astype(int)), "functions of torch take no traced arrays"),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_not_known(name: str) -> None:
    function, said = CASES[name]
    with pytest.raises(graph.GraphError, match=rf"test_refusals.py:\d+: [\s\S]*{said}") as caught:
        graph.jit(function)(np.ones((3, 4)), np.int64(3))
    assert caught.value.code in ("E1041", "E1042")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", TORCH)
def test_torch_makes_no_tensors_of_traced_arrays(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, said = TORCH[name]
    for array in (np.ones((3, 4)), torch.ones(3, 4)):
        with pytest.raises(graph.GraphError, match=rf"test_refusals.py:\d+: [\s\S]*{said}"):
            graph.jit(lambda x: function(torch, x))(array)


def test_errors_go_to_other_processes() -> None:
    """As those of a pool's workers do."""
    for function, memory in (
        (lambda x: x @ x, None),
        (lambda x: bool(x[0, 0]), None),
        (lambda x: np.exp(x).T @ x, 1),
    ):
        with pytest.raises(graph.GraphError) as caught:
            graph.jit(function, memory=memory)(np.ones((3, 4)))
        error = pickle.loads(pickle.dumps(caught.value))
        assert type(error) is type(caught.value) and str(error) == str(caught.value)
        assert vars(error) == vars(caught.value)


def test_gradients_and_steps_refuse_the_same() -> None:
    p = [np.ones(3)]
    for run in (
        lambda: graph.grad(lambda x: np.zeros(x.sum().astype(int)).sum())(p[0]),
        lambda: graph.train(lambda p: p[0].sum() + np.zeros(p[0].sum()), spy.optim.SGD(p, lr=0.1))(),
        lambda: graph.jvp(lambda x: np.zeros(x.sum().astype(int)), (p[0],), (p[0],)),
    ):
        with pytest.raises(graph.GraphError, match=rf"test_refusals.py:\d+: {INTEGER}"):
            run()


def test_other_errors_stay_as_they_are() -> None:
    """Errors of the program itself, also behind a refusal that it has handled."""

    def handled(x: Any) -> Any:
        try:
            return float(x)
        except TypeError:
            return json.loads("{")

    with pytest.raises(json.JSONDecodeError):
        graph.jit(handled)(np.float64(1))
    for error in (
        TypeError("no such thing"),
        ValueError("Array"),
        RuntimeError("too late"),
        KeyError("Array"),
    ):

        def fails(x: Any, error: Exception = error) -> Any:
            raise error

        with pytest.raises(type(error)) as caught:
            graph.jit(fails)(np.ones(3))
        assert caught.value is error


def test_traced_arrays_are_copied_and_printed() -> None:
    """As programs do for logs; lists of rows are rows of a trace."""

    def f(x: Any) -> Any:
        assert "f64[2,3]" in f"{x}" and "f64[2,3]" in "%s" % x  # noqa: UP031
        first, second = list(copy(x))
        return first * [1, 2, 3] + second

    np.testing.assert_array_equal(graph.jit(f)(np.ones((2, 3))), [2, 3, 4])
