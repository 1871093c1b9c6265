"""What a vjp keeps and what it computes again, as data for people.

stored      %x  f32   4 bytes an iteration   tape in loop at mlp.slang:12:5
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


@dataclass(frozen=True, slots=True)
class Stored:
    """`bytes` are those of one value; `count` says how many a thread keeps, None when a run decides."""

    name: str
    type: str
    bytes: int
    count: int | None
    span: Span | None

    @property
    def bytes_a_thread(self) -> int | None:
        return None if self.count is None else self.bytes * self.count

    def __str__(self) -> str:
        if self.count is None:
            return f"%{self.name}: {self.type}, {self.bytes} bytes an iteration"
        return f"%{self.name}: {self.type}, {self.bytes * self.count} bytes a thread"


@dataclass(frozen=True, slots=True)
class Recomputed:
    name: str
    op: str
    span: Span | None

    def __str__(self) -> str:
        return f"%{self.name} = {self.op}"


@dataclass(frozen=True, slots=True)
class Report:
    """For one vjp function."""

    function: str
    stored: tuple[Stored, ...]
    recomputed: tuple[Recomputed, ...]

    def __str__(self) -> str:
        lines = [f"@{self.function}"]
        lines += [f"  stored      {each}" for each in self.stored]
        lines += [f"  recomputed  {each}" for each in self.recomputed]
        return "\n".join(lines)


def report(function: str, made: Reversed) -> Report:
    stored = tuple(_stored(made, v) for v in made.plan.keep)
    again = made.plan.again.items()
    return Report(function, stored, tuple(Recomputed(v.hint, op.name, op.span) for v, op in again))


def _stored(made: Reversed, value: Value) -> Stored:
    home, maker = made.outline.homes[value], made.outline.makers.get(value)
    span = maker.span if maker is not None else None if home.op is None else home.op.span
    return Stored(value.hint, str(value.type), layout_of(value.type).size, _count(home.loop), span)


def _count(loop: Loop | None) -> int | None:
    return 1 if loop is None else fixed_length(loop)
