"""The index map of each operator: it says which axes of inputs and of the result belong together.

    einsum ab,bc->ac        x: (0, 1), w: (1, 2), result: (0, 2)        shards of 1 give partial sums
    reshape (6, 4) (24,)    x: (0, None), result: (0,)                  the slowest axis of a group of axes

A factor is a number that stands for all axes that are cut together. An axis without a factor is not cut: each worker
needs all of it. From this table follow all ways to shard an operator, also users' Slang functions, which are maps.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from slangrad.graph.ir.node import Node, Shape
from slangrad.graph.ir.ops import kind_of, letters_in

Axes = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class IndexMap:
    """`inputs`, `output`: the factor of each axis. `combined`: how partial results are combined, for factors that the
    result does not have. `linear`: the inputs that may be partial sums, so that the result is one; where there are
    several, all are, or, with `exclusive`, just one of them."""

    inputs: tuple[Axes, ...]
    output: Axes
    combined: dict[int, str] = field(default_factory=dict)
    linear: tuple[int, ...] = ()
    exclusive: bool = False


def index_map_of(node: Node) -> IndexMap:
    """The index map of a node."""
    make = _OPS.get(node.op) or _KINDS.get(kind_of(node))
    return make(node) if make else IndexMap(tuple(_fixed(x.shape) for x in node.inputs), _fixed(node.shape))


def _fixed(shape: Shape) -> Axes:
    return (None,) * len(shape)


def _all(shape: Shape) -> Axes:
    return tuple(range(len(shape)))


def _but(axes: Axes, axis: int) -> Axes:
    return (*axes[:axis], None, *axes[axis + 1 :])


# --- maps


_LINEAR = {
    "add": (0, 1),
    "subtract": (0, 1),
    "negative": (0,),
    "positive": (0,),
    "multiply": (0, 1),
    "divide": (0,),
}


def _map(node: Node) -> IndexMap:
    return IndexMap(
        (_all(node.shape),) * len(node.inputs),
        _all(node.shape),
        linear=_LINEAR.get(node.op, ()) if node.dtype.kind == "f" else (),
        exclusive=node.op in ("multiply", "divide"),
    )


# --- views and parts


def _same(node: Node) -> IndexMap:
    return IndexMap((_all(node.shape),), _all(node.shape), linear=(0,))


def _broadcast(node: Node) -> IndexMap:
    (x,) = node.inputs
    new = len(node.shape) - len(x.shape)
    seen = tuple(new + i if n == node.shape[new + i] else None for i, n in enumerate(x.shape))
    return IndexMap((seen,), _all(node.shape), linear=(0,))


def _transpose(node: Node) -> IndexMap:
    return IndexMap((_all(node.shape),), tuple(node.attributes["order"]), linear=(0,))


def _reshape(node: Node) -> IndexMap:
    """Cut the axes of both sides into groups of the same size. The first axes of two groups share a factor."""
    (x,) = node.inputs
    sides = [[i for i, n in enumerate(shape) if n != 1] for shape in (x.shape, node.shape)]
    axes: tuple[list[int | None], list[int | None]] = ([None] * len(x.shape), [None] * len(node.shape))
    if not x.size:
        return IndexMap((tuple(axes[0]),), tuple(axes[1]), linear=(0,))
    i = j = factor = 0
    while i < len(sides[0]) and j < len(sides[1]):
        axes[0][sides[0][i]] = axes[1][sides[1][j]] = factor
        factor += 1
        a, b = x.shape[sides[0][i]], node.shape[sides[1][j]]
        while a != b:
            if a < b:
                i += 1
                a *= x.shape[sides[0][i]]
            else:
                j += 1
                b *= node.shape[sides[1][j]]
        i, j = i + 1, j + 1
    return IndexMap((tuple(axes[0]),), tuple(axes[1]), linear=(0,))


def _kept(node: Node) -> IndexMap:
    """Of `slice` and `place`: axes that are taken in full."""
    (x,) = node.inputs
    axes = tuple(
        i if n == m and step == 1 and not start else None
        for i, (n, m, start, step) in enumerate(
            zip(x.shape, node.shape, node.attributes["starts"], node.attributes["steps"], strict=True)
        )
    )
    return IndexMap((axes,), axes, linear=(0,))


def _concatenate(node: Node) -> IndexMap:
    axes = _but(_all(node.shape), node.attributes["axis"])
    return IndexMap((axes,) * len(node.inputs), axes, linear=tuple(range(len(node.inputs))))


def _windows(node: Node) -> IndexMap:
    (x,) = node.inputs
    axes = _but(_all(x.shape), node.attributes["axis"])
    return IndexMap((axes,), (*axes, None), linear=(0,))


# --- sums


def _reduce(node: Node) -> IndexMap:
    (x,) = node.inputs
    gone, how = node.attributes["axes"], node.op
    axes = _all(x.shape)
    if how not in ("sum", "max", "min"):
        axes = tuple(None if i in gone else i for i in axes)
    combined = {i: how for i in gone if axes[i] is not None}
    return IndexMap((axes,), _rest(axes, gone), combined, linear=(0,) if how == "sum" else ())


def _rest(axes: Axes, gone: Container[int]) -> Axes:
    return tuple(factor for i, factor in enumerate(axes) if i not in gone)


def _running(node: Node) -> IndexMap:
    (x,) = node.inputs
    (axis,) = node.attributes["axes"]
    axes = _but(_all(x.shape), axis)
    return IndexMap((axes,), axes if len(node.shape) == len(x.shape) else _rest(axes, (axis,)))


def _einsum(node: Node) -> IndexMap:
    ins, out = letters_in(node.attributes["letters"])
    names = {letter: i for i, letter in enumerate(dict.fromkeys("".join(ins)))}
    left, right = (tuple(names[letter] for letter in operand) for operand in ins)
    combined = {i: "sum" for letter, i in names.items() if letter not in out}
    return IndexMap(
        (left, right), tuple(names[letter] for letter in out), combined, linear=(0, 1), exclusive=True
    )


def _conv(node: Node) -> IndexMap:
    """Images, and where there are no groups output channels and input channels."""
    kernel = (None,) * (len(node.shape) - 2)
    if node.attributes["groups"] != 1:
        return IndexMap(
            ((0, None, *kernel), (None, None, *kernel)), (0, None, *kernel), linear=(0, 1), exclusive=True
        )
    inputs = (0, 1, *kernel), (2, 1, *kernel)
    return IndexMap(inputs, (0, 2, *kernel), {1: "sum"}, linear=(0, 1), exclusive=True)


def _take_along(node: Node) -> IndexMap:
    axes = _all(node.shape)
    return IndexMap((_but(axes, node.attributes["axis"]), axes), axes, linear=(0,))


def _add_along(node: Node) -> IndexMap:
    axis, axes = node.attributes["axis"], _all(node.shape)
    return IndexMap((axes, axes), _but(axes, axis), {axis: "sum"}, linear=(0,))


# --- loops: their results have a rule of their own


def _attend(node: Node) -> IndexMap:
    """Stacks of matrices: all axes in front."""
    inputs = tuple(
        tuple(range(len(node.inputs[0].shape) - 2)) + (None,) * (len(x.shape) - len(node.inputs[0].shape) + 2)
        for x in node.inputs
    )
    return IndexMap(inputs, (None,))


def _result(node: Node) -> IndexMap:
    (loop,) = node.inputs
    if loop.op != "attend":
        return IndexMap(((None,),), _fixed(node.shape))
    front = len(loop.inputs[0].shape) - 2
    return IndexMap(((None,),), (*range(front), *(None,) * (len(node.shape) - front)))


_KINDS: dict[str, Callable[[Node], IndexMap]] = {"map": _map, "reduce": _reduce, "running": _running}
_OPS: dict[str, Callable[[Node], IndexMap]] = {
    "broadcast": _broadcast, "transpose": _transpose, "reshape": _reshape, "slice": _kept, "place": _kept,
    "windows": _windows, "stop_gradient": _same, "shard": _same, "concatenate": _concatenate, "einsum": _einsum,
    "conv": _conv, "take_along": _take_along, "add_along": _add_along, "attend": _attend, "result": _result,
}  # fmt: skip
