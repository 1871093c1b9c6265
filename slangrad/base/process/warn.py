"""Warnings that point at the line of the user's program.

warn("...", CompileWarning)      "script.py:12: CompileWarning: ...", however deep in the package it was said
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

# Frames of PyTorch lie between the user's call and ours when autograd or a torch module makes the call.
_INSIDE = (__name__.partition(".")[0], "torch")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside of the package; where all frames are inside, at the outermost."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    module = str(frame.f_globals.get("__name__", "<unknown>"))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    place = (frame.f_code.co_filename, frame.f_lineno, module, registry)
    warnings.warn_explicit(message, category, *place)


def _is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _INSIDE
