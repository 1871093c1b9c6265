"""Flat IR as LLVM instructions: the same code for one thread and for W lanes.

    %s = for %n, %x : f32 (%i: i32, %sum: f32) {...}     loop: %i = phi ..., %sum = phi ...; br body or done

In: a region of scalars, lanes and pointers. Out: lines in a Writer, and an operand for each value. The caller
writes the code around it (arguments, thread ids, the loop over waves) and passes it as `Environment`; memory and
reports have their own files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slangrad.ir.analyses.addresses import is_address
from slangrad.ir.data.types import F16, F32, SMALL_FLOATS, Scalar, Struct, scalar_of
from slangrad.ir.ops.core import Op, Region, Value
from slangrad.ir.ops.primitives import COMPARE, INEXACT, PRIMITIVES
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.text.conversions import convert, like
from slangrad.llvm.text.exact import EXACT
from slangrad.llvm.text.instructions import CPU, HALF_ARITHMETIC, LANES
from slangrad.llvm.text.masks import MASK_LOGIC, Masks
from slangrad.llvm.text.type_names import TypeNames, constant, is_constant, number
from slangrad.llvm.text.writer import Writer, phi


@dataclass(slots=True)
class Environment:
    """The context of a thread's code, as operands of the enclosing LLVM function."""

    arguments: str  # the argument block
    block: Struct | None  # its layout
    launch: str  # the launch record
    thread: tuple[str, str, str]  # ids as u32; x is that of lane 0
    locals: WaveMemory
    large: dict[Op, str] = field(default_factory=dict)  # stores that may pass the caches: whether they do
    uses_arena: bool = False  # waves take memory there
    budget: str = (
        ""  # a slot: how many ops are left until loops look whether to stop; empty where they need not
    )
    leave: str = ""  # the label where the chunk ends
    rounds: Callable[[RegionEmitter, Op, Sequence[tuple[str, str]]], LoopOfRounds | None] | None = None
    chunk: tuple[str, str] = ("", "")  # where its threads begin along x, and where they end
    planned: list[str] = field(default_factory=list)  # the results of the plan
    tables: dict[Op, str] = field(default_factory=dict)  # of variables of calls that call themselves
    accumulators: dict[int, str] = field(default_factory=dict)  # of blocks, for all waves of the chunk
    loops: Mapping[Op, str] = field(default_factory=dict)  # what their jumps back say to LLVM
    mixed_spaces: bool = False  # on a GPU: pointers to global memory may lead to variables of the thread
    shared: dict[str, str] = field(default_factory=dict)  # on a GPU: what a group shares, by name
    pool: str = ""  # on a GPU: the record that a thread takes memory from

    @property
    def memory(self) -> str:
        """The record that tapes and variables take memory from."""
        return self.pool or self.launch


class LoopOfRounds(Protocol):
    """Around a long loop, which looks whether it has to stop after each round."""

    label: str
    starts: list[str]

    def look_up(self, carried: Sequence[str]) -> None: ...


class WaveMemory(Protocol):
    """Gives out memory of a wave."""

    def place(self, w: Writer, size: int, alignment: int) -> str: ...


class RegionEmitter:
    """Emits regions of one kernel. `operand` maps a value to its LLVM text."""

    def __init__(
        self, w: Writer, names: TypeNames, environment: Environment, rules: Mapping[str, Rule]
    ) -> None:
        self.w = w
        self.names = names
        self.environment = environment
        self.masks = Masks(w, names)
        self._rules = rules
        self._operands: dict[Value, str] = {}

    def type(self, value: Value) -> str:
        return self.names.of(value.type)

    def operand(self, value: Value) -> str:
        return self._operands[value]

    def known(self, value: Value) -> str | None:
        """The operand of a value that may have no text yet."""
        return self._operands.get(value)

    def typed(self, value: Value) -> str:
        """As LLVM writes an argument: the type, then the value."""
        return f"{self.type(value)} {self._operands[value]}"

    def define(self, value: Value, operand: str) -> None:
        assert value not in self._operands
        self._operands[value] = operand

    def arrive(self, values: Sequence[Value], names: Sequence[str]) -> None:
        """Define values by operands of another block or function, with masks in wide form. All phis of a block must
        be written."""
        for value, name in zip(values, names, strict=True):
            self.define(value, self.masks.narrow(name) if self.masks.apply_to(value) else name)

    def region(self, region: Region) -> list[str]:
        for op in region.ops:
            self.op(op)
        return [self._operands[v] for v in region.yields]

    def op(self, op: Op) -> None:
        with self.w.at(op.span):
            self._op(op)

    def _op(self, op: Op) -> None:
        rule = self._rules.get(op.name)
        if rule is not None:
            rule(self, op)
            return
        first, values = op.operands[0], [self._operands[x] for x in op.operands]
        if op.name in MASK_LOGIC and self.masks.apply_to(first):
            self.define(op.results[0], self.masks.logic(op.name, values))
        else:
            result = primitive(self.w, op.name, scalar_type(first), self.type(first), values)
            self.define(op.results[0], result)


Rule = Callable[[RegionEmitter, Op], None]


def primitive(w: Writer, name: str, scalar: Scalar, type_name: str, xs: list[str]) -> str:
    """A row of the table on operands of type `type_name`."""
    if scalar in SMALL_FLOATS:
        return _as_float(w, name, scalar, type_name, xs)
    kind = "h" if scalar is F16 else scalar.kind[0]
    if (name, kind) in EXACT:
        return EXACT[name, kind](w, type_name, xs)
    if scalar is F16 and (name, kind) not in CPU:
        native = w.features.half_arithmetic and name in HALF_ARITHMETIC
        return _as_half(w, name, type_name, xs) if native else _as_float(w, name, scalar, type_name, xs)
    template = CPU.get((name, kind))
    if type_name.startswith("<") and scalar.bits <= 32 and not is_constant(xs[-1]):
        template = LANES.get((name, kind), template)
    assert template is not None, f"{name} of {scalar} has no instruction"
    float_type = like(type_name, "double" if scalar.bits == 32 else "float")
    types = {
        "T": type_name,
        "FLOAT": float_type,
        "MASK": str(scalar.bits - 1),
        "LEAST": str(-(1 << (scalar.bits - 1))),
    }
    return w.expand(template, types, dict(zip("xyz", xs)))


def _as_half(w: Writer, name: str, type_name: str, xs: list[str]) -> str:
    """Each operation rounds: two are never contracted to one."""
    contract, w.contract = w.contract, ""
    result = w.expand(CPU[name, "f"], {"T": type_name}, dict(zip("xy", xs)))
    w.contract = contract
    return result


def _as_float(w: Writer, name: str, scalar: Scalar, type_name: str, xs: list[str]) -> str:
    """Half floats and smaller ones compute as float and round at once."""
    float_type = like(type_name, "float")
    wide = [convert(w, scalar, F32, type_name, float_type, x) for x in xs]
    contract, w.contract = w.contract, ""
    result = primitive(w, name, F32, float_type, wide)
    w.contract = contract
    return (
        result if PRIMITIVES[name].rule == COMPARE else convert(w, F32, scalar, float_type, type_name, result)
    )


# --- constants, choice, conversion


def _const(e: RegionEmitter, op: Op) -> None:
    scalar, value = scalar_type(op.results[0]), op.attributes["value"]
    e.define(op.results[0], constant(e.type(op.results[0]), number(scalar, value)))


def _zero(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], "zeroinitializer")


def _select(e: RegionEmitter, op: Op) -> None:
    condition, then, otherwise = map(e.typed, op.operands)
    if op.attributes.get("stored") and not e.w.features.masked_stores:
        otherwise = f"{e.type(op.operands[2])} " + e.w.value(
            f"freeze {otherwise}"
        )  # LLVM does not look through it
    e.define(op.results[0], e.w.value(f"select {condition}, {then}, {otherwise}"))


def _convert(e: RegionEmitter, op: Op) -> None:
    (x,), (r,) = op.operands, op.results
    e.define(r, convert(e.w, scalar_type(x), scalar_type(r), e.type(x), e.type(r), e.operand(x)))


def _bitcast(e: RegionEmitter, op: Op) -> None:
    (x,), (r,) = op.operands, op.results
    before, after = is_address(x.type), is_address(r.type)
    instruction = "bitcast" if before == after else "ptrtoint" if before else "inttoptr"
    e.define(r, e.w.value(f"{instruction} {e.typed(x)} to {e.type(r)}"))


# --- threads and lanes


def _thread_id(e: RegionEmitter, op: Op) -> None:
    axis = op.attributes["axis"]
    e.define(op.results[0], e.environment.thread[axis])


def _chunk_thread(e: RegionEmitter, op: Op) -> None:
    """The number along x of the chunk's first or last thread."""
    first, end = e.environment.chunk
    if op.attributes["which"] == "first":
        e.define(op.results[0], first)
    else:
        e.define(op.results[0], e.w.value(f"sub i64 {end}, 1"))


def _fence(e: RegionEmitter, op: Op) -> None:
    e.w.line("fence seq_cst")


def _splat(e: RegionEmitter, op: Op) -> None:
    (x,), (r,) = op.operands, op.results
    if e.masks.apply_to(r):
        word = e.w.value(f"sext {e.typed(x)} to i32")
        e.define(r, e.masks.narrow(splat(e, e.masks.type, f"i32 {word}")))
    else:
        e.define(r, splat(e, e.type(r), e.typed(x)))


def splat(e: RegionEmitter, vector_type: str, typed: str) -> str:
    lanes = e.names.lanes
    first = e.w.value(f"insertelement {vector_type} poison, {typed}, i64 0")
    zeros = f"<{lanes} x i32> zeroinitializer"
    return e.w.value(f"shufflevector {vector_type} {first}, {vector_type} poison, {zeros}")


def _lane_index(e: RegionEmitter, op: Op) -> None:
    scalar = scalar_of(op.results[0].type)
    assert scalar is not None
    numbers = ", ".join(f"i{scalar.bits} {lane}" for lane in range(e.names.lanes))
    e.define(op.results[0], f"<{numbers}>")


def _lane_get(e: RegionEmitter, op: Op) -> None:
    x, lane = op.operands
    e.define(op.results[0], e.w.value(f"extractelement {e.typed(x)}, {e.typed(lane)}"))


def _lane_set(e: RegionEmitter, op: Op) -> None:
    x, lane, value = op.operands
    e.define(op.results[0], e.w.value(f"insertelement {e.typed(x)}, {e.typed(value)}, {e.typed(lane)}"))


def _lane_bits(e: RegionEmitter, op: Op) -> None:
    """The truth values as bits of a u64, lane 0 lowest."""
    count = e.names.lanes
    bits = e.w.value(f"bitcast {e.typed(op.operands[0])} to i{count}")
    e.define(op.results[0], bits if count == 64 else e.w.value(f"zext i{count} {bits} to i64"))


def _lane_reduce(e: RegionEmitter, op: Op) -> None:
    """Lane i with lane i + n / 2, until there is one: an order that no target changes."""
    (x,), kind, count = op.operands, op.attributes["kind"], e.names.lanes
    scalar, value, name = scalar_type(x), e.operand(x), e.type(x)
    while count > 1:
        count //= 2
        halves = [shuffled(e, name, value, range(start, start + count)) for start in (0, count)]
        name = f"<{count} x {e.names.of(scalar)}>"
        value = primitive(e.w, kind, scalar, name, halves)
    e.define(op.results[0], e.w.value(f"extractelement {name} {value}, i64 0"))


def shuffled(e: RegionEmitter, name: str, value: str, picks: Iterable[int], second: str = "poison") -> str:
    """Lanes of one or two values of type `name`, picked by number."""
    picked = [f"i32 {i}" for i in picks]
    indices = f"<{len(picked)} x i32> <{', '.join(picked)}>"
    return e.w.value(f"shufflevector {name} {value}, {name} {second}, {indices}")


# --- control flow


def _if(e: RegionEmitter, op: Op) -> None:
    w = e.w
    then, otherwise, done = w.labels("then", "else", "endif")
    w.branch(e.operand(op.operands[0]), then, otherwise)
    ends = []
    for label, region in zip((then, otherwise), op.regions, strict=True):
        w.block(label)
        e.region(region)
        ends.append((carry(e, region.yields), w.label))
        w.jump(done)
    w.block(done)
    names = [w.name() for _ in op.results]
    for i, (name, result) in enumerate(zip(names, op.results, strict=True)):
        incoming = [(values[i], label) for values, label in ends]
        w.lines.append(phi(name, carried_type(e, result), incoming))
    e.arrive(op.results, names)


def _for(e: RegionEmitter, op: Op) -> None:
    """Counts up; a reverse loop computes its index from the count."""
    w, (count, *start), (region,) = e.w, op.operands, op.regions
    index, *carried = region.parameters
    head, body, done = w.labels("for", "body", "endfor")
    index_type, count_text = e.type(index), e.operand(count)
    first, starts = "0", carry(e, start)
    types = [index_type, *(carried_type(e, value) for value in carried)]
    rounds, before = _rounds(e, op, types, [first, *starts]), w.label
    if rounds is not None:
        first, *starts = rounds.starts
    w.jump(head)
    w.block(head)
    step, next_step, step_line = w.name(), w.name(), w.reserve_line()
    phis = _reserve_phis(e, carried)
    if rounds is not None:
        rounds.look_up([step, *(name for _, name in phis)])
    less = "slt" if scalar_type(count).kind == "signed" else "ult"
    w.branch(w.value(f"icmp {less} {index_type} {step}, {count_text}"), body, done)
    w.block(body)
    e.define(
        index, _reversed_index(e, index_type, step, count_text) if op.attributes.get("reverse") else step
    )
    e.region(region)
    ends = carry(e, region.yields)
    w.line(f"{next_step} = add {index_type} {step}, 1")
    _fill_phis(e, phis, carried, starts, before, ends)
    w.lines[step_line] = phi(step, index_type, [(first, before), (next_step, w.label)])
    w.line(f"br label %{head}{e.environment.loops.get(op, '')}")
    w.block(done)
    for result, value in zip(op.results, carried, strict=True):
        e.define(result, e.operand(value))


def _rounds(e: RegionEmitter, op: Op, types: Sequence[str], starts: Sequence[str]) -> LoopOfRounds | None:
    make = e.environment.rounds
    return None if make is None else make(e, op, list(zip(types, starts, strict=True)))


def _reversed_index(e: RegionEmitter, index_type: str, step: str, count: str) -> str:
    last = e.w.value(f"sub {index_type} {count}, 1")
    return e.w.value(f"sub {index_type} {last}, {step}")


def _while(e: RegionEmitter, op: Op) -> None:
    w, (test, region) = e.w, op.regions
    head, body, done = w.labels("while", "body", "endwhile")
    starts, types = carry(e, op.operands), [carried_type(e, value) for value in test.parameters]
    rounds, before = _rounds(e, op, types, starts), w.label
    if rounds is not None:
        starts = rounds.starts
    w.jump(head)
    w.block(head)
    phis = _reserve_phis(e, test.parameters)
    if rounds is not None:
        rounds.look_up([name for _, name in phis])
    (condition,) = e.region(test)
    w.branch(condition, body, done)
    w.block(body)
    for inner, outer in zip(region.parameters, test.parameters, strict=True):
        e.define(inner, e.operand(outer))
    e.region(region)
    _fill_phis(e, phis, test.parameters, starts, before, carry(e, region.yields))
    w.jump(head)
    w.block(done)
    for result, value in zip(op.results, test.parameters, strict=True):
        e.define(result, e.operand(value))


def carried_type(e: RegionEmitter, value: Value) -> str:
    return e.masks.type if e.masks.apply_to(value) else e.type(value)


def carry(e: RegionEmitter, values: Sequence[Value]) -> list[str]:
    """Operands for phis, in the block that they come from."""
    return [e.masks.widen(e.operand(v)) if e.masks.apply_to(v) else e.operand(v) for v in values]


def _reserve_phis(e: RegionEmitter, carried: Sequence[Value]) -> list[tuple[int, str]]:
    """Lines for the phis of a loop's head, and the names that they define."""
    phis = [(e.w.reserve_line(), e.w.name()) for _ in carried]
    e.arrive(carried, [name for _, name in phis])
    return phis


def _fill_phis(
    e: RegionEmitter,
    lines: list[tuple[int, str]],
    carried: Sequence[Value],
    start: list[str],
    before: str,
    ends: list[str],
) -> None:
    """Complete the phis of a loop's head, at the end of its body."""
    for (line, name), value, first, last in zip(lines, carried, start, ends, strict=True):
        incoming = [(first, before), (last, e.w.label)]
        e.w.lines[line] = phi(name, carried_type(e, value), incoming)


RULES: dict[str, Rule] = {
    "const": _const,
    "zero": _zero,
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "thread_id": _thread_id,
    "chunk_thread": _chunk_thread,
    "group_id": _thread_id,
    "fence": _fence,
    "splat": _splat,
    "lane_index": _lane_index,
    "lane_get": _lane_get,
    "lane_set": _lane_set,
    "lane_bits": _lane_bits,
    "lane_reduce": _lane_reduce,
    "if": _if,
    "for": _for,
    "while": _while,
}
_NO_CODE = INEXACT | {"scale"}  # flatten/math_functions.py and opt/simplify/products.py leave none of these
assert {
    (name, kind)
    for name, row in PRIMITIVES.items()
    if row.primal and name not in _NO_CODE
    for kind in row.kinds
} <= CPU.keys() | EXACT.keys()
