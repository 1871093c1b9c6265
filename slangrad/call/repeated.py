"""A call whose arguments are bound once and that is run again and again.

    step = module.step.bind_call(x, v, _result=x)       checked, compiled and packed now
    for _ in range(1000):
        step()                                          a launch, and no more

What the tensors and arrays hold may change from run to run; numbers, lists and dicts are those of the binding, and so
are the places in memory. Where a call has more to do than to launch (it makes a result, reads something back, copies,
tells objects), every run is an ordinary call. After a reload it is bound anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.call.caller import copied
from slangrad.call.lasting import LastingCaller
from slangrad.call.request import Settings


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
