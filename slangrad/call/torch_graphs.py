"""torch.compile, where somebody uses it: it breaks its graph at a call and traces nothing of slangrad.

In: nothing; asked when modules are loaded and when calls are bound.   PyTorch itself is not loaded here.
"""

from __future__ import annotations

import sys
from threading import Lock

from slangrad.base.forks import BRIEF, kept_at_fork

_lock = kept_at_fork(Lock(), BRIEF)
_told: list[bool] = []


def leave_out_of_graphs() -> None:
    """Tell torch.compile, once, if it has been loaded."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is None or _told:
        return
    with _lock:
        if not _told:
            rules.add("slangrad")
            _told.append(True)
