"""The oracle's tapes in memory: a handle is a number, and 0 is the tape that is empty and cannot be written.

    tape_store %t, %i, %x      machine.tapes[t][i] = x

Elements of a `written_first` tape that were not written are undefined; a freed tape must not be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from slangrad.ir.ops.core import Op
from slangrad.ir.ops.type_rules import scalar_type
from slangrad.ir.oracle.memory import Datum, zero_of
from slangrad.ir.oracle.values import Effect, Meaning, combination

UNWRITTEN_NUMBER = 37  # of any type


class TapeMemory(Protocol):
    """The part of the state of a run that tapes use."""

    tapes: list[dict[int, Datum]]


class UnreadElements(dict[int, Datum]):
    """The elements of a tape whose program reads no element before it writes it; other reads return nonsense."""

    def get(self, index: int, default: Datum = 0) -> Datum:  # type: ignore[override]
        element = super().get(index)
        return (
            element if element is not None else math.nan if isinstance(default, float) else UNWRITTEN_NUMBER
        )

    def copy(self) -> UnreadElements:
        return UnreadElements(self)


class FreedElements(dict[int, Datum]):
    """Those of a tape that was freed."""

    def get(self, index: int, default: Datum = 0) -> Datum:  # type: ignore[override]
        raise AssertionError(f"element {index} of a freed tape is used")

    def copy(self) -> dict[int, Datum]:
        raise AssertionError("a freed tape is copied")


def _kept(machine: TapeMemory, tape: dict[int, Datum]) -> int:
    """The handle of a new tape."""
    machine.tapes.append(tape)
    return len(machine.tapes) - 1


def _tape_new(machine: TapeMemory, op: Op) -> Meaning:
    kind: type[dict[int, Datum]] = UnreadElements if op.attributes.get("written_first") else dict
    return lambda: _kept(machine, kind())


def _tape_free(machine: TapeMemory, op: Op) -> Effect:
    def free(tape: int) -> None:
        machine.tapes[tape] = FreedElements()

    return free


def _tape_write(machine: TapeMemory, combine: Callable[[Datum, Datum], Datum]) -> Effect:
    def write(handle: int, index: int, value: Datum) -> None:
        assert handle > 0 and index >= 0, f"element {index} of tape {handle} is written"
        tape = machine.tapes[handle]
        tape[index] = combine(tape.get(index, 0), value)

    return write


def _tape_load(machine: TapeMemory, op: Op) -> Meaning:
    zero = zero_of(op.results[0].type)
    return lambda tape, index: machine.tapes[tape].get(index, zero)


TAPES: dict[str, Callable[[TapeMemory, Op], Meaning | Effect]] = {
    "tape_new": _tape_new,
    "tape_free": _tape_free,
    "tape_copy": lambda machine, op: lambda tape: _kept(machine, machine.tapes[tape].copy()),
    "tape_store": lambda machine, op: _tape_write(machine, lambda old, new: new),
    "tape_add": lambda machine, op: _tape_write(machine, combination("add", scalar_type(op.operands[2]))),
    "tape_load": _tape_load,
}
