"""THE table of rules by which a graph is rewritten before it is fused.

    row("x * 1", lambda x: x * 1, lambda x: x)

Both sides are NumPy; the left one is traced, and that is the pattern. Rules about views, whose axes differ from graph
to graph, are functions of a node. A test runs both sides of each row on random arrays, and their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from slangrad.graph.arrays.array import Array, constant, lifted
from slangrad.graph.ir.layout import StridedLayout, dense
from slangrad.graph.ir.node import DType, Node, make, new_input, rebuilt, with_inputs
from slangrad.graph.ir.ops import OPS, base_of, behind_views, is_view, letters_in
from slangrad.graph.ir.values import Operand
from slangrad.graph.rewriting.copies import seen_in_base

Side = Callable[..., Operand]
Replace = Callable[[Node], Array | None]
COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})


@dataclass(frozen=True, slots=True)
class Rule:
    """`left` and `right`: two programs with the same result, for arrays of `count` names. `fast`: infinities, NaN and
    zeros have other results; integers have the same. `enumerated`: the pair as which
    `tools/discover_rules.py` found it."""

    name: str
    left: Side
    right: Side
    count: int
    fast: bool
    enumerated: str
    pattern: Node
    variables: tuple[Node, ...]


def row(name: str, left: Side, right: Side, count: int = 1, fast: bool = False, enumerated: str = "") -> Rule:
    variables = tuple(new_input((), np.dtype(float), f"{i}") for i in range(count))
    return Rule(name, left, right, count, fast, enumerated, left(*map(Array, variables)).node, variables)


# fmt: off
PATTERNS = (
    row("x + 0",            lambda x: x + 0,                     lambda x: x, fast=True),
    row("x + -0.0",         lambda x: x + -0.0,                  lambda x: x),
    row("x - 0",            lambda x: x - 0,                     lambda x: x),
    row("x * 1",            lambda x: x * 1,                     lambda x: x),
    row("x / 1",            lambda x: x / 1,                     lambda x: x),
    row("-(-x)",            lambda x: np.negative(-x),           lambda x: x),
    row("x + -y",           lambda x, y: x + -y,                 lambda x, y: x - y, 2),
    row("x - -y",           lambda x, y: x - -y,                 lambda x, y: x + y, 2),
    row("0 - x",            lambda x: 0 - x,                     lambda x: -x, fast=True),
    row("x * -1",           lambda x: x * -1,                    lambda x: -x),
    row("-x * -y",          lambda x, y: -x * -y,                lambda x, y: x * y, 2),
    row("x ** 1",           lambda x: x**1,                      lambda x: x),
    row("x ** 2",           lambda x: np.power(x, 2),            np.square),
    row("x ** 3",           lambda x: x**3,                      lambda x: x * x * x),
    row("x ** -1",          lambda x: x**-1,                     np.reciprocal),
    row("x ** 0.5",         lambda x: x**0.5,                    np.sqrt),
    row("where(c, x, x)",   lambda c, x: np.where(c > 0, x, x),  lambda c, x: x, 2),
    row("-(x - y)",         lambda x, y: -(x - y),      lambda x, y: y - x, 2, True, "neg((v - w)) -> (w - v)"),
    row("x - (x + y)",      lambda x, y: x - (x + y),   lambda x, y: -y, 2, True, "(v - (v + w)) -> neg(w)"),
    row("x - (x - y)",      lambda x, y: x - (x - y),   lambda x, y: y, 2, True, "(v - (v - w)) -> w"),
    row("x + y - x",        lambda x, y: x + y - x,     lambda x, y: y, 2, True, "((v + w) - v) -> w"),
    row("x - y + y",        lambda x, y: x - y + y,     lambda x, y: x, 2, True, "((v - w) + w) -> v"),
    row("x - x",            lambda x: x - x,                     np.zeros_like, fast=True),
    row("x * 0",            lambda x: x * 0,                     np.zeros_like, fast=True),
    row("x / x",            lambda x: x / x,                     np.ones_like, fast=True),
    row("x / y * y",        lambda x, y: x / y * y,              lambda x, y: x, 2, fast=True),
    row("log(exp(x))",      lambda x: np.log(np.exp(x)),         lambda x: x, fast=True),
    row("exp(log(x))",      lambda x: np.exp(np.log(x)),         lambda x: x, fast=True),
    row("exp(x) * exp(y)",  lambda x, y: np.exp(x) * np.exp(y),  lambda x, y: np.exp(x + y), 2, fast=True),
    row("sqrt(x) ** 2",     lambda x: np.square(np.sqrt(x)),     lambda x: x, fast=True),
    row("sqrt(x ** 2)",     lambda x: np.sqrt(np.square(x)),     np.absolute, fast=True),
)
# fmt: on


# --- of views


def number(node: Node) -> np.generic | None:
    """The value of a constant behind views, None of others."""
    node = base_of(node)
    return np.frombuffer(node.attributes["value"], node.dtype)[0] if node.op == "constant" else None


def view_of_itself(node: Node) -> Array | None:
    """A view of the same shape that moves nothing; derivatives are made already."""
    if not is_view(node) or node.shape != node.inputs[0].shape or not node.size:
        return None
    same = dense(node.shape)
    return Array(node.inputs[0]) if same.seen_by(node) == same else None


def view_of_number(node: Node) -> Array | None:
    """A number is broadcast at once, and needs no other view."""
    if not is_view(node) or (node.op == "broadcast" and node.inputs[0].op == "constant"):
        return None
    value = number(node)
    return None if value is None else constant(value, node.dtype).broadcast_to(node.shape)


def views_of_one_kind(node: Node) -> Array | None:
    """Two broadcasts, two reshapes, two transposes, two slices are one."""
    if not is_view(node) or node.op != node.inputs[0].op:
        return None
    at, outer = node.inputs[0].attributes, node.attributes
    x = Array(node.inputs[0].inputs[0])
    if node.op == "transpose":
        return x.transpose([at["order"][i] for i in outer["order"]])
    if node.op == "slice":
        starts = [a + b * step for a, b, step in zip(at["starts"], outer["starts"], at["steps"], strict=True)]
        steps = [a * b for a, b in zip(at["steps"], outer["steps"], strict=True)]
        return x.sliced(node.shape, tuple(starts), tuple(steps))
    if node.op == "reshape":
        return x.reshape(node.shape)
    return x.broadcast_to(node.shape) if node.op == "broadcast" else None


def map_of_numbers(node: Node) -> Array | None:
    """A map of numbers is a number."""
    function = getattr(np, node.op, None)
    values = [value for value in map(number, node.inputs) if value is not None]
    if OPS[node.op].kind != "map" or not values or len(values) < len(node.inputs):
        return None
    if node.op == "convert":
        return constant(values[0].astype(node.dtype)).broadcast_to(node.shape)
    if not callable(function):
        return None
    with np.errstate(all="ignore"):
        return constant(np.asarray(function(*values)).astype(node.dtype)).broadcast_to(node.shape)


def known_choice(node: Node) -> Array | None:
    """A choice by a number is one of its sides."""
    condition = number(node.inputs[0]) if node.op == "where" else None
    return None if condition is None else Array(node.inputs[1 if condition else 2])


def gather_of_map(node: Node) -> Array | None:
    """Elements are picked before they are computed with, where fewer are picked. An index stays checked, by a
    gather that is left or by itself."""
    if node.op != "take_along":
        return None
    data, index = node.inputs
    axis = node.attributes["axis"]
    first = tuple(slice(0, 1) if i == axis else slice(None) for i in range(len(data.shape)))
    if axis in repeated_axes(data):
        is_in = Array(index).index_in(data.shape[axis]) >= 0
        return lifted(np.where(is_in, Array(data)[first].broadcast_to(node.shape), constant(0, node.dtype)))
    if OPS[data.op].kind != "map" or data.op == "count" or node.size * 2 > data.size:
        return None
    same = [axis in repeated_axes(x) for x in data.inputs]
    picked = [
        Array(x)[first].broadcast_to(node.shape).node
        if is_same and not all(same)
        else make("take_along", [x, index], node.shape, x.dtype, axis=axis)
        for x, is_same in zip(data.inputs, same, strict=True)
    ]
    return Array(make(data.op, picked, node.shape, node.dtype, **data.attributes))


def slice_of_broadcast(node: Node) -> Array | None:
    """A part of an array that is repeated along the axes that are cut."""
    if node.op != "slice" or node.inputs[0].op != "broadcast":
        return None
    data, steps = node.inputs[0], node.attributes["steps"]
    kept = [i for i in range(len(data.shape)) if i not in repeated_axes(data)]
    if any(node.shape[i] != data.shape[i] or steps[i] != 1 for i in kept):
        return None
    return Array(data.inputs[0]).broadcast_to(node.shape)


def slice_of_parts(node: Node) -> Array | None:
    """A slice of joined or placed arrays that one of them holds is a slice of that one."""
    if node.op != "slice" or not node.size or node.inputs[0].op not in ("place", "concatenate"):
        return None
    data, steps = node.inputs[0], node.attributes["steps"]
    first = list(node.attributes["starts"])
    last = [a + (n - 1) * step for a, n, step in zip(first, node.shape, steps, strict=True)]
    if data.op == "place" and any(step != 1 for step in data.attributes["steps"]):
        return None
    begin = list(data.attributes.get("starts", (0,) * len(first)))
    for part in data.inputs:
        ends = [a + n for a, n in zip(begin, part.shape, strict=True)]
        if all(a <= min(f, z) and max(f, z) < b for a, f, z, b in zip(begin, first, last, ends, strict=True)):
            starts = tuple(f - a for f, a in zip(first, begin, strict=True))
            return Array(part).sliced(node.shape, starts, steps)
        if data.op == "concatenate":
            begin[data.attributes["axis"]] = ends[data.attributes["axis"]]
    return None


def joined_slices(node: Node) -> Array | None:
    """Neighboring slices of one array are one slice."""
    if node.op != "concatenate" or any(x.op != "slice" for x in node.inputs):
        return None
    first, axis = node.inputs[0], node.attributes["axis"]
    starts, steps = list(first.attributes["starts"]), first.attributes["steps"]
    end = starts[axis]
    for part in node.inputs:
        starts[axis] = end
        if part.inputs != first.inputs or part.attributes != {"starts": tuple(starts), "steps": steps}:
            return None
        end += part.shape[axis] * steps[axis]
    return Array(first.inputs[0]).sliced(node.shape, first.attributes["starts"], steps)


def product_of_views(node: Node) -> Array | None:
    """A transposed operand has other letters; one that is repeated along an axis has none there."""
    if node.op != "einsum":
        return None
    (names, out), operands = letters_in(node.attributes["letters"]), list(node.inputs)
    for i, operand in enumerate(node.inputs):
        if operand.op == "transpose":
            order = operand.attributes["order"]
            names[i] = "".join(names[i][order.index(axis)] for axis in range(len(order)))
            operands[i] = operand.inputs[0]
            return lifted(np.einsum(f"{names[0]},{names[1]}->{out}", *map(Array, operands)))
        repeated = repeated_axes(operand)
        if repeated:
            core = first_along(operand, repeated)
            assert core is not None
            names[i] = "".join(c for axis, c in enumerate(names[i]) if axis not in repeated)
            left = "".join(c for c in out if c in names[0] + names[1])
            factors = [core if j == i else Array(x) for j, x in enumerate(operands)]
            product = lifted(np.einsum(f"{names[0]},{names[1]}->{left}", *factors))
            return product.reshape(
                [n if c in left else 1 for c, n in zip(out, node.shape, strict=True)]
            ).broadcast_to(node.shape)
    return None


def sum_of_repeated(node: Node) -> Array | None:
    """sum(k * x) is k * sum(x) where k is the same along the axes; so is sum(-x), and a sum of n times x is n * x.
    For floats k must be a number that does not make x smaller, or sum(x) must be of a softmax. Else sum(x) could be
    infinite where sum(k * x) is not."""
    if node.op != "sum":
        return None
    (x,), axes = node.inputs, node.attributes["axes"]
    if x.op == "negative":
        return lifted(-Array(x.inputs[0]).sum(axes))
    if x.op == "sum":
        left = [i for i in range(len(x.inputs[0].shape)) if i not in x.attributes["axes"]]
        return Array(x.inputs[0]).sum((*x.attributes["axes"], *(left[i] for i in axes)), dtype=x.dtype)  # type: ignore[no-any-return]
    repeated = tuple(i for i in repeated_axes(x) if i in axes)
    if repeated and _is_exact(prod(x.shape[i] for i in repeated), x.dtype):
        core = first_along(x, repeated)
        assert core is not None
        kept = [i for i in range(len(x.shape)) if i not in repeated]
        total = core.sum(tuple(kept.index(i) for i in axes if i not in repeated), dtype=x.dtype)
        count = np.array(prod(x.shape[i] for i in repeated)).astype(x.dtype)
        return lifted(total * constant(count, x.dtype))
    for i in (1, 0) if x.op == "multiply" else (1,) if x.op == "divide" else ():
        scale = first_along(x.inputs[i], axes)
        if scale is not None and (_is_harmless(x, i) or is_of_softmax(x.inputs[1 - i], node)):
            total = Array(x.inputs[1 - i]).sum(axes)
            return lifted(total * scale if x.op == "multiply" else total / scale)
    return None


def _is_exact(count: int, dtype: DType) -> bool:
    """Whether a product with a count is a sum. Integers wrap around in both."""
    return dtype.kind != "f" or 0 < count <= 2 ** (np.finfo(dtype).nmant + 1)


def _is_harmless(x: Node, i: int) -> bool:
    """Whether the input of a product or quotient is a finite number that makes floats no smaller."""
    value = number(x.inputs[i])
    if value is None or x.dtype.kind != "f":
        return x.dtype.kind != "f"
    size = abs(float(value))
    return 1 <= size < np.inf if x.op == "multiply" else 0 < size <= 1


def equal_to_extreme(node: Node) -> Array | None:
    """x == max(x, y) is x >= y, and x == min(x, y) is x <= y, of NaN, too: the derivative of ReLU does not read its
    result."""
    for x, most in (node.inputs, node.inputs[::-1]) if node.op == "equal" else ():
        if most.op in ("maximum", "minimum") and x in most.inputs:
            y = most.inputs[1 - most.inputs.index(x)]
            return lifted(Array(x) >= Array(y) if most.op == "maximum" else Array(x) <= Array(y))
    return None


# --- of softmax: the derivative by the largest element, which is subtracted before exp, is zero


def sum_with_a_pick(node: Node) -> Array | None:
    """sum(p + x) is c + sum(x), where p is c at one place of each row and 0 elsewhere: the derivative of a gather."""
    if node.op != "sum" or node.inputs[0].op != "add" or len(node.attributes["axes"]) != 1:
        return None
    axes, terms = node.attributes["axes"], node.inputs[0].inputs
    for pick, rest in (terms, terms[::-1]):
        if pick.op != "where" or number(pick.inputs[2]) != 0 or pick.inputs[0].op != "equal":
            continue
        count, index = pick.inputs[0].inputs
        value, is_count = first_along(pick.inputs[1], axes), count.op == "count"
        is_count = is_count and count.attributes["axis"] == axes[0] and first_along(index, axes) is not None
        if is_count and value is not None and _is_within(index, count.shape[axes[0]]):
            return lifted(value + Array(rest).sum(axes))
    return None


def _is_within(index: Node, size: int) -> bool:
    """Whether an index counts places from 0 to the size. That of a whole row may be in the part of another worker."""
    checked = base_of(index)
    return checked.op == "index_in" and number(checked.inputs[1]) == size


def sum_of_softmax(node: Node) -> Array | None:
    """s * (x / s) is x where s = sum(exp(z - max z)), which is at least 1; 0 / n is 0 where n elements are max z.
    Zeros for max z and other elements are -0.0, which is dropped where it is added."""
    if node.op == "where" and number(node.inputs[1]) == 0 == number(node.inputs[2]):
        mask = node.inputs[0]
        if mask.op == "equal" and base_of(mask.inputs[1]).op == "max" and node.dtype.kind == "f":
            return constant(-0.0, node.dtype).broadcast_to(node.shape)
    if node.op == "multiply":
        for total, share in (node.inputs, node.inputs[::-1]):
            is_share = share.op == "divide" and share.inputs[1] is total and total.op == "sum"
            if is_share and is_of_softmax(total.inputs[0], total):
                return Array(share.inputs[0])
    if node.op == "divide" and number(node.inputs[0]) == 0 and node.inputs[1].op == "sum":
        mask = node.inputs[1].inputs[0]
        mask = mask.inputs[0] if mask.op == "convert" else mask
        if mask.op == "equal" and _is_largest(mask, node.inputs[1]):
            return constant(0, node.dtype).broadcast_to(node.shape)
    return None


def divided_once(outputs: Sequence[Node]) -> list[Node]:
    """The outputs with x * (1 / s) for x / s where s is the sum of a softmax, which is at least 1. A row divides once,
    and results differ by rounding. It comes after all rules, since these match quotients."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        total, views = behind_views(inputs[1]) if node.op == "divide" else (node, ())
        is_total = total.op == "sum" and total.size < node.size and is_of_softmax(total.inputs[0], total)
        if node.op != "divide" or not is_total or node.dtype.itemsize < 4:
            return with_inputs(node, inputs)
        factor = lifted(np.reciprocal(Array(total))).node
        for view in views:
            factor = with_inputs(view, (factor,))
        product: Node = (Array(inputs[0]) * Array(factor)).node
        product.place = node.place
        return product

    return rebuilt(outputs, change)


def is_of_softmax(e: Node, total: Node) -> bool:
    """Whether e is exp(z - max z) along the axes of a sum: the sum of e is at least 1, and finite."""
    return e.op == "exp" and e.inputs[0].op == "subtract" and _is_largest(e.inputs[0], total)


def _is_largest(pair: Node, total: Node) -> bool:
    """Whether the second input of a map is the largest of the first along the axes of a sum."""
    z, most, axes = pair.inputs[0], base_of(pair.inputs[1]), total.attributes["axes"]
    is_max = most.op == "max" and most.inputs[0] is z and most.attributes["axes"] == axes
    return is_max and is_spread(pair.inputs[1], axes)


def is_spread(node: Node, axes: tuple[int, ...]) -> bool:
    """Whether views show a reduction along these axes at its rows: `x.sum(1)[:, None]`, and not `x.sum(1)`."""
    base, at = seen_in_base(node)
    steps = iter(dense(base.shape).strides)
    wanted = [0 if i in axes else next(steps, 0) for i in range(len(node.shape))]
    return at is not None and all(
        n == 1 or a == b for n, a, b in zip(node.shape, at.strides, wanted, strict=True)
    )


def repeated_axes(node: Node) -> tuple[int, ...]:
    """The axes along which a broadcast has the same values."""
    if node.op != "broadcast":
        return ()
    at = StridedLayout(node.inputs[0].shape, tuple(int(n != 1) for n in node.inputs[0].shape)).seen_by(node)
    assert at is not None
    return tuple(i for i, step in enumerate(at.strides) if not step and node.shape[i] != 1)


def first_along(node: Node, axes: tuple[int, ...]) -> Array | None:
    """The value at the first place of each of these axes, if it is the same along all of them."""
    axes = tuple(i for i in axes if i < len(node.shape))
    if any(node.shape[i] != 1 and i not in repeated_axes(node) for i in axes):
        return None
    if node.op != "broadcast":
        return Array(node).reshape([n for i, n in enumerate(node.shape) if i not in axes])
    inner, new = Array(node.inputs[0]), len(node.shape) - len(node.inputs[0].shape)
    kept = tuple(0 if i in axes else slice(None) for i in range(new, len(node.shape)))
    return inner[kept].broadcast_to(tuple(n for i, n in enumerate(node.shape) if i not in axes))


def sum_of_parts(node: Node) -> Array | None:
    """Arrays that lie side by side among zeros and are added fill one array: the derivative of a split."""
    parts = _placed(node) if node.op == "add" else []
    axes = {i for part in parts for i, n in enumerate(part.inputs[0].shape) if n != node.shape[i]}
    if len(axes) != 1 or any(step != 1 for part in parts for step in part.attributes["steps"]):
        return None
    (axis,), end = axes, 0
    parts.sort(key=lambda part: part.attributes["starts"][axis])
    for part in parts:
        if part.attributes["starts"][axis] != end:
            return None
        end += part.inputs[0].shape[axis]
    if end != node.shape[axis]:
        return None
    inputs = [part.inputs[0] for part in parts]
    return Array(make("concatenate", inputs, node.shape, node.dtype, axis=axis))


def _placed(node: Node) -> list[Node]:
    """The nodes that a sum adds, none if one of them does more than to place an array among zeros."""
    left, parts, most = [node], list[Node](), max(node.shape, default=0)
    while left:
        term = left.pop()
        if term.op == "add":
            left += term.inputs
        elif term.op == "place" and len(parts) < most:  # a sum may add one of them many times
            parts.append(term)
        else:
            return []
    return parts


def sum_of_nothing(node: Node) -> Array | None:
    """A sum or a product over no elements is 0. It stands first: where another rule moves a factor out of it, and the
    factor is infinite as that of a mean of nothing, the product would be NaN."""
    if node.op in ("sum", "einsum", "conv") and node.size and not all(x.size for x in node.inputs):
        return constant(0, node.dtype).broadcast_to(node.shape)
    return None


FUNCTIONS: tuple[Replace, ...] = (
    sum_of_nothing,
    view_of_number, view_of_itself, views_of_one_kind, slice_of_broadcast, slice_of_parts, joined_slices,
    map_of_numbers, known_choice, gather_of_map, product_of_views, sum_of_repeated, sum_of_parts, sum_with_a_pick,
    sum_of_softmax, equal_to_extreme,
)  # fmt: skip
