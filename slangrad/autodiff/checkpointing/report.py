"""The values that a vjp keeps and computes again, as data for people.

@relax.vjp: 1024 bytes a thread
  stored      %x: f32, 1024 bytes a thread, line 12: the loop carries it from one iteration to the next
  recomputed  %y = mul
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slangrad.autodiff.analyses.loop_tree import LoopTree
from slangrad.autodiff.checkpointing.plan import ResidualPlan, fixed_length
from slangrad.base.source import Span
from slangrad.ir.data.layout import layout_of
from slangrad.ir.ops.core import Value

ITERATION, SEGMENT, CALL = "an iteration", "a segment", "a call"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """`bytes` are those of one value. `count` is the largest number of values that a thread keeps, None if only a
    run decides. `round` is the unit of that number: an iteration of the loop, a segment of it, or a call of the
    function, whose caller keeps them."""

    name: str
    type: str
    bytes: int
    count: int | None
    span: Span | None
    reason: str
    round: str = ITERATION

    @property
    def line(self) -> int | None:
        """In the source."""
        return None if self.span is None else self.span.line

    @property
    def bytes_a_thread(self) -> int | None:
        return None if self.count is None else self.bytes * self.count

    def __str__(self) -> str:
        size = f"{self.bytes} bytes {self.round}"
        if self.count is not None:
            size = f"{self.bytes * self.count} bytes a thread"
        line = "" if self.line is None else f", line {self.line}"
        return f"%{self.name}: {self.type}, {size}{line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RecomputedValue:
    name: str
    op: str
    span: Span | None

    def __str__(self) -> str:
        return f"%{self.name} = {self.op}" if self.name else self.op


@dataclass(frozen=True, slots=True)
class Report:
    """For one vjp function."""

    function: str
    stored: tuple[StoredValue, ...]
    recomputed: tuple[RecomputedValue, ...]

    def __str__(self) -> str:
        if not (self.stored or self.recomputed):
            return f"@{self.function}: nothing to store or to compute again"
        lines = [f"@{self.function}: {_total(self.stored)}"]
        lines += [f"  stored      {value}" for value in self.stored]
        lines += [f"  recomputed  {value}" for value in self.recomputed]
        return "\n".join(lines)


def bytes_a_thread(stored: tuple[StoredValue, ...]) -> int:
    """At most; values whose number only a run decides count once."""
    return sum(value.bytes * (1 if value.count is None else value.count) for value in stored)


def _total(stored: tuple[StoredValue, ...]) -> str:
    rounds: dict[str, list[StoredValue]] = {}
    for value in stored:
        rounds.setdefault("a thread" if value.count is not None else value.round, []).append(value)
    sums = {name: bytes_a_thread(tuple(values)) for name, values in rounds.items()}
    if CALL in sums:
        return f"{sums[CALL]} bytes {CALL}"
    fixed = sums.pop("a thread", 0)
    more = "".join(f" and {count} {name}" for name, count in sums.items())
    return f"{fixed} bytes a thread{more}{' of loops whose length is not known' if more else ''}"


def report(function: str, tree: LoopTree, plan: ResidualPlan, handed: bool = False) -> Report:
    """`handed`: of a function that hands its residuals to its caller, which keeps them."""
    stored = tuple(_stored(tree, v, reason) for v, reason in plan.keep.items())
    if handed:
        stored = tuple(
            replace(value, count=None, round=CALL, bytes=value.bytes * (value.count or 1)) for value in stored
        )
    again = plan.again.items()
    return Report(function, stored, tuple(RecomputedValue(v.hint, op.name, op.span) for v, op in again))


def _stored(tree: LoopTree, value: Value, reason: str) -> StoredValue:
    home, maker = tree.homes[value], tree.makers.get(value) or tree.calls.get(value)
    span = maker.span if maker is not None else None if home.op is None else home.op.span
    name = value.hint or ("value" if maker is None else maker.name)
    segmented = home.loop is not None and home.loop.op.attributes.get("segmented")
    size, round_ = layout_of(value.type).size, SEGMENT if segmented else ITERATION
    count = 1 if home.loop is None else fixed_length(home.loop)
    return StoredValue(name, str(value.type), size, count, span, reason, round_)
