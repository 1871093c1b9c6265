"""The places of a kernel that report at run time, numbered.

    in_bounds %i, %n     site 0     what the machine code writes into the launch record is the number
    print "x = %f", %x   site 1

Turned into what the run time shows (location, excerpt, format) by whoever builds the kernel.
"""

from __future__ import annotations

from slangrad.ir.core import Op


class Sites:
    """Numbers ops; copies of an op, which have its span, get the same number."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._numbers: dict[object, int] = {}

    def number(self, op: Op) -> int:
        span = op.span
        place: object = op if span is None else (span.source.name, span.start)
        key = (op.name, op.attributes.get("format"), place)
        if key not in self._numbers:
            self._numbers[key] = len(self.ops)
            self.ops.append(op)
        return self._numbers[key]
