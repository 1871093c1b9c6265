"""Checks that IR is well formed and legal after its stage. A failure is an AssertionError with the op as text.

    verify(program, FLAT)
    AssertionError: store: the value is f32, the memory i32
      store %0, %1
      in @kernel, after flatten

Checked are scopes (each value made once, before its uses), types against the table, attributes, the shapes of
regions and the signatures of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Op, Program, Region, Value, walk
from slangrad.ir.ops.effects import effect_of
from slangrad.ir.ops.primitives import (
    ATOMIC_KINDS,
    CONTROL,
    GIVEN,
    PRIMITIVES,
    REQUESTS,
    STATICS,
    WAVE_KINDS,
    WAVES,
    WRITE,
)
from slangrad.ir.ops.target_ops import CPU as CPU_OPS
from slangrad.ir.ops.target_ops import LANES as LANE_OPS
from slangrad.ir.ops.target_ops import SUMS
from slangrad.ir.ops.type_rules import RuleError, check_attributes, result_type
from slangrad.ir.text.printer import print_op


@dataclass(frozen=True)
class LegalIR:
    """The types and ops that are legal after a stage."""

    name: str
    ops: frozenset[str]
    types: tuple[type[t.Type], ...]
    effects_in_tests: bool = False  # may the test of a `while` write?


TAPE_OPS = frozenset({"tape_new", "tape_copy", "tape_free", "tape_store", "tape_add", "tape_load"})
RECORD_OPS = frozenset({"load_record", "store_record", "add_records"})  # made by spmd/records.py
AGGREGATE_OPS = frozenset({"make", "get", "set", "splat", "shuffle", "index", "set_index", "add_index"})
SOURCE_TYPES = (t.Scalar, t.Vector, t.Matrix, t.Array, t.Struct, t.Pointer)
FLAT_TYPES = (t.Scalar, t.Pointer)
COMMON_OPS = (PRIMITIVES.keys() | CONTROL) - SUMS - LANE_OPS - CPU_OPS
SOURCE_OPS = frozenset(COMMON_OPS - TAPE_OPS)
FLAT_OPS = frozenset(COMMON_OPS - AGGREGATE_OPS - STATICS - {"detach", "scale"})
WIDE_OPS = (FLAT_OPS - WAVES - {"barrier", "shared"}) | SUMS | LANE_OPS | CPU_OPS | RECORD_OPS | {"splat"}

# fmt: off
LOWERED        = LegalIR("lower",    SOURCE_OPS | REQUESTS,           SOURCE_TYPES)
DIFFERENTIATED = LegalIR("autodiff", SOURCE_OPS,                      SOURCE_TYPES)
INLINED        = LegalIR("inline",   SOURCE_OPS - STATICS,            SOURCE_TYPES)
FLAT           = LegalIR("flatten",  FLAT_OPS,                        FLAT_TYPES,             True)
DELAYED        = LegalIR("delayed",  FLAT_OPS | SUMS,                 FLAT_TYPES,             True)
LANES          = LegalIR("spmd",     WIDE_OPS,                        (*FLAT_TYPES, t.Lanes), True)
# fmt: on


def verify(program: Program, stage: LegalIR = LOWERED, functions: Iterable[Function] | None = None) -> None:
    """Check each function of a program, or others that call only these, and the program's facts about types."""
    for struct, fields in program.trusted.items():
        for i in fields:
            name, field = struct.fields[i]
            assert isinstance(field, t.Pointer), f"{struct}: '{name}' is trusted and no pointer"
    for function in program.functions.values() if functions is None else functions:
        verify_function(function, program, stage)


def verify_function(function: Function, program: Program, stage: LegalIR = LOWERED) -> None:
    _Verifier(function, program, stage).function()


class _Verifier:
    def __init__(self, function: Function, program: Program, stage: LegalIR) -> None:
        self.checked = function
        self.program = program
        self.stage = stage
        self._defined: set[Value] = set()
        self._visible: set[Value] = set()

    def fail(self, message: str, op: Op | None = None) -> None:
        shown = "" if op is None else "\n".join("\n  " + line for line in print_op(op).splitlines()[:12])
        raise AssertionError(f"{message}{shown}\n  in @{self.checked.name}, after {self.stage.name}")

    def require(self, condition: bool, message: str, op: Op | None = None) -> None:
        if not condition:
            self.fail(message, op)

    # --- functions and regions

    def function(self) -> None:
        f = self.checked
        self._match("parameters", _types(f.region.parameters), [p.type for p in f.inputs])
        self._region(f.region)
        self._match("results", _types(f.region.yields), f.result_types)
        if f.attributes.get("kernel"):
            plain = not f.parameters and f.return_type is None
            self.require(plain, "a kernel has parameters or results")
            waves = any(op.name in WAVES for op in walk(f.region))
            self.require(bool(f.wave) or not waves, "a kernel uses waves of unknown size")
        for name in () if f.derivatives is None else f.derivatives.names:
            self.require(name in self.program.functions, f"there is no function {name!r}")

    def _match(
        self, subject: str, types: Iterable[t.Type], wanted: Iterable[t.Type], op: Op | None = None
    ) -> None:
        types, wanted = list(types), list(wanted)
        if types != wanted:  # a type equals itself only
            self.fail(f"{subject}: {types} where {wanted} are expected", op)

    def _define(self, value: Value, op: Op | None) -> None:
        if value in self._defined:
            self.fail("a value is made twice", op)
        if not isinstance(value.type, self.stage.types):
            self.fail(f"a value of type {value.type}", op)
        self._defined.add(value)
        self._visible.add(value)

    def _region(self, region: Region, op: Op | None = None) -> None:
        for parameter in region.parameters:
            self._define(parameter, op)
        for inner in region.ops:
            self._op(inner)
        self.require(all(v in self._visible for v in region.yields), "a value out of scope is yielded", op)
        self._visible.difference_update(region.parameters)
        for inner in region.ops:
            self._visible.difference_update(inner.results)

    # --- ops

    def _op(self, op: Op) -> None:
        if op.name not in self.stage.ops:  # sentences are made where they are needed: this runs for each op
            self.fail(f"{op.name} is not an op of this stage", op)
        if not self._visible.issuperset(op.operands):
            self.fail(f"an operand of {op.name} is out of scope", op)
        try:
            check_attributes(op.name, op.attributes)
        except RuleError as error:
            self.fail(str(error), op)
        if op.name in PRIMITIVES:
            self._primitive(op)
        else:
            CONTROL_RULES[op.name](self, op)
        for result in op.results:
            self._define(result, op)

    def _primitive(self, op: Op) -> None:
        if op.regions:
            self.fail(f"{op.name} has regions", op)
        stated = op.results[0].type if PRIMITIVES[op.name].rule == GIVEN and op.results else None
        count, rule = RULES.get(op.name, (None, None))
        try:
            result = result_type(op.name, op.operands, op.attributes, stated)
            self._match(op.name, _types(op.results), [] if result is None else [result], op)
            if count not in (None, len(op.operands)):
                self.fail(f"{op.name} takes {count} operands", op)
            if rule is not None:
                rule(self, op)
        except (RuleError, KeyError, IndexError, ValueError) as error:
            self.fail(f"{op.name}: {error}", op)

    def regions(self, op: Op, count: int) -> tuple[Region, ...]:
        self.require(len(op.regions) == count, f"{op.name} has {len(op.regions)} regions, not {count}", op)
        return op.regions

    def check_region(
        self, op: Op, region: Region, parameters: Iterable[t.Type], yields: Iterable[t.Type]
    ) -> None:
        self._match(f"parameters of a region of {op.name}", _types(region.parameters), parameters, op)
        self._region(region, op)
        self._match(f"yields of a region of {op.name}", _types(region.yields), yields, op)

    def same_types(self, op: Op, subject: str, types: Iterable[t.Type], wanted: Iterable[t.Type]) -> None:
        self._match(f"{op.name}: {subject}", types, wanted, op)


def _types(values: Iterable[Value]) -> list[t.Type]:
    return [v.type for v in values]


# --- control flow


def _if(v: _Verifier, op: Op) -> None:
    v.same_types(op, "condition", _types(op.operands), [t.BOOL])
    for region in v.regions(op, 2):
        v.check_region(op, region, [], _types(op.results))


def _for(v: _Verifier, op: Op) -> None:
    counted = bool(op.operands) and t.is_integer(op.operands[0].type)
    v.require(counted, "the count of a for is no integer", op)
    (body,), carried = v.regions(op, 1), _types(op.operands[1:])
    v.same_types(op, "results", _types(op.results), carried)
    v.check_region(op, body, [op.operands[0].type, *carried], carried)


def _while(v: _Verifier, op: Op) -> None:
    (test, body), carried = v.regions(op, 2), _types(op.operands)
    v.same_types(op, "results", _types(op.results), carried)
    v.check_region(op, test, carried, [t.BOOL])
    v.check_region(op, body, carried, carried)
    pure = all(effect_of(inner) != WRITE for inner in test.ops)
    v.require(pure or v.stage.effects_in_tests, "the test of a while has effects", op)


def _callee(v: _Verifier, op: Op) -> Function:
    name = op.attributes["callee"]
    v.require(name in v.program.functions, f"there is no function {name!r}", op)
    v.regions(op, 0)
    return v.program.functions[name]


def _call(v: _Verifier, op: Op) -> None:
    callee = _callee(v, op)
    v.same_types(op, "operands", _types(op.operands), [p.type for p in callee.inputs])
    v.same_types(op, "results", _types(op.results), callee.result_types)


def _request(v: _Verifier, op: Op) -> None:
    """The inputs come first, and for jvp the results do; only autodiff knows the types of derivatives."""
    callee = _callee(v, op)
    count = len(callee.inputs)
    v.same_types(op, "operands", _types(op.operands[:count]), [p.type for p in callee.inputs])
    if op.name == "jvp":
        count = len(callee.result_types)
        v.same_types(op, "results", _types(op.results[:count]), callee.result_types)


def _record(v: _Verifier, op: Op) -> None:
    """All components of the records of the lanes, which follow each other, or begin at indices; a mask is not taken."""
    v.regions(op, 0)
    address = op.operands[0].type if op.operands else None
    v.require(isinstance(address, t.Pointer), f"{op.name} needs the address of lane 0", op)
    components = (*op.operands[1:], *op.results)
    v.require(all(isinstance(c.type, t.Lanes) for c in components), f"{op.name} takes lanes", op)


CONTROL_RULES: dict[str, Callable[[_Verifier, Op], None]] = {
    "if": _if,
    "for": _for,
    "while": _while,
    "call": _call,
    "jvp": _request,
    "vjp": _request,
    "load_record": _record,
    "store_record": _record,
    "add_records": _record,
}
assert CONTROL_RULES.keys() == CONTROL | REQUESTS | RECORD_OPS


# --- primitives: checks beyond the type rules


def _shape_of(x: t.Type) -> t.Type:
    """The type with bool for its scalar: equal for types that map componentwise onto each other."""
    return t.with_scalar(x, t.BOOL)


def _const(v: _Verifier, op: Op) -> None:
    number, scalar = op.attributes["value"], t.scalar_of(op.results[0].type)
    v.require(scalar is not None, f"{op.results[0].type} has no constants", op)
    wanted = {"bool": bool, "float": float}.get(scalar.kind if scalar else "", int)
    v.require(type(number) is wanted, f"the constant is {number!r}", op)


def _convert(v: _Verifier, op: Op) -> None:
    source, target = op.operands[0].type, op.results[0].type
    numbers = t.scalar_of(source) is not None and t.scalar_of(target) is not None
    v.require(numbers, "convert takes numbers", op)
    v.require(_shape_of(source) is _shape_of(target), "convert changes the shape", op)


def _make(v: _Verifier, op: Op) -> None:
    v.require(t.is_aggregate(op.results[0].type), f"{op.results[0].type} is not made of components", op)
    v.same_types(op, "operands", _types(op.operands), t.components(op.results[0].type))


def _constant_index(v: _Verifier, op: Op) -> int:
    index, count = op.attributes["index"], t.component_count(op.operands[0].type)
    v.require(0 <= index < count, f"there is no component {index} of {count}", op)
    return index


def _set(v: _Verifier, op: Op) -> None:
    component = t.component(op.operands[0].type, _constant_index(v, op))
    v.same_types(op, "component", [op.operands[1].type], [component])


def _splat(v: _Verifier, op: Op) -> None:
    target, element = op.results[0].type, op.operands[0].type
    if isinstance(target, t.Lanes):
        v.same_types(op, "element", [element], [target.element])
        return
    v.require(isinstance(target, (t.Vector, t.Matrix, t.Array)), f"splat makes no {target}", op)


def _shuffle(v: _Verifier, op: Op) -> None:
    source, indices, target = op.operands[0].type, op.attributes["indices"], op.results[0].type
    v.require(isinstance(source, t.Vector), "shuffle takes a vector", op)
    assert isinstance(source, t.Vector)
    v.require(all(0 <= i < source.length for i in indices), "shuffle picks what is not there", op)
    wanted = source.element if len(indices) == 1 else t.vector(source.element, len(indices))
    v.require(target is wanted, f"shuffle makes {wanted}", op)


def _put(v: _Verifier, op: Op) -> None:
    v.require(t.is_integer(op.operands[1].type), "the index is no integer", op)
    whole = op.operands[0].type
    element = whole.element if isinstance(whole, t.Array) else t.component(whole, 0)
    v.same_types(op, "element", [op.operands[2].type], [element])


def pointee(x: t.Type) -> t.Type:
    """The pointee of a pointer, or of lanes of pointers."""
    x = _per_lane(x)
    if not isinstance(x, t.Pointer):
        raise RuleError(f"{x} is not a pointer")
    return x.element


def _variable(v: _Verifier, op: Op) -> None:
    pointee(op.results[0].type)
    v.require(all(t.is_integer(x.type) for x in op.operands[:1]), "the depth of a call is no integer", op)
    v.require(len(op.operands) <= 1, "variable takes the depth of a call at most", op)


def _address(v: _Verifier, op: Op) -> t.Type:
    """The pointee of the first operand."""
    return pointee(op.operands[0].type)


def _moved(v: _Verifier, op: Op) -> None:
    pointee(op.operands[0].type)
    v.require(t.is_integer(_per_lane(op.operands[1].type)), "the index is no integer", op)


def _member(v: _Verifier, op: Op) -> None:
    index, count = op.attributes["index"], t.component_count(pointee(op.operands[0].type))
    v.require(0 <= index < count, f"there is no member {index} of {count}", op)


def _per_lane(x: t.Type) -> t.Type:
    return x.element if isinstance(x, t.Lanes) else x


def _load(v: _Verifier, op: Op) -> None:
    v.require(_per_lane(op.results[0].type) is pointee(op.operands[0].type), "load of another type", op)


def _store(v: _Verifier, op: Op) -> None:
    value, memory = _per_lane(op.operands[1].type), pointee(op.operands[0].type)
    v.require(value is memory, f"store: the value is {value}, the memory {memory}", op)


def _atomic(v: _Verifier, op: Op) -> None:
    kind, memory = op.attributes["kind"], pointee(op.operands[0].type)
    v.require(kind in ATOMIC_KINDS, f"there is no atomic {kind!r}", op)
    v.require(isinstance(memory, t.Scalar), "an atomic takes a scalar", op)
    values = [_per_lane(x.type) for x in (*op.operands[1:], *op.results)]
    v.require(all(x is memory for x in values), f"atomic on {memory}: the values are {values}", op)


def _tape(v: _Verifier, op: Op) -> t.Type:
    address = _per_lane(op.operands[0].type)
    v.require(isinstance(address, t.Pointer) and address.space == "tape", f"{op.name} takes a tape", op)
    return address


def _tape_access(v: _Verifier, op: Op) -> None:
    address = _tape(v, op)
    v.require(t.is_integer(_per_lane(op.operands[1].type)), "the index is no integer", op)
    if len(op.operands) > 2:
        v.require(_per_lane(op.operands[2].type) is pointee(address), "an element of another type", op)


def _parameter(v: _Verifier, op: Op) -> None:
    block, name = v.program.arguments, op.attributes["name"]
    v.require(block is not None, "there is no argument block", op)
    assert block is not None
    wanted = t.pointer(block.fields[block.index(name)][1], "constant")
    v.same_types(op, "address", _types(op.results), [wanted])


def _thread_id(v: _Verifier, op: Op) -> None:
    v.require(op.attributes["axis"] in (0, 1, 2), "there is no such axis", op)


def _combined(v: _Verifier, op: Op) -> None:
    kind, kinds = op.attributes["kind"], WAVE_KINDS[op.name]
    v.require(kind in kinds, f"there is no {op.name} of kind {kind!r}", op)
    v.require(isinstance(op.operands[0].type, t.Scalar), f"{op.name} takes a scalar", op)


def _makes_u32(v: _Verifier, op: Op) -> None:
    v.same_types(op, "number", _types(op.results), [t.U32])


def _wave_read(v: _Verifier, op: Op) -> None:
    plain = isinstance(op.operands[0].type, (t.Scalar, t.Pointer))
    v.require(plain and t.is_integer(op.operands[1].type), "wave_read takes a scalar and a number", op)


def _shared(v: _Verifier, op: Op) -> None:
    target = op.results[0].type
    v.require(
        isinstance(target, t.Pointer) and target.space == "shared", "shared makes memory of a group", op
    )


# The number of operands, None if the type rules check it; and further checks.
RULES: dict[str, tuple[int | None, Callable[[_Verifier, Op], object]]] = {
    "shared": (None, _shared),
    "const": (0, _const),
    "convert": (1, _convert),
    "make": (None, _make),
    "get": (1, _constant_index),
    "set": (2, _set),
    "splat": (1, _splat),
    "shuffle": (1, _shuffle),
    "set_index": (3, _put),
    "add_index": (3, _put),
    "variable": (None, _variable),
    "is_memory": (1, _address),
    "offset": (2, _moved),
    "member": (1, _member),
    "load": (None, _load),
    "store": (None, _store),
    "atomic": (None, _atomic),
    "tape_free": (1, _tape),
    "tape_load": (None, _tape_access),
    "tape_store": (None, _tape_access),
    "tape_add": (None, _tape_access),
    "parameter": (None, _parameter),
    "thread_id": (None, _thread_id),
    "group_id": (None, _thread_id),
    "wave_reduce": (1, _combined),
    "wave_scan": (1, _combined),
    "wave_ballot": (1, _makes_u32),
    "wave_read": (2, _wave_read),
    "wave_lane": (0, _makes_u32),
}
assert RULES.keys() <= PRIMITIVES.keys()
