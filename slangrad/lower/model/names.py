"""Names that are given once.

Foo, Foo, bar     ->     Foo, Foo#2, bar
"""

from __future__ import annotations


class UniqueNames:
    """Called with the name that is wanted."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __call__(self, wanted: str) -> str:
        """The name, with a number behind it when something else has it already."""
        count = self._counts.get(wanted, 0)
        self._counts[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}#{count + 1}"
