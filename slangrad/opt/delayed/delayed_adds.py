"""Float adds to memory that threads share, delayed until the end of the launch.

    %p = offset %gradients, %j                          %b = accumulators {block=0, count=64}
    %old = atomic %p, %v {kind="add"}                   %q = offset %b, %j
                                                        %old = atomic %q, %v {kind="add", alone=true}

In: a flat kernel. Out: one whose atomics add into blocks, a plan that runs before the launch, and a reduction that
runs after it. An add may wait only if its result is not used and nothing else in the launch reads the memory. The
plan compares the addresses that the kernel reaches. If they overlap, the kernel as it was runs.

A block has an accumulator for each lane and element where all lanes add to one of few elements (`accumulators`). These
lie in a row, or at addresses that are the same for all threads (`places`). Other blocks have one number for each
element in the partial sums of the chunk's batch. If each thread has elements of its own (own_elements.py), the
block is the memory itself. delayed_sums.py has the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import count_uses
from slangrad.ir.data.types import F32, NARROW_FLOATS, Scalar, is_float, pointer_of
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.opt.analyses.intervals import Bounds
from slangrad.opt.analyses.launch_values import LaunchValues
from slangrad.opt.analyses.reach import Access, Callees, Survey
from slangrad.opt.delayed.delayed_calls import add_to_blocks
from slangrad.opt.delayed.delayed_sums import (
    Accumulators,
    SumBlock,
    SumPlan,
    adds_of_a_thread,
    plan_of,
    plan_of_few,
    plan_of_nothing,
    with_tables,
)
from slangrad.opt.delayed.own_elements import has_elements_of_threads, own_elements
from slangrad.opt.delayed.sum_reduction import reduction_of

MOST_ACCUMULATORS = 1024  # of one kernel; more would not stay in the caches
MOST_PLACES = 128  # of one block, each an address of its own
MOST_TABLES = 4  # that share the memory of a group of a GPU


@dataclass(frozen=True, slots=True)
class DelayedAdds:
    """The kernel that delays, its callees, the functions before and after it, and the sums at the end of a
    chunk."""

    kernel: Function
    functions: tuple[Function, ...]
    plan: Function
    reduce: Function
    accumulators: tuple[Accumulators, ...]


def delay_adds(kernel: Function, functions: Sequence[Function] = ()) -> DelayedAdds | None:
    """None if there is no such add, or if one of them or of the addresses cannot be followed. `functions`: those
    that the kernel calls."""
    uses = Counter[Value]()
    atomics: list[Op] = []
    for function in (*functions, kernel):
        uses.update(count_uses(function.region))
        atomics += [op for op in walk(function.region) if op.name == "atomic"]
        if any(op.name == "print" for op in walk(function.region)):
            return None
    if not any(_is_float_add(op) for op in atomics) or not all(_may_wait(op, uses) for op in atomics):
        return None
    launch, callees = LaunchValues(kernel, Builder(span=kernel.span)), Callees({f.name: f for f in functions})
    survey = Survey(launch, kernel, callees)
    adds = [access for access in survey.accesses if _is_float_add(access.op)]
    blocks = _blocks(survey, adds)
    if sum(len(block.adds) for block in blocks) < len(adds):
        return None
    plan = plan_of(survey, launch, blocks, adds_of_a_thread(survey, blocks))
    if plan is None:
        return None
    *called, delaying = add_to_blocks(plan, [*callees.surveys.values(), survey])
    return DelayedAdds(delaying, tuple(called), plan.function, reduction_of(plan), plan.accumulators())


@dataclass(frozen=True, slots=True)
class FewSums:
    """The kernel that adds to accumulators, its callees, and the plan. Other adds are as they were, but those that are
    `uniform` say so, and those of a table name it."""

    kernel: Function
    functions: tuple[Function, ...]
    plan: SumPlan


def delay_few_sums(kernel: Function, functions: Sequence[Function] = ()) -> FewSums | None:
    """The adds that have accumulators wait, all others are made at once or once for each group. None if no add may wait
    or is uniform, and no group may add them up."""
    uses = Counter[Value]()
    for function in (*functions, kernel):
        uses.update(count_uses(function.region))
    launch, callees = LaunchValues(kernel, Builder(span=kernel.span)), Callees({f.name: f for f in functions})
    survey = Survey(launch, kernel, callees)
    adds = [a for a in survey.accesses if _is_float_add(a.op) and not uses[a.op.results[0]]]
    all_blocks = _blocks(survey, adds)
    blocks = [block for block in all_blocks if block.accumulators]
    waiting, elements = {add for block in blocks for add in block.adds}, {block.element for block in blocks}
    others = {add for add in adds if {add.op.results[0].type} == elements} - waiting
    plan = plan_of_few(survey, launch, blocks, others)
    if plan is None:
        plan, waiting = plan_of_nothing(launch.plan), set()
    tables = [t for t in (_table(survey, block, waiting) for block in all_blocks) if t is not None]
    plan = with_tables(plan, survey, launch, tables[:MOST_TABLES], adds)
    ids = [op for op in walk(kernel.region) if op.name == "thread_id"]
    along_x = all(op.attributes["axis"] == 0 for op in ids)
    uniform = {add.op for add in adds if along_x and add not in waiting and _is_uniform(survey, add)}
    if not plan.blocks and not plan.tables and not uniform:
        return None
    *called, delaying = add_to_blocks(plan, [*callees.surveys.values(), survey], uniform)
    return FewSums(delaying, tuple(called), plan)


def _table(survey: Survey, block: SumBlock, waiting: set[Access]) -> SumBlock | None:
    """The adds of a block that a group may add up: those of the kernel itself that do not wait for the end of the
    launch. None where each thread has elements of its own, and where places are not whole elements apart."""
    adds = tuple(add for add in block.adds if add.survey is survey and add not in waiting)
    places = [add.place for add in adds]
    size = block.element.size
    starts = {place.distance % size for place in places if place is not None}
    steps = {bytes % size for place in places if place is not None for _, bytes in place.steps}
    if not adds or len(starts) > 1 or steps - {0} or all(map(has_elements_of_threads, adds)):
        return None
    return replace(block, adds=adds, accumulators=0)


def _is_uniform(survey: Survey, add: Access) -> bool:
    """Whether threads with other numbers along x that run it together reach one element; in the kernel itself, where
    lanes can exchange values."""
    return add.survey is survey and add.place is not None and not survey.varies(add)


def _is_float_add(op: Op) -> bool:
    return op.name == "atomic" and op.attributes["kind"] == "add" and is_float(op.results[0].type)


def _may_wait(op: Op, uses: Counter[Value]) -> bool:
    """Float adds to memory of the device, and atomics of whole numbers, which need not wait."""
    if uses[op.results[0]] or op.attributes["kind"] in ("exchange", "compare_exchange"):
        return False
    return not is_float(op.results[0].type) or (
        _is_float_add(op) and pointer_of(op.operands[0].type).space == "global"
    )


# --- blocks: adds with the same root and type share one


def _blocks(survey: Survey, adds: Sequence[Access]) -> list[SumBlock]:
    """Of the adds that can be followed."""
    members_of: dict[tuple[Value, Scalar], list[tuple[Access, Bounds]]] = {}
    for access in adds:
        root, reach = access.survey.root(access), access.survey.distances(access)
        element = access.op.results[0].type
        if root is not None and reach is not None and isinstance(element, Scalar):
            members_of.setdefault((root, element), []).append((access, reach))
    room = MOST_ACCUMULATORS
    blocks = []
    for (root, element), members in members_of.items():
        blocks.append(_block(survey, root, element, members, room))
        room -= blocks[-1].accumulators
    return sorted(blocks, key=lambda block: block.accumulators == 0)


def _block(
    survey: Survey, root: Value, element: Scalar, members: list[tuple[Access, Bounds]], room: int
) -> SumBlock:
    v = survey.intervals
    reach = members[0][1]
    for _, distances in members[1:]:
        reach = v.hull(reach, distances)
    ends, size = v.constants(reach), element.size
    count = 0 if ends is None or ends[0] % size else (ends[1] - ends[0]) // size + 1
    together = not any(access.survey.varies(access) for access, _ in members)
    accumulators = count if together and 0 < count <= room else 0
    sums = F32 if element in NARROW_FLOATS else element
    if together and not accumulators:
        places, numbers = _places([access for access, _ in members])
        if 0 < len(places) <= min(room, MOST_PLACES):
            return SumBlock(
                tuple(numbers), root, reach, element, sums, len(places), places=places, numbers=numbers
            )
    first = ends[0] if ends is not None and accumulators else 0
    direct = element is sums and not accumulators
    adds = tuple(access for access, _ in members)
    own_condition = own_elements(v, adds, size) if direct else None
    return SumBlock(adds, root, reach, element, sums, accumulators, first, own_condition)


def _places(accesses: list[Access]) -> tuple[tuple[Value, ...], dict[Access, int]]:
    """Addresses that are the same for all threads, each once, and which of them each add is for; none if one
    varies."""
    places: dict[Value, int] = {}
    numbers = {}
    for access in accesses:
        place = access.survey.address(access)
        if place is None:
            return (), {}
        numbers[access] = places.setdefault(place, len(places))
    return tuple(places), numbers
