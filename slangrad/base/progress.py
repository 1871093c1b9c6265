"""Progress of a compilation: a line on the terminal if it takes longer than a second.

    with shown("kernel 1 of f", wanted=True) as progress:
        progress.detail = "stage 3 of 11, autodiff"       compiling kernel 1 of f: stage 3 of 11, autodiff (4 s)

The line is on standard error, and is erased at the end of the block. Notebooks, CI and other outputs that are no
terminal get none. cli/progress.py writes it, and is loaded after the first second.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from time import monotonic

from slangrad.base.lazy import LazyModule
from slangrad.base.process.threads import start_thread

PATIENCE = 1.0  # seconds without a line
_LINE = LazyModule("slangrad.cli.progress")


@dataclass(slots=True, eq=False)
class Progress:
    """A compilation by its title; `detail` changes on the way."""

    title: str
    detail: str = ""
    start: float = field(default_factory=monotonic)

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"compiling {self.title}{detail} ({monotonic() - self.start:.0f} s)"


# Of all threads. The first compilation has the line; those that begin meanwhile, in any thread, have none.
_running: list[Progress] = []


@contextmanager
def shown(title: str, wanted: bool) -> Iterator[Progress]:
    """Show the line meanwhile, if that is wanted and standard error is a terminal."""
    progress = Progress(title)
    if not (wanted and is_seen(os.environ)):
        yield progress
        return
    _running.append(progress)
    try:
        with _line(progress) if _running[0] is progress else nullcontext():
            yield progress
    finally:
        _running.remove(progress)


@contextmanager
def _line(progress: Progress) -> Iterator[None]:
    done = threading.Event()
    thread = start_thread("slangrad progress", _show_later, progress, done)
    try:
        yield
    finally:
        if thread is not None and thread.is_alive():  # in the child of a fork it is not
            done.set()
            thread.join()  # what is printed next finds the line erased


def is_seen(environment: Mapping[str, str]) -> bool:
    """Whether standard error is a terminal of a person, not of CI."""
    if environment.get("CI") or environment.get("TERM") == "dumb":
        return False
    return sys.stderr is not None and sys.stderr.isatty()


def _show_later(progress: Progress, done: threading.Event) -> None:
    if not done.wait(PATIENCE):
        _LINE.show(progress, done)
