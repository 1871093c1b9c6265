"""Loggers of programs, as SlangPy has them, and their outputs.

    logger = Logger(LogLevel.debug, name="training")
    logger.info("step 10")                     [INFO] (training) step 10
    log_warn("no gradient")                    the same by the logger that all share

Messages below the level of the logger are not written; those of level `none` always are, and without a prefix.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, IntEnum
from os import PathLike
from pathlib import Path

from slangrad.base.process.forks import BRIEF, kept_at_fork


class LogLevel(IntEnum):
    """The severity of a message."""

    none = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    fatal = 5


class LogFrequency(Enum):
    """Whether a message is written again."""

    always = 0
    once = 1


_COLORS = {1: 35, 2: 36, 3: 33, 4: 31, 5: 91}


def _line(level: LogLevel, name: str, msg: str, shown: str) -> str:
    if level is LogLevel.none:
        return f"{msg}\n"
    return f"[{shown}] ({name}) {msg}\n" if name else f"[{shown}] {msg}\n"


class LoggerOutput(ABC):
    """A target of messages. Subclasses define `write`; TypeError for one that does not."""

    @abstractmethod
    def write(self, level: LogLevel, name: str, msg: str) -> None:
        """Take a message of a logger of that name."""


class ConsoleLoggerOutput(LoggerOutput):
    """Standard output, and standard error from `error` on. Colors are used in terminals only."""

    def __init__(self, colored: bool = True) -> None:
        self.colored = colored

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        """Print a message: errors to stderr, all others to stdout."""
        stream = sys.stderr if level >= LogLevel.error else sys.stdout
        if stream is None:
            return
        colored = self.colored and level in _COLORS and stream.isatty()
        shown = f"\x1b[{_COLORS[level]}m{level.name.upper()}\x1b[0m" if colored else level.name.upper()
        stream.write(_line(level, name, msg, shown))
        stream.flush()


class FileLoggerOutput(LoggerOutput):
    """A file, which is written anew. OSError where it cannot be."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 as long as the output lives

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        """Append a message to the file."""
        self._file.write(_line(level, name, msg, level.name.upper()))
        self._file.flush()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


Log = Callable[["Logger", str], None]


def _at(level: LogLevel) -> tuple[Log, Log]:
    """Methods that write messages of a level: always, and once."""

    def always(self: Logger, msg: str) -> None:
        """Log a message of this level."""
        self.log(level, msg)

    def once(self: Logger, msg: str) -> None:
        """Log a message of this level, unless it was logged before."""
        self.log(level, msg, LogFrequency.once)

    always.__name__, once.__name__ = level.name, f"{level.name}_once"
    return always, once


class Logger:
    """Writes messages to outputs; with `use_default_outputs` to the console."""

    def __init__(
        self, level: LogLevel = LogLevel.info, name: str = "", use_default_outputs: bool = True
    ) -> None:
        self.level = LogLevel(level)
        self.name = name
        self._outputs: list[LoggerOutput] = []
        self._written: set[tuple[LogLevel, str]] = set()
        self._lock = kept_at_fork(threading.Lock(), BRIEF)
        if use_default_outputs:
            self.add_console_output()

    def add_console_output(self, colored: bool = True) -> LoggerOutput:
        """Add the console as an output, and return it."""
        return self._added(ConsoleLoggerOutput(colored))

    def add_file_output(self, path: str | PathLike[str]) -> LoggerOutput:
        """Add a file as an output, and return it. OSError if the file cannot be written."""
        return self._added(FileLoggerOutput(path))

    def add_output(self, output: LoggerOutput) -> None:
        """Add an output."""
        self._added(output)

    def _added(self, output: LoggerOutput) -> LoggerOutput:
        if output not in self._outputs:
            self._outputs.append(output)
        return output

    def use_same_outputs(self, other: Logger) -> None:
        """Use the outputs that another logger has now."""
        self._outputs = list(other._outputs)

    def remove_output(self, output: LoggerOutput) -> None:
        """Remove an output."""
        self._outputs = [kept for kept in self._outputs if kept is not output]

    def remove_all_outputs(self) -> None:
        """Remove all outputs."""
        self._outputs = []

    def log(self, level: LogLevel, msg: str, frequency: LogFrequency = LogFrequency.always) -> None:
        """Write a message; with `LogFrequency.once` only if it was not written so before."""
        level = LogLevel(level)
        if LogLevel.none < level < self.level:
            return
        with self._lock:
            if frequency is LogFrequency.once:
                if (level, msg) in self._written:
                    return
                self._written.add((level, msg))
            for output in [*self._outputs]:
                output.write(level, self.name, msg)

    debug, debug_once = _at(LogLevel.debug)
    info, info_once = _at(LogLevel.info)
    warn, warn_once = _at(LogLevel.warn)
    error, error_once = _at(LogLevel.error)
    fatal, fatal_once = _at(LogLevel.fatal)

    @staticmethod
    def get() -> Logger:
        """The logger that `log_info` and the like write to."""
        return _shared


_shared = Logger()


def _of_shared(name: str) -> Callable[[str], None]:
    def function(msg: str) -> None:
        getattr(_shared, name)(msg)

    function.__name__ = function.__qualname__ = f"log_{name}"
    function.__doc__ = f"`Logger.{name}` of the shared logger."
    return function


def log(level: LogLevel, msg: str, frequency: LogFrequency = LogFrequency.always) -> None:
    """`Logger.log` of the shared logger."""
    _shared.log(level, msg, frequency)


log_debug, log_debug_once = _of_shared("debug"), _of_shared("debug_once")
log_info, log_info_once = _of_shared("info"), _of_shared("info_once")
log_warn, log_warn_once = _of_shared("warn"), _of_shared("warn_once")
log_error, log_error_once = _of_shared("error"), _of_shared("error_once")
log_fatal, log_fatal_once = _of_shared("fatal"), _of_shared("fatal_once")
