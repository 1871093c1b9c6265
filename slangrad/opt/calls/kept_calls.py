"""Which functions stay functions, and which are compiled into their callers.

    f called from 1 place, or of few ops        inlined: it costs less than a call
    f called from 7 places, 300 ops             kept: one function, seven calls

A program that is small with everything inlined is inlined as a whole. Beyond that a function is kept where it is
called from several places and is not small, so code grows with the text, not with the paths through it. The same
rule is asked twice: before differentiation, whose functions are then differentiated once, and at the end, for those
and for others.

Functions of the library, and those that dispatch, are inlined if they may report, which they do at the place of the
call. A function cannot be kept if it uses state of its caller: static variables, groups, waves, tapes, the depth of
recursion, or variables behind its pointers. In check mode functions that follow the user's pointers are inlined,
too, because only the kernel has the memory of each pointer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from slangrad.base.options import INLINE, KEEP, Options
from slangrad.ir.analyses.addresses import ACCESSES, leads_to_variables
from slangrad.ir.analyses.calls import callees_first
from slangrad.ir.data.types import Pointer, Type, contains, is_tape, pointer_of
from slangrad.ir.ops.core import Function, Program, walk, without
from slangrad.ir.ops.primitives import STATICS, WAVES
from slangrad.opt.analyses.origins import Origins

SMALL_PROGRAM = 8_000  # ops with everything inlined
SMALL_FUNCTION = 60  # ops that cost less than the code around a call
GROWTH = {"call": 1, "jvp": 2, "vjp": 4}  # ops of a derivative for one of the function

GROUPS = frozenset({"shared", "barrier"})
TOGETHER = WAVES | GROUPS  # threads that run together do so in one function
REPORTS = frozenset({"in_bounds", "print"})
ATTRIBUTES = frozenset({"kept", "library", "segment"})  # others name functions with a role of their own


def keep_calls(program: Program, kernel: str, options: Options, differentiates: bool = False) -> Program:
    """The program with its functions marked: those that stay are "kept". `differentiates`: derivatives are still to be
    made, so functions with a role in that are left alone."""
    order = callees_first(program, [kernel], GROWTH)
    chosen = set(_chosen(program, order, options, differentiates))
    marked = {f.name: _marked(f, f.name in chosen) for f in order}
    return replace(program, functions=program.functions | marked)


def _marked(function: Function, is_kept: bool) -> Function:
    if bool(function.attributes.get("kept")) == is_kept:
        return function
    if not is_kept:
        return replace(function, attributes=without(function.attributes, "kept"))
    return replace(
        function, attributes={**function.attributes, "kept": True}, derivatives=None
    )  # made by now


def _chosen(program: Program, order: list[Function], options: Options, differentiates: bool) -> Iterable[str]:
    """`order`: the kernel and all that it needs, callees first."""
    needed = {f.name: Counter(_callees(f)) for f in order}
    if options.calls == INLINE or not _grows(order, needed, options):
        return
    sites = Counter(callee for callees in needed.values() for _, callee in callees.elements())
    bound = _bound(program, order, needed, options) | _leading_to_variables(order) | _reporting(order, needed)
    bound.update(f.name for f in order if differentiates and _has_a_role(f))
    sizes: dict[str, int] = {}
    for f in order:
        size = _size(f, needed[f.name], sizes)
        many = options.calls == KEEP or (sites[f.name] > 1 and size >= SMALL_FUNCTION)
        stays = many and f.name not in bound and not f.attributes.get("kernel")
        sizes[f.name] = 1 if stays else size
        if stays:
            yield f.name


def _callees(function: Function) -> Iterable[tuple[str, str]]:
    """How and what it calls, once for each place."""
    return ((op.name, op.attributes["callee"]) for op in walk(function.region) if op.name in GROWTH)


def _size(f: Function, callees: Counter[tuple[str, str]], sizes: dict[str, int]) -> int:
    """Ops, those of what is inlined included."""
    ops = sum(1 for _ in walk(f.region))
    return ops + sum(GROWTH[how] * n * sizes[name] for (how, name), n in callees.items())


def _grows(order: list[Function], needed: dict[str, Counter[tuple[str, str]]], options: Options) -> bool:
    """Whether the program is large with everything inlined."""
    sizes: dict[str, int] = {}
    for f in order:
        sizes[f.name] = _size(f, needed[f.name], sizes)
    return options.calls == KEEP or sizes[order[-1].name] > SMALL_PROGRAM


# --- functions that cannot be kept


def _bound(
    program: Program, order: list[Function], needed: dict[str, Counter[tuple[str, str]]], options: Options
) -> set[str]:
    """Functions that use state of their callers, directly or in callees."""
    ops = STATICS | TOGETHER
    if any(op.name in GROUPS for f in order for op in walk(f.region)):
        ops |= {"thread_id"}  # of one of the threads that a lane runs in turn
        if options.check:  # whose reports name the thread
            return {f.name for f in order}
    bound_names: set[str] = set()
    for f in order:
        bound = any(op.name in ops or (op.name == "variable" and op.operands) for op in walk(f.region))
        follows = options.check and _follows_pointers(program, f)
        if bound or follows or any(name in bound_names for _, name in needed[f.name]):
            bound_names.add(f.name)
    return bound_names | {f.name for f in order if not _has_plain_signature(f)}


def _reporting(order: list[Function], needed: dict[str, Counter[tuple[str, str]]]) -> set[str]:
    """Functions of the library that may report, by themselves or by others of the library."""
    reporting: set[str] = set()
    for f in order:
        if not f.attributes.get("library"):
            continue
        reports = any(op.name in REPORTS or op.attributes.get("check") for op in walk(f.region))
        if reports or any(name in reporting for _, name in needed[f.name]):
            reporting.add(f.name)
    return reporting


def _follows_pointers(program: Program, f: Function) -> bool:
    """Whether it has accesses that the library does not guarantee."""
    origins = Origins(program, f)
    accesses = [op for op in walk(f.region) if op.name in ACCESSES]
    return any(
        pointer_of(op.operands[0].type).space == "global" and not origins.is_vouched_for(op)
        for op in accesses
    )


def _has_plain_signature(f: Function) -> bool:
    """Without tapes, whose memory the caller has to free, and addresses in memory of a group."""
    if f.attributes.get("bodiless"):
        return False
    types = *(p.type for p in f.inputs), *f.result_types
    return not any(contains(t, _is_of_caller) for t in types)


def _has_a_role(f: Function) -> bool:
    """Whether autodiff has a special rule for it."""
    return f.derivatives is not None or not f.attributes.keys() <= ATTRIBUTES


def _is_of_caller(t: Type) -> bool:
    return is_tape(t) or (isinstance(t, Pointer) and t.space == "shared")


def _leading_to_variables(order: list[Function]) -> set[str]:
    """Functions that are given a pointer to a variable. Inlined, such a variable is a value."""
    receiving: set[str] = set()
    for f in reversed(order):  # callers first
        leading = leads_to_variables(f.region, f.region.parameters if f.name in receiving else ()).keys()
        calls = (op for op in walk(f.region) if op.name in GROWTH)
        receiving.update(op.attributes["callee"] for op in calls if not leading.isdisjoint(op.operands))
    return receiving
