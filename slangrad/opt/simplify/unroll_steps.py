"""Write out loops that copy short arrays, if no other code needs these in memory.

    for 16 (%k, %a) { yield set_index %a, %k, (load (offset %w, %k)) }      16 loads, 16 values
    for 16 (%k) { atomic (offset %g, %k), (index %d, %k) }                  16 adds, each at a place of its own

In: code before aggregates are taken apart. A loop is written out if it indexes arrays, vectors or matrices by the
number of the iteration, to move or add their elements. All other run-time indices of the same arrays must be in
such loops, too, and all of them together must become few ops. unroll.py handles loops that compute.
"""

from __future__ import annotations

from collections.abc import Iterable

from slangrad.base.disjoint_sets import DisjointSets
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.types import Array, Type, is_aggregate, is_float, is_integer, scalar_of
from slangrad.ir.ops.control import constant_trips, versions
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.primitives import CONTROL, INEXACT
from slangrad.opt.simplify.iterations import written_out

MOST = 1024  # ops that all of them become
LONGEST = 64  # elements of an array that become values
EXPANSION = 60  # ops that a maths function is made of, about

INDEXING = frozenset({"index", "set_index", "add_index"})
FREE = frozenset({"const", "get", "detach"})
MOVING = FREE | INDEXING | CONTROL | {"zero", "set", "make", "splat", "load", "atomic", "convert", "select"}

Loops = frozenset[Op]


def unroll_steps(function: Function) -> Function:
    """The function with such loops written out. Dead code is gone before, so that sizes are what they will be."""
    chosen = _Steps(function).chosen()
    return _WriteOut(chosen).function(function) if chosen else function


def has_steps(function: Function) -> bool:
    """Whether there may be such loops."""
    return any(op.name == "for" and _moves(op) for op in walk(function.region))


class _WriteOut(Rebuild):
    def __init__(self, chosen: set[Op]) -> None:
        super().__init__({"for": self._for})
        self._chosen = chosen

    def _for(self, rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        if op not in self._chosen:
            return copy_op(rebuild, b, op)
        trips = b.constant_of(self.value(op.operands[0]))
        assert isinstance(trips, int)
        return written_out(self, b, op, trips)


def _moves(loop: Op) -> bool:
    """Whether a loop indexes arrays, and only moves elements or adds to memory."""
    indexes = adds = computes = False
    for op in walk(loop.regions[0]):
        indexes = indexes or op.name in INDEXING
        adds = adds or op.name == "atomic"
        computes = computes or (op.name not in MOVING and any(_holds_floats(r.type) for r in op.results))
    return indexes and (adds or not computes)


def _holds_floats(t: Type) -> bool:
    scalar = scalar_of(t)
    return scalar is not None and is_float(scalar)


class _Steps:
    """Arrays by class: versions or parts of one another. `_needed`: the loops whose numbers index a class,
    None where something else does."""

    def __init__(self, function: Function) -> None:
        self._makers = function.region.makers
        self._classes = DisjointSets[Value]()
        self._zeros = {
            op.results[0] for op in walk(function.region) if op.name == "zero"
        }  # the start of many arrays
        self._follows: dict[Value, Loops] = {}
        self._inside: dict[Op, Loops] = {}  # loops around a loop
        indexing = []
        for op in walk(function.region):
            self._join(op)
            self._note_numbers(op)
            if op.name in INDEXING:
                indexing.append(op)
        self._needed: dict[Value, Loops | None] = {}
        for op in indexing:
            self._need(op)

    def chosen(self) -> set[Op]:
        written_out_loops: set[Op] = set()
        for loops in self._needed.values():
            wanted = written_out_loops | (loops or set())
            outermost = [loop for loop in wanted if self._inside[loop].isdisjoint(wanted)]
            if loops and sum(self._size(loop, wanted) for loop in outermost) <= MOST:
                written_out_loops = wanted
        return written_out_loops

    # --- numbers of iterations

    def _note_numbers(self, op: Op) -> None:
        if op.name == "for":
            for inner in walk(op.regions[0]):
                if inner.name == "for":
                    self._inside[inner] = self._inside.get(inner, frozenset()) | {op}
            self._inside.setdefault(op, frozenset())
            if constant_trips(op, self._makers) is not None and _moves(op):
                self._follows[op.regions[0].parameters[0]] = frozenset({op})
        elif op.name == "const":
            self._follows[op.results[0]] = frozenset()
        elif len(op.results) == 1 and not op.regions and is_integer(op.results[0].type):
            parts = [self._follows.get(x) for x in op.operands]
            if parts and None not in parts:
                self._follows[op.results[0]] = frozenset[Op]().union(*(loops for loops in parts if loops))

    def _need(self, op: Op) -> None:
        root, loops = self._classes.find(op.operands[0]), self._follows.get(op.operands[1])
        loops_so_far = self._needed.get(root, frozenset())
        short = 0 < _elements(op.operands[0].type) <= LONGEST
        self._needed[root] = (
            None if loops_so_far is None or loops is None or not short else loops_so_far | loops
        )

    def _size(self, op: Op, chosen: set[Op]) -> int:
        """How many ops it becomes."""
        if not op.regions:
            return 0 if op.name in FREE else EXPANSION if op.name in INEXACT else 1
        size = 1 + sum(self._size(inner, chosen) for region in op.regions for inner in region.ops)
        return size * max(constant_trips(op, self._makers) or 0, 0) if op in chosen else size

    # --- classes

    def _join(self, op: Op) -> None:
        if op.regions:
            for group in versions(op):
                self._unite(group)
        elif op.name not in ("load", "zero"):
            self._unite((*op.results, *op.operands))

    def _unite(self, values: Iterable[Value]) -> None:
        self._classes.join(v for v in values if is_aggregate(v.type) and v not in self._zeros)


def _elements(t: Type) -> int:
    """Of an array, those of its rows counted together; 1 for vectors and matrices, 0 for tapes."""
    count = 1
    while isinstance(t, Array):
        count, t = count * (t.length or 0), t.element
    return count
