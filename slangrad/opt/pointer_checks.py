"""In check mode: what is reached through a pointer parameter lies in the memory that was passed.

    %p = load (parameter {name="p"})           %size = load (parameter {name="p_bytes"})
    %q = offset %p, %i                         %ok = in_bounds (%q - %p), (%size - 3) {text="pointer"}
    %x = load %q                               %x = if %ok { yield load %q } { yield 0 }

Pointers are followed through offsets, members and casts back to the parameter; those that come from memory, or that a
loop or a branch chooses, are not checked.
"""

from __future__ import annotations

from slangrad.base.options import POINTER
from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Program, Region, Value, walk
from slangrad.ir.layout import layout_of
from slangrad.ir.rebuild import Rebuild, copy_op
from slangrad.ir.types import I64, U64, Pointer, pointer

BYTES = "_bytes"
MOVES = frozenset({"offset", "member", "bitcast"})


def check_pointers(program: Program, function: Function) -> Function:
    """The kernel with checks where it reads and writes through its pointer parameters."""
    assert program.arguments is not None
    fields = dict(program.arguments.fields)
    sized = {name for name, t in fields.items() if isinstance(t, Pointer) and name + BYTES in fields}
    if not sized:
        return function
    checks = _Checks(function, sized)
    return Rebuild(dict.fromkeys(("load", "store", "atomic"), checks.access)).function(function)


class _Checks:
    def __init__(self, function: Function, sized: set[str]) -> None:
        self._sized = sized
        self._made_by = {result: op for op in walk(function.region) for result in op.results}

    def access(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        found = self._root(op.operands[0])
        if found is None:
            return copy_op(walk, b, op)
        root, name = found
        inside = self._inside(b, walk.value(op.operands[0]), walk.value(root), name)
        there, nowhere = b.nested(), b.nested()
        made = copy_op(walk, there, op)
        zeros = tuple(nowhere.zero(value.type) for value in made)
        types = tuple(value.type for value in made)
        return b.control(
            "if", (inside,), types, (Region((), there.ops, made), Region((), nowhere.ops, zeros))
        )

    def _root(self, address: Value) -> tuple[Value, str] | None:
        """The pointer that an address was made from, and the parameter that it is."""
        while True:
            op = self._made_by.get(address)
            if op is None:
                return None
            if op.name in MOVES and isinstance(op.operands[0].type, Pointer):
                address = op.operands[0]
                continue
            source = self._made_by.get(op.operands[0]) if op.name == "load" else None
            name = None if source is None or source.name != "parameter" else source.attributes["name"]
            return (address, name) if isinstance(name, str) and name in self._sized else None

    def _inside(self, b: Builder, address: Value, root: Value, name: str) -> Value:
        kind = address.type
        assert isinstance(kind, Pointer)
        place = b.primitive("parameter", (), pointer(U64, "constant"), {"name": name + BYTES})
        size = b.emit("convert", b.emit("load", place, type=U64), type=I64)
        room = b.emit("sub", size, b.constant(I64, layout_of(kind.element).size - 1))
        extent = b.emit("max", room, b.constant(I64, 0))
        distance = b.emit("sub", b.emit("bitcast", address, type=I64), b.emit("bitcast", root, type=I64))
        return b.emit("in_bounds", distance, extent, text=POINTER)
