"""The layout of a view: sizes, strides and an offset, counted in elements.

(2, 3) without gaps   strides (3, 1)      transposed (1, 3)      broadcast to (4, 2, 3): (0, 3, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slangrad.graph.ir.node import Node, Shape


@dataclass(frozen=True, slots=True)
class StridedLayout:
    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def is_dense(self) -> bool:
        """Whether all elements follow each other, the last axis fastest."""
        return self.offset == 0 and self == dense(self.shape)

    @property
    def end(self) -> int:
        """The elements in memory up to the last that it shows."""
        steps = zip(self.shape, self.strides, strict=True)
        return 1 + self.offset + sum((n - 1) * max(0, step) for n, step in steps)

    def with_shape(self, shape: Shape) -> StridedLayout:
        """The same strides for a part of another shape. One number may lie in memory as an array of one."""
        return StridedLayout(shape, self.strides[: len(shape)])

    def seen_by(self, view: Node) -> StridedLayout | None:
        """The layout of a view of this; None where no strides show it."""
        return _VIEWS[view.op](self, view)


def dense(shape: Shape) -> StridedLayout:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step if n != 1 else 0)
        step *= n
    return StridedLayout(shape, tuple(reversed(strides)))


def normal(layout: StridedLayout) -> StridedLayout:
    """The same layout, with stride 0 for axes of one element."""
    strides = tuple(0 if n == 1 else step for n, step in zip(layout.shape, layout.strides, strict=True))
    return StridedLayout(layout.shape, strides, layout.offset)


def _broadcast(at: StridedLayout, view: Node) -> StridedLayout:
    new = len(view.shape) - len(at.shape)
    same = zip(at.shape, at.strides, view.shape[new:], strict=True)
    return StridedLayout(
        view.shape, (0,) * new + tuple(step if n == to else 0 for n, step, to in same), at.offset
    )


def _transpose(at: StridedLayout, view: Node) -> StridedLayout:
    return StridedLayout(view.shape, tuple(at.strides[i] for i in view.attributes["order"]), at.offset)


def _slice(at: StridedLayout, view: Node) -> StridedLayout:
    return sliced(at, view.shape, view.attributes["starts"], view.attributes["steps"])


def sliced(at: StridedLayout, shape: Shape, starts: Shape, steps: Shape) -> StridedLayout:
    offset = at.offset + sum(start * step for start, step in zip(starts, at.strides, strict=True))
    return normal(StridedLayout(shape, tuple(a * b for a, b in zip(at.strides, steps, strict=True)), offset))


def reshaped(at: StridedLayout, shape: Shape) -> StridedLayout | None:
    """Runs of axes that follow each other in memory are split and joined; others are not."""
    if 0 in shape:
        return StridedLayout(shape, (0,) * len(shape), at.offset)
    sizes, (steps,) = joined(at.shape, [at.strides])
    strides: list[int] = []
    left, step = 1, 0
    for n in reversed(shape):
        if n == 1:
            strides.append(0)
            continue
        if left == 1:
            left, step = sizes.pop(), steps.pop()
        if left % n:
            return None
        strides.append(step)
        left, step = left // n, step * n
    return StridedLayout(shape, tuple(reversed(strides)), at.offset)


def joined(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Merges neighboring axes that all arrays can step along as one. Axes of one element are left out."""
    runs: list[tuple[int, ...]] = []  # each a size, and a step of each array
    for n, *steps in zip(sizes, *strides, strict=True):
        if n == 1:
            continue
        if runs and [*runs[-1][1:]] == [n * step for step in steps]:
            n *= runs.pop()[0]
        runs.append((n, *steps))
    merged = [[*row] for row in zip(*runs, strict=True)] or [[] for _ in (sizes, *strides)]
    return merged[0], merged[1:]


def _windows(at: StridedLayout, view: Node) -> StridedLayout:
    step = at.strides[view.attributes["axis"]] * view.attributes["every"]
    return normal(StridedLayout(view.shape, (*at.strides, step), at.offset))


_VIEWS: dict[str, Callable[[StridedLayout, Node], StridedLayout | None]] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "own_part": _slice,
    "reshape": lambda at, view: reshaped(at, view.shape),
    "windows": _windows,
    "stop_gradient": lambda at, view: at,
    "shard": lambda at, view: at,
}
