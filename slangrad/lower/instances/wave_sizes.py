"""How wide the waves of a kernel are.

[numthreads(64, 1, 1)]   ->   wave=32         [numthreads(8, 1, 1)]   ->   wave=8

A wave is 32 consecutive threads of x, as on NVIDIA GPUs. A smaller group is a wave whose other lanes are off. In a
group of rows that are no multiple of 32 a wave would reach over several rows, or groups: refused.
"""

from __future__ import annotations

from slangrad.base.diagnostics import Reporter
from slangrad.ir.ops.core import Function, Op, Program, walk
from slangrad.ir.ops.primitives import WAVES
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast

WAVE = 32
SMALL_GROUPS = (1, 2, 4, 8, 16)


def refuse_other_waves(f: Frame, declared: ast.Function) -> None:
    """[WaveSize(least)], [WaveSize(least, most)] and [WaveSize(least, most, preferred)]."""
    attribute = declared.attribute("WaveSize")
    if attribute is None:
        return
    constants = [f.program.constant(f.scope, argument) for argument in attribute.arguments]
    bounds = [size for size in constants[:2] if isinstance(size, int)]
    if not bounds or not bounds[0] <= WAVE <= bounds[-1]:
        f.error("E9009", f"waves of another size than {WAVE} threads", attribute.span)


def note_wave_size(program: Program, kernel: Function, reporter: Reporter) -> None:
    """Record the width of a kernel's waves for later passes, if it uses them."""
    used = _first_use(program, kernel)
    if used is None:
        return
    size = kernel.attributes["group_size"]
    x, y, z = size
    if x % WAVE == 0:
        kernel.attributes["wave"] = WAVE
    elif x in SMALL_GROUPS and y == z == 1:
        kernel.attributes["wave"] = x
    else:
        reporter.error(
            "E9009",
            f"waves in groups of {x} x {y} x {z} threads",
            used.span,
            f"the first size of numthreads must be a multiple of {WAVE}, or a group a row of 1, 2, 4, 8 or 16",
        )


def _first_use(program: Program, kernel: Function) -> Op | None:
    functions = (kernel, *program.functions.values())
    ops = (op for function in functions for op in walk(function.region))
    return next((op for op in ops if op.name in WAVES), None)
