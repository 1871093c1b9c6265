"""A context for compilation: a high recursion limit, and no garbage collection meanwhile.

In: nothing.   Out: a context in which Python code may recurse deeply.

    with compiling():
        parse_or_check_or_lower(...)

The limits in `options.py` bound how deep a tree can be; this makes that depth safe to recurse over, since
frames of Python functions do not use the machine's stack. The caller's limit is restored at the end. Chains that no
limit bounds, such as thousands of nested structs, end in a CompileError.

A compiler makes ever more objects, nearly all of which live until the next pass. Repeated garbage collections would
take as long as the passes themselves, so garbage in cycles is collected at the end.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.process.forks import BRIEF, kept_at_fork

DEEP = 60_000

_lock = kept_at_fork(threading.Lock(), BRIEF)
_own = threading.local()  # how often this thread is inside
_users = 0
_callers_limit = 0
_callers_collection = False


@contextmanager
def compiling() -> Iterator[None]:
    """Raise the recursion limit and switch the garbage collector off while any thread is inside."""
    _enter()
    try:
        yield
    except RecursionError:
        message = "declarations, types or calls of this program lead to each other in too long a chain"
        raise CompileError([Diagnostic("E0206", message)]) from None
    finally:
        _leave()


def _enter() -> None:
    global _users, _callers_limit, _callers_collection
    with _lock:
        if _users == 0:
            _callers_limit, _callers_collection = sys.getrecursionlimit(), gc.isenabled()
            sys.setrecursionlimit(max(DEEP, _callers_limit))
            gc.disable()
        _users += 1
        _own.times = getattr(_own, "times", 0) + 1


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        _own.times -= 1
        if _users == 0:
            _give_back()


def _give_back() -> None:
    sys.setrecursionlimit(_callers_limit)
    if _callers_collection:
        gc.enable()


def _after_fork() -> None:
    """After a fork the child has only the forking thread."""
    global _users
    with _lock:
        left = _users and getattr(_own, "times", 0)
        if _users and not left:
            _give_back()
        _users = left


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
