"""The events of a step: kernels, collectives and messages, each with its place in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COMPUTE, COMMUNICATION = "compute", "communication"
CALL = "call of the step"  # the time of Python beside kernels
COMPARISON, COMPARED = "comparison of steps", 24  # the exchange of a checksum, and its bytes


@dataclass(slots=True)
class Event:
    """A kernel, or a collective. `seconds`: that it takes alone; `start`, `stop`: seconds from the beginning of the
    step. `after`: the number of the event whose end it began with. `nbytes`: of the result of a collective, or of a
    message; `lane`: the stage, or the worker of a measured step."""

    name: str
    queue: str
    seconds: float
    start: float
    stop: float
    after: int | None
    nbytes: int = 0
    lane: int = 0


def path_to(last: int | None, events: Sequence[Event]) -> list[Event]:
    """The events of which each began when the one before it ended, up to the last one."""
    path = list[Event]()
    while last is not None:
        path.append(events[last])
        last = events[last].after
    return path[::-1]
