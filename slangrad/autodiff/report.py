"""What a vjp keeps and what it computes again, as data for people.

@relax.vjp: 1024 bytes a thread
  stored      %x: f32, 1024 bytes a thread, line 12: the loop carries it from one iteration to the next
  recomputed  %y = mul
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.autodiff.outline import Loop
from slangrad.autodiff.plan import fixed_length
from slangrad.autodiff.reverse import Reversed
from slangrad.base.source import Span
from slangrad.ir.core import Value
from slangrad.ir.layout import layout_of

ITERATION, SEGMENT = "an iteration", "a segment"


@dataclass(frozen=True, slots=True)
class Stored:
    """`bytes` are those of one value; `count` says how many a thread keeps at most, None when a run decides: one for
    each `round`, an iteration of the loop or a segment of it."""

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
class Recomputed:
    name: str
    op: str
    span: Span | None

    def __str__(self) -> str:
        return f"%{self.name} = {self.op}" if self.name else self.op


@dataclass(frozen=True, slots=True)
class Report:
    """For one vjp function."""

    function: str
    stored: tuple[Stored, ...]
    recomputed: tuple[Recomputed, ...]

    def __str__(self) -> str:
        if not (self.stored or self.recomputed):
            return f"@{self.function}: nothing to store or to compute again"
        lines = [f"@{self.function}: {_total(self.stored)}"]
        lines += [f"  stored      {each}" for each in self.stored]
        lines += [f"  recomputed  {each}" for each in self.recomputed]
        return "\n".join(lines)


def bytes_a_thread(stored: tuple[Stored, ...]) -> int:
    """At most, but for what a run decides: the sizes of those values count once."""
    return sum(each.bytes * (1 if each.count is None else each.count) for each in stored)


def _total(stored: tuple[Stored, ...]) -> str:
    known = bytes_a_thread(tuple(each for each in stored if each.count is not None))
    rounds = {
        name: [each for each in stored if each.count is None and each.round == name]
        for name in (ITERATION, SEGMENT)
    }
    more = [f" and {bytes_a_thread(tuple(each))} {name}" for name, each in rounds.items() if each]
    of = " of loops whose length is not known" if more else ""
    return f"{known} bytes a thread{''.join(more)}{of}"


def report(function: str, made: Reversed) -> Report:
    stored = tuple(_stored(made, v, reason) for v, reason in made.plan.keep.items())
    again = made.plan.again.items()
    return Report(function, stored, tuple(Recomputed(v.hint, op.name, op.span) for v, op in again))


def _stored(made: Reversed, value: Value, reason: str) -> Stored:
    home, maker = made.outline.homes[value], made.outline.makers.get(value)
    span = maker.span if maker is not None else None if home.op is None else home.op.span
    name = value.hint or ("value" if maker is None else maker.name)
    segmented = home.loop is not None and home.loop.op.attributes.get("segmented")
    size, round_ = layout_of(value.type).size, SEGMENT if segmented else ITERATION
    return Stored(name, str(value.type), size, _count(home.loop), span, reason, round_)


def _count(loop: Loop | None) -> int | None:
    return 1 if loop is None else fixed_length(loop)
