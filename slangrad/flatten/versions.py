"""Arrays that are versions of one another: an element written, a branch, a loop.

    %b = set_index %a, %i, %x                    {a, b}
    %r = for %n, %b (%i, %p) { ... yield %q }    {a, b, p, q, r}

`ArrayVersions` puts the arrays of a function into such classes. Zeros belong to none, as many arrays begin with
one zero; of some of them nobody reads what was not written.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.ir.data.types import Array
from slangrad.ir.ops.control import versions
from slangrad.ir.ops.core import Function, Op, Value, walk

UPDATES = frozenset({"set", "set_index", "add_index"})


class ArrayVersions:
    """A union-find over the arrays of a function."""

    def __init__(self, function: Function) -> None:
        self._parent: dict[Value, Value] = {}
        ops = list(walk(function.region))
        zeros = {op.results[0]: op for op in ops if op.name == "zero"}
        self.zeros = set(zeros)
        self.written_first = {v for v, op in zeros.items() if op.attributes.get("written_first")}
        for op in ops:
            for group in groups(op) if op.regions or op.name in UPDATES else ():
                if isinstance(group[0].type, Array):
                    self._join(v for v in group if v not in self.zeros)

    def find(self, value: Value) -> Value:
        """The value that stands for the class."""
        root = value
        while root in self._parent:
            root = self._parent[root]
        while value is not root:
            self._parent[value], value = root, self._parent[value]
        return root

    def _join(self, values: Iterable[Value]) -> None:
        first: Value | None = None
        for value in values:
            root = self.find(value)
            if first is not None and root is not first:
                self._parent[root] = first
            first = first or root


def groups(op: Op) -> list[tuple[Value, ...]]:
    """Values around an op that are one value, or versions of one."""
    if op.name in UPDATES:
        return [(op.operands[0], op.results[0])]
    return versions(op) if op.regions else []
