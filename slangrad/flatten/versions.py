"""Arrays that are versions of one another: an element written, a branch, a loop.

    %b = set_index %a, %i, %x                    {a, b}
    %r = for %n, %b (%i, %p) { ... yield %q }    {a, b, p, q, r}

`ArrayVersions` puts the arrays of a function into such classes. Zeros belong to none, as many arrays begin with
one zero. In some of them, no element is read before it is written.
"""

from __future__ import annotations

from slangrad.base.disjoint_sets import DisjointSets
from slangrad.ir.data.types import Array
from slangrad.ir.ops.control import versions
from slangrad.ir.ops.core import Function, Op, Value, walk

UPDATES = frozenset({"set", "set_index", "add_index"})


class ArrayVersions(DisjointSets[Value]):
    """The classes of the arrays of a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        ops = list(walk(function.region))
        zeros = {op.results[0]: op for op in ops if op.name == "zero"}
        self.zeros = set(zeros)
        self.written_first = {v for v, op in zeros.items() if op.attributes.get("written_first")}
        for op in ops:
            for group in groups(op) if op.regions or op.name in UPDATES else ():
                if isinstance(group[0].type, Array):
                    self.join(v for v in group if v not in self.zeros)


def groups(op: Op) -> list[tuple[Value, ...]]:
    """Values around an op that are one value, or versions of one."""
    if op.name in UPDATES:
        return [(op.operands[0], op.results[0])]
    return versions(op) if op.regions else []
