"""Replace calls of functions by their bodies.

    %y = call @square %x : f32      ->      %y = mul %x, %x

Before autodiff, functions with derivatives of their own stay calls (`everything=False`), so that these can
be asked for; afterwards everything goes. Requests (jvp, vjp) keep naming their functions. Lowering left no
recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.options import Limits
from slangrad.ir.analyses.calls import called, callees_first
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.ops.core import Attributes, Function, Op, Program, Value
from slangrad.ir.ops.effects import effect_of_call
from slangrad.opt.calls.inlined_sizes import check_sizes

Keep = Callable[[Function], bool]


def inline(program: Program, everything: bool = False, limits: Limits | None = None) -> Program:
    """The program with calls inlined in all functions; the functions themselves stay."""
    keep = _keep_none if everything else _keep_derivatives
    inlined = {name: inline_into(program, f, keep, limits) for name, f in program.functions.items()}
    return replace(program, functions=inlined)


def inline_into(program: Program, function: Function, keep: Keep, limits: Limits | None = None) -> Function:
    """One function with its calls inlined, and theirs, but for calls of functions that `keep` holds back."""
    behind = callees_first(program, called(function))
    check_sizes([*behind, function], program, keep, limits or Limits())
    return _Inline(program, keep).function(function)


def _keep_none(function: Function) -> bool:
    return False


def _keep_derivatives(function: Function) -> bool:
    return function.derivatives is not None


class _Inline(Rebuild):
    """One caller; callees of its callees are inlined at the same time, so that no op is made twice."""

    def __init__(self, program: Program, keep: Keep) -> None:
        super().__init__({"call": self._call})
        self._functions = program.functions
        self._keep = keep

    def _call(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        callee = self._functions[op.attributes["callee"]]
        if self._keep(callee):
            return copy_op(rebuild, b, op) if not callee.attributes.get("kept") else self._kept(b, op, callee)
        if callee.attributes.get("bodiless"):
            raise CompileError([_no_body(callee, op)])
        self.new.update(zip(callee.region.parameters, self.values(op.operands), strict=True))
        if callee.attributes.get("segment"):  # code of the caller's own
            return self.inline(b, callee.region)
        with self.called_from(b.span):
            return self.inline(b, callee.region)

    def _kept(self, b: Builder, op: Op, callee: Function) -> tuple[Value, ...]:
        attributes: Attributes = {**op.attributes, "effect": effect_of_call(callee)}
        return b.call(callee.name, self.values(op.operands), [r.type for r in op.results], attributes)


def _no_body(callee: Function, op: Op) -> Diagnostic:
    message = f"'{callee.name}' is declared but has no body"
    return Diagnostic("E0708", message, op.span or callee.span, "only derivatives of it can be called")
