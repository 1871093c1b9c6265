"""Operators that exchange data between workers.

    all_reduce        f32[6] -> f32[6]          the sum of all, on all; several arrays in one buffer
    all_gather        f32[3] -> f32[N,3]        those of all, on all
    all_to_all        f32[N,3] -> f32[N,3]      row i goes to worker i; a reduce-scatter adds the rows that arrive

A collective begins when its input is there, and ends where its result is read first: kernels between these two run
meanwhile. torch.distributed moves the data, without a copy.

All workers begin the same collectives in the same order, so the set of collectives must not depend on values that
differ between workers. A worker's own part of an array is an opaque operator for rules. The last input of each
collective is an empty part of the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slangrad.graph.ir.node import Node, Shape, make

if TYPE_CHECKING:
    import slangrad as spy
    from slangrad.graph.workers.connections.links import Begun, Pending
    from slangrad.graph.workers.meshes.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Collective:
    """`name`: the operator; `over`: the axis of the mesh; `how`: "sum", "max" or "min"."""

    name: str
    over: str
    how: str
    mesh: Mesh

    def __repr__(self) -> str:
        return f"<{self.how + ' ' if self.name == 'all_reduce' else ''}over {self.over}>"

    @property
    def count(self) -> int:
        """The number of workers."""
        return self.mesh.sizes[self.over]

    def start(self, source: np.ndarray | None, result: np.ndarray) -> Pending:
        """Begin with memory of this worker, NumPy's arrays; `all_reduce` has one array for both. The result
        has `wait()`, which returns when the data is there."""
        return self.mesh.link(self.over).start(self, source, result)

    def start_on_gpu(self, source: spy.Tensor | None, result: spy.Tensor) -> Begun:
        """The same with Tensors on a GPU. Kernels that are launched after `wait()` read the result."""
        return self.mesh.link(self.over).start_on_gpu(self, source, result)


def all_reduce(x: Node, collective: Collective) -> Node:
    flat = x if len(x.shape) == 1 else make("reshape", [x], (x.size,), x.dtype)
    total = merged([flat], collective)
    return total if total.shape == x.shape else make("reshape", [total], x.shape, x.dtype)


def merged(nodes: Sequence[Node], collective: Collective) -> Node:
    """One for several vectors."""
    size = sum(node.size for node in nodes)
    return make("all_reduce", nodes, (size,), nodes[0].dtype, collective=collective, axis=0)


def all_gather(x: Node, collective: Collective) -> Node:
    return make("all_gather", [x], (collective.count, *x.shape), x.dtype, collective=collective)


def all_to_all(x: Node, collective: Collective) -> Node:
    return make("all_to_all", [x], x.shape, x.dtype, collective=collective)


def own_part(x: Node, shape: Shape, starts: Shape, over: tuple[str, ...]) -> Node:
    """The part of this worker along axes of the mesh. They are in its content: parts along others that begin at the
    same place are equal on some workers only."""
    return make("own_part", [x], shape, x.dtype, starts=starts, steps=(1,) * len(shape), over=over)


def behind(node: Node, before: Node) -> Node:
    """A collective that begins after another one."""
    empty = own_part(before, (0,) * len(before.shape), (0,) * len(before.shape), ())
    flat = empty if len(empty.shape) == 1 else make("reshape", [empty], (0,), empty.dtype)
    return make(node.op, (*node.inputs, flat), node.shape, node.dtype, **node.attributes)
