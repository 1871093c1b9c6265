"""Products of matrices by the template `kernels/graph_products.slang`, or by a library.

    einsum(bij,jk->bik)     a copy of an operand that the template cannot read; whole blocks of columns; other columns

A map that alone reads a product is its epilogue: it is computed where a sum is ready. The text of a kernel depends on
types and on which strides are 0 and 1, so products of many shapes share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from math import prod
from typing import Any

import numpy as np

from slangrad.graph.ir.layout import StridedLayout, dense, joined, reshaped
from slangrad.graph.ir.node import DType, Node, Shape
from slangrad.graph.ir.ops import letters_in
from slangrad.graph.ir.types import type_of, wide_of
from slangrad.graph.lowering.choose import SLANG, ProductRead
from slangrad.graph.lowering.emit import (
    RESULT,
    TEMPLATES,
    WRITERS,
    Text,
    block,
    function_of,
    kernel_of,
    seen,
    start_of,
    stored,
    template_of,
)
from slangrad.graph.lowering.library import NUMPY
from slangrad.graph.lowering.steps import KernelStep, MemoryPart, PlanStep, ProductStep, TemporaryMemory
from slangrad.graph.rewriting.fuse import ArrayRead, Fusion, Group

WIDTH = 64  # columns of a block
FOUND: Any = np.show_config(mode="dicts")  # a tree of texts, also of the processor's instructions
HAS_512 = any("512" in name or name == "X86_V4" for name in FOUND["SIMD Extensions"]["found"])
MOST_ROWS, MOST_BYTES = (8, 128) if HAS_512 else (6, 64)  # of a tile: its sums fill most of the registers
LEAST = 16  # threads along a row: with fewer, a call has other rows on its lanes
# Bytes between the first and the last line of a block that are too many pages for its lines to be found quickly, and
# those between two lines that put all lines into the same places of a cache.
FAR, ALIGNED = 1 << 18, 4096
# The same for the left operand. Its copy takes longer, so this many columns of the right one have to read it.
FAR_LEFT, MANY = 1 << 19, 256
PACKED_LINES = 64  # that a thread copies
NEAR = 1 << 18  # bytes of the right operand that stay in a processor's cache while all rows go by


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its size, and how far each array moves with it: the left operand, the right one, other arrays."""

    size: int
    strides: tuple[int, ...]


@dataclass(slots=True)
class Tiles:
    """A product as loops: `outer` ones, `rows`, `columns` (over the lanes), and those of the sum. `block`: how far the
    right operand moves with a block of columns. `steps`: kernels that copy operands."""

    parts: list[MemoryPart]
    outer: list[Axis]
    rows: Axis
    columns: Axis
    depth: list[Axis]
    width: int = 0
    block: int = 0
    steps: list[PlanStep] = field(default_factory=list)
    kind: str = "product"  # of the kernel


class Epilogue:
    """The map that ends a product, computed where a sum is ready. `values`: those that are stored, by their roots; ""
    is the sum itself."""

    def __init__(self, fusion: Fusion, group: Group) -> None:
        self.fusion, self.group, self.text = fusion, group, Text(fusion, group)
        self.product = group.inner or group.roots[0]
        self.values = {root: self.text.of(root) if group.inner else "" for root in group.roots}

    @property
    def reads(self) -> dict[ArrayRead, str]:
        """The arrays that it reads beside the product."""
        return {leaf: name for leaf, name in self.text.leaves.items() if leaf.node is not self.product}

    def parts(self, shape: Shape) -> list[MemoryPart] | None:
        """Results and the arrays that it reads, over the axes of `shape`; None where no strides show one so."""
        views = [(leaf.node, reshaped(leaf.layout, shape)) for leaf in self.reads]
        read = [MemoryPart(node, view) for node, view in views if view is not None]
        results = [result_of(self.fusion, root, shape) for root in self.values]
        return [*results, *read] if len(read) == len(views) else None

    def apart(self, steps: list[PlanStep]) -> list[PlanStep]:
        """As a kernel of its own, behind steps that store the product."""
        if self.group.inner is None:
            return steps
        results = [(value, stored(root)) for root, value in self.values.items()]
        return [*steps, function_of(self.text, results, self.group.shape)]

    def struct(self, steps: Sequence[int]) -> str:
        """That stores sums, without its name. `steps`: how far arrays move with a column."""
        node, wide = self.product, type_of(wide_of(self.product.dtype))
        total, kinds = f"{type_of(node.dtype)}(sum)", [type_of(root.dtype) for root in self.values]
        arrays = [(f"r{i}", kind) for i, kind in enumerate(kinds)]
        arrays += [(f"{name}s", type_of(leaf.node.dtype)) for leaf, name in self.reads.items()]
        fields = [f"{kind}* {name}; int {name}_line, {name}_step;" for name, kind in arrays]
        along = [
            {0: "", 1: " + j"}.get(step, f" + j * {name}_step") for (name, _), step in zip(arrays, steps)
        ]
        places = [f"{name}[i * {name}_line{axis}]" for (name, _), axis in zip(arrays, along, strict=True)]
        rest = iter(places[len(kinds) :])
        body = [
            f"{type_of(leaf.node.dtype)} {name} = {total if leaf.node is node else next(rest)};"
            for leaf, name in self.text.leaves.items()
        ]
        body += self.text.lines
        body += [f"{place} = {value or total};" for place, value in zip(places, self.values.values())]
        store = block(f"void store(int i, int j, {wide} sum)", body)
        return "\n".join([*block(f": IEpilogue<{wide}>", [*fields, *store]), ""])


def products_of(fusion: Fusion) -> Iterator[ProductRead]:
    """The products of a graph for which there is a choice."""
    for group in filter(has_choice, fusion.groups):
        yield _read_by(fusion, group)


def has_choice(group: Group) -> bool:
    """Whether the template or a library may compute a group."""
    node = group.inner or group.roots[0]
    return group.kind == "contract" and node.op not in TEMPLATES and _is_for_libraries(node)


def _is_for_libraries(node: Node) -> bool:
    return bool(node.size) and node.dtype != np.bool_ and all(x.size for x in node.inputs)


def _read_by(fusion: Fusion, group: Group) -> ProductRead:
    node = group.inner or group.roots[0]
    moved = sum(root.nbytes for root in group.roots) + node.nbytes if group.inner else 0
    return ProductRead(node, [seen(fusion, operand) for operand in node.inputs], moved)


def _product(fusion: Fusion, group: Group) -> list[PlanStep]:
    end, (node, parts, moved) = Epilogue(fusion, group), _read_by(fusion, group)
    letters = node.attributes["letters"]
    if not node.size:
        return []
    choice = fusion.choose(node, parts, moved) if has_choice(group) else NUMPY
    if choice == SLANG:
        return tiled(end, letters, parts, node.shape)
    reads = dict(zip("ab", parts, strict=True))
    result = result_of(fusion, node, node.shape)
    return end.apart([ProductStep(letters, choice, reads=reads, writes={RESULT: result})])


def result_of(fusion: Fusion, root: Node, shape: Shape) -> MemoryPart:
    """The memory of a result over the axes of `shape`, its own or a place in another array."""
    return MemoryPart(*fusion.placed.get(root, (root, dense(shape))))


WRITERS["contract"] = _product


# --- loops


def tiles_of(node: Node, letters: str, parts: Sequence[MemoryPart], others: Sequence[StridedLayout]) -> Tiles:
    """`others`: layouts over the axes of the result; the first is the result's."""
    (left, right), out = letters_in(letters)
    a, b = parts
    sizes = dict(zip(left + right, a.layout.shape + b.layout.shape, strict=True))
    count = {names: prod(sizes[c] for c in names if c in out) for names in (left, right)}
    steps = dict(zip(left, a.layout.strides, strict=True))
    lines_up = any(steps[c] == 1 for c in out if c in left and c not in right)  # its rows can be on the lanes
    along = next((c for c, step in zip(out, others[0].strides, strict=True) if step == 1), out[-1:])
    if (along and along not in right and count[left] >= 8) or (count[right] < 8 <= count[left] and lines_up):
        left, a, right, b = right, b, left, a
    strides = [
        dict(zip(left, a.layout.strides, strict=True)),
        dict(zip(right, b.layout.strides, strict=True)),
    ]
    strides += [dict(zip(out, layout.strides, strict=True)) for layout in others]

    def loops(letters: Sequence[str], among: int) -> list[Axis]:
        counts, steps = joined(
            [sizes[c] for c in letters], [[s.get(c, 0) for c in letters] for s in strides[:among]]
        )
        return [Axis(n, tuple(step[i] for step in steps)) for i, n in enumerate(counts)]

    one = Axis(1, (0,) * len(strides))
    outer = loops([c for c in out if c in left and c in right], len(strides))
    rows = loops([c for c in out if c not in right], len(strides)) or [one]
    columns = loops([c for c in out if c not in left], len(strides)) or [one]
    depth = loops([c for c in left if c not in out], 2) or [one]
    tiles = Tiles([a, b], [*outer, *rows[:-1], *columns[:-1]], rows[-1], columns[-1], depth)
    return _readable(tiles, node)


def _readable(tiles: Tiles, node: Node) -> Tiles:
    """With copies of operands whose sums are no single loop, whose columns do not lie side by side, or whose lines lie
    far apart."""
    step, split = tiles.columns.strides[1], len(tiles.depth) > 1
    left, right = (down * node.dtype.itemsize for down in tiles.depth[0].strides[:2])
    far_left = left * tiles.depth[0].size > FAR_LEFT and tiles.columns.size >= MANY
    far_right = right * tiles.depth[0].size > FAR or (right > 0 and right % ALIGNED == 0)
    tiles.width = min(WIDTH, tiles.columns.size)
    tiles.block = tiles.width * step
    if split or (tiles.columns.size > 1 and step != 1) or (far_right and tiles.rows.size > WIDTH):
        _copy_in_blocks(tiles, node)
    if split or far_left:
        _copy_lines(tiles, node)
    return tiles


def _copy_in_blocks(tiles: Tiles, node: Node) -> None:
    """The right operand as blocks of columns, in each the lines of the sum, in each the columns side by side."""
    kept, source, width = [axis for axis in tiles.outer if axis.strides[1]], tiles.parts[1], tiles.width
    blocks, (*deep, lines) = -(-tiles.columns.size // width), tiles.depth
    axes = [*kept, Axis(blocks, (0, width * tiles.columns.strides[1])), *deep]
    to = dense((*(axis.size for axis in axes), lines.size, width))
    held = TemporaryMemory(to.shape, node.dtype, (node, 1))
    moves = [step for axis, into in zip(axes, to.strides, strict=False) for step in (axis.strides[1], into)]
    below, across = lines.strides[1], tiles.columns.strides[1]
    numbers = [width, tiles.columns.size, lines.size, below, across, *moves]
    first = len(numbers) - len(moves)
    starts = [
        " + ".join([name, *(f"at[{i}] * n[{first + 2 * i + k}]" for i in range(len(axes)))])
        for k, name in enumerate(("from", "to"))
    ]
    n, kind, step = len(axes), type_of(node.dtype), int(across == 1)
    text = [
        f"int k = at[{n}] * {PACKED_LINES}, lane = at[{n + 1}];",
        f"if (lane < min(n[0], n[1] - at[{len(kept)}] * n[0]))",
        f"    pack<{kind}, {step}>(k, min({PACKED_LINES}, n[2] - k), n[0], lane, {starts[0]}, n[3], n[4], "
        f"{starts[1]});",
    ]
    grid = *to.shape[:n], -(-lines.size // PACKED_LINES), max(width, LEAST)
    pack = template_of("pack", grid, numbers, {"from": source}, text, {"to": MemoryPart(held, to)})
    tiles.steps.append(replace(pack, lanes=_lanes(node, width)))
    tiles.parts[1] = MemoryPart(held, to)
    tiles.block = prod(to.shape[-2 - len(deep) :])
    _move(tiles, 1, kept, to.strides)
    tiles.columns = _moved(tiles.columns, 1, 1)
    tiles.depth = [
        _moved(axis, 1, into) for axis, into in zip(tiles.depth, to.strides[len(kept) + 1 :], strict=False)
    ]


def _copy_lines(tiles: Tiles, node: Node) -> None:
    """The left operand with the lines of the sum side by side."""
    kept, source = [axis for axis in tiles.outer if axis.strides[0]], tiles.parts[0]
    axes = [*kept, tiles.rows, *tiles.depth]
    to = dense(tuple(axis.size for axis in axes))
    held = TemporaryMemory(to.shape, node.dtype, (node, 0))
    seen_as = StridedLayout(to.shape, tuple(axis.strides[0] for axis in axes), source.layout.offset)
    tiles.steps.append(_copy(source, seen_as, MemoryPart(held, to), node.dtype))
    tiles.parts[0] = MemoryPart(held, to)
    _move(tiles, 0, kept, to.strides)
    tiles.rows = _moved(tiles.rows, 0, to.strides[len(kept)])
    size = prod(axis.size for axis in tiles.depth)
    tiles.depth = [Axis(size, (1, tiles.depth[-1].strides[1]))]


def _move(tiles: Tiles, k: int, kept: Sequence[Axis], strides: Sequence[int]) -> None:
    """Outer loops over an array that has other strides now."""
    new = {id(axis): _moved(axis, k, step) for axis, step in zip(kept, strides, strict=False)}
    tiles.outer = [new.get(id(axis), axis) for axis in tiles.outer]


def _moved(axis: Axis, k: int, stride: int) -> Axis:
    return Axis(axis.size, (*axis.strides[:k], stride, *axis.strides[k + 1 :]))


def _copy(source: MemoryPart, at: StridedLayout, to: MemoryPart, dtype: DType) -> KernelStep:
    kind = type_of(dtype)
    return kernel_of("copy", {f"{kind} x": MemoryPart(source.holder, at)}, ["return x;"], {RESULT: to}, kind)


# --- calls


def tiled(end: Epilogue, letters: str, parts: Sequence[MemoryPart], shape: Shape) -> list[PlanStep]:
    """Calls of the template: over whole blocks of columns, and over the columns that are left."""
    node, ends = end.product, end.parts(shape)
    assert ends is not None
    tiles = tiles_of(node, letters, parts, [part.layout for part in ends])
    arrays = [*tiles.parts, *ends]
    lanes = _lanes(node, tiles.columns.size)
    panels = -(-tiles.rows.size // MOST_ROWS)
    height = -(-tiles.rows.size // panels)
    numbers = [
        tiles.rows.size,
        tiles.width,
        tiles.depth[0].size,
        tiles.rows.strides[0],
        tiles.depth[0].strides[0],
    ]
    numbers += [tiles.block, tiles.depth[0].strides[1]]
    kind, wide, axes = type_of(node.dtype), type_of(wide_of(node.dtype)), len(tiles.outer)
    step, plain = int(tiles.depth[0].strides[0] == 1), int(end.group.inner is None)
    lines = [
        f"multiply<{wide}, {kind}, {height}, {step}, {plain}>(at[{axes + 1}], at[{axes}] * n[7] + at[{axes + 2}], "
        f"at[{axes + 3}], n[0], n[1], n[2], LEFT, n[3], n[4], RIGHT, n[5], n[6], END);"
    ]
    blocks, rest = divmod(tiles.columns.size, tiles.width)
    steps, most = list(tiles.steps), NEAR // (tiles.width * tiles.depth[0].size * node.dtype.itemsize)
    near = max((n for n in range(1, most + 1) if blocks % n == 0), default=1)
    for first, grid in ((0, (blocks // near, panels, near, tiles.width)), (blocks, (1, panels, 1, rest))):
        if prod(grid):
            moves = [0, tiles.block, *(tiles.width * step for step in tiles.columns.strides[2:])]
            places = [start_of(part, first * move) for part, move in zip(arrays, moves, strict=True)]
            column, across = f"at[{axes + 3}]", max(grid[3], LEAST)
            text = lines if across == grid[3] else [f"if ({column} < n[8]) {lines[0]}"]
            call = TemplateCall(places, (*grid[:3], across), [*numbers, *grid[2:]], text, lanes)
            steps.append(with_end(end, tiles, call))
    return steps


def _lanes(node: Node, columns: int) -> int:
    lanes = MOST_BYTES // max(4, node.dtype.itemsize)
    while lanes > LEAST and columns <= lanes // 2:
        lanes //= 2
    return lanes


def numbers_of(tiles: Tiles) -> list[int]:
    """The strides that follow the numbers of the template."""
    outer = [step for axis in tiles.outer for step in axis.strides]
    return [*tiles.rows.strides[2:], *tiles.columns.strides[2:], *outer]


@dataclass(frozen=True, slots=True)
class TemplateCall:
    """`places`: the operands, then the arrays that the end reads and writes. `numbers` and `lines` are those of the
    template; in the lines LEFT and RIGHT stand for the operands where outer loops are, END for the struct that takes a
    sum."""

    places: Sequence[MemoryPart]
    grid: Shape
    numbers: Sequence[int]
    lines: Sequence[str]
    lanes: int


def with_end(end: Epilogue, tiles: Tiles, call: TemplateCall) -> KernelStep:
    """A call over the outer loops and a grid."""
    numbers, lines, lanes = call.numbers, call.lines, call.lanes
    results = [f"r{i}" for i in range(len(end.values))]
    names = ["left", "right", *results, *(f"{name}s" for name in end.reads.values())]
    count = len(names)
    first = len(numbers) + 2 * (count - 2)  # of the numbers: where those of outer loops begin

    def start(k: int) -> str:
        steps = [f"at[{i}] * n[{first + i * count + k}]" for i in range(len(tiles.outer))]
        return " + ".join([names[k], *steps])

    struct = end.struct(tiles.columns.strides[2:])
    lengths = ((k, len(numbers) + k - 2) for k in range(2, count))
    values = ", ".join(f"{start(k)}, n[{line}], n[{line + count - 2}]" for k, line in lengths)
    name = f"End_{sha1(repr((struct, lines, lanes, values)).encode()).hexdigest()[:10]}"
    meant = {"LEFT": start(0), "RIGHT": start(1), "END": "end"}
    body = [re.sub("LEFT|RIGHT|END", lambda match: meant[match[0]], line) for line in lines]
    held = dict(zip(names, call.places, strict=True))
    outputs = {name: held.pop(name) for name in results}
    kernel = template_of(
        tiles.kind,
        (*(axis.size for axis in tiles.outer), *call.grid),
        [*numbers, *numbers_of(tiles)],
        held,
        [f"{name} end = {{ {values} }};", *body],
        outputs,
    )
    return replace(kernel, text=f"struct {name} {struct}{kernel.text}", lanes=lanes)
