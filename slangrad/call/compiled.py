"""A compiled call: what a device launches, and how arguments are packed for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slangrad.base.late import Late
from slangrad.call.packing import Packer
from slangrad.runtime.device import Kernel

PIPELINE = Late("slangrad.pipeline")


@dataclass(slots=True)
class Compiled:
    """The kernel of a call. What the pipeline made on the way, `stages`, is made anew for a kernel from the disk."""

    kernel: Kernel
    packer: Packer
    used: frozenset[str]
    key: str  # of the kernel on disk
    make_stages: Callable[[], Any]
    make_text: Callable[[], str]

    def __repr__(self) -> str:
        return f"Compiled({self.kernel.name}, arguments {', '.join(sorted(self.used)) or 'none'})"

    @property
    def stages(self) -> Any:
        return self.make_stages()

    @property
    def text(self) -> str:
        """The page of Slang that the kernel was made from."""
        return self.make_text()
