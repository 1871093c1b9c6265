"""Micro-batches: parts of the rows of a worker, which it computes one after another.

    mesh data=2, micro-batches=4       rows 0-7 on worker 0: 0-1, 2-3, 4-5, 6-7        rows 8-15 on worker 1

They are an axis of the mesh that has no workers: the graph of one micro-batch has sums over it. The differences
between micro-batches follow from a number, which is an input of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import slangrad as spy
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, new_input
from slangrad.graph.ir.values import ArrayValue, Operand
from slangrad.graph.workers.connections.costs import Links, apart_on
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import MICRO, STAGES, parts
from slangrad.graph.workers.stages.layers import Sizes


@dataclass(frozen=True, eq=False, repr=False)
class Microbatched(Mesh):
    """The workers of one stage, and an axis of micro-batches, of which `index` says which one it is. `outer`: the mesh
    with stages."""

    index: Node | None = None
    outer: Mesh | None = None

    def place(self, names: tuple[str, ...]) -> Operand:
        at: Operand = 0
        for name in names:
            at = at * self.sizes[name] + (Array(self.index) if name == MICRO else self.coordinates[name])  # type: ignore[arg-type]
        return at


def checked_microbatches(count: int | None, mesh: Mesh, consistent: str | None) -> int | None:
    """GraphError (E1048) for a number that is none, ValueError for settings that do not go with it."""
    if count is not None and (
        isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1
    ):
        raise GraphError("E1048", f"microbatches={count!r} is no integer from 1 on")
    if consistent is not None and (mesh.stages > 1 or (count or 1) > 1):
        raise ValueError(f"consistent={consistent!r} has neither stages nor micro-batches")
    return count


def sizes_of(
    mesh: Mesh, microbatches: int | None, held: Sequence[int], links: Links, arrays: Sequence[ArrayValue]
) -> Sizes:
    """`held`: as of `Sizes`. GraphError (E1048) where rows cannot be cut into micro-batches."""
    count = microbatches or _usual(mesh.stages, [array.shape[0] for array in arrays if len(array.shape)])
    for array in arrays:
        if len(array.shape) and array.shape[0] % count:
            fits = [n for n in range(1, array.shape[0] + 1) if array.shape[0] % n == 0]
            message = f"microbatches={count}: {array.shape[0]} rows of a worker are no multiple"
            raise GraphError("E1048", message, f"microbatches={min(fits, key=lambda n: abs(n - count))}")
    apart = apart_on(mesh, STAGES) if mesh.stages > 1 else 1
    return Sizes(
        mesh.stages,
        count,
        count * parts(mesh.batch_cuts, mesh.cuts),
        held,
        lambda nbytes: links.seconds("send", 2, int(nbytes), apart),
        links.machine,
    )


def _usual(stages: int, rows: Sequence[int]) -> int:
    """As many micro-batches as rows allow, up to 4 for each stage."""
    most = 4 * stages if stages > 1 and rows else 1
    return max(n for n in range(1, most + 1) if all(count % n == 0 for count in rows))


def microbatched(mesh: Mesh, microbatches: int) -> Microbatched:
    """The mesh of a stage. Micro-batches are parts of the rows of a worker, so they are its fastest axis."""
    sizes = {name: 1 if name == STAGES else n for name, n in mesh.sizes.items()}
    rank = mesh.place(tuple(name for name in sizes if name != STAGES)) * microbatches
    index = new_input((), np.dtype(np.int64), MICRO)
    sizes[MICRO] = microbatches
    return Microbatched(sizes, rank, (*mesh.batch, MICRO), mesh.links, mesh.watch, index=index, outer=mesh)


def part_of(rows: spy.Tensor, i: int, count: int) -> spy.Tensor:
    """The rows of micro-batch i."""
    size = rows.shape[0] // count
    shape, steps = (size, *tuple(rows.shape)[1:]), tuple(rows.strides)
    return rows.view(shape, steps, i * size * steps[0])
