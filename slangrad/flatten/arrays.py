"""Arrays go to memory: a slot of local memory for each chain of versions, a tape op for each use of a tape.

    %b = set_index %a, %i, %x        if (less %i, 8) { store (offset %a, %i), %x }        where %a is an alloc
    %y = index %b, %k                %y = select (less %k, 8), (load (offset %a, ...)), 0.0
    %u = set_index %t, %i, %x        tape_store %t, %i, %x

A function takes an array by its address, and returns one in memory of its caller, whose address is among the last
operands. A proved index needs no comparison. Copies are made only where lifetimes.py finds that an old version is
still needed. A tape that is dead after an arm or an iteration is freed at its end. In: scalars and arrays of one
dimension; out: flat IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slangrad.flatten.leaves import UNROLLED
from slangrad.flatten.lifetimes import Lifetimes, is_array
from slangrad.flatten.versions import UPDATES
from slangrad.ir.analyses.intervals import Ranges
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import U32, Array, Type, is_tape, pointer, pointer_of
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Attributes, Function, Op, Region, Value
from slangrad.ir.ops.primitives import WRITE
from slangrad.ir.ops.type_rules import scalar_type


def flatten_arrays(function: Function) -> Function:
    """The function with its arrays in memory."""
    return _Arrays(Lifetimes(function)).function(function)


def storage_type(t: Type) -> Type:
    """How an element is stored: a tape as its handle."""
    if not isinstance(t, Array):
        return t
    assert t.length is None, f"{t} is not of one dimension"
    return pointer(storage_type(t.element), "tape")


def _passed_type(t: Type) -> Type:
    """The type in signatures of functions: an array is passed by its address."""
    return pointer(_element(t), "local") if isinstance(t, Array) else t


def _in_place_of(old: Value, form: Callable[[Type], Type]) -> Value:
    """A parameter or result: itself, or that of another form."""
    return Value(form(old.type), old.hint) if is_array(old) else old


def _element(t: Type) -> Type:
    assert isinstance(t, Array)
    return storage_type(t.element)


class _Arrays(Rebuild):
    """`_places` maps the root of a chain of versions to its memory: an address, or the handle of a tape."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        super().__init__()
        self._lifetimes = lifetimes
        self._places: dict[Value, Value] = {}
        self._prepared: dict[Value, Value] = {}  # memory that was made already for roots in an arm
        self._tapes: list[list[tuple[Value, Value]]] = [
            []
        ]  # made in each region around: a version, its handle
        self._ranges = Ranges()

    def function(self, function: Function) -> Function:
        b, old = Builder(span=function.span), function.region
        self._is_whole = True
        parameters = tuple(_in_place_of(p, _passed_type) for p in old.parameters)
        self._define(old.parameters, parameters)
        for op in old.ops:
            self.op(b, op)
        left = [v for v in old.yields if is_array(v)]
        places = tuple(_in_place_of(v, _passed_type) for v in left)
        for value, place in zip(left, places, strict=True):
            self._copy(b, value.type, self._source(b, value), place)
        if function.attributes.get("kept"):  # tapes of a kernel end with its wave
            self._free_tapes(b, old)
        yields = self.values(v for v in old.yields if not is_array(v))
        return function.on(Region((*parameters, *places), b.ops, yields))

    def op(self, b: Builder, op: Op) -> None:
        rule = self._rule(op)
        if rule is None:
            super().op(b, op)
            return
        outer, b.span = b.span, op.span or b.span
        rule(b, op)
        b.span = outer

    def _rule(self, op: Op) -> Callable[[Builder, Op], None] | None:
        if op.regions:
            return {"if": self._if, "for": self._for, "while": self._while}[op.name]
        if op.name in ("index", "get"):
            return self._read
        if op.name == "call":
            return self._call
        if not any(map(is_array, op.results)):
            return None
        return self._update if op.name in UPDATES else {"zero": self._zero, "make": self._make}[op.name]

    # --- memory

    def place(self, b: Builder, array: Value) -> Value:
        """The memory of a version; for a zero tape the handle 0."""
        if array in self._lifetimes.zeros:
            return b.zero(storage_type(array.type))
        return self._places[self._lifetimes.root(array)]

    def _new_place(self, b: Builder, root: Value, zero: bool, start: Value | None = None) -> Value:
        """Memory for a chain that begins here, with a zero or to be filled; tapes are always zero at first."""
        place = self._prepared.pop(root, None) or self._allocate(b, root, zero, start)
        place.hint = place.hint or root.hint
        self._places[root] = place
        return place

    def _allocate(self, b: Builder, version: Value, zero: bool, start: Value | None = None) -> Value:
        """`start`: the zero that the memory begins as; it is not cleared if no element is read before it is
        written."""
        t = version.type
        assert isinstance(t, Array)
        written_first = start in self._lifetimes.written_first
        attributes: Attributes = {"written_first": True} if written_first else {}
        if t.length is None:
            return self._noted(b.primitive("tape_new", (), storage_type(t), attributes), version)
        attributes = {"count": t.length, "zero": zero and not written_first, **attributes}
        return b.primitive("alloc", (), pointer(_element(t), "local"), attributes)

    def _noted(self, tape: Value, version: Value) -> Value:
        """A tape that was made in the current region."""
        self._tapes[-1].append((version, tape))
        return tape

    def _free_tapes(self, b: Builder, region: Region) -> None:
        """At the end of a region, free those that were made in it and are not needed after it."""
        for version, tape in self._tapes.pop():
            if self._lifetimes.ends_in(version, region):
                b.effect("tape_free", tape)

    def _copied(self, b: Builder, source: Value, root: Value) -> Value:
        """New memory for the chain of `root` with what a version holds."""
        if source in self._lifetimes.zeros:
            return self._new_place(b, root, True, source)
        if is_tape(source.type):
            copy = self._places[root] = self._noted(b.emit("tape_copy", self.place(b, source)), root)
            return copy
        copy = self._new_place(b, root, zero=False)
        self._copy(b, source.type, self._source(b, source), copy)
        return copy

    def _source(self, b: Builder, version: Value) -> Value | None:
        """Where to copy a version from; None for zeros."""
        return None if version in self._lifetimes.zeros else self.place(b, version)

    def _copy(self, b: Builder, t: Type, source: Value | None, target: Value) -> None:
        """The elements of an array into other memory."""
        assert isinstance(t, Array) and t.length is not None
        element = _element(t)

        def copy_one(b: Builder, k: Value) -> None:
            origin = None if source is None else b.emit("offset", source, k)
            value = b.zero(element) if origin is None else b.emit("load", origin, type=element)
            b.effect("store", b.emit("offset", target, k), value)

        self._repeat(b, t.length, copy_one)

    def _repeat(self, b: Builder, count: int, step: Callable[[Builder, Value], None]) -> None:
        if count <= UNROLLED:
            for k in range(count):
                step(b, b.constant(U32, k))
            return
        b.for_(b.constant(U32, count), (), step, hint="k")

    # --- elements

    def _position(self, b: Builder, op: Op) -> Value:
        if op.name in ("get", "set"):
            index = op.attributes["index"]
            return b.constant(U32, index)
        return self.value(op.operands[1])

    def _read(self, b: Builder, op: Op) -> None:
        array, result, at = op.operands[0], op.results[0], self._position(b, op)
        value = self._element_at(b, array, at)
        value.hint = value.hint or result.hint
        if is_array(result):
            self._places[result] = value
        else:
            self.new[result] = value

    def _element_at(self, b: Builder, array: Value, at: Value) -> Value:
        t, element = array.type, _element(array.type)
        assert isinstance(t, Array)
        if array in self._lifetimes.zeros or t.length == 0:
            return b.zero(element)
        if t.length is None:
            return b.emit("tape_load", self.place(b, array), at)
        inside, safe = self._guarded(b, at, t.length)
        value = b.emit("load", b.emit("offset", self.place(b, array), safe), type=element)
        return value if inside is None else b.emit("select", inside, value, b.zero(element))

    def _guarded(self, b: Builder, at: Value, extent: int) -> tuple[Value | None, Value]:
        """Whether a position is inside (None: surely), and one that is always inside: the same, if it is."""
        assert scalar_type(at) is U32
        if self._ranges.is_below(b, at, extent):
            return None, at
        op = b.made_by(at)
        if op is not None and op.name == "select" and self._ranges.is_below(b, op.operands[1], extent):
            outside = b.constant_of(op.operands[2])
            if outside is not None and outside >= extent:
                return op.operands[0], op.operands[1]
        return b.emit("less", at, b.constant(U32, extent)), b.emit("min", at, b.constant(U32, extent - 1))

    def _update(self, b: Builder, op: Op) -> None:
        old, update = op.operands[0], op.results[0]
        place = self.place(b, old) if update in self._lifetimes.origin else self._copied(b, old, update)
        at, new = self._position(b, op), op.operands[-1]
        value = self.place(b, new) if is_array(new) else self.value(new)
        assert isinstance(old.type, Array)
        if old.type.length == 0:
            return
        inside, safe = self._writable(b, old.type.length, at)
        if inside is None:
            self._write(b, op, place, safe, value)
        else:
            b.guarded(inside, lambda arm: self._write(arm, op, place, safe, value))

    def _writable(self, b: Builder, length: int | None, at: Value) -> tuple[Value | None, Value]:
        """Whether an element exists, and where it is if it does; a tape has all but negative ones."""
        if length is not None:
            return self._guarded(b, at, length)
        if self._ranges.of(b, at).low >= 0:
            return None, at
        return b.emit("less_equal", b.constant(at.type, 0), at), at

    def _write(self, b: Builder, op: Op, place: Value, at: Value, value: Value) -> None:
        adds = op.name == "add_index"
        assert not (adds and is_array(op.operands[-1])), "tapes are not added"
        if pointer_of(place.type).space == "tape":
            b.effect("tape_add" if adds else "tape_store", place, at, value)
            return
        address = b.emit("offset", place, at)
        if adds:
            value = b.emit("add", b.emit("load", address, type=value.type), value)
        b.effect("store", address, value)

    # --- whole arrays

    def _zero(self, b: Builder, op: Op) -> None:
        """Zeros have no memory."""

    def _make(self, b: Builder, op: Op) -> None:
        place = self._new_place(b, op.results[0], zero=False)
        for i, x in enumerate(op.operands):
            value = self.place(b, x) if is_array(x) else self.value(x)
            b.effect("store", b.emit("offset", place, b.constant(U32, i)), value)

    def _call(self, b: Builder, op: Op) -> None:
        passed = [self._argument(b, v) for v in op.operands]
        left = [r for r in op.results if is_array(r)]
        passed += [self._new_place(b, r, zero=False) for r in left]
        others = [r for r in op.results if not is_array(r)]
        attributes = op.attributes | ({"effect": WRITE} if left else {})
        passed_back = b.several("call", passed, [r.type for r in others], (), attributes)
        self._define(others, passed_back)

    def _argument(self, b: Builder, value: Value) -> Value:
        if not is_array(value):
            return self.value(value)
        assert isinstance(value.type, Array) and value.type.length is not None
        if value not in self._lifetimes.zeros:
            return self.place(b, value)
        return b.emit("alloc", type=_passed_type(value.type), count=value.type.length, zero=True)

    # --- branches

    def _if(self, b: Builder, op: Op) -> None:
        placed = [i for i, r in enumerate(op.results) if is_array(r) and self._has_own_place(r)]
        for i in placed:
            result = op.results[i]
            self._new_place(b, result, zero=result in self._lifetimes.begins_empty)
        passed = self._passed(op.results)
        regions = tuple(self._arm(b.nested(), region, op, placed, passed) for region in op.regions)
        self._control(b, op, (self.value(op.operands[0]),), regions, passed)

    def _has_own_place(self, result: Value) -> bool:
        return result not in self._lifetimes.origin and result not in self._lifetimes.handles

    def _passed(self, values: Sequence[Value]) -> list[int]:
        """Which values a branch or loop passes on: all but arrays, and handles of tapes."""
        return [i for i, v in enumerate(values) if not is_array(v) or v in self._lifetimes.handles]

    def _arm(self, b: Builder, region: Region, op: Op, placed: list[int], passed: list[int]) -> Region:
        """An arm leaves results with memory of their own there, and begins them there where it can."""
        places = {i: self._places[op.results[i]] for i in placed}
        for i, place in places.items():
            root = self._lifetimes.root(region.yields[i])
            if root not in self._lifetimes.zeros and self._lifetimes.nesting.inside(root, region):
                self._prepared.setdefault(root, place)
        self._tapes.append([])
        for inner in region.ops:
            self.op(b, inner)
        for i, place in places.items():
            value = region.yields[i]
            if value not in self._lifetimes.zeros and self.place(b, value) is not place:
                self._copy(b, value.type, self.place(b, value), place)
        self._free_tapes(b, region)
        return Region((), b.ops, tuple(self._handed(b, region.yields[i]) for i in passed))

    def _control(
        self,
        b: Builder,
        op: Op,
        operands: tuple[Value, ...],
        regions: tuple[Region, ...],
        passed: list[int],
    ) -> None:
        old = [op.results[i] for i in passed]
        results = tuple(_in_place_of(r, storage_type) for r in old)
        self._define(old, b.several(op.name, operands, (), regions, op.attributes, results))

    def _handed(self, b: Builder, value: Value) -> Value:
        return self.place(b, value) if is_array(value) else self.value(value)

    def _define(self, old: Sequence[Value], new_values: Sequence[Value]) -> None:
        for value, new in zip(old, new_values, strict=True):
            new.hint = new.hint or value.hint
            if is_array(value):
                self._places[value] = new
            else:
                self.new[value] = new

    # --- loops

    def _for(self, b: Builder, op: Op) -> None:
        count, index = self.value(op.operands[0]), op.regions[0].parameters[0]
        self.new[index] = index
        self._ranges.counted(b, count, index)
        self._loop(b, op, (count,), (index,))

    def _while(self, b: Builder, op: Op) -> None:
        self._loop(b, op, (), ())

    def _loop(self, b: Builder, op: Op, first: tuple[Value, ...], index: tuple[Value, ...]) -> None:
        starts, yields = [loop_value.start for loop_value in carried(op)], op.regions[-1].yields
        parameters = [loop_value.parameter for loop_value in carried(op)]
        for start, parameter in zip(starts, parameters, strict=True):
            if is_array(parameter) and self._has_own_place(parameter):
                self._copied(b, start, parameter)
        passed = self._passed(op.results)
        operands = tuple(self._owned(b, op, i, starts[i], op.results[i]) for i in passed)
        regions = []
        for region in op.regions[:-1]:
            nested, new = self._begun(b, region, region.parameters, passed)
            self._free_tapes(nested, region)
            regions.append(Region(new, nested.ops, self.values(region.yields)))
        nested, new = self._begun(b, op.regions[-1], parameters, passed)
        self._finish(nested, parameters, yields)
        handed = tuple(self._owned(nested, op, -1 - i, yields[i], op.results[i]) for i in passed)
        self._free_tapes(nested, op.regions[-1])
        regions.append(Region((*index, *new), nested.ops, handed))
        self._control(b, op, (*first, *operands), tuple(regions), passed)

    def _begun(
        self, b: Builder, region: Region, carried: Sequence[Value], passed: list[int]
    ) -> tuple[Builder, tuple[Value, ...]]:
        """The ops of a region of a loop, and its parameters for what is passed on; its tapes are still there."""
        self._tapes.append([])
        nested, old = b.nested(), [carried[i] for i in passed]
        parameters = tuple(_in_place_of(p, storage_type) for p in old)
        self._define(old, parameters)
        for op in region.ops:
            self.op(nested, op)
        return nested, parameters

    def _owned(self, b: Builder, op: Op, use: int, value: Value, version: Value) -> Value:
        """A carried value, which goes on as a version; the handle of a tape that only the loop has."""
        if not is_array(value) or (op, use) in self._lifetimes.moved:
            return self._handed(b, value)
        if value in self._lifetimes.zeros:
            return self._allocate(b, version, True, value)
        return self._noted(b.emit("tape_copy", self.place(b, value)), version)

    def _finish(self, b: Builder, parameters: Sequence[Value], yields: Sequence[Value]) -> None:
        """At the end of an iteration, put arrays that were not changed in place where the next one looks.

        An array that would be overwritten before it is copied goes through a temporary.
        """
        pairs = [(p, y) for p, y in zip(parameters, yields, strict=True) if self._is_in_memory(p)]
        moves = [(p.type, self._source(b, y), self.place(b, p)) for p, y in pairs]
        moves = [move for move in moves if move[1] is not move[2]]
        for i, (t, source, target) in enumerate(moves):
            if source in [overwritten for _, _, overwritten in moves[:i]]:
                assert isinstance(t, Array) and t.length is not None
                spare = b.emit("alloc", type=target.type, count=t.length, zero=False)
                self._copy(b, t, source, spare)
                moves[i] = (t, spare, target)
        for move in moves:
            self._copy(b, *move)

    def _is_in_memory(self, value: Value) -> bool:
        return is_array(value) and value not in self._lifetimes.handles
