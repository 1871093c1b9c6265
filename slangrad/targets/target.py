"""A target: the stages after flat IR, and their result.

backend     its name and traits, its device, the form of its code on disk (backends.py)
tail        the stages after a FlatKernel
finish      makes of the last value a kernel that a device launches, and bytes for the disk
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
