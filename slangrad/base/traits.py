"""Targets as the compiler's common stages know them: a name, and answers to questions about the machine.

    CPU.cases["__target_switch"]     ("cpu", "cpp", "default")

Its device and how its code is kept are in `backends.py`, what it does with flat IR in `slangrad/targets`.
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
