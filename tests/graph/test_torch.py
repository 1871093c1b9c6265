"""Graphs as operations of PyTorch's autograd: values, gradients, second order, transforms; and what is refused."""

from typing import Any

import numpy as np
import pytest

import slangrad as spy
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
    (input_node,), run = plan.inputs, plan._run
    plan._run = lambda ready: seen.append(ready.memory[input_node].address) or run(ready)
    made = twice(x)
    assert seen == [x.data_ptr()]
    assert made.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_arrays_of_numpy_beside_tensors_are_constants() -> None:
    x, scale = torch.ones(3, requires_grad=True), np.full(3, 2, np.float32)
    made = graph.jit(lambda x, s: x * x * s)(x, scale)
    scale[:] = 7
    made.sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


def numbers_of(array: Any) -> np.ndarray:
    """The elements of an array of any kind, to change them in place."""
    return array.host_view() if isinstance(array, spy.Tensor) else array


KINDS = {
    "numpy": lambda w: w.copy(),
    "numpy back to front": lambda w: w[::-1].copy()[::-1],
    "read-only numpy": lambda w: np.broadcast_to(w, w.shape),
    "tensor": lambda w: spy.Tensor.from_numpy(spy.default_device(), w),
    "torch": torch.tensor,
}


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_at_captured_arrays(kind: str) -> None:
    numbers = np.array([0.5, -1.5, 2.0])
    w, offset = KINDS[kind](numbers), KINDS[kind](numbers)
    f = graph.jit(lambda x: np.sin(x * w) * x + offset)
    x = torch.tensor([[1.0, 2.0, 3.0], [-0.5, 0.25, 4.0]], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(f(x), torch.sin(x * torch.tensor(numbers)) * x + torch.tensor(numbers))
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("kind", ["numpy", "tensor"])
def test_derivatives_are_those_of_the_call_after_captured_arrays_change(kind: str) -> None:
    """Autograd has no versions of these arrays, so a call keeps their numbers."""
    w = KINDS[kind](np.array([2.0, 3.0, 5.0]))
    f = graph.jit(lambda x: x * x * x * w)
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = f(x)
    numbers_of(w)[:] = 7
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    numbers_of(w)[:] = 11
    (curve,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    numbers_of(w)[:] = 13
    (third,) = torch.autograd.grad(curve.sum(), x)
    assert slope.tolist() == [6, 36, 135]
    assert curve.tolist() == [12, 36, 90]
    assert third.tolist() == [12, 18, 30]
    (slope,) = torch.autograd.grad(f(x).sum(), x)
    assert slope.tolist() == [39, 156, 351]


def test_captured_torch_tensors_have_versions() -> None:
    w = torch.tensor([2.0, 3.0])
    f = graph.jit(lambda x: x * x * w)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    w[0] = 7
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    (slope,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert slope.tolist() == [14, 12]
    w[1] = 11
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        slope.sum().backward()


def test_arrays_that_no_derivative_reads_may_change() -> None:
    """Neither captured ones nor arguments: a sum needs no numbers for its derivative."""
    for offset in (np.full(2, 3.0), torch.full((2,), 3.0)):
        captures = graph.jit(lambda x, offset=offset: np.exp(x) + offset)
        takes = graph.jit(lambda x, offset: np.exp(x) + offset)
        for f in (captures, lambda x, takes=takes, offset=offset: takes(x, offset)):
            x = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
            y = f(x)
            offset += 1
            y.sum().backward()
            torch.testing.assert_close(x.grad, torch.exp(x.detach()))


def test_backward_does_not_trace_again() -> None:
    """Numbers of Python that change after the call have no effect on its derivative."""
    factors = [2.0]
    f = graph.jit(lambda x: x * x * factors[0])
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = f(x)
    factors[0] = 5.0
    y.sum().backward()
    assert x.grad.tolist() == [4, 12]


def test_operators_without_a_derivative_are_refused_by_backward() -> None:
    source = "double twice(double x) { return x * 2; }"
    twice = spy.Module.load_from_source(spy.default_device(), "without_derivative", source).twice
    f = graph.jit(lambda x: twice(x))
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    y = f(x)
    assert y.tolist() == [2, 2, 2]
    with pytest.raises(graph.GraphError) as caught:
        y.sum().backward()
    assert caught.value.code == "E1044"


def test_captured_arrays_whose_layout_changes_in_place_are_refused() -> None:
    square, table = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), np.arange(6.0)
    for f, x, change in (
        (graph.jit(lambda x: x @ square), torch.eye(2), square.t_),
        (graph.jit(lambda x: x * table), np.ones(6), lambda: table.resize(2, 3, refcheck=False)),
    ):
        f(x)
        change()
        with pytest.raises(graph.GraphError, match=r"test_torch.py[\s\S]*make it an argument") as caught:
            f(x)
        assert caught.value.code == "E1043"
    other = graph.jit(lambda x: x @ square)
    torch.testing.assert_close(other(torch.eye(2)), square)


def test_captured_tensors_that_require_gradients_later() -> None:
    w = torch.ones(3)
    f = graph.jit(lambda x: x * w)
    for x in (torch.ones(3), torch.ones(3, requires_grad=True), np.ones(3, np.float32)):
        f(x)
    w.requires_grad_()
    for x in (torch.ones(3), torch.ones(3, requires_grad=True), np.ones(3, np.float32)):
        with pytest.raises(graph.GraphError, match="is no argument") as caught:
            f(x)
        assert caught.value.code == "E1043"


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


def test_captured_tensors_with_tangents() -> None:
    """A call with torch tensors follows them. One with NumPy's arrays would lose the tangent, and is refused."""
    forward_ad = torch.autograd.forward_ad
    w, tangent, x = (torch.full((3,), value, dtype=torch.float64) for value in (2.0, 3.0, 5.0))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(w, tangent)
        followed = graph.jit(lambda v: v * dual)
        for _ in range(2):
            torch.testing.assert_close(forward_ad.unpack_dual(followed(x)).tangent, x * tangent)
            with pytest.raises(graph.GraphError, match="torch follows a tensor") as caught:
                followed(x.numpy())
            assert caught.value.code == "E1043"
    rows = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    torch.testing.assert_close(torch.func.vmap(lambda row: graph.jit(lambda v: v * row)(x))(rows), x * rows)

    def mapped(row: Any) -> Any:
        return torch.as_tensor(graph.jit(lambda v: v * row)(array)).sum()

    array = x.numpy()
    with pytest.raises(graph.GraphError, match="torch follows a tensor"):
        torch.func.vmap(mapped)(rows)


def test_results_change_in_place_as_those_of_other_operations() -> None:
    x = torch.ones(4, dtype=torch.float64, requires_grad=True)
    y, total = graph.jit(lambda x: (np.exp(x), x.sum()))(x)
    y.mul_(2)
    total.mul_(3)
    (y.sum() + total).backward()
    torch.testing.assert_close(x.grad, 2 * torch.exp(x.detach()) + 3)
