"""Float adds to memory that threads share, delayed until the end of the launch.

    %p = offset %gradients, %j                          %b = accumulators {block=0, count=64}
    %old = atomic %p, %v {kind="add"}                   %q = offset %b, %j
                                                        %old = atomic %q, %v {kind="add", alone=true}

In: a flat kernel. Out: one whose atomics add into blocks of their own, a plan that runs before the launch and a finish
that runs after it. An add may wait only if nobody asks what was there before and nothing else in the launch looks at
the memory: the plan compares the addresses that the kernel reaches. Where they overlap, the kernel as it was must run.
A block is an accumulator for each lane and element where all lanes add to one of few elements (`accumulators`), in a
row or at addresses that are the same for all threads (`places`); else it is one number for each element in the partial
sums of the chunk's lot, or the memory itself where the plan finds that each thread has elements of its own
(own_elements.py). delayed_sums.py says what is in the plan.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from slangrad.ir.builder import Builder
from slangrad.ir.core import Function, Op, Region, Value, walk
from slangrad.ir.rebuild import Rebuild, count_uses
from slangrad.ir.types import F16, F32, I64, Scalar, is_float, pointer, pointer_of
from slangrad.opt.delayed_sums import (
    Accumulators,
    Block,
    Plan,
    adds_of_a_thread,
    finish_of,
    partials_of_lot,
    plan_of,
)
from slangrad.opt.intervals import Bounds, Intervals
from slangrad.opt.launch_values import LaunchValues
from slangrad.opt.own_elements import own_elements
from slangrad.opt.reach import Access, Survey

MOST_ACCUMULATORS = 1024  # of one kernel; more would not stay in the caches
MOST_PLACES = 128  # of one block, each an address of its own


@dataclass(frozen=True, slots=True)
class DelayedAdds:
    """The kernel that delays, what runs before and after it, and what is added up at the end of a chunk."""

    kernel: Function
    plan: Function
    finish: Function
    accumulators: tuple[Accumulators, ...]


def delay_adds(kernel: Function) -> DelayedAdds | None:
    """None where there is no such add, or where one of them or of the addresses cannot be followed."""
    uses = count_uses(kernel.region)
    atomics = [op for op in walk(kernel.region) if op.name == "atomic"]
    if not any(_is_float_add(op) for op in atomics) or not all(_may_wait(op, uses) for op in atomics):
        return None
    if any(op.name == "print" for op in walk(kernel.region)):
        return None
    b = Builder(span=kernel.span)
    launch = LaunchValues(kernel, b)
    survey = Survey(Intervals(launch), kernel.region)
    blocks = _blocks(survey)
    if blocks is None:
        return None
    plan = plan_of(survey, launch, blocks, adds_of_a_thread(kernel.region, blocks))
    if plan is None:
        return None
    return DelayedAdds(_rewritten(kernel, plan, survey), plan.function, finish_of(plan), plan.accumulators())


def _is_float_add(op: Op) -> bool:
    return op.attributes["kind"] == "add" and is_float(op.results[0].type)


def _may_wait(op: Op, uses: Counter[Value]) -> bool:
    """Float adds to memory of the device, and atomics of whole numbers, which need not wait."""
    if uses[op.results[0]] or op.attributes["kind"] in ("exchange", "compare_exchange"):
        return False
    return not is_float(op.results[0].type) or (
        _is_float_add(op) and pointer_of(op.operands[0].type).space == "global"
    )


# --- blocks: adds with the same root and type share one


def _blocks(survey: Survey) -> list[Block] | None:
    found: dict[tuple[Value, Scalar], list[tuple[Access, Bounds]]] = {}
    for access in survey.accesses:
        if access.op.name != "atomic" or not _is_float_add(access.op):
            continue
        root, reach, element = survey.root(access), survey.distances(access), access.op.results[0].type
        if root is None or reach is None or not isinstance(element, Scalar):
            return None
        found.setdefault((root, element), []).append((access, reach))
    room = MOST_ACCUMULATORS
    blocks = []
    for (root, element), members in found.items():
        blocks.append(_block(survey, root, element, members, room))
        room -= blocks[-1].accumulators
    return sorted(blocks, key=lambda block: block.accumulators == 0)


def _block(
    survey: Survey, root: Value, element: Scalar, members: list[tuple[Access, Bounds]], room: int
) -> Block:
    v = survey.intervals
    reach = members[0][1]
    for _, each in members[1:]:
        reach = v.hull(reach, each)
    ends, size = v.constants(reach), element.size
    count = 0 if ends is None or ends[0] % size else (ends[1] - ends[0]) // size + 1
    together = not any(_varies(survey, access) for access, _ in members)
    accumulators = count if together and 0 < count <= room else 0
    sums = F32 if element is F16 else element
    if together and not accumulators:
        places, numbers = _places(survey, [access for access, _ in members])
        if 0 < len(places) <= min(room, MOST_PLACES):
            ops = tuple(numbers)
            return Block(ops, root, reach, element, sums, len(places), places=places, numbers=numbers)
    first = ends[0] if ends is not None and accumulators else 0
    direct = element is sums and not accumulators
    own = own_elements(survey, [access for access, _ in members], size) if direct else None
    return Block(
        tuple(access.op for access, _ in members), root, reach, element, sums, accumulators, first, own
    )


def _places(survey: Survey, accesses: list[Access]) -> tuple[tuple[Value, ...], dict[Op, int]]:
    """Addresses that are the same for all threads, each once, and which of them each add is for; none if one varies."""
    places: dict[Value, int] = {}
    numbers = {}
    for access in accesses:
        place = survey.address(access)
        if place is None:
            return (), {}
        numbers[access.op] = places.setdefault(place, len(places))
    return tuple(places), numbers


def _varies(survey: Survey, access: Access) -> bool:
    """Whether lanes of a wave may add to different elements."""
    assert access.place is not None
    values = [*(op.operands[0] for op in access.place.choices), *(index for index, _ in access.place.steps)]
    return any(survey.varies_with_lane(value) for value in values)


# --- the kernel


def _rewritten(kernel: Function, plan: Plan, survey: Survey) -> Function:
    places = {access.op: access for access in survey.accesses}
    numbers = {op: i for i, block in enumerate(plan.blocks) for op in block.adds}

    def atomic(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        address, value = walk.values(op.operands)
        if op not in numbers:
            return (b.primitive("atomic", (address, value), op.results[0].type, op.attributes),)
        number = numbers[op]
        block = plan.blocks[number]
        index = _element_of(walk, b, number, block, places[op], address, survey)
        place = b.emit("offset", _start(b, number, block), index)
        wide = value if block.element is block.sums else b.emit("convert", value, type=block.sums)
        ways = {} if block.own is None else {"own": True}
        b.emit("atomic", place, wide, type=block.sums, kind="add", alone=True, **ways)
        return (b.zero(block.element),)  # nobody asks

    b = Builder(span=kernel.span)
    for number, block in enumerate(plan.blocks):  # before the loops, as they are the same for all waves
        _start(b, number, block)
    rebuilt = Rebuild({"atomic": atomic})
    rebuilt.inline(b, kernel.region)
    region = Region((), b.ops, ())
    return Function(kernel.name, (), None, region, attributes=kernel.attributes, span=kernel.span)


def _start(b: Builder, number: int, block: Block) -> Value:
    """The address of a block's first element."""
    if block.accumulators:
        made = pointer(block.sums, "local")
        return b.emit("accumulators", type=made, block=number, count=block.accumulators)
    offset = b.emit("planned", type=I64, index=Plan.offset_index(number))
    at = b.emit("add", partials_of_lot(b), offset)
    if block.own is not None:
        base = b.emit("planned", type=I64, index=Plan.base_index(number))
        at = b.emit("select", b.emit("less", offset, b.constant(I64, 0)), base, at)
    return b.emit("bitcast", at, type=pointer(block.sums))


def _element_of(
    walk: Rebuild, b: Builder, number: int, block: Block, access: Access, address: Value, survey: Survey
) -> Value:
    """Which element of its block an add is for: by the steps that lead there, or by how far it is from the first."""
    place, size = access.place, block.element.size
    assert place is not None
    if block.places:
        return b.constant(I64, block.numbers[access.op])
    inside = survey.defined_in_choices(place)
    known = place.root not in inside and not inside.intersection(index for index, _ in place.steps)
    exact = known and all(bytes % size == 0 for _, bytes in place.steps)
    if not exact or (place.distance - block.first) % size:
        return _elements_before(b, number, block, address)
    if block.own is None and len(place.steps) == 1 and place.steps[0][1] == size:  # as narrow as it is
        index = walk.value(place.steps[0][0])
    else:
        index = b.zero(I64)
        for step, bytes in place.steps:
            wide = b.emit("convert", walk.value(step), type=I64)
            index = b.emit("add", index, b.emit("mul", wide, b.constant(I64, bytes // size)))
    if block.accumulators:
        return b.emit("add", index, b.constant(index.type, (place.distance - block.first) // size))
    before = _elements_before(b, number, block, walk.value(place.root))
    start = b.emit("add", before, b.constant(I64, place.distance // size))
    return b.emit("add", index, b.emit("convert", start, type=index.type))


def _elements_before(b: Builder, number: int, block: Block, address: Value) -> Value:
    base = b.emit("planned", type=I64, index=Plan.base_index(number))
    distance = b.emit("sub", b.emit("bitcast", address, type=I64), base)
    return b.emit("shr", distance, b.constant(I64, block.element.size.bit_length() - 1))
