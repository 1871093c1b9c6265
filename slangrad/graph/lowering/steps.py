"""Steps of a plan: calls of Slang functions and libraries, loops, exchanges, and the memory that each touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Self

from slangrad.graph.ir.layout import StridedLayout
from slangrad.graph.ir.node import DType, Node, Shape

if TYPE_CHECKING:
    from slangrad.graph.scan import ScanLoop
    from slangrad.graph.workers.meshes.collectives import Collective


@dataclass(frozen=True, slots=True)
class TemporaryMemory:
    """Memory between two kernels of one group."""

    shape: Shape
    dtype: DType
    of: object


Holder = Node | TemporaryMemory  # of memory


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Memory that a kernel reads or writes: all or a part of the memory of a node."""

    holder: Holder
    layout: StridedLayout

    def fits_over(self, other: MemoryPart) -> bool:
        """Whether both are all of their memory, in the same order and type."""
        size = prod(self.holder.shape)
        is_all = self.layout.is_dense and prod(self.layout.shape) == size == prod(other.holder.shape)
        return is_all and self.layout == other.layout and self.holder.dtype == other.holder.dtype


@dataclass(slots=True, kw_only=True)
class PlanStep:
    """One call of a plan: the memory that it reads and writes, by names."""

    reads: dict[str, MemoryPart] = field(default_factory=dict)
    writes: dict[str, MemoryPart] = field(default_factory=dict)

    @property
    def parts(self) -> list[MemoryPart]:
        return [*self.reads.values(), *self.writes.values()]

    def on(self, names: Mapping[Holder, Holder]) -> Self:
        """The same on other memory."""

        def moved(parts: Mapping[str, MemoryPart]) -> dict[str, MemoryPart]:
            return {key: MemoryPart(names.get(x.holder, x.holder), x.layout) for key, x in parts.items()}

        return replace(self, reads=moved(self.reads), writes=moved(self.writes))


@dataclass(slots=True)
class KernelStep(PlanStep):
    """A call of a Slang function. Memory has the names of its parameters; a returned output is RESULT.
    `values`: its other arguments. `group`: the shape of groups of threads. `lanes`: 0 for as many as suit it.
    `copies`: it only copies its one array. `replaces`: pairs of an output and an input that may have one memory, as
    each thread reads an element before it writes the one at its place. `whole`: parameters that get memory as it is,
    since a kernel may take a tensor of uint64 for addresses. `templates`: the modules of KERNELS that its text
    calls."""

    name: str
    text: str
    values: dict[str, object]
    group: Shape | None = None
    lanes: int = 0
    copies: bool = False
    replaces: tuple[tuple[str, str], ...] = ()
    whole: tuple[str, ...] = ()
    templates: tuple[str, ...] = ("graph_prelude",)

    @property
    def named(self) -> dict[str, MemoryPart]:
        return {**self.reads, **self.writes}


@dataclass(slots=True)
class ProductStep(PlanStep):
    """A product of matrices by a library."""

    letters: str
    library: str = "numpy"


@dataclass(slots=True)
class ClearStep(PlanStep):
    """Zeros."""


@dataclass(slots=True)
class RepeatStep(PlanStep):
    """A loop of `scan.py`. Its results are written by their numbers."""

    loop: ScanLoop

    @property
    def results(self) -> list[int]:
        return list(map(int, self.writes))


@dataclass(slots=True)
class Exchange(PlanStep):
    """The beginning of a collective. It reads nothing where the result lies in its place."""

    collective: Collective


@dataclass(slots=True)
class Await(PlanStep):
    """The end of a collective, before its result is read or the memory of its input is used again."""

    exchange: Exchange
