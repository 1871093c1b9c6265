"""Products of matrices by the template `kernels/graph_products.slang`, or by a library.

    einsum(bij,jk->bik)     a copy of an operand that the template cannot read; whole blocks of columns; other columns

A map that alone reads a product is its epilogue: it is computed where a sum is ready. The text of a kernel depends on
types and on which strides are 0 and 1, so products of many shapes share one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from math import prod
from typing import Any

import numpy as np

from slangrad.graph.choose import SLANG
from slangrad.graph.emit import (
    WRITERS,
    Argument,
    Grid,
    Kernel,
    Numbers,
    Part,
    Product,
    Step,
    Temporary,
    Text,
    function_of,
    kernel_of,
    seen,
    start_of,
)
from slangrad.graph.fuse import Fusion, Group, joined
from slangrad.graph.layout import Layout, dense, reshaped
from slangrad.graph.library import NUMPY
from slangrad.graph.node import DType, Node, Shape
from slangrad.graph.types import type_of, wide_of

Results = Sequence[tuple[Node, str]]
WIDTH = 64  # columns of a block
FOUND: Any = np.show_config(mode="dicts")  # also of the processor's instructions
HAS_512 = any("512" in each or each == "X86_V4" for each in FOUND["SIMD Extensions"]["found"])
MOST_ROWS, MOST_BYTES = (8, 128) if HAS_512 else (6, 64)  # of a tile: its sums fill most of the registers
# Bytes between the first and the last line of a block that are too many for its lines to stay in caches.
PACKED = 8 << 20


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its size, and how far each array moves with it: the left operand, the right one, other arrays."""

    size: int
    strides: tuple[int, ...]


@dataclass(slots=True)
class Tiles:
    """A product as loops: `outer` ones, `rows`, `columns` (over the lanes), and those of the sum. `block`: how far the
    right operand moves with a block of columns. `steps`: kernels that copy operands."""

    parts: list[Part]
    outer: list[Axis]
    rows: Axis
    columns: Axis
    depth: list[Axis]
    width: int = 0
    block: int = 0
    steps: list[Step] = field(default_factory=list)


def ended(fusion: Fusion, group: Group) -> tuple[Node, Text, Results]:
    """The product of a group, the text of the map that ends it, and the stored values; "" is the sum itself."""
    node, text = group.inner or group.roots[0], Text(fusion, group)
    results = [(each, text.of(each)) for each in group.roots] if group.inner else [(node, "")]
    return node, text, results


def _product(fusion: Fusion, group: Group) -> list[Step]:
    node, text, results = ended(fusion, group)
    letters, parts = node.attributes["letters"], [seen(fusion, each) for each in node.inputs]
    if not node.size:
        return []
    moved = sum(root.nbytes for root in group.roots) + node.nbytes if group.inner else 0
    # A tensor of uint64 could be one of addresses, too, where a kernel takes a pointer.
    by_slang = node.dtype not in (np.bool_, np.uint64) and all(x.size for x in node.inputs)
    way = fusion.choose(node, parts, moved) if by_slang else NUMPY
    if way == SLANG:
        return tiled(node, letters, parts, node.shape, text, results)
    multiply = Product(node, letters, parts, Part(node, dense(node.shape)), way)
    outputs = [Part(each, dense(each.shape)) for each in group.roots]
    return [multiply, function_of(text, results, outputs, group.shape)] if group.inner else [multiply]


WRITERS["contract"] = _product


# --- loops


def tiles_of(node: Node, letters: str, parts: Sequence[Part], others: Sequence[Layout]) -> Tiles:
    """`others`: layouts over the axes of the result; the first is the result's."""
    ins, out = letters.split("->")
    (left, a), (right, b) = zip(ins.split(","), parts, strict=True)
    sizes = dict(zip(left + right, a.layout.shape + b.layout.shape, strict=True))
    count = {names: prod(sizes[c] for c in names if c in out) for names in (left, right)}
    if (out and out[-1] not in right and count[left] >= 8) or (count[right] < 8 <= count[left]):
        left, a, right, b = right, b, left, a
    strides = [
        dict(zip(left, a.layout.strides, strict=True)),
        dict(zip(right, b.layout.strides, strict=True)),
    ]
    strides += [dict(zip(out, each.strides, strict=True)) for each in others]

    def loops(letters: Sequence[str], among: int) -> list[Axis]:
        found, steps = joined(
            [sizes[c] for c in letters], [[s.get(c, 0) for c in letters] for s in strides[:among]]
        )
        return [Axis(n, tuple(step[i] for step in steps)) for i, n in enumerate(found)]

    one = Axis(1, (0,) * len(strides))
    outer = loops([c for c in out if c in left and c in right], len(strides))
    rows = loops([c for c in out if c not in right], len(strides)) or [one]
    columns = loops([c for c in out if c not in left], len(strides)) or [one]
    depth = loops([c for c in left if c not in out], 2) or [one]
    made = Tiles([a, b], [*outer, *rows[:-1], *columns[:-1]], rows[-1], columns[-1], depth)
    return _readable(made, node)


def _readable(made: Tiles, node: Node) -> Tiles:
    """With copies of operands whose sums are no single loop, or whose columns do not lie side by side."""
    step, far = made.columns.strides[1], made.depth[0].strides[1] * made.depth[0].size * node.dtype.itemsize
    split = len(made.depth) > 1
    made.width = min(WIDTH, made.columns.size)
    made.block = made.width * step
    if split or (made.columns.size > 1 and step != 1) or (far > PACKED and made.rows.size > WIDTH):
        _copy_in_blocks(made, node)
    if split:
        _copy_lines(made, node)
    return made


def _copy_in_blocks(made: Tiles, node: Node) -> None:
    """The right operand as blocks of columns, in each the lines of the sum, in each the columns side by side."""
    kept, source, width = [each for each in made.outer if each.strides[1]], made.parts[1], made.width
    count, rest = divmod(made.columns.size, width)
    before, deep = tuple(x.size for x in kept), tuple(x.size for x in made.depth)
    to = dense((*before, -(-made.columns.size // width), *deep, width))
    held, n = Temporary(to.shape, node.dtype, (node, 1)), len(before)
    out, across = [x.strides[1] for x in kept], made.columns.strides[1]
    down = [x.strides[1] for x in made.depth]
    whole = Layout(
        (*before, count, *deep, width), (*out, width * across, *down, across), source.layout.offset
    )
    edge = Layout(
        (*before, *deep, rest), (*out, *down, across), source.layout.offset + count * width * across
    )
    inside = Layout(edge.shape, (*to.strides[:n], *to.strides[n + 1 :]), count * prod(deep) * width)
    made.steps.append(_copy(source, whole, Part(held, Layout(whole.shape, to.strides)), node.dtype))
    made.steps += [_copy(source, edge, Part(held, inside), node.dtype)] if rest else []
    made.parts[1] = Part(held, to)
    made.block = prod(deep) * width
    _move(made, 1, kept, to.strides)
    made.columns = _moved(made.columns, 1, 1)
    made.depth = [
        _moved(each, 1, width * below) for each, below in zip(made.depth, dense(deep).strides, strict=True)
    ]


def _copy_lines(made: Tiles, node: Node) -> None:
    """The left operand with the lines of the sum side by side."""
    kept, source = [each for each in made.outer if each.strides[0]], made.parts[0]
    axes = [*kept, made.rows, *made.depth]
    to = dense(tuple(each.size for each in axes))
    held = Temporary(to.shape, node.dtype, (node, 0))
    seen_as = Layout(to.shape, tuple(each.strides[0] for each in axes), source.layout.offset)
    made.steps.append(_copy(source, seen_as, Part(held, to), node.dtype))
    made.parts[0] = Part(held, to)
    _move(made, 0, kept, to.strides)
    made.rows = _moved(made.rows, 0, to.strides[len(kept)])
    size = prod(each.size for each in made.depth)
    made.depth = [Axis(size, (1, made.width))]


def _move(made: Tiles, k: int, kept: Sequence[Axis], strides: Sequence[int]) -> None:
    """Outer loops over an array that has other strides now."""
    new = {id(axis): _moved(axis, k, step) for axis, step in zip(kept, strides, strict=False)}
    made.outer = [new.get(id(axis), axis) for axis in made.outer]


def _moved(axis: Axis, k: int, stride: int) -> Axis:
    return Axis(axis.size, (*axis.strides[:k], stride, *axis.strides[k + 1 :]))


def _copy(source: Part, at: Layout, to: Part, dtype: DType) -> Kernel:
    kind = type_of(dtype)
    return kernel_of("copy", kind, [f"{kind} x"], ["return x;"], [Part(source.holder, at)], [to], True)


# --- calls


def at_end(node: Node, shape: Shape, text: Text, results: Results) -> list[Part] | None:
    """Results and the arrays that the end reads, over the axes of `shape`; None where no strides show one so."""
    given = [leaf for leaf in text.leaves if leaf.node is not node]
    views = [reshaped(leaf.layout, shape) for leaf in given]
    made = [Part(leaf.node, view) for leaf, view in zip(given, views, strict=True) if view is not None]
    return [*(Part(root, dense(shape)) for root, _ in results), *made] if len(made) == len(given) else None


def tiled(
    node: Node, letters: str, parts: Sequence[Part], shape: Shape, text: Text, results: Results
) -> list[Step]:
    """Calls of the template: over whole blocks of columns, and over the columns that are left."""
    ends = at_end(node, shape, text, results)
    assert ends is not None
    made = tiles_of(node, letters, parts, [each.layout for each in ends])
    arrays = [*made.parts, *ends]
    full = lanes = MOST_BYTES // max(4, node.dtype.itemsize)
    while lanes > 8 and made.columns.size <= lanes // 2:
        lanes //= 2
    panels = -(-made.rows.size // (MOST_ROWS * full // lanes))
    height = -(-made.rows.size // panels)
    numbers = [made.rows.size, made.width, made.depth[0].size, made.rows.strides[0], made.depth[0].strides[0]]
    numbers += [made.block, made.depth[0].strides[1]]
    kind, wide, axes = type_of(node.dtype), type_of(wide_of(node.dtype)), len(made.outer)
    call = Call(
        [kind, kind],
        len(numbers),
        [
            f"Rows<{wide}, {kind}> a = {{ LEFT, n[3], n[4], n[0] - 1 }};",
            f"Columns<{wide}, {kind}> b = {{ RIGHT, n[5], n[6] }};",
            f"multiply<{wide}, {height}>(at[{axes + 1}], at[{axes}], at[{axes + 2}], n[0], n[1], n[2], a, b, END);",
        ],
        lanes,
    )
    numbers += strides_of(made)
    kernel = kernel_with_end(node, text, results, made, call)
    blocks, rest = divmod(made.columns.size, made.width)
    outer = tuple(axis.size for axis in made.outer)
    steps = list(made.steps)
    for first, shape in ((0, (blocks, panels, made.width)), (blocks, (1, panels, rest))):
        if prod(shape):
            moves = [0, made.block, *(made.width * step for step in made.columns.strides[2:])]
            places = [start_of(each, first * move) for each, move in zip(arrays, moves, strict=True)]
            n = 2 + len(results)
            arguments: list[Argument] = [
                Grid((*outer, *shape)),
                Numbers(tuple(numbers)),
                *places[:2],
                *places[n:],
            ]
            steps.append(kernel(arguments, places[2:n]))
    return steps


@dataclass(frozen=True, slots=True)
class Call:
    """A template: the types of its operands, how many numbers it has of its own, its lines, how many lanes it runs on.
    In the lines LEFT and RIGHT stand for the operands where outer loops are, END for the struct that takes a sum."""

    operands: list[str]
    numbers: int
    lines: list[str]
    lanes: int


def strides_of(made: Tiles) -> list[int]:
    """The numbers that follow those of the template."""
    outer = [step for axis in made.outer for step in axis.strides]
    return [*made.rows.strides[2:], *made.columns.strides[2:], *outer]


def kernel_with_end(
    node: Node, text: Text, results: Results, made: Tiles, call: Call
) -> Callable[[list[Argument], list[Part]], Kernel]:
    """The function, as a kernel of arguments that are still to come."""
    wide = type_of(wide_of(node.dtype))
    arrays = [(f"r{i}", type_of(root.dtype)) for i, (root, _) in enumerate(results)]
    given = [
        (f"{name}s", type_of(leaf.node.dtype)) for leaf, name in text.leaves.items() if leaf.node is not node
    ]
    outer, count = len(made.outer), len(arrays) + len(given)
    first = call.numbers + 2 * count  # of the numbers: where those of outer loops begin

    def start(name: str, k: int) -> str:
        return " + ".join([name, *(f"at[{i}] * n[{first + i * (count + 2) + k}]" for i in range(outer))])

    struct = _end(node, text, results, [*arrays, *given], made.columns.strides[2:], wide)
    values = [
        f"{start(name, k + 2)}, n[{call.numbers + k}], n[{call.numbers + count + k}]"
        for k, (name, _) in enumerate([*arrays, *given])
    ]
    end = f"End_{sha1(repr((struct, call, values)).encode()).hexdigest()[:10]}"
    made_of = {"LEFT": start("left", 0), "RIGHT": start("right", 1), "END": "end"}
    lines = [f"{end} end = {{ {', '.join(values)} }};"]
    lines += [re.sub("LEFT|RIGHT|END", lambda found: made_of[found[0]], line) for line in call.lines]
    parameters = [f"int at[{outer + 3}]", f"int n[{first + outer * (count + 2)}]"]
    parameters += [
        f"{each}* {name}" for name, each in [*zip(("left", "right"), call.operands), *given, *arrays]
    ]

    def of(arguments: list[Argument], outputs: list[Part]) -> Kernel:
        made = kernel_of("product", "void", parameters, lines, arguments, outputs, False)
        return replace(made, text=f"struct {end} {struct}{made.text}", group=(), lanes=call.lanes)

    return of


def _end(
    node: Node,
    text: Text,
    results: Results,
    arrays: Sequence[tuple[str, str]],
    steps: Sequence[int],
    wide: str,
) -> str:
    """The struct that stores sums, without its name. `steps`: how far arrays move with a column."""
    kind, places = type_of(node.dtype), []
    for (name, _), step in zip(arrays, steps, strict=True):
        along = {0: "", 1: " + j"}.get(step, f" + j * {name}_step")
        places.append(f"{name}[i * {name}_line{along}]")
    fields = [f"{each}* {name}; int {name}_line, {name}_step;" for name, each in arrays]
    rest = iter(places[len(results) :])
    body = [
        f"{type_of(leaf.node.dtype)} {name} = {f'{kind}(sum)' if leaf.node is node else next(rest)};"
        for leaf, name in text.leaves.items()
    ]
    body += text.lines
    body += [
        f"{place} = {value or f'{kind}(sum)'};" for place, (_, value) in zip(places, results, strict=False)
    ]
    lines = [*(f"    {each}" for each in fields), f"    void store(int i, int j, {wide} sum)", "    {"]
    lines += [*(f"        {each}" for each in body), "    }", "}", ""]
    return f": IEpilogue<{wide}>\n{{\n" + "\n".join(lines)
