"""Small floats kept as floats: halves on machines that do not compute with them, and bf16, e4m3 and e5m2.

    %s = mul %x, %y : f16           %m = mul %x, %y : f32            x and y hold halves already
    store %p, %s                    %h = convert %m : f16            rounds at once, as a half does
                                    %s = convert %h : f32            what uses of %s find
                                    store %p, %h

In and out: flat code of a kernel or of a function that it calls. An operand is not converted at each use, a result
goes there and back once, and local arrays hold floats. Other memory, and operands and results of other ops, stay
halves.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.ir.analyses.addresses import NonEscapingMemory
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, Rule
from slangrad.ir.data.types import F32, NARROW_FLOATS, Scalar, Type, pointer, pointer_of
from slangrad.ir.ops.core import Function, Op, Region, Value

ROUNDED = ("add", "sub", "mul", "div", "sqrt")
EXACT = ("neg", "abs", "min", "max", "floor", "ceil", "round", "trunc", "rem", "select")
COMPARED = ("less", "less_equal", "equal", "not_equal")


def halves_as_floats(function: Function, halves: Sequence[Scalar] = NARROW_FLOATS) -> Function:
    """The function with its values and local arrays of the small floats as floats."""
    if not any(value.type in halves for value in (*function.region.parameters, *function.region.makers)):
        return function
    changed = _Floats(NonEscapingMemory(function.region), halves).function(function)
    return changed.on(changed.region)


class _Floats(Rebuild):
    """Old values of the types `halves` are mapped to new ones of type f32 that hold these."""

    def __init__(self, memory: NonEscapingMemory, halves: Sequence[Scalar]) -> None:
        super().__init__(_RULES, _other)
        self._memory, self._halves = memory, halves

    def is_wide(self, place: Value) -> bool:
        """Whether floats stand there for halves."""
        return self.is_half(pointer_of(place.type).element) and self._memory.of(place) is not None

    def is_half(self, t: Type) -> bool:
        """Whether floats stand for values of type `t`."""
        return t in self._halves

    def wide(self, t: Type) -> Type:
        """The type of the new value for one of type `t`."""
        return F32 if t in self._halves else t

    def as_float(self, b: Builder, value: Value) -> Value:
        """A value as float if it is a half."""
        return b.emit("convert", value, type=F32) if value.type in self._halves else value

    def region(self, b: Builder, region: Region) -> Region:
        parameters = tuple(Value(self.wide(p.type), p.hint) for p in region.parameters)
        self.new.update(zip(region.parameters, parameters, strict=True))
        yields = self.inline(b, region)
        return Region(parameters, b.ops, yields)


def _narrow(b: Builder, value: Value, half: Type) -> Value:
    """The half that a float holds."""
    maker = b.made_by(value)
    is_widened = maker is not None and maker.name == "convert" and maker.operands[0].type is half
    return maker.operands[0] if maker is not None and is_widened else b.emit("convert", value, type=half)


def _computed(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    result = b.primitive(op.name, walk.values(op.operands), None, op.attributes)
    if op.name in ROUNDED and walk.is_half(op.results[0].type):
        result = walk.as_float(b, b.emit("convert", result, type=op.results[0].type))
    return (result,)


def _constant(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    return (b.primitive(op.name, (), walk.wide(op.results[0].type), op.attributes),)


def _convert(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    return (walk.as_float(b, b.emit("convert", walk.value(op.operands[0]), type=op.results[0].type)),)


def _alloc(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    (place,) = op.results
    assert isinstance(walk, _Floats)
    t = pointer(F32, pointer_of(place.type).space) if walk.is_wide(place) else place.type
    return (b.primitive("alloc", (), t, op.attributes),)


def _store(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    place, value = walk.values(op.operands)
    if walk.is_half(op.operands[1].type) and not walk.is_wide(op.operands[0]):
        value = _narrow(b, value, op.operands[1].type)
    b.effect("store", place, value, **op.attributes)
    return ()


def _load(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    (place,), (result,) = op.operands, op.results
    t = F32 if walk.is_wide(place) else result.type
    return (walk.as_float(b, b.primitive("load", (walk.value(place),), t, op.attributes)),)


def _carried(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    regions = tuple(walk.region(b.nested(), r) for r in op.regions)
    types = tuple(walk.wide(r.type) for r in op.results)
    return b.several(op.name, walk.values(op.operands), types, regions, op.attributes)


def _other(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    """Takes and gives halves."""
    assert isinstance(walk, _Floats)
    operands = tuple(
        _narrow(b, walk.value(x), x.type) if walk.is_half(x.type) else walk.value(x) for x in op.operands
    )
    if not op.results:
        b.effect(op.name, *operands, **op.attributes)
        return ()
    return (walk.as_float(b, b.primitive(op.name, operands, op.results[0].type, op.attributes)),)


_RULES: dict[str, Rule] = {
    **dict.fromkeys((*ROUNDED, *EXACT, *COMPARED), _computed),
    **dict.fromkeys(("const", "zero"), _constant),
    **dict.fromkeys(("if", "for", "while", "call"), _carried),
    "convert": _convert,
    "alloc": _alloc,
    "store": _store,
    "load": _load,
}
