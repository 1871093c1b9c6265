"""Count how far a tensor argument walks, from `Function.__call__` to the argument block.

    python tools/count_walk.py      in each call: 6 stays, 0 returns      for a new layout: 12 stays, 2 returns

A stay is a function of slangrad that is entered with the value: by itself, in a list or dict of values, or as its
footprint. A function counts once. A return is a file that is entered again after another one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import slangrad as spy
from slangrad.call.plans.overlap import TouchedRegion
from slangrad.marshal.host.footprint import Footprint, StridedMemory, Use

PACKAGE = Path(spy.__file__).parent
DEPTH = 2  # of lists and dicts around the value


@dataclass
class Walk:
    """Functions with their files, in the order in which they are first entered."""

    stays: list[tuple[str, str]]

    @property
    def returns(self) -> int:
        files = [file for file, _ in self.stays]
        changes = [file for i, file in enumerate(files) if i == 0 or files[i - 1] != file]
        return len(changes) - len(set(changes))

    def __str__(self) -> str:
        return f"{len(self.stays)} stays, {self.returns} returns"


def walk_of(value: Any, call: Callable[[], object]) -> Walk:
    """The walk of a value in a call, which is run."""
    stays: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or not path.is_relative_to(PACKAGE) or code.co_name.startswith("<"):
            return
        variable = bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args, **kwargs
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variable]
        if any(_holds(frame.f_locals.get(name), value, DEPTH) for name in names):
            stays[str(path.relative_to(PACKAGE)), code.co_qualname] = None

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk(list(stays))


def _holds(argument: Any, value: Any, depth: int) -> bool:
    if argument is value or isinstance(argument, (Footprint, StridedMemory, Use, TouchedRegion)):
        return True
    inside = argument.values() if isinstance(argument, dict) else argument
    return (
        depth > 0
        and isinstance(argument, (list, tuple, dict))
        and any(_holds(item, value, depth - 1) for item in inside)
    )


def walks() -> tuple[Walk, Walk]:
    """The walks of a Tensor in a call whose kernel is there: with a layout that was met before, and with a new one."""
    device = spy.create_device()
    source = "float scaled(float a, float x) { return a * x; }"
    scaled = spy.Module.load_from_source(device, "walk", source).scaled
    tensors = [spy.Tensor.from_numpy(device, np.ones(size, np.float32)) for size in (16, 17)]
    scaled(2.0, tensors[0])
    new = walk_of(tensors[1], lambda: scaled(2.0, tensors[1]))
    return walk_of(tensors[1], lambda: scaled(2.0, tensors[1])), new


if __name__ == "__main__":
    for title, walk in zip(("in each call", "for a new layout"), walks()):
        print(f"{title}: {walk}", *(f"    {file}  {name}" for file, name in walk.stays), sep="\n")
