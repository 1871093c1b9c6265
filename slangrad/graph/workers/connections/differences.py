"""The first difference between the plans of two workers, in words.

    PlanPart("the memory limit", "None")  and  PlanPart("the memory limit", "1024")
    "the memory limit is 1024 on worker 2 and None on worker 0"

Workers compare a digest of all parts. Only where digests differ, two workers send the parts themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha1
from itertools import zip_longest
from typing import NamedTuple


class PlanPart(NamedTuple):
    """A part of a plan that is the same on all workers. `value`: is compared; one that cannot be read, as a digest of
    numbers, `is_shown` not. `place`: the line of the user's program. `advice`: how workers get the same one."""

    name: str
    value: str
    advice: str
    place: str = ""
    is_shown: bool = True

    @property
    def text(self) -> str:
        return f"{self.value} at {self.place}" if self.place else self.value


CALL = "the next call"
STEP = "a step with a batch of "
SAME_CALLS = "all workers make the same steps, checkpoints and measurements, in the same order"
SAME_STEPS = (
    "all workers make steps with the same learning rate, and with the same shapes and numbers of the batch"
)
SAME_ERRORS = "a worker that leaves a step by an error ends, or all leave it by the same one"
SAME_ROWS = "all workers pass arrays of the same shape and dtype: leave out or pad rows that remain"
ABSENT = PlanPart("the plan", "shorter", "")


def call_part(call: str) -> PlanPart:
    """The part that stands first: the call that the worker makes."""
    return PlanPart(CALL, call, SAME_CALLS)


def left_part(left: str) -> PlanPart:
    """The part for the last step that the worker has left before it began, by an error of its program."""
    return PlanPart("the last error before a step", left or "none", SAME_ERRORS)


def steps_part(history: str) -> PlanPart:
    """The part for the steps that the worker has made."""
    return PlanPart("the list of steps before this call", history, SAME_STEPS, is_shown=False)


def digest_of_parts(parts: Iterable[PlanPart]) -> str:
    """Equal for parts of equal names and values."""
    return sha1("\n".join(f"{part.name}: {part.value}" for part in parts).encode()).hexdigest()


def encoded(parts: Iterable[PlanPart]) -> str:
    """The text that `decoded` reads."""
    return json.dumps(list(parts))


def decoded(text: str) -> list[PlanPart]:
    return [PlanPart(*part) for part in json.loads(text)]


def difference_text(odd: Sequence[PlanPart], usual: Sequence[PlanPart], odd_rank: int, rank: int) -> str:
    """The first part that differs, and how workers get the same one; "" where all parts are equal."""
    for part, other in zip_longest(odd, usual, fillvalue=ABSENT):
        if part.name != other.name:
            message = f"{part.name} ({part.text}) on worker {odd_rank} is {other.name} ({other.text}) on worker {rank}"
        elif part.value == other.value:
            continue
        elif part.is_shown:
            message = f"{part.name} is {part.text} on worker {odd_rank} and {other.text} on worker {rank}"
        else:
            at = f" at {part.place}" if part.place else ""
            message = f"{part.name}{at} has other numbers on worker {odd_rank} than on worker {rank}"
        return f"{message}; {part.advice or other.advice}"
    return ""
