"""Attributes whose value is one for a class and another for each of its objects: `__doc__`, `__module__`.

Function.__doc__ = OwnText(Function.__doc__, documentation_of)
Function.__doc__          of the class            module.scale.__doc__      of the Slang function
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


class OwnText(str):
    """The text of the class; `ask` gives that of an object."""

    ask: Callable[[Any], str]

    def __new__(cls, text: str | None, ask: Callable[[Any], str]) -> Self:
        made = super().__new__(cls, text or "")
        made.ask = ask
        return made

    def __get__(self, found: Any, owner: type | None = None) -> str:
        return self if found is None else self.ask(found)
