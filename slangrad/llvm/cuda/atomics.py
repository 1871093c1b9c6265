"""Atomics of a GPU thread: one instruction where the GPU has it, else a loop around compare-and-swap.

    atomic{kind="add"} %p, %v : f32     atomicrmw fadd ptr addrspace(1) %p, float %v syncscope("device") monotonic
    atomic{kind="min"} %p, %v : f32     a loop around cmpxchg, with the row "min" inside

They are relaxed and seen by the whole device, in shared memory by the block. An add whose result is not used becomes a
reduction (`red`).
"""

from __future__ import annotations

from slangrad.ir.data.types import Scalar, pointer_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.cuda import memory
from slangrad.llvm.cuda.memory import placed
from slangrad.llvm.memory.atomics import INSTRUCTIONS, replacement
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.writer import phi


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
        old = _loop(e, op, scalar)
    e.define(op.results[0], old)


def _instruction(kind: str, scalar: Scalar) -> str | None:
    """What LLVM calls the instruction; None where the GPU has none."""
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


def _loop(e: RegionEmitter, op: Op, scalar: Scalar) -> str:
    """Compute and try to exchange, until no other thread was faster."""
    w, bits, name = e.w, f"i{scalar.bits}", e.names.of(scalar)
    pointer, order = placed(e, op.operands[0]), _order(op.operands[0])
    replace = replacement(e, op, op.attributes["kind"], scalar)
    head, done = w.labels("atomic", "stored")
    before = w.label
    first = w.value(f"load atomic {bits}, {pointer} {order}, align {scalar.size}")
    w.jump(head)
    w.block(head)
    old_bits, line = w.name(), w.reserve_line()
    old = w.value(f"bitcast {bits} {old_bits} to {name}")
    new_bits = w.value(f"bitcast {name} {replace(old)} to {bits}")
    exchange = f"cmpxchg {pointer}, {bits} {old_bits}, {bits} {new_bits} {order} monotonic"
    both = w.value(f"{exchange}, align {scalar.size}")
    seen = w.value(f"extractvalue {{ {bits}, i1 }} {both}, 0")
    stored = w.value(f"extractvalue {{ {bits}, i1 }} {both}, 1")
    w.lines[line] = phi(old_bits, bits, [(first, before), (seen, w.label)])
    w.branch(stored, done, head)
    w.block(done)
    return old


RULES: dict[str, Rule] = {"atomic": _atomic}
