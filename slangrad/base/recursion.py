"""Room for walking deep trees.

In: nothing.   Out: a context in which Python code may recurse deeply.

    with deep_recursion():
        parse_or_check_or_lower(...)

The limits in `options.py` bound how deep a tree can be; this makes that depth safe to recurse over, since
frames of Python functions do not use the machine's stack. The caller's limit comes back in the end. Chains that
no limit bounds, such as of thousands of structs that hold each other, end in a CompileError.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from slangrad.base.diagnostics import CompileError, Diagnostic

DEEP = 60_000

_lock = threading.Lock()
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


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            sys.setrecursionlimit(_callers_limit)
