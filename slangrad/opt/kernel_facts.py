"""What the host must know of a flat kernel and the functions that it calls before it is launched: what they read, and
in which order threads must run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slangrad.ir.core import Op, Program, Value, integer_of, walk
from slangrad.ir.layout import layout_of
from slangrad.ir.rebuild import count_uses
from slangrad.ir.types import Pointer, is_float


def ops_of(program: Program) -> Iterator[Op]:
    return (op for function in program.functions.values() for op in walk(function.region))


def used_arguments(program: Program) -> frozenset[str]:
    """What a kernel reads of its arguments once all is inlined and cleaned."""
    return frozenset(op.attributes["name"] for op in ops_of(program) if op.name == "parameter")


def follows_memory(program: Program) -> bool:
    """Whether a kernel asks which memory there is."""
    return any(op.name == "is_memory" for op in ops_of(program))


def read_places(program: Program) -> dict[str, tuple[int, ...] | None]:
    """At which bytes of each argument it reads; None where that is known when running only."""
    found: dict[str, set[int] | None] = {}
    places: dict[Value, tuple[str, int]] = {}
    known: dict[Value, int] = {}
    for op in ops_of(program):
        if (number := integer_of(op)) is not None:
            known[op.results[0]] = number
        if op.name == "parameter":
            places[op.results[0]] = op.attributes["name"], 0
            found.setdefault(op.attributes["name"], set())
            continue
        for operand in op.operands:
            if operand not in places:
                continue
            name, at = places[operand]
            read = found[name]
            if op.name == "member" and isinstance(operand.type, Pointer):
                offsets = layout_of(operand.type.element).offsets
                places[op.results[0]] = name, at + offsets[op.attributes["index"]]
            elif op.name == "offset" and isinstance(operand.type, Pointer) and op.operands[1] in known:
                places[op.results[0]] = (
                    name,
                    at + known[op.operands[1]] * layout_of(operand.type.element).size,
                )
            elif op.name == "bitcast":  # an array as its elements
                places[op.results[0]] = name, at
            elif op.name == "load" and read is not None:
                read.add(at)
            else:
                found[name] = None
        for value in (each for region in op.regions for each in region.yields if each in places):
            found[places[value][0]] = None
    return {name: None if read is None else tuple(sorted(read)) for name, read in found.items()}


def is_ordered(program: Program) -> bool:
    """Whether chunks must run one after the other for the results to be the same in each run: the kernel prints, adds
    floats to memory that threads share, or uses what an atomic operation gives."""
    uses = Counter[Value]()
    for function in program.functions.values():
        uses.update(count_uses(function.region))
    return any(
        op.name == "print"
        or (op.name == "atomic" and not _is_shared(op) and (uses[op.results[0]] > 0 or not _commutes(op)))
        for op in ops_of(program)
    )


def _is_shared(op: Op) -> bool:
    """On memory of a group, whose threads take turns anyway."""
    address = op.operands[0].type
    return isinstance(address, Pointer) and address.space == "shared"


def _commutes(op: Op) -> bool:
    """Whether atomics of this kind give the same memory in any order."""
    if op.attributes["kind"] in ("exchange", "compare_exchange"):
        return False
    return op.attributes["kind"] != "add" or not is_float(op.results[0].type)
