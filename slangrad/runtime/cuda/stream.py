"""The stream of a GPU: PyTorch's current one as soon as PyTorch uses the GPU, until then one of its own.

    stream = Stream(driver, context, index)
    with stream as handle:               all that is put on it inside is in one order with all that other threads put
        driver.call("cuMemsetD8Async", address, 0, size, handle)
    stream.refuse_capture("...")         CaptureError while PyTorch records a graph

All work of a device has one order, as if it had one stream. So when PyTorch's current stream is another one than
before, it waits for the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from slangrad.base.lazy import loaded_torch
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.device import CaptureError

CURE = "make the call once before, pass tensors of PyTorch on the GPU, and let calls return such tensors"
NOT_CAPTURING = 0  # CU_STREAM_CAPTURE_STATUS_NONE


class Stream:
    """`handle` is the stream that was used last."""

    def __init__(self, driver: Driver, context: object, index: int) -> None:
        self.handle = driver.stream()
        self._driver = driver
        self._context = context
        self._index = index  # of the GPU, which PyTorch counts as the driver does
        self._event = driver.event()
        self._lock = kept_at_fork(threading.RLock(), WORK)
        self._raw: int | None = None  # PyTorch's stream, as a number; None before PyTorch uses the GPU
        self._current: Callable[[int], int] | None = None
        self._recorded: object = None  # the stream that records meanwhile

    def __enter__(self) -> object:
        self._lock.acquire()
        if self._recorded is not None:
            return self._recorded
        try:
            current = self._current or self._of_torch()
            if current is not None:
                raw = current(self._index)
                if raw != self._raw:
                    self._go_on_with(raw)
        except BaseException:
            self._lock.release()
            raise
        return self.handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _of_torch(self) -> Callable[[int], int] | None:
        """PyTorch's function for its current stream, once it uses a GPU."""
        torch = loaded_torch()
        if torch is None or not torch.cuda.is_initialized():
            return None
        self._current = torch._C._cuda_getCurrentRawStream
        return self._current

    def _go_on_with(self, raw: int) -> None:
        """Go on with another stream. PyTorch has waited for all others before it records a graph, and what it records
        may wait for nothing outside."""
        handle = self._driver.stream_of(raw)
        self._driver.call("cuCtxSetCurrent", self._context)
        if self._driver.call("cuStreamIsCapturing", handle) == NOT_CAPTURING:
            self._order(self.handle, handle)
        self.handle, self._raw = handle, raw

    def precede(self, raw: int | None) -> None:
        """All that another library puts on its stream from now on comes after what is on this one. None is PyTorch's
        current stream."""
        with self as handle:
            if raw is not None and raw != self._raw:
                self._order(handle, self._driver.stream_of(raw))

    def follow(self, raw: int) -> None:
        """All that is put on this stream from now on comes after what is on that of another library."""
        with self as handle:
            if raw != self._raw:
                self._order(self._driver.stream_of(raw), handle)

    def _order(self, first: object, second: object) -> None:
        self._driver.call("cuCtxSetCurrent", self._context)
        self._driver.call("cuEventRecord", self._event, first)
        self._driver.call("cuStreamWaitEvent", second, self._event, 0)

    @property
    def is_captured(self) -> bool:
        """Whether PyTorch records a graph on its current stream. On its default stream, number 0, it cannot."""
        current = self._current or self._of_torch()
        if current is None or not current(self._index):
            return False
        with self as handle:
            self._driver.call("cuCtxSetCurrent", self._context)
            return bool(self._driver.call("cuStreamIsCapturing", handle) != NOT_CAPTURING)

    def refuse_capture(self, reason: str) -> None:
        """CaptureError while PyTorch records a graph on its current stream."""
        if self.is_captured:
            raise CaptureError(reason, "torch.cuda.graph", CURE)

    @contextmanager
    def recorded(self) -> Iterator[list[object]]:
        """Record what is put on the stream inside. Other threads wait. Afterwards the list has the driver's graph."""
        graphs: list[object] = []
        with self:
            recorded = self._driver.stream()
            try:
                self._driver.begin_capture(recorded)
                self._recorded = recorded
                try:
                    yield graphs
                finally:
                    self._recorded = None
                    graphs.append(self._driver.call("cuStreamEndCapture", recorded))
            finally:
                self._driver.call("cuStreamDestroy", recorded)
