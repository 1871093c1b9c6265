"""Moves: the collectives and slices that turn a shard of one spec into one of another.

held [-, -] sum over data, wanted [data, -]        scatter over data: all_to_all, and a sum
held [data, -], wanted [-, data]                   exchange over data: all_to_all
held [data, -], wanted [-, -]                      gather over data: all_gather
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from slangrad.graph.ir.node import DType, Shape
from slangrad.graph.workers.meshes.specs import MICRO, Names, Spec

COLLECTIVES = {
    "combine": "all_reduce",
    "scatter": "all_to_all",
    "exchange": "all_to_all",
    "gather": "all_gather",
}


@dataclass(frozen=True, slots=True)
class Move:
    """`kind`: one of COLLECTIVES, or "slice". `names`: the axes of the mesh, of a collective one. `axis`: that of the
    tensor which is cut afterwards, or was; an exchange cuts along `to`. `how`: as partial values are combined. `spec`:
    of the result."""

    kind: str
    names: Names
    spec: Spec
    axis: int = 0
    to: int = 0
    how: str = ""


def moves(held: Spec, wanted: Spec) -> Iterator[Move]:
    """From one spec to another. Values that are wanted partial are held so."""
    # Of micro-batches, which are on one worker, first: then others combine one value for all of them.
    for name, how in sorted(held.partial, key=lambda pair: pair[0] != MICRO):
        if (name, how) in wanted.partial:
            continue
        axis, held = wanted.cut.get(name), held.without_partial(name)
        cut = () if axis is None else (*held.axes[axis], name)
        if axis is not None and wanted.axes[axis][: len(cut)] == cut:
            held = held.with_axis(axis, cut)
            yield Move("scatter", (name,), held, axis, how=how)
        else:
            yield Move("combine", (name,), held, how=how)
    for name, axis in list(held.cut.items()):
        to = wanted.cut.get(name, axis)
        moved = to != axis and held.axes[axis][-1] == name
        if moved and wanted.axes[to] == (*held.axes[to], name) and wanted.axes[axis] == held.axes[axis][:-1]:
            held = held.with_axis(axis, held.axes[axis][:-1]).with_axis(to, wanted.axes[to])
            yield Move("exchange", (name,), held, axis, to)
    for move in _slices(held, wanted):  # fewer bytes are gathered then
        yield move
        held = move.spec
    for axis, want in enumerate(wanted.axes):
        while held.axes[axis] != want[: len(held.axes[axis])]:
            name = held.axes[axis][-1]
            held = held.with_axis(axis, held.axes[axis][:-1])
            yield Move("gather", (name,), held, axis)
    for move in _slices(held, wanted):
        yield move
        held = move.spec
    assert held.axes == wanted.axes and set(held.partial) == set(wanted.partial)


def _slices(held: Spec, wanted: Spec) -> Iterator[Move]:
    """The parts along axes of the mesh along which all workers have the same; the others keep their cuts."""
    for axis, want in enumerate(wanted.axes):
        names = want[len(held.axes[axis]) :]
        if names and want == (*held.axes[axis], *names) and held.used.isdisjoint(names):
            held = held.with_axis(axis, want)
            yield Move("slice", names, held, axis)


@dataclass(frozen=True, slots=True)
class CollectiveSize:
    """A collective: its name, the axis of the mesh, and the bytes of its result on one worker."""

    name: str
    over: str
    nbytes: int


def exchanges(
    shape: Shape, dtype: DType, held: Spec, wanted: Spec, sizes: Mapping[str, int]
) -> Iterator[CollectiveSize]:
    """The collectives that turn a tensor of a shape from one spec to another."""
    for move in moves(held, wanted):
        # All that is held is combined or sent; a gather makes more of it.
        size = (move.spec if move.kind == "gather" else held).size(shape, sizes) * dtype.itemsize
        if move.kind == "combine" and not is_added(move.how, dtype):
            yield CollectiveSize("all_gather", move.names[0], size * sizes[move.names[0]])
        elif move.kind in COLLECTIVES:
            yield CollectiveSize(COLLECTIVES[move.kind], move.names[0], size)
        held = move.spec


def is_added(how: str, dtype: DType) -> bool:
    """Whether partial values are combined on the way: sums, but of types that libraries do not add. Largest values are
    combined on each worker, so that they are NaN where one is, which no library promises."""
    return how == "sum" and dtype not in (np.int16, np.uint16)
