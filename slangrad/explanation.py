"""Reports of a compilation: the values that reverse sweeps keep, and the time of each stage.

@relax.vjp: 256 bytes a thread
  stored      %x: f32, 256 bytes a thread, line 4: the loop carries it from one iteration to the next

stage       ms  operations  functions
lowered    0.9         103         11
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slangrad.autodiff.checkpointing.report import RecomputedValue, Report, StoredValue, bytes_a_thread
from slangrad.ir.ops.core import Function, walk


@dataclass(frozen=True, slots=True)
class StageCost:
    """The time of a stage, and the size of the program after it: None if that is no IR."""

    milliseconds: float
    operations: int | None = None
    functions: int | None = None


def cost_of(milliseconds: float, functions: Sequence[Function] | None) -> StageCost:
    """`functions`: the functions after the stage."""
    if functions is None:
        return StageCost(milliseconds)
    return StageCost(milliseconds, sum(1 for f in functions for _ in walk(f.region)), len(functions))


def costs_table(costs: Mapping[str, StageCost]) -> str:
    """A line for each stage, and one for their sum."""
    rows: list[tuple[object, ...]] = [("stage", "ms", "operations", "functions")]
    for name, cost in costs.items():
        rows.append((name, f"{cost.milliseconds:.1f}", cost.operations, cost.functions))
    rows.append(("sum", f"{sum(cost.milliseconds for cost in costs.values()):.1f}", None, None))
    return "\n".join(_aligned([["" if cell is None else str(cell) for cell in row] for row in rows]))


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for name, *numbers in rows:
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:]))
        yield "  ".join([name.ljust(widths[0]), *cells]).rstrip()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The values that all reverse sweeps of a kernel keep, function by function; segments of loops are functions.
    `costs`: the time and size of each stage."""

    reports: tuple[Report, ...]
    costs: Mapping[str, StageCost]

    @property
    def stored(self) -> tuple[StoredValue, ...]:
        return tuple(stored for report in self.reports for stored in report.stored)

    @property
    def recomputed(self) -> tuple[RecomputedValue, ...]:
        return tuple(recomputed for report in self.reports for recomputed in report.recomputed)

    @property
    def bytes_a_thread(self) -> int:
        return bytes_a_thread(self.stored)

    @property
    def sweeps(self) -> str:
        """The reports as text."""
        return "\n".join(map(str, self.reports)) if self.reports else "no reverse sweep"

    def __str__(self) -> str:
        return f"{self.sweeps}\n\n{costs_table(self.costs)}"
