"""Functions that call themselves become a loop over blocks, with stacks in growing arrays.

    int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

    %block = 1   %depth = 0   %returns = zero   %stack_n = zero
    while %block != 0 and %depth < limit
      if %block == 1 { ... a call: %stack_n[%depth + 1] = %n - 1, %returns[%depth + 1] = 3, %depth + 1, %block = 1 }
      if %block == 3 { ... %result = %stack_n[%depth] * %result; a return: %block = %returns[%depth], %depth - 1 }
    in_bounds %depth + 1, limit + 1

So no later stage deals with recursion: derivatives, lanes and tapes are those of any loop. Values that live over a
call have their own stack; others stay in registers until the next block.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from slangrad.base.options import RECURSION_DEPTH
from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import I32, array
from slangrad.ir.ops.core import Function, Op, Region, Value
from slangrad.lower.recursion.blocks import (
    BasicBlock,
    Branch,
    ControlFlowGraph,
    FunctionReturn,
    Jump,
    RecursiveCall,
)
from slangrad.lower.recursion.liveness import Liveness

BLOCK, DEPTH, RETURNS = "block", "depth", "returns"
DONE = 0

Key = object  # one of the words above, ("stack" or "register", value), ("result", function, number)
State = dict[Key, Value]


def without_recursion(root: Function, members: dict[str, Function], limit: int) -> Function:
    """`root` as a loop; `members` are the functions that it calls and that call it, itself among them."""
    return _Machine(root, members, limit).function()


def _at_depth(depth: Value, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
    """Each call has variables of its own."""
    return (b.primitive("variable", (depth,), op.results[0].type, op.attributes),)


class _Machine:
    def __init__(self, root: Function, members: dict[str, Function], limit: int) -> None:
        self._root, self._members, self._limit = root, members, limit
        self._graph = ControlFlowGraph(set(members))
        order = [root, *(f for f in members.values() if f is not root)]
        self._entries = {f.name: self._graph.function(f) for f in order}
        self._live = Liveness(self._graph, root, members)
        self._outer = Rebuild()

    def function(self) -> Function:
        b, root = Builder(span=self._root.span), self._root
        parameters = tuple(Value(p.type, p.hint) for p in root.region.parameters)
        arguments = dict(zip(root.region.parameters, parameters, strict=True))
        self._outer.new.update({p: arguments[origin] for p, origin in self._live.same.items()})
        for op in self._live.early:
            self._outer.op(b, op)
        state = self._start(b, arguments)
        self._loop(b, state)
        count = len(root.result_types)
        yields = tuple(state["result", root.name, i] for i in range(count))
        return replace(root, region=Region(parameters, b.ops, yields))

    def _start(self, b: Builder, arguments: dict[Value, Value]) -> State:
        """Everything is zero but for the root's parameters."""
        first = b.constant(I32, self._entries[self._root.name].number)
        state: State = {BLOCK: first, DEPTH: b.constant(I32, 0), RETURNS: b.zero(array(I32, None))}
        for name, f in self._members.items():
            for i, t in enumerate(f.result_types):
                state["result", name, i] = b.zero(t)
        for value in dict.fromkeys(v for block in self._graph.blocks for v in self._sorted(block)):
            stacked = value in self._live.stacked
            key = ("stack" if stacked else "register", value)
            state[key] = b.zero(array(value.type, None) if stacked else value.type)
            if value in arguments:
                self._write(b, state, value, arguments[value])
        return state

    def _sorted(self, block: BasicBlock) -> list[Value]:
        """The live values at the beginning of a block, in a deterministic order."""
        live = self._live.live[block]
        wanted = [self._live.canonical(v) for v in self._live.needs[block]]
        return [v for v in wanted if v in live]

    def _loop(self, b: Builder, state: State) -> None:
        keys, starts = list(state), tuple(state.values())
        tested, carried = (dict(zip(keys, (Value(v.type) for v in starts))) for _ in range(2))
        for key in (BLOCK, DEPTH, RETURNS):
            tested[key].hint = carried[key].hint = str(key)
        tb, nb = b.nested(), b.nested()
        busy = tb.emit("not_equal", tested[BLOCK], tb.constant(I32, DONE))
        shallow = tb.emit("less", tested[DEPTH], tb.constant(I32, self._limit))
        test = Region(tuple(tested.values()), tb.ops, (tb.emit("and", busy, shallow),))
        parameters = tuple(carried.values())
        for block in self._graph.blocks:
            self._block(nb, carried, block)
        body = Region(parameters, nb.ops, tuple(carried.values()))
        state.update(zip(keys, b.control("while", starts, (test, body)), strict=True))
        self._report(b, state[DEPTH])

    def _report(self, b: Builder, depth: Value) -> None:
        """After the loop the depth is -1, or the limit."""
        before, b.span = b.span, self._call_span() or b.span
        reached = b.emit("add", depth, b.constant(I32, 1))
        b.emit("in_bounds", reached, b.constant(I32, self._limit + 1), text=RECURSION_DEPTH)
        b.span = before

    def _call_span(self) -> Span | None:
        ends = (block.end for block in self._graph.blocks)
        return next(end.span for end in ends if isinstance(end, RecursiveCall))

    # --- blocks

    def _block(self, b: Builder, state: State, block: BasicBlock) -> None:
        """An `if` that runs the block when it is its turn."""
        turn = b.emit("equal", state[BLOCK], b.constant(I32, block.number))
        inner, after, live = b.nested(), dict(state), self._live
        walk = Rebuild({"variable": partial(_at_depth, after[DEPTH])})
        walk.new.update(self._outer.new)
        for value in live.needs[block]:
            walk.new[value] = self._read(inner, after, live.canonical(value), walk)
        for i, value in enumerate(block.received):
            walk.new[value] = after["result", block.of, i]
        for op in block.ops:
            walk.op(inner, op)
        for value in live.kept(block):
            self._write(inner, after, value, walk.new[value])
        self._end(inner, after, block, walk)
        changed = [key for key, old in state.items() if after[key] is not old]
        regions = (
            Region((), inner.ops, tuple(after[key] for key in changed)),
            Region((), [], tuple(state[key] for key in changed)),
        )
        results = b.control("if", (turn,), regions)
        state.update(zip(changed, results, strict=True))

    def _read(self, b: Builder, state: State, value: Value, walk: Rebuild) -> Value:
        if value in walk.new:
            return walk.new[value]
        if value in self._live.stacked:
            return b.emit("index", state["stack", value], state[DEPTH])
        return state["register", value]

    def _write(self, b: Builder, state: State, value: Value, new: Value) -> None:
        if value in self._live.stacked:
            key = ("stack", value)
            state[key] = b.emit("set_index", state[key], state[DEPTH], new)
        else:
            state["register", value] = new

    def _end(self, b: Builder, state: State, block: BasicBlock, walk: Rebuild) -> None:
        end = block.end
        sources = [self._value(walk, v) for v in block.sources]
        if isinstance(end, Jump):
            for (_, target), new in zip(end.moves, sources, strict=True):
                if target in self._live.live[end.target]:
                    self._write(b, state, target, new)
            self._go(b, state, end.target)
        elif isinstance(end, Branch):
            then, otherwise = (
                b.constant(I32, target_block.number) for target_block in (end.then, end.otherwise)
            )
            state[BLOCK] = b.emit("select", sources[0], then, otherwise)
        elif isinstance(end, RecursiveCall):
            self._call(b, state, end, sources)
        else:
            self._return(b, state, block, sources)

    def _value(self, walk: Rebuild, value: Value) -> Value:
        new = walk.new.get(value)
        return walk.new[self._live.canonical(value)] if new is None else new

    def _go(self, b: Builder, state: State, target: BasicBlock) -> None:
        state[BLOCK] = b.constant(I32, target.number)

    def _call(self, b: Builder, state: State, end: RecursiveCall, sources: list[Value]) -> None:
        entry = self._entries[end.callee]
        state[DEPTH] = b.emit("add", state[DEPTH], b.constant(I32, 1))
        for p, new in zip(self._members[end.callee].region.parameters, sources, strict=True):
            if p in self._live.live[entry]:
                self._write(b, state, p, new)
        after = b.constant(I32, end.after.number)
        state[RETURNS] = b.emit("set_index", state[RETURNS], state[DEPTH], after)
        self._go(b, state, entry)

    def _return(self, b: Builder, state: State, block: BasicBlock, sources: list[Value]) -> None:
        assert isinstance(block.end, FunctionReturn)
        owner = self._owner(block)
        for i, new in enumerate(sources):
            state["result", owner, i] = new
        state[BLOCK] = b.emit("index", state[RETURNS], state[DEPTH])
        state[DEPTH] = b.emit("sub", state[DEPTH], b.constant(I32, 1))

    def _owner(self, block: BasicBlock) -> str:
        """The function that a block belongs to: the last one that begins before it."""
        begins = {name: entry.number for name, entry in self._entries.items() if entry.number <= block.number}
        return max(begins, key=begins.__getitem__)
