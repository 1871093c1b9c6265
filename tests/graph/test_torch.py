"""Graphs as operations of PyTorch's autograd: values, gradients, second order, transforms; and what is refused."""

from typing import Any

import numpy as np
import pytest

from slangrad import graph

torch = pytest.importorskip("torch")


@graph.jit
def model(p: Any, x: Any, scale: int = 2) -> Any:
    y = np.tanh(x @ p["w"]) * scale
    return {"y": y, "signs": np.sign(x).astype(np.int32), "more": [(p["w"] * p["w"]).sum(), "text"]}


def pair(w: Any, x: Any) -> Any:
    found = model({"w": w}, x)
    return found["y"], found["more"][0]


@pytest.fixture
def tensors() -> Any:
    """A transposed matrix, and one without gaps."""
    rng = torch.Generator().manual_seed(0)
    w, x = (torch.randn(n, 3, generator=rng, dtype=torch.float64) for n in (2, 4))
    return w.mT.requires_grad_(), x.requires_grad_()


def test_gradients_of_both_orders(tensors: Any) -> None:
    w, x = tensors
    assert torch.autograd.gradcheck(pair, (w, x), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(pair, (w, x))


def test_results_keep_their_form_and_integers_have_no_gradient(tensors: Any) -> None:
    w, x = tensors
    found = model({"w": w}, x.detach())
    assert found["more"][1] == "text"
    assert not found["signs"].requires_grad
    found["y"].sum().backward()
    torch.testing.assert_close(w.grad, torch.autograd.grad((torch.tanh(x @ w) * 2).sum(), w)[0])
    with torch.no_grad():
        assert not model({"w": w}, x)["y"].requires_grad


def test_gradients_of_graphs_are_followed(tensors: Any) -> None:
    """A gradient by `graph.grad` is differentiated by torch."""
    slope = graph.grad(lambda w, x: (np.sin(x @ w) ** 2).sum())
    w, x = tensors
    (found,) = torch.autograd.grad((slope(w, x) ** 2).sum(), x)
    (own,) = torch.autograd.grad((torch.sin(x @ w) ** 2).sum(), w, create_graph=True)
    torch.testing.assert_close(found, torch.autograd.grad((own**2).sum(), x)[0])


def test_transforms_of_torch(tensors: Any) -> None:
    w, x = (each.detach() for each in tensors)
    ours, theirs = (lambda w: pair(w, x)[0].sum()), (lambda w: (torch.tanh(x @ w) * 2).sum())
    torch.testing.assert_close(torch.func.hessian(ours)(w), torch.func.hessian(theirs)(w))
    rows = torch.func.vmap(lambda row: pair(w, row)[0])(x)
    torch.testing.assert_close(rows, torch.tanh(x @ w) * 2)
    compiled = torch.compile(lambda w: ours(w) * 3, backend="eager")
    torch.testing.assert_close(compiled(w), theirs(w) * 3)


def test_nothing_is_copied() -> None:
    """Results are the plan's memory, arguments the tensors'."""
    x = torch.arange(6.0).reshape(2, 3)
    twice = graph.jit(lambda x: x * 2)
    plan = twice.explain(x).plan
    seen: list[int] = []
    (input_node,), run = plan.inputs, plan._run_steps
    plan._run_steps = lambda memory: seen.append(memory[input_node].address) or run(memory)
    made = twice(x)
    assert seen == [x.data_ptr()]
    assert made.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_arrays_of_numpy_beside_tensors_are_constants() -> None:
    x, scale = torch.ones(3, requires_grad=True), np.full(3, 2, np.float32)
    made = graph.jit(lambda x, s: x * x * s)(x, scale)
    scale[:] = 7
    made.sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_tensors_that_are_refused() -> None:
    twice, free = graph.jit(lambda x: x * 2), torch.ones(3, requires_grad=True)
    for tensor in (torch.ones(3, device="meta"), torch.ones(3, device="meta", requires_grad=True)):
        with pytest.raises(graph.GraphError, match=r"test_torch.py.*a torch tensor on meta"):
            twice(tensor)
    with pytest.raises(graph.GraphError, match="bfloat16"):
        twice(torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(graph.GraphError, match=r"sparse_coo[\s\S]*to_dense"):
        graph.jit(lambda x: x + 1)(torch.eye(3).to_sparse())
    with pytest.raises(graph.GraphError, match="is no argument"):
        graph.jit(lambda x: x * free)(torch.ones(3))


def test_functions_of_torch_are_refused_and_its_operators_are_not() -> None:
    for function, said in [
        (torch.exp, r"exp: functions of torch .*\nnote: np\.exp\(x\)"),
        (torch.nn.functional.softmax, r"\nnote: graph\.softmax\(x\)"),
        (torch.relu, "NumPy's functions do"),
    ]:
        with pytest.raises(graph.GraphError, match=said) as caught:
            graph.jit(lambda x, function=function: function(x))(torch.ones(3))
        assert caught.value.code == "E1040" and "test_torch.py:" in str(caught.value)
    a, x = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.tensor([[2.0, 4.0], [1.0, 3.0]])

    def operators(x: Any) -> list[Any]:
        return [a + x, a - x, a * x, a / x, a // x, a % x, a**x, a @ x, a < x, a >= x, a == x, a != x]

    for made, wanted in zip(graph.jit(operators)(x), operators(x), strict=True):
        torch.testing.assert_close(made, wanted)


def test_signs_that_torch_has_yet_to_change() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    f = graph.jit(lambda a: a * 2)
    assert f(z).tolist() == [-4, 8]
    x = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    f(x.conj().imag).sum().backward()
    assert x.grad.tolist() == [-2j, -2j]
