"""A bound call without the data that only its compilation needs: the facts for a launch.

    f(a: Tensor (4, 3), b: Tensor (3,))  ->  2 dimensions, leaves a, b and the result, where each finds its value

It is plain data, so it can be kept on disk with the kernels (`saved.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from slangrad.marshal.composed.results import CreatedResult
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.tensors.elements.conversion import HostValue

SHAPE = "shape"  # the kernel's parameter with the sizes of its loops
PARTIAL = "p"  # its letter among those of streams where groups at the border are not full


class LeafSource(NamedTuple):
    """The place of a leaf's value: the index of the given value, and the keys inside of it."""

    value_index: int
    path: tuple[object, ...]


class ValuePlace(Protocol):
    """Anything with the place of a value, as a LeafSource."""

    @property
    def value_index(self) -> int: ...
    @property
    def path(self) -> tuple[object, ...]: ...


def found_at(values: Sequence[HostValue], place: ValuePlace) -> HostValue:
    """The value at a place among the values of a call."""
    value = values[place.value_index]
    for step in place.path:
        value = value[step]
    return value


@dataclass(slots=True)
class Launchable:
    """`group` is None where loops may be merged and moved. Else they are the dimensions of the call in their order,
    run in groups of that shape if it is not empty.
    """

    name: str
    call_dims: int
    leaves: list[Leaf]
    sources: list[LeafSource]
    created: CreatedResult | None
    group: tuple[int, ...] | None = None

    @property
    def passed(self) -> list[tuple[Leaf, LeafSource]]:
        """The leaves of the caller's values; a result that the call makes is not among them."""
        return [pair for pair in zip(self.leaves, self.sources) if pair[1].value_index >= 0]

    def __repr__(self) -> str:
        leaves = ", ".join(leaf.label for leaf in self.leaves)
        return f"Launchable({self.name}, {self.call_dims} dimensions, {leaves})"
