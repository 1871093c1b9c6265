"""The facts of a target that the common stages of the compiler use: its name, and properties of the machine.

    CPU.cases["__target_switch"]     ("cpu", "cpp", "default")

`backends.py` has its device and the form of its code on disk, `slangrad/targets` its stages after flat IR.
"""

from __future__ import annotations

from typing import NamedTuple

CASES = {"__target_switch": ("cpu", "cpp", "default"), "__stage_switch": ("compute", "default")}


class Traits(NamedTuple):
    """`cases` of a switch over targets are meant in this order: the first that the program has counts."""

    name: str
    cases: dict[str, tuple[str, ...]] = CASES


CPU = Traits("cpu")
INTERPRETER = Traits("interpreter")
C_TEXT = Traits("c")
CUDA = Traits("cuda", {**CASES, "__target_switch": ("cuda", "cpp", "default")})
