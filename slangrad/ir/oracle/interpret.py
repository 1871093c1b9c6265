"""The oracle: runs IR in plain Python, exactly as the table says, at every stage before lanes.

    evaluate(program, "square", (3.0,))                 -> (9.0,)
    run_kernel(program, "kernel", KernelLaunch(address, (64, 1, 1)))   in the memory of the argument block

Each function becomes closures over a list of values, once. Float results are rounded after each op, integers
wrapped; threads run one after the other, x fastest, or in waves (waves.py). Reports of a program (an index out of
range, a print) go to the caller's `ReportSink` with their op. Back ends are compared with this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from slangrad.ir.data import types as t
from slangrad.ir.data.layout import element_size, layout_of
from slangrad.ir.data.numbers import Number, wrapper
from slangrad.ir.ops.core import Function, Op, Program, initializers, walk
from slangrad.ir.ops.primitives import PRIMITIVES, WAVES
from slangrad.ir.ops.target_ops import CPU, LANES, SUMS
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.ir.oracle.memory import (
    Block,
    Datum,
    ThreadMemory,
    leaves,
    reader_of,
    writer_of,
    zero_of,
)
from slangrad.ir.oracle.tapes import TAPES
from slangrad.ir.oracle.values import RULES as RULES_OF_VALUES
from slangrad.ir.oracle.values import (
    Effect,
    Frame,
    Meaning,
    Step,
    combination,
    meaning_of,
    step_of,
)
from slangrad.ir.oracle.waves import RunWave, Waves

Point = tuple[int, int, int]
IsMemory = Callable[[int, int], bool]  # whether so many bytes at an address are
WAVE = 32


class ReportSink(Protocol):
    """The receiver of a running program's reports; `op` has the span, and the format of a print."""

    def out_of_bounds(self, op: Op, index: int, extent: int) -> None: ...
    def print(self, op: Op, values: Sequence[Number]) -> None: ...


@dataclass(slots=True)
class Recorded:
    """Reports kept in lists: (index, extent), and (format, values)."""

    bounds: list[tuple[int, int]] = field(default_factory=list)
    prints: list[tuple[str, tuple[Number, ...]]] = field(default_factory=list)

    def out_of_bounds(self, op: Op, index: int, extent: int) -> None:
        self.bounds.append((index, extent))

    def print(self, op: Op, values: Sequence[Number]) -> None:
        self.prints.append((op.attributes["format"], tuple(values)))


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """`arguments`: the address of the argument block. `is_memory`: the answer to the op of that name. `numbers`: those
    of the launch, by the names of the op `launch`."""

    arguments: int
    grid: Point
    is_memory: IsMemory | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


def evaluate(
    program: Program,
    name: str,
    inputs: Sequence[Datum],
    arguments: int = 0,
    reports: ReportSink | None = None,
) -> tuple[Datum, ...]:
    """The results of a function for the values of its inputs."""
    return Machine(program, arguments, reports or Recorded()).call(name, tuple(inputs))


def evaluate_wave(
    program: Program, name: str, inputs: Sequence[tuple[Datum, ...]]
) -> list[tuple[Datum, ...]]:
    """The results of a function without calls in each thread of a wave, for the inputs of each."""
    return Machine(program, 0, Recorded()).call_wave(name, inputs)


def run_kernel(program: Program, name: str, launch: KernelLaunch, reports: ReportSink | None = None) -> None:
    """Run a kernel's thread for each point of the grid."""
    grid = launch.grid
    machine, kernel = Machine(program, launch.arguments, reports or Recorded()), program.functions[name]
    machine.is_memory, machine.launch = launch.is_memory, launch.numbers
    if kernel.waves_cross_rows or any(op.name in ("shared", "barrier") for op in walk(kernel.region)):
        machine.groups(kernel, grid)
        return
    run = machine.waves(name, kernel.wave) if kernel.wave else machine.threads(name)
    for z in range(grid[2]):
        for y in range(grid[1]):
            run([(x, y, z) for x in range(grid[0])])


class Machine:
    """The state of a run: functions compiled so far, the current thread, its local memory and tapes."""

    def __init__(self, program: Program, arguments: int, reports: ReportSink) -> None:
        self.program = program
        self.arguments = arguments
        self.reports = reports
        self.is_memory: IsMemory | None = None
        self.launch: Mapping[str, int] = {}
        self._runs: dict[str, RunWave] = {}
        self._lasting: list[Block] = []  # memory that other threads may have the address of
        self._initializers = initializers(program)
        self._begin_group()
        self.begin_thread((0, 0, 0))

    def begin_thread(self, thread: Point) -> None:
        self.thread = thread
        self.memory = ThreadMemory(self._lasting)
        self.tapes: list[dict[int, Datum]] = [{}]  # handle 0 is the empty tape
        self.statics: dict[str, Datum] = {}
        for name, function in self._initializers:
            (self.statics[name],) = self.call(function, ())

    def threads(self, name: str) -> Callable[[list[Point]], None]:
        """Runs threads one after the other."""

        def run(points: list[Point]) -> None:
            for point in points:
                self.begin_thread(point)
                self.call(name, ())

        return run

    def waves(self, name: str, size: int) -> Callable[[list[Point]], None]:
        """Runs threads in waves of `size`."""
        run_wave = Waves(self._step, size).function(self.program.functions[name])

        def run(points: list[Point]) -> None:
            for start in range(0, len(points), size):
                wave = enumerate(points[start : start + size])
                threads = {number: self._resumption(point) for number, point in wave}
                run_wave(threads, [()] * len(threads))

        return run

    def groups(self, kernel: Function, grid: Point) -> None:
        """Runs threads in groups: those of one go on together, and share memory that begins as zero."""
        size = kernel.attributes["group_size"]
        run = Waves(self._step, kernel.wave or 1).function(kernel)
        starts = [range(0, count, step) for count, step in zip(grid, size, strict=True)]
        for z, y, x in product(*reversed(starts)):
            self._begin_group()
            places = product(*map(range, reversed(size)))  # x runs fastest
            points = enumerate((x + i, y + j, z + k) for k, j, i in places)
            threads = {
                number: self._resumption(point)
                for number, point in points
                if all(at < count for at, count in zip(point, grid, strict=True))
            }
            run(threads, [()] * len(threads))

    def _begin_group(self) -> None:
        self._shared: dict[str, int] = {}
        self._group_memory = ThreadMemory()

    def shared(self, name: str, size: int) -> int:
        """The address of memory of the group."""
        if name not in self._shared:
            self._shared[name] = self._group_memory.allocate(size, True)
        return self._shared[name]

    def call_wave(self, name: str, inputs: Sequence[tuple[Datum, ...]]) -> list[tuple[Datum, ...]]:
        threads = {i: self._resumption((i, 0, 0)) for i in range(len(inputs))}
        return Waves(self._step, WAVE).function(self.program.functions[name])(threads, inputs)

    def _resumption(self, thread: Point) -> Callable[[], None]:
        """A function that makes a new thread the current one."""
        self.begin_thread(thread)
        memory, tapes, statics = self.memory, self.tapes, self.statics

        def resume() -> None:
            self.thread, self.memory, self.tapes, self.statics = thread, memory, tapes, statics

        return resume

    def _step(self, op: Op, places: list[int], results: list[int]) -> Step:
        """An op in the current thread, as a closure over a frame: a list with a place for each value."""
        if op.name == "call":
            return _call(self, op.attributes["callee"], places, results)
        rule = RULES.get(op.name)
        meaning = meaning_of(op, self.reports.out_of_bounds) if rule is None else rule(self, op)
        return step_of(meaning, places, results)

    def call(self, name: str, inputs: tuple[Datum, ...]) -> tuple[Datum, ...]:
        """The results of a function in the current thread, alone."""
        run, function = self._runs.get(name), self.program.functions[name]
        if run is None:
            run = self._runs[name] = Waves(self._step, 1, alone=True).function(function)
        return run({0: _stay}, [inputs])[0]


def _stay() -> None:
    """The current thread goes on."""


def _call(machine: Machine, name: str, places: list[int], results: list[int]) -> Step:
    def step(frame: Frame) -> None:
        values = machine.call(name, tuple([frame[p] for p in places]))
        for r, value in zip(results, values, strict=True):
            frame[r] = value

    return step


# --- memory


def _alloc(machine: Machine, op: Op) -> Meaning:
    size, zero = (
        element_size(op.results[0].type) * op.attributes.get("count", 1),
        op.attributes.get("zero", False),
    )
    return lambda: machine.memory.allocate(size, zero)


def _variable(machine: Machine, op: Op) -> Meaning:
    size = element_size(op.results[0].type)
    return lambda *depth: machine.memory.variable((op, *depth), size)


def _is_memory(machine: Machine, op: Op) -> Meaning:
    size = op.attributes["bytes"]

    def ask(address: int) -> bool:
        assert machine.is_memory is not None, "is_memory is asked, and the caller passed no answer"
        return machine.is_memory(address, size) or machine.memory.has_variable(address, size)

    return ask


def _offset(machine: Machine, op: Op) -> Meaning:
    size, wrap = element_size(op.operands[0].type), wrapper(t.U64)
    return lambda address, index: wrap(address + size * index)


def _member(machine: Machine, op: Op) -> Meaning:
    distance = layout_of(t.pointer_of(op.operands[0].type).element).offsets[op.attributes["index"]]
    return lambda address: address + distance


def _atomic(machine: Machine, op: Op) -> Meaning:
    """Threads take turns here, so an atomic is a load and a store."""
    element = scalar_type(op.results[0])
    combine, read, write = combination(op.attributes["kind"], element), reader_of(element), writer_of(element)

    def act(address: int, *values: Datum) -> Datum:
        old = read(address)
        write(address, combine(old, *values))
        return old

    return act


def _read_static(machine: Machine, op: Op) -> Meaning:
    name, zero = op.attributes["name"], zero_of(op.results[0].type)
    return lambda: machine.statics.get(name, zero)


def _write_static(machine: Machine, op: Op) -> Effect:
    name = op.attributes["name"]
    return lambda value: machine.statics.update({name: value})


def _shared(machine: Machine, op: Op) -> Meaning:
    name, size = op.attributes["name"], element_size(op.results[0].type)
    return lambda: machine.shared(name, size)


# --- threads, parameters, reports


def _parameter(machine: Machine, op: Op) -> Meaning:
    block = machine.program.arguments
    assert block is not None
    offset = layout_of(block).offsets[block.index(op.attributes["name"])]
    return lambda: machine.arguments + offset


def _thread_id(machine: Machine, op: Op) -> Meaning:
    axis = op.attributes["axis"]
    return lambda: machine.thread[axis]


def _launch(machine: Machine, op: Op) -> Meaning:
    return lambda: machine.launch[op.attributes["field"]]


def _in_bounds(machine: Machine, op: Op) -> Meaning:
    def check(index: int, extent: int) -> bool:
        inside = 0 <= index < extent
        if not inside:
            machine.reports.out_of_bounds(op, index, extent)
        return inside

    return check


def _print(machine: Machine, op: Op) -> Effect:
    return lambda *values: machine.reports.print(op, [leaf for value in values for leaf in leaves(value)])


RULES: dict[str, Callable[[Machine, Op], Meaning | Effect]] = {
    **TAPES,
    "alloc": _alloc,
    "variable": _variable,
    "is_memory": _is_memory,
    "offset": _offset,
    "member": _member,
    "load": lambda machine, op: reader_of(op.results[0].type),
    "store": lambda machine, op: writer_of(op.operands[1].type),
    "atomic": _atomic,
    "shared": _shared,
    **dict.fromkeys(
        ("barrier", "fence"), lambda machine, op: lambda: None
    ),  # threads of a group go on together
    "read_static": _read_static,
    "write_static": _write_static,
    "parameter": _parameter,
    "thread_id": _thread_id,
    "launch": _launch,
    "in_bounds": _in_bounds,
    "print": _print,
}
assert RULES.keys() <= PRIMITIVES.keys()
_OF_TARGETS = SUMS | LANES | CPU  # the oracle runs code before these are made
_COVERED = RULES.keys() | RULES_OF_VALUES.keys() | WAVES | _OF_TARGETS
assert {name for name, row in PRIMITIVES.items() if row.primal is None} <= _COVERED
