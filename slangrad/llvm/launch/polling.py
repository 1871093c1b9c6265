"""Long loops check now and then whether the launch is to stop.

    round:  a loop of rounds around the loop itself, which has no call in it and keeps its registers
    head:   %left = sub %budget, 12              12 being what an iteration weighs
            br (%left >= 0), go, poll
    poll:   %stop = call @poll(%launch)          asks shared->stop, and the run time by launch->poll
            br %stop, leave, round

In: a loop that may be long: any `while`, or a `for` with many or unknown iterations. All loops of a chunk share one
budget, a slot of the stack that becomes a register. A thread that has to stop leaves the chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slangrad.ir.ops.control import constant_trips
from slangrad.ir.ops.core import Op, Region, Value
from slangrad.llvm.launch.launch import field_at
from slangrad.llvm.text.emit import RegionEmitter
from slangrad.llvm.text.type_names import is_constant
from slangrad.llvm.text.writer import Writer, phi

BUDGET = 1 << 22  # ops between two looks: some milliseconds
SHORT = 1 << 16  # ops of all iterations of a loop that does not poll

POLL = f"""
define internal preserve_mostcc i1 @poll(ptr %launch) cold noinline nounwind {{
  %shared_at = {field_at("%launch", "shared")}
  %poll_at = {field_at("%launch", "poll")}
  %shared = load ptr, ptr %shared_at
  %stop_at = {field_at("%shared", "stop")}
  %before = load atomic i32, ptr %stop_at monotonic, align 4
  %stopped = icmp ne i32 %before, 0
  %poll = load ptr, ptr %poll_at
  %nobody = icmp eq ptr %poll, null
  %quiet = or i1 %stopped, %nobody
  br i1 %quiet, label %done, label %ask
ask:
  call void %poll(ptr %launch)
  %after = load atomic i32, ptr %stop_at monotonic, align 4
  %stopping = icmp ne i32 %after, 0
  ret i1 %stopping
done:
  ret i1 %stopped
}}
"""


def start_budget(w: Writer) -> str:
    """A full budget, at the start of a chunk."""
    slot = w.slot("i32", 1, 4)
    w.line(f"store i32 {BUDGET}, ptr {slot}")
    return slot


class Rounds:
    """Around one loop: later rounds start with the carried values at the last poll."""

    def __init__(self, e: RegionEmitter, weight: int, starts: Sequence[tuple[str, str]]) -> None:
        """`starts` are types and operands."""
        w = e.w
        (self.label,) = w.labels("round")
        self._e, self._weight, self._starts, self._before = e, weight, starts, w.label
        w.jump(self.label)
        w.block(self.label)
        self._lines = [w.reserve_line() for _ in starts]
        self.starts = [w.name() for _ in starts]

    def look_up(self, carried: Sequence[str]) -> None:
        """At the loop's head, after its phis, whose names are given."""
        w, slot = self._e.w, self._e.environment.budget
        w.declarations.add_functions(POLL)
        poll, go = w.labels("poll", "go")
        left = w.value(f"sub i32 {w.value(f'load i32, ptr {slot}')}, {self._weight}")
        w.line(f"store i32 {left}, ptr {slot}")
        enough = w.value(f"icmp sge i32 {left}, 0")
        w.line(f"br i1 {enough}, label %{go}, label %{poll}, !prof !1")
        w.block(poll)
        w.line(f"store i32 {BUDGET}, ptr {slot}")
        stop = w.value(f"call preserve_mostcc i1 @poll(ptr {self._e.environment.launch})")
        w.branch(stop, self._e.environment.leave, self.label)
        w.block(go)
        for line, name, (kind, start), inner in zip(
            self._lines, self.starts, self._starts, carried, strict=True
        ):
            w.lines[line] = phi(name, kind, [(start, self._before), (inner, poll)])


def rounds(e: RegionEmitter, op: Op, starts: Sequence[tuple[str, str]]) -> Rounds | None:
    """None for loops that are surely short."""
    weight = _weight_of_iteration(e, op)
    return Rounds(e, weight, starts) if weight else None


def _weight_of_iteration(e: RegionEmitter, op: Op) -> int:
    """Zero for loops that are surely short."""
    body = op.regions[-1]
    weight = min(_weight(e, body, body.makers), BUDGET)
    trips = _trips(e, op, body.makers)
    return 0 if trips is not None and trips * weight < SHORT else max(weight, 1)


def _weight(e: RegionEmitter, region: Region, makers: Mapping[Value, Op]) -> int:
    total = len(region.ops)
    for op in region.ops:
        trips = _trips(e, op, makers) or 1
        total += trips * sum(_weight(e, inner, makers) for inner in op.regions)
    return total


def _trips(e: RegionEmitter, op: Op, makers: Mapping[Value, Op]) -> int | None:
    """How many iterations a `for` has, if that is a constant."""
    if op.name != "for":
        return None
    count = constant_trips(op, makers)
    if count is not None:
        return count
    text = e.known(op.operands[0])
    return int(text) if text is not None and is_constant(text) and text.isdecimal() else None
