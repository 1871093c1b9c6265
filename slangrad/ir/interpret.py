"""The oracle: runs IR in plain Python, exactly as the table says, at every stage before lanes.

    evaluate(program, "square", (3.0,))                 -> (9.0,)
    run_kernel(program, "kernel", address, (64, 1, 1))     reads and writes the memory of the argument block

Each function becomes closures over a list of values, once. Float results are rounded after each op, integers
wrapped; threads run one after the other, x fastest, or in waves (interpret_waves.py). What a program reports (an
index out of range, a print) goes to the caller's `Reports` with the op that reports it. Back ends are compared
with this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol

from slangrad.ir import types as t
from slangrad.ir.core import Function, Op, Program, Region, Value, initializers, walk
from slangrad.ir.interpret_memory import (
    Block,
    Datum,
    LocalMemory,
    leaves,
    reader_of,
    writer_of,
    zero_of,
)
from slangrad.ir.interpret_tapes import TAPES
from slangrad.ir.interpret_values import Frame, Step, compile_value, integer_of
from slangrad.ir.interpret_waves import Waves
from slangrad.ir.layout import element_size, layout_of
from slangrad.ir.numbers import Number, wrapper
from slangrad.ir.primitives import CONTROL, PRIMITIVES

Point = tuple[int, int, int]
IsMemory = Callable[[int, int], bool]  # whether so many bytes at an address are
WAVE = 32


class Reports(Protocol):
    """What a running program tells its caller; `op` has the span, and the format of a print."""

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


def evaluate(
    program: Program, name: str, inputs: Sequence[Datum], arguments: int = 0, reports: Reports | None = None
) -> tuple[Datum, ...]:
    """The results of a function for the values of its inputs."""
    return Machine(program, arguments, reports or Recorded()).call(name, tuple(inputs))


def evaluate_wave(
    program: Program, name: str, inputs: Sequence[tuple[Datum, ...]], reports: Reports | None = None
) -> list[tuple[Datum, ...]]:
    """The results of a function without calls in each thread of a wave, for the inputs of each."""
    return Machine(program, 0, reports or Recorded()).call_wave(name, inputs)


def run_kernel(
    program: Program,
    name: str,
    arguments: int,
    grid: Point,
    reports: Reports | None = None,
    is_memory: IsMemory | None = None,
) -> None:
    """Run a kernel's thread for each point of the grid. `arguments` is the address of the argument block; `is_memory`
    answers the op of that name."""
    machine, kernel = Machine(program, arguments, reports or Recorded()), program.functions[name]
    machine.is_memory = is_memory
    if any(op.name in ("shared", "barrier") for op in walk(kernel.region)):
        machine.groups(kernel, grid)
        return
    run = machine.waves(name, kernel.wave) if kernel.wave else machine.threads(name)
    for z in range(grid[2]):
        for y in range(grid[1]):
            run([(x, y, z) for x in range(grid[0])])


@dataclass(slots=True)
class Code:
    """A function as closures over a frame of `size` places."""

    inputs: list[int]
    steps: list[Step]
    yields: list[int]
    size: int


class Machine:
    """The state of a run: functions compiled so far, the current thread, its local memory and tapes."""

    def __init__(self, program: Program, arguments: int, reports: Reports) -> None:
        self.program = program
        self.arguments = arguments
        self.reports = reports
        self.is_memory: IsMemory | None = None
        self._codes: dict[str, Code] = {}
        self._lasting: list[Block] = []  # memory that other threads may have been told of
        self._initializers = initializers(program)
        self._begin_group()
        self.begin_thread((0, 0, 0))

    def begin_thread(self, thread: Point) -> None:
        self.thread = thread
        self.memory = LocalMemory(self._lasting)
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
        run_wave = Waves(Compiler(self), size).function(self.program.functions[name])

        def run(points: list[Point]) -> None:
            for start in range(0, len(points), size):
                threads = [self._resumption(point) for point in points[start : start + size]]
                run_wave(threads, [()] * len(threads))

        return run

    def groups(self, kernel: Function, grid: Point) -> None:
        """Runs threads in groups: those of one go on together, and share memory that begins as zero."""
        size = kernel.attributes["group_size"]
        run = Waves(Compiler(self), kernel.wave or 1).function(kernel)
        starts = [range(0, count, step) for count, step in zip(grid, size, strict=True)]
        for z, y, x in product(*reversed(starts)):
            self._begin_group()
            axes = [
                range(start, min(start + step, count))
                for start, step, count in zip((x, y, z), size, grid, strict=True)
            ]
            threads = [self._resumption((i, j, k)) for k, j, i in product(*reversed(axes))]
            run(threads, [()] * len(threads))

    def _begin_group(self) -> None:
        self._shared: dict[str, int] = {}
        self._group_memory = LocalMemory()

    def shared(self, name: str, size: int) -> int:
        """The address of memory of the group."""
        if name not in self._shared:
            self._shared[name] = self._group_memory.allocate(size, True)
        return self._shared[name]

    def call_wave(self, name: str, inputs: Sequence[tuple[Datum, ...]]) -> list[tuple[Datum, ...]]:
        threads = [self._resumption((i, 0, 0)) for i in range(len(inputs))]
        return Waves(Compiler(self), WAVE).function(self.program.functions[name])(threads, inputs)

    def _resumption(self, thread: Point) -> Callable[[], None]:
        """What makes a new thread the current one."""
        self.begin_thread(thread)
        memory, tapes, statics = self.memory, self.tapes, self.statics

        def resume() -> None:
            self.thread, self.memory, self.tapes, self.statics = thread, memory, tapes, statics

        return resume

    def call(self, name: str, inputs: tuple[Datum, ...]) -> tuple[Datum, ...]:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = Compiler(self).function(self.program.functions[name])
        assert len(inputs) == len(code.inputs), f"{name} takes {len(code.inputs)} inputs, not {len(inputs)}"
        frame: Frame = [0] * code.size
        _move(frame, code.inputs, inputs)
        _run(frame, code.steps)
        return tuple([frame[y] for y in code.yields])


def _run(frame: Frame, steps: list[Step]) -> None:
    for step in steps:
        step(frame)


def _move(frame: Frame, places: Sequence[int], values: Sequence[Datum]) -> None:
    for place, value in zip(places, values, strict=True):
        frame[place] = value


class Compiler:
    """Turns one function into closures."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._places: dict[Value, int] = {}

    def function(self, function: Function) -> Code:
        inputs = self.places(function.region.parameters)
        steps, yields = self.region(function.region)
        return Code(inputs, steps, yields, self.frame_size())

    def frame_size(self) -> int:
        return len(self._places)

    def places(self, values: Sequence[Value]) -> list[int]:
        """Where values live in the frame."""
        return [self._places.setdefault(v, len(self._places)) for v in values]

    def region(self, region: Region) -> tuple[list[Step], list[int]]:
        """The steps of a region, and where what it yields is after them."""
        self.places(region.parameters)
        return [self.op(op) for op in region.ops], self.places(region.yields)

    def op(self, op: Op) -> Step:
        rule = RULES.get(op.name)
        if rule is not None:
            return rule(self, op)
        (r,) = self.places(op.results)
        return compile_value(op, self.places(op.operands), r, self.machine.reports.out_of_bounds)


# --- control flow


def _if(c: Compiler, op: Op) -> Step:
    (condition,), results = c.places(op.operands), c.places(op.results)
    (then, then_yields), (otherwise, other_yields) = map(c.region, op.regions)

    def step(frame: Frame) -> None:
        taken, yields = (then, then_yields) if frame[condition] else (otherwise, other_yields)
        _run(frame, taken)
        _move(frame, results, [frame[y] for y in yields])

    return step


def _for(c: Compiler, op: Op) -> Step:
    (count, *starts), results = c.places(op.operands), c.places(op.results)
    (index, *carried) = c.places(op.regions[0].parameters)
    body, yields = c.region(op.regions[0])
    backwards = op.attributes.get("reverse", False)

    def step(frame: Frame) -> None:
        _move(frame, carried, [frame[s] for s in starts])
        trips = range(integer_of(frame[count]))
        for i in reversed(trips) if backwards else trips:
            frame[index] = i
            _run(frame, body)
            _move(frame, carried, [frame[y] for y in yields])
        _move(frame, results, [frame[p] for p in carried])

    return step


def _while(c: Compiler, op: Op) -> Step:
    starts, results = c.places(op.operands), c.places(op.results)
    tested, carried = (c.places(r.parameters) for r in op.regions)
    (test, (go_on,)), (body, yields) = map(c.region, op.regions)

    def step(frame: Frame) -> None:
        values = [frame[s] for s in starts]
        while True:
            _move(frame, tested, values)
            _run(frame, test)
            if not frame[go_on]:
                break
            _move(frame, carried, values)
            _run(frame, body)
            values = [frame[y] for y in yields]
        _move(frame, results, values)

    return step


def _call(c: Compiler, op: Op) -> Step:
    places, results, machine = c.places(op.operands), c.places(op.results), c.machine
    name = op.attributes["callee"]

    def step(frame: Frame) -> None:
        _move(frame, results, machine.call(name, tuple([frame[p] for p in places])))

    return step


# --- memory


def _alloc(c: Compiler, op: Op) -> Step:
    (r,), machine, count = c.places(op.results), c.machine, op.attributes.get("count", 1)
    size, zero = element_size(op.results[0].type) * count, op.attributes.get("zero", False)

    def step(frame: Frame) -> None:
        frame[r] = machine.memory.allocate(size, zero)

    return step


def _variable(c: Compiler, op: Op) -> Step:
    depth, (r,), machine = c.places(op.operands), c.places(op.results), c.machine
    size = element_size(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = machine.memory.variable((op, *(frame[d] for d in depth)), size)

    return step


def _is_memory(c: Compiler, op: Op) -> Step:
    (p,), (r,), size, machine = c.places(op.operands), c.places(op.results), op.attributes["bytes"], c.machine

    def step(frame: Frame) -> None:
        assert machine.is_memory is not None, "nobody told which memory there is"
        address = integer_of(frame[p])
        frame[r] = machine.is_memory(address, size) or machine.memory.has_variable(address, size)

    return step


def _offset(c: Compiler, op: Op) -> Step:
    (p, i), (r,), size = c.places(op.operands), c.places(op.results), element_size(op.operands[0].type)
    wrap = wrapper(t.U64)

    def step(frame: Frame) -> None:
        frame[r] = wrap(integer_of(frame[p]) + size * integer_of(frame[i]))

    return step


def _member(c: Compiler, op: Op) -> Step:
    (p,), (r,), index = c.places(op.operands), c.places(op.results), op.attributes["index"]
    distance = layout_of(t.pointer_of(op.operands[0].type).element).offsets[index]

    def step(frame: Frame) -> None:
        frame[r] = integer_of(frame[p]) + distance

    return step


def _load(c: Compiler, op: Op) -> Step:
    (p,), (r,), read = c.places(op.operands), c.places(op.results), reader_of(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = read(integer_of(frame[p]))

    return step


def _store(c: Compiler, op: Op) -> Step:
    (p, v), write = c.places(op.operands), writer_of(op.operands[1].type)

    def step(frame: Frame) -> None:
        write(integer_of(frame[p]), frame[v])

    return step


def _atomic(c: Compiler, op: Op) -> Step:
    """Threads take turns here, so an atomic is a load and a store."""
    element, kind = op.results[0].type, op.attributes["kind"]
    assert isinstance(element, t.Scalar)
    (p, *values), (r,), combine = c.places(op.operands), c.places(op.results), _combination(kind, element)
    read, write = reader_of(element), writer_of(element)

    def step(frame: Frame) -> None:
        address = integer_of(frame[p])
        old = read(address)
        write(address, combine(old, *[frame[v] for v in values]))
        frame[r] = old

    return step


def _combination(kind: str, element: t.Scalar) -> Callable[..., Datum]:
    """What an atomic leaves in memory, from what is there and its operands."""
    if kind == "exchange":
        return lambda old, new: new
    if kind == "compare_exchange":
        return lambda old, expected, new: new if old == expected else old
    primal, wrap = PRIMITIVES[kind].primal, wrapper(element)
    assert primal is not None, f"no atomic {kind}"
    return lambda old, value: wrap(primal(element, old, value))


def _read_static(c: Compiler, op: Op) -> Step:
    (r,), machine, name = c.places(op.results), c.machine, op.attributes["name"]
    zero = zero_of(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = machine.statics.get(name, zero)

    return step


def _write_static(c: Compiler, op: Op) -> Step:
    (v,), machine, name = c.places(op.operands), c.machine, op.attributes["name"]

    def step(frame: Frame) -> None:
        machine.statics[name] = frame[v]

    return step


def _shared(c: Compiler, op: Op) -> Step:
    (r,), machine, name = c.places(op.results), c.machine, op.attributes["name"]
    size = element_size(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = machine.shared(name, size)

    return step


def _nothing(c: Compiler, op: Op) -> Step:
    """Threads of a group go on together, so they are all here."""
    return lambda frame: None


# --- waves, for a thread that is called alone; kernels have interpret_waves.py


def _alone(c: Compiler, op: Op) -> Step:
    """The thread's own value: of a combination, and of lane 0."""
    (x, *lane), (r,) = c.places(op.operands), c.places(op.results)
    zero = zero_of(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = frame[x] if not lane or frame[lane[0]] == 0 else zero

    return step


def _first_of_scan(c: Compiler, op: Op) -> Step:
    (r,), made = c.places(op.results), op.results[0].type
    assert isinstance(made, t.Scalar)
    value = wrapper(made)(1 if op.attributes["kind"] == "mul" else 0)

    def step(frame: Frame) -> None:
        frame[r] = value

    return step


def _own_bit(c: Compiler, op: Op) -> Step:
    (x,), (r,) = c.places(op.operands), c.places(op.results)

    def step(frame: Frame) -> None:
        frame[r] = int(bool(frame[x]))

    return step


def _first_lane(c: Compiler, op: Op) -> Step:
    (r,) = c.places(op.results)

    def step(frame: Frame) -> None:
        frame[r] = 0

    return step


# --- threads, parameters, reports


def _parameter(c: Compiler, op: Op) -> Step:
    (r,), machine = c.places(op.results), c.machine
    block, name = machine.program.arguments, op.attributes["name"]
    assert block is not None
    offset = layout_of(block).offsets[block.index(name)]

    def step(frame: Frame) -> None:
        frame[r] = machine.arguments + offset

    return step


def _thread_id(c: Compiler, op: Op) -> Step:
    (r,), machine, axis = c.places(op.results), c.machine, op.attributes["axis"]

    def step(frame: Frame) -> None:
        frame[r] = machine.thread[axis]

    return step


def _in_bounds(c: Compiler, op: Op) -> Step:
    (i, n), (r,), reports = c.places(op.operands), c.places(op.results), c.machine.reports

    def step(frame: Frame) -> None:
        index, extent = integer_of(frame[i]), integer_of(frame[n])
        inside = frame[r] = 0 <= index < extent
        if not inside:
            reports.out_of_bounds(op, index, extent)

    return step


def _print(c: Compiler, op: Op) -> Step:
    places, reports = c.places(op.operands), c.machine.reports

    def step(frame: Frame) -> None:
        reports.print(op, [leaf for p in places for leaf in leaves(frame[p])])

    return step


RULES: dict[str, Callable[[Compiler, Op], Step]] = {
    **TAPES,
    "if": _if,
    "for": _for,
    "while": _while,
    "call": _call,
    "alloc": _alloc,
    "variable": _variable,
    "is_memory": _is_memory,
    "offset": _offset,
    "member": _member,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "shared": _shared,
    "barrier": _nothing,
    "fence": _nothing,
    "read_static": _read_static,
    "write_static": _write_static,
    "parameter": _parameter,
    "thread_id": _thread_id,
    "in_bounds": _in_bounds,
    "print": _print,
    "wave_reduce": _alone,
    "wave_read": _alone,
    "wave_scan": _first_of_scan,
    "wave_ballot": _own_bit,
    "wave_lane": _first_lane,
}
assert RULES.keys() <= PRIMITIVES.keys() | CONTROL
