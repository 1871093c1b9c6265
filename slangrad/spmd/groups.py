"""A kernel with barriers as one that runs a whole group: between barriers each thread has its turn.

    a; barrier; b          for %step { a for thread step * W + lane }     for %step { b for the same thread }

In: a flat kernel of one thread.   Out: one of a lane that runs every W-th thread of the group that `group_id` names.
Values that a thread needs after a barrier are kept in local memory, or computed again where that is cheap. Loops
and branches around barriers are outside of the loops over threads, on values that all threads of the group share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op, free_values
from slangrad.ir.data.numbers import least
from slangrad.ir.data.types import BOOL, I64, U32, Pointer, pointer, pointer_of
from slangrad.ir.ops.control import carried
from slangrad.ir.ops.core import Attributes, Function, Op, Region, Value, walk
from slangrad.ir.ops.effects import is_pure
from slangrad.ir.ops.primitives import PRIMITIVES
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.spmd.analyses.group_values import GroupValues

CHEAP = 16  # cheaper values are computed again after a barrier, not kept
LARGE = 600  # ops: a larger kernel has no separate form for complete groups
COUNTS = ("nx", "ny", "nz")

Values = tuple[Value, ...]
Stores = list[tuple[Value, Value]]  # where, and the old value that goes there


@dataclass(slots=True, eq=False)
class ThreadPhase:
    """Ops of single threads between two barriers."""

    ops: list[Op]


@dataclass(slots=True, eq=False)
class Fixed:
    """An op that is done once for the group."""

    op: Op


@dataclass(slots=True, eq=False)
class Around:
    """A branch or loop with barriers in it."""

    op: Op
    regions: list[list[Node]]


Node = ThreadPhase | Fixed | Around


def run_in_groups(kernel: Function, lanes: int, functions: Mapping[str, Function]) -> Function:
    """The kernel as the code of one of `lanes` lanes that run a group; a group at the edge may be incomplete.
    `functions`: those that it calls."""
    split = _GroupSplit(kernel, lanes, functions)
    b = Builder(span=kernel.span)
    split.allocate(b)
    if sum(1 for _ in walk(kernel.region)) > LARGE:
        split.run(b, complete=False)
    else:
        arms = (lambda arm: split.run(arm, True), lambda arm: split.run(arm, False))
        b.if_(split.is_complete(b), *arms)
    return replace(kernel, region=Region((), b.ops, ()))


class _GroupSplit:
    """`fixed`: values of the group, by old value. `slots`: local memory of values that are kept, one element
    for each thread that a lane runs. `complete`: whether all threads of the group are in the grid."""

    def __init__(self, kernel: Function, lanes: int, functions: Mapping[str, Function]) -> None:
        self.values = GroupValues(kernel, functions)
        self.lanes = lanes
        self.size = kernel.attributes["group_size"]
        self.threads = self.size[0] * self.size[1] * self.size[2]
        self.steps = -(-self.threads // lanes)
        self.nodes = self._plan(kernel.region)
        self.kernel = kernel
        self.complete = False
        self.fixed: dict[Value, Value] = {}
        self.slots: dict[Value, Value] = {}
        self.allocs: dict[Value, Value] = {}
        self.shared: dict[str, Value] = {}
        self._costs: dict[Value, int] = {}
        self._kept: dict[Value, None] = {}
        self._moved: dict[Value, None] = {}  # allocs that outlive a phase
        self._find_kept(self.nodes)

    # --- phases of values

    def _plan(self, region: Region) -> list[Node]:
        nodes: list[Node] = []
        ops: list[Op] = []

        def end_phase() -> None:
            nonlocal ops
            nodes.extend([ThreadPhase(ops)] if ops else [])
            ops = []

        for op in region.ops:
            if self.values.holds_barrier(op):
                end_phase()
                nodes.extend([Around(op, [self._plan(r) for r in op.regions])] if op.regions else [])
            elif self._is_fixed(op):
                nodes.append(Fixed(op))
            else:
                ops.append(op)
        end_phase()
        return nodes

    def _is_fixed(self, op: Op) -> bool:
        return is_pure(op) and all(map(self.values.is_fixed, op.results))

    # --- kept values

    def _find_kept(self, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node, ThreadPhase):
                self._need(free_values(Region((), node.ops, ())))
            elif isinstance(node, Around):
                op = node.op
                self._need(op.operands)
                for region, inner in zip(op.regions, node.regions, strict=True):
                    self._need(region.yields)
                    self._find_kept(inner)

    def _need(self, values: Sequence[Value]) -> None:
        """Values that may be used in a phase other than the one that made them."""
        for value in values:
            op = self.values.makers.get(value)
            if self.values.is_fixed(value) or value in self._kept:
                continue
            if op is not None and (op.name == "alloc" or _is_variable(op)):
                self._moved[value] = None
            elif op is not None and self._is_made_again(value):
                self._need(op.operands)
            elif op is not None and not self.values.holds_barrier(op):
                self._kept[value] = None

    def _is_made_again(self, value: Value) -> bool:
        """Addresses of a thread's own memory are always made again, never kept."""
        local = isinstance(value.type, Pointer) and value.type.space == "local"
        return local or self._cost(value) <= CHEAP

    def _cost(self, value: Value) -> int:
        """The cost of making it again from values of the group; more than CHEAP if that is impossible."""
        if self.values.is_fixed(value):
            return 0
        if value not in self._costs:
            op = self.values.makers.get(value)
            if op is None or op.name in _STAYS or not is_pure(op):
                self._costs[value] = CHEAP + 1
            else:
                inner = sum(map(self._cost, op.operands))
                self._costs[value] = min(CHEAP + 1, PRIMITIVES[op.name].cost + inner)
        return self._costs[value]

    # --- memory

    def allocate(self, b: Builder) -> None:
        """Shared values, and values kept for each thread."""
        for op in walk(self.kernel.region):
            name = op.attributes.get("name")
            if op.name == "shared" and isinstance(name, str) and name not in self.shared:
                self.shared[name] = b.emit("alloc", type=op.results[0].type, count=1, zero=True)
        for value in self._kept:
            self.slots[value] = self._slot(b, value)
        for op in walk(self.kernel.region):
            if _is_variable(op):  # its address may be kept anywhere
                self._moved.setdefault(op.results[0])
        for value in self._moved:
            if self.values.makers[value].name == "variable":
                self.allocs[value] = b.primitive("variable", (), value.type, {"count": self.steps})
                continue
            count = self.values.makers[value].attributes.get("count", 1)
            self.allocs[value] = b.emit("alloc", type=value.type, count=count * self.steps)
        self._allocate_around(b, self.nodes)

    def _allocate_around(self, b: Builder, nodes: list[Node]) -> None:
        """Values that differ between threads are carried by a loop, or returned by a branch, through memory."""
        for node in nodes:
            if not isinstance(node, Around):
                continue
            inside = {loop_value.result: loop_value.inside for loop_value in carried(node.op)}
            for result in node.op.results:
                if not self.values.is_fixed(result):
                    self.slots |= dict.fromkeys([result, *inside.get(result, ())], self._slot(b, result))
            for inner in node.regions:
                self._allocate_around(b, inner)

    def _slot(self, b: Builder, value: Value) -> Value:
        return b.emit("alloc", type=pointer(value.type, "local"), count=self.steps)

    # --- the group

    def group_id(self, b: Builder, axis: int) -> Value:
        return b.emit("group_id", type=U32, axis=axis)

    def is_complete(self, b: Builder) -> Value:
        """Whether all threads of the group are in the grid."""
        inside = b.constant(BOOL, True)
        for axis, size in enumerate(self.size):
            after = b.emit("add", self.group_id(b, axis), b.constant(U32, 1))
            end = b.emit("mul", b.emit("convert", after, type=I64), b.constant(I64, size))
            count = b.emit("launch", type=I64, field=COUNTS[axis])
            inside = b.emit("and", inside, b.emit("less_equal", end, count))
        return inside

    def run(self, b: Builder, complete: bool) -> None:
        self.complete, self.fixed = complete, {}
        self._run(b, self.nodes)

    def _run(self, b: Builder, nodes: list[Node]) -> None:
        for node in nodes:
            if isinstance(node, ThreadPhase):
                self._phase(b, node.ops)
                continue
            outer, b.span = b.span, node.op.span or b.span
            if isinstance(node, Fixed):
                self._fix(b, node.op)
            else:
                _AROUND[node.op.name](self, b, node)
            b.span = outer

    def _fix(self, b: Builder, op: Op) -> None:
        (result,) = op.results
        place = self.values.place_in_grid(op)
        if place is not None:
            self.fixed[result] = self.group_id(b, place[1])
        elif op.name == "shared":
            self.fixed[result] = self.shared[op.attributes["name"]]
        else:
            operands = tuple(self.fixed[v] for v in op.operands)
            self.fixed[result] = b.primitive(op.name, operands, result.type, op.attributes)

    # --- threads

    def _phase(self, b: Builder, ops: list[Op]) -> None:
        region = Region((), ops, ())

        def body(thread: Thread) -> Values:
            thread.know(free_values(region))
            thread.inline(thread.b, region)
            for value in (r for op in ops for r in op.results if r in self._kept):
                thread.keep(self.slots[value], thread.new[value])
            return ()

        self.each_thread(b, body)

    def _move(self, b: Builder, stores: Stores) -> None:
        """All are read before the first is written."""

        def body(thread: Thread) -> Values:
            thread.know([value for _, value in stores])
            for slot, value in stores:
                thread.keep(slot, thread.new[value])
            return ()

        if stores:
            self.each_thread(b, body)

    def _known(self, b: Builder, value: Value) -> Value:
        """A condition or count that all threads of the group have, as a value of the group."""
        if self.values.is_fixed(value):
            return self.fixed[value]
        number = U32 if value.type is BOOL else scalar_type(value)

        def body(thread: Thread) -> Values:
            thread.know([value])
            number_of_thread = thread.new[value]
            return (
                number_of_thread
                if number is value.type
                else thread.b.emit("convert", number_of_thread, type=number),
            )

        (largest,) = self.each_thread(b, body, (b.constant(number, least(number)),))
        if self.lanes > 1:
            largest = b.emit("wave_reduce", largest, kind="max")
        return largest if number is value.type else b.emit("not_equal", largest, b.zero(number))

    def each_thread(self, b: Builder, body: Callable[[Thread], Values], start: Values = ()) -> Values:
        """The body for each thread of the group that this lane runs; what it gives for the last one."""
        if self.steps == 1:
            return self._one_thread(b, b.constant(U32, 0), body, start)
        run_thread = lambda inner, step, *carried: self._one_thread(inner, step, body, carried)
        return b.for_(b.constant(U32, self.steps), start, run_thread, hint="step")

    def _one_thread(
        self, b: Builder, step: Value, body: Callable[[Thread], Values], before: Values
    ) -> Values:
        places, exists = self._places(b, step)
        if b.constant_of(exists) is True:
            return body(Thread(self, b, step, places))
        return b.if_(exists, lambda inner: body(Thread(self, inner, step, places)), lambda _: before)

    def _places(self, b: Builder, step: Value) -> tuple[list[tuple[Value, Value]], Value]:
        """For each axis the number in the grid and in the group; and whether there is such a thread."""
        gx, gy, _ = self.size
        lane = b.emit("wave_lane", type=U32) if self.lanes > 1 else b.constant(U32, 0)
        first = b.emit("mul", step, b.constant(U32, self.lanes))
        index = b.emit("add", first, lane)
        along = first if gx % self.lanes == 0 else index  # else the rows of a wave differ
        x = b.emit("rem", along, b.constant(U32, gx)) if self.threads > gx else along
        rows = b.emit("div", along, b.constant(U32, gx)) if self.threads > gx else b.zero(U32)
        x = b.emit("add", x, lane) if along is first else x
        in_group = [x, b.emit("rem", rows, b.constant(U32, gy)), b.emit("div", rows, b.constant(U32, gy))]
        exists = b.constant(BOOL, True)
        if self.steps * self.lanes != self.threads:
            exists = b.emit("less", index, b.constant(U32, self.threads))
        places = []
        for axis, (number, size) in enumerate(zip(in_group, self.size, strict=True)):
            start = b.emit("mul", self.group_id(b, axis), b.constant(U32, size))
            places.append((b.emit("add", start, number), number))
            if not self.complete:
                count = b.emit("launch", type=I64, field=COUNTS[axis])
                inside = b.emit("less", b.emit("convert", places[-1][0], type=I64), count)
                exists = b.emit("and", exists, inside)
        return places, exists

    # --- around barriers

    def _if(self, b: Builder, node: Around) -> None:
        op = node.op
        condition = self._known(b, op.operands[0])
        moved = [i for i, r in enumerate(op.results) if not self.values.is_fixed(r)]
        fixed = [i for i, r in enumerate(op.results) if self.values.is_fixed(r)]
        regions = []
        for region, inner in zip(op.regions, node.regions, strict=True):
            arm = b.nested()
            self._run(arm, inner)
            self._move(arm, [(self.slots[op.results[i]], region.yields[i]) for i in moved])
            regions.append(Region((), arm.ops, tuple(self.fixed[region.yields[i]] for i in fixed)))
        results = b.control("if", (condition,), tuple(regions), op.attributes)
        self.fixed |= {op.results[i]: value for i, value in zip(fixed, results, strict=True)}

    def _for(self, b: Builder, node: Around) -> None:
        op, (body,) = node.op, node.op.regions
        count, *starts = op.operands
        trips, carried = self._known(b, count), body.parameters[1:]
        moved, fixed = self._begin(b, carried, starts)
        index, inner = Value(count.type, body.parameters[0].hint), b.nested()
        passed = tuple(Value(carried[i].type, carried[i].hint) for i in fixed)
        self.fixed[body.parameters[0]] = index
        self.fixed |= {carried[i]: value for i, value in zip(fixed, passed, strict=True)}
        first = tuple(self.fixed[starts[i]] for i in fixed)
        self._run(inner, node.regions[0])
        self._move(inner, [(self.slots[carried[i]], body.yields[i]) for i in moved])
        region = Region((index, *passed), inner.ops, tuple(self.fixed[body.yields[i]] for i in fixed))
        results = b.control("for", (trips, *first), (region,), op.attributes)
        self.fixed |= {op.results[i]: value for i, value in zip(fixed, results, strict=True)}

    def _while(self, b: Builder, node: Around) -> None:
        """The test runs before the loop and at the end of each round; the loop carries its result."""
        op, (test, body) = node.op, node.op.regions
        moved, fixed = self._begin(b, body.parameters, op.operands)

        def ask(b: Builder, values: Values) -> Value:
            self.fixed |= {test.parameters[i]: value for i, value in zip(fixed, values, strict=True)}
            self._run(b, node.regions[0])
            return self._known(b, test.yields[0])

        first = tuple(self.fixed[op.operands[i]] for i in fixed)
        begins = ask(b, first)
        passed = tuple(Value(body.parameters[i].type, body.parameters[i].hint) for i in fixed)
        self.fixed |= {body.parameters[i]: value for i, value in zip(fixed, passed, strict=True)}
        inner = b.nested()
        self._run(inner, node.regions[1])
        self._move(inner, [(self.slots[body.parameters[i]], body.yields[i]) for i in moved])
        ends = tuple(self.fixed[body.yields[i]] for i in fixed)
        goes_on = ask(inner, ends)
        tested = (Value(BOOL), *(Value(v.type) for v in first))
        regions = (
            Region(tested, [], (tested[0],)),
            Region((Value(BOOL), *passed), inner.ops, (goes_on, *ends)),
        )
        results = b.control("while", (begins, *first), regions, op.attributes)
        self.fixed |= {op.results[i]: value for i, value in zip(fixed, results[1:], strict=True)}

    def _begin(
        self, b: Builder, carried: Sequence[Value], starts: Sequence[Value]
    ) -> tuple[list[int], list[int]]:
        """The starts of carried values, in memory or as values of the group; returns which is which."""
        fixed = [i for i, value in enumerate(carried) if self.values.is_fixed(value)]
        moved = [i for i, value in enumerate(carried) if not self.values.is_fixed(value)]
        self._move(b, [(self.slots[carried[i]], starts[i]) for i in moved])
        return moved, fixed


_STAYS = frozenset({"alloc", "variable", "wave_lane"})


def _is_variable(op: Op) -> bool:
    """Whether it is one of a call that does not call itself."""
    return op.name == "variable" and not op.operands


_AROUND: dict[str, Callable[[_GroupSplit, Builder, Around], None]] = {
    "if": _GroupSplit._if,
    "for": _GroupSplit._for,
    "while": _GroupSplit._while,
}


class Thread(Rebuild):
    """One thread in one phase: `new` has its values."""

    def __init__(
        self, split: _GroupSplit, b: Builder, step: Value, places: list[tuple[Value, Value]]
    ) -> None:
        super().__init__()
        self.rules = {
            "thread_id": self._thread_id,
            "div": self._in_grid,
            "rem": self._in_grid,
            "shared": self._shared,
            "alloc": self._alloc,
            "variable": self._variable,
            "atomic": self._atomic,
        }
        self.split, self.b, self._step, self._in = split, b, step, places

    def know(self, values: Sequence[Value]) -> None:
        """A value from before: of the group, in memory, or made again."""
        for value in values:
            if value not in self.new:
                self.new[value] = self._find(value)

    def _find(self, value: Value) -> Value:
        split = self.split
        if value in split.fixed:
            return split.fixed[value]
        if value in split.allocs:
            return self._own_memory(self.b, value)
        if value in split.slots:
            place = self.b.emit("offset", split.slots[value], self._step)
            return self.b.emit("load", place, type=value.type)
        op = split.values.makers[value]
        self.know(op.operands)
        self.op(self.b, op)
        return self.new[value]

    def keep(self, slot: Value, value: Value) -> None:
        self.b.effect("store", self.b.emit("offset", slot, self._step), value)

    # --- ops that mean something else here

    def _thread_id(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        axis = op.attributes["axis"]
        return (self._in[axis][0],)

    def _in_grid(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        place = self.split.values.place_in_grid(op)
        if place is None:
            return copy_op(self, b, op)
        return (self.split.group_id(b, place[1]) if place[0] == "group" else self._in[place[1]][1],)

    def _shared(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        return (self.split.shared[op.attributes["name"]],)

    def _own_memory(self, b: Builder, alloc: Value) -> Value:
        if self.split.values.makers[alloc].name == "variable":
            return b.emit("offset", self.split.allocs[alloc], self._apart(b))
        count = self.split.values.makers[alloc].attributes.get("count", 1)
        return b.emit("offset", self.split.allocs[alloc], b.emit("mul", self._step, b.constant(U32, count)))

    def _apart(self, b: Builder) -> Value:
        """How many variables there are between that of this lane's first thread and that of this thread."""
        return b.emit("mul", self._step, b.constant(U32, self.split.lanes))

    def _variable(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        (result,) = op.results
        return (self._own_memory(b, result),) if result in self.split.allocs else copy_op(self, b, op)

    def _alloc(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        (result,), count = op.results, op.attributes.get("count", 1)
        if result not in self.split.allocs:
            return copy_op(self, b, op)
        memory = self._own_memory(b, result)
        if op.attributes.get("zero"):
            assert isinstance(count, int)
            zero = pointer_of(memory.type).element

            def clear(inner: Builder, index: Value) -> None:
                inner.effect("store", inner.emit("offset", memory, index), inner.zero(zero))

            b.for_(b.constant(U32, count), (), clear)
        return (memory,)

    def _atomic(self, rebuild: Rebuild, b: Builder, op: Op) -> Values:
        """Only this group reaches its shared memory, and its threads take turns."""
        alone: Attributes = {"alone": True} if pointer_of(op.operands[0].type).space == "shared" else {}
        return (
            b.primitive("atomic", self.values(op.operands), op.results[0].type, {**op.attributes, **alone}),
        )
