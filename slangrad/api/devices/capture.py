"""Calls that are recorded once and run many times: `device.capture()`.

    with device.capture() as g:
        model.bwds(x, weights, _result=y)
        optimizer.step()
    for _ in range(1000):
        g()

On a GPU the launches are one graph of the driver. On the CPU they run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from slangrad.runtime.device import CaptureError
from slangrad.tensors.gradients import HasGradients

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device


class CapturedCalls:
    """Calls that a with block of `device.capture()` has recorded: launches of calls, bound calls, kernels and commands,
    copies within the device, and clearing. `g()` runs all of it in order; `len(g)` counts it. Contents of tensors
    may change between runs, and numbers are fixed. Tensors and results of calls inside live as long as this object.

    CaptureError (E1052) inside of the block for what needs the host, for a second block at a time, and for `g()` before
    the block has ended well.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept: list[object] = []
        self._count = 0
        self._run: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"CapturedCalls({len(self)})"

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> CapturedCalls:
        if self._run is not None:
            raise CaptureError("the block has been run", "device.capture()", "make another one")
        self._recording = self._device.runtime.begin_recording()
        HasGradients.changes += 1  # launches that were prepared for calls with the same objects are not used
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime, recording = self._device.runtime, self._recording
        runtime.end_recording()
        HasGradients.changes += 1
        if error is None:
            self._kept, self._count = recording.kept, len(recording.work)
            self._run = runtime.fixed(recording.work)

    def __call__(self) -> None:
        """Run the calls. Errors of kernels are raised as those of calls are."""
        if self._run is None:
            raise CaptureError(
                "the with block has not ended well", "device.capture()", "record the calls first"
            )
        self._run()
