"""The line about a compilation that takes long: `compiling kernel 1 of f: stage 3 of 11, autodiff (4 s)`.

It overwrites itself and is erased at the end. rich's live displays are not used. They hide the cursor, which a
killed process does not restore, and redirect other prints to standard error.
"""

from __future__ import annotations

import threading

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from slangrad.base.progress import Progress

INTERVAL = 0.1  # seconds between two looks
EMPTY = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


def show(progress: Progress, done: threading.Event, console: Console | None = None) -> None:
    """Until it is done."""
    console = Console(stderr=True, highlight=False) if console is None else console
    written = ""
    while True:
        text = str(progress)
        if text != written:
            console.control(EMPTY)
            console.print(text, end="", style="dim", markup=False, no_wrap=True, overflow="ellipsis")
            written = text
        if done.wait(INTERVAL):
            break
    console.control(EMPTY)
