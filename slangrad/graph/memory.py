"""Places in one arena: memory of nodes that are not alive together is shared.

Lifetimes go from the step that writes first to the step that reads last. Each gets the smallest gap that fits, in the
order that needs the least: by size, by size times lifetime, by lifetime, by start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from slangrad.graph.emit import Clear, Kernel, Part, Repeat, Step

ALIGNMENT = 64
MOST_TRIES, PLACES = 150, 12000  # orders that are tried, and holders in all of them
Spans = dict[Any, tuple[int, int]]  # the first and the last step


@dataclass(frozen=True, slots=True)
class Arena:
    """Offsets and the size are bytes. `live`: the most that is alive at once, which no order of places can undercut."""

    offsets: dict[Any, int]
    size: int
    live: int


def touched(step: Step) -> tuple[list[Part], list[Part]]:
    """What a step reads and writes."""
    if isinstance(step, Clear):
        return [], [step.output]
    if isinstance(step, Kernel):
        return [each for each in step.arguments if isinstance(each, Part)], step.outputs
    if isinstance(step, Repeat):
        return step.inputs, list(step.outputs.values())
    return step.inputs, [step.output]


def arena(steps: Sequence[Step], outside: set[Any]) -> Arena:
    """`outside`: holders with memory of their own."""
    spans: Spans = {}
    for i, step in enumerate(steps):
        for part in (*touched(step)[0], *touched(step)[1]):
            if part.holder not in outside:
                spans[part.holder] = spans.get(part.holder, (i, i))[0], i
    sizes = {
        holder: -(-max(1, prod(holder.shape)) * holder.dtype.itemsize // ALIGNMENT) * ALIGNMENT
        for holder in spans
    }
    live = [sum(sizes[h] for h, (a, b) in spans.items() if a <= i <= b) for i in range(len(steps))]
    offsets = _best(spans, sizes, max(live, default=0))
    return Arena(offsets, _end(offsets, sizes), max(live, default=0))


def _best(spans: Spans, sizes: dict[Any, int], enough: int) -> dict[Any, int]:
    """The smallest arena of several orders, and of orders in which the holders at its end come first."""
    best: dict[Any, int] = {}
    for key in _ORDERS:
        order = sorted(spans, key=partial(key, spans, sizes))
        for _ in range(min(MOST_TRIES, PLACES // (len(order) + 1))):
            found = _placed(order, spans, sizes)
            end = _end(found, sizes)
            if not best or end < _end(best, sizes):
                best = found
            if end <= enough:
                return best
            last = [each for each in order if found[each] + sizes[each] == end]
            order = [*last, *(each for each in order if each not in last)]
    return best


def _by_size(spans: Spans, sizes: dict[Any, int], holder: Any) -> Any:
    return -sizes[holder]


def _by_area(spans: Spans, sizes: dict[Any, int], holder: Any) -> Any:
    return -sizes[holder] * (1 + spans[holder][1] - spans[holder][0])


def _by_length(spans: Spans, sizes: dict[Any, int], holder: Any) -> Any:
    return spans[holder][0] - spans[holder][1], -sizes[holder]


def _by_start(spans: Spans, sizes: dict[Any, int], holder: Any) -> Any:
    return spans[holder][0], -sizes[holder]


_ORDERS = (_by_size, _by_area, _by_length, _by_start)


def _placed(order: Sequence[Any], spans: Spans, sizes: dict[Any, int]) -> dict[Any, int]:
    """Each in the smallest gap that those before it leave during its life."""
    offsets: dict[Any, int] = {}
    for holder in order:
        start, stop = spans[holder]
        others = [each for each in offsets if spans[each][0] <= stop and start <= spans[each][1]]
        near = sorted((offsets[each], offsets[each] + sizes[each]) for each in others)
        offsets[holder] = _smallest_gap(near, sizes[holder])
    return offsets


def _end(offsets: dict[Any, int], sizes: dict[Any, int]) -> int:
    return max((at + sizes[holder] for holder, at in offsets.items()), default=0)


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Where so many bytes fit between intervals in order, or after them."""
    best, best_room, end = -1, 0, 0
    for start, stop in taken:
        room = start - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return best if best >= 0 else end
