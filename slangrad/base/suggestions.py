"""Names that were perhaps meant, for the note of an error.

suggestion("bwd", ["bwds", "fwds"])   ->   "did you mean 'bwds'?"
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.base.late import Late

DIFFLIB = Late("difflib")


def near(name: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The question whether the most similar of the known names was meant; None where no name is similar."""
    names = [each for each in known if each != name]
    close = [each for each in names if each.lower() == str(name).lower()]
    close = close or DIFFLIB.get_close_matches(str(name), names, 1, cutoff)
    return f"did you mean '{close[0]}'?" if close else None


def suggestion(name: object, known: Iterable[str], nothing: str = "none") -> str:
    """The same, or else all that there are."""
    names = list(known)
    return near(name, names) or f"there are {', '.join(names) or nothing}"
