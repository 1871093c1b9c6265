"""Memory of a GPU in the order of its stream: the source of blocks, and copies between host and GPU.

Copies(driver, stream).to_gpu(address, array)     through pinned memory where the array is large
CachingAllocator(StreamSource(driver, stream))    what is freed serves later launches of the stream at once
"""

from __future__ import annotations

import ctypes

from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.device import Array

PIECE = 8 << 20  # bytes of a pinned buffer
SMALL = 64 << 10  # bytes up to which the driver's own buffers serve


class StreamSource:
    """Memory that the driver gives in the order of a stream."""

    def __init__(self, driver: Driver, stream: object, context: object) -> None:
        self._driver = driver
        self._stream = stream
        self._context = context

    def obtain(self, size: int, zero: bool) -> tuple[int, object]:
        address = int(self._driver.call("cuMemAllocAsync", size, self._stream))
        if zero:
            self.fill_zero(address, size)
        return address, None

    def fill_zero(self, address: int, size: int) -> None:
        if size:
            self._driver.call("cuMemsetD8Async", address, 0, size, self._stream)

    def release(self, address: int) -> None:
        """May run in any thread: a block is freed wherever Python collects garbage."""
        if self._driver.lost is not None:
            return  # the driver has taken all memory back
        self._driver.call("cuCtxSetCurrent", self._context)
        self._driver.call("cuMemFreeAsync", address, self._stream)


class Copies:
    """Copies between host and GPU. Two pinned buffers take turns: one is filled while the other travels."""

    def __init__(self, driver: Driver, stream: object) -> None:
        self._driver = driver
        self._stream = stream
        self._buffers: list[tuple[int, object]] = []

    def _pinned(self) -> list[tuple[int, object]]:
        """Address and event of both, made on first use."""
        if not self._buffers:
            self._buffers = [(self._driver.pinned(PIECE), self._driver.event()) for _ in range(2)]
        return self._buffers

    def to_gpu(self, address: int, source: Array) -> None:
        """The array may be changed when this returns."""
        start, size = source.ctypes.data, source.nbytes
        if size <= SMALL:
            self._driver.call("cuMemcpyHtoDAsync", address, start, size, self._stream)
            return
        for number, at in enumerate(range(0, size, PIECE)):
            buffer, event = self._pinned()[number % 2]
            count = min(PIECE, size - at)
            self._driver.call("cuEventSynchronize", event)
            ctypes.memmove(buffer, start + at, count)
            self._driver.call("cuMemcpyHtoDAsync", address + at, buffer, count, self._stream)
            self._driver.call("cuEventRecord", event, self._stream)

    def to_host(self, target: Array, address: int) -> None:
        """Waits for the stream."""
        start, size = target.ctypes.data, target.nbytes
        if size <= SMALL:
            self._driver.call("cuMemcpyDtoHAsync", start, address, size, self._stream)
            self._driver.call("cuStreamSynchronize", self._stream)
            return
        pieces = range(0, size, PIECE)
        for number, at in enumerate(pieces):
            if number == 0:
                self._fetch(0, address, size)
            if number + 1 < len(pieces):
                self._fetch(number + 1, address, size)
            buffer, event = self._pinned()[number % 2]
            self._driver.call("cuEventSynchronize", event)
            ctypes.memmove(start + at, buffer, min(PIECE, size - at))

    def _fetch(self, number: int, address: int, size: int) -> None:
        """Start the copy of a piece into its buffer."""
        buffer, event = self._pinned()[number % 2]
        at = number * PIECE
        self._driver.call("cuMemcpyDtoHAsync", buffer, address + at, min(PIECE, size - at), self._stream)
        self._driver.call("cuEventRecord", event, self._stream)
