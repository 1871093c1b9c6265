"""Places in a kernel that report something when it runs, as the run time shows them."""

from __future__ import annotations

from slangrad.ir.core import Op
from slangrad.llvm.sites import shown_place
from slangrad.runtime.reports import Site


def site_of(op: Op) -> Site:
    """What a run-time report of the op shows."""
    text = str(op.attributes.get("format", op.attributes.get("text", "")))
    return Site.at(shown_place(op), text)
