"""Addresses, loads and stores as LLVM instructions.

    load %p : f32                    load float, ptr %p, align 4
    load %p, %mask : lanes<f32>      one consecutive access under a mask: the address is that of lane 0
    load %ps, %mask : lanes<f32>     a gather, because the address is lanes<ptr<f32>>
    load_record %p                   the structs of all lanes in one piece
    add_records %p, %i, %x, %y       two elements of each lane in one piece, one lane after the other

A bool takes a byte. Alignment is the scalar's, for lanes, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.ir.data.layout import layout_of, round_up
from slangrad.ir.data.types import Lanes, Pointer, Scalar, Type, pointer_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.effects import local_bytes
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.memory.streaming import write_store
from slangrad.llvm.text.emit import RegionEmitter, Rule, primitive, shuffled, splat
from slangrad.llvm.text.type_names import memory_name, scalar_name, suffix
from slangrad.llvm.text.writer import Writer, phi

WAVE_ALIGNMENT = 64
UNROLLED_CLEAR = 1024  # bytes

CLEAR = """
define internal void @clear(ptr %place, i64 %size) nounwind {
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %body ]
  %next = add i64 %i, 64
  %whole = icmp ule i64 %next, %size
  br i1 %whole, label %body, label %tail
body:
  %at = getelementptr i8, ptr %place, i64 %i
  store <8 x i64> zeroinitializer, ptr %at, align 1
  br label %head
tail:
  %j = phi i64 [ %i, %head ], [ %following, %byte ]
  %left = icmp ult i64 %j, %size
  br i1 %left, label %byte, label %done
byte:
  %byte_at = getelementptr i8, ptr %place, i64 %j
  store i8 0, ptr %byte_at
  %following = add i64 %j, 1
  br label %tail
done:
  ret void
}
"""


class Locals:
    """Local memory of a wave: on the stack up to a limit, the rest in the arena, at `%locals`."""

    def __init__(self, limit: int) -> None:
        self.arena_size = 0
        self._stack_left = limit

    def place(self, w: Writer, size: int, alignment: int) -> str:
        if size <= self._stack_left:
            self._stack_left -= size
            return w.slot("i8", size, alignment)
        place = w.value(f"getelementptr i8, ptr %locals, i64 {self.arena_size}")
        self.arena_size = round_up(self.arena_size + size, WAVE_ALIGNMENT)
        return place


def allocate(e: RegionEmitter, op: Op) -> None:
    (result,), size = op.results, local_bytes(op)
    element = layout_of(pointer_of(result.type).element)
    alignment = element.alignment if e.names.lanes == 1 else WAVE_ALIGNMENT
    place = e.environment.locals.place(e.w, max(size, 1), alignment)
    if op.attributes.get("zero"):
        clear(e, place, size)
    e.define(result, place)


def clear(e: RegionEmitter, place: str, size: int) -> None:
    if size <= UNROLLED_CLEAR:
        e.w.line(f"call void @llvm.memset.inline.p0.i64(ptr {place}, i8 0, i64 {size}, i1 false)")
        return
    e.w.declarations.add_functions(CLEAR)
    e.w.line(f"call void @clear(ptr {place}, i64 {size})")


# --- addresses


def _parameter(e: RegionEmitter, op: Op) -> None:
    name, block = op.attributes["name"], e.environment.block
    assert block is not None
    distance = layout_of(block).offsets[block.index(name)]
    e.define(op.results[0], move(e, "ptr", e.environment.arguments, f"i64 {distance}"))


def move(e: RegionEmitter, pointer_type: str, pointer: str, distance: str) -> str:
    """An address some bytes further."""
    return e.w.value(f"getelementptr i8, {pointer_type} {pointer}, {distance}")


def _offset(e: RegionEmitter, op: Op) -> None:
    (p, i), (r,) = op.operands, op.results
    index = e.operand(i)
    scalar = scalar_type(i)
    if scalar.bits < 64:
        widen = "sext" if scalar.kind == "signed" else "zext"
        wide = "i64" if isinstance(i.type, Scalar) else e.names.widened("i64")
        index = f"{wide} " + e.w.value(f"{widen} {e.typed(i)} to {wide}")
    else:
        index = e.typed(i)
    e.define(
        r, e.w.value(f"getelementptr {element_name(e, pointer_of(p.type).element)}, {e.typed(p)}, {index}")
    )


def element_name(e: RegionEmitter, t: Type) -> str:
    """A type of the element's size, to step by."""
    if isinstance(t, (Scalar, Pointer)):
        return memory_name(e.names.of(t))
    return f"[{layout_of(t).size} x i8]"


def _member(e: RegionEmitter, op: Op) -> None:
    (p,), (r,), index = op.operands, op.results, op.attributes["index"]
    distance = layout_of(pointer_of(p.type).element).offsets[index]
    e.define(r, move(e, e.type(p), e.operand(p), f"i64 {distance}"))


# --- loads and stores


def _load(e: RegionEmitter, op: Op) -> None:
    (p, *mask), (r,) = op.operands, op.results
    register = e.type(r)
    name = memory_name(register)
    if isinstance(p.type, Lanes):
        loaded = _gather(e, name, p, mask)
    elif not mask:
        loaded = _plain_load(e, name, p)
    elif e.w.features.masked_loads:
        loaded = _masked_load(e, name, p, mask)
    else:
        loaded = _full_or_masked_load(e, name, p, mask)
    if name != register:
        loaded = e.w.value(f"icmp ne {name} {loaded}, zeroinitializer")
    e.define(r, loaded)


def _plain_load(e: RegionEmitter, name: str, p: Value) -> str:
    invariant = ", !invariant.load !0" if pointer_of(p.type).space == "constant" else ""
    return e.w.value(f"load {name}, {e.typed(p)}, align {_alignment(p)}{invariant}")


def _masked_load(e: RegionEmitter, name: str, p: Value, mask: list[Value]) -> str:
    arguments = f"{e.typed(p)}, i32 {_alignment(p)}, {e.typed(mask[0])}, {name} zeroinitializer"
    return e.w.value(f"call {name} @llvm.masked.load.{suffix(name)}.p0({arguments})")


def _gather(e: RegionEmitter, name: str, p: Value, mask: list[Value]) -> str:
    addresses, lanes = _reachable(e, p, mask, _unread(e))
    function = f"@llvm.masked.gather.{suffix(name)}.{suffix(e.type(p))}"
    return e.w.value(
        f"call {name} {function}({addresses}, i32 {_alignment(p)}, {lanes}, {name} zeroinitializer)"
    )


def _reachable(e: RegionEmitter, p: Value, mask: list[Value], nowhere: str) -> tuple[str, str]:
    """Addresses and mask. Where machines go lane by lane, lanes that are off go to memory that is never read."""
    everyone = f"{e.names.widened('i1')} splat (i1 true)"
    if not mask:
        return e.typed(p), everyone
    if e.w.features.mask_registers:
        return e.typed(p), e.typed(mask[0])
    chosen = e.w.value(
        f"select {e.typed(mask[0])}, {e.typed(p)}, {e.type(p)} {splat(e, e.type(p), f'ptr {nowhere}')}"
    )
    return f"{e.type(p)} {chosen}", everyone


def _unread(e: RegionEmitter) -> str:
    e.w.declarations.add_functions("@nothing = internal constant i64 0, align 8\n")
    return "@nothing"


def _full_or_masked_load(e: RegionEmitter, name: str, p: Value, mask: list[Value]) -> str:
    """Machines that are slow under masks first test whether all lanes are on."""
    w = e.w
    full, masked_block, done = w.labels("full", "some", "loaded")
    w.branch(all_lanes(e, mask[0]), full, masked_block)
    w.block(full)
    plain = _plain_load(e, name, p)
    w.jump(done)
    w.block(masked_block)
    masked = _masked_load(e, name, p, mask)
    w.jump(done)
    w.block(done)
    result = w.name()
    w.lines.append(phi(result, name, [(plain, full), (masked, masked_block)]))
    return result


def all_lanes(e: RegionEmitter, mask: Value) -> str:
    count = e.names.lanes
    bits = e.w.value(f"bitcast {e.typed(mask)} to i{count}")
    return e.w.value(f"icmp eq i{count} {bits}, -1")


def _store(e: RegionEmitter, op: Op) -> None:
    p, v, *mask = op.operands
    w, register, value = e.w, e.type(v), e.operand(v)
    name = memory_name(register)
    if name != register:
        value = w.value(f"zext {register} {value} to {name}")
    plain = f"store {name} {value}, {e.typed(p)}, align {_alignment(p)}"
    if isinstance(p.type, Lanes):
        _scatter(e, f"{name} {value}", p, mask)
    elif op in e.environment.large:
        size = layout_of(pointer_of(p.type).element).size * e.names.lanes
        write_store(w, e.environment.large[op], f"{name} {value}", e.operand(p), size, plain)
    elif not mask:
        w.line(plain)
    elif w.features.masked_stores:
        _masked_store(e, f"{name} {value}", p, mask)
    else:
        full, masked_block, done = w.labels("full", "some", "stored")
        w.branch(all_lanes(e, mask[0]), full, masked_block)
        w.block(full)
        w.line(plain)
        w.jump(done)
        w.block(masked_block)
        _masked_store(e, f"{name} {value}", p, mask)
        w.jump(done)
        w.block(done)


def _masked_store(e: RegionEmitter, value: str, p: Value, mask: list[Value]) -> None:
    name = value[: value.index(">") + 1]
    function = f"@llvm.masked.store.{suffix(name)}.p0"
    e.w.line(f"call void {function}({value}, {e.typed(p)}, i32 {_alignment(p)}, {e.typed(mask[0])})")


def _scatter(e: RegionEmitter, value: str, p: Value, mask: list[Value]) -> None:
    name = value[: value.index(">") + 1]
    addresses, lanes = _reachable(e, p, mask, e.w.slot("i64", 1, 8))
    function = f"@llvm.masked.scatter.{suffix(name)}.{suffix(e.type(p))}"
    e.w.line(f"call void {function}({value}, {addresses}, i32 {_alignment(p)}, {lanes})")


def _alignment(p: Value) -> int:
    return layout_of(pointer_of(p.type).element).alignment


# --- records: the structs of all lanes, which follow each other


def _load_record(e: RegionEmitter, op: Op) -> None:
    """All of memory in one piece, then every n-th value of it."""
    (p,), count, lanes = op.operands, len(op.results), e.names.lanes
    name = _record_type(op.results, count * lanes)
    loaded = e.w.value(f"load {name}, {e.typed(p)}, align {_alignment(p)}")
    for i, result in enumerate(op.results):
        picked = shuffled(e, name, loaded, range(i, count * lanes, count))
        e.define(result, _as(e, name, lanes, picked, result))


def _store_record(e: RegionEmitter, op: Op) -> None:
    p, *values = op.operands
    name, joined = _joined(e, values)
    e.w.line(f"store {name} {joined}, {e.typed(p)}, align {_alignment(p)}")


def _add_records(e: RegionEmitter, op: Op) -> None:
    """One lane after the other, because several may add to the same elements."""
    (p, index, *values), lanes = op.operands, e.names.lanes
    scalar, count = scalar_type(values[0]), len(values)
    name, joined = _joined(e, values)
    row = f"<{count} x {e.names.of(scalar)}>"
    for lane in range(lanes):
        at = e.w.value(f"extractelement {e.typed(index)}, i64 {lane}")
        start = f"{e.names.of(scalar)}, {e.typed(p)}, {e.names.of(scalar_type(index))} {at}"
        place = e.w.value(f"getelementptr {start}")
        old = e.w.value(f"load {row}, ptr {place}, align {scalar.size}")
        part = shuffled(e, name, joined, range(lane * count, (lane + 1) * count))
        new = primitive(e.w, "add", scalar, row, [old, part])
        e.w.line(f"store {row} {new}, ptr {place}, align {scalar.size}")


def _joined(e: RegionEmitter, values: Sequence[Value]) -> tuple[str, str]:
    """All components of lane 0, then those of lane 1, and so on, with their type."""
    count, lanes = len(values), e.names.lanes
    name = _record_type(values, count * lanes)
    scalar = name[name.rindex(" ") + 1 : -1]
    part = f"<{lanes} x {scalar}>"
    parts = [e.w.value(f"bitcast {e.typed(v)} to {part}") for v in values]
    joined = [shuffled(e, part, x, range(2 * lanes), y) for x, y in zip(parts[::2], [*parts[1::2], "poison"])]
    order = [(j % count) * lanes + j // count for j in range(count * lanes)]
    pair = f"<{2 * lanes} x {scalar}>"
    return name, shuffled(e, pair, joined[0], order, *joined[1:])


def _record_type(values: Sequence[Value], length: int) -> str:
    """Floats stay floats; of mixed types the bits are moved."""
    scalars = {scalar_type(v) for v in values}
    (size,) = {s.size for s in scalars}
    return f"<{length} x {scalar_name(scalars.pop()) if len(scalars) == 1 else f'i{8 * size}'}>"


def _as(e: RegionEmitter, name: str, lanes: int, picked: str, result: Value) -> str:
    part = f"<{lanes} x {name[name.rindex(' ') + 1 : -1]}>"
    return picked if part == e.type(result) else e.w.value(f"bitcast {part} {picked} to {e.type(result)}")


RULES: dict[str, Rule] = {
    "alloc": allocate,
    "parameter": _parameter,
    "offset": _offset,
    "member": _member,
    "load": _load,
    "store": _store,
    "load_record": _load_record,
    "store_record": _store_record,
    "add_records": _add_records,
}
