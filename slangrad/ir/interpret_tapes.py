"""The oracle's tapes in memory: a handle is a number, and 0 is the tape that is empty and cannot be written.

    tape_store %t, %i, %x      machine.tapes[t][i] = x

Of a tape that is `written_first`, elements that were not written are nonsense; a freed tape must not be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from slangrad.ir.core import Op, Value
from slangrad.ir.interpret_memory import Datum, zero_of
from slangrad.ir.interpret_values import Frame, Step, integer_of
from slangrad.ir.numbers import wrapper
from slangrad.ir.primitives import PRIMITIVES
from slangrad.ir.types import Scalar

UNWRITTEN_NUMBER = 37  # of any type


class Machine(Protocol):
    """What is needed of the state of a run."""

    tapes: list[dict[int, Datum]]


class Compiler(Protocol):
    """What is needed of the compiler."""

    @property
    def machine(self) -> Machine: ...
    def places(self, values: Sequence[Value]) -> list[int]: ...


class UnreadElements(dict[int, Datum]):
    """The elements of a tape in memory of which nobody uses any that was not written; who does gets nonsense."""

    def get(self, index: int, default: Datum = 0) -> Datum:  # type: ignore[override]
        found = super().get(index)
        return found if found is not None else math.nan if isinstance(default, float) else UNWRITTEN_NUMBER

    def copy(self) -> UnreadElements:
        return UnreadElements(self)


class FreedElements(dict[int, Datum]):
    """Those of a tape that was freed."""

    def get(self, index: int, default: Datum = 0) -> Datum:  # type: ignore[override]
        raise AssertionError(f"element {index} of a freed tape is used")

    def copy(self) -> dict[int, Datum]:
        raise AssertionError("a freed tape is copied")


def _tape_new(c: Compiler, op: Op) -> Step:
    (r,), machine = c.places(op.results), c.machine
    made: type[dict[int, Datum]] = UnreadElements if op.attributes.get("written_first") else dict

    def step(frame: Frame) -> None:
        frame[r] = len(machine.tapes)
        machine.tapes.append(made())

    return step


def _tape_free(c: Compiler, op: Op) -> Step:
    (a,), machine, freed = c.places(op.operands), c.machine, FreedElements()

    def step(frame: Frame) -> None:
        machine.tapes[integer_of(frame[a])] = freed

    return step


def _tape_copy(c: Compiler, op: Op) -> Step:
    (a,), (r,), machine = c.places(op.operands), c.places(op.results), c.machine

    def step(frame: Frame) -> None:
        copied = machine.tapes[integer_of(frame[a])].copy()
        frame[r] = len(machine.tapes)
        machine.tapes.append(copied)

    return step


def _tape_store(c: Compiler, op: Op) -> Step:
    return _tape_write(c, op, lambda old, new: new)


def _tape_add(c: Compiler, op: Op) -> Step:
    element, add = op.operands[2].type, PRIMITIVES["add"].primal
    assert isinstance(element, Scalar) and add is not None
    wrap = wrapper(element)
    return _tape_write(c, op, lambda old, new: wrap(add(element, old, new)))


def _tape_write(c: Compiler, op: Op, combine: Callable[[Datum, Datum], Datum]) -> Step:
    (a, i, v), machine = c.places(op.operands), c.machine

    def step(frame: Frame) -> None:
        handle, index = integer_of(frame[a]), integer_of(frame[i])
        assert handle > 0 and index >= 0, f"element {index} of tape {handle} is written"
        tape = machine.tapes[handle]
        tape[index] = combine(tape.get(index, 0), frame[v])

    return step


def _tape_load(c: Compiler, op: Op) -> Step:
    (a, i), (r,), machine = c.places(op.operands), c.places(op.results), c.machine
    zero = zero_of(op.results[0].type)

    def step(frame: Frame) -> None:
        frame[r] = machine.tapes[integer_of(frame[a])].get(integer_of(frame[i]), zero)

    return step


TAPES: dict[str, Callable[[Compiler, Op], Step]] = {
    "tape_new": _tape_new,
    "tape_free": _tape_free,
    "tape_copy": _tape_copy,
    "tape_store": _tape_store,
    "tape_add": _tape_add,
    "tape_load": _tape_load,
}
