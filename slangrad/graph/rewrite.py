"""Rewriting: the rules of `rules.py`, from inputs to outputs, until none applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slangrad.graph.array import Array
from slangrad.graph.node import Node, topological_order, with_inputs
from slangrad.graph.rules import COMMUTATIVE, FUNCTIONS, PATTERNS, Rule, number

MOST_STEPS = 20  # rules that follow each other at one place
_BY_OP: dict[str, list[Rule]] = {}
for _rule in PATTERNS:
    _BY_OP.setdefault(_rule.pattern.op, []).append(_rule)


def rewritten(outputs: Sequence[Node]) -> list[Node]:
    """The outputs after all rules."""
    new: dict[Node, Node] = {}
    for node in topological_order(*outputs):
        _enter(node, new)
    return [new[each] for each in outputs]


def _enter(root: Node, new: dict[Node, Node]) -> Node:
    """The node after all rules. Nodes that a rule made are rewritten, too."""
    if root in new:
        return new[root]
    node = with_inputs(root, tuple(_enter(each, new) for each in root.inputs))
    for _ in range(MOST_STEPS):
        made = _replaced(node)
        if made is None or made is node:
            break
        for each in topological_order(made):
            each.place = each.place if each in new else root.place
        node = (
            new[made] if made in new else with_inputs(made, tuple(_enter(each, new) for each in made.inputs))
        )
    new[root] = new[node] = node
    return node


def _replaced(node: Node) -> Node | None:
    for function in FUNCTIONS:
        made = function(node)
        if made is not None:
            return made.node
    for rule in _BY_OP.get(node.op, ()):
        for bound in _matches(rule, node):
            right: Array = rule.right(*(Array(bound[each]) for each in rule.variables))
            return right.astype(node.dtype).broadcast_to(node.shape).node
    return None


def _matches(rule: Rule, node: Node) -> Iterator[dict[Node, Node]]:
    return _unified(rule.pattern, node, {})


def _unified(pattern: Node, node: Node, bound: dict[Node, Node]) -> Iterator[dict[Node, Node]]:
    """How the variables of a pattern can be bound."""
    if pattern.op == "input":
        if bound.get(pattern, node) is node:
            yield {**bound, pattern: node}
        return
    if pattern.op == "constant":
        value = number(node)
        if value is not None and value == number(pattern):
            yield bound
        return
    if pattern.op != node.op:
        return
    orders = [node.inputs, node.inputs[::-1]] if node.op in COMMUTATIVE else [node.inputs]
    for inputs in orders:
        yield from _all_unified(pattern.inputs, inputs, bound)


def _all_unified(
    patterns: Sequence[Node], nodes: Sequence[Node], bound: dict[Node, Node]
) -> Iterator[dict[Node, Node]]:
    if not patterns:
        yield bound
        return
    for found in _unified(patterns[0], nodes[0], bound):
        yield from _all_unified(patterns[1:], nodes[1:], found)
