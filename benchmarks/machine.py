"""The machine: what it is, how busy its CPUs are, waiting until they are quiet. Linux only: it reads /proc."""

from __future__ import annotations

import datetime
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

TICKS = os.sysconf("SC_CLK_TCK")
GLANCE = 0.12  # seconds between two looks at the CPUs' times
IDLE = 0.021  # CPU seconds that others may use meanwhile: two ticks


def describe() -> dict[str, Any]:
    """What a table must say of the machine."""
    model = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": model[1] if model else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "date": str(datetime.date.today()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
    }


def cpu_of(rank: int) -> int:
    """One for a worker: of a core of its own, as long as there are enough. CPUs of one core slow each other down."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else str(cpu), []).append(cpu)
    order = [cpus[0] for cpus in cores.values()] + [cpu for cpus in cores.values() for cpu in cpus[1:]]
    return order[rank % len(order)]


def pin(cpus: int) -> None:
    """This process and those it starts stay on that many CPUs; a ValueError when there are fewer."""
    available = sorted(os.sched_getaffinity(0))
    if not 1 <= cpus <= len(available):
        raise ValueError(f"there are 1 to {len(available)} CPUs, not {cpus}")
    os.sched_setaffinity(0, available[:cpus])


def cpu_seconds() -> tuple[float, float]:
    """Of the CPUs that this process may use: seconds they were busy, and seconds the hypervisor took."""
    ours = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    times = [[int(ticks) / TICKS for ticks in line[1:9]] for line in lines if line[0] in ours]
    user, nice, system, _, _, interrupts, soft_interrupts, stolen = (sum(column) for column in zip(*times))
    return user + nice + system + interrupts + soft_interrupts, stolen


def wait_until_quiet(limit: float) -> float:
    """Until others use less than a sixth of one CPU, or `limit` seconds; returns the seconds waited."""
    start = time.perf_counter()
    while (waited := time.perf_counter() - start) < limit:
        busy = cpu_seconds()[0]
        time.sleep(GLANCE)
        if cpu_seconds()[0] - busy <= IDLE:
            break
    return waited
