"""Walking and copying an AST without knowing its nodes.

In: any node.   Out: its children, everything below it, or a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TypeVar

from slangrad.syntax.ast import Node

AnyNode = TypeVar("AnyNode", bound=Node)

_NOT_CHILDREN = {"span", "name", "name_span", "type", "ref", "conversion", "checked", "parent", "source"}


def child_fields(kind: type[Node]) -> tuple[str, ...]:
    """The fields of a node class that may hold nodes; attributes and generics come first."""
    return tuple(name for name in kind.__dataclass_fields__ if name not in _NOT_CHILDREN)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in the order of `child_fields`."""
    for name in child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, Node):
                    yield each


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first; needs no recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(children(current))))


def duplicate(node: AnyNode) -> AnyNode:
    """The node and everything below it once more; spans are shared."""
    twin = copy(node)
    for name in child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            setattr(twin, name, duplicate(value))
        elif isinstance(value, list):
            setattr(twin, name, [duplicate(each) if isinstance(each, Node) else each for each in value])
    return twin
