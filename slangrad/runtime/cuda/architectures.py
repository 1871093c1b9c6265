"""The architectures that kernels are compiled for, as LLVM names them.

    newest_architecture((9, 0))     "sm_90"
    newest_architecture((10, 3))    "sm_100", whose PTX later GPUs run as well

The compiler has its own table with versions of PTX; a test compares both.
"""

from __future__ import annotations

ARCHITECTURES = {
    (7, 5): "sm_75",
    (8, 0): "sm_80",
    (8, 6): "sm_86",
    (8, 7): "sm_87",
    (8, 9): "sm_89",
    (9, 0): "sm_90",
    (10, 0): "sm_100",
    (12, 0): "sm_120",
}


def newest_architecture(capability: tuple[int, int]) -> str:
    """The newest one whose code a GPU of this compute capability (7.5 or more) runs."""
    return ARCHITECTURES[max(known for known in ARCHITECTURES if known <= capability)]
