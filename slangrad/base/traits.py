"""The facts of a target that the common stages of the compiler use: its name, and properties of the machine.

    CPU.cases["__target_switch"]     ("cpu", "cpp", "default")

`backends.py` has its device and the form of its code on disk, `slangrad/targets` its stages after flat IR.
"""

from __future__ import annotations

from typing import NamedTuple

CASES = {"__target_switch": ("cpu", "cpp", "default"), "__stage_switch": ("compute", "default")}


class Traits(NamedTuple):
    """`cases` of a switch over targets are meant in this order: the first that the program has counts. `keeping`: how
    many times as much it costs as on a CPU to keep a number of each iteration of a loop, beside arithmetic.
    `reads_again`: reverse mode may read memory once more rather than keep what it read. `approximates`: maths of floats
    for which the machine has an approximate instruction, for `Options.fast_math`."""

    name: str
    cases: dict[str, tuple[str, ...]] = CASES
    keeping: int = 1
    reads_again: bool = False
    approximates: frozenset[str] = frozenset()


CPU = Traits("cpu")
INTERPRETER = Traits("interpreter")
C_TEXT = Traits("c")
CUDA = Traits(
    "cuda",
    {**CASES, "__target_switch": ("cuda", "cpp", "default")},
    keeping=8,  # memory of a thread is memory of the GPU
    reads_again=True,
    approximates=frozenset(("exp", "exp2", "log", "log2", "log10", "sin", "cos")),
)
