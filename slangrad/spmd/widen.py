"""A kernel of one thread as a kernel of W lanes.

    wide = widen(kernel, 16)
    wide.full      for waves in which all lanes are on: a function without parameters
    wide.masked    for the last wave: its parameter is the mask of the lanes that are on; None at one lane
    wide.condition where there is one: `full` is for chunks of which it is true, `masked` for all others

For large kernels `full` is None: compiling them twice would cost more than masks do.
"""

from __future__ import annotations

from dataclasses import dataclass

from slangrad.ir.core import Function, walk
from slangrad.ir.rebuild import count_uses
from slangrad.spmd import access, effects, loops, tapes, variables, waves
from slangrad.spmd.lanes import Widening
from slangrad.spmd.records import join_records
from slangrad.spmd.uniformity import Shapes

LARGE = 600  # ops

RULES = loops.RULES | access.RULES | effects.RULES | tapes.RULES | variables.RULES | waves.RULES


@dataclass(frozen=True, slots=True)
class WideKernel:
    lanes: int
    full: Function | None
    masked: Function | None
    condition: Function | None = None


def may_be_full(kernel: Function) -> bool:
    """Whether there is code for waves in which all lanes are on."""
    return sum(1 for _ in walk(kernel.region)) <= LARGE


def widen(
    kernel: Function,
    lanes: int,
    exclusive: bool = False,
    entire: bool = False,
    certain: tuple[Function, Function] | None = None,
) -> WideKernel:
    """One lane is the kernel as it is. `exclusive`: no other thread runs it at the same time. `entire`: all lanes are
    always on. `certain`: the kernel for chunks of which a condition is true, and that condition."""
    assert 0 < lanes <= 64 and lanes & (lanes - 1) == 0, lanes
    if lanes == 1:
        single = waves.alone(kernel)
        return WideKernel(1, effects.exclusive(single) if exclusive else single, None)
    kernel = join_records(kernel)
    shapes, uses = Shapes(kernel, lanes), count_uses(kernel.region)
    if entire:
        return WideKernel(
            lanes, Widening(shapes, uses, RULES, exclusive).function(kernel, masked=False), None
        )
    masked = Widening(shapes, uses, RULES, exclusive).function(kernel, masked=True)
    condition = None
    if certain is not None:
        kernel, condition = join_records(certain[0]), certain[1]
        shapes, uses = Shapes(kernel, lanes), count_uses(kernel.region)
    if not may_be_full(kernel):
        return WideKernel(lanes, None, masked)
    full = Widening(shapes, uses, RULES, exclusive).function(kernel, masked=False)
    return WideKernel(lanes, full, masked, condition)
