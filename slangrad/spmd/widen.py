"""A kernel of one thread as a kernel of W lanes.

    wide = widen(kernel, 16)
    wide.full      for waves in which all lanes are on: a function without parameters
    wide.masked    for the last wave: its parameter is the mask of the lanes that are on; None at one lane
    wide.functions what they call
    wide.condition where there is one: `full` is for chunks of which it is true, `masked` for all others

For large kernels `full` is None: compiling them twice would cost more than masks do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.ir.building.rebuild import Rebuild, count_uses
from slangrad.ir.ops.core import Function, walk
from slangrad.spmd import access, calls, effects, loops, tapes, variables, waves
from slangrad.spmd.analyses.uniformity import Shapes
from slangrad.spmd.calls import FunctionVersions
from slangrad.spmd.records import join_records

LARGE = 600  # ops

RULES = loops.RULES | calls.RULES | access.RULES | effects.RULES | tapes.RULES | variables.RULES | waves.RULES


@dataclass(frozen=True, slots=True)
class WideKernel:
    lanes: int
    full: Function | None
    masked: Function | None
    condition: Function | None = None
    functions: tuple[Function, ...] = ()


def may_be_full(kernel: Function) -> bool:
    """Whether there is code for waves in which all lanes are on."""
    return sum(1 for _ in walk(kernel.region)) <= LARGE


def widen(
    kernel: Function,
    lanes: int,
    exclusive: bool = False,
    entire: bool = False,
    certain: tuple[Function, Function] | None = None,
    functions: Sequence[Function] = (),
) -> WideKernel:
    """One lane is the kernel as it is. `exclusive`: no other thread runs it at the same time. `entire`: all lanes are
    always on. `certain`: the kernel for chunks of which a condition is true, and that condition. `functions`: those
    that it calls."""
    assert 0 < lanes <= 64 and lanes & (lanes - 1) == 0, lanes
    if lanes == 1:
        single, *others = (_single(f, exclusive) for f in (kernel, *functions))
        return WideKernel(1, single, None, functions=tuple(others))
    versions = FunctionVersions(functions, lanes, exclusive, RULES)
    wide = _Wide(kernel, versions)
    if entire:
        entirely = wide.function(masked=False)
        return WideKernel(lanes, entirely, None, functions=versions.functions)
    masked, condition = wide.function(masked=True), None
    if certain is not None:
        wide, condition = _Wide(certain[0], versions), certain[1]
    full = wide.function(masked=False) if may_be_full(wide.kernel) else None
    return WideKernel(lanes, full, masked, condition if full is not None else None, versions.functions)


class _Wide:
    """A kernel that was analyzed; it can be made of lanes with a mask and without."""

    def __init__(self, kernel: Function, versions: FunctionVersions) -> None:
        self.kernel = join_records(kernel)
        self._versions = versions
        self._shapes = Shapes(self.kernel, versions.lanes, results=versions.results)
        self._uses = count_uses(self.kernel.region)

    def function(self, masked: bool) -> Function:
        return self._versions.walk(self._shapes, self._uses).function(self.kernel, masked)


def _single(function: Function, exclusive: bool) -> Function:
    single = Rebuild({**waves.ALONE, **tapes.ALONE}).function(function)
    return effects.exclusive(single) if exclusive else single
