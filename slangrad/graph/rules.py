"""THE table of rules: what a graph is rewritten to before it is fused.

    row("x * 1", lambda x: x * 1, lambda x: x)

Both sides are NumPy; the left one is traced, and that is the pattern. Rules about views, whose axes differ from graph
to graph, are functions of a node. A test runs both sides of each row on random arrays, and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slangrad.graph.array import Array, constant, lifted
from slangrad.graph.layout import Layout, dense
from slangrad.graph.node import Node, make, new_input
from slangrad.graph.ops import OPS, base_of, is_view

Side = Callable[..., Any]
Replace = Callable[[Node], Array | None]
COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})


@dataclass(frozen=True, slots=True)
class Rule:
    """`left` and `right`: two programs with the same result, for arrays of `count` names."""

    name: str
    left: Side
    right: Side
    count: int
    pattern: Node
    variables: tuple[Node, ...]


def row(name: str, left: Side, right: Side, count: int = 1) -> Rule:
    variables = tuple(new_input((), np.dtype(float), f"{i}") for i in range(count))
    return Rule(name, left, right, count, left(*map(Array, variables)).node, variables)


# fmt: off
PATTERNS = (
    row("x + 0",            lambda x: x + 0,                     lambda x: x),
    row("x - 0",            lambda x: x - 0,                     lambda x: x),
    row("x * 1",            lambda x: x * 1,                     lambda x: x),
    row("x / 1",            lambda x: x / 1,                     lambda x: x),
    row("-(-x)",            lambda x: np.negative(-x),                   lambda x: x),
    row("x + -y",           lambda x, y: x + -y,                 lambda x, y: x - y, 2),
    row("x - -y",           lambda x, y: x - -y,                 lambda x, y: x + y, 2),
    row("0 - x",            lambda x: 0 - x,                     lambda x: -x),
    row("x * -1",           lambda x: x * -1,                    lambda x: -x),
    row("-x * -y",          lambda x, y: -x * -y,                lambda x, y: x * y, 2),
    row("x ** 1",           lambda x: x**1,                      lambda x: x),
    row("x ** 2",           lambda x: x**2,                      np.square),
    row("x ** 3",           lambda x: x**3,                      lambda x: x * x * x),
    row("x ** -1",          lambda x: x**-1,                     np.reciprocal),
    row("x ** 0.5",         lambda x: x**0.5,                    np.sqrt),
    row("where(c, x, x)",   lambda c, x: np.where(c > 0, x, x),  lambda c, x: x, 2),
)
# fmt: on


# --- of views


def number(node: Node) -> Any:
    """The value of a constant behind views, None of others."""
    node = base_of(node)
    return np.frombuffer(node.attributes["value"], node.dtype)[0] if node.op == "constant" else None


def view_of_itself(node: Node) -> Array | None:
    """A view of the same shape that moves nothing."""
    if not is_view(node) or node.shape != node.inputs[0].shape or not node.size:
        return None
    same = dense(node.shape)
    return Array(node.inputs[0]) if node.op != "stop_gradient" and same.seen_by(node) == same else None


def view_of_number(node: Node) -> Array | None:
    """A number is broadcast at once, and needs no other view."""
    if not is_view(node) or (node.op == "broadcast" and node.inputs[0].op == "constant"):
        return None
    value = number(node)
    return None if value is None else constant(value, node.dtype).broadcast_to(node.shape)


def views_of_one_kind(node: Node) -> Array | None:
    """Two broadcasts, two reshapes, two transposes are one."""
    (inner,) = node.inputs if len(node.inputs) == 1 else (None,)
    if inner is None or node.op != inner.op or node.op not in ("broadcast", "reshape", "transpose"):
        return None
    if node.op == "transpose":
        order = tuple(inner.attributes["order"][i] for i in node.attributes["order"])
        return Array(inner.inputs[0]).transpose(order)
    if node.op == "reshape":
        return Array(inner.inputs[0]).reshape(node.shape)
    return Array(inner.inputs[0]).broadcast_to(node.shape)


def map_of_numbers(node: Node) -> Array | None:
    """A map of numbers is a number."""
    function = getattr(np, node.op, None)
    values = [number(each) for each in node.inputs]
    if OPS[node.op].kind != "map" or not values or any(each is None for each in values):
        return None
    if node.op == "convert":
        return constant(values[0].astype(node.dtype)).broadcast_to(node.shape)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return constant(np.asarray(function(*values)).astype(node.dtype)[()], node.dtype).broadcast_to(
            node.shape
        )


def gather_of_map(node: Node) -> Array | None:
    """Elements are picked before they are computed with, where fewer are picked."""
    if node.op != "take_along":
        return None
    data, index = node.inputs
    axis = node.attributes["axis"]
    if data.op == "broadcast":
        inner = Layout(data.inputs[0].shape, (1,) * len(data.inputs[0].shape)).seen_by(data)
        assert inner is not None
        if not inner.strides[axis]:
            first = tuple(slice(0, 1) if i == axis else slice(None) for i in range(len(data.shape)))
            return Array(data)[first].broadcast_to(node.shape)
    if OPS[data.op].kind != "map" or data.op == "count" or node.size * 2 > data.size:
        return None
    picked = [
        Array(make("take_along", [each, index], node.shape, each.dtype, axis=axis)).node
        for each in data.inputs
    ]
    return Array(make(data.op, picked, node.shape, node.dtype, **data.attributes))


def slice_of_broadcast(node: Node) -> Array | None:
    """A part of what is repeated along the axes that are cut."""
    if node.op != "slice" or node.inputs[0].op != "broadcast":
        return None
    data = node.inputs[0]
    inner = data.inputs[0]
    new = len(data.shape) - len(inner.shape)
    kept = range(new, len(data.shape))
    if any(node.shape[i] != data.shape[i] and inner.shape[i - new] != 1 for i in kept):
        return None
    if any(node.attributes["steps"][i] != 1 and inner.shape[i - new] != 1 for i in kept):
        return None
    return Array(inner).broadcast_to(node.shape)


def sum_of_repeated(node: Node) -> Array | None:
    """sum(k * x) is k * sum(x) where k is the same along the axes; so is sum(-x)."""
    if node.op != "sum":
        return None
    (x,), axes = node.inputs, node.attributes["axes"]
    if x.op == "negative":
        return lifted(-Array(x.inputs[0]).sum(axes))
    if x.op not in ("multiply", "divide"):
        return None
    for i in (1, 0) if x.op == "multiply" else (1,):
        scale = _along(x.inputs[i], axes)
        if scale is not None:
            total = Array(x.inputs[1 - i]).sum(axes)
            return lifted(total * scale if x.op == "multiply" else total / scale)
    return None


def _along(node: Node, axes: tuple[int, ...]) -> Array | None:
    """The value at the first place of each axis, if it is repeated along these."""
    if node.op != "broadcast":
        return None
    at = Layout(node.inputs[0].shape, tuple(int(n != 1) for n in node.inputs[0].shape)).seen_by(node)
    assert at is not None
    if any(at.strides[i] for i in axes):
        return None
    inner, new = Array(node.inputs[0]), len(node.shape) - len(node.inputs[0].shape)
    kept = tuple(0 if i in axes else slice(None) for i in range(new, len(node.shape)))
    return inner[kept].broadcast_to(tuple(n for i, n in enumerate(node.shape) if i not in axes))


FUNCTIONS: tuple[Replace, ...] = (
    view_of_number,
    view_of_itself,
    views_of_one_kind,
    slice_of_broadcast,
    map_of_numbers,
    gather_of_map,
    sum_of_repeated,
)
