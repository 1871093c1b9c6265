"""Kernels of reductions: a loop over one block for each thread, and a second kernel that combines the results.

s = sum(x)     ->   reduce: float sum = 0; for each element of a block ...      fold: the sums of all blocks
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from slangrad.graph.ir.layout import StridedLayout, dense, joined, normal
from slangrad.graph.ir.node import DType, Node, Shape
from slangrad.graph.ir.ops import OPS
from slangrad.graph.ir.types import type_of, wide_of
from slangrad.graph.lowering.emit import RESULT, WRITERS, Text, index_of, kernel_of, loop_of
from slangrad.graph.lowering.steps import (
    KernelStep,
    MemoryPart,
    PlanStep,
    TemporaryMemory,
)
from slangrad.graph.rewriting.fuse import ArrayRead, Fusion, Group

LANES = 64  # threads that share one row of a reduction


FEW = 4096  # threads of a reduction that keep all cores busy; results do not depend on how many there are


@dataclass(frozen=True, slots=True)
class Space:
    """The loops of a reduction: axes that are kept and axes that are reduced, neighbors in memory joined. `layouts`: of
    each array, over both."""

    kept: Shape
    reduced: Shape
    layouts: tuple[StridedLayout, ...]


def space_of(shape: Shape, axes: Shape, layouts: Sequence[StridedLayout]) -> Space:
    order = [i for i in range(len(shape)) if i not in axes], list(axes)
    (kept, strides), (gone, more) = (
        joined([shape[i] for i in axes], [[layout.strides[i] for i in axes] for layout in layouts])
        for axes in order
    )
    gone, more = (gone, more) if gone else ([1], [[0] for _ in layouts])
    permuted = (
        normal(StridedLayout((*kept, *gone), (*a, *b), layout.offset))
        for layout, a, b in zip(layouts, strides, more, strict=True)
    )
    return Space(tuple(kept), tuple(gone), tuple(permuted))


def _reduce(fusion: Fusion, group: Group) -> list[PlanStep]:
    """Blocks of the reduced axes, then the blocks' results."""
    (root,) = group.roots
    (x,) = root.inputs
    text = Text(fusion, group)
    value = text.of(x)
    if not x.size:
        return [_filled(root)]
    space = space_of(x.shape, root.attributes["axes"], [leaf.layout for leaf in text.leaves])
    inner = space.reduced[-1] >= 2 * LANES and _runs_along_rows(space, list(text.leaves))
    lanes = LANES if inner else 1
    results = prod(space.kept)
    most = space.reduced[0] // (lanes if len(space.reduced) == 1 else 1) // 8
    wanted = max(1, min(most, -(-FEW // (results * lanes))))
    block = -(-space.reduced[0] // wanted)
    if len(space.reduced) == 1:
        block = -(-block // lanes) * lanes
    chunks = -(-space.reduced[0] // block)
    grid = (*space.kept, chunks, lanes) if inner else (chunks, *space.kept)
    if chunks * lanes == 1:
        target = MemoryPart(root, normal(StridedLayout(grid, (0, *dense(space.kept).strides))))
        return [_blocks(text, value, space, inner, block, target)]
    partial = TemporaryMemory((results, chunks * lanes), sum_type(root), root)
    across = StridedLayout(grid, (1, *(step * chunks for step in dense(space.kept).strides)))
    target = MemoryPart(partial, normal(dense(grid) if inner else across))
    return [_blocks(text, value, space, inner, block, target), _folded(root, partial)]


def _runs_along_rows(space: Space, leaves: Sequence[ArrayRead]) -> bool:
    """Whether most of the memory that is read lies along the last reduced axis."""
    along = across = 0
    for at, leaf in zip(space.layouts, leaves, strict=True):
        along += leaf.node.nbytes * (at.strides[-1] == 1)
        across += leaf.node.nbytes * (bool(space.kept) and at.strides[len(space.kept) - 1] == 1)
    return along >= across


def sum_type(root: Node) -> DType:
    return wide_of(root.dtype) if root.op in ("sum", "prod") else root.dtype


def begun(root: Node, name: str = "sum") -> str:
    """The statement that a reduction begins with, and in `combined` that for each element."""
    kind = type_of(sum_type(root))
    return f"{kind} {name} = {OPS[root.op].start.format(T=kind)};"


def combined(root: Node, value: str, name: str = "sum") -> str:
    kind = type_of(sum_type(root))
    return f"{name} = {OPS[root.op].slang.format(name, f'{kind}({value})', T=kind)};"


def _blocks(text: Text, value: str, space: Space, inner: bool, block: int, to: MemoryPart) -> KernelStep:
    """A block of the reduced axes for each thread. `inner`: the last of these is divided among lanes."""
    (root,), kept, last = text.group.roots, len(space.kept), len(space.reduced) - 1
    places = [f"at[{i if inner else i + 1}]" for i in range(kept)] + [f"j{i}" for i in range(last + 1)]
    chunk, lane = (f"at[{kept}]", f"at[{kept + 1}]") if inner else ("at[0]", "0")
    body = [*text.loads(", ".join(places)), *text.lines, combined(root, value)]
    for i in range(last, -1, -1):
        start, stop, step = "0", str(space.reduced[i]), "1"
        if i == 0:
            start, stop = f"{chunk} * {block}", f"min({space.reduced[0]}, ({chunk} + 1) * {block})"
        if i == last and inner:
            start, step = f"{start} + {lane}" if i == 0 else lane, str(LANES)
        body = loop_of(f"j{i}", start, stop, step, body)
    kind = type_of(to.holder.dtype)
    lines = [begun(root), *body, f"return {kind}(sum);"]
    return kernel_of(
        "reduce", index_of(to.layout.shape) | text.arrays(space.layouts), lines, {RESULT: to}, kind
    )


def _folded(root: Node, partial: TemporaryMemory) -> KernelStep:
    (results, count), kind = partial.shape, type_of(root.dtype)
    loop = loop_of("j", "0", str(count), "1", [combined(root, "parts[at[0], j]")])
    parts = {f"ITensor<{type_of(partial.dtype)}, 2> parts": MemoryPart(partial, dense(partial.shape))}
    lines, to = [begun(root), *loop, f"return {kind}(sum);"], MemoryPart(root, dense((results,)))
    return kernel_of("fold", index_of((results,)) | parts, lines, {RESULT: to}, kind)


def _filled(root: Node) -> KernelStep:
    """The sum of no elements."""
    kind, shape = type_of(root.dtype), (max(1, root.size),)
    lines = [f"return {OPS[root.op].start.format(T=kind)};"]
    return kernel_of("fill", index_of(shape), lines, {RESULT: MemoryPart(root, dense(shape))}, kind)


WRITERS["reduce"] = _reduce
