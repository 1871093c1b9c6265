"""In check mode: accesses through a pointer stay in the memory of that pointer.

    %p = load (parameter {name="p"})           %size = load (parameter {name="p_bytes"})
    %q = offset %p, %i                         %ok = in_bounds (%q - %p), (%size - 3) {text="pointer"}
    %x = load %q                               %x = if %ok { yield load %q } { yield 0 }

Pointers are followed through offsets, members and casts: to a parameter of a call, which comes with a size, to a
variable or to memory of a group. Other pointers come from memory or numbers, are chosen by a branch, moved on by a
loop, or belong to kernels by hand. They may lead to all of these, and to any block of the host's table
(`is_memory`). Accesses that the library guarantees (origins.py) are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slangrad.base.options import POINTER
from slangrad.ir.analyses.addresses import ACCESSES, MEMBERS, Roots, root_of
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, Rule, copy_op
from slangrad.ir.data.layout import element_size
from slangrad.ir.data.types import I64, U64, Pointer, pointer
from slangrad.ir.ops.core import Function, Op, Program, Value, walk
from slangrad.opt.analyses.origins import Origins

BYTES = "_bytes"
OWN = frozenset({"variable", "shared"})
NOWHERE = -1  # the extent that is reported


def check_pointers(program: Program, function: Function, by_hand: bool) -> Function:
    """The function with checks where it reads and writes through pointers. `by_hand`: the kernel is the user's, whose
    parameters come without sizes."""
    assert program.arguments is not None
    fields = dict(program.arguments.fields)
    sized = {name: t for name, t in fields.items() if isinstance(t, Pointer) and name + BYTES in fields}
    checks = _PointerChecks(program, function, {} if by_hand else sized)
    access: Rule = checks.access
    begun_rule: Rule = checks.own
    rules = {**dict.fromkeys(ACCESSES, access), **dict.fromkeys(OWN, begun_rule)}
    walk, b = Rebuild(rules), Builder(span=function.span)
    checks.begin(b)
    return replace(function, region=walk.region(b, function.region))


@dataclass(frozen=True, slots=True)
class _MemoryRange:
    """Memory that a pointer may lead to: from an address on, so many bytes."""

    start: Value
    size: Value


class _PointerChecks:
    def __init__(self, program: Program, function: Function, sized: dict[str, Pointer]) -> None:
        self._sized = sized
        self._origins = Origins(program, function)
        self._made_by = self._origins.made_by
        self._roots = Roots(self._made_by)
        self._own = [op for op in walk(function.region) if op.name in OWN and not op.operands]
        self._begun: dict[Op, Value] = {}  # variables and shared memory, where the kernel begins

    # --- which pointers are checked, and how

    def access(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        inside = self._check(walk, b, op)
        if inside is None:
            return copy_op(walk, b, op)
        return b.guarded(inside, lambda inner: copy_op(walk, inner, op))

    def own(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        return (self._begun[op],) if op in self._begun else copy_op(walk, b, op)

    def begin(self, b: Builder) -> None:
        """Variables and shared memory are the same in the whole kernel, so all checks can use them."""
        for op in self._own:
            self._begun[op] = b.primitive(op.name, (), op.results[0].type, op.attributes)
            self._begun[op].hint = op.results[0].hint

    def _check(self, walk: Rebuild, b: Builder, op: Op) -> Value | None:
        """Whether an access stays inside, as a value that also reports; None without a check."""
        address = self._roots.root(op.operands[0])
        maker, pointer = self._made_by(address), walk.value(op.operands[0])
        if maker is not None and maker.name in OWN:
            if root_of(op.operands[0], self._made_by, MEMBERS) is address:
                return None
            size = element_size(address.type)
            return self._inside(b, pointer, _MemoryRange(walk.value(address), b.constant(I64, size)))
        name = self._parameter(maker)
        if name in self._sized:
            return self._inside(b, pointer, _MemoryRange(walk.value(address), self._size(b, name)))
        if (maker is not None and maker.name == "parameter") or self._origins.is_vouched_for(op):
            return None
        return self._anywhere(b, pointer)

    def _parameter(self, maker: Op | None) -> str | None:
        """The name of the parameter that a pointer is."""
        source = None if maker is None or maker.name != "load" else self._made_by(maker.operands[0])
        name = None if source is None or source.name != "parameter" else source.attributes["name"]
        return name if isinstance(name, str) else None

    # --- comparisons

    def _size(self, b: Builder, name: str) -> Value:
        place = b.primitive("parameter", (), pointer(U64, "constant"), {"name": name + BYTES})
        return b.emit("convert", b.emit("load", place, type=U64), type=I64)

    def _room(self, b: Builder, address: Value, memory: _MemoryRange) -> tuple[Value, Value]:
        """How far an address is from where its memory begins, and the distances at which a value fits."""
        room = b.emit("sub", memory.size, b.constant(I64, element_size(address.type) - 1))
        places = (b.emit("bitcast", end, type=I64) for end in (address, memory.start))
        return b.emit("sub", *places), b.emit("max", room, b.constant(I64, 0))

    def _inside(self, b: Builder, address: Value, memory: _MemoryRange) -> Value:
        return b.emit("in_bounds", *self._room(b, address, memory), text=POINTER)

    def _anywhere(self, b: Builder, address: Value) -> Value:
        """In any memory that a pointer can lead to."""
        is_inside = b.emit("is_memory", address, bytes=element_size(address.type))
        for memory in self._ranges(b):
            distance, room = self._room(b, address, memory)
            after = b.emit("less_equal", b.constant(I64, 0), distance)
            is_inside = b.emit("or", is_inside, b.emit("and", after, b.emit("less", distance, room)))
        place = b.emit("bitcast", address, type=I64)
        index = b.emit("select", is_inside, b.constant(I64, 0), place)
        extent = b.emit("select", is_inside, b.constant(I64, 1), b.constant(I64, NOWHERE))
        return b.emit("in_bounds", index, extent, text=POINTER)

    def _ranges(self, b: Builder) -> Iterator[_MemoryRange]:
        for start in self._begun.values():
            yield _MemoryRange(start, b.constant(I64, element_size(start.type)))
        for name, t in self._sized.items():
            place = b.primitive("parameter", (), pointer(t, "constant"), {"name": name})
            yield _MemoryRange(b.emit("load", place, type=t), self._size(b, name))
