"""The names of processors in LLVM.

    check_cpu("x86-64-v9", triple)   ->   ValueError: there is no CPU 'x86-64-v9' (SLANGRAD_CPU): ... are known

LLVM reports unknown names only on standard error, and takes them for a plain processor, so a child process lists
the names.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

from slangrad.base.suggestions import near

COMMON = re.compile(r"generic|x86-64(-v[234])?")

_ASK = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu="help")
"""


def check_cpu(name: str, triple: str) -> None:
    """ValueError for a name that LLVM does not know."""
    if COMMON.fullmatch(name) and triple.startswith("x86_64"):
        return
    cpus = known_cpus(triple)
    if cpus and name not in cpus:
        hint = " ".join(filter(None, (near(name, cpus), f"known are {', '.join(cpus)}")))
        raise ValueError(f"there is no CPU '{name}' (SLANGRAD_CPU): {hint}")


@cache
def known_cpus(triple: str) -> tuple[str, ...]:
    """Empty where LLVM does not tell."""
    command = [sys.executable, "-c", _ASK, triple]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ()
    cpus = output.split("Available features")[0]
    names = re.findall(r"^ +(\S+) +- Select the ", cpus, re.MULTILINE)
    return tuple(name for name in names if "_" not in name)
