"""Delayed adds as LLVM instructions: the launch's numbers, the results of the plan, accumulators of a chunk.

    launch {field="chunk"}                  load i64, ptr %launch + 72
    planned {index=1}                       a result of the plan, computed again at the start of the chunk
    accumulators {block=0, count=64}        memory for 64 elements of all lanes, cleared where it is first met

The first use of a block is before the loop over waves, because its operands are the same for all waves.
"""

from __future__ import annotations

from slangrad.ir.data.layout import element_size
from slangrad.ir.ops.core import Op
from slangrad.llvm.launch.launch import read_field
from slangrad.llvm.memory.memory import WAVE_ALIGNMENT, clear
from slangrad.llvm.text.emit import RegionEmitter, Rule


def _launch(e: RegionEmitter, op: Op) -> None:
    name = op.attributes["field"]
    value = read_field(e.w, e.environment.launch, name)
    pointer = name == "partials"
    e.define(op.results[0], e.w.value(f"ptrtoint ptr {value} to i64") if pointer else value)


def _planned(e: RegionEmitter, op: Op) -> None:
    index = op.attributes["index"]
    e.define(op.results[0], e.environment.planned[index])


def _accumulators(e: RegionEmitter, op: Op) -> None:
    block, count = op.attributes["block"], op.attributes["count"]
    starts = e.environment.accumulators
    if block not in starts:
        size = element_size(op.results[0].type) * count * e.names.lanes
        starts[block] = e.environment.locals.place(e.w, size, WAVE_ALIGNMENT)
        clear(e, starts[block], size)
    e.define(op.results[0], starts[block])


RULES: dict[str, Rule] = {"launch": _launch, "planned": _planned, "accumulators": _accumulators}
