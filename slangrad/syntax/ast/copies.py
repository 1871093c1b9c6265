"""Copies of an AST.

duplicate(node)       the node and everything below it once more; spans are shared
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from slangrad.base.records import OfClass, fields_of

AnyNode = TypeVar("AnyNode")
Twins = dict[object, object]  # the parent of a node; its children get the copy as parent
Copier = Callable[[OfClass, Twins], object]

_NOT_CHILDREN = {
    "span",
    "name",
    "name_span",
    "type",
    "ref",
    "conversion",
    "checked",
    "parent",
    "saved",
    "source",
    "handler",
    "pack_element",
    "parts",
    "part_of",
}


def child_fields(kind: type[object]) -> tuple[str, ...]:
    """The fields of a node class that may hold nodes; attributes and generics come first."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(name for name in fields_of(kind) if name not in _NOT_CHILDREN)
    return _FIELDS[kind]


def copy_by_fields(kind: type[object]) -> None:
    """Nodes of a class are copied; values of all others are shared."""
    _NODES.add(kind)


def duplicate(node: AnyNode) -> AnyNode:
    """The node and everything below it once more."""
    return cast("AnyNode", _COPIERS[type(node)](node, {}))


def unchecked(node: object) -> None:
    """Forget the meaning that `check` has given a copied node."""
    for name in _MEANINGS.intersection(fields_of(type(node))):
        setattr(node, name, None)


class _Copiers(dict[type[object], Copier]):
    """How values of each class are copied. Those of nodes are written out field by field, as `__init__`
    is."""

    def __missing__(self, kind: type[object]) -> Copier:
        copier = self[kind] = self._copier(kind) if kind in _NODES else _itself
        return copier

    def _copier(self, kind: type[object]) -> Copier:
        fields, inner = fields_of(kind), child_fields(kind)
        lines = ["def copier(node, twins):", " twin = new(kind)"]
        lines += [f" twin.{name} = node.{name}" for name in fields if name not in inner]
        if "parent" in fields:
            lines += [" twins[node] = twin", " twin.parent = twins.get(node.parent, node.parent)"]
            lines += [" twin.saved = None"]
        for name in inner:
            copied = "copiers[value.__class__](value, twins)"
            lines += [f" value = node.{name}", f" twin.{name} = None if value is None else {copied}"]
        names: dict[str, object] = {"new": kind.__new__, "kind": kind, "copiers": self}
        exec("\n".join([*lines, " return twin"]), names)
        return cast("Copier", names["copier"])


def _itself(value: object, twins: Twins) -> object:
    return value


def _list(values: list[object], twins: Twins) -> list[object]:
    return [_COPIERS[value.__class__](value, twins) for value in values]


_MEANINGS = {"type", "ref", "conversion", "checked"}
_FIELDS: dict[type[object], tuple[str, ...]] = {}
_NODES: set[type[object]] = set()
_COPIERS = _Copiers({list: _list})
