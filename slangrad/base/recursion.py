"""Room for walking deep trees.

In: nothing.   Out: a context in which Python code may recurse deeply.

    with deep_recursion():
        parse_or_check_or_lower(...)

The limits in `options.py` bound how deep a tree can be; this makes that depth safe to recurse over, since
frames of Python functions do not use the machine's stack. The caller's limit comes back in the end. Chains that
no limit bounds, such as of thousands of structs that hold each other, end in a CompileError.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.forks import BRIEF, kept_at_fork

DEEP = 60_000

_lock = kept_at_fork(threading.Lock(), BRIEF)
_own = threading.local()  # how often this thread is inside
_users = 0
_callers_limit = 0


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the interpreter's recursion limit while any thread is inside."""
    _enter()
    try:
        yield
    except RecursionError:
        message = "declarations, types or calls of this program lead to each other in too long a chain"
        raise CompileError([Diagnostic("E0206", message)]) from None
    finally:
        _leave()


def _enter() -> None:
    global _users, _callers_limit
    with _lock:
        if _users == 0:
            _callers_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(DEEP, _callers_limit))
        _users += 1
        _own.times = getattr(_own, "times", 0) + 1


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        _own.times -= 1
        if _users == 0:
            sys.setrecursionlimit(_callers_limit)


def _after_fork() -> None:
    """Of the threads inside, only this one is in the child."""
    global _users
    with _lock:
        left = _users and getattr(_own, "times", 0)
        if _users and not left:
            sys.setrecursionlimit(_callers_limit)
        _users = left


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
