"""The calls of one function, whatever becomes of its text.

A `Caller` belongs to one generation of its session. When that has expired, the session looks at its files, and the next
call has a caller of the newest generation. Copies of a function share this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.call.caller import Caller


class LastingCaller:
    """`now` is the newest caller, which may have expired: who calls often looks itself."""

    __slots__ = ("_make", "_session", "now")

    def __init__(self, session: Any, make: Callable[[Any], Caller]) -> None:
        self._session = session
        self._make = make
        self.now = make(session.generation)

    def current(self) -> Caller:
        return self.renewed() if self.now.generation.expired else self.now

    def renewed(self) -> Caller:
        """The caller of the newest generation, after a look at files that have changed."""
        self._session.refresh()
        with self._session.lock:
            if self.now.generation is not self._session.generation:
                self.now = self._make(self._session.generation)
            return self.now
