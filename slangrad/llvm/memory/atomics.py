"""Atomics as LLVM instructions: on one address at a time, and other memory is not moved over them.

    atomic{kind="add"} %p, %v : u32     atomicrmw add ptr %p, i32 %v seq_cst
    atomic{kind="add"} %p, %v : f32     a loop around cmpxchg, with the row "add" inside

In: scalar addresses and values; `spmd` has taken lanes apart. All kinds give what was in memory before.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.ir.data.types import Scalar
from slangrad.ir.ops.core import Op
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.text.emit import RegionEmitter, Rule, primitive
from slangrad.llvm.text.writer import phi

# Atomics that are one instruction of LLVM, for signed and unsigned integers.
INSTRUCTIONS = {
    "add": ("add", "add"),
    "and": ("and", "and"),
    "or": ("or", "or"),
    "xor": ("xor", "xor"),
    "min": ("min", "umin"),
    "max": ("max", "umax"),
    "exchange": ("xchg", "xchg"),
}


def _atomic(e: RegionEmitter, op: Op) -> None:
    kind, scalar = op.attributes["kind"], scalar_type(op.results[0])
    assert scalar.kind != "bool", op
    if op.attributes.get("alone"):
        pointer, name = e.typed(op.operands[0]), e.names.of(scalar)
        old = e.w.value(f"load {name}, {pointer}, align {scalar.size}")
        e.w.line(f"store {name} {replacement(e, op, kind, scalar)(old)}, {pointer}, align {scalar.size}")
    elif scalar.kind != "float" and kind in INSTRUCTIONS:
        p, v = op.operands
        name = INSTRUCTIONS[kind][scalar.kind == "unsigned"]
        old = e.w.value(f"atomicrmw {name} {e.typed(p)}, {e.typed(v)} seq_cst, align {scalar.size}")
    else:
        replace = replacement(e, op, kind, scalar)
        old = exchange_loop(e, scalar, e.typed(op.operands[0]), "monotonic", "seq_cst seq_cst", replace)
    e.define(op.results[0], old)


def replacement(e: RegionEmitter, op: Op, kind: str, scalar: Scalar) -> Callable[[str], str]:
    """From the old value in memory to the new one."""
    name = e.names.of(scalar)
    values = [e.operand(v) for v in op.operands[1:]]
    if kind == "exchange":
        return lambda old: values[0]
    if kind != "compare_exchange":
        return lambda old: primitive(e.w, kind, scalar, name, [old, values[0]])
    expected, new = values

    def replace_equal(old: str) -> str:
        equal = primitive(e.w, "equal", scalar, name, [old, expected])
        return e.w.value(f"select i1 {equal}, {name} {new}, {name} {old}")

    return replace_equal


def exchange_loop(
    e: RegionEmitter, scalar: Scalar, pointer: str, load: str, exchange: str, replace: Callable[[str], str]
) -> str:
    """Compute and try to exchange until no other thread was faster. `load` and `exchange`: the orders of both."""
    w, bits, name = e.w, f"i{scalar.bits}", e.names.of(scalar)
    head, done = w.labels("atomic", "stored")
    before = w.label
    first = w.value(f"load atomic {bits}, {pointer} {load}, align {scalar.size}")
    w.jump(head)
    w.block(head)
    old_bits = w.name()
    phi_line = w.reserve_line()
    old = w.value(f"bitcast {bits} {old_bits} to {name}")
    new_bits = w.value(f"bitcast {name} {replace(old)} to {bits}")
    values = f"{bits} {old_bits}, {bits} {new_bits}"
    both = w.value(f"cmpxchg {pointer}, {values} {exchange}, align {scalar.size}")
    seen = w.value(f"extractvalue {{ {bits}, i1 }} {both}, 0")
    stored = w.value(f"extractvalue {{ {bits}, i1 }} {both}, 1")
    w.lines[phi_line] = phi(old_bits, bits, [(first, before), (seen, w.label)])
    w.branch(stored, done, head)
    w.block(done)
    return old


RULES: dict[str, Rule] = {"atomic": _atomic}
