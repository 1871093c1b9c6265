"""A target: the stages behind flat IR, and what they lead to.

backend     its name and traits, its device, how its code is kept (backends.py)
tail        the stages from a FlatKernel on
finish      the last value to what a device launches, and bytes that can be kept
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.backends import Backend
from slangrad.runtime.device import Kernel
from slangrad.runtime.image import Image
from slangrad.stages import Stage, StageValue


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """`kernel`: None for a target whose code no device launches. `image`: the code, if it can be kept."""

    kernel: Kernel | None
    image: Image | None = None


@dataclass(frozen=True, slots=True)
class Target:
    backend: Backend
    tail: tuple[Stage, ...]
    finish: Callable[[StageValue], BuiltKernel]

    @property
    def name(self) -> str:
        return self.backend.traits.name
