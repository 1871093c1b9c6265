"""Places in one arena: memory of nodes that are not alive together is shared.

Lifetimes go from the step that writes first to the step that reads last. Each gets the smallest gap that fits, in the
order that needs the least: by size, by size times lifetime, by lifetime, by start, and orders near these. An array
that is only copied into a part of a larger one is written there at once. Maps and rows are written over an input that
nothing reads afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod
from operator import itemgetter
from random import Random

import numpy as np

import slangrad as spy
from slangrad.graph.ir.devices import places_of
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import joined
from slangrad.graph.ir.node import Node
from slangrad.graph.lowering.emit import RESULT
from slangrad.graph.lowering.steps import Holder, KernelStep, MemoryPart, PlanStep, ProductStep

ALIGNMENT = 64
MOST_TRIES, MOST_WORK = 400, 1_500_000  # orders that are tried, and pairs that are compared in all of them
Spans = dict[Holder, tuple[int, int]]  # the first and the last step


@dataclass(frozen=True, slots=True)
class HolderLifetimes:
    """`spans` of holders that have a place of their own; `within`: of others, the holder that they lie in or that
    takes their place, and the bytes before them. `needless`: the numbers of copies to there. `alive`: the bytes at each
    step, with these copies. `live`: the most of them, which no order of places can undercut."""

    spans: Spans
    needless: set[int]
    within: dict[Holder, tuple[Holder, int]]
    alive: list[int]

    @property
    def live(self) -> int:
        return max(self.alive, default=0)


@dataclass(frozen=True, slots=True)
class ArenaPlan:
    """Offsets and the size are bytes. `steps`: those without needless copies."""

    offsets: dict[Holder, int]
    size: int
    steps: list[PlanStep]


def bytes_of(holder: Holder) -> int:
    """Bytes in the arena."""
    size = max(1, prod(holder.shape)) * holder.dtype.itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT


def spans_of(steps: Sequence[PlanStep], outside: set[Holder]) -> Spans:
    """Lifetimes of holders without memory of their own."""
    spans: Spans = {}
    for i, step in enumerate(steps):
        for part in step.parts:
            if part.holder not in outside:
                spans[part.holder] = spans.get(part.holder, (i, i))[0], i
    return spans


def alive(spans: Mapping[Node, tuple[int, int]] | Spans, count: int) -> list[int]:
    """The bytes that are alive at each step."""
    changes = [0] * (count + 1)
    for holder, (start, stop) in spans.items():
        changes[start] += bytes_of(holder)
        changes[stop + 1] -= bytes_of(holder)
    return list(accumulate(changes))[:-1]


def lifetimes(steps: Sequence[PlanStep], outside: set[Holder]) -> HolderLifetimes:
    """`outside`: holders with memory of their own."""
    spans = spans_of(steps, outside)
    needless, within = _merged(steps, spans)
    within |= _overwritten(steps, spans)
    return HolderLifetimes(spans, needless, within, alive(spans, len(steps)))


def arena(steps: Sequence[PlanStep], outside: set[Holder]) -> ArenaPlan:
    """`outside`: holders with memory of their own."""
    lives = lifetimes(steps, outside)
    spans, needless, within = lives.spans, lives.needless, lives.within
    holders = list(spans)
    sizes = [bytes_of(holder) for holder in holders]
    places = _best(list(spans.values()), sizes, lives.live)
    size = max((at + n for at, n in zip(places, sizes, strict=True)), default=0)
    offsets = dict(zip(holders, places, strict=True))
    for inner in reversed(within):  # an array inside of another one comes after it
        other, start = within[inner]
        offsets[inner] = offsets[other] + start
    return ArenaPlan(offsets, size, [step for i, step in enumerate(steps) if i not in needless])


def _merged(steps: Sequence[PlanStep], spans: Spans) -> tuple[set[int], dict[Holder, tuple[Holder, int]]]:
    """Copies that are needless if their source lies in the part of the target that they write. Gives their numbers,
    and for each such source the target, and the bytes before that part. Lifetimes of targets begin with those of
    their sources; these have none of their own."""
    copies = [(i, step) for i, step in enumerate(steps) if isinstance(step, KernelStep) and step.copies]
    targets = {step.writes[RESULT].holder for _, step in copies}
    uses: dict[Holder, list[int]] = {target: [] for target in targets}
    for i, step in enumerate(steps) if copies else ():
        for holder in targets.intersection(part.holder for part in step.parts):
            uses[holder].append(i)
    needless: set[int] = set()
    within: dict[Holder, tuple[Holder, int]] = {}
    for i, step in copies:
        (source,), target = step.reads.values(), step.writes[RESULT]
        inner, whole = source.holder, target.holder
        if not {inner, whole} <= spans.keys() or spans[inner][1] > i or not _is_run(source, target):
            continue
        first, last = spans[inner][0], spans[whole][1]
        if any(_is_other(steps[j], whole) for j in uses[whole] if first <= j < i):
            continue
        needless.add(i)
        within[inner] = whole, target.layout.offset * whole.dtype.itemsize
        spans[whole] = min(first, spans[whole][0]), last
        del spans[inner]
    return needless, within


def _overwritten(steps: Sequence[PlanStep], spans: Spans) -> dict[Holder, tuple[Holder, int]]:
    """Holders that a kernel reads last, each with the result that the kernel writes in its place. The lifetime of the
    result begins with that of the holder, which has none of its own."""
    within: dict[Holder, tuple[Holder, int]] = {}
    for i, step in enumerate(steps):
        pairs = step.replaces if isinstance(step, KernelStep) else ()
        for output, name in pairs:
            new, old = step.writes[output].holder, step.reads[name].holder
            if new not in spans or old not in spans or spans[new][0] < i or spans[old][1] > i:
                continue
            if all((output, other) in pairs for other, x in step.reads.items() if x.holder is old):
                within[old] = new, 0
                spans[new] = spans.pop(old)[0], spans[new][1]
    return within


def _is_run(source: MemoryPart, target: MemoryPart) -> bool:
    """Whether a copy is that of all of its source, in one run."""
    strides = [source.layout.strides, target.layout.strides]
    sizes, steps = joined(source.layout.shape, strides)
    is_run = len(sizes) == 0 or (len(sizes) == 1 and steps == [[1], [1]])
    return is_run and source.layout.offset == 0 and prod(source.layout.shape) == prod(source.holder.shape)


def _is_other(step: PlanStep, whole: Holder) -> bool:
    """Whether a step does more with an array than to write another part of it."""
    return not isinstance(step, KernelStep | ProductStep) or any(
        part.holder is whole for part in step.reads.values()
    )


def _best(spans: Sequence[tuple[int, int]], sizes: Sequence[int], enough: int) -> list[int]:
    """The smallest arena of several orders, and of those that come from them when the array at the end, or one beside
    it, is moved to a place by chance. Chance is the same in each run."""
    near, chance = _neighbors(spans), Random(0)
    tries = max(1, min(MOST_TRIES, MOST_WORK // (8 * (sum(map(len, near)) + 1))))
    best, least = list[int](), 0
    for key, wanders in product(_ORDERS, (False, True)):
        ranks = [key(*pair) for pair in zip(spans, sizes, strict=True)]
        order = sorted(range(len(spans)), key=ranks.__getitem__)
        kept, kept_order = 0, order
        for _ in range(tries):
            places = _placed(order, sizes, near)
            size = max((at + n for at, n in zip(places, sizes, strict=True)), default=0)
            if not best or size < least:
                best, least = places, size
            if size <= enough:
                return best
            if wanders and kept and size > kept * (1 + 0.02 * chance.random()):
                order = kept_order
            else:
                kept, kept_order = size, order
                moved = next(i for i in order if places[i] + sizes[i] == size)
            aside = wanders and near[moved] and chance.random() < 0.5
            chosen = chance.choice(near[moved]) if aside else moved
            at = (
                chance.randrange(len(order) if aside else order.index(chosen) + 1)
                if chance.random() < 0.7
                else 0
            )
            order = [i for i in order if i != chosen]
            order.insert(at, chosen)
    return best


def _neighbors(spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """For each array those that are alive together with it."""
    near: list[list[int]] = [[] for _ in spans]
    active: list[int] = []
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        active = [j for j in active if spans[j][1] >= spans[i][0]]
        near[i] += active
        for j in active:
            near[j].append(i)
        active.append(i)
    return near


# By size, by size times lifetime, by lifetime, by start.
_ORDERS: tuple[Callable[[tuple[int, int], int], tuple[int, ...]], ...] = (
    lambda span, size: (-size,),
    lambda span, size: (-size * (1 + span[1] - span[0]),),
    lambda span, size: (span[0] - span[1], -size),
    lambda span, size: (span[0], -size),
)


def _placed(order: Sequence[int], sizes: Sequence[int], near: Sequence[Sequence[int]]) -> list[int]:
    """Each in the smallest gap that those before it leave during its life."""
    offsets = [-1] * len(sizes)
    for i in order:
        spans = sorted([(offsets[j], offsets[j] + sizes[j]) for j in near[i] if offsets[j] >= 0])
        offsets[i] = _smallest_gap(spans, sizes[i])
    return offsets


def _smallest_gap(spans: Sequence[tuple[int, int]], size: int) -> int:
    """The first place for so many bytes between intervals in order, or after them."""
    best, best_room, end = -1, 0, 0
    for start, stop in spans:
        room = start - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return best if best >= 0 else end


def refuse_overlap(memory: Mapping[Holder, spy.Tensor], written: Collection[Holder]) -> None:
    """GraphError (E1043) where memory that is overwritten is that of another array, too."""
    views = {holder: places_of(tensor, holder.dtype) for holder, tensor in memory.items()}
    spans = sorted(((*_span(view), holder) for holder, view in views.items()), key=itemgetter(0, 1))
    for i, (_, stop, holder) in enumerate(spans):
        for start, _, other in spans[i + 1 :]:
            if start >= stop:
                break
            is_written = holder in written or other in written
            if is_written and np.shares_memory(views[holder], views[other]):
                names = " and ".join(_name_of(overlapping) for overlapping in (holder, other))
                raise GraphError("E1043", f"{names} share memory, and one of them is changed", "x.copy()")


def _name_of(holder: Holder) -> str:
    captured = "a captured array"
    return holder.attributes.get("name", captured) if isinstance(holder, Node) else captured


def _span(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte and behind the last."""
    extents = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    below, above = sum(min(0, extent) for extent in extents), sum(max(0, extent) for extent in extents)
    return array.ctypes.data + below, array.ctypes.data + above + array.itemsize
