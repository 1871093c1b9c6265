"""Functions that are traced within others, and what tells one plan from another."""

import pickle
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import partial
from threading import Thread
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import lifted
from slangrad.graph.arrays.trees import all_leaves

X, W = np.arange(3.0) + 1, np.array([5.0, 6, 7])


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: graph.jit(lambda q: q * x)(W), W * X),
        (lambda x: x * graph.grad(lambda q: (q * x).sum())(W), X * X),
        (lambda x: graph.jvp(lambda q: q * x, (W,), (W,))[1], W * X),
        (lambda x: graph.jit(lambda: x + 1)(), X + 1),
        (
            lambda x: x * graph.value_and_grad(lambda q: graph.jit(lambda r: (r * q * x).sum())(W))(W)[1],
            X * X * W,
        ),
    ],
)
def test_functions_within_a_trace_may_read_its_arrays(program: Any, expected: Any) -> None:
    np.testing.assert_array_equal(graph.jit(program)(X), expected)


KEPT: list[Any] = []


class Keeper:
    cache: Any = None

    @graph.jit
    def of(self, x: Any) -> Any:
        self.cache = x * 2  # as later calls do not
        return self.cache

    def times(self, x: Any) -> Any:
        return self.cache * x


@dataclass
class Counted:
    w: Any

    @graph.jit
    def of(self, x: Any) -> Any:
        self.w = self.w + 1
        return self.w * x


def keeper_of(x: Any) -> Keeper:
    keeper = Keeper()
    keeper.cache = x
    return keeper


def generated(x: Any) -> Any:
    def values() -> Any:
        yield x

    KEPT.append(values())
    next(KEPT[-1])
    return x


@pytest.mark.parametrize(
    "program",
    [
        Keeper().of,
        Counted(W).of,
        graph.jit(generated),
        graph.jit(lambda x: (KEPT.append(x), x)[1]),
        graph.jit(lambda x: (KEPT.append(x + 1), x)[1]),
        graph.jit(lambda x: setattr(Keeper, "cache", x)),
        graph.jit(lambda x: partial(np.add, x)),
        graph.jit(lambda x: [lambda: x]),
        graph.jit(lambda x: x.sum),
        graph.jit(lambda x: {"f": keeper_of(x).times}),
        graph.grad(lambda x: (KEPT.append(x * 2), (x * x).sum())[1]),
        graph.jit(lambda x: graph.scan(lambda c, e: (KEPT.append(c), (c + e, e))[1], x[0], x)),
        lambda x: graph.train(lambda p, x: (KEPT.append(p["w"]), (p["w"] * x).sum())[1], adam())(x),
        lambda x: graph.jit(lambda x: (KEPT.append(x), x)[1])(torch_tensor(x)),
    ],
)
def test_a_traced_array_that_outlives_its_function_is_refused(program: Any) -> None:
    """Later calls run the plan and not the function, so they would keep nothing."""
    for _ in range(2):
        with pytest.raises(
            graph.GraphError, match=r"test_traces.py:\d+: .*kept after.*\nnote: return"
        ) as caught:
            program(X)
        assert caught.value.code == "E1041"
    KEPT.clear()


def adam() -> spy.optim.Adam:
    return spy.optim.Adam({"w": W.copy()})


def torch_tensor(x: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(x).requires_grad_()


def test_cycles_of_references_are_not_kept() -> None:
    def total(x: Any) -> Any:
        def part(n: int) -> Any:  # it refers to itself and to x
            return x + part(n - 1) if n else x

        return part(2)

    np.testing.assert_array_equal(graph.jit(total)(X), 3 * X)


def test_an_array_of_another_trace_is_refused() -> None:
    """Within one trace, too: those of a gradient or a loop stay there. A kept one has no elements."""
    kept: list[Any] = []

    def outer(x: Any) -> Any:
        inside: list[Any] = []
        slope = graph.grad(lambda y: (inside.append(y * 3), (y * y).sum())[1])(x)
        return slope + inside[0]

    with pytest.raises(graph.GraphError, match=r"another trace: f64\[3\] made at test_traces.py:\d+"):
        graph.jit(outer)(X)
    with pytest.raises(graph.GraphError, match="kept after"):
        graph.jit(lambda a: (kept.append(a * 2), a)[1])(X)
    with pytest.raises(graph.GraphError, match="another trace"):
        graph.jit(lambda b: kept[0] + b)(X)
    for use in (lambda: graph.jit(lambda b: b)(kept[0]), lambda: graph.jit(partial(np.add, kept[0]))(X)):
        with pytest.raises(graph.GraphError, match="another trace"):
            use()
    for element in (lambda: float(kept[0].sum()), lambda: np.asarray(kept[0]), lambda: bool(kept[0][0] > 0)):
        with pytest.raises(graph.GraphError, match=r"E1041.*its function has returned\nnote: return it"):
            element()
    assert graph.jit(lambda b: b + 1)(X)[0] == 2


def test_arrays_of_partials_and_bound_methods_are_captured() -> None:
    """Each call reads their elements anew."""
    w = W.copy()
    keeper = keeper_of(w)
    programs = (
        graph.jit(partial(np.multiply, w)),
        graph.jit(keeper.times),
        graph.jit(lambda x: x * keeper.cache),
    )
    for factor in (W, 2 * W):
        w[:] = factor
        for program in programs:
            np.testing.assert_array_equal(program(X), factor * X)
    applied = graph.jit(lambda f, x: f(x))
    np.testing.assert_array_equal(applied(partial(np.multiply, w), X), w * X)


def test_argnums_are_positions() -> None:
    def f(a: Any, b: Any) -> Any:
        return (a * a * b).sum()

    for chosen in (-1, np.int64(1), 1):
        np.testing.assert_array_equal(graph.grad(f, chosen)(X, W), X * X)
    both = graph.grad(f, (0, -1))(X, W)
    np.testing.assert_array_equal(both, [2 * X * W, X * X])
    for wrong in (2, -3, (0, 0), (1, -1), "x"):
        with pytest.raises(graph.GraphError, match="argnums"):
            graph.grad(f, wrong)(X, W)


def test_gradients_have_zeros_for_integers_and_keep_other_values() -> None:
    given = {"w": X, "i": np.arange(3), "name": "layer"}
    value, slope = graph.value_and_grad(lambda p: (p["w"] * p["i"]).sum())(given)
    assert value == 8 and slope["w"].tolist() == [0, 1, 2] and slope["name"] == "layer"
    assert slope["i"].tolist() == [0, 0, 0] and slope["i"].dtype == given["i"].dtype
    with pytest.raises(graph.GraphError, match=r"no arrays of floats.*\nnote: .*np.float32\(x\)"):
        graph.grad(lambda x: x * x)(2.0)


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = np.full(3, factor)

    @graph.jit
    def of(self, x: Any, power: int = 1) -> Any:
        return self.factor**power * x


@dataclass
class Weights:
    w: Any

    @graph.jit
    def of(self, x: Any) -> Any:
        return self.w * x


def test_a_constant_has_a_gradient_of_zeros() -> None:
    for program in (lambda x: 3.0, lambda x: np.float32(3), lambda x: np.floor(x).mean() + 1):
        value, slope = graph.value_and_grad(program)(X)
        assert value == 3 and slope.tolist() == [0, 0, 0]


def test_methods_know_their_object() -> None:
    for factor in (2.0, 3.0, 2.0):
        made = Scale(factor).of(X, power=2)
        np.testing.assert_array_equal(made, factor**2 * X)
    np.testing.assert_array_equal(graph.jit(lambda x: Scale(2.0).of(x))(X), 2 * X)
    np.testing.assert_array_equal(Scale.of(Scale(2.0), X), 2 * X)
    assert "1 kernel" in str(Scale(2.0).of.explain(X))
    weights = Weights(X)
    for w in (X, X + 1):
        weights.w = w
        np.testing.assert_array_equal(weights.of(X), w * X)


def test_tensors_on_the_left() -> None:
    t = spy.Tensor.from_numpy(spy.default_device(), X)
    programs = (
        lambda t, x: t + x,
        lambda t, x: t**x,
        lambda t, x: t @ x,
        lambda t, x: [t < x, t == x, t != x],
    )
    for program in programs:
        made = graph.jit(lambda x, f=program: f(t, x))(W)
        np.testing.assert_allclose(made, program(X, W))
    with pytest.raises(TypeError, match="no operator"):
        t + X


def test_plans_tell_values_apart() -> None:
    f = graph.jit(lambda a, k: np.copysign(1, k) * a)
    assert [f(X, k)[0] for k in (0.0, -0.0)] == [1, -1]
    g = graph.jit(lambda a, k: a * (1.5 if isinstance(next(iter(k)), float) else 2))
    assert [g(X, k)[0] for k in (frozenset([1]), frozenset([1.0]), {1: 0}, {1.0: 0})] == [2, 1.5, 2, 1.5]
    named = graph.jit(lambda d: next(key * x for key, x in d.items()))
    assert [named({np.float64(k): X})[0] for k in (2, 3)] == [2, 3]
    traces: list[float] = []
    h = graph.jit(lambda a, k: (traces.append(k), a)[1])
    for _ in range(3):
        h(X, float("nan"))
    assert len(traces) == 1


@dataclass
class Checked:
    w: Any

    def __post_init__(self) -> None:
        assert self.w.shape == (3,)


def test_dataclasses_may_check_their_fields() -> None:
    f = graph.jit(lambda m: Checked(m.w * 2))
    np.testing.assert_array_equal(f(Checked(X)).w, 2 * X)
    with pytest.raises(graph.GraphError, match="unhashable"):
        f(Checked(X), {1}, k=[set()])


def test_indices_that_are_apart_come_first() -> None:
    t, i, j = np.arange(24.0).reshape(2, 3, 4), np.array([0, 1]), np.array([[1], [0]])
    chosen: list[Any] = [
        (0, slice(None), i), (slice(None), 0, None, i), (0, ..., j), (0, i), (slice(None), i, ..., 1), (i, ..., None), (..., -1, j),
    ]  # fmt: skip
    found = graph.jit(lambda x: [x[each] for each in chosen])(t)
    for each, made in zip(chosen, found, strict=True):
        np.testing.assert_array_equal(made, t[each])


def test_one_element_of_each_row_is_read_without_a_scatter() -> None:
    """The literal cross-entropy is as fast as the one with np.take_along_axis."""
    x, y = np.random.default_rng(2).standard_normal((40, 7)), np.arange(40) % 9 - 2
    y[y == 6] = -7

    def loss(x: Any, y: Any) -> Any:
        return (np.log(np.exp(x).sum(1)) - x[np.arange(len(x)), y]).mean()

    step = graph.value_and_grad(loss)
    value, slope = step(x, y)
    np.testing.assert_allclose(value, loss(x, y))
    shares = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(slope, (shares - np.eye(7)[y]) / 40, atol=1e-15)
    assert "scatter" not in str(step.explain(x, y))
    y[3] = 7
    with pytest.raises(spy.BoundsError, match="index 7"):
        step(x, y)


def test_an_array_that_counts_no_longer_is_noticed() -> None:
    x, y, rows, others = np.arange(12.0).reshape(4, 3), np.array([0, 2, 1, 1]), np.arange(4), np.arange(4)
    traces = []

    def picked(x: Any) -> Any:
        traces.append(1)
        return x[rows, y] * x[others, y]

    function, slope = graph.jit(picked), graph.grad(lambda x: picked(x).sum())
    along = torch_gradient(picked)
    for change in (
        lambda: None,
        lambda: rows.sort(),
        lambda: rows.put(1, 3),
        lambda: others.fill(2),
        lambda: rows.sort(),
    ):
        change()
        np.testing.assert_array_equal(function(x), x[rows, y] * x[others, y])
        expected = np.zeros_like(x)
        np.add.at(expected, (rows, y), x[others, y])
        np.add.at(expected, (others, y), x[rows, y])
        np.testing.assert_array_equal(slope(x), expected)
        np.testing.assert_array_equal(along(x), expected)
    before = len(traces)
    rows[:] = [2, 2, 0, 1]  # nothing is assumed about them any more
    np.testing.assert_array_equal(function(x), x[rows, y] * x[others, y])
    assert len(traces) == before


def torch_gradient(function: Any) -> Any:
    torch, jitted = pytest.importorskip("torch"), graph.jit(function)

    def gradient(x: Any) -> Any:
        leaf = torch.tensor(x, requires_grad=True)
        jitted(leaf).sum().backward()
        return leaf.grad.numpy()

    return gradient


@graph.jit
def doubled(x: Any) -> Any:
    return x * 2


def test_copies_of_jitted_functions_are_the_same_functions() -> None:
    assert deepcopy([doubled])[0] is copy(doubled) is pickle.loads(pickle.dumps(doubled)) is doubled


def test_copies_of_traced_arrays_are_the_same_arrays() -> None:
    np.testing.assert_array_equal(graph.jit(lambda p: deepcopy(p)["w"] * 2)({"w": X}), X * 2)
    np.testing.assert_array_equal(graph.grad(lambda x: (deepcopy(x) * copy(x)).sum())(X), X * 2)


def test_results_share_no_memory() -> None:
    programs = (
        lambda x: (x + 1, x + 1),
        lambda x: (x + 1, x * 1 + 1),
        lambda x: (x, x),
        lambda x: (x.sum(), x.sum()),
    )
    for program in programs:
        first, second = graph.jit(program)(X)
        assert not np.shares_memory(first, second) and not np.shares_memory(first, X)
        np.testing.assert_array_equal(first, second)


def test_tangents_have_the_form_of_primals() -> None:
    assert graph.jvp(lambda a: a * a, (3.0,), (2.0,)) == (9, 12)
    assert graph.jvp(lambda a, n: (a * n["k"], None, "s"), (3.0, {"k": 2}), (1.0, {"k": 2})) == (
        (6, None, "s"),
        (2, None, "s"),
    )
    turned = {"b": 10.0, "a": 1.0}
    assert graph.jvp(lambda p: 2 * p["a"] + 3 * p["b"], ({"a": 1.0, "b": 1.0},), (turned,)) == (5, 32)
    with pytest.raises(graph.GraphError, match="other forms"):
        graph.jvp(lambda p: p["a"], ({"a": 1.0},), ({"b": 1.0},))
    with pytest.raises(graph.GraphError, match="primals are floats"):
        graph.jvp(lambda a: a * 2, (3,), (1,))
    with pytest.raises(graph.GraphError, match="are tuples"):
        graph.jvp(lambda a: a * 2, X, X)
    with pytest.raises(graph.GraphError, match="primals are floats"):
        graph.jvp(lambda a: a * 2, (np.arange(3),), (np.arange(3),))
    with pytest.raises(graph.GraphError, match="dtypes"):
        graph.jvp(lambda a: a * 2, (X.astype(np.float32),), (X,))


def test_tangents_are_those_of_the_function_as_it_is() -> None:
    @dataclass
    class Scaled:
        factor: float

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    function = Scaled(2.0)  # has no hash
    np.testing.assert_array_equal(graph.jvp(function, (X,), (X,))[0], X * 2)
    function.factor = 3.0
    np.testing.assert_array_equal(graph.jvp(function, (X,), (X,))[1], X * 3)


class Slotted:
    __slots__ = "x"

    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda k: {k: k + 1}, "cannot be keys of a dict"),
        (lambda k: [{("noise", frozenset([k])): 1}], "cannot be keys of a dict"),
        (lambda k: {"a": {k: k}.items()}, "returned in a dict_items"),
        (lambda k: MappingProxyType({"a": k}), "returned in a mappingproxy"),
        (lambda k: (Slotted(k), k), "returned in a Slotted"),
    ],
)
def test_traced_arrays_stay_in_their_trace(program, said):
    """A key of random numbers is an array like others: a value of the result, and no key of a dict."""
    key = graph.random.key(3)
    assert graph.jit(lambda k: {3: k})(key) == {3: key}
    with pytest.raises(graph.GraphError, match=rf"test_traces.py:\d+: .*{said}") as caught:
        graph.jit(program)(key)
    assert caught.value.code == "E1043"


def test_steps_need_an_optimizer() -> None:
    with pytest.raises(graph.GraphError, match=r"not a dict, moves the parameters\nnote: .*optim.Adam"):
        graph.train(lambda p, x: (p["w"] * x).sum(), {"w": X})


def test_a_step_that_fails_is_not_counted() -> None:
    found = []
    for bad in (False, True):
        p = {"w": np.ones(1)}
        step = graph.train(lambda p, x: ((p["w"] * x) ** 2).sum(), spy.optim.Adam(p, lr=0.1))
        step(X)
        if bad:
            with pytest.raises(TypeError):
                step(X, X)
        step(X)
        found.append(p["w"][0])
    assert found[0] == found[1]


def test_steps_of_several_threads_follow_each_other() -> None:
    found = []
    for count in (1, 4):
        p = {"w": np.ones(3)}
        step = graph.train(lambda p, x: ((p["w"] * x) ** 2).sum(), spy.optim.Adam(p, lr=0.01))
        each = [X] * (40 // count)
        threads = [Thread(target=lambda step=step, each=each: [*map(step, each)]) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append((p["w"].tolist(), step.optimizer.steps))
    assert found[0] == found[1] and found[0][1] == 40


def test_tensors_of_two_devices():
    devices = spy.create_device(), spy.create_device()
    a, b = (spy.Tensor.from_numpy(each, np.ones(3, np.float32)) for each in devices)
    double = graph.jit(lambda x: x + x)
    assert [double(each).to_numpy().tolist() for each in (a, b)] == [[2, 2, 2]] * 2  # a plan for each device
    for call in (
        lambda: graph.jit(lambda x, y: x + y)(a, b),
        lambda: graph.jit(lambda x: x + b)(a),
        lambda: graph.jit(lambda x: x + x, device=devices[1])(a),
    ):
        with pytest.raises(
            graph.GraphError, match=r"E1022.*test_traces.py:\d+: a Tensor of shape \(3,\) lies"
        ):
            call()


ORDERS: dict[str, Any] = {
    "transposed": lambda x: np.exp(x).transpose(2, 0, 1),
    "reshaped": lambda x: np.exp(x).reshape(6, 4),
    "both": lambda x: np.exp(x).reshape(6, 4).T[None],
    "sum": lambda x: np.exp(x).sum().reshape(1, 1),
    "number": lambda x: np.exp(x).sum(keepdims=True).reshape(()),
}
COPIED: dict[str, Any] = {  # memory of the caller or of another result, or a part of an array
    "input": lambda x: x.T,
    "both": lambda x: (lambda y: (y, y.T, y.T))(np.exp(x)),
    "slice": lambda x: np.exp(x)[:, 1:],
    "flipped": lambda x: np.exp(x)[::-1],
    "broadcast": lambda x: np.broadcast_to(np.exp(x[:1]), x.shape),
    "captured": lambda x: lifted(W).reshape(3, 1),
}


@pytest.mark.parametrize("name", ORDERS)
def test_results_in_another_order_of_axes_are_views(name: str) -> None:
    """No kernel copies them. Tensors and torch's have these strides, too."""
    x = np.random.default_rng(5).normal(size=(2, 3, 4))
    f, wanted = graph.jit(ORDERS[name]), ORDERS[name](x)
    plan = f.explain(x).plan
    assert not any(step.name.startswith("map") for step in plan.steps) or len(plan.steps) == 1
    results = f(x), f(spy.Tensor.from_numpy(spy.default_device(), x)).to_numpy().reshape(wanted.shape)
    for result in results:
        np.testing.assert_allclose(result, wanted, rtol=1e-14)
        assert result.shape == wanted.shape
    if wanted.ndim:
        steps = [step for step, n in zip(wanted.strides, wanted.shape, strict=True) if n != 1]
        assert [step for step in results[0].strides if step] == steps
        by_torch = f(torch_tensor(x).detach())
        assert [step * 8 for step in by_torch.stride() if step] == steps
        np.testing.assert_array_equal(by_torch.numpy(), results[0])
    np.testing.assert_array_equal(graph.jit(np.tanh)(results[0]), graph.jit(np.tanh)(results[0].copy()))


def test_other_results_have_memory_of_their_own() -> None:
    x = np.random.default_rng(6).normal(size=(2, 3, 4))
    for name, program in COPIED.items():
        f = graph.jit(program)
        results, wanted = all_leaves(f(x)), all_leaves(program(x) if name != "captured" else W.reshape(3, 1))
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-14, err_msg=name)
            assert not any(np.shares_memory(result, other) for other in (x, W))
        for i, result in enumerate(results):
            assert not any(np.shares_memory(result, other) for other in results[:i]), name
