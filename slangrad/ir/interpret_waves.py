"""The oracle's waves: threads that go on together, op by op, where a kernel asks what other threads have.

    %c = less %x, %n       each thread that is on computes it
    if %c {a} {b}          the threads for which it holds run all of a, then the others run all of b
    while ..               those that leave wait for the others
    wave_reduce %x         sees the threads that are on at this place

In: closures for single ops, made by interpret.py. A wave is `size` consecutive threads of x, the last one of a
row perhaps fewer. A group with barriers runs like this as a whole, several waves at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from slangrad.ir.core import Function, Op, Region, Value
from slangrad.ir.interpret_memory import Datum, zero_of
from slangrad.ir.interpret_values import Frame, Step, integer_of
from slangrad.ir.numbers import Number, neutral, wrapper
from slangrad.ir.primitives import PRIMITIVES, WAVES
from slangrad.ir.type_rules import scalar_type
from slangrad.ir.types import Scalar


class Compiler(Protocol):
    """What is needed of the compiler of single threads."""

    def places(self, values: Sequence[Value]) -> list[int]: ...
    def op(self, op: Op) -> Step: ...
    def frame_size(self) -> int: ...


@dataclass(slots=True, eq=False)
class Lane:
    """A thread of a wave: its number, that of its wave, its values, and how to make it the current thread."""

    number: int
    wave: int
    frame: Frame
    resume: Callable[[], None]


WaveStep = Callable[[list[Lane]], None]
Code = tuple[list[WaveStep], list[int]]
Values = tuple[Datum, ...]
RunWave = Callable[[Sequence[Callable[[], None]], Sequence[Sequence[Datum]]], list[Values]]


class Waves:
    """A function as steps of whole waves. Each thread runs alone what it calls, which has nothing to do with waves."""

    def __init__(self, compiler: Compiler, size: int) -> None:
        self.compiler = compiler
        self.size = size
        self.places = compiler.places

    def function(self, function: Function) -> RunWave:
        """Runs a function in all threads of a wave: how to make each the current one, and its inputs."""
        inputs = self.places(function.region.parameters)
        steps, yields = self.region(function.region)
        frame_size = self.compiler.frame_size()

        def run(threads: Sequence[Callable[[], None]], given: Sequence[Sequence[Datum]]) -> list[Values]:
            lanes = [
                Lane(i % self.size, i // self.size, [0] * frame_size, resume)
                for i, resume in enumerate(threads)
            ]
            for lane, values in zip(lanes, given, strict=True):
                for place, value in zip(inputs, values, strict=True):
                    lane.frame[place] = value
            _run(lanes, steps)
            return [tuple([lane.frame[y] for y in yields]) for lane in lanes]

        return run

    def region(self, region: Region) -> Code:
        self.places(region.parameters)
        return [self.op(op) for op in region.ops], self.places(region.yields)

    def op(self, op: Op) -> WaveStep:
        rule = RULES.get(op.name)
        if rule is None:
            return _each(self.compiler.op(op))
        return _in_waves(rule(self, op)) if op.name in WAVES else rule(self, op)


def _each(step: Step) -> WaveStep:
    def run(lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.resume()
            step(lane.frame)

    return run


def _in_waves(step: WaveStep) -> WaveStep:
    """Threads of a group, wave by wave."""

    def run(lanes: list[Lane]) -> None:
        for _, wave in groupby(lanes, lambda lane: lane.wave):
            step(list(wave))

    return run


def _run(lanes: list[Lane], steps: list[WaveStep]) -> None:
    for step in steps:
        step(lanes)


def _copy(lanes: list[Lane], targets: Sequence[int], sources: Sequence[int]) -> None:
    for lane in lanes:
        values = [lane.frame[s] for s in sources]
        for target, value in zip(targets, values, strict=True):
            lane.frame[target] = value


# --- control flow


def _if(w: Waves, op: Op) -> WaveStep:
    (condition,), results = w.places(op.operands), w.places(op.results)
    arms = [w.region(region) for region in op.regions]

    def run(lanes: list[Lane]) -> None:
        for holds, (steps, yields) in zip((True, False), arms, strict=True):
            taken = [lane for lane in lanes if bool(lane.frame[condition]) is holds]
            if taken:
                _run(taken, steps)
                _copy(taken, results, yields)

    return run


def _for(w: Waves, op: Op) -> WaveStep:
    (count, *starts), results = w.places(op.operands), w.places(op.results)
    (index, *carried) = w.places(op.regions[0].parameters)
    steps, yields = w.region(op.regions[0])
    backwards = op.attributes.get("reverse", False)

    def run(lanes: list[Lane]) -> None:
        _copy(lanes, carried, starts)
        counts = {lane: integer_of(lane.frame[count]) for lane in lanes}
        trips = range(max(counts.values()))
        for i in reversed(trips) if backwards else trips:
            live = [lane for lane in lanes if i < counts[lane]]
            for lane in live:
                lane.frame[index] = i
            _run(live, steps)
            _copy(live, carried, yields)
        _copy(lanes, results, carried)

    return run


def _while(w: Waves, op: Op) -> WaveStep:
    starts, results = w.places(op.operands), w.places(op.results)
    tested, carried = (w.places(r.parameters) for r in op.regions)
    (test, (go_on,)), (steps, yields) = map(w.region, op.regions)

    def run(lanes: list[Lane]) -> None:
        _copy(lanes, tested, starts)
        live = lanes
        while True:
            _run(live, test)
            live = [lane for lane in live if lane.frame[go_on]]
            if not live:
                break
            _copy(live, carried, tested)
            _run(live, steps)
            _copy(live, tested, yields)
        _copy(lanes, results, tested)

    return run


# --- waves


def _combination(op: Op) -> tuple[str, Scalar, Callable[[Datum, Datum], Number]]:
    """Kind, type, and the op on two numbers."""
    kind, scalar = op.attributes["kind"], scalar_type(op.operands[0])
    primal, wrap = PRIMITIVES[kind].primal, wrapper(scalar)
    assert primal is not None
    return kind, scalar, lambda x, y: wrap(primal(scalar, x, y))


def _reduce(w: Waves, op: Op) -> WaveStep:
    """Lane i with lane i + n / 2, until there is one, as machine code does."""
    (x,), (r,) = w.places(op.operands), w.places(op.results)
    kind, scalar, combine = _combination(op)
    nothing = neutral(kind, scalar)

    def run(lanes: list[Lane]) -> None:
        values: list[Datum] = [nothing] * w.size
        for lane in lanes:
            values[lane.number] = lane.frame[x]
        while len(values) > 1:
            half = len(values) // 2
            values = [combine(a, b) for a, b in zip(values[:half], values[half:], strict=True)]
        for lane in lanes:
            lane.frame[r] = values[0]

    return run


def _scan(w: Waves, op: Op) -> WaveStep:
    (x,), (r,) = w.places(op.operands), w.places(op.results)
    kind, scalar, combine = _combination(op)
    first = wrapper(scalar)(1 if kind == "mul" else 0)

    def run(lanes: list[Lane]) -> None:
        before = first
        for lane in lanes:
            own = lane.frame[x]
            lane.frame[r] = before
            before = combine(before, own)

    return run


def _ballot(w: Waves, op: Op) -> WaveStep:
    (x,), (r,) = w.places(op.operands), w.places(op.results)

    def run(lanes: list[Lane]) -> None:
        bits = sum(1 << lane.number for lane in lanes if lane.frame[x])
        for lane in lanes:
            lane.frame[r] = bits

    return run


def _read(w: Waves, op: Op) -> WaveStep:
    (x, number), (r,) = w.places(op.operands), w.places(op.results)
    zero = zero_of(op.results[0].type)

    def run(lanes: list[Lane]) -> None:
        values = {lane.number: lane.frame[x] for lane in lanes}
        for lane in lanes:
            lane.frame[r] = values.get(integer_of(lane.frame[number]), zero)

    return run


def _lane(w: Waves, op: Op) -> WaveStep:
    (r,) = w.places(op.results)

    def run(lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.frame[r] = lane.number

    return run


RULES: dict[str, Callable[[Waves, Op], WaveStep]] = {
    "if": _if,
    "for": _for,
    "while": _while,
    "wave_reduce": _reduce,
    "wave_scan": _scan,
    "wave_ballot": _ballot,
    "wave_read": _read,
    "wave_lane": _lane,
}
