"""Facts for the host about a flat kernel and its callees: the arguments that they read, and the order in which
threads must run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slangrad.ir.analyses.addresses import Roots, is_step, path_of
from slangrad.ir.building.rebuild import count_uses
from slangrad.ir.data.types import Pointer, is_float
from slangrad.ir.ops.core import Op, Program, Value, walk


def ops_of(program: Program) -> Iterator[Op]:
    return (op for function in program.functions.values() for op in walk(function.region))


def used_arguments(program: Program) -> frozenset[str]:
    """The arguments that a kernel reads after inlining and cleaning."""
    return frozenset(op.attributes["name"] for op in ops_of(program) if op.name == "parameter")


def follows_memory(program: Program) -> bool:
    """Whether a kernel reads the table of all blocks of memory."""
    return any(op.name == "is_memory" for op in ops_of(program))


def read_places(program: Program) -> dict[str, tuple[int, ...] | None]:
    """At which bytes of each argument it reads; None if only a run decides."""
    bytes_read: dict[str, set[int] | None] = {name: set() for name in used_arguments(program)}
    for function in program.functions.values():
        roots = Roots(function.region.makers.get)
        for op in walk(function.region):
            values = (*op.operands, *(v for region in op.regions for v in region.yields))
            for address in (v for v in values if isinstance(v.type, Pointer) and not is_step(op)):
                maker = roots.made_by(roots.root(address))
                if maker is None or maker.name != "parameter":
                    continue
                place = path_of(address, roots.made_by)
                read = bytes_read[name := maker.attributes["name"]]
                if op.name != "load" or place.steps:
                    bytes_read[name] = None
                elif read is not None:
                    read.add(place.distance)
    return {name: None if read is None else tuple(sorted(read)) for name, read in bytes_read.items()}


def is_ordered(program: Program) -> bool:
    """Whether chunks must run in order so that results are the same in each run. This holds if the kernel prints,
    adds floats to memory that threads share, or uses the result of an atomic operation."""
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
