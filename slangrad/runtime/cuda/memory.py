"""Memory of a GPU in the order of its stream.

CachingAllocator(StreamSource(driver, stream, context))    what is freed serves later launches of the stream at once
"""

from __future__ import annotations

from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.cuda.stream import Stream


class StreamSource:
    """Memory that the driver gives in the order of a stream."""

    def __init__(self, driver: Driver, stream: Stream, context: object) -> None:
        self._driver = driver
        self._stream = stream
        self._context = context

    def obtain(self, size: int, zero: bool) -> tuple[int, object]:
        self._driver.call("cuCtxSetCurrent", self._context)
        self._stream.refuse_capture("this call takes memory of the GPU")
        with self._stream as handle:
            address = int(self._driver.call("cuMemAllocAsync", size, handle))
        if zero:
            self.fill_zero(address, size)
        return address, None

    def fill_zero(self, address: int, size: int) -> None:
        if size:
            self._driver.call("cuCtxSetCurrent", self._context)
            with self._stream as handle:
                self._driver.call("cuMemsetD8Async", address, 0, size, handle)

    def release(self, address: int) -> None:
        """In any thread: a block may be freed wherever Python collects garbage. The lock of the stream is not waited
        for, since its owner may wait for this thread. The last stream serves: it comes after all uses of the block."""
        if self._driver.lost is not None:
            return  # the driver has taken all memory back
        self._driver.call("cuCtxSetCurrent", self._context)
        self._driver.call("cuMemFreeAsync", address, self._stream.handle)
