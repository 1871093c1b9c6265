"""Values that are the same for all threads of a launch, as code of its own that runs before the launch.

    %p = parameter {name="net"}      %g = load %p      %w = member %g {index=1}      %a = load %w
    all four are the same for all threads; `of(%a)` emits them into the plan and gives %a there

Loads from global memory belong to them, and are listed in `loads`. A caller that relies on one checks that the launch
does not write there. A load is guarded against null, as the kernel may never execute it.
"""

from __future__ import annotations

from slangrad.ir.analyses.addresses import root_of
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import I64, pointer_of
from slangrad.ir.ops.core import Function, Op, Value
from slangrad.ir.ops.primitives import PRIMITIVES, PURE

DEEPEST = 200  # ops between a value and the parameters

# They are pure, but differ from thread to thread or belong to the wave.
_OF_THREADS = frozenset({"thread_id", "wave_lane", "accumulators"})


class LaunchValues:
    """Copies of a function's values in the plan, made on demand. `loads`: those of the kernel at the call of the
    function."""

    def __init__(self, function: Function, plan: Builder, loads: dict[Value, Value] | None = None) -> None:
        self.plan = plan
        # Address in global memory to the loaded value, both in the plan.
        self.loads: dict[Value, Value] = {} if loads is None else loads
        self._made_by = function.region.makers
        self._copies: dict[Value, Value | None] = {}

    def learn(self, value: Value, copy: Value) -> None:
        """The value of a parameter of the function, or of a result of a call."""
        self._copies[value] = copy

    def made_by(self, value: Value) -> Op | None:
        """The op of the function; None for parameters of regions."""
        return self._made_by.get(value)

    def threads(self, axis: int) -> tuple[Value, Value]:
        """The first and the last number along an axis."""
        count = self.plan.emit("launch", type=I64, field=("nx", "ny", "nz")[axis])
        return self.plan.constant(I64, 0), self.plan.emit("sub", count, self.plan.constant(I64, 1))

    def of(self, value: Value, depth: int = 0) -> Value | None:
        """The value in the plan; None where threads may have different ones."""
        if value not in self._copies:
            self._copies[value] = self._copy(value, depth)
        return self._copies[value]

    def _copy(self, value: Value, depth: int) -> Value | None:
        op = self._made_by.get(value)
        if op is None or depth > DEEPEST or op.name not in PRIMITIVES or self._varies(op):
            return None
        if op.name != "load" and PRIMITIVES[op.name].effect != PURE:
            return None
        operands = []
        for operand in op.operands:
            copy = self.of(operand, depth + 1)
            if copy is None:
                return None
            operands.append(copy)
        if op.name == "load":
            return self._load(op, operands[0])
        return self.plan.primitive(op.name, tuple(operands), value.type, op.attributes)

    def _varies(self, op: Op) -> bool:
        """Whether threads may get different results for the same operands."""
        return op.name in _OF_THREADS

    def _load(self, op: Op, address: Value) -> Value | None:
        kind, space = op.results[0].type, pointer_of(address.type).space
        if space == "constant":
            return self.plan.primitive("load", (address,), kind, op.attributes)
        if space != "global":
            return None
        if address not in self.loads:
            load = lambda inner: (inner.primitive("load", (address,), kind, op.attributes),)
            start = root_of(address, self.plan.made_by)  # that may be null
            number = self.plan.emit("bitcast", start, type=I64)
            condition = self.plan.emit("not_equal", number, self.plan.constant(I64, 0))
            (self.loads[address],) = self.plan.guarded(condition, load)
        return self.loads[address]


class ArgumentValues(LaunchValues):
    """Those of them that follow from the arguments alone: contents of global memory may change."""

    def _load(self, op: Op, address: Value) -> Value | None:
        return super()._load(op, address) if pointer_of(address.type).space == "constant" else None


class ChunkValues(ArgumentValues):
    """Values that are the same for all threads of a chunk, which is a part of one row along x."""

    def threads(self, axis: int) -> tuple[Value, Value]:
        if axis == 0:
            first, last = (self.plan.emit("chunk_thread", type=I64, which=end) for end in ("first", "last"))
            return first, last
        number = self.plan.emit("convert", self.plan.emit("thread_id", axis=axis), type=I64)
        return number, number

    def _varies(self, op: Op) -> bool:
        return op.name in _OF_THREADS and (op.name != "thread_id" or op.attributes["axis"] == 0)
