"""Programs as users write them: losses, networks, Slang functions, trees, torch; and what is refused."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph

RNG = np.random.default_rng(11)
BUMP = """
[Differentiable] float bump(float x, float w)
{ float s = 0; for (int i = 0; i < 8; i++) { if (s > 2) break; s += exp(-w * x * x) * 0.3; } return s; }
[Differentiable] double scaled(double x, no_diff double w, int n) { return x * x * x * w * n; }
float plain(float x) { return x + 1; }
float two(float x, out float y) { y = 2 * x; return x; }
float length3(float3 v) { return length(v); }
float power(float x, int n) { return pow(x, n); }
float kept(float x, bool is_kept) { return is_kept ? x : 0; }
T same<T>(T x) { return x; }
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return spy.Module.load_from_source(spy.default_device(), "bump_of_graphs", BUMP)


def cross_entropy(z: Any, y: Any) -> Any:
    z = z - z.max(1, keepdims=True)
    return (np.log(np.exp(z).sum(1)) - np.take_along_axis(z, y[:, None], 1)[:, 0]).mean()


def by_hand(z: Any, y: Any) -> Any:
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return (p - np.eye(z.shape[1], dtype=z.dtype)[y]) / len(z)


def mlp(p: Any, x: Any, y: Any) -> Any:
    return cross_entropy(np.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"], y)


def parameters(dtype: str = "f") -> Any:
    rng = np.random.default_rng(0)
    return {
        "w1": rng.standard_normal((8, 16)).astype(dtype),
        "b1": np.zeros(16, dtype),
        "w2": rng.standard_normal((16, 5)).astype(dtype),
        "b2": np.zeros(5, dtype),
    }


X, Y = RNG.standard_normal((32, 8)), RNG.integers(0, 5, 32)


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_the_homework(dtype: str) -> None:
    """The gradient of softmax cross-entropy."""
    z = RNG.standard_normal((20, 300)).astype(dtype)
    y = RNG.integers(0, 300, 20)
    value, dz = graph.value_and_grad(cross_entropy)(z, y)
    rtol = {"e": 2e-2, "f": 2e-5, "d": 1e-12}[dtype]
    assert dz.dtype == value.dtype == z.dtype
    np.testing.assert_allclose(value, cross_entropy(z.astype(float), y), rtol=rtol)
    np.testing.assert_allclose(dz, by_hand(z.astype(float), y), rtol=rtol, atol=rtol * 1e-2)


# --- training


@pytest.mark.parametrize("make", [
    lambda p: spy.optim.SGD(p, lr=0.1),
    lambda p: spy.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    lambda p: spy.optim.Adam(p, lr=0.01),
    lambda p: spy.optim.AdamW(p, lr=0.01),
], ids=["sgd", "nesterov", "adam", "adamw"])  # fmt: skip
def test_steps_are_those_of_the_optimizer(make: Any) -> None:
    """As one plan, and as a gradient that the optimizer is given."""
    ours, theirs = parameters("d"), parameters("d")
    step, optimizer = graph.train(mlp, make(ours)), make(theirs)
    gradient = graph.value_and_grad(mlp)
    for _ in range(5):
        loss = step(X, Y)
        value, found = gradient(theirs, X, Y)
        optimizer.step(found)
        np.testing.assert_allclose(loss, value, rtol=1e-12)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9, atol=1e-12)
    assert step.optimizer.steps == 5


def test_training_learns_and_follows_settings() -> None:
    p = parameters()
    step = graph.train(mlp, spy.optim.Adam(p, lr=0.02))
    x = X.astype(np.float32)
    first = step(x, Y)
    for _ in range(60):
        last = step(x, Y)
    assert last < 0.2 * first
    step.optimizer.lr = 0.0
    before = p["w1"].copy()
    step(x, Y)
    np.testing.assert_array_equal(before, p["w1"])
    assert step.optimizer.steps == 62
    assert "mlp" in repr(step)
    assert "adapt_float" in str(step.explain(x, Y))
    assert step.optimizer.steps == 62


def test_steps_of_one_plan_advance_the_optimizer_once() -> None:
    """Settings that change the plan, and batches of another shape, advance it again, and update as they should."""
    p, twin = [np.full(3, 2.0)], [np.full(3, 2.0)]
    optimizer, other = (spy.optim.SGD(tree, lr=0.5, momentum=0.9) for tree in (p, twin))
    step = graph.train(lambda p, x: (p[0] * p[0]).sum() * x.mean(), optimizer)
    advance, count = optimizer.advance, 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return advance(*args, **kwargs)

    optimizer.advance = counted
    counts = []
    for size, rate in ((2, 0.5), (2, 0.5), (2, 0.1), (5, 0.1), (2, 0.1), (2, 0.1)):
        count, optimizer.lr, other.lr = 0, rate, rate
        step(np.ones(size))
        counts.append(count)
        other.step([2 * twin[0]])
        np.testing.assert_allclose(p[0], twin[0])
    assert counts[1:3] == [1, 1] and counts[4:] == [2, 1]


def test_an_update_that_reads_other_parameters_reads_the_old_ones() -> None:
    """Each gradient is the other parameter, so neither may be overwritten before both are read."""
    p = [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])]
    a, b = p[0].copy(), p[1].copy()
    graph.train(lambda p: (p[0] * p[1].T).sum(), spy.optim.SGD(p, lr=0.5))()
    np.testing.assert_allclose(p[0], a - 0.5 * b.T)
    np.testing.assert_allclose(p[1], b - 0.5 * a.T)


def test_memory_of_parameters_that_is_read_as_something_else_is_refused() -> None:
    """The last kernel reads the batch and writes the parameter."""
    p = [np.ones((4, 3))]
    step = graph.train(lambda p, x: (p[0] * x).sum(), spy.optim.SGD(p, lr=0.5))
    for shared in (p[0], p[0][::-1]):
        with pytest.raises(graph.GraphError, match="share memory") as caught:
            step(shared)
        assert caught.value.code == "E1043"
    step(p[0].copy())
    np.testing.assert_array_equal(p[0], np.full((4, 3), 0.5))
    captured = graph.train(lambda p: (p[0] * table).sum(), spy.optim.SGD(p, lr=0.5))
    table = p[0][:, :]
    with pytest.raises(graph.GraphError, match="share memory"):
        captured()


def test_parameters_in_a_generator_are_a_list_and_other_collections_are_refused() -> None:
    p = [np.ones(3), np.ones(3)]
    step = graph.train(lambda p: (p[0] * 2).sum() + p[1].sum(), spy.optim.SGD(iter(p), lr=0.5))
    assert step() == 9
    assert [each.tolist() for each in p] == [[0, 0, 0], [0.5, 0.5, 0.5]]
    with pytest.raises(graph.GraphError, match="parameters in a mappingproxy"):
        graph.train(lambda p: p["a"].sum(), spy.optim.SGD(MappingProxyType({"a": np.ones(3)})))


# --- Slang functions


def test_a_slang_function_is_an_operator(module: Any) -> None:
    layer = graph.jit(lambda x, w, b: 2 * module.bump(x + b, w))
    x, w, b = (RNG.uniform(0.2, 1.0, shape).astype("f") for shape in ((5, 7), (7,), (7,)))
    found = layer(x, w, b)
    np.testing.assert_allclose(found, 2 * module.bump(x + b, w).to_numpy(), rtol=1e-6)
    assert len(layer.explain(x, w, b).plan.fusion.groups) == 1


def test_derivatives_of_slang_functions_nest(module: Any) -> None:
    x, w = RNG.uniform(0.5, 2.0, (3, 4)), RNG.uniform(0.5, 2.0, 4)
    total = lambda x: (module.scaled(x, w, 3) * np.sin(x)).sum()
    value = lambda x: (x**3 * w * 3 * np.sin(x)).sum()
    along = RNG.uniform(-1, 1, x.shape)
    twice = graph.grad(lambda x: (graph.grad(total)(x) * along).sum())
    plain = graph.grad(lambda x: (graph.grad(value)(x) * along).sum())
    np.testing.assert_allclose(graph.grad(total)(x), graph.grad(value)(x), rtol=1e-12)
    np.testing.assert_allclose(twice(x), plain(x), rtol=1e-12)
    np.testing.assert_allclose(
        graph.jvp(total, (x,), (along,))[1], (graph.grad(total)(x) * along).sum(), rtol=1e-12
    )


# --- arguments and results


@dataclass
class Layer:
    w: Any
    name: str = "first"


def test_trees_of_arguments_and_results() -> None:
    @graph.jit
    def run(layers: Any, x: Any, scale: int = 1) -> Any:
        for each in layers["all"]:
            x = x @ each.w * scale
        return {"x": x, "names": [each.name for each in layers["all"]], "pair": (x.sum(), layers["all"][0])}

    layers = {"all": [Layer(np.eye(3) * 2), Layer(np.ones((3, 2)), "second")]}
    found = run(layers, np.ones((4, 3)), scale=2)
    np.testing.assert_array_equal(found["x"], np.full((4, 2), 24.0))
    assert found["names"] == ["first", "second"]
    assert float(found["pair"][0]) == 24.0 * 8
    np.testing.assert_array_equal(found["pair"][1].w, np.eye(3) * 2)
    gradients = graph.grad(lambda layers: (run(layers, np.ones((4, 3)))["x"] ** 2).sum())(layers)
    assert gradients["all"][1].name == "second"
    assert gradients["all"][1].w.shape == (3, 2)


def test_results_have_the_form_of_arguments() -> None:
    torch = pytest.importorskip("torch")
    double = graph.jit(lambda x: x * 2)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = spy.Tensor.from_numpy(spy.default_device(), x)
    assert isinstance(double(tensor), spy.Tensor)
    np.testing.assert_array_equal(double(tensor).to_numpy(), x * 2)
    made = double(torch.from_numpy(x))
    assert isinstance(made, torch.Tensor)
    np.testing.assert_array_equal(made.numpy(), x * 2)
    assert isinstance(double(x), np.ndarray)
    assert isinstance(double(np.float32(3)), np.float32)


def test_captured_arrays_are_read_by_each_call() -> None:
    table = np.arange(4.0)
    pick = graph.jit(lambda x: x * table)
    np.testing.assert_array_equal(pick(np.ones(4)), table)
    table[:] = 7
    np.testing.assert_array_equal(pick(np.ones(4)), np.full(4, 7.0))
    rows = np.arange(24.0).reshape(4, 6)
    for view in (rows[:, ::2], rows.T[::2, ::-1].T, np.broadcast_to(rows[1, :3], (4, 3))):
        np.testing.assert_array_equal(graph.jit(lambda x, view=view: x + view)(np.zeros((4, 3))), view)


def test_each_set_of_shapes_is_traced_once() -> None:
    seen = []

    @graph.jit
    def f(x: Any, n: int) -> Any:
        seen.append((x.shape, str(x.dtype), n))
        return x * n

    for shape, dtype, n in [
        ((2,), "f", 1),
        ((2,), "f", 1),
        ((3,), "f", 1),
        ((2,), "d", 1),
        ((2,), "f", 2),
        ((3,), "f", 1),
    ]:
        np.testing.assert_array_equal(f(np.ones(shape, dtype), n), np.full(shape, n))
    assert len(seen) == 4


def test_plans_are_bounded() -> None:
    """A number that changes is a plan for each value, or an input."""
    f = graph.jit(lambda x, n: x.reshape(n, -1)[0, 0] * n)
    x = np.ones(4)
    with pytest.warns(RuntimeWarning, match=r"more than 64 plans; a number that changes .* np.float32"):
        for i in range(65):
            f.explain(np.ones(i + 1), 1)
    assert len(f._plans._plans) == 64
    g = graph.jit(lambda x, n: x * n)
    assert [float(g(x, np.float64(i))[0]) for i in range(3)] == [0, 1, 2]
    assert len(g._plans._plans) == 1


def test_results_are_new_memory() -> None:
    x = np.ones(3)
    f = graph.jit(lambda x: (x, x[::-1], x * 2))
    first = f(x)
    second = f(x)
    for each in first:
        each[:] = 9
    assert x.tolist() == [1, 1, 1]
    assert [each.tolist() for each in second] == [[1, 1, 1], [1, 1, 1], [2, 2, 2]]


# --- what is refused


REFUSED = {
    "branch": (lambda x: x if x.sum() > 0 else -x, "E1041", "np.where"),
    "number": (lambda x: float(x.sum()), "E1041", "Python number"),
    "size": (lambda x: x[: x.argmax()], "E1041", r"Python integer.*\n.*i \+ np.arange\(n\)"),
    "in place": (lambda x: x.__iadd__(1), "E1040", r"neither out= nor .* \+= .*\n.*x = x \+ y"),
    "array": (lambda x: np.asarray(x), "E1041", "NumPy array"),
    "assignment": (lambda x: x.__setitem__(0, 1), "E1041", r"elements of .* cannot be assigned\n.*np.where"),
    "part of another": (lambda x: np.zeros(3).__setitem__(0, x[0, 0]), "E1041", "Python number"),
    "filled": (lambda x: np.zeros(3).fill(x[0, 0]), "E1041", "Python number"),
    "shapes": (lambda x: x + np.ones(5), "E1042", r"\(3, 4\) and \(5,\)"),
    "matmul": (lambda x: x @ x, "E1042", r"\(3, 4\) and \(3, 4\)"),
    "reshape": (lambda x: x.reshape(5, 5), "E1042", "12 elements"),
    "axis": (lambda x: x.sum(2), "E1042", "axis 2"),
    "index": (lambda x: x[5], "E1042", "index 5"),
    "mask": (lambda x: x[x > 0], "E1041", "np.where"),
    "unknown": (lambda x: np.linalg.svd(x), "E1040", "svd"),
    "unknown ufunc": (lambda x: np.nextafter(x, x), "E1040", "nextafter"),
    "keyword": (lambda x: np.mean(x, where=np.ones((3, 4), bool)), "E1040", "where"),
    "mode": (lambda x: np.take(x, [99], mode="clip"), "E1040", "mode"),
    "meant": (lambda x: np.nancumsum(x), "E1040", "did you mean np.cumsum"),
    "complex": (lambda x: x.astype(complex), "E1040", "complex128"),
    "object": (lambda x: x + object(), "E1043", "object"),
    "diagonal": (lambda x: np.einsum("ii->i", x), "E1042", "diagonal 'i'"),
    "letters": (lambda x: np.einsum("ij,jk->ik", x, x), "E1042", "more than one size"),
    "empty": (lambda x: x[:0].max(), "E1042", "no elements"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    function, code, said = REFUSED[name]
    with pytest.raises(graph.GraphError, match=said) as caught:
        graph.jit(function)(np.ones((3, 4)))
    assert caught.value.code == code
    assert "test_programs.py:" in str(caught.value)


@pytest.mark.parametrize("function", [
    lambda x: np.argmax(x, keepdims=True),
    lambda x: x.argmin(1, keepdims=True),
    lambda x: np.cumsum(x, 0, dtype=np.float32),
    lambda x: np.concatenate([x, x], dtype=np.float32),
    lambda x: np.stack([x, x], 1, dtype=np.float32),
    lambda x: np.any(x > 1, 0, keepdims=True),
    lambda x: np.round(x.astype(int)),
    lambda x: np.around(x * 0.37, 1),
    lambda x: x.astype(np.int16).round(-1),
])  # fmt: skip
def test_keywords_are_those_of_numpy(function: Any) -> None:
    x = np.arange(12.0).reshape(3, 4)
    made, wanted = graph.jit(function)(x), function(x)
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
    assert np.array_equal(made, wanted)


def test_gradients_of_something_else_are_refused() -> None:
    with pytest.raises(graph.GraphError, match=r"f64\[3,4\]\), and a gradient is that of one float"):
        graph.grad(lambda x: x * 2)(np.ones((3, 4)))
    with pytest.raises(graph.GraphError, match="no arrays of floats"):
        graph.grad(lambda x: x.sum() * 1.0)(np.ones(3, int))


@pytest.mark.parametrize(("call", "said"), [
    (lambda m, x: m.plain(x.astype(float)), "takes float32, not float64"),
    (lambda m, x: m.two(x), "does not return one number"),
    (lambda m, x: m.length3(x), "takes 'float3 v'"),
    (lambda m, x: m.same(x), "is generic"),
    (lambda m, x: m.bump(x), "takes 2 numbers, not 1"),
    (lambda m, x: m.bump.bwds(x, x), "not derivatives"),
    (lambda m, x: graph.grad(lambda x: m.plain(x).sum())(x), "has no derivative"),
    (lambda m, x: m.power(x, 2.5), r"takes int32, and 2.5 is a Python float\nnote: int\(x\)"),
    (lambda m, x: m.power(x, 2**40), "takes int32, and 1099511627776 is none"),
    (lambda m, x: m.kept(x, 2), r"takes bool, and 2 is a Python int\nnote: bool\(x\)"),
])  # fmt: skip
def test_slang_functions_that_are_no_operators(module: Any, call: Any, said: str) -> None:
    with pytest.raises(graph.GraphError, match=said):
        graph.jit(lambda x: call(module, x))(np.ones((3, 4), np.float32))


def test_attributes_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="did you mean 'reshape'"):
        graph.jit(lambda x: x.reshap(3))(np.ones(3))


def test_arguments_that_cannot_be_hashed() -> None:
    with pytest.raises(graph.GraphError, match="set"):
        graph.jit(lambda x, y: x)(np.ones(3), {1, 2})


# --- the first call


def test_kernels_are_compiled_together_and_a_plan_that_was_met_needs_no_parser(
    monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("SLANGRAD_VERIFY", "0")
    asked: list[int] = []
    compile_all = spy.Module.compile_all
    monkeypatch.setattr(
        spy.Module, "compile_all", lambda m, calls: asked.append(len(calls)) or compile_all(m, calls)
    )
    p = parameters()
    for _ in range(2):
        step = graph.jit(graph.grad(mlp), device=spy.create_device())
        first, second = step(p, X.astype("f"), Y), step(parameters(), X.astype("f"), Y.copy())
        np.testing.assert_array_equal(first["w1"], second["w1"])
    plan = step.explain(p, X.astype("f"), Y).plan
    assert not any(module.session.is_parsed for module in plan.modules.values())
    assert asked == [asked[0]] * 2
    assert 3 < asked[0] <= len(plan.steps)


def module_of(name: str, text: str) -> spy.Module:
    return spy.Module.load_from_source(spy.default_device(), name, f"[Differentiable] float {text}")


def test_slang_functions_of_one_name_are_apart_and_may_be_named_as_variables() -> None:
    x = np.arange(1, 5, dtype=np.float32)
    first = module_of("twice_of_graphs", "f(float x) { return x * 2; }")
    second = module_of("cube_of_graphs", "f(float x) { return x * x * x; }")
    np.testing.assert_allclose(graph.jit(lambda x: first.f(x) + second.f(x))(x), 2 * x + x**3, rtol=1e-6)
    found = graph.grad(lambda x: (first.f(x) * second.f(x)).sum())(x)
    np.testing.assert_allclose(found, 8 * x**3, rtol=1e-6)
    named = module_of("g_of_graphs", "g(float x) { return x * x; }")
    np.testing.assert_array_equal(graph.grad(lambda x: named.g(x).sum())(x), 2 * x)
    text = "t0(float x) { return x * 2; }\n[Differentiable] T t1<T : IFloat>(T x) { return x * x; }"
    named = module_of("variables_of_graphs", text)
    found = graph.grad(lambda x: (named.t0(np.exp(named.t0(x))) + named["t1<float>"](x)).sum())(x)
    np.testing.assert_allclose(found, 4 * np.exp(2 * x) + 2 * x, rtol=1e-5)


def test_a_module_whose_name_another_one_took_is_refused() -> None:
    x = np.ones(3, np.float32)
    old = module_of("scale_of_graphs", "f(float x) { return x * 2; }")
    doubled = graph.jit(lambda x: old.f(x))
    np.testing.assert_array_equal(doubled(x), 2 * x)
    new = module_of("scale_of_graphs", "f(float x) { return x * 5; }")
    np.testing.assert_array_equal(graph.jit(lambda x: new.f(x))(x), 5 * x)
    np.testing.assert_array_equal(doubled(x), 2 * x)
    with pytest.raises(graph.GraphError, match="gives another module"):
        graph.jit(lambda x: old.f(x) + 1)(x)
