"""The table of sites of a kernel: the places that report when it runs, numbered once for all targets.

    in_bounds %i, %n      ->     in_bounds{site=0} %i, %n      table[0]: line, excerpt
    print{format} %x      ->     print{site=1, format} %x      table[1]: line, excerpt, format

A target writes the number into the report of a launch; the run time shows the entry of the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slangrad.base.options import TYPE_OF_VALUE
from slangrad.ir.ops.core import Function, Op, Region
from slangrad.runtime.reports import Site

REPORTS = ("in_bounds", "print")


def number_sites(functions: Iterable[Function]) -> tuple[list[Function], tuple[Site, ...]]:
    """The functions with the number of its site on each op that reports, and the sites."""
    sites = Sites()
    return [replace(f, region=sites.region(f.region)) for f in functions], tuple(sites.table)


class Sites:
    """Numbers ops; copies of an op, which show the same place, get the same number."""

    def __init__(self) -> None:
        self.table: list[Site] = []
        self._numbers: dict[object, int] = {}

    def region(self, region: Region) -> Region:
        return replace(region, ops=[self._op(op) for op in region.ops])

    def _op(self, op: Op) -> Op:
        if op.name in REPORTS:
            return replace(op, attributes={**op.attributes, "site": self.number(op)})
        return replace(op, regions=tuple(map(self.region, op.regions))) if op.regions else op

    def number(self, op: Op) -> int:
        span, text = op.span, op.attributes.get("text", "")
        if span is not None:  # the place of the call that passed a value of a wrong type
            place = span.caller if text.startswith(TYPE_OF_VALUE) else None
            span = (place or span).outside_library
        key = (op.attributes.get("format", text), span and (span.source.name, span.start))
        if key not in self._numbers:
            self._numbers[key] = len(self.table)
            self.table.append(Site.at(span, key[0]))
        return self._numbers[key]
