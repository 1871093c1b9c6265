"""Maths of floats by instructions of the GPU that approximate, for `Options.fast_math`.

    exp %x : f32      %y = fmul float %x, 1.442695     %r = call float @llvm.nvvm.ex2.approx.ftz.f(float %y)
    log %x : f32      %y = call float @llvm.nvvm.lg2.approx.f(float %x)       %r = fmul float %y, 0.6931472

Halves are computed as floats. Results that are too small for a normal float are zero.
"""

from __future__ import annotations

import math

from slangrad.ir.data.numbers import round_float
from slangrad.ir.data.types import F32
from slangrad.ir.ops.core import Op
from slangrad.llvm.text.conversions import extend_half, like, round_to_half
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.type_names import constant, number
from slangrad.llvm.text.writer import Writer

POWER, LOGARITHM = "ex2.approx.ftz.f", "lg2.approx.f"

# fmt: off
# The instruction, and the factors of its operand and its result.
INSTRUCTIONS: dict[str, tuple[str, float, float]] = {
    "exp":   (POWER,               math.log2(math.e), 1),
    "exp2":  (POWER,               1,       1),
    "log":   (LOGARITHM,           1,       math.log(2)),
    "log2":  (LOGARITHM,           1,       1),
    "log10": (LOGARITHM,           1,       math.log10(2)),
    "sin":   ("sin.approx.ftz.f",  1,       1),
    "cos":   ("cos.approx.ftz.f",  1,       1),
}
# fmt: on


def _approximate(e: RegionEmitter, op: Op) -> None:
    w, (x,), name = e.w, op.operands, e.type(op.operands[0])
    is_half, value = name.endswith(("half", "half>")), e.operand(x)
    wide = like(name, "float") if is_half else name
    if is_half:
        value = extend_half(w, name, value)
    instruction, before, after = INSTRUCTIONS[op.name]
    value = _scaled(w, value, wide, before)
    lanes = e.names.lanes if wide.startswith("<") else 0
    value = _of_lanes(w, instruction, value, wide, lanes) if lanes else _of_one(w, instruction, value)
    value = _scaled(w, value, wide, after)
    e.define(op.results[0], round_to_half(w, wide, value) if is_half else value)


def _scaled(w: Writer, value: str, name: str, factor: float) -> str:
    if factor == 1:
        return value
    return w.value(
        f"fmul{w.contract} {name} {value}, {constant(name, number(F32, round_float(F32, factor)))}"
    )


def _of_lanes(w: Writer, instruction: str, value: str, name: str, lanes: int) -> str:
    total = "poison"
    for lane in range(lanes):
        one = w.value(f"extractelement {name} {value}, i32 {lane}")
        result = _of_one(w, instruction, one)
        total = w.value(f"insertelement {name} {total}, float {result}, i32 {lane}")
    return total


def _of_one(w: Writer, instruction: str, value: str) -> str:
    return w.value(f"call float @llvm.nvvm.{instruction}(float {value})")


RULES: dict[str, Rule] = dict.fromkeys(INSTRUCTIONS, _approximate)
