"""How wide the waves of a kernel are.

[numthreads(64, 1, 1)]   ->   wave=32         [numthreads(8, 1, 1)]   ->   wave=8
[numthreads(16, 16, 1)]  ->   wave=32         [numthreads(3, 3, 1)]   ->   wave=16

A wave is 32 threads with consecutive numbers in their group, as on NVIDIA GPUs: x runs fastest, then y, then z. The
last wave of a group may have fewer threads. A smaller group is a wave whose other lanes are off.
"""

from __future__ import annotations

from math import prod

from slangrad.ir.ops.core import Function, Program, walk
from slangrad.ir.ops.primitives import WAVES
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast

WAVE = 32


def refuse_other_waves(f: Frame, declared: ast.FunctionDeclaration) -> None:
    """[WaveSize(least)], [WaveSize(least, most)] and [WaveSize(least, most, preferred)]."""
    attribute = declared.attribute("WaveSize")
    if attribute is None:
        return
    constants = [f.program.constant(f.scope, argument) for argument in attribute.arguments]
    bounds = [size for size in constants[:2] if isinstance(size, int)]
    if not bounds or not bounds[0] <= WAVE <= bounds[-1]:
        f.error("E9009", f"waves of another size than {WAVE} threads", attribute.span)


def note_wave_size(program: Program, kernel: Function) -> None:
    """Record the width of a kernel's waves for later passes, if it uses them."""
    functions = (kernel, *program.functions.values())
    if any(op.name in WAVES for function in functions for op in walk(function.region)):
        threads = prod(kernel.attributes["group_size"])
        kernel.attributes["wave"] = min(WAVE, 1 << (threads - 1).bit_length())
