"""Kernels of convolutions: templates of `kernels/graph_convolutions.slang`, or a product of windows and the kernel.

3 rows, stride 1       image and kernel transformed, then sums over channels: half of the arithmetic
other kernels          zeros around the image, then the product of its windows, which are a view
"""

from __future__ import annotations

from slangrad.graph.arrays.convolutions import padded_sizes
from slangrad.graph.ir.layout import StridedLayout, dense, normal, reshaped, sliced
from slangrad.graph.ir.node import Node
from slangrad.graph.ir.types import DTYPES, type_of, wide_of
from slangrad.graph.lowering.emit import (
    MOST_NUMBERS,
    TEMPLATES,
    Text,
    cleared,
    function_of,
    seen,
    stored,
    template_of,
)
from slangrad.graph.lowering.products import (
    HAS_512,
    Axis,
    Epilogue,
    TemplateCall,
    Tiles,
    numbers_of,
    tiled,
    with_end,
)
from slangrad.graph.lowering.steps import KernelStep, MemoryPart, PlanStep, TemporaryMemory
from slangrad.graph.rewriting.fuse import Fusion, Group

LETTERS = "ngcijpq,gocpq->ngoij"
HEIGHTS = 6, 4  # outputs that a thread makes of each row; 6 fill the registers
READS = 1.5  # outputs that take as long as the reads of a thread
WIDTH = 64  # lanes along a row
LINE = 16  # elements of a line of a cache
MOST_WASTE = 1.4  # lanes along a row for each column, beyond which a product of windows is faster


def _convolution(fusion: Fusion, group: Group) -> list[PlanStep]:
    end = Epilogue(fusion, group)
    node = end.product
    if not node.size:
        return []
    if not node.inputs[0].size:
        return end.apart([cleared(stored(node))])
    steps = _transformed(end) if _has_three_rows(node) else None
    return _windows(end) if steps is None else steps


TEMPLATES["conv"] = _convolution


# --- products of windows


def _windows(end: Epilogue) -> list[PlanStep]:
    node, fusion = end.product, end.fusion
    x, w = node.inputs
    (batch, outputs, *out), (_, channels, *kernel), attributes = node.shape, w.shape, node.attributes
    groups, spread, padding = attributes["groups"], attributes["spread"], attributes["padding"]
    image, steps = seen(fusion, x), list[PlanStep]()
    if spread != (1, 1) or padding != ((0, 0), (0, 0)):
        held = TemporaryMemory((*x.shape[:2], *padded_sizes(x.shape, padding, spread)), x.dtype, (node, 2))
        image, text = MemoryPart(held, dense(held.shape)), Text(fusion, Group("map", x.shape, []))
        inside = sliced(image.layout, x.shape, (0, 0, padding[0][0], padding[1][0]), (1, 1, *spread))
        steps = [cleared(image), function_of(text, [(text.of(x), MemoryPart(held, inside))], x.shape)]
    n, c, *pixel = image.layout.strides
    by = zip(pixel * 2, (*attributes["stride"], *attributes["dilation"]), strict=True)
    windows = StridedLayout(
        (batch, groups, channels, *out, *kernel),
        (n, c * channels, c, *(step * factor for step, factor in by)),
        image.layout.offset,
    )
    weights = seen(fusion, w)
    by_group = reshaped(weights.layout, (groups, outputs // groups, *w.shape[1:]))
    assert by_group is not None
    parts = [MemoryPart(image.holder, normal(windows)), MemoryPart(weights.holder, by_group)]
    return [*steps, *tiled(end, LETTERS, parts, (batch, groups, outputs // groups, *out))]


# --- three rows


def _has_three_rows(node: Node) -> bool:
    attributes, width = node.attributes, node.shape[3]
    plain = attributes["stride"] == attributes["spread"] == (1, 1) and attributes["dilation"][0] == 1
    return plain and node.inputs[1].shape[2] == 3 and -(-width // WIDTH) * WIDTH <= MOST_WASTE * width


def _transformed(end: Epilogue) -> list[PlanStep] | None:
    """None where no strides show the arrays that the end reads as rows of pixels."""
    node, fusion = end.product, end.fusion
    w, attributes = node.inputs[1], node.attributes
    (batch, outputs, height, width), (_, channels, _, taps) = node.shape, w.shape
    groups, apart, wide = attributes["groups"], attributes["dilation"][1], type_of(wide_of(node.dtype))
    shape = batch, groups, outputs // groups, height * width
    ends = end.parts(shape)
    if ends is None:
        return None
    tiles, line = -(-height // 4), -(-(width + (taps - 1) * apart) // LINE) * LINE
    rows = min(shape[2], min(HEIGHTS, key=lambda rows: -(-shape[2] // rows) * (rows + READS)))
    panels = -(-shape[2] // rows)
    image = _image(fusion, node, wide, (tiles, line))
    kernel = _kernel(fusion, node, wide, (panels, rows))
    axes = [(part.layout.strides[0], part.layout.strides[1]) for part in ends]
    in_group, of_kernel = channels * line, panels * 6 * channels * taps * rows
    row = groups * in_group
    tiling = Tiles(
        [*kernel.writes.values(), *image.writes.values()],
        [
            Axis(batch, (0, tiles * 6 * row, *(step for step, _ in axes))),
            Axis(groups, (of_kernel, in_group, *(step for _, step in axes))),
        ],
        Axis(shape[2], (0, 0, *(part.layout.strides[2] for part in ends))),
        Axis(shape[3], (0, 0, *(part.layout.strides[3] for part in ends))),
        [],
        kind="convolution",
    )
    numbers = [shape[2], channels, taps, apart, row, line, height, width]
    count = min(len(numbers) + len(numbers_of(tiling)), MOST_NUMBERS)
    lines = [f"convolve<{wide}, {rows}, {count}>(at[2], at[3], at[4], n, LEFT, RIGHT, END);"]
    lanes = (256 if HAS_512 else 64) // DTYPES[wide].itemsize
    grid = panels, tiles, -(-width // WIDTH) * WIDTH
    call = TemplateCall([*tiling.parts, *ends], grid, numbers, lines, lanes)
    return [image, kernel, with_end(end, tiling, call)]


def _image(fusion: Fusion, node: Node, wide: str, sizes: tuple[int, int]) -> KernelStep:
    """Sums of rows of an image, six lines for each tile and channel, and elements that the last lanes read beyond."""
    x, (tiles, line), padding = node.inputs[0], sizes, node.attributes["padding"]
    batch, channels, height, width = x.shape
    held = TemporaryMemory((batch * channels * 6 * tiles * line + 2 * WIDTH,), DTYPES[wide], (node, 1))
    part = seen(fusion, x)
    numbers = [channels, tiles, line, height, width, padding[0][0], padding[1][0], *part.layout.strides]
    return _transform("image", part, held, (batch, tiles, channels, line), numbers, wide)


def _kernel(fusion: Fusion, node: Node, wide: str, sizes: tuple[int, int]) -> KernelStep:
    (_, channels, _, taps), (panels, rows), groups = node.inputs[1].shape, sizes, node.attributes["groups"]
    held = TemporaryMemory((groups * panels * 6 * channels * taps * rows,), DTYPES[wide], (node, 0))
    part = seen(fusion, node.inputs[1])
    numbers = [panels, channels, taps, rows, node.shape[1] // groups, *part.layout.strides]
    return _transform("kernel", part, held, (groups * panels, channels, taps, rows), numbers, wide)


def _transform(
    name: str, part: MemoryPart, to: TemporaryMemory, grid: tuple[int, ...], numbers: list[int], wide: str
) -> KernelStep:
    kind = type_of(part.holder.dtype)
    step = "" if name == "kernel" else "1, " if part.layout.strides[-1] == 1 else f"n[{len(numbers) - 1}], "
    lines = [f"transform_{name}<{wide}, {kind}>(at, n, {step}from, to);"]
    return template_of(
        "transform", grid, numbers, {"from": part}, lines, {"to": MemoryPart(to, dense(to.shape))}
    )
