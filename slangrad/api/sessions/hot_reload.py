"""Hot reload: files of Slang that change while a program runs.

    device.register_shader_hot_reload_callback(print)
    module.f(x)                     # the text as it was loaded
                                    # ... an editor saves the file
    module.f(x)                     # the new text

One thread for all devices looks at the files of their sessions a few times a second, and marks the objects derived
from changed files as expired. The next call loads them anew, so a call only reads that mark. A text with errors
gives a warning, and the loaded program stays in use.
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from slangrad.api.sessions.callbacks import Callbacks
from slangrad.base.process.threads import start_thread
from slangrad.base.process.warn import warn
from slangrad.check.texts.files import Marks, marks_of

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.api.sessions.session import SlangSession

DELAY = 0.1  # seconds between looks


class ReloadWarning(UserWarning):
    """A changed file of a loaded module has errors: the former program stays in use."""


@dataclass(frozen=True, slots=True)
class ShaderHotReloadEvent:
    """Files were loaded anew. `errors`: of sessions whose new texts have errors, and whose programs are
    unchanged."""

    device: Device | None
    errors: tuple[Exception, ...] = ()


class HotReload:
    """The reloads of one device."""

    def __init__(self, device: Device, enabled: bool) -> None:
        self._device = ref(device)
        self._sessions = device.sessions
        self.enabled = enabled
        self.delay = DELAY
        self.callbacks: Callbacks[ShaderHotReloadEvent] = Callbacks()
        self._attempts = count(1)
        self._busy = threading.local()

    def watch(self, session: SlangSession) -> None:
        """Look at the files of a session from now on."""
        if self.enabled and session.generation.files.seen:
            WATCHER.add(session)

    @property
    def is_watching(self) -> bool:
        return any(WATCHER.watches(session) for session in self._sessions)

    def set_delay(self, seconds: float) -> None:
        self.delay = max(seconds, 0.001)
        WATCHER.wake()

    def stop(self) -> None:
        self.enabled = False
        for session in self._sessions:
            WATCHER.discard(session)

    def refresh(self) -> None:
        """Load the files that were found to have changed."""
        expired = [session for session in self._sessions if session.generation.expired]
        if expired and not getattr(self._busy, "now", False):
            self._reload([session for session in expired if session.has_changed()])

    def check(self) -> None:
        """Look at the files now, and load those that have changed."""
        self._reload([session for session in self._sessions if session.has_changed()])

    def reload_all(self) -> None:
        """Load everything anew, changed or not."""
        self._reload(list(self._sessions))

    def _reload(self, sessions: list[SlangSession]) -> None:
        if not sessions:
            return
        self._busy.now = True
        try:
            outcomes = [session.reload() for session in sessions]
        finally:
            self._busy.now = False
        gc.collect()  # a program is some ten thousand objects in circles; two at a time are enough
        errors = tuple(error_or_none for error_or_none in outcomes if error_or_none is not None)
        event = ShaderHotReloadEvent(self._device(), errors)
        number = next(self._attempts)
        self.callbacks.tell(event)
        for error in errors:
            message = (
                f"hot reload {number}: the program stays as it was, since the new text has errors\n{error}"
            )
            warn(message, ReloadWarning)


class Watcher:
    """The thread that looks at files, as long as there are some to look at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._sessions: WeakKeyDictionary[SlangSession, dict[Path, Marks]] = WeakKeyDictionary()
        self._has_thread = False

    def add(self, session: SlangSession) -> None:
        with self._lock:
            self._sessions.setdefault(session, {})
            self._start()

    def discard(self, session: SlangSession) -> None:
        with self._lock:
            self._sessions.pop(session, None)
            self._changed.set()

    def watches(self, session: SlangSession) -> bool:
        return session in self._sessions

    def wake(self) -> None:
        """Wake the thread: the time between two looks has changed."""
        self._changed.set()

    def _start(self) -> None:
        if not self._has_thread:
            self._has_thread = start_thread("slangrad hot reload", self._run) is not None

    def after_fork(self) -> None:
        """A child has the sessions, but no thread; a thread that is gone may hold locks."""
        sessions = list(self._sessions.items())
        self.__init__()  # type: ignore[misc]
        self._sessions.update(sessions)
        if sessions:
            with self._lock:
                self._start()

    def _run(self) -> None:
        delay = DELAY
        while True:
            self._changed.wait(delay)
            self._changed.clear()
            with self._lock:
                sessions = list(self._sessions.items())
                if not sessions:
                    self._has_thread = False
                    return
            for session, pending in sessions:
                look(session, pending)
            delay = min(session.device.hot_reload.delay for session, _ in sessions)
            del sessions, session


def look(session: SlangSession, pending: dict[Path, Marks]) -> None:
    """Mark a session whose files have changed, and did not change again since the last look: `pending` are files
    that were changed at that time."""
    generation = session.generation
    if generation.expired:
        return
    for path, was in list(generation.files.seen.items()):
        marks = marks_of(path)
        if marks == was.marks:
            pending.pop(path, None)
        elif path in pending and pending[path] == marks:
            pending.clear()
            generation.expired = True
            return
        else:
            pending[path] = marks


WATCHER = Watcher()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHER.after_fork)
