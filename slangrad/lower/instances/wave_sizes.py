"""How wide the waves of a kernel are.

[numthreads(64, 1, 1)]   ->   wave=32         [numthreads(8, 1, 1)]   ->   wave=8
[numthreads(16, 16, 1)]  ->   wave=32         [numthreads(3, 3, 1)]   ->   wave=16

A wave is 32 threads with consecutive numbers in their group, as on NVIDIA GPUs: x runs fastest, then y, then z. The
last wave of a group may have fewer threads. A smaller group is a wave whose other lanes are off.
"""

from __future__ import annotations

from math import prod

from slangrad.base.diagnostics import Reporter
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import U32
from slangrad.ir.ops.core import Function, Program, walk
from slangrad.ir.ops.primitives import QUAD_ROW, WAVES
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


def begin_quads(
    reporter: Reporter, program: Program, kernel: Function, declared: ast.FunctionDeclaration
) -> None:
    """Begin a kernel that uses quads with the distance of their rows. An error where its group has none."""
    functions = (kernel, *program.functions.values())
    reads = [
        op
        for function in functions
        for op in walk(function.region)
        if op.name == "read_static" and op.attributes["name"] == QUAD_ROW
    ]
    if not reads:
        return
    is_page = declared.span.source.is_page  # the kernel of a call, whose group the program does not choose
    row = None if is_page else _quad_row(kernel.attributes["group_size"], declared)
    if row is None:
        message = "threads have neighbors in kernels whose group has quads only"
        note = "[numthreads(4 n, 1, 1)], [numthreads(2 to 16, 2 n, 1)] with a power of two, or [DerivativeGroupLinear]"
        reporter.error("E9002", message, None if is_page else declared.name_span, note)
        return
    b = Builder(span=declared.span)
    b.effect("write_static", b.constant(U32, row), name=QUAD_ROW)
    kernel.region.ops[:0] = b.ops


def _quad_row(group: tuple[int, int, int], declared: ast.FunctionDeclaration) -> int | None:
    x, y, z = group
    if y * z == 1 or declared.attribute("DerivativeGroupLinear") is not None:
        return None if x * y * z % 4 else 2
    return x if x in (2, 4, 8, 16) and y % 2 == 0 else None


def note_wave_size(program: Program, kernel: Function) -> None:
    """Record the width of a kernel's waves for later passes, if it uses them."""
    functions = (kernel, *program.functions.values())
    if any(op.name in WAVES for function in functions for op in walk(function.region)):
        threads = prod(kernel.attributes["group_size"])
        kernel.attributes["wave"] = min(WAVE, 1 << (threads - 1).bit_length())
