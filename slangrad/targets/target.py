"""A target: the stages behind flat IR, and what they lead to.

traits      its name, and what the common stages ask of it (base/traits.py)
tail        the stages from a FlatKernel on
finish      the last value to what a device launches, and bytes that can be kept
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slangrad.base.traits import Traits
from slangrad.runtime.device import Kernel
from slangrad.runtime.image import KernelImage
from slangrad.stages import Stage


@dataclass(frozen=True, slots=True)
class Product:
    """`image`: the code, which can be kept; None where a target has none. `text`: code that is no machine's yet."""

    kernel: Kernel | None
    image: KernelImage | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    traits: Traits
    tail: tuple[Stage, ...]
    finish: Callable[[Any], Product]
