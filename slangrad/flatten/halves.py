"""Halves kept as floats, for machines that convert halves but compute with floats only.

    %s = mul %x, %y : f16           %m = mul %x, %y : f32            x and y hold halves already
    store %p, %s                    %h = convert %m : f16            rounds at once, as a half does
                                    %s = convert %h : f32            what uses of %s find
                                    store %p, %h

In and out: flat code of a kernel or of a function that it calls. An operand is not converted at each use, a result
goes there and back once, and local arrays hold floats. Other memory, and operands and results of other ops, stay
halves.
"""

from __future__ import annotations

from slangrad.ir.analyses.addresses import NonEscapingMemory
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, Rule
from slangrad.ir.data.types import F16, F32, Type, pointer, pointer_of
from slangrad.ir.ops.core import Function, Op, Region, Value

ROUNDED = ("add", "sub", "mul", "div", "sqrt")
EXACT = ("neg", "abs", "min", "max", "floor", "ceil", "round", "trunc", "rem", "select")
COMPARED = ("less", "less_equal", "equal", "not_equal")


def halves_as_floats(function: Function) -> Function:
    """The function with its values and local arrays of halves as floats."""
    if not any(value.type is F16 for value in (*function.region.parameters, *function.region.makers)):
        return function
    changed = _Floats(NonEscapingMemory(function.region)).function(function)
    return changed.on(changed.region)


class _Floats(Rebuild):
    """Old values of type f16 are mapped to new ones of type f32 that hold halves."""

    def __init__(self, memory: NonEscapingMemory) -> None:
        super().__init__(_RULES, _other)
        self._memory = memory

    def is_wide(self, place: Value) -> bool:
        """Whether floats stand there for halves."""
        return pointer_of(place.type).element is F16 and self._memory.of(place) is not None

    def region(self, b: Builder, region: Region) -> Region:
        parameters = tuple(Value(_wide(p.type), p.hint) for p in region.parameters)
        self.new.update(zip(region.parameters, parameters, strict=True))
        yields = self.inline(b, region)
        return Region(parameters, b.ops, yields)


def _wide(t: Type) -> Type:
    return F32 if t is F16 else t


def _narrow(b: Builder, value: Value) -> Value:
    """The half that a float holds."""
    maker = b.made_by(value)
    is_widened = maker is not None and maker.name == "convert" and maker.operands[0].type is F16
    return maker.operands[0] if maker is not None and is_widened else b.emit("convert", value, type=F16)


def _extended(b: Builder, value: Value) -> Value:
    return b.emit("convert", value, type=F32) if value.type is F16 else value


def _computed(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    result = b.primitive(op.name, walk.values(op.operands), None, op.attributes)
    if op.name in ROUNDED and op.results[0].type is F16:
        result = _extended(b, b.emit("convert", result, type=F16))
    return (result,)


def _constant(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (b.primitive(op.name, (), _wide(op.results[0].type), op.attributes),)


def _convert(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    return (_extended(b, b.emit("convert", walk.value(op.operands[0]), type=op.results[0].type)),)


def _alloc(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    (place,) = op.results
    assert isinstance(walk, _Floats)
    t = pointer(F32, pointer_of(place.type).space) if walk.is_wide(place) else place.type
    return (b.primitive("alloc", (), t, op.attributes),)


def _store(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    place, value = walk.values(op.operands)
    if op.operands[1].type is F16 and not walk.is_wide(op.operands[0]):
        value = _narrow(b, value)
    b.effect("store", place, value, **op.attributes)
    return ()


def _load(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    assert isinstance(walk, _Floats)
    (place,), (result,) = op.operands, op.results
    t = F32 if walk.is_wide(place) else result.type
    return (_extended(b, b.primitive("load", (walk.value(place),), t, op.attributes)),)


def _carried(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    regions = tuple(walk.region(b.nested(), r) for r in op.regions)
    types = tuple(_wide(r.type) for r in op.results)
    return b.several(op.name, walk.values(op.operands), types, regions, op.attributes)


def _other(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    """Takes and gives halves."""
    operands = tuple(_narrow(b, walk.value(x)) if x.type is F16 else walk.value(x) for x in op.operands)
    if not op.results:
        b.effect(op.name, *operands, **op.attributes)
        return ()
    return (_extended(b, b.primitive(op.name, operands, op.results[0].type, op.attributes)),)


_RULES: dict[str, Rule] = {
    **dict.fromkeys((*ROUNDED, *EXACT, *COMPARED), _computed),
    **dict.fromkeys(("const", "zero"), _constant),
    **dict.fromkeys(("if", "for", "while", "call"), _carried),
    "convert": _convert,
    "alloc": _alloc,
    "store": _store,
    "load": _load,
}
