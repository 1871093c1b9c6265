"""Errors of graphs: a code, the user's line, the shapes, and the text to write instead."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import local
from types import FrameType
from typing import ParamSpec, TypeVar

from slangrad import CallError

_OWN = frozenset({"slangrad", "numpy", "scipy", "torch", "importlib"})
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def here() -> SourceLine | None:
    """The innermost line that is not in this package, NumPy, SciPy, torch or the import system."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _is_own(frame):
            return SourceLine(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _is_own(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _OWN


class GraphError(CallError):
    """A function that cannot be traced, differentiated or planned. `code` says which rule it breaks (E1040 to E1049),
    `note` what to write instead, and `place` is the line of the user's program, or None."""

    def __init__(
        self, code: str, message: str, note: str | None = None, place: SourceLine | None = None
    ) -> None:
        self.place = place or here()
        super().__init__(code, f"{self.place}: {message}" if self.place else message, note=note)


class TracedValueError(GraphError, TypeError):
    """Python code asks a traced array for its elements (E1041), as `if x > 0` does. They are not known while a function
    is traced. It is a TypeError, too."""


class _LastRefusal(local):
    """The last error of this thread for a traced array whose elements were asked for."""

    error: TracedValueError | None = None


LAST_REFUSAL = _LastRefusal()


def refused(code: str, message: str, note: str) -> TracedValueError:
    """An error for code that needs elements of a traced array. It is remembered, because NumPy and torch replace some
    errors by their own."""
    LAST_REFUSAL.error = TracedValueError(code, message, note)
    return LAST_REFUSAL.error


def refusal_behind(error: Exception) -> TracedValueError | None:
    """The error of a traced array that NumPy or torch replaced by `error`: the last one at the same line. Some code
    checks the type and does not call the array at all. Then `error` contains the name of the class, and becomes one."""
    if isinstance(error.__cause__, TracedValueError):
        return error.__cause__
    place, trace = None, error.__traceback__
    while trace is not None:
        if not _is_own(trace.tb_frame):
            place = SourceLine(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    last = LAST_REFUSAL.error
    if last is not None and last.place == place:
        return last
    if isinstance(error, TypeError | RuntimeError) and re.search(r"\bArray\b", str(error)):
        note = "NumPy's functions take traced arrays, and return them"
        return TracedValueError(
            "E1041", f"a traced array where its elements are needed: {error}", note, place
        )
    return None


class MemoryLimitError(GraphError):
    """A plan that does not fit into its memory (E1047). `least`: enough bytes for it; `held`: the part of them that no
    choice of values saves."""

    def __init__(self, message: str, note: str, least: int, held: int = 0) -> None:
        super().__init__("E1047", message, note)
        self.least, self.held = least, held


class UnknownFunctionError(GraphError, TypeError):
    """A function of another library that cannot take traced arrays."""


class UnknownAttributeError(GraphError, AttributeError):
    """An attribute of arrays that traced arrays lack."""


def explained(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Errors of Python and NumPy inside of a function become GraphErrors (E1042) with the shapes of its arguments."""

    def enter(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except CallError:
                raise
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                shapes = " and ".join(
                    str(x.shape) for x in args if hasattr(x, "shape") and not isinstance(x, type)
                )
                raise GraphError("E1042", f"{name}{' of ' * bool(shapes)}{shapes}: {error}") from error

        return checked

    return enter
