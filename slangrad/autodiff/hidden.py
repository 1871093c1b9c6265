"""Variables in memory, through which no derivative passes.

    float* p = &a;  while (...) p = &b;      what is stored in `a` and `b` and depends on an input is refused,
    *p = x;  return *p;                      if a result depends on what is read there

Variables of which all uses are known are values before differentiation (`opt/variables.py`) and not met here.
"""

from __future__ import annotations

from slangrad.autodiff.activity import Activity
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.ir.core import Op, Region, Value, walk
from slangrad.ir.types import Array, Pointer, Struct, Type, components

MOVES = frozenset({"offset", "member", "bitcast"})


def refuse_hidden(region: Region, activity: Activity) -> None:
    """Raise where a derivative gets lost in a variable in memory."""
    ops = list(walk(region))
    if not any(op.name == "variable" for op in ops):
        return
    makers = region.makers
    hidden = [op for op in ops if op.name == "store" and activity.varied(op.operands[1])]
    lost = next((op for op in hidden if _may_be_variable(makers, op.operands[0])), None)
    if lost is None or not any(_is_read(op, makers, activity) for op in ops):
        return
    name = _name(makers, lost.operands[0])
    message = f"{name} is in memory, so the derivative of what is stored would be lost here"
    note = "use a variable or an inout parameter instead of the pointer, or store detach(...) of the value"
    raise CompileError([Diagnostic("E0505", message, lost.span, note)])


def _is_read(op: Op, makers: dict[Value, Op], activity: Activity) -> bool:
    """Whether a result depends on what an op may find in a variable."""
    if op.name == "load":
        return activity.useful(op.results[0]) and _may_be_variable(makers, op.operands[0])
    if op.name != "call" or not any(map(activity.useful, op.results)):
        return False
    return any(_holds_pointers(v.type) and _may_be_variable(makers, v) for v in op.operands)


def _root(makers: dict[Value, Op], address: Value) -> Op | None:
    op = makers.get(address)
    while op is not None and op.name in MOVES:
        op = makers.get(op.operands[0])
    return op


def _may_be_variable(makers: dict[Value, Op], address: Value) -> bool:
    """What comes from outside does not lead to one."""
    op = _root(makers, address)
    if op is None:
        return any(address in inner.parameters for each in makers.values() for inner in each.regions)
    if op.name == "load":
        return _may_be_variable(makers, op.operands[0])
    return op.name not in ("parameter", "shared", "zero")


def _name(makers: dict[Value, Op], address: Value) -> str:
    op = _root(makers, address)
    known = op is not None and op.name == "variable" and op.results[0].hint
    return f"'{known}'" if known else "the variable that this pointer leads to"


def _holds_pointers(t: Type) -> bool:
    if isinstance(t, (Struct, Array)):
        return any(map(_holds_pointers, components(t) if isinstance(t, Struct) else (t.element,)))
    return isinstance(t, Pointer)
