"""Suggestions of similar names, for the note of an error.

suggestion("bwd", ["bwds", "fwds"])   ->   "did you mean 'bwds'?"
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.base.lazy import LazyModule

DIFFLIB = LazyModule("difflib")


def near(name: object, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Asks `did you mean ...?` with the most similar candidate; None where no name is similar."""
    names = [candidate for candidate in candidates if candidate != name]
    close = [candidate for candidate in names if candidate.lower() == str(name).lower()]
    close = close or DIFFLIB.get_close_matches(str(name), names, 1, cutoff)
    return f"did you mean '{close[0]}'?" if close else None


def suggestion(name: object, candidates: Iterable[str], nothing: str = "none") -> str:
    """The same, or else a list of all candidates."""
    names = list(candidates)
    return near(name, names) or f"there are {', '.join(names) or nothing}"
