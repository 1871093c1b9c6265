"""How many threads may run at once (affinity mask and cgroup quota on Linux, else the CPU count), and which
processor this is.

In: files of the operating system.   Out: a number, at least 1; a text that is another one on other processors.

Only this file asks the operating system about processors.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter, process_time


def available_processors() -> int:
    """CPUs that this process may use, by affinity and by quota."""
    by_affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, by_affinity if quota is None else min(by_affinity, math.ceil(quota)))


def idle_processors() -> int:
    """About how many of these are idle, the one that runs this process included: at least 1. From the load of the
    last minute; all of them where the system has no such figure."""
    available = available_processors()
    try:
        busy = os.getloadavg()[0] * available / (os.cpu_count() or 1)
    except (AttributeError, OSError):
        return available
    return max(1, min(available, int(available - busy + min(busy, 1.0) + 0.5)))


class OtherPrograms:
    """Notices whether other programs, or the host of a virtual machine, have had a part of the processors since it was
    made."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = perf_counter(), _busy_seconds(), process_time()

    def were_at_work(self) -> bool:
        """False where the system does not say."""
        by_all = _busy_seconds() - self._busy
        by_others = by_all - (process_time() - self._own)
        count = available_processors()
        return by_others > count * (DISTURBED * (perf_counter() - self._began) + TICK)


DISTURBED = 0.1  # the part of the processors' time that others may have
TICK = 0.01  # seconds: the steps in which the system counts
STATISTICS = Path("/proc/stat")
_BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, interrupts, soft interrupts, stolen


def _busy_seconds() -> float:
    """The time that the CPUs of this process were busy since the system began; 0 where the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return 0.0
    names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [words for words in map(str.split, _lines(STATISTICS)) if words and words[0] in names]
    ticks = sum(int(words[place]) for words in rows for place in _BUSY if place < len(words))
    return float(ticks / os.sysconf("SC_CLK_TCK"))


PROCESS_GROUPS = Path("/proc/self/cgroup")
GROUP_FILES = Path("/sys/fs/cgroup")


def cgroup_quota(groups: Path = PROCESS_GROUPS, root: Path = GROUP_FILES) -> float | None:
    """The smallest CPU quota of the cgroups that hold this process; None without a limit."""
    quotas = []
    for line in _lines(groups):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            quotas += _along(root, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            quotas += _along(root / "cpu", path, _quota_v1)
    return min(quotas, default=None)


def _along(root: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """Quotas of a group and of all that contain it."""
    group = root / path.strip("/")
    quotas = []
    for folder in (group, *group.parents):
        quota = read(folder)
        if quota is not None:
            quotas.append(quota)
        if folder == root:
            break
    return quotas


def _quota_v2(folder: Path) -> float | None:
    words = " ".join(_lines(folder / "cpu.max")).split()
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(folder: Path) -> float | None:
    quota = "".join(_lines(folder / "cpu.cfs_quota_us"))
    period = "".join(_lines(folder / "cpu.cfs_period_us"))
    if not quota or not period or int(quota) <= 0:
        return None
    return int(quota) / int(period)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


@cache
def processor_identity() -> str:
    """A text that differs between machines which cannot run each other's code: the processor's names and
    features."""
    facts = [sys.platform, platform.machine()]
    if sys.platform.startswith("linux"):
        facts += _first_processor(Path("/proc/cpuinfo"))
    elif sys.platform == "darwin":
        facts += [_system_value(name) for name in _DARWIN_NAMES]
    else:
        facts += [os.environ.get(name, "") for name in ("PROCESSOR_IDENTIFIER", "PROCESSOR_REVISION")]
        facts += [platform.node()]  # features are not listed here
    return "\n".join(facts)


_LINUX_NAMES = (
    "vendor_id", "cpu family", "model", "model name", "stepping", "flags",
    "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features",
    "isa",
)  # fmt: skip
_DARWIN_NAMES = (
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "hw.cpufamily",
    "hw.cpusubfamily",
)


def _first_processor(file: Path) -> list[str]:
    """The lines about one processor; all are alike as far as code is concerned."""
    try:
        with file.open("rb") as lines:
            text = lines.read(1 << 14).decode("ascii", "replace")
    except OSError:
        return [platform.node()]
    first = text.strip().split("\n\n")[0].splitlines()
    return [line for line in first if line.split(":")[0].strip() in _LINUX_NAMES]


def _system_value(name: str) -> str:
    size = ctypes.c_size_t(1 << 12)
    room = ctypes.create_string_buffer(size.value)
    find = ctypes.CDLL(None).sysctlbyname
    failed = find(name.encode(), room, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else room.raw[: size.value].hex()
