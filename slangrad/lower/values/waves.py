"""Operations on waves: `WaveActiveSum(x)` and its like, and how wide the waves of a kernel are.

WaveActiveSum(v)       %r = wave_reduce %v.x {kind="add"} ...      each component by itself

A wave is 32 consecutive threads of x, as on NVIDIA GPUs. A smaller group is a wave whose other lanes are off. In a
group of rows that are no multiple of 32 a wave would reach over several rows, or groups: refused.
"""

from __future__ import annotations

from slangrad.base.diagnostics import Reporter
from slangrad.ir.core import Function, Op, Program, Value, walk
from slangrad.ir.primitives import WAVES
from slangrad.ir.types import Pointer, Scalar, Type, components
from slangrad.lower.model.frame import Frame
from slangrad.lower.places.places import Place

WAVE = 32
SMALL_GROUPS = (1, 2, 4, 8, 16)


def each_component(f: Frame, name: str, places: list[Place], **attributes: str) -> Value:
    """The op on each scalar of the first operand; the other operands are the same for all."""
    value, *others = (place.get(f) for place in places)
    return _on(f, name, value, others, attributes)


def _on(f: Frame, name: str, value: Value, others: list[Value], attributes: dict[str, str]) -> Value:
    if isinstance(value.type, (Scalar, Pointer)):
        return f.emit(name, value, *others, type=value.type, **attributes)
    parts = (f.emit("get", value, index=i) for i, _ in enumerate(components(value.type)))
    made = [_on(f, name, part, others, attributes) for part in parts]
    return f.emit("make", *made, type=value.type)


def reduce(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_reduce", places, kind=kind)


def scan(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_scan", places, kind=kind)


def read(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_read", places)


def note_wave_size(program: Program, kernel: Function, reporter: Reporter) -> None:
    """Tell later passes how wide the waves of a kernel are, if it uses them."""
    used = _first_use(program, kernel)
    if used is None:
        return
    size = kernel.attributes["group_size"]
    assert isinstance(size, tuple)
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
