"""The time of a step with stages: one worker of each stage, each with its turns, and messages between them.

    stage 0   F0 F1 F2       B0 F3 B1 F4 B2 ...      a turn begins when the one before it has ended, and
    stage 1      F0 F1    B0 F2 B1 F3 B2 F4 ...      when all messages that it waits for are there
    stage 2         F0 B0 F1 B1 F2 B2 F3 B3 ...

Workers of one stage run the same turns. Equal layers make equal pieces, which are planned once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.connections.costs import Links, apart_on
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import STAGES
from slangrad.graph.workers.simulation.events import COMMUNICATION, COMPUTE, Event, path_to
from slangrad.graph.workers.simulation.simulate import comparison_seconds, simulated, workers_text
from slangrad.graph.workers.simulation.timeline import (
    LANE,
    Timeline,
    bytes_text,
    path_text,
    table,
    time_text,
)
from slangrad.graph.workers.stages.order import StageSchedule, Turn
from slangrad.graph.workers.stages.pieces import BEFORE, MICROBATCH, Key, Message
from slangrad.graph.workers.stages.pipeline import StagePlan

MESSAGE = 6  # pixels of the height of a bar


@dataclass(frozen=True, slots=True)
class StageTimes:
    """`busy`: the seconds of its turns; `parameters`: in words; `sent`: bytes to other stages; `peak`: bytes of memory
    of a worker. `copied`: those of weights in another order, which take `copying` of the seconds, once a step."""

    busy: float
    parameters: str
    sent: int
    peak: int
    copied: int = 0
    copying: float = 0.0

    def __str__(self) -> str:
        line = f"{self.parameters}, sends {bytes_text(self.sent)}, memory {bytes_text(self.peak)}"
        if not self.copied:
            return line
        return f"{line}, {bytes_text(self.copied)} of weights copied once in {time_text(self.copying)}"


@dataclass(frozen=True, slots=True)
class StagesTimeline(Timeline):
    """A step with stages; `lane` of an event is its stage."""

    stages: Sequence[StageTimes] = ()
    microbatches: int = 1

    @property
    def bubble(self) -> float:
        """The part of the time of all workers in which they wait for other stages."""
        return 1 - sum(stage.busy for stage in self.stages) / (len(self.stages) * self.seconds or 1.0)

    @property
    def hidden(self) -> float:
        """Seconds of messages that are no part of the critical path."""
        waits = sum(event.stop - event.start for event in self.path if event.queue == COMMUNICATION)
        return max(0.0, self.communication - waits)

    def __str__(self) -> str:
        count = f"{self.microbatches} micro-batch{'es' * (self.microbatches > 1)}"
        rows = [(self.workers, time_text(self.seconds), f"a step, {count}")]
        for i, stage in enumerate(self.stages):
            rows.append((f"  stage {i}", time_text(stage.busy), str(stage)))
        rows.append(("bubble", f"{100 * self.bubble:.3g} %", "of the time of workers"))
        sent = sum(event.queue == COMMUNICATION for event in self.events)
        size = bytes_text(sum(event.nbytes for event in self.events))
        hidden = f"{sent} messages of {size}, {time_text(self.hidden)} of it hidden"
        rows.append(("messages", time_text(self.communication), hidden))
        rows.append(("memory of a worker", bytes_text(self.peak), "at most"))
        return "\n".join([*table(rows), f"critical path: {path_text(self.path, 'turn')}"])

    __repr__ = __str__

    @property
    def lanes(self) -> list[str]:
        return [f"stage {i}" for i in range(len(self.stages))]

    def _name_of(self, lane: int) -> str:
        return f"a worker of stage {lane}"

    def _lane(self, event: Event) -> tuple[int, int]:
        return event.lane, LANE - 8 if event.queue == COMPUTE else MESSAGE


def simulated_stages(
    staged: StagePlan, mesh: Mesh, links: Links, measured: bool = False, slowest: float = 1.0
) -> StagesTimeline:
    """A step of all stages of a mesh. `slowest`: as in `Cluster`."""
    count = staged.microbatches
    fitted = list(map(staged.fitted, range(staged.stages)))
    programs = [stage.program for stage in fitted]
    run = _SimulatedStages(programs, *_costs(staged, links, measured, slowest), mesh, links)
    run.all()
    times = []
    for program, stage in zip(programs, fitted, strict=True):
        sent = sum(message.node.nbytes for message, _ in run.sent[program.stage])
        busy = sum(
            event.seconds for event in run.events if event.lane == program.stage and event.queue == COMPUTE
        )
        copied = sum(plan.copied_bytes for plan in (stage.plans or {}).values())
        copying = sum(run.copying.get(key, 0.0) for key in stage.program.keys)
        parameters = staged.parameters_of(program.stage)
        times.append(StageTimes(busy, parameters, sent, stage.needed, copied, copying))
    peak = max(stage.peak for stage in times)
    return StagesTimeline(
        workers_text(mesh), run.seconds, run.events, run.path, peak, stages=times, microbatches=count
    )


def _costs(
    staged: StagePlan, links: Links, measured: bool, slowest: float
) -> tuple[dict[Key, float], dict[Key, float]]:
    """The seconds of each piece, and those of its copies of weights."""
    costs, copying = dict[Key, float](), dict[Key, float]()
    of_plans: dict[Plan, Timeline] = {}  # equal pieces have one
    for fitted in map(staged.fitted, range(staged.stages)):
        for key, plan in (fitted.plans or {}).items():
            if plan not in of_plans:
                of_plans[plan] = simulated(plan, staged.mesh, links, measured, slowest, is_piece=True)
            copying[key] = of_plans[plan].copying
            costs[key] = of_plans[plan].seconds - copying[key]
    return costs, copying


@dataclass(slots=True)
class _SimulatedStages:
    """Turns in time. A message goes while its stage computes, which takes a part of it longer then, as `overlap` of
    links says. So does the comparison of steps, from the start. Pieces copy weights in their first turn."""

    programs: Sequence[StageSchedule]
    seconds_of: Mapping[Key, float]
    copying: Mapping[Key, float]
    mesh: Mesh
    links: Links
    events: list[Event] = field(default_factory=list)
    sent: dict[int, list[tuple[Message, int | None]]] = field(default_factory=dict)
    _clocks: list[float] = field(default_factory=list)
    _last: list[int | None] = field(default_factory=list)
    _arrivals: dict[tuple[int, int | None], int] = field(
        default_factory=dict
    )  # messages: the events that end with them
    _free: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # the last message from one stage to another

    def all(self) -> None:
        """Each stage goes on as long as the messages that it waits for are there."""
        start = (1 - self.links.overlap) * comparison_seconds(self.mesh, self.links)
        self._clocks, self._last = [start for _ in self.programs], [None for _ in self.programs]
        self.sent = {program.stage: [] for program in self.programs}
        left = [list(reversed(program.turns)) for program in self.programs]
        while any(left):
            before = sum(map(len, left))
            for program, turns in zip(self.programs, left, strict=True):
                while turns and self._may_run(program, turns[-1]):
                    self._turn(program, turns.pop())
            assert sum(map(len, left)) < before, "stages wait for each other"

    @property
    def seconds(self) -> float:
        return max(self._clocks)

    @property
    def path(self) -> list[Event]:
        return path_to(self._last[self._clocks.index(self.seconds)], self.events)

    def _keys(self, program: StageSchedule, turn: Turn) -> list[tuple[int, int | None]]:
        return [(message.tag, turn.microbatch) for message in program.arrivals[turn.key]]

    def _may_run(self, program: StageSchedule, turn: Turn) -> bool:
        return all(key in self._arrivals for key in self._keys(program, turn))

    def _turn(self, program: StageSchedule, turn: Turn) -> None:
        stage = program.stage
        for key in self._keys(program, turn):
            arrival = self._arrivals[key]
            if self.events[arrival].stop > self._clocks[stage]:
                self._clocks[stage], self._last[stage] = self.events[arrival].stop, arrival
        if turn.key in self.seconds_of:
            if not turn.microbatch and self.copying[turn.key]:
                self._compute("copies of weights", self.copying[turn.key], stage)
            self._compute(_name(turn, len(self.programs)), self.seconds_of[turn.key], stage)
        for message in program.sent.get(turn.key, ()):
            self._send(message, turn.microbatch, stage)

    def _compute(self, name: str, seconds: float, stage: int) -> None:
        start = self._clocks[stage]
        event = Event(name, COMPUTE, seconds, start, start + seconds, self._last[stage], lane=stage)
        self._clocks[stage], self._last[stage] = event.stop, len(self.events)
        self.events.append(event)

    def _send(self, message: Message, microbatch: int | None, stage: int) -> None:
        link = stage, message.to
        apart = apart_on(self.mesh, STAGES) * abs(message.to - stage)
        seconds = self.links.seconds("send", 2, message.node.nbytes, apart)
        start, after = self._clocks[stage], self._last[stage]
        if link in self._free and self.events[self._free[link]].stop > start:
            start, after = self.events[self._free[link]].stop, self._free[link]
        name, nbytes = f"send from stage {stage} to {message.to}", message.node.nbytes
        event = Event(name, COMMUNICATION, seconds, start, start + seconds, after, nbytes, stage)
        self._free[link] = self._arrivals[message.tag, microbatch] = len(self.events)
        self.events.append(event)
        self.sent[stage].append((message, microbatch))
        self._clocks[stage] += (1 - self.links.overlap) * seconds


def _name(turn: Turn, stages: int) -> str:
    """As messages and pictures show it."""
    if turn.key.part != MICROBATCH:
        return "values of parameters" if turn.key.part == BEFORE else "update"
    return f"{'backward' if turn.key.level >= stages else 'forward'} {turn.microbatch}"
