"""Atomics of a GPU thread: one instruction where the GPU has it, else a loop around compare-and-swap.

    atomic{kind="add"} %p, %v : f32     atomicrmw fadd ptr addrspace(1) %p, float %v syncscope("device") monotonic
    atomic{kind="min"} %p, %v : f32     a loop around cmpxchg, with the row "min" inside

They are relaxed and seen by the whole device, in shared memory by the block. An add whose result is not used becomes a
reduction (`red`).
"""

from __future__ import annotations

from slangrad.ir.data.types import SMALL_FLOATS, Scalar, pointer_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.cuda import memory
from slangrad.llvm.cuda.memory import placed
from slangrad.llvm.memory.atomics import INSTRUCTIONS, exchange_loop, replacement
from slangrad.llvm.text.emit import RegionEmitter, Rule


def _order(p: Value) -> str:
    """Which threads see it: those that reach the memory."""
    scope = "block" if pointer_of(p.type).space == "shared" else "device"
    return f'syncscope("{scope}") monotonic'


def _atomic(e: RegionEmitter, op: Op) -> None:
    scalar, kind = scalar_type(op.results[0]), op.attributes["kind"]
    assert scalar.kind != "bool", op
    if op.attributes.get("alone"):
        old = _plain(e, op, scalar)
    elif (name := _instruction(kind, scalar)) is not None:
        p, v = op.operands
        old = e.w.value(f"atomicrmw {name} {placed(e, p)}, {e.typed(v)} {_order(p)}, align {scalar.size}")
    else:
        pointer, order = placed(e, op.operands[0]), _order(op.operands[0])
        replace = replacement(e, op, kind, scalar)
        old = exchange_loop(e, scalar, pointer, order, f"{order} monotonic", replace)
    e.define(op.results[0], old)


def _instruction(kind: str, scalar: Scalar) -> str | None:
    """What LLVM calls the instruction; None where the GPU has none."""
    if scalar in SMALL_FLOATS:
        return None
    if scalar.kind == "float":
        return "fadd" if kind == "add" else None
    if scalar.bits < 32 or kind not in INSTRUCTIONS:
        return None
    return INSTRUCTIONS[kind][scalar.kind == "unsigned"]


def _plain(e: RegionEmitter, op: Op, scalar: Scalar) -> str:
    """No other thread uses the element."""
    p, name = op.operands[0], e.names.of(scalar)
    old = memory.load(e, p, name)
    memory.store(e, p, f"{name} {replacement(e, op, op.attributes['kind'], scalar)(old)}")
    return old


RULES: dict[str, Rule] = {"atomic": _atomic}
