"""The plainest inliner, for tests of differentiation alone."""

from __future__ import annotations

from dataclasses import replace

from slangrad.autodiff.requests import Keep
from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Program, Value
from slangrad.ir.rebuild import Rebuild, copy_op


def inline(program: Program, function: Function, keep: Keep) -> Function:
    def call(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        callee = program.functions[str(op.attributes["callee"])]
        if keep(callee):
            return copy_op(walk, b, op)
        inner = Rebuild({"call": call})
        inner.new.update(zip(callee.region.parameters, walk.values(op.operands), strict=True))
        return inner.inline(b, callee.region)

    return replace(function, region=Rebuild({"call": call}).function(function).region)
