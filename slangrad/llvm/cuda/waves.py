"""Waves of a GPU: a wave is a warp, and each exchange states the lanes that take part.

    if %c { wave_ballot %x }     %then = vote.ballot.sync %mask, %c     in the arm: vote.ballot.sync %then, %x
    while {%go} { .. }           %mask = vote.ballot.sync %mask, %go    in each iteration

The mask is that of the structured program: lanes that an exchange states wait for each other, whatever the hardware
makes of branches before it. Reductions combine lanes in the order of all targets, so they have the bits of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from slangrad.ir.data.numbers import first_of_scan, neutral
from slangrad.ir.data.types import pointer_of
from slangrad.ir.ops.core import Op, Region, Value, walk
from slangrad.ir.ops.primitives import PRIMITIVES, WAVES
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.llvm.text import emit
from slangrad.llvm.text.emit import Environment, RegionEmitter, Rule, primitive
from slangrad.llvm.text.type_names import TypeNames, number
from slangrad.llvm.text.writer import Writer, phi

ALL = "-1"  # the mask of all lanes
WARP = 32
SAME = frozenset(
    {"const", "zero", "launch", "parameter", "wave_ballot", "wave_reduce"}
)  # ops that give all lanes one value
SAME_OF_SAME = frozenset(
    {"in_bounds", "member", "offset", "convert", "bitcast"}
)  # where their operands are such values
_INTEGERS = {"half": "i16", "float": "i32", "double": "i64"}


@dataclass(slots=True)
class ThreadWave:
    """The wave of a thread: its own number in it, the mask of the lanes that are on, and how many lanes there are."""

    own: str
    mask: str
    size: int


class WaveEmitter(RegionEmitter):
    """Emits the kernel of a thread in a wave."""

    def __init__(
        self,
        w: Writer,
        names: TypeNames,
        environment: Environment,
        rules: Mapping[str, Rule],
        lanes: ThreadWave,
        makers: Mapping[Value, Op],
    ) -> None:
        super().__init__(w, names, environment, rules)
        self.lanes = lanes
        self.makers = makers
        self._loops: dict[Value, Op] = {}  # by their indices, those that the writer has come to
        self._uniform: dict[Value, bool] = {}
        self._begins: dict[int, Callable[[], None]] = {}
        self._ends: dict[int, Callable[[str], None]] = {}

    def is_uniform(self, value: Value) -> bool:
        """Whether all lanes that are on where it is made certainly have the same."""
        if value not in self._uniform:
            self._uniform[value] = self._has_one(value)
        return self._uniform[value]

    def _has_one(self, value: Value) -> bool:
        op = self.makers.get(value)
        if op is None:
            loop = self._loops.get(value)
            if loop is None:
                return False
            return not loop.attributes.get("reverse") or self.is_uniform(loop.operands[0])
        if op.name in SAME:
            return True
        is_constant = op.name == "load" and pointer_of(op.operands[0].type).space == "constant"
        is_known = is_constant or op.name in SAME_OF_SAME
        is_known = is_known or (op.name in PRIMITIVES and PRIMITIVES[op.name].primal is not None)
        return is_known and all(map(self.is_uniform, op.operands))

    def finds_all(self, condition: Value) -> bool:
        """Whether it is true only where all lanes of a warp are on: `equal (wave_ballot true), 0xFFFFFFFF`."""
        op = self.makers.get(condition)
        if op is None or op.name != "equal":
            return False
        ballot, lanes = (self.makers.get(value) for value in op.operands)
        return (
            ballot is not None
            and ballot.name == "wave_ballot"
            and lanes is not None
            and lanes.attributes.get("value") == (1 << WARP) - 1
        )

    def enter_loop(self, op: Op) -> None:
        """The writer comes to a loop."""
        if op.name == "for":
            self._loops[op.regions[0].parameters[0]] = op

    def around(
        self, region: Region, begin: Callable[[], None], end: Callable[[str], None] | None = None
    ) -> None:
        """What is written at the beginning of a region, and at its end from the first operand that it yields."""
        self._begins[id(region)] = begin
        if end is not None:
            self._ends[id(region)] = end

    def region(self, region: Region) -> list[str]:
        if id(region) in self._begins:
            self._begins[id(region)]()
        yields = super().region(region)
        if id(region) in self._ends:
            self._ends[id(region)](yields[0] if yields else "")
        return yields


def ballot(w: Writer, mask: str, condition: str) -> str:
    return w.value(f"call i32 @llvm.nvvm.vote.ballot.sync(i32 {mask}, i1 {condition})")


def lane_number(w: Writer, number_in_group: str) -> str:
    return w.value(f"and i32 {number_in_group}, {WARP - 1}")


def _lanes_of(e: RegionEmitter) -> ThreadWave:
    assert isinstance(e, WaveEmitter), "threads of a wave exchange values in the kernel itself"
    return e.lanes


# --- control flow

Control = Callable[[WaveEmitter, Op], None]


def _with_masks(write: Control) -> Rule:
    """The rule of control flow with exchanges inside; afterwards the mask is what it was."""

    def rule(e: RegionEmitter, op: Op) -> None:
        if not isinstance(e, WaveEmitter) or not any(inner.name in WAVES for inner in walk(*op.regions)):
            emit.RULES[op.name](e, op)
            return
        outer = e.lanes.mask
        e.enter_loop(op)
        write(e, op)
        emit.RULES[op.name](e, op)
        e.lanes.mask = outer

    return rule


def _if(e: WaveEmitter, op: Op) -> None:
    """Without a vote where all lanes go the same way."""
    outer = e.lanes.mask
    if e.is_uniform(op.operands[0]):
        if e.finds_all(op.operands[0]):
            for region, mask in zip(op.regions, (ALL, outer), strict=True):
                e.around(region, partial(setattr, e.lanes, "mask", mask))
        return
    then = ballot(e.w, outer, e.operand(op.operands[0]))
    otherwise = e.w.value(f"xor i32 {outer}, {then}")
    for region, mask in zip(op.regions, (then, otherwise), strict=True):
        e.around(region, partial(setattr, e.lanes, "mask", mask))


def _for(e: WaveEmitter, op: Op) -> None:
    """Lanes that have another iteration say so at the end of each."""
    if e.is_uniform(op.operands[0]):
        return
    (body,), count = op.regions, op.operands[0]
    name, number_of_trips = e.type(count), e.operand(count)
    kept = e.w.slot("i32", 1, 4)

    def end(_: str) -> None:
        index = e.operand(body.parameters[0])
        last = "0" if op.attributes.get("reverse") else e.w.value(f"sub {name} {number_of_trips}, 1")
        _vote(e, e.w.value(f"icmp ne {name} {index}, {last}"), kept)

    less = "slt" if scalar_type(count).kind == "signed" else "ult"
    _vote(e, e.w.value(f"icmp {less} {name} 0, {number_of_trips}"), kept)
    e.around(body, partial(_recall, e, kept), end)


def _while(e: WaveEmitter, op: Op) -> None:
    """Lanes say whether they go on behind each test."""
    test, body = op.regions
    kept = e.w.slot("i32", 1, 4)
    e.w.line(f"store i32 {e.lanes.mask}, ptr {kept}")
    e.around(test, partial(_recall, e, kept), lambda goes_on: _vote(e, goes_on, kept))
    e.around(body, partial(_recall, e, kept))


def _vote(e: WaveEmitter, condition: str, kept: str) -> None:
    """Keep the mask of the lanes that go on. The slot becomes a register."""
    e.w.line(f"store i32 {ballot(e.w, e.lanes.mask, condition)}, ptr {kept}")


def _recall(e: WaveEmitter, kept: str) -> None:
    e.lanes.mask = e.w.value(f"load i32, ptr {kept}")


# --- exchanges


def from_lane(w: Writer, name: str, mask: str, value: str, lane: str) -> str:
    """The value of type `name` of another lane; any value if that lane is off."""
    return exchanged(w, name, mask, value, f"i32 {lane}", "idx")


def exchanged(w: Writer, name: str, mask: str, value: str, partner: str, how: str) -> str:
    """`how`: "idx" for a lane by its number, "bfly" for the one whose number differs in the bits of `partner`."""
    integer = _INTEGERS.get(name, "i64" if name == "ptr" else name)
    bits = value
    if integer != name:
        bits = w.value(f"{'ptrtoint' if name == 'ptr' else 'bitcast'} {name} {value} to {integer}")
    size = int(integer[1:])
    if size < 32:
        word = _word(w, mask, w.value(f"zext {integer} {bits} to i32"), partner, how)
        bits = w.value(f"trunc i32 {word} to {integer}")
    elif size == 32:
        bits = _word(w, mask, bits, partner, how)
    else:
        high = w.value(f"trunc i64 {w.value(f'lshr i64 {bits}, 32')} to i32")
        low = w.value(f"trunc i64 {bits} to i32")
        words = [_word(w, mask, word, partner, how) for word in (low, high)]
        wide = [w.value(f"zext i32 {word} to i64") for word in words]
        bits = w.value(f"or i64 {wide[0]}, {w.value(f'shl i64 {wide[1]}, 32')}")
    if integer == name:
        return bits
    return w.value(f"{'inttoptr' if name == 'ptr' else 'bitcast'} {integer} {bits} to {name}")


def _word(w: Writer, mask: str, value: str, partner: str, how: str) -> str:
    return w.value(f"call i32 @llvm.nvvm.shfl.sync.{how}.i32(i32 {mask}, i32 {value}, {partner}, i32 31)")


def _reduce(e: RegionEmitter, op: Op) -> None:
    """Lane i with lane i + n / 2, until there is one; in a few instructions where all lanes are on."""
    w, lanes = e.w, _lanes_of(e)
    if lanes.size < WARP:
        e.define(op.results[0], _reduce_some(e, op))
        return
    if lanes.mask == ALL:
        e.define(op.results[0], _reduce_all(e, op))
        return
    together, apart, done = w.labels("all", "some", "reduced")
    w.branch(w.value(f"icmp eq i32 {lanes.mask}, {ALL}"), together, apart)
    totals = []
    for label, reduce in ((together, _reduce_all), (apart, _reduce_some)):
        w.block(label)
        totals.append((reduce(e, op), w.label))
        w.jump(done)
    w.block(done)
    total = w.name()
    w.line(phi(total, e.type(op.operands[0]), totals))
    e.define(op.results[0], total)


def _reduce_all(e: RegionEmitter, op: Op) -> str:
    """All lanes of a warp are on."""
    w, total, name = e.w, e.operand(op.operands[0]), e.type(op.operands[0])
    for step in _steps(WARP):
        total = _combined(e, op, total, exchanged(w, name, ALL, total, f"i32 {step}", "bfly"), step)
    return total


def _reduce_some(e: RegionEmitter, op: Op) -> str:
    """Before a step with lanes that are `step` further, those with the same number modulo 2 step have the same value,
    so any of them that is on serves."""
    w, lanes, (x,), kind = e.w, _lanes_of(e), op.operands, op.attributes["kind"]
    scalar, name, total = scalar_type(x), e.type(x), e.operand(x)
    nothing = number(scalar, neutral(kind, scalar))
    for step in _steps(lanes.size):
        partner = w.value(f"and i32 {w.value(f'xor i32 {lanes.own}, {step}')}, {2 * step - 1}")
        equals = w.value(f"shl i32 {sum(1 << i for i in range(0, lanes.size, 2 * step))}, {partner}")
        on = w.value(f"and i32 {lanes.mask}, {equals}")
        source = w.value(f"call i32 @llvm.cttz.i32(i32 {on}, i1 false)")
        value = from_lane(w, name, lanes.mask, total, source)
        other = w.value(f"select i1 {w.value(f'icmp eq i32 {on}, 0')}, {name} {nothing}, {name} {value}")
        total = _combined(e, op, total, other, step)
    return total


def _steps(size: int) -> list[int]:
    """Halves of the lanes, the largest first."""
    return [1 << level for level in reversed(range(size.bit_length() - 1))]


def _combined(e: RegionEmitter, op: Op, total: str, other: str, step: int) -> str:
    """Of a lane and the one that is `step` away; the lower one is the first operand where that matters."""
    w, (x,), kind = e.w, op.operands, op.attributes["kind"]
    scalar, name, pair = scalar_type(x), e.type(x), [total, other]
    if scalar.kind == "float" and kind in ("min", "max"):  # equal numbers may be 0 and -0
        upper = w.value(f"icmp ne i32 {w.value(f'and i32 {_lanes_of(e).own}, {step}')}, 0")
        pair = [
            w.value(f"select i1 {upper}, {name} {a}, {name} {b}") for a, b in ((other, total), (total, other))
        ]
    return primitive(w, kind, scalar, name, pair)


def _scan(e: RegionEmitter, op: Op) -> None:
    """Lane after lane, so that the order of additions is plain."""
    w, wave, (x,), kind = e.w, _lanes_of(e), op.operands, op.attributes["kind"]
    scalar, name = scalar_type(x), e.type(x)
    head, done = w.labels("lane", "scanned")
    before = w.label
    w.jump(head)
    w.block(head)
    lanes, sums = w.name(), w.name()
    lines = w.reserve_line(), w.reserve_line()
    source = w.value(f"call i32 @llvm.cttz.i32(i32 {lanes}, i1 false)")
    value = from_lane(w, name, wave.mask, e.operand(x), source)
    combined = primitive(w, kind, scalar, name, [sums, value])
    is_before = w.value(f"icmp ult i32 {source}, {wave.own}")
    following = w.value(f"select i1 {is_before}, {name} {combined}, {name} {sums}")
    rest = w.value(f"and i32 {lanes}, {w.value(f'sub i32 {lanes}, 1')}")
    w.lines[lines[0]] = phi(lanes, "i32", [(wave.mask, before), (rest, w.label)])
    w.lines[lines[1]] = phi(
        sums, name, [(number(scalar, first_of_scan(kind, scalar)), before), (following, w.label)]
    )
    w.branch(w.value(f"icmp eq i32 {rest}, 0"), done, head)
    w.block(done)
    e.define(op.results[0], following)


def _ballot(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], ballot(e.w, _lanes_of(e).mask, e.operand(op.operands[0])))


def _read(e: RegionEmitter, op: Op) -> None:
    w, lanes, (x, lane), name = e.w, _lanes_of(e), op.operands, e.type(op.operands[0])
    assert scalar_type(lane).bits == 32, op
    source = e.operand(lane)
    value = from_lane(w, name, lanes.mask, e.operand(x), source)
    is_active = w.value(f"icmp ult i32 {source}, {lanes.size}")
    if lanes.mask != ALL:
        bit = w.value(f"lshr i32 {lanes.mask}, {w.value(f'and i32 {source}, 31')}")
        is_active = w.value(f"and i1 {is_active}, {w.value(f'trunc i32 {bit} to i1')}")
    zero = "null" if name == "ptr" else number(scalar_type(x), 0)
    e.define(op.results[0], w.value(f"select i1 {is_active}, {name} {value}, {name} {zero}"))


def _lane(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], _lanes_of(e).own)


RULES: dict[str, Rule] = {
    "if": _with_masks(_if),
    "for": _with_masks(_for),
    "while": _with_masks(_while),
    "wave_reduce": _reduce,
    "wave_scan": _scan,
    "wave_ballot": _ballot,
    "wave_read": _read,
    "wave_lane": _lane,
}
