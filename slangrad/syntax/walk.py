"""Walking and copying an AST without knowing its nodes.

In: any node.   Out: its children, everything below it, or a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    "parts",
    "part_of",
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
    twin: AnyNode = _COPIERS[type(node)](node, {})
    return twin


Twins = dict[Declaration, Declaration]  # what encloses a node, whose children get its twin as parent
Copier = Callable[[Any, Twins], Any]


class _Copiers(dict[type[Any], Copier]):
    """How values of each class are copied. Those of nodes are written out field by field, as dataclasses write
    `__init__`: each program has a copy of the standard library, some ten thousand nodes."""

    def __missing__(self, kind: type[Any]) -> Copier:
        is_copied = issubclass(kind, Node) and kind is not Unparsed
        made = self[kind] = self._copier(kind) if is_copied else _itself
        return made

    def _copier(self, kind: type[Node]) -> Copier:
        inner = child_fields(kind)
        lines = ["def copier(node, twins):", " twin = new(kind)"]
        lines += [f" twin.{name} = node.{name}" for name in kind.__dataclass_fields__ if name not in inner]
        if issubclass(kind, Declaration):
            lines += [" twins[node] = twin", " twin.parent = twins.get(node.parent, node.parent)"]
        for name in inner:
            copied = "copiers[value.__class__](value, twins)"
            lines += [f" value = node.{name}", f" twin.{name} = None if value is None else {copied}"]
        names: dict[str, Any] = {"new": kind.__new__, "kind": kind, "copiers": self}
        exec("\n".join([*lines, " return twin"]), names)
        made: Copier = names["copier"]
        return made


def _itself(value: Any, twins: Twins) -> Any:
    return value


def _list(values: list[Any], twins: Twins) -> list[Any]:
    return [_COPIERS[each.__class__](each, twins) for each in values]


_COPIERS = _Copiers({list: _list})
