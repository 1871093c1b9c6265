"""Store or recompute: how each primal value that the reverse sweep needs gets there.

In: the needed values.   Out: those to keep and those to compute again, and how the kept ones travel:

    in an arm of an `if`    an extra result of the `if`, zero where the other arm ran
    in the body of a loop   an element of a tape, at the position that counts the body's runs

Values of the function's own region and loop indices are always at hand. Only pure ops are computed again, loads
from constant memory among them; an array at hand is read again only if it is never written. Elements are kept, not
arrays. The choice is a minimum cut, or a fixed rule to compare it with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from slangrad.autodiff.analyses.halves import may_be_handed
from slangrad.autodiff.analyses.loop_tree import Loop, LoopTree, RegionNode, holds_array
from slangrad.autodiff.checkpointing.minimum_cut import INFINITE, Network
from slangrad.base.options import CUT, STORE
from slangrad.ir.building.rebuild import free_values
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Pointer, Type, array, is_tape, scalar_of
from slangrad.ir.ops.core import Op, Value
from slangrad.ir.ops.effects import primitive_effect
from slangrad.ir.ops.primitives import PRIMITIVES, PURE

FIXED_TAPE = 1 << 16  # elements; longer tapes grow
LOOSE_TAPE = 1 << 10  # the same where most of them may be unused

# Prices, in the unit of the table's costs.
KEEP, KEEP_WORD = 4, 2  # a tape's store and load, and what each 4 bytes add
KEEP_IN_ARM = 2  # an extra result of an `if`, for each 4 bytes
FORBIDDING = 1000  # a factor
MAKES_SMALL_ARRAYS = frozenset({"make", "set", "get", "load"})  # as large as the code that fills them
VIEW = 1  # picking an array out of another one
HANDING = 40  # what a call that hands residuals over costs more than one that runs again
ARRAY = 4  # a factor: elements are kept rather than arrays, but where inner loops read them over and over
# A factor: an integer that is computed again may be the same in all lanes, one from a tape is each lane's own.
INTEGER = 4
CHEAP = KEEP + KEEP_WORD  # what the fixed rule computes again costs no more


@dataclass(frozen=True, slots=True)
class Wishes:
    """The program's preferences about storing: "recompute", "checkpoint" or ""."""

    prefer: Callable[[Value], str]
    may_repeat: Callable[[Op], bool]  # of a call: its function asks for it and has no effects
    residuals: str = CUT  # see base/options.py
    runs_calls_again: bool = False  # rather than keep what calls hand over
    keeping: int = 1  # see base/traits.py
    reads_again: Callable[[Op], int | None] = lambda op: (
        None
    )  # the cost of a call that may read memory once more


@dataclass(slots=True)
class ResidualPlan:
    """`slots`: what a control op passes through besides its own values (tapes, positions of inner loops)."""

    needs: frozenset[Value] = frozenset()
    keep: dict[Value, str] = field(default_factory=dict)  # and why
    again: dict[Value, Op] = field(default_factory=dict)
    taped: dict[Loop, list[Value]] = field(default_factory=dict)
    lifted: dict[Op, list[Value]] = field(default_factory=dict)
    slots: dict[Op, list[Value]] = field(default_factory=dict)
    slot_types: dict[Value, Type] = field(default_factory=dict)
    counted: set[Loop] = field(default_factory=set)  # inner loops whose position is carried along


def plan(tree: LoopTree, needs: Iterable[Value], wishes: Wishes) -> ResidualPlan:
    result = ResidualPlan(frozenset(needs))
    _Choice(tree, result, wishes).decide()
    routes = _Routes(tree, result)
    for value in list(result.keep):
        routes.add(value)
    return result


class _Choice:
    """The cheapest set of values to keep, by a minimum cut.

    Each value has two nodes: it is computed again (1), it is available (2). A node on the sink's side happens.
    Cut edges are paid: source to 1 the cost of computing, 1 to 2 that of keeping. Operands (2) lead to 1 and
    needed values (2) to the sink, both without limit.
    """

    def __init__(self, tree: LoopTree, result: ResidualPlan, wishes: Wishes) -> None:
        self._tree = tree
        self._plan = result
        self._wishes = wishes
        self._network = Network()
        self._nodes: dict[Value, tuple[int, int]] = {}
        self._following: dict[Value, bool] = {}
        self._links: list[tuple[Value, int]] = []  # an operand, and the node of what it is an operand of
        self._idle = _idle_calls(tree, result.needs)

    def decide(self) -> None:
        wanted = [v for v in sorted(self._plan.needs, key=self._order) if not self._tree.is_at_hand(v)]
        todo = list(wanted)
        while todo:
            todo += self._add(todo.pop())
        for v, user in self._links:
            self._network.edge(self._nodes[v][1], user, INFINITE)
        for v in wanted:
            self._network.edge(self._nodes[v][1], Network.SINK, INFINITE)
        stays = self._network.cut() if self._wishes.residuals == CUT else None
        self._collect(wanted, stays)
        at_hand = self._plan.needs - set(wanted)
        cheap = {v: op for v, op in self._tree.calls.items() if self._price(op, v) < HANDING}
        self._plan.again.update((v, op) for v, op in cheap.items() if v in at_hand)
        self._plan.keep = {v: self._plan.keep[v] for v in sorted(self._plan.keep, key=self._order)}

    def _order(self, value: Value) -> int:
        return self._tree.order[value]

    def _add(self, value: Value) -> list[Value]:
        """Put a value into the network; the operands that it brings along."""
        if value in self._nodes:
            return []
        again, stored = self._nodes[value] = self._network.node(), self._network.node()
        op = self._repeatable(value)
        weight = self._tree.homes[value].runs
        self._network.edge(again, stored, weight * self._price_of_keeping(value, op))
        price = INFINITE if op is None else weight * self._price(op, value)
        self._network.edge(Network.SOURCE, again, price)
        operands = [] if op is None else [v for v in op.operands if not self._tree.is_at_hand(v)]
        for v in operands:
            self._links.append((v, again))
        return operands

    def _collect(self, wanted: list[Value], stays: set[int] | None) -> None:
        """The available values, from the needed ones back to their operands: by a cut or by the rule."""
        todo = list(wanted)
        while todo:
            value = todo.pop()
            if value in self._plan.keep or value in self._plan.again:
                continue
            if self._is_kept_by_rule(value) if stays is None else self._nodes[value][0] in stays:
                self._plan.keep[value] = self._reason(value)
                continue
            op = self._repeatable(value)
            assert op is not None, value
            self._plan.again[value] = op
            todo += [v for v in op.operands if not self._tree.is_at_hand(v)]

    def _is_kept_by_rule(self, value: Value) -> bool:
        op = self._repeatable(value)
        if op is None or self._wishes.prefer(value):
            return op is None or self._wishes.prefer(value) == "checkpoint"
        return self._wishes.residuals == STORE or self._price(op, value) > CHEAP

    def _reason(self, value: Value) -> str:
        """Why a value is kept."""
        maker, op = self._tree.makers.get(value), self._repeatable(value)
        if maker is None and op is None:
            return _reason_of_parameter(value, self._tree.homes[value].loop)
        if op is None:
            assert maker is not None
            return _NOT_AGAIN.get(maker.name, _reason_of_op(maker))
        if self._wishes.prefer(value) == "checkpoint":
            return "[PreferCheckpoint]"
        if self._wishes.residuals == STORE:
            return "all that is needed is stored"
        again, kept = self._price(op, value), self._price_of_keeping(value, op)
        if again >= kept:
            return f"to compute it again would cost {again}, to keep it {kept}"
        return "its operands would have to be kept instead"

    def _price(self, op: Op, value: Value) -> int:
        cost = PRIMITIVES[op.name].cost * _numbers(value.type) if op.name in PRIMITIVES else 0
        if value in self._tree.calls:
            cost = 0 if op in self._idle else self._tree.halves[op].cost
        elif op.name == "call" and not self._wishes.may_repeat(op):
            cost = self._wishes.reads_again(op) or 0
        elif holds_array(value.type):
            cost = VIEW if self._tree.is_view(value) else _words(value.type)
        return cost * (FORBIDDING if self._wishes.prefer(value) == "checkpoint" else 1)

    def _price_of_keeping(self, value: Value, op: Op | None) -> int:
        """A value that no iteration changes is computed again: that needs no tape and can leave the loop."""
        words, in_loop = _words(value.type), self._tree.homes[value].loop is not None
        in_memory = in_loop or self._tree.handed
        price = (KEEP + KEEP_WORD * words) * self._wishes.keeping if in_memory else KEEP_IN_ARM * words
        unwanted = self._wishes.prefer(value) == "recompute" or isinstance(value.type, Pointer)
        if value in self._tree.calls:
            return (HANDING + price) * (FORBIDDING if unwanted or self._wishes.runs_calls_again else 1)
        if unwanted or (in_loop and self._tree.is_fixed(value)):
            return price * FORBIDDING
        if holds_array(value.type):
            return price * ARRAY
        scalar = scalar_of(value.type)
        integer = op is not None and scalar is not None and scalar.kind != "float"
        return price * (INTEGER if integer and self._follows(value) else 1)

    def _follows(self, value: Value) -> bool:
        """Whether a value can be computed again from indices and other values at hand."""
        follows, todo = self._following, [value]
        while todo:
            op = self._repeatable(todo[-1])
            needed = [] if op is None else [v for v in op.operands if not self._tree.is_at_hand(v)]
            before = [v for v in needed if v not in follows]
            if not before:
                follows[todo.pop()] = op is not None and all(follows[v] for v in needed)
            todo += before
        return follows[value]

    def _repeatable(self, value: Value) -> Op | None:
        """The op that makes a value, if the reverse sweep may run it again."""
        op = self._tree.makers.get(value)
        if op is None:
            return self._tree.calls.get(value)
        if op.name not in PRIMITIVES:
            return op if op.name == "call" and self._may_call_again(op) else None
        if primitive_effect(op.name, op.operands) != PURE:
            return None
        if holds_array(value.type) and op.name not in MAKES_SMALL_ARRAYS and not self._tree.is_view(value):
            return None
        return op if all(map(self._is_readable, op.operands)) else None

    def _may_call_again(self, op: Op) -> bool:
        return self._wishes.may_repeat(op) or self._wishes.reads_again(op) is not None

    def _is_readable(self, operand: Value) -> bool:
        """Whether an operand may be had again: it is no tape, and no array that is overwritten."""
        if not holds_array(operand.type):
            return True
        if self._tree.is_at_hand(operand):
            return self._tree.is_view(operand) or self._tree.is_constant(operand)
        return not is_tape(operand.type)


def _numbers(t: Type) -> int:
    """How many numbers an op on scalars, vectors or matrices computes."""
    scalar = scalar_of(t)
    return 1 if scalar is None else layout_of(t).size // scalar.size


def _idle_calls(tree: LoopTree, needs: Iterable[Value]) -> set[Op]:
    """Calls whose results only the reverse sweep uses: running such a function again is to run it once."""
    idle: set[Op] = set()
    region, used = tree.top.region, set(needs)
    if tree.handed:
        used.update(region.yields)
    for op in reversed(region.ops):
        unused = used.isdisjoint(op.results)
        if op in tree.residuals and unused:
            idle.add(op)
        if op.name in PRIMITIVES and op.results and unused:
            continue
        used.update(op.operands)
        for inner in op.regions:
            used.update(free_values(inner))
    return idle


def _words(t: Type) -> int:
    """The size of a value in 4 bytes; a huge number if it is unbounded."""
    return -(-layout_of(t).size // 4) if may_be_handed(t) else FORBIDDING


_NOT_AGAIN = {
    "if": "it comes out of a branch",
    "for": "it comes out of a loop",
    "while": "it comes out of a loop",
    "load": "it was read from memory, which may have changed",
    "call": "it comes from a function that is not run again",
}


def _reason_of_op(maker: Op) -> str:
    if maker.name in PRIMITIVES and primitive_effect(maker.name, maker.operands) != PURE:
        return f"'{maker.name}' is not done twice"
    return "it is made of an array that is overwritten"


def _reason_of_parameter(value: Value, loop: Loop | None) -> str:
    if loop is not None and loop.op.attributes.get("segmented"):
        return "a state from which a segment of the loop is run again"
    if loop is not None and value in loop.body.parameters:
        return "the loop carries it from one iteration to the next"
    return "the number of iterations is known only after the loop"


class _Routes:
    """How kept values get out of arms and loops."""

    def __init__(self, tree: LoopTree, result: ResidualPlan) -> None:
        self._tree = tree
        self._plan = result

    def add(self, value: Value) -> None:
        place = self._tree.homes[value]
        while place.op is not None and place.op.name == "if":
            self._plan.lifted.setdefault(place.op, []).append(value)
            assert place.outer is not None
            place = place.outer
        loop = place.loop
        if loop is None:
            return
        self._plan.taped.setdefault(loop, []).append(value)
        self._plan.slot_types[value] = array(value.type, fixed_length(loop))
        self._pass_through(loop.op, value)
        self._pass_around(loop.home, value)
        self._position(loop)

    def _position(self, loop: Loop) -> None:
        """An inner loop whose runs differ in length has its position carried, and each run's begin kept."""
        if self._tree.is_linear(loop) or loop in self._plan.counted:
            return
        self._plan.counted.add(loop)
        self._plan.slot_types[loop.next] = loop.next.type
        self._pass_around(loop.home, loop.next)
        self._plan.keep[loop.base] = "runs of the inner loop differ in length; this says where each begins"
        self.add(loop.base)

    def _pass_around(self, place: RegionNode, slot: Value) -> None:
        inner: RegionNode | None = place
        while inner is not None and inner.op is not None:
            self._pass_through(inner.op, slot)
            inner = inner.outer

    def _pass_through(self, op: Op, slot: Value) -> None:
        self._plan.slots.setdefault(op, []).append(slot)


def fixed_length(loop: Loop) -> int | None:
    """How often the body runs in all at most; None where that is not known, or too much for a fixed array."""
    runs, exact, around = 1, True, loop
    while around.most is not None:
        runs, exact = runs * max(around.most, 1), exact and around.constant is not None
        if around.outer is None:
            return runs if runs <= (FIXED_TAPE if exact else LOOSE_TAPE) else None
        around = around.outer
    return None
