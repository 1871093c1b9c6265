"""The places of a kernel that report at run time, numbered.

    in_bounds %i, %n     site 0     what the machine code writes into the launch record is the number
    print "x = %f", %x   site 1

Turned into what the run time shows (location, excerpt, format) by whoever builds the kernel.
"""

from __future__ import annotations

from slangrad.base.options import TYPE_OF_VALUE
from slangrad.base.source import Span
from slangrad.ir.core import Op


def shown_place(op: Op) -> Span | None:
    """Where the user's program asked for what reports: a value of a wrong type was passed where the call is."""
    span = op.span
    if span is not None and str(op.attributes.get("text", "")).startswith(TYPE_OF_VALUE):
        span = span.caller or span
    return None if span is None else span.outside_library


class Sites:
    """Numbers ops; copies of an op, which show the same place, get the same number."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._numbers: dict[object, int] = {}

    def number(self, op: Op) -> int:
        span = shown_place(op)
        place: object = op if span is None else (span.source.name, span.start)
        key = (op.name, op.attributes.get("format", op.attributes.get("text")), place)
        if key not in self._numbers:
            self._numbers[key] = len(self.ops)
            self.ops.append(op)
        return self._numbers[key]
