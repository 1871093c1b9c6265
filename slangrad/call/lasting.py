"""The calls of one function, whatever becomes of its text, and a call that is run again and again.

    step = module.step.bind_call(x, v, _result=x)       checked, compiled and packed now
    for _ in range(1000):
        step()                                          a launch, and no more

A `Caller` belongs to one generation of its session. When that has expired, the session looks at its files, and the next
call has a caller of the newest generation. Copies of a function share this.

What the tensors and arrays of a repeated call hold may change from run to run; numbers, lists and dicts are those of
the binding, and so are the places in memory. Where a call has more to do than to launch (it makes a result, reads
something back, copies, tells objects), every run is an ordinary call. After a reload it is bound anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.call.caller import Caller, copied
from slangrad.call.request import Settings


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


class RepeatedCall:
    """`call()` runs it and gives what the call gives."""

    __slots__ = ("_calls", "_generation", "_given", "_kept", "_result", "_run")

    def __init__(
        self, calls: LastingCaller, settings: Settings, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._calls = calls
        self._given = settings, copied(args), copied(kwargs)
        self._kept: list[Any] = []
        self._result: Any = None
        self._run: Callable[[], Any] = self._call
        self._bind()

    def __repr__(self) -> str:
        return f"RepeatedCall({self._calls.now.name})"

    @property
    def is_launch(self) -> bool:
        """Whether a run is a launch and nothing else."""
        return self._run != self._call

    def _bind(self) -> None:
        caller = self._calls.current()
        settings, args, kwargs = self._given
        launch, result = caller.fixed(settings, args, dict(kwargs))
        self._kept, self._result, self._run = [], None, self._call
        if launch is not None:
            self._kept = [memory for value in launch.values for memory in _memory_of(value)]
            self._result = result
            self._run = caller.session.device.runtime.prepare(launch.kernel, launch.arguments, launch.grid)
        self._generation = caller.generation

    def _call(self) -> Any:
        settings, args, kwargs = self._given
        return self._calls.current().call(settings, args, dict(kwargs))

    def __call__(self) -> Any:
        if self._generation.expired:
            self._bind()
        made = self._run()
        return self._result if made is None else made


def _memory_of(value: Any) -> list[Any]:
    """A value, and what lies behind it now: a tensor may be pointed elsewhere."""
    parts = (getattr(value, name, None) for name in ("storage", "grad_in", "grad_out"))
    return [value, *(getattr(part, "storage", part) for part in parts if part is not None)]
