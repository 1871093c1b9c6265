"""What is left of a bound call once its kernel is there: all that launching it takes.

    f(a: Tensor (4, 3), b: Tensor (3,))  ->  2 dimensions, leaves a, b and the result, where each finds its value

It is plain data, so it can be kept on disk with the kernels (`saved.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slangrad.marshal.marshal import Leaf
from slangrad.marshal.results import Result


@dataclass(slots=True)
class Source:
    """Where a leaf finds its value: in which of the given values, and by which keys inside of it."""

    given: int
    path: tuple[Any, ...]


@dataclass(slots=True)
class Launchable:
    name: str
    call_dims: int
    leaves: list[Leaf]
    sources: list[Source]
    created: Result | None
