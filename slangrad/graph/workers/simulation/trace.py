"""A timeline as JSON that chrome://tracing and https://ui.perfetto.dev read.

    {"name": "all_reduce over data", "ph": "X", "pid": 0, "tid": 1, "ts": 120.0, "dur": 900.0, ...}

A process stands for a worker, with a thread for its kernels and others for exchanges that run at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from slangrad.graph.workers.simulation.events import COMMUNICATION, COMPUTE, Event

MICROSECONDS = 1e6  # in a second


def trace_text(events: Sequence[Event], path: Sequence[Event], name_of: Callable[[int], str]) -> str:
    """The JSON of events. `path`: those that are marked as parts of the critical path; `name_of`: of the worker of a
    lane."""
    on_path = set(map(id, path))
    threads = _threads(events)
    rows: list[dict[str, object]] = []
    for lane in sorted({event.lane for event in events}):
        rows.append({"name": "process_name", "ph": "M", "pid": lane, "args": {"name": name_of(lane)}})
    for lane, thread in sorted({(event.lane, thread) for event, thread in zip(events, threads, strict=True)}):
        name = {"name": COMMUNICATION if thread else COMPUTE}
        rows.append({"name": "thread_name", "ph": "M", "pid": lane, "tid": thread, "args": name})
    for event, thread in zip(events, threads, strict=True):
        details: dict[str, object] = {"is on the critical path": id(event) in on_path}
        if event.queue == COMMUNICATION:
            details["bytes"] = event.nbytes
        rows.append(
            {
                "name": event.name,
                "cat": event.queue,
                "ph": "X",
                "pid": event.lane,
                "tid": thread,
                "ts": event.start * MICROSECONDS,
                "dur": (event.stop - event.start) * MICROSECONDS,
                "args": details,
            }
        )
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"})


def _threads(events: Sequence[Event]) -> list[int]:
    """The thread of each event: 0 for kernels, for an exchange the first one that is free when it begins."""
    threads = [0] * len(events)
    ends: dict[int, list[float]] = {}  # of the threads for exchanges of each lane
    numbers = [i for i, event in enumerate(events) if event.queue == COMMUNICATION]
    for i in sorted(numbers, key=lambda i: events[i].start):
        event, lane_ends = events[i], ends.setdefault(events[i].lane, [])
        free = next((k for k, end in enumerate(lane_ends) if end <= event.start), len(lane_ends))
        lane_ends[free : free + 1] = [event.stop]
        threads[i] = 1 + free
    return threads
