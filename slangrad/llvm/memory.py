"""Addresses, loads and stores as LLVM instructions.

    load %p : f32                    load float, ptr %p, align 4
    load %p, %mask : lanes<f32>      one consecutive access under a mask: the address is that of lane 0
    load %ps, %mask : lanes<f32>     a gather, because the address is lanes<ptr<f32>>

A bool takes a byte. Alignment is the scalar's, for lanes, too.

"""

from __future__ import annotations

from slangrad.ir.core import Op, Value
from slangrad.ir.layout import layout_of
from slangrad.ir.type_rules import scalar_type
from slangrad.ir.types import F16, Lanes, Pointer, Scalar, Type
from slangrad.llvm.emit import Emitter, Rule, primitive
from slangrad.llvm.type_names import memory_name, suffix


def pointee(value: Value) -> Type:
    t = value.type.element if isinstance(value.type, Lanes) else value.type
    assert isinstance(t, Pointer), t
    return t.element


def _space(value: Value) -> str:
    t = value.type.element if isinstance(value.type, Lanes) else value.type
    assert isinstance(t, Pointer), t
    return t.space


# --- addresses


def _parameter(e: Emitter, op: Op) -> None:
    name, block = op.attributes["name"], e.environment.block
    assert isinstance(name, str) and block is not None
    distance = layout_of(block).offsets[block.index(name)]
    e.define(op.results[0], move(e, "ptr", e.environment.arguments, f"i64 {distance}"))


def move(e: Emitter, pointer_type: str, pointer: str, distance: str) -> str:
    """An address some bytes further."""
    return e.w.value(f"getelementptr i8, {pointer_type} {pointer}, {distance}")


def _offset(e: Emitter, op: Op) -> None:
    (p, i), (r,) = op.operands, op.results
    index = e.operand(i)
    scalar = scalar_type(i)
    if scalar.bits < 64:
        widen = "sext" if scalar.kind == "signed" else "zext"
        wide = "i64" if isinstance(i.type, Scalar) else e.names.widened("i64")
        index = f"{wide} " + e.w.value(f"{widen} {e.typed(i)} to {wide}")
    else:
        index = e.typed(i)
    e.define(r, e.w.value(f"getelementptr {element_name(e, pointee(p))}, {e.typed(p)}, {index}"))


def element_name(e: Emitter, t: Type) -> str:
    """A type of the element's size, to step by."""
    if isinstance(t, (Scalar, Pointer)):
        return memory_name(e.names.of(t))
    return f"[{layout_of(t).size} x i8]"


def _member(e: Emitter, op: Op) -> None:
    (p,), (r,), index = op.operands, op.results, op.attributes["index"]
    assert isinstance(index, int)
    distance = layout_of(pointee(p)).offsets[index]
    e.define(r, move(e, e.type(p), e.operand(p), f"i64 {distance}"))


# --- loads and stores


def _load(e: Emitter, op: Op) -> None:
    (p, *mask), (r,) = op.operands, op.results
    register = e.type(r)
    in_memory, alignment = memory_name(register), layout_of(pointee(p)).alignment
    if not mask and isinstance(p.type, Pointer):
        invariant = ", !invariant.load !0" if _space(p) == "constant" else ""
        loaded = e.w.value(f"load {in_memory}, {e.typed(p)}, align {alignment}{invariant}")
    else:
        kind = "load" if isinstance(p.type, Pointer) else "gather"
        tail = "" if kind == "load" else f".{suffix(e.type(p))}"
        name = f"@llvm.masked.{kind}.{suffix(in_memory)}{tail or '.p0'}"
        arguments = f"{e.typed(p)}, i32 {alignment}, {_mask(e, mask)}, {in_memory} zeroinitializer"
        loaded = e.w.value(f"call {in_memory} {name}({arguments})")
    if in_memory != register:
        loaded = e.w.value(f"icmp ne {in_memory} {loaded}, zeroinitializer")
    e.define(r, loaded)


def _store(e: Emitter, op: Op) -> None:
    p, v, *mask = op.operands
    register, value = e.type(v), e.operand(v)
    in_memory, alignment = memory_name(register), layout_of(pointee(p)).alignment
    if in_memory != register:
        value = e.w.value(f"zext {register} {value} to {in_memory}")
    if not mask and isinstance(p.type, Pointer):
        e.w.line(f"store {in_memory} {value}, {e.typed(p)}, align {alignment}")
        return
    kind = "store" if isinstance(p.type, Pointer) else "scatter"
    tail = ".p0" if kind == "store" else f".{suffix(e.type(p))}"
    name = f"@llvm.masked.{kind}.{suffix(in_memory)}{tail}"
    e.w.line(f"call void {name}({in_memory} {value}, {e.typed(p)}, i32 {alignment}, {_mask(e, mask)})")


def _mask(e: Emitter, mask: list[Value]) -> str:
    return e.typed(mask[0]) if mask else f"{e.names.widened('i1')} splat (i1 true)"


RULES: dict[str, Rule] = {
    "parameter": _parameter,
    "offset": _offset,
    "member": _member,
    "load": _load,
    "store": _store,
}
