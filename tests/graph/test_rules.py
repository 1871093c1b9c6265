"""Each rule: both sides give the same, and so do their gradients; the left one becomes the right one."""

import numpy as np
import pytest

from slangrad import graph
from slangrad.graph.array import Array
from slangrad.graph.node import Node, new_input, topological_order
from slangrad.graph.rewrite import rewritten
from slangrad.graph.rules import FUNCTIONS, PATTERNS

RNG = np.random.default_rng(7)
X, Y = RNG.uniform(0.5, 2.0, (3, 4)), RNG.uniform(0.5, 2.0, (3, 4))
IDS = np.array([[1], [0], [-1]])

# Of each rule about views a program, and how many nodes are left of it, beside its inputs.
PROGRAMS = {
    "view_of_number": (lambda x: x + np.broadcast_to(np.zeros_like(x[0]).reshape(4), (3, 4)), 0),
    "view_of_itself": (lambda x: np.broadcast_to(x.reshape(3, 1, 4).reshape(3, 4), (3, 4)) * 2, 3),
    "views_of_one_kind": (
        lambda x: x.T.T.reshape(12).reshape(2, 6).reshape(4, 3).T[None].transpose(0, 2, 1),
        4,
    ),
    "slice_of_broadcast": (lambda x: np.broadcast_to(x[:, :1], (3, 4))[:, 1:] * 2, 5),
    "map_of_numbers": (lambda x: x * (np.exp(np.zeros_like(x)) + 1), 3),
    "gather_of_map": (lambda x: np.take_along_axis(np.exp(x) * 2, IDS, 1), None),
    "sum_of_repeated": (lambda x: (x * x[:, :1]).sum(1) + (-x / x[:, 1:2]).sum(1), None),
}


def traced(function, *arrays) -> Node:
    return function(*(Array(new_input(each.shape, each.dtype)) for each in arrays)).node


@pytest.mark.parametrize("rule", PATTERNS, ids=lambda rule: rule.name)
def test_a_pattern_becomes_its_other_side(rule) -> None:
    arrays = (X, Y)[: rule.count]
    (made,) = rewritten([traced(rule.left, *arrays)])
    assert len(topological_order(made)) <= len(topological_order(*rewritten([traced(rule.right, *arrays)])))


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
        np.testing.assert_allclose(a, b, rtol=1e-12)


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
