"""Specs: the shard of a tensor that each worker holds.

mesh data=2, model=4        x of shape (8, 12)
Spec((("data",), ()))       rows 0-3 on workers data=0, rows 4-7 on data=1, copies along "model"
Spec(((), ("model",)))      3 columns each
partial (("data", "sum"),)  the value is the sum over "data" of the values that workers hold
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import Node, Shape, make

T = TypeVar("T")

SHARD = "shard"  # the operator of `graph.shard`
STAGES = "stages"  # the axis of a mesh along which workers have other layers; nothing is cut along it
MICRO = "micro-batches"  # the axis of the parts of a batch that one worker computes one after another
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """`axes`: for each axis of the tensor the axes of the mesh that cut it, the slowest first. `partial`: the axes of
    the mesh along which values are still to be combined, and how: "sum", "max" or "min"."""

    axes: tuple[Names, ...]
    partial: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        cut = ", ".join("+".join(names) or "-" for names in self.axes)
        return f"[{cut}]" + "".join(f" {how} over {name}" for name, how in self.partial)

    @property
    def cut(self) -> dict[str, int]:
        """The axis of the tensor that each axis of the mesh cuts."""
        return {name: i for i, names in enumerate(self.axes) for name in names}

    @property
    def used(self) -> set[str]:
        """The axes of the mesh along which workers hold different values."""
        return {*self.cut, *dict(self.partial)}

    def local(self, shape: Shape, sizes: Mapping[str, int]) -> Shape:
        """The shape of one shard."""
        return tuple(n // parts(names, sizes) for n, names in zip(shape, self.axes, strict=True))

    def size(self, shape: Shape, sizes: Mapping[str, int]) -> int:
        """The elements of one shard."""
        return prod(self.local(shape, sizes))

    def with_axis(self, axis: int, names: Names) -> Spec:
        return replace(self, axes=(*self.axes[:axis], names, *self.axes[axis + 1 :]))

    def without(self, name: str) -> Spec:
        """Not cut along an axis of the mesh."""
        return replace(
            self, axes=tuple(tuple(other for other in names if other != name) for names in self.axes)
        )

    def without_partial(self, name: str) -> Spec:
        return replace(self, partial=tuple(pair for pair in self.partial if pair[0] != name))


def parts(names: Names, sizes: Mapping[str, int]) -> int:
    """The number of shards that axes of the mesh make."""
    return prod(sizes[name] for name in names)


def whole(ndim: int) -> Spec:
    """Of a tensor that each worker has in full."""
    return Spec(((),) * ndim)


def shard(x: T, *axes: str | Sequence[str] | None) -> T | Array:
    """The same array; of a traced one, each worker holds a part. `axes`: for each axis of x the axis of the mesh that
    cuts it, several in a tuple, or None; those that are left out are whole.

    A parameter that a loss function gives here first is stored like that, too. GraphError (E1048) for another
    number of axes, or for values that are no names. The plan raises it if the mesh has no such axis, or if the size
    is no multiple of its workers.
    """
    if not isinstance(x, Array):
        return x
    cuts = [(names,) if isinstance(names, str) else names or () for names in axes]
    for cut in cuts:
        if not isinstance(cut, tuple | list) or not all(isinstance(name, str) for name in cut):
            message = f"shard: {cut!r} is no axis of a mesh"
            raise GraphError("E1048", message, "a name, several in a tuple, or None for each axis")
    names = tuple(map(tuple, cuts))
    if len(names) > x.ndim:
        raise GraphError(
            "E1048", f"shard: {len(names)} names for shape {x.shape}", "a name or None for each axis"
        )
    names += ((),) * (x.ndim - len(names))
    node = x.node
    if node.op == SHARD and not node.attributes["spec"].used:  # of a parameter whose storage alone is cut
        (node,) = node.inputs
    return Array(make(SHARD, [node], x.shape, x.dtype, spec=Spec(names)))


def spec_of(node: Node, sizes: Mapping[str, int]) -> Spec:
    """The spec of a node `shard`, on a mesh; axes with one worker cut nothing."""
    spec: Spec = node.attributes["spec"]
    names = [name for cut in spec.axes for name in cut]
    subject = f"shard {spec} of shape {node.shape}"
    axes = [axis for axis in sizes if axis != MICRO]  # which no program gives
    able = [axis for axis in axes if axis != STAGES]
    for name in names:
        if axes and name not in able:
            message = "nothing is cut along" if name in axes else "the mesh has no axis"
            note = f"one of {', '.join(able)}" if able else "an axis of the mesh, such as 'model'"
            raise GraphError("E1048", f"{subject}: {message} '{name}'", note, node.place)
        if names.count(name) > 1:
            raise GraphError(
                "E1048", f"{subject}: '{name}' cuts two axes", "an axis of the mesh cuts one", node.place
            )
    cuts = tuple(tuple(name for name in cut if name in able and sizes[name] > 1) for cut in spec.axes)
    for n, cut in zip(node.shape, cuts, strict=True):
        if n % parts(cut, sizes):
            message = f"{subject}: {n} is no multiple of {parts(cut, sizes)} workers"
            raise GraphError("E1048", message, place=node.place)
    return Spec(cuts)
