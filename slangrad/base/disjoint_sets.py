"""Disjoint sets of objects, which are joined and have a representative each (union-find).

sets = DisjointSets()
sets.join((a, b));  sets.join((b, c))        sets.find(c) is a
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class DisjointSets(Generic[Item]):
    """An object that was never joined is a set by itself."""

    def __init__(self) -> None:
        self._parent: dict[Item, Item] = {}

    def find(self, item: Item) -> Item:
        """The representative of an object's set."""
        root = item
        while root in self._parent:
            root = self._parent[root]
        while item is not root:
            self._parent[item], item = root, self._parent[item]
        return root

    def join(self, items: Iterable[Item]) -> None:
        """Make one set of the sets of all items; the first one's representative stays."""
        first: Item | None = None
        for item in items:
            root = self.find(item)
            if first is not None and root is not first:
                self._parent[root] = first
            first = root if first is None else first
