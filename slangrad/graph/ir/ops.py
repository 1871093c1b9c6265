"""THE table of operators: for each its kind, its Slang text, its derivative and its work.

    row("exp", "exp({0})", lambda g, y, x: (g * y,), 8)

The derivative is that of reverse mode: a function of the cotangent `g`, the result `y` and the inputs that returns
the cotangents of the inputs, or None. It is written in NumPy over traced arrays, so it consists of operators of
this table and can be differentiated again. Names are those of NumPy's functions.

    kind       shapes                          code
    source     given                           none: an input, a captured array, a number
    view       any                             none: strides of an argument
    map        of all inputs and the result    an expression of scalars
    reduce     without `axes`                  a loop
    contract   by the letters of an einsum     a product of matrices
    gather     of the index                    a load
    scatter    given                           an atomic add
    running    results along one axis          a loop for each row
    loop       none                            a plan that is run many times, or a template; it has results
    result     given                           none: an array that a loop leaves
    part       inputs are parts of the result  a buffer that several kernels fill
    exchange   given                           none: data of other workers (workers/collectives.py)

A map's inputs have its shape: `broadcast` is a node of its own, and so is the sum over a broadcast axis in the
derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi, prod
from typing import TYPE_CHECKING

import numpy as np

from slangrad.graph.ir.node import Convolution, Node
from slangrad.graph.ir.types import wide_of
from slangrad.graph.ir.values import Operand

if TYPE_CHECKING:
    from slangrad.graph.arrays.array import Array

Vjp = Callable[..., tuple[Operand, ...]]  # of the cotangent, the result and the inputs
LN2, LN10 = log(2), log(10)


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """`slang`: of a map the expression, with {0}, {1} for its inputs; of a reduction the combination of a sum {0}
    and an element {1}. `start` is the first sum, and {T} the type of the result. `flops`: arithmetic operations for
    each element of the result, of a reduction for each of the input."""

    name: str
    kind: str
    slang: str = ""
    vjp: Vjp | None = None
    flops: int = 1
    start: str = ""


def none(g: object, y: object, *xs: object) -> tuple[None, ...]:
    """The derivative of a piecewise constant function: zero."""
    return (None,) * len(xs)


def picked(where: Operand, g: Operand) -> Operand:
    """The cotangent where a condition holds. It is selected, because an infinite one elsewhere times zero would be
    NaN."""
    return np.where(where, g, 0)


# --- derivatives of more than a line


def _extreme(g: Array, y: Array, a: Array, b: Array) -> tuple[Operand, Operand]:
    """Of a maximum or minimum of two: half to each where they are equal."""
    half = np.where(a == b, 0.5 * g, g)
    return picked(a == y, half), picked(b == y, half)


def _power(g: Array, y: Array, x: Array, p: Array) -> tuple[Operand, Operand]:
    base = np.where(p == 0, np.where(x == 0, 1, x), x)  # 0 ** 0 is 1 beside it, too
    slope = p * np.power(base, p - 1)
    positive = x > 0
    return g * slope, picked(positive, g * y * np.log(np.where(positive, x, 1)))


def _arctan2(g: Array, y: Array, a: Array, b: Array) -> tuple[Operand, Operand]:
    r = np.hypot(a, b)
    return g * (b / r) / r, -g * (a / r) / r


def _largest(g: Array, y: Array, x: Array) -> tuple[Operand]:
    """Of the largest or smallest of many: equal shares to all that are."""
    is_it = x == _spread(y, y, x)
    share = g / is_it.sum(y.node_axes, dtype=g.dtype)
    return (picked(is_it, _spread(share, y, x)),)


def _prod(g: Array, y: Array, x: Array) -> tuple[Operand]:
    """The product of the others. It consists of products alone, so it has derivatives of any order at zeros, too."""
    axes = y.node_axes
    order = [*axes, *(i for i in range(x.ndim) if i not in axes)]
    turned = x.astype(wide_of(x.dtype)).transpose(order)
    count = prod(x.shape[i] for i in axes)
    others = _products_of_others(turned.reshape(count, *turned.shape[len(axes) :]))
    others = others.reshape(turned.shape).transpose(np.argsort(order)).astype(x.dtype)
    return (_spread(g, y, x) * others,)


def _products_of_others(x: Operand) -> Operand:
    """For each element along the first axis: its partner in the other half times the products of other pairs."""
    half = len(x) // 2
    if not half:
        return np.ones_like(x)
    a, b, rest = x[:half], x[half : 2 * half], x[2 * half :]
    others = _products_of_others(np.concatenate([a * b, rest]))
    return np.concatenate([others[:half] * b, others[:half] * a, others[half:]])


def _spread(g: Array, y: Array, x: Array) -> Operand:
    """A value for each result of a reduction, to all elements that went into it."""
    return np.broadcast_to(np.expand_dims(g, y.node_axes), x.shape)


def _cumsum(g: Array, y: Array, x: Array) -> tuple[Operand]:
    (axis,) = y.node_axes
    return (np.flip(np.cumsum(np.flip(g, axis), axis), axis),)


def _broadcast(g: Array, y: Array, x: Array) -> tuple[Operand]:
    new = y.ndim - x.ndim
    axes = [i for i in range(y.ndim) if i < new or (x.shape[i - new] == 1 and y.shape[i] != 1)]
    return (g.sum(tuple(axes)).reshape(x.shape) if axes else g,)


def _concatenate(g: Array, y: Array, *xs: Array) -> tuple[Operand, ...]:
    axis = y.node.attributes["axis"]
    return tuple(np.split(g, np.cumsum([x.shape[axis] for x in xs])[:-1].tolist(), axis))


def _einsum(g: Array, y: Array, a: Array, b: Array) -> tuple[Operand, Operand]:
    """The letters change places: every letter of an input stands in the other one or in the result."""
    (left, right), out = letters_in(y.node.attributes["letters"])
    return np.einsum(f"{out},{right}->{left}", g, b), np.einsum(f"{left},{out}->{right}", a, g)


def _windows(g: Operand, y: Array, x: Array) -> tuple[Operand]:
    """Each element is in up to `size` windows, at other places: a sum over windows of zeros that the cotangent lies
    in."""
    attributes = y.node.attributes
    axis, size, dilation = attributes["axis"], attributes["size"], attributes["every"]
    n, edge = x.shape[axis], dilation * (size - 1)
    g = np.moveaxis(g, -1, axis)
    shape = (*x.shape[:axis], size, n + edge, *x.shape[axis + 1 :])
    spread = g.placed(shape, (*(0,) * axis, 0, edge, *(0,) * (x.ndim - axis - 1)), (1,) * (x.ndim + 1))
    flat = spread.reshape(*x.shape[:axis], size * (n + edge), *x.shape[axis + 1 :])
    before = (slice(None),) * axis
    seen = flat[(*before, slice(edge, None))].windows(axis, size, n + edge - dilation)
    return (seen[(*before, slice(n))].sum(-1),)


def _conv(g: Array, y: Array, x: Array, w: Array) -> tuple[Operand, Operand]:
    """By the image: the cotangent with zeros between its pixels, and the kernel turned around. By the kernel: the
    image with the cotangent as kernel, stride and dilation exchanged, images in place of channels."""
    stride, padding, dilation, spread, groups = Convolution.of(y.node)
    outputs, channels, *kernel = w.shape
    around, whole = list[tuple[int, int]](), list[tuple[int, int]]()
    for i in range(2):
        low, span = padding[i][0], (x.shape[2 + i] - 1) * spread[i]
        reach, last = dilation[i] * (kernel[i] - 1), (g.shape[2 + i] - 1) * stride[i]
        around.append((reach - low, span + low - last))
        whole.append((low, last + reach - span - low))
    per_group, batch = outputs // groups, len(x)
    turned = w[:, :, ::-1, ::-1].reshape(groups, per_group, channels, *kernel).swapaxes(1, 2)
    turned = turned.reshape(groups * channels, per_group, *kernel)
    by_image = g.convolved(turned, Convolution(spread, (around[0], around[1]), dilation, stride, groups))
    images = x.reshape(batch, groups, channels, *x.shape[2:]).transpose(2, 1, 0, 3, 4)
    images = images.reshape(channels, groups * batch, *x.shape[2:])
    slopes = g.swapaxes(0, 1)
    by_kernel = images.convolved(slopes, Convolution(dilation, (whole[0], whole[1]), stride, spread, groups))
    return by_image, by_kernel.swapaxes(0, 1)


class Bundle(dict[int, "Array"]):
    """The cotangent of a loop: those of its results, by their numbers."""

    def __add__(self, other: Bundle) -> Bundle:
        return Bundle({**self, **other, **{k: self[k] + other[k] for k in self.keys() & other.keys()}})


def _take_along(g: Array, y: Array, x: Array, index: Array) -> tuple[Operand, None]:
    axis = y.node.attributes["axis"]
    if index.shape[axis] != 1:
        return g.added_along(index, x.shape, axis), None
    # One element of each row: a comparison, which is fused with the nodes around it.
    at = index.index_in(x.shape[axis])
    is_it = g.counted(x.shape, axis, at.dtype) == np.broadcast_to(at, x.shape)
    return picked(is_it, np.broadcast_to(g, x.shape)), None


# --- the table
# fmt: off
# ruff: noqa: E501

def _map(name: str, slang: str, vjp: Vjp = none, flops: int = 1) -> OperatorRow:
    return OperatorRow(name, "map", slang, vjp, flops)


def _reduce(name: str, slang: str, start: str, vjp: Vjp = none) -> OperatorRow:
    return OperatorRow(name, "reduce", slang, vjp, 1, start)


_TABLE = (
    OperatorRow("input",          "source"),
    OperatorRow("captured",       "source"),
    OperatorRow("constant",       "source"),
    OperatorRow("broadcast",      "view", vjp=_broadcast),
    OperatorRow("transpose",      "view", vjp=lambda g, y, x: (g.transpose(np.argsort(y.node.attributes["order"])),)),
    OperatorRow("reshape",        "view", vjp=lambda g, y, x: (g.reshape(x.shape),)),
    OperatorRow("slice",          "view", vjp=lambda g, y, x: (g.placed(x.shape, y.node.attributes["starts"], y.node.attributes["steps"]),)),
    OperatorRow("windows",        "view", vjp=_windows),
    OperatorRow("stop_gradient",  "view", vjp=none),
    OperatorRow("shard",          "view", vjp=lambda g, y, x: (g,)),  # how many workers hold it; without effect on one worker
    OperatorRow("own_part",       "view"),  # a slice that differs between workers (workers/collectives.py)
    OperatorRow("place",          "part", vjp=lambda g, y, x: (g.sliced(x.shape, y.node.attributes["starts"], y.node.attributes["steps"]),)),
    OperatorRow("concatenate",    "part", vjp=_concatenate),
    OperatorRow("all_reduce",     "part", flops=0),
    OperatorRow("all_gather",     "exchange", flops=0),
    OperatorRow("all_to_all",     "exchange", flops=0),
    #    name            Slang                             derivative                                   flops
    _map("add",          "{0} + {1}",                      lambda g, y, a, b: (g, g)),
    _map("subtract",     "{0} - {1}",                      lambda g, y, a, b: (g, -g)),
    _map("multiply",     "{0} * {1}",                      lambda g, y, a, b: (g * b, g * a)),
    _map("divide",       "{0} / {1}",                      lambda g, y, a, b: (g / b, -(g * y / b)),     4),
    _map("negative",     "-{0}",                           lambda g, y, x: (-g,)),
    _map("positive",     "{0}",                            lambda g, y, x: (g,),                         0),
    _map("absolute",     "abs({0})",                       lambda g, y, x: (np.where(x == 0, 0, np.where(x < 0, -g, g)),)),
    _map("sign",         "({0} != {0} ? {0} : {T}(sign({0})))"),
    _map("square",       "{0} * {0}",                      lambda g, y, x: (2 * g * x,)),
    _map("reciprocal",   "{T}(1) / {0}",                   lambda g, y, x: (-g * y * y,),                4),
    _map("sqrt",         "sqrt({0})",                      lambda g, y, x: (0.5 * g / y,),               4),
    _map("cbrt",         "cbrt({0})",                      lambda g, y, x: (g / (3 * y * y),),          12),
    _map("exp",          "exp({0})",                       lambda g, y, x: (g * y,),                     8),
    _map("exp2",         "exp2({0})",                      lambda g, y, x: (g * y * LN2,),               8),
    _map("expm1",        "expm1({0})",                     lambda g, y, x: (g * (y + 1),),               8),
    _map("log",          "log({0})",                       lambda g, y, x: (g / x,),                     8),
    _map("log2",         "log2({0})",                      lambda g, y, x: (g / (x * LN2),),             8),
    _map("log10",        "log10({0})",                     lambda g, y, x: (g / (x * LN10),),            8),
    _map("log1p",        "log1p({0})",                     lambda g, y, x: (g / (1 + x),),               8),
    _map("sin",          "sin({0})",                       lambda g, y, x: (g * np.cos(x),),            12),
    _map("cos",          "cos({0})",                       lambda g, y, x: (-g * np.sin(x),),           12),
    _map("tan",          "tan({0})",                       lambda g, y, x: (g * (1 + y * y),),          16),
    _map("arcsin",       "asin({0})",                      lambda g, y, x: (g / np.sqrt((1 - x) * (1 + x)),),   12),
    _map("arccos",       "acos({0})",                      lambda g, y, x: (-g / np.sqrt((1 - x) * (1 + x)),),  12),
    _map("arctan",       "atan({0})",                      lambda g, y, x: (g / (1 + x * x),),          12),
    _map("sinh",         "sinh({0})",                      lambda g, y, x: (g * np.cosh(x),),           12),
    _map("cosh",         "cosh({0})",                      lambda g, y, x: (g * np.sinh(x),),           12),
    _map("tanh",         "tanh({0})",                      lambda g, y, x: (g * (1 - y * y),),          12),
    _map("arcsinh",      "asinh({0})",                     lambda g, y, x: (g / np.hypot(x, 1),),       12),
    _map("arccosh",      "acosh({0})",                     lambda g, y, x: (g / np.sqrt((x - 1) * (x + 1)),),   12),
    _map("arctanh",      "atanh({0})",                     lambda g, y, x: (g / ((1 - x) * (1 + x)),),  12),
    _map("arctan2",      "atan2({0}, {1})",                _arctan2,                                    16),
    _map("hypot",        "hypot({0}, {1})",                lambda g, y, a, b: (g * (a / y), g * (b / y)), 8),
    _map("power",        "power({0}, {1})",                _power,                                      20),
    _map("logaddexp",    "logaddexp({0}, {1})",            lambda g, y, a, b: (g * np.exp(a - y), g * np.exp(b - y)), 20),
    _map("maximum",      "larger({0}, {1})",               _extreme,                                     2),
    _map("minimum",      "smaller({0}, {1})",              _extreme,                                     2),
    _map("fmax",         "max({0}, {1})",                  _extreme),
    _map("fmin",         "min({0}, {1})",                  _extreme),
    _map("floor",        "floor({0})"),
    _map("ceil",         "ceil({0})"),
    _map("trunc",        "trunc({0})"),
    _map("rint",         "rint({0})"),
    _map("floor_divide", "floor_divide({0}, {1})",         flops=5),
    _map("remainder",    "remainder({0}, {1})",            lambda g, y, a, b: (g, -g * np.floor_divide(a, b)), 6),
    _map("deg2rad",      "{0} * {T}(0.017453292519943295lf)", lambda g, y, x: (g * (pi / 180),)),
    _map("rad2deg",      "{0} * {T}(57.29577951308232lf)",   lambda g, y, x: (g * (180 / pi),)),
    _map("equal",        "{0} == {1}"),
    _map("not_equal",    "{0} != {1}"),
    _map("less",         "{0} < {1}"),
    _map("less_equal",   "{0} <= {1}"),
    _map("greater",      "{0} > {1}"),
    _map("greater_equal", "{0} >= {1}"),
    _map("logical_and",  "({0} & {1})"),
    _map("logical_or",   "({0} | {1})"),
    _map("logical_xor",  "({0} != {1})"),
    _map("logical_not",  "!{0}"),
    _map("bitwise_and",  "{T}({0} & {1})"),
    _map("bitwise_or",   "{T}({0} | {1})"),
    _map("bitwise_xor",  "{T}({0} ^ {1})"),
    _map("invert",       "{T}(~{0})"),
    _map("left_shift",   "left_shift({0}, {1})"),
    _map("right_shift",  "right_shift({0}, {1})"),
    _map("isnan",        "isnan({0})"),
    _map("isinf",        "isinf({0})"),
    _map("isfinite",     "isfinite({0})"),
    _map("where",        "({0} ? {1} : {2})",              lambda g, y, c, a, b: (None, picked(c, g), np.where(c, 0, g))),
    _map("convert",      "{T}({0})",                       lambda g, y, x: (g.astype(x.dtype),)),
    _map("count",        ""),  # 0, 1, 2, ... along `axis`
    _map("index_in",     "index_in(int64_t({0}), int64_t({1}))", flops=3),
    _map("threefry",     "threefry({0}, {1})",             flops=100),  # random bits of a key and a count
    _map("gaussian",     "gaussian({0})",                  flops=80),
    _map("product",      "rounded({0}, {1})",              lambda g, y, a, b: (g * b, g * a)),
    OperatorRow("scan",           "loop", vjp=lambda g, y, *xs: y.node.attributes["loop"].cotangents(g, y, xs)),
    OperatorRow("attend",         "loop", vjp=lambda g, y, *xs: y.node.attributes["streamed"].cotangents(g, y, xs)),
    OperatorRow("result",         "result", vjp=lambda g, y, x: (Bundle({y.node.attributes["index"]: g}),)),
    _map("slang",        "",                               lambda g, y, *xs: y.node.attributes["function"].cotangents(g, xs), 20),
    #       name         Slang                    start
    _reduce("sum",       "{0} + {1}",             "{T}(0)",          lambda g, y, x: (_spread(g, y, x),)),
    _reduce("prod",      "{0} * {1}",             "{T}(1)",          _prod),
    _reduce("max",       "larger({0}, {1})",      "{T}.lowest()",    _largest),
    _reduce("min",       "smaller({0}, {1})",     "{T}.highest()",   _largest),
    OperatorRow("argmax",         "running", vjp=none),
    OperatorRow("argmin",         "running", vjp=none),
    OperatorRow("cumsum",         "running", vjp=_cumsum),
    OperatorRow("einsum",         "contract", vjp=_einsum),
    OperatorRow("conv",           "contract", vjp=_conv),
    OperatorRow("take_along",     "gather", vjp=_take_along),
    OperatorRow("add_along",      "scatter", vjp=lambda g, y, x, index: (np.take_along_axis(g, index, y.node.attributes["axis"]), None)),
)
# fmt: on
OPS = {op.name: op for op in _TABLE}


def kind_of(node: Node) -> str:
    return OPS[node.op].kind


def letters_in(product: str) -> tuple[list[str], str]:
    """The letters of the operands and of the result, as np.einsum has them."""
    ins, out = product.split("->")
    return ins.split(","), out


def is_view(node: Node) -> bool:
    return kind_of(node) == "view"


def behind_views(node: Node) -> tuple[Node, tuple[Node, ...]]:
    """The node that views show, and these views, the innermost first."""
    views: tuple[Node, ...] = ()
    while is_view(node):
        node, views = node.inputs[0], (node, *views)
    return node, views


def base_of(node: Node) -> Node:
    """The node that a view shows."""
    return behind_views(node)[0]
