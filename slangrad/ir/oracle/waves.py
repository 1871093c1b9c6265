"""The oracle's waves: threads that go on together, op by op, where a kernel exchanges values between threads.

    %c = less %x, %n       each thread that is on computes it
    if %c {a} {b}          the threads for which it holds run all of a, then the others run all of b
    while ..               those that leave wait for the others
    wave_reduce %x         sees the threads that are on at this place

In: closures for single ops, made by interpret.py. A wave is `size` threads with consecutive numbers; some may
be missing. A group with barriers runs like this as a whole, several waves at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from slangrad.ir.data.numbers import first_of_scan, neutral, wrapper
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.ir.ops.primitives import WAVES
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.ir.oracle.memory import Datum, zero_of
from slangrad.ir.oracle.values import Frame, Step, combination, integer_of


@dataclass(slots=True, eq=False)
class Lane:
    """A thread of a wave: its number, that of its wave, its values, and how to make it the current thread."""

    number: int
    wave: int
    frame: Frame
    resume: Callable[[], None]


WaveStep = Callable[[list[Lane]], None]
StepOfOp = Callable[[Op, list[int], list[int]], Step]  # with the places of operands and results in a frame
Data = list[Datum]
Exchange = Callable[..., Sequence[Datum]]  # from the numbers of lanes and their operands
Code = tuple[list[WaveStep], list[int]]
Values = tuple[Datum, ...]
Threads = Mapping[int, Callable[[], None]]  # how to make each the current one, by its number
RunWave = Callable[[Threads, Sequence[Sequence[Datum]]], list[Values]]


class Waves:
    """A function as steps of whole waves, or of a thread that is `alone`, as it is in what it calls."""

    def __init__(self, step_of_op: StepOfOp, size: int, alone: bool = False) -> None:
        self.size = size
        self.alone = alone
        self._step_of_op = step_of_op
        self._places: dict[Value, int] = {}

    def places(self, values: Sequence[Value]) -> list[int]:
        """Where values live in the frame of a thread."""
        return [self._places.setdefault(v, len(self._places)) for v in values]

    def function(self, function: Function) -> RunWave:
        """Runs a function in threads of waves, with the inputs of each."""
        inputs = self.places(function.region.parameters)
        steps, yields = self.region(function.region)
        frame_size = len(self._places)

        def run(threads: Threads, data: Sequence[Sequence[Datum]]) -> list[Values]:
            lanes = [
                Lane(i % self.size, i // self.size, [0] * frame_size, resume) for i, resume in threads.items()
            ]
            for lane, values in zip(lanes, data, strict=True):
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
        if rule is not None:
            return rule(self, op)
        step = self._step_of_op(op, self.places(op.operands), self.places(op.results))
        return _each(step) if not self.alone else lambda lanes: step(lanes[0].frame)


def _each(step: Step) -> WaveStep:
    def run(lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.resume()
            step(lane.frame)

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
            active = [lane for lane in lanes if bool(lane.frame[condition]) is holds]
            if active:
                _run(active, steps)
                _copy(active, results, yields)

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


# --- waves: results of the threads that are on together, from their numbers and their operands


def _exchanged(w: Waves, op: Op) -> WaveStep:
    """Threads of a group, wave by wave."""
    operands, (r,), exchange = w.places(op.operands), w.places(op.results), EXCHANGES[op.name](w.size, op)

    def run(lanes: list[Lane]) -> None:
        for _, members in groupby(lanes, lambda lane: lane.wave):
            wave = list(members)
            operands_of_lanes = [[lane.frame[x] for lane in wave] for x in operands]
            for lane, value in zip(
                wave, exchange([lane.number for lane in wave], *operands_of_lanes), strict=True
            ):
                lane.frame[r] = value

    return run


def _reduce(size: int, op: Op) -> Exchange:
    """Lane i with lane i + n / 2, until there is one, as machine code does."""
    kind, scalar = op.attributes["kind"], scalar_type(op.operands[0])
    nothing, combine = neutral(kind, scalar), combination(kind, scalar)

    def reduced(numbers: list[int], xs: Data) -> Data:
        of_lanes = dict(zip(numbers, xs, strict=True))
        values = [of_lanes.get(i, nothing) for i in range(size)]
        while len(values) > 1:
            half = len(values) // 2
            values = list(map(combine, values[:half], values[half:]))
        return values * len(numbers)

    return reduced


def _scan(size: int, op: Op) -> Exchange:
    kind, scalar = op.attributes["kind"], scalar_type(op.operands[0])
    first: Datum = wrapper(scalar)(first_of_scan(kind, scalar))
    combine = combination(kind, scalar)
    return lambda numbers, xs: list(accumulate(xs[:-1], combine, initial=first))


def _ballot(numbers: list[int], xs: Data) -> Data:
    return [sum(1 << i for i, x in zip(numbers, xs, strict=True) if x)] * len(numbers)


def _read(size: int, op: Op) -> Exchange:
    zero = zero_of(op.results[0].type)

    def read(numbers: list[int], xs: Data, wanted: Data) -> Data:
        values = dict(zip(numbers, xs, strict=True))
        return [values.get(integer_of(number), zero) for number in wanted]

    return read


EXCHANGES: dict[str, Callable[[int, Op], Exchange]] = {
    "wave_reduce": _reduce,
    "wave_scan": _scan,
    "wave_ballot": lambda size, op: _ballot,
    "wave_read": _read,
    "wave_lane": lambda size, op: lambda numbers: numbers,
}
RULES: dict[str, Callable[[Waves, Op], WaveStep]] = {
    "if": _if,
    "for": _for,
    "while": _while,
    **dict.fromkeys(EXCHANGES, _exchanged),
}
assert EXCHANGES.keys() == WAVES
