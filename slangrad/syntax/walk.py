"""Walking and copying an AST without knowing its nodes.

In: any node.   Out: its children, everything below it, or a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from slangrad.syntax.ast import Declaration, Node, Unparsed

AnyNode = TypeVar("AnyNode", bound=Node)

_NOT_CHILDREN = {
    "span",
    "name",
    "name_span",
    "type",
    "ref",
    "conversion",
    "checked",
    "parent",
    "source",
    "handler",
    "pack_element",
}


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
    """The node and everything below it once more. Spans are shared, and bodies that are not parsed yet."""
    twin: AnyNode = _twin(node, {})
    return twin


def _twin(node: Any, twins: dict[Declaration, Declaration]) -> Any:
    """`twins` has what encloses the node, whose children get its twin as parent."""
    kind: Any = type(node)
    if kind is Unparsed:
        return node
    twin = kind.__new__(kind)
    kept, inner = _fields(kind)
    for name in kept:
        setattr(twin, name, getattr(node, name))
    if isinstance(node, Declaration):
        twins[node] = twin
        twin.parent = twins.get(node.parent, node.parent) if node.parent is not None else None
    for name in inner:
        value = getattr(node, name)
        if isinstance(value, Node):
            value = _twin(value, twins)
        elif isinstance(value, list):
            value = [_twin(each, twins) if isinstance(each, Node) else each for each in value]
        setattr(twin, name, value)
    return twin


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Fields of a class that twins share, and those that may hold nodes."""
    inner = child_fields(kind)
    return tuple(name for name in kind.__dataclass_fields__ if name not in inner), inner
