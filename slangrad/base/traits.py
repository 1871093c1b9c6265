"""Targets as the compiler's common stages know them: a name, and answers to questions about the machine.

    CPU.cases["__target_switch"]     ("cpu", "cpp", "default")

What a target does with flat IR, its devices and its code are in `slangrad/targets`, which loads the back end.
"""

from __future__ import annotations

from typing import NamedTuple

CASES = {"__target_switch": ("cpu", "cpp", "default"), "__stage_switch": ("compute", "default")}


class Traits(NamedTuple):
    """`cases` of a switch over targets are meant in this order: the first that the program has counts. Machine code of
    a target that `is_stored` is kept on disk.
    """

    name: str
    is_stored: bool
    cases: dict[str, tuple[str, ...]] = CASES


CPU = Traits("cpu", is_stored=True)
INTERPRETER = Traits("interpreter", is_stored=False)
C_TEXT = Traits("c", is_stored=False)

TRAITS = {each.name: each for each in (CPU, INTERPRETER, C_TEXT)}
