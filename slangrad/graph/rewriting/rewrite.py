"""Rewriting: rules that always pay, from inputs to outputs, until none applies; then those that pay by cost.

    rewritten([y])      the same values, by fewer and cheaper nodes

The cost of a choice comes from fusing both sides with their surroundings: nodes that only the old side needs, and
the kernels that read the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.node import Node, in_order, new_input, with_inputs
from slangrad.graph.ir.ops import base_of, is_view, kind_of
from slangrad.graph.rewriting.choices import CHOICES, WIDER, Choice, Graph
from slangrad.graph.rewriting.copies import with_copies
from slangrad.graph.rewriting.fuse import Fusion
from slangrad.graph.rewriting.rules import COMMUTATIVE, FUNCTIONS, PATTERNS, Rule, divided_once, number

MOST_STEPS = 20  # rules that follow each other at one place
MOST_NEAR = 40  # readers that are looked at for the price of a choice
LEAST_GAIN = 0.999  # of the time before
NOTHING: Mapping[Node, Node] = {}
ALL = [rule for rule, _ in CHOICES]


class Rewriter:
    """`fast_math`: rules, too, that give other results for infinities, NaN and zeros."""

    def __init__(self, machine: MachineRates | None = None, fast_math: bool = False) -> None:
        self._machine = machine or MachineRates()
        self._new: dict[Node, Node] = {}
        self._stand_ins: dict[object, Node] = {}
        self._seconds: dict[tuple[Node, ...], float] = {}
        self._rules: dict[str, list[Rule]] = {}
        self._fast_math = fast_math
        for rule in PATTERNS:
            self._rules.setdefault(rule.pattern.op, []).append(rule)

    def simplified(self, outputs: Sequence[Node], chosen: Mapping[Node, Node] = NOTHING) -> list[Node]:
        """The outputs after all rules that always pay, and those chosen."""
        new: dict[Node, Node] = {}
        for node in in_order(outputs, lambda n: (chosen[n],) if n in chosen else n.inputs):
            if node in chosen:
                new[node] = new[chosen[node]]
            else:
                new[node] = self._enter(with_inputs(node, tuple(new[x] for x in node.inputs)))
        return [new[output] for output in outputs]

    def rewritten(self, outputs: Sequence[Node]) -> list[Node]:
        """The outputs after all rules."""
        simpler = self.simplified(outputs)
        while chosen := self._paying(Graph(simpler)):
            simpler = self.simplified(simpler, chosen)
        return simpler

    # --- rules that always pay

    def _enter(self, root: Node) -> Node:
        """The node after all rules. Nodes that a rule made are rewritten, too."""
        new = self._new
        if root in new:
            return new[root]
        node = with_inputs(root, tuple(map(self._enter, root.inputs)))
        for _ in range(MOST_STEPS):
            right = self._replaced(node)
            if right is None or right is node:
                break
            for fresh in in_order([right], lambda n: () if n in new else n.inputs):
                fresh.place = fresh.place if fresh in new else root.place
            node = new[right] if right in new else with_inputs(right, tuple(map(self._enter, right.inputs)))
        new[root] = new[node] = node
        return node

    def _replaced(self, node: Node) -> Node | None:
        for function in FUNCTIONS:
            result = function(node)
            if result is not None:
                return result.node
        without_fast = not self._fast_math and node.dtype.kind not in "iu"
        for rule in self._rules.get(node.op, ()):
            if rule.fast and without_fast:
                continue
            for bound in _unified(rule.pattern, node, {}):
                right: Array = rule.right(*(Array(bound[variable]) for variable in rule.variables))
                return right.astype(node.dtype).broadcast_to(node.shape).node
        return None

    # --- rules that pay by cost

    def _paying(self, graph: Graph) -> dict[Node, Node]:
        """Choices that pay and do not touch each other. A choice of several nodes makes some of them
        depend on inputs of others. Two such choices have no places in common, so no cycle comes from them."""
        chosen, touched, end = dict[Node, Node](), set[Node](), -1
        for node in graph.index:
            for replaced in self.choices(node, graph):
                old, new, region = self.prices(graph, replaced)
                first, last = _span(replaced, graph.index) if len(replaced) > 1 else (end + 1, end)
                if new < LEAST_GAIN * old and touched.isdisjoint(region) and first > end:
                    chosen |= replaced
                    touched |= region
                    end = last
                    break
        return chosen

    def choices(self, node: Node, graph: Graph, rules: Sequence[Choice] = ALL) -> Iterator[dict[Node, Node]]:
        """The replacements that rules offer at a node: old nodes, and the new ones."""
        has_room = self._fast_math or node.dtype != np.float16
        for rule in rules if has_room else [rule for rule in rules if rule not in WIDER]:
            for replaced in rule(node, graph):
                values = [self._enter(array.node) for array in replaced.values()]
                changed = {old: new for old, new in zip(replaced, values, strict=True) if old is not new}
                if changed:
                    yield changed

    def prices(self, graph: Graph, replaced: dict[Node, Node]) -> tuple[float, float, set[Node]]:
        """Seconds of the kernels before and after a replacement, of those that are others then, and their nodes."""
        readers, fresh = graph.readers, _fresh(replaced.values(), graph.index)
        needed = {x for node in fresh for x in node.inputs} | set(replaced.values())
        gone = _only_for(replaced, readers, graph.outputs | needed)
        near = _near(replaced, readers)
        inside = {*replaced, *gone, *near, *fresh}
        ends = [n for n in (*replaced, *near) if n in graph.outputs or not inside.issuperset(readers[n])]
        old, new = (self.seconds(self._region(ends, inside, values)) for values in ({}, replaced))
        return old, new, inside | needed

    def _region(self, ends: Sequence[Node], inside: set[Node], replaced: Mapping[Node, Node]) -> list[Node]:
        """A part of a graph, with inputs in place of nodes outside. These have numbers, so equal parts are one."""
        new: dict[Node, Node] = {}
        numbers = count()

        def cut(node: Node) -> Node:
            if node in replaced and node not in new:
                new[node] = cut(replaced[node])
            elif node not in new:
                if node.op in ("constant", "count"):
                    new[node] = node
                elif node in inside or is_view(node):
                    new[node] = with_inputs(node, tuple(map(cut, node.inputs)))
                else:
                    key = next(numbers), node.shape, node.dtype
                    new[node] = self._stand_ins.setdefault(key, new_input(*key[1:]))
            return new[node]

        return [cut(end) for end in ends]

    def seconds(self, outputs: Sequence[Node]) -> float:
        """Seconds of the kernels of a graph, by the cost model."""
        roots = tuple(node for node in dict.fromkeys(map(base_of, outputs)) if node.inputs)
        if roots not in self._seconds:
            fusion = roots and Fusion(with_copies(roots, {}), {}, self._machine)
            self._seconds[roots] = fusion.seconds if fusion else 0.0
        return self._seconds[roots]


def rewritten(outputs: Sequence[Node], fast_math: bool = False) -> list[Node]:
    """The outputs after all rules."""
    return divided_once(Rewriter(fast_math=fast_math).rewritten(outputs))


def _fresh(roots: Iterable[Node], index: Mapping[Node, int]) -> dict[Node, None]:
    """The nodes of other graphs without an entry."""
    fresh, left = dict[Node, None](), list(roots)
    while left:
        node = left.pop()
        if node not in index and node not in fresh:
            fresh[node] = None
            left += node.inputs
    return fresh


def _span(replaced: dict[Node, Node], index: Mapping[Node, int]) -> tuple[int, int]:
    """The first and the last place of the nodes that are replaced, and of those that their values read."""
    read = [x for node in _fresh(replaced.values(), index) for x in node.inputs]
    places = [index[x] for x in (*replaced, *replaced.values(), *read) if x in index]
    return min(places), max(places)


def _only_for(
    replaced: dict[Node, Node], readers: Mapping[Node, Sequence[Node]], kept: set[Node]
) -> dict[Node, None]:
    """The nodes that no other node needs than those that are replaced."""
    gone: dict[Node, None] = {}
    left = [x for node in replaced for x in node.inputs]
    while left:
        node = left.pop()
        is_read = any(reader not in replaced and reader not in gone for reader in readers[node])
        if not is_read and node.inputs and node not in kept and node not in gone:
            gone[node] = None
            left += node.inputs
    return gone


def _near(replaced: dict[Node, Node], readers: Mapping[Node, Sequence[Node]]) -> dict[Node, None]:
    """The kernels that read the replaced nodes, through maps and views."""
    near: dict[Node, None] = {}
    left = [reader for node in replaced for reader in readers[node]]
    while left and len(near) < MOST_NEAR:
        node = left.pop(0)
        if node not in near and node not in replaced:
            near[node] = None
            left += readers[node] if kind_of(node) in ("map", "view") else ()
    return near


def _unified(pattern: Node, node: Node, bound: dict[Node, Node]) -> Iterator[dict[Node, Node]]:
    """All ways to bind the variables of a pattern to nodes."""
    if pattern.op == "input":
        if bound.get(pattern, node) is node:
            yield {**bound, pattern: node}
    elif pattern.op == "constant":
        value = number(node)
        wanted = number(pattern)
        is_zero = wanted == 0 and value is not None and value.dtype.kind == "f"
        if (
            value is not None
            and value == wanted
            and not (is_zero and np.signbit(value) != np.signbit(wanted))
        ):
            yield bound
    elif pattern.op == node.op:
        orders = [node.inputs, node.inputs[::-1]] if node.op in COMMUTATIVE else [node.inputs]
        for inputs in orders:
            yield from _all_unified(pattern.inputs, inputs, bound)


def _all_unified(
    patterns: Sequence[Node], nodes: Sequence[Node], bound: dict[Node, Node]
) -> Iterator[dict[Node, Node]]:
    if not patterns:
        yield bound
        return
    for extended in _unified(patterns[0], nodes[0], bound):
        yield from _all_unified(patterns[1:], nodes[1:], extended)
