"""Variables in memory, through which no derivative passes.

    float* p = &a;  while (...) p = &b;      a store to `a` or `b` that depends on an input is refused,
    *p = x;  return *p;                      if a result depends on a load from there

Variables of which all uses are known are values before differentiation (`opt/simplify/variables.py`) and not met here.
"""

from __future__ import annotations

from slangrad.autodiff.analyses.activity import Activity
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.ir.analyses.addresses import Roots, holds_pointers, leads_to_variables
from slangrad.ir.ops.core import Op, Region, Value, walk


def refuse_memory_escape(region: Region, activity: Activity) -> None:
    """Raise where a derivative gets lost in a variable in memory."""
    ops = list(walk(region))
    if not any(op.name == "variable" for op in ops):
        return
    variables = _Variables(region)
    hidden = [op for op in ops if op.name == "store" and activity.varied(op.operands[1])]
    lost = next((op for op in hidden if variables.may_be(op.operands[0])), None)
    if lost is None or not any(_is_read(op, variables, activity) for op in ops):
        return
    name = variables.name(lost.operands[0])
    message = f"{name} is in memory, so the derivative of what is stored would be lost here"
    note = "use a variable or an inout parameter instead of the pointer, or store detach(...) of the value"
    raise CompileError([Diagnostic("E0505", message, lost.span, note)])


def _is_read(op: Op, variables: _Variables, activity: Activity) -> bool:
    """Whether a result depends on the value that an op may load from a variable."""
    if op.name == "load":
        return activity.useful(op.results[0]) and variables.may_be(op.operands[0])
    return (
        op.name == "call"
        and any(map(activity.useful, op.results))
        and any(map(variables.may_be, op.operands))
    )


class _Variables(Roots):
    def __init__(self, region: Region) -> None:
        super().__init__(region.makers.get)
        self._leading = leads_to_variables(region)

    def may_be(self, address: Value) -> bool:
        """Whether a value may lead to a variable; one that was made from a number may lead anywhere."""
        maker = self.made_by(self.root(address)) if holds_pointers(address.type) else None
        return address in self._leading or (maker is not None and maker.name == "bitcast")

    def name(self, address: Value) -> str:
        variable = self.root(address)
        hint = variable.hint if self._leading.get(variable) is variable else ""
        return f"'{hint}'" if hint else "the variable that this pointer leads to"
