"""Copies of an AST: at once, or field by field when they are asked for.

    duplicate(node)       the node and everything below it once more
    late_copy(module)     the same to whoever looks at it, but what nobody looks at is not copied

Each program has a copy of the standard library, some ten thousand nodes, and most programs look at few of them. Spans
are shared, and bodies that are not parsed yet.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

from slangrad.base.forks import BRIEF, kept_at_fork

AnyNode = TypeVar("AnyNode")
Twins = dict[Any, Any]  # what encloses a node, whose children get its twin as parent
Copier = Callable[[Any, Twins], Any]

_NOT_CHILDREN = {
    "span",
    "name",
    "name_span",
    "type",
    "ref",
    "conversion",
    "checked",
    "parent",
    "original",
    "source",
    "handler",
    "pack_element",
    "parts",
    "part_of",
}

_AT_HAND = ("modifiers",)  # text that everybody asks for: a late copy has it at once


def child_fields(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a node class that may hold nodes; attributes and generics come first."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(name for name in kind.__dataclass_fields__ if name not in _NOT_CHILDREN)
    return _FIELDS[kind]


def copy_by_fields(kind: type[Any]) -> None:
    """Nodes of a class are copied; values of all others are shared."""
    _NODES.add(kind)


def duplicate(node: AnyNode) -> AnyNode:
    """The node and everything below it once more."""
    twin: AnyNode = _AT_ONCE[type(node)](node, {})
    return twin


def late_copy(declaration: AnyNode) -> AnyNode:
    """A declaration whose fields are copied when they are first asked for. The original must not change anymore."""
    twin: AnyNode = _LATE[type(declaration)](declaration, {})
    return twin


def late_field(twin: Any, name: str) -> Any:
    """A field that a late copy does not have yet. AttributeError where it has no such field."""
    original = None if name == "original" else twin.original
    if original is None or name not in type(twin).__dataclass_fields__:
        raise AttributeError(f"{type(twin).__name__!r} object has no attribute {name!r}")
    with _LOCK:
        try:
            return object.__getattribute__(twin, name)  # another thread was faster
        except AttributeError:
            value = getattr(original, name)
            made = _LATE[type(value)](value, _twins_around(original, twin))
            setattr(twin, name, made)
            return made


def _twins_around(original: Any, twin: Any) -> Twins:
    found: Twins = {}
    while original is not None:
        found[original] = twin
        original, twin = original.parent, twin.parent
    return found


class _Copiers(dict[type[Any], Copier]):
    """How values of each class are copied. Those of nodes are written out field by field, as dataclasses write
    `__init__`."""

    def __init__(self, late: bool) -> None:
        super().__init__({list: self._list})
        self._late = late

    def __missing__(self, kind: type[Any]) -> Copier:
        made = self[kind] = self._copier(kind) if kind in _NODES else _itself
        return made

    def _list(self, values: list[Any], twins: Twins) -> list[Any]:
        return [self[each.__class__](each, twins) for each in values]

    def _copier(self, kind: type[Any]) -> Copier:
        fields, inner = kind.__dataclass_fields__, child_fields(kind)
        is_declaration = "original" in fields
        lines = ["def copier(node, twins):", " twin = new(kind)"]
        lines += [f" twin.{name} = node.{name}" for name in fields if name not in inner]
        if is_declaration:
            lines += [" twins[node] = twin", " twin.parent = twins.get(node.parent, node.parent)"]
            lines += [f" twin.original = {'node' if self._late else None}"]
        for name in _AT_HAND if is_declaration and self._late else inner:
            copied = "copiers[value.__class__](value, twins)"
            lines += [f" value = node.{name}", f" twin.{name} = None if value is None else {copied}"]
        names: dict[str, Any] = {"new": kind.__new__, "kind": kind, "copiers": self}
        exec("\n".join([*lines, " return twin"]), names)
        made: Copier = names["copier"]
        return made


def _itself(value: Any, twins: Twins) -> Any:
    return value


_FIELDS: dict[type[Any], tuple[str, ...]] = {}
_NODES: set[type[Any]] = set()
_AT_ONCE = _Copiers(late=False)
_LATE = _Copiers(late=True)
_LOCK = kept_at_fork(RLock(), BRIEF)
