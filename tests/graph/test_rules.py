"""Each rule: both sides give the same, and so do their gradients; the left one becomes the right one."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.arrays.gradient import compute_gradient
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.node import Node, new_input, substituted, topological_order
from slangrad.graph.ir.values import as_tensor
from slangrad.graph.planning.plan import Plan
from slangrad.graph.rewriting.choices import CHOICES, Graph
from slangrad.graph.rewriting.rewrite import ALL, LEAST_GAIN, Rewriter, rewritten
from slangrad.graph.rewriting.rules import FUNCTIONS, PATTERNS
from tools.discover_rules import Search, elements, evaluated, in_field

RNG = np.random.default_rng(7)
X, Y = RNG.uniform(0.5, 2.0, (3, 4)), RNG.uniform(0.5, 2.0, (3, 4))
IDS = np.array([[1], [0], [-1]])

# Of each rule about views a program, and how many nodes are left of it, beside its inputs.
PROGRAMS = {
    "slice_of_parts": (lambda x: np.concatenate([x, x[:2] * 2])[1:3, ::-1] * np.pad(x, 1)[1:3, 2:6].sum(), 6),
    "sum_of_parts": (
        lambda x: np.pad(x[:, 1:] * 2, ((0, 0), (1, 0))) + np.pad(x[:, :1], ((0, 0), (0, 3))),
        6,
    ),
    "joined_slices": (lambda x: np.concatenate([x[:, 3:1:-1], x[:, 1:0:-1]], 1) * 2, 4),
    "product_of_views": (lambda x: x.T @ np.broadcast_to(x[:, :1], (3, 5)), None),
    "view_of_number": (lambda x: x * np.broadcast_to(np.ones_like(x[0]).reshape(4), (3, 4)), 0),
    "view_of_itself": (lambda x: np.broadcast_to(x.reshape(3, 1, 4).reshape(3, 4), (3, 4)) * 2, 3),
    "views_of_one_kind": (
        lambda x: (
            x.T.T.reshape(12).reshape(2, 6).reshape(4, 3).T[None].transpose(0, 2, 1)[:, 1:][:, ::-2, 1:]
        ),
        5,
    ),
    "slice_of_broadcast": (lambda x: np.broadcast_to(x[:, :1], (3, 4))[:, 1:] * 2, 5),
    "map_of_numbers": (lambda x: x * (np.exp(np.zeros_like(x)) + 1), 3),
    "known_choice": (lambda x: np.where(np.zeros_like(x) > 1, x.T[:1].T, x * 2), 3),
    "gather_of_map": (lambda x: np.take_along_axis(np.exp(x) * 2, IDS, 1), None),
    "sum_of_repeated": (
        lambda x: (x * 3).sum(1) + (-x / 0.25).sum(1).sum() + np.broadcast_to(x, (5, 3, 4)).sum((0, 2)),
        None,
    ),
    "sum_of_nothing": (lambda x: x + x[:, :0] @ x[:0, :4] + (x[:0] * 2).sum(0), 4),
    "sum_of_softmax": (lambda x: np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)), None),
    "equal_to_extreme": (
        lambda x: np.where(x == np.maximum(x, x[::-1]), x, x == np.minimum(x.T, x.T[0]).T) * 2,
        None,
    ),
    "sum_with_a_pick": (
        lambda x: (
            np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True))
            - np.take_along_axis(x - x.max(1, keepdims=True), IDS[:, :1], 1)
        ),
        None,
    ),
}

# Of each rule that pays by cost a program of matrices x, w, v (6, 6) and a vector b (6), of operations that have a meaning
# modulo a prime: where it pays and where it does not.
CHOSEN = {
    "scaled_product": (lambda x, w, v, b: (x @ w) * b, lambda x, w, v, b: (x[:8] @ w) * b),
    "product_of_scaled": (
        lambda x, w, v, b: (x / b[:, None]) @ w[:, :1],
        lambda x, w, v, b: (x * b[:, None])[:, :1] @ w[:1],
    ),
    "sum_of_product": (lambda x, w, v, b: (x @ w).sum(0), lambda x, w, v, b: ((x @ w).sum(0), x @ w)),
    "transposed_product": (
        lambda x, w, v, b: (x @ w).T.reshape(4, 9) * 2,
        lambda x, w, v, b: ((x @ w).T, x @ w),
    ),
    "merged_products": (
        lambda x, w, v, b: (x @ w[:, :2], x @ w[:, 2:], x @ v),
        lambda x, w, v, b: (x @ w, x @ (x @ w)),
    ),
    "sum_of_products": (lambda x, w, v, b: x @ w - x @ v, lambda x, w, v, b: (x @ w, x @ v, x @ w + x @ v)),
    "slice_of_product": (
        lambda x, w, v, b: (x @ w)[-1:, ::2] + 0 * v[:1, ::2],
        lambda x, w, v, b: ((x @ w)[-1], x @ w),
    ),
    "chain_of_products": (lambda x, w, v, b: x @ w @ b, lambda x, w, v, b: x @ (w @ b)),
}
MATRICES = [(6, 6)] * 3 + [(6,)]
SIZES = {"scaled_product": [(512, 16), (16, 16), (16, 16), (16,)]}  # where a sum takes longer than its memory


def traced(function, *arrays) -> Node:
    return function(*(Array(new_input(each.shape, each.dtype)) for each in arrays)).node


@pytest.mark.parametrize("rule", PATTERNS, ids=lambda rule: rule.name)
def test_a_pattern_becomes_its_other_side(rule) -> None:
    arrays = (X, Y)[: rule.count]
    (made,), (right,) = (rewritten([traced(side, *arrays)], rule.fast) for side in (rule.left, rule.right))
    assert len(topological_order(made)) <= len(topological_order(right))
    if rule.fast:
        left = traced(rule.left, *arrays)
        assert [node.op for node in topological_order(*rewritten([left]))] == [
            node.op for node in topological_order(left)
        ]


def test_rules_hold_modulo_a_prime() -> None:
    """Values and gradients of both sides of each pattern, of which all operations are those of a field."""
    rng, proved = np.random.default_rng(2), 0
    for rule in PATTERNS * 2:
        whole = rng.integers(1, 4, rng.integers(4))
        shapes = [
            tuple(map(int, np.where(rng.uniform(size=whole.size) < 0.3, 1, whole))) for _ in range(rule.count)
        ]
        inputs = [new_input(shape, np.dtype(float)) for shape in shapes]
        left, right = (side(*map(Array, inputs)) for side in (rule.left, rule.right))
        sides = [left.node, right.broadcast_to(left.shape).node]
        both = [[side, *compute_gradient(side, inputs)] for side in sides]
        if in_field([*both[0], *both[1]]):
            values = {node: elements(node.shape, rng) for node in inputs}
            for a, b in zip(*(evaluated(each, values) for each in both), strict=True):
                np.testing.assert_array_equal(a, b, err_msg=rule.name)
            proved += 1
    assert proved >= 2 * 15


@pytest.fixture(scope="module")
def both_sides():
    """Values and gradients of all rows, in one plan that is rewritten and in NumPy."""

    def every(x, y):
        made = {}
        for rule in PATTERNS:
            for side, function in (("left", rule.left), ("right", rule.right)):
                arrays = (x, y)[: rule.count]
                made[rule.name, side] = graph.value_and_grad(
                    lambda xs, f=function: (f(*xs) * np.cos(x)).sum()
                )(arrays)
        return made

    return graph.jit(every)(X, Y)


@pytest.mark.parametrize("rule", PATTERNS, ids=lambda rule: rule.name)
def test_both_sides_are_the_same(rule, both_sides) -> None:
    (value, gradient), (other, theirs) = (both_sides[rule.name, side] for side in ("left", "right"))
    np.testing.assert_allclose(value, (rule.left(*(X, Y)[: rule.count]) * np.cos(X)).sum(), rtol=1e-12)
    np.testing.assert_allclose(value, other, rtol=1e-12)
    for a, b in zip(gradient, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_programs_of_views() -> None:
    assert {rule.__name__ for rule in FUNCTIONS} == PROGRAMS.keys()
    found = graph.jit(
        lambda x: {
            name: (f(x), graph.grad(lambda z, g=f: (g(z) ** 2).sum())(x)) for name, (f, _) in PROGRAMS.items()
        }
    )(X)
    for name, (function, left) in PROGRAMS.items():
        value, gradient = found[name]
        np.testing.assert_allclose(value, function(X), rtol=1e-12, err_msg=name)
        h, along = 1e-6, np.sin(np.arange(12.0)).reshape(3, 4)
        difference = ((function(X + h * along) ** 2).sum() - (function(X - h * along) ** 2).sum()) / (2 * h)
        np.testing.assert_allclose((gradient * along).sum(), difference, rtol=1e-7, err_msg=name)
        if left is not None:
            (made,) = rewritten([traced(function, X)])
            assert sum(1 for node in topological_order(made) if node.op != "input") <= left, name


def test_sums_of_sums_take_no_more_time_than_they_have_nodes() -> None:
    """A sum of two sums that share terms has more terms than can be counted, one of many terms is deep."""

    def shared(x):
        a, b = x, np.pad(x[:, 1:], ((0, 0), (1, 0)))
        for _ in range(60):
            a, b = b, a + b
        return a + b

    def doubled(x):
        y = np.pad(x[:, 1:], ((0, 0), (1, 0)))
        for _ in range(60):
            y = y + y
        return y

    for program in (shared, doubled, lambda x: sum(x[i % 3] * i for i in range(1200))):
        np.testing.assert_allclose(graph.jit(program)(X), program(X), rtol=1e-12)


def test_places_are_picked_from_a_count() -> None:
    """The gradient of a pick compares with 0, 1, 2, ...; picking from that comparison reads the numbers at places."""
    weights = np.array([[2.0], [3.0], [5.0]])

    def total(x):
        return (np.take_along_axis(x, IDS, 1) * weights).sum()

    found = graph.jit(lambda x: np.take_along_axis(graph.grad(total)(x), IDS - 1, 1))(X)
    full = graph.grad(total)(X)
    np.testing.assert_array_equal(found, np.take_along_axis(full, IDS - 1, 1))
    assert np.count_nonzero(full) == 3


def test_nothing_is_picked_from_values_that_are_computed_whole() -> None:
    node = traced(lambda x: np.take_along_axis(np.exp(x - x.max(1, keepdims=True)), IDS, 1), X)
    (made,) = rewritten([node])
    assert next(each for each in topological_order(made) if each.op == "exp").shape == (3, 1)


def chosen(program, rewriter, shapes):
    """The program's inputs, and its outputs and gradients, after the rules that always pay."""
    inputs = [new_input(shape, np.dtype(np.float32)) for shape in shapes]
    found = program(*map(Array, inputs))
    outputs = [each.node for each in (found if isinstance(found, tuple) else (found,))]
    return inputs, rewriter.simplified(outputs)


def every(rewriter, outputs, rules=ALL):
    """All choices that a graph has."""
    graph_ = Graph(outputs)
    return [found for node in graph_.index for found in rewriter.choices(node, graph_, rules)]


@pytest.mark.parametrize(
    "rule", [rule for rule, _ in CHOICES if rule.__name__ in CHOSEN], ids=lambda rule: rule.__name__
)
def test_a_choice_is_the_same_modulo_a_prime_and_is_taken_where_it_pays(rule) -> None:
    rng = np.random.default_rng(3)
    name = rule.__name__
    for program, pays in zip(CHOSEN[name], (True, False), strict=True):
        rewriter, gains = Rewriter(MachineRates(launch=0) if name in SIZES else None), []
        inputs, outputs = chosen(program, rewriter, SIZES.get(name, MATRICES))
        values = {node: elements(node.shape, rng) for node in inputs}
        weights = [Array(new_input(each.shape, each.dtype)) for each in outputs]
        values |= {each.node: elements(each.shape, rng) for each in weights}
        for found in every(rewriter, outputs, (rule,)):
            old, new, _ = rewriter.prices(Graph(outputs), found)
            gains.append(new < LEAST_GAIN * old)
            sides = []
            for side in (outputs, substituted(outputs, found)):
                total = sum((Array(node) * w).sum() for node, w in zip(side, weights, strict=True)).node
                sides.append(evaluated([*side, *compute_gradient(total, inputs)], values))
            for a, b in zip(*sides, strict=True):
                np.testing.assert_array_equal(a, b)
        assert any(gains) == pays


def test_every_choice_has_a_program() -> None:
    assert {rule.__name__ for rule, _ in CHOICES} - CHOSEN.keys() <= {"padded_convolutions"}


def test_choices_of_convolutions() -> None:
    """Batch norm goes into the weights, zeros around the image are the convolution's, kernels of one image are joined."""

    def block(x, w, v, b):
        seen = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 0)))
        return graph.conv2d(seen, w, padding=1) * b[:, None, None], graph.conv2d(seen, v, padding=1)

    rng = np.random.default_rng(6)
    arrays = [rng.uniform(-1, 1, shape) for shape in ((2, 3, 8, 7), (4, 3, 3, 3), (5, 3, 3, 3), (4,))]
    inputs = [new_input(each.shape, each.dtype) for each in arrays]
    rewriter = Rewriter()
    outputs = rewriter.simplified([each.node for each in block(*map(Array, inputs))])
    tensors = [as_tensor(spy.default_device(), each) for each in arrays]
    seen = set()
    for found in every(rewriter, outputs):
        seen.add(tuple(node.op for node in found))
        made = Plan(substituted(outputs, found), inputs, spy.default_device()).run(tensors)
        for got, want in zip(made, block(*arrays), strict=True):
            np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-11, atol=1e-13)
    assert seen == {("multiply",), ("conv", "conv")}
    assert "place" not in {node.op for node in topological_order(*rewriter.rewritten(outputs))}


def test_convolution_and_batch_norm_become_one() -> None:
    """The factor of each channel goes into the weights: no map of the image's size is left but the sum and relu."""

    def block(x, w, mean, var, gamma, beta):
        return np.maximum(graph.batch_norm(graph.conv2d(x, w, padding=1), mean, var, gamma, beta), 0)

    shapes = [(8, 32, 56, 56), (64, 32, 3, 3)] + [(64,)] * 4
    (made,) = rewritten([block(*(Array(new_input(shape, np.dtype("f"))) for shape in shapes)).node])
    order = topological_order(made)
    assert [node.op for node in order if node.shape == (8, 64, 56, 56)] == [
        "conv", "broadcast", "add", "broadcast", "maximum"
    ]  # fmt: skip
    assert [node.op for node in order if node.shape == shapes[1]] == ["input", "broadcast", "multiply"]


def test_product_and_batch_norm_become_one() -> None:
    def layer(x, w, mean, var, gamma, beta):
        return np.maximum(graph.batch_norm(x @ w, mean, var, gamma, beta), 0)

    shapes = [(4096, 32), (32, 64)] + [(64,)] * 4
    (made,) = rewritten([layer(*(Array(new_input(shape, np.dtype("f"))) for shape in shapes)).node])
    order = topological_order(made)
    assert [node.op for node in order if node.shape == (4096, 64)] == [
        "einsum", "broadcast", "add", "broadcast", "maximum"
    ]  # fmt: skip


def test_equal_nodes_are_one_and_needless_ones_none() -> None:
    x = Array(new_input((3, 4), np.dtype(float)))
    np.sin(x)
    total = np.exp(x.T) + np.exp(x.transpose(1, 0)) * (np.cos(np.zeros(3)) + 1)
    assert [node.op for node in topological_order(*rewritten([total.node]))].count("exp") == 1
    assert not {"sin", "cos"} & {node.op for node in topological_order(*rewritten([total.node]))}


def test_transposes_end_in_strides() -> None:
    """Those in front of maps and products, and that of a product, are no kernels."""
    x, w = np.ones((6, 5)), np.ones((7, 6))
    plan = graph.jit(lambda x, w: (np.tanh(x.T) @ w.T).T * 2).explain(x, w).plan
    assert [(group.kind, group.roots[0].op) for group in plan.fusion.groups] == [
        ("map", "tanh"), ("contract", "multiply")
    ]  # fmt: skip


def test_enumeration_finds_what_is_marked_as_found() -> None:
    """By graphs of up to three operations."""
    wanted = {each for _, each in CHOICES if each} | {rule.enumerated for rule in PATTERNS if rule.enumerated}
    made = set()
    for size, names in (
        (2, ["neg", "+", "-"]),
        (2, ["sum0", "T", "@"]),
        (3, ["@", "T"]),
        (3, ["+", "@"]),
        (3, ["@", "cat", "top"]),
    ):
        made |= {f"{left} -> {right}" for _, left, right in Search(size, names).pairs}
    assert wanted <= made


def test_a_pair_of_choices_pays_only_where_its_first_does() -> None:
    """So it is enough to take one choice after another: looking two ahead finds nothing cheaper."""

    def attention(x, wq, wk, wv, wo):
        split = lambda t: t.reshape(4, 16, 2, -1).swapaxes(1, 2)
        q, k, v = (split(x @ w) for w in (wq, wk, wv))
        p = graph.softmax(q @ k.swapaxes(-1, -2) / 8**0.5)
        return ((p @ v).swapaxes(1, 2).reshape(x.shape) @ wo).sum()

    shapes = [(4, 16, 16)] + [(16, 16)] * 4
    inputs = [new_input(shape, np.dtype(np.float32)) for shape in shapes]
    output = attention(*map(Array, inputs)).node
    rewriter = Rewriter()
    outputs = rewriter.rewritten([output, *compute_gradient(output, inputs)])
    best = rewriter.seconds(outputs)
    assert best < rewriter.seconds(rewriter.simplified([output, *compute_gradient(output, inputs)]))
    for first in every(rewriter, outputs):
        once = rewriter.simplified(substituted(outputs, first))
        for second in every(rewriter, once):
            assert rewriter.seconds(rewriter.simplified(substituted(once, second))) > 0.999 * best


def test_choices_of_equal_layers_are_taken_together() -> None:
    """So the time does not grow with the square of their number."""

    class Counted(Rewriter):
        def _paying(self, graph):
            rounds.append(paying := super()._paying(graph))
            return paying

    def taken(layers):
        rounds.clear()
        w = [Array(new_input((16, 16), np.dtype(np.float32))) for _ in range(layers)]
        x = Array(new_input((4096, 16), np.dtype(np.float32)))
        for each in w:
            x = np.tanh((x @ each).T).T
        Counted().rewritten([x.node])
        return [len(each) for each in rounds]

    rounds: list[dict[Node, Node]] = []
    assert taken(4) == [2, 2, 0] and taken(16) == [8, 8, 0]


def test_choices_that_would_need_each_other_are_not_taken_together() -> None:
    """Each of two merged products reads a part of the other one: the first is made, and then the second cannot be."""
    rng, rewriter = np.random.default_rng(5), Rewriter(MachineRates(launch=0))
    shapes = [(4096, 6), (4096, 6), (6, 6), (6, 6), (6, 6)]
    x, y, a, b, c = inputs = [new_input(shape, np.dtype(np.float32)) for shape in shapes]
    first, third = Array(x) @ Array(a), Array(y) @ Array(b)
    second, fourth = Array(x) @ (Array(c) @ (third.T @ third)), Array(y) @ (Array(c) @ (first.T @ first))
    outputs = [each.node for each in (first, second, third, fourth)]
    values = {node: elements(node.shape, rng) for node in inputs}
    made = rewriter.rewritten(outputs)
    assert [node.op for node in topological_order(*made)].count("concatenate") == 1
    for got, want in zip(evaluated(made, values), evaluated(outputs, values), strict=True):
        np.testing.assert_array_equal(got, want)


def test_fast_math_is_asked_for() -> None:
    f = lambda x, y: np.log(np.exp(x)) + (x + y - x)
    x, y = np.array([1.0, 1000.0]), np.array([1e-3, 1e-17])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(graph.jit(f)(x, y), f(x, y))
    np.testing.assert_array_equal(graph.jit(f, fast_math=True)(x, y), x + y)


def test_rules_keep_infinities_and_signs_of_zeros() -> None:
    """Also the number of times that an element is added, where float16 has no such number."""
    z, large = np.array([-0.0, 0.0, 1.0]), np.full(4, 1.5e308)
    f = lambda z, x: (
        *(z + 0, 0 - z, -(z - z * 1), z - 0, z - -0.0, (x * 1e-10).sum(), (x / 1e10).sum()),
        *((x * z[:1]).sum(), (x / x[:1]).sum()),
    )
    for got, want in zip(graph.jit(f)(z, large), f(z, large), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    repeated = graph.jit(lambda a, k: (np.broadcast_to(a, (70000,)).sum(), np.broadcast_to(k, (0,)).sum()))
    assert list(map(float, repeated(np.float16(0.5), np.float64(np.inf)))) == [35008.0, 0.0]
    whole = traced(lambda x: -(0 - (x + 0 - 0)), np.arange(3))
    assert len(topological_order(*rewritten([whole]))) == 1


def test_products_of_halves_keep_their_scale() -> None:
    """Of (x / s) @ w and of sum(x @ w) the other order is infinite in between."""
    x, w, s = (
        np.full(shape, value, np.float16) for shape, value in (((64, 64), 64), ((64, 1), 32), ((64, 1), 64))
    )
    f = lambda x, w, s: ((x / s) @ w, ((x / 64) @ (w / 64)).sum(0))
    for got, want in zip(graph.jit(f)(x, w, s), f(x, w, s), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3)
    node = traced(lambda x, w, s: (x / s) @ w, x, w, s)
    assert [each.op for each in rewritten([node])[0].inputs] == ["divide", "input"]
    assert rewritten([node], True)[0].op == "divide"


@pytest.mark.parametrize(
    "pick",
    [
        lambda x: np.take(np.broadcast_to(x, (3, 4)), [7], 0),
        lambda x: np.zeros_like(x)[np.array([9])],
        lambda x: (np.exp(np.broadcast_to(x, (3, 4))) * 2)[np.array([-4])],
    ],
)
def test_indices_stay_checked(pick) -> None:
    with pytest.raises(spy.BoundsError, match="out of range"):
        graph.jit(pick)(X[0])


def test_what_is_equal_to_the_larger_of_two() -> None:
    """Of all pairs of numbers, with NaN and both zeros. The derivative of ReLU reads its input alone."""
    numbers = np.array([-np.inf, -1, -0.0, 0.0, 2, np.inf, np.nan])
    x, y = (part.ravel() for part in np.meshgrid(numbers, numbers))

    def compared(x, y):
        pairs = [(a, f(b, c)) for f in (np.maximum, np.minimum) for a in (x, y) for b, c in ((x, y), (y, x))]
        return [a == most for a, most in pairs] + [most == a for a, most in pairs]

    for got, want in zip(graph.jit(compared)(x, y), compared(x, y), strict=True):
        np.testing.assert_array_equal(got, want)
    assert {node.op for node in graph.jit(compared).explain(x, y).plan.fusion.order} == {
        "input", "greater_equal", "less_equal"
    }  # fmt: skip
    slope = graph.grad(lambda x: (np.maximum(x, 0) * 3).sum())
    assert "maximum" not in {node.op for node in slope.explain(x).plan.fusion.order}
    np.testing.assert_array_equal(slope(numbers), [0, 0, 1.5, 1.5, 3, 3, 0])
