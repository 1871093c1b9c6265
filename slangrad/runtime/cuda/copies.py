"""Copies between the host and a GPU, in the order of its stream.

Copies(driver, stream, context).to_gpu(address, array)      the array may be changed afterwards
Copies(driver, stream, context).to_host(array, address)     the array is filled, and all earlier launches are over

Memory that is not pinned goes through pinned buffers, a piece at a time: one travels while the other is filled or
emptied. For large arrays several threads do so, because one thread copies memory more slowly than a GPU.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.runtime.cuda.driver import Driver
from slangrad.runtime.cuda.stream import Stream
from slangrad.runtime.device import Array
from slangrad.runtime.pool import POOL, Job
from slangrad.runtime.processors import available_processors

PIECE = 4 << 20  # bytes of a pinned buffer
SMALL = 64 << 10  # bytes up to which the driver's own buffers serve
LARGE = 16 << 20  # bytes from which other threads help
MOST_LANES = 4


@dataclass(slots=True)
class CopyLane:
    """Two pinned buffers, which take turns, with the events after which they may be used again."""

    buffers: tuple[int, int]
    events: tuple[object, object]


# What one thread does on a stream: take pieces, given by where they begin, until none is left.
LaneWork = Callable[[object, CopyLane, Iterator[int]], None]
CAPTURED = "this call copies between the host and the GPU"


class Copies:
    """The copies of one GPU, which any thread may ask for."""

    def __init__(self, driver: Driver, stream: Stream, context: object) -> None:
        self._driver = driver
        self._stream = stream
        self._context = context
        self._lanes: list[CopyLane] = []
        self._lock = kept_at_fork(threading.Lock(), WORK)  # of the lanes

    def to_gpu(self, address: int, source: Array) -> None:
        """The context of the calling thread is set."""
        start, size = source.ctypes.data, source.nbytes

        def send(handle: object, lane: CopyLane, pieces: Iterator[int]) -> None:
            for turn, at in enumerate(pieces):
                buffer, event, count = lane.buffers[turn % 2], lane.events[turn % 2], min(PIECE, size - at)
                self._driver.call("cuEventSynchronize", event)
                ctypes.memmove(buffer, start + at, count)
                self._driver.call("cuMemcpyHtoDAsync", address + at, buffer, count, handle)
                self._driver.call("cuEventRecord", event, handle)

        self._stream.refuse_capture(CAPTURED)
        pinned = self._is_pinned(start, size)
        if size > SMALL and not pinned and self._in_pieces(send, size):
            return
        with self._stream as handle:
            self._driver.call("cuMemcpyHtoDAsync", address, start, size, handle)
        if pinned:  # the GPU reads it by itself; of other memory the driver has made a copy
            self._driver.call("cuStreamSynchronize", handle)

    def to_host(self, target: Array, address: int) -> None:
        """The context of the calling thread is set."""
        start, size = target.ctypes.data, target.nbytes

        def receive(handle: object, lane: CopyLane, pieces: Iterator[int]) -> None:
            before = -1
            for turn, at in enumerate(pieces):
                buffer, event, count = lane.buffers[turn % 2], lane.events[turn % 2], min(PIECE, size - at)
                self._driver.call("cuMemcpyDtoHAsync", buffer, address + at, count, handle)
                self._driver.call("cuEventRecord", event, handle)
                if turn:
                    take(lane, turn - 1, before)
                before = at
            if before >= 0:
                take(lane, turn, before)

        def take(lane: CopyLane, turn: int, at: int) -> None:
            self._driver.call("cuEventSynchronize", lane.events[turn % 2])
            ctypes.memmove(start + at, lane.buffers[turn % 2], min(PIECE, size - at))

        self._stream.refuse_capture(CAPTURED)
        if size > SMALL and not self._is_pinned(start, size) and self._in_pieces(receive, size):
            return
        with self._stream as handle:
            self._driver.call("cuMemcpyDtoHAsync", start, address, size, handle)
        self._driver.call("cuStreamSynchronize", handle)

    def _is_pinned(self, start: int, size: int) -> bool:
        """Whether the GPU reaches memory of the host; small arrays are not worth the question."""
        is_pinned = self._driver.is_pinned
        return size > SMALL and is_pinned(start) and is_pinned(start + size - 1)

    def _in_pieces(self, work: LaneWork, size: int) -> bool:
        """Do the work; False where no memory can be pinned for it. Other threads launch nothing meanwhile."""
        with self._lock, self._stream as handle:
            wanted = 1 if size < LARGE else min(MOST_LANES, available_processors())
            lanes = self._lanes_for(wanted)
            if not lanes:
                return False
            pieces = iter(range(0, size, PIECE))
            if len(lanes) == 1:
                work(handle, lanes[0], pieces)
            else:
                self._share(partial(work, handle), lanes, pieces)
            return True

    def _lanes_for(self, wanted: int) -> list[CopyLane]:
        """As many lanes, or those that there is memory for."""
        while len(self._lanes) < wanted:
            events = self._driver.event(), self._driver.event()
            try:
                first = self._driver.pinned(2 * PIECE)
            except MemoryError:
                break
            self._lanes.append(CopyLane((first, first + PIECE), events))
        return self._lanes[:wanted]

    def _share(
        self, work: Callable[[CopyLane, Iterator[int]], None], lanes: list[CopyLane], pieces: Iterator[int]
    ) -> None:
        """The calling thread works with the first lane, and threads that have time with the others."""
        free = lanes[1:]

        def help_() -> None:
            self._driver.call("cuCtxSetCurrent", self._context)
            work(free.pop(), pieces)

        job = Job(help_)
        POOL.ask_for_help(job, len(free))
        try:
            work(lanes[0], pieces)
        finally:
            _close(job)
        if job.error is not None:
            raise job.error


def _close(job: Job) -> None:
    """No helper touches the array afterwards. An interrupt only comes later."""
    interrupt: BaseException | None = None
    while True:
        try:
            job.close()
            break
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
