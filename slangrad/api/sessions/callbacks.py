"""Callbacks of a device, by numbers: it closes, reloads, has run commands.

    number = device.register_command_recording_submitted_callback(lambda event: print(event.id))
    device.unregister_command_recording_submitted_callback(number)

A callback may register and unregister callbacks; an event calls those registered when it began.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from slangrad.api.kernels.commands import CommandRecordingDiscardedEvent, CommandRecordingSubmittedEvent

Event = TypeVar("Event")

_NUMBERS = count(1)


class Callbacks(Generic[Event]):
    """The callbacks of one kind of event, in the order in which they came; no two have one number."""

    def __init__(self) -> None:
        self._callbacks: dict[int, Callable[[Event], object]] = {}

    def add(self, callback: Callable[[Event], object]) -> int:
        number = next(_NUMBERS)
        self._callbacks[number] = callback
        return number

    def remove(self, number: int) -> None:
        """Remove a callback, if it is there."""
        self._callbacks.pop(number, None)

    def tell(self, event: Event) -> None:
        for callback in [*self._callbacks.values()]:
            callback(event)

    def clear(self) -> None:
        self._callbacks.clear()


class RecordingCallbacks:
    """Callbacks of a device about recordings of commands."""

    def __init__(self) -> None:
        self.recordings_submitted: Callbacks[CommandRecordingSubmittedEvent] = Callbacks()
        self.recordings_discarded: Callbacks[CommandRecordingDiscardedEvent] = Callbacks()

    def register_command_recording_submitted_callback(
        self, callback: Callable[[CommandRecordingSubmittedEvent], object]
    ) -> int:
        """Call `callback(event)` when a command buffer has been submitted for the first time. Gives a number to
        unregister it by."""
        return self.recordings_submitted.add(callback)

    def unregister_command_recording_submitted_callback(self, id: int) -> None:
        """Forget the callback of that number; nothing where it is gone."""
        self.recordings_submitted.remove(id)

    def register_command_recording_discarded_callback(
        self, callback: Callable[[CommandRecordingDiscardedEvent], object]
    ) -> int:
        """Call `callback(event)` when an encoder or a command buffer is dropped without a submission. Gives a
        number to unregister it by."""
        return self.recordings_discarded.add(callback)

    def unregister_command_recording_discarded_callback(self, id: int) -> None:
        """Forget the callback of that number; nothing where it is gone."""
        self.recordings_discarded.remove(id)
