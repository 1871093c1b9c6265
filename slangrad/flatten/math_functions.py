"""Maths primitives that a target has no instruction for become the library's code for them.

    %r = sin %x : f32        the body of @sin_f32 on %x
    %h = exp %y : f16        %w = convert %y : f32     the body of @exp_f32 on %w     %h = convert %r : f16

In: flat IR, and flat functions of scalars by primitive and type. Elementary functions are Slang
(std/math_functions*.slang), so they vectorize with the rest and give the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Value
from slangrad.ir.rebuild import Rebuild
from slangrad.ir.types import F16, F32, Scalar

Library = Mapping[tuple[str, Scalar], Function]

# fmt: off
EXPANDED = ("exp", "exp2", "log", "log2", "log10", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
            "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "expm1", "log1p", "erf", "erfc",
            "sinpi", "cospi", "tanpi")
# fmt: on


def expand_math(function: Function, library: Library) -> Function:
    """The function without maths primitives, for targets that have none of them."""

    def expand(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        operands = walk.values(op.operands)
        (t,) = {x.type for x in operands}
        assert isinstance(t, Scalar), t
        wide = F32 if t is F16 else t
        inner = Rebuild()
        body = library[op.name, wide].region
        arguments = (b.emit("convert", x, type=wide) for x in operands)
        inner.new.update(zip(body.parameters, arguments, strict=True))
        with inner.called_from(b.span):
            (result,) = inner.inline(b, body)
        return (b.emit("convert", result, type=t),)

    return Rebuild(dict.fromkeys(EXPANDED, expand)).function(function)
