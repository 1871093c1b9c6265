"""Paths and memory of this process: SlangPy's `platform`.

    platform.executable_path()      platform.memory_stats().peak_rss

There are no windows, so there are no dialogs.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from mmap import PAGESIZE
from os import getpid
from pathlib import Path

from slangrad.missing_names import missing

if sys.platform != "win32":
    import resource

#: Bytes of a page of memory.
page_size = PAGESIZE


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes of memory that the process has, and the most that it had."""

    rss: int
    peak_rss: int


def executable_path() -> Path:
    """The Python that runs."""
    return Path(sys.executable)


def executable_directory() -> Path:
    """The folder of the Python that runs."""
    return executable_path().parent


def executable_name() -> str:
    """The file name of the Python that runs."""
    return executable_path().name


def home_directory() -> Path:
    """The user's folder."""
    return Path.home()


def app_data_directory() -> Path:
    """The folder for a user's data of this package, which is not created."""
    return home_directory() / ".slangrad"


def runtime_directory() -> Path:
    """The folder of the package."""
    return Path(__file__).resolve().parent


def project_directory() -> Path:
    """The folder that the package is in: a checkout, or where packages are installed."""
    return runtime_directory().parent


def display_scale_factor() -> float:
    """The scale of a display: always 1, since there are no windows."""
    return 1.0


def memory_stats() -> MemoryStats:
    """Memory of the process. OSError on Windows, where the standard library has no such figure."""
    if sys.platform == "win32":
        raise OSError("memory_stats: Python has no figure for the memory of a process on Windows")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    rss = _resident()
    return MemoryStats(rss, max(peak, rss))


def _resident() -> int:
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGESIZE
    output = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(getpid())], capture_output=True, text=True, check=True
    )
    return int(output.stdout) * 1024


def __getattr__(name: str) -> object:
    raise missing("module 'slangrad.platform'", name)
