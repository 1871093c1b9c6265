"""How many threads may run at once: the affinity mask and the cgroup's quota (Linux), else the CPU count.

In: files of the operating system.   Out: a number, at least 1.

What asks the operating system about processors is in this file only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path


def available_processors() -> int:
    """CPUs that this process may use, by affinity and by quota."""
    by_affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, by_affinity if quota is None else min(by_affinity, math.ceil(quota)))


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
    found = []
    for folder in (group, *group.parents):
        quota = read(folder)
        if quota is not None:
            found.append(quota)
        if folder == root:
            break
    return found


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
