"""A call whose arguments are bound once and that is run again and again.

    step = module.step.bind_call(x, v, _result=x)       checked, compiled and packed now
    for _ in range(1000):
        step()                                          a launch, and no more

What the tensors and arrays hold may change from run to run; numbers, lists and dicts are those of the binding, and so
are the places in memory. Where a call has more to do than to launch (it makes a result, reads something back, copies,
tells objects), every run is an ordinary call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slangrad.call.plan import FixedLaunch
from slangrad.runtime.device import Device


class RepeatedCall:
    """`call()` runs it and gives what the call gives."""

    __slots__ = ("_kept", "_launch", "_result")

    def __init__(self, device: Device, launch: FixedLaunch, result: Any) -> None:
        self._launch = device.prepare(launch.kernel, launch.arguments, launch.grid)
        self._kept = [memory for value in launch.values for memory in _memory_of(value)]
        self._result = result

    def __call__(self) -> Any:
        self._launch()
        return self._result


class OrdinaryCall:
    """The same interface around a whole call."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __call__(self) -> Any:
        return self._call()


def _memory_of(value: Any) -> list[Any]:
    """A value, and what lies behind it now: a tensor may be pointed elsewhere."""
    parts = (getattr(value, name, None) for name in ("storage", "grad_in", "grad_out"))
    return [value, *(getattr(part, "storage", part) for part in parts if part is not None)]
