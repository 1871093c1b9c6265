"""Work in threads: files that are written and read beside the program.

bitmap.write_async("a.png")        slangrad.thread.wait_for_tasks()
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
Result = TypeVar("Result")


def start(function: Callable[Arguments, object], *args: Arguments.args, **named: Arguments.kwargs) -> None:
    """Call a function in another thread. The end of the program waits for it."""
    pool, started = _threads(os.getpid())
    started.append(pool.submit(function, *args, **named))


def in_order(function: Callable[[Value], Result], values: Iterable[Value]) -> list[Result]:
    """The results for all values. The first error is raised."""
    return list(_threads(os.getpid())[0].map(function, values))


def wait_for_tasks() -> None:
    """Wait for all functions that were started, and raise the first error among theirs."""
    _, started = _threads(os.getpid())
    errors = []
    while started:
        errors.append(started.popleft().exception())
    for error in errors:
        if error is not None:
            raise error


@cache
def _threads(process: int) -> tuple[ThreadPoolExecutor, deque[Future[object]]]:
    """The threads of a process, which a child of a fork does not have."""
    return ThreadPoolExecutor(thread_name_prefix="slangrad-images"), deque()
