"""A launch of one chunk that is run again and again.

    run = PreparedLaunch(device, kernel, arguments, grid, chunks, tape_limit)
    run()      the kernel, and what it reports; nothing is converted or computed anew

A launch record that served this very launch last still says all of it, and records are taken from a stack, so mostly
nothing is written at all.
"""

from __future__ import annotations

import ctypes

from slangrad.runtime.device import Device, DeviceClosedError, Grid, Kernel
from slangrad.runtime.launch_record import LaunchRecord, give_back_record, take_record
from slangrad.runtime.reports import exception_of

# Without types of its arguments a function takes those of ctypes as they are, which is the fastest way to call one.
_FUNCTION = ctypes.CFUNCTYPE(None)
_FIRST_CHUNK = ctypes.c_int64(0)


class PreparedLaunch:
    """May be called by several threads at a time. Raises what the kernel reports, and DeviceClosedError."""

    __slots__ = ("_arguments", "_chunks", "_device", "_grid", "_kernel", "_memory", "_run", "_tape_limit")

    def __init__(
        self,
        device: Device,
        kernel: Kernel,
        entry: int,
        arguments: bytes,
        grid: Grid,
        chunks: Grid,
        tapes: int,
    ) -> None:
        self._device = device
        self._kernel = kernel
        self._run = _FUNCTION(entry)
        self._memory = ctypes.create_string_buffer(arguments, len(arguments) or 1)
        self._arguments = ctypes.c_void_p(ctypes.addressof(self._memory))
        self._grid = grid
        self._chunks = chunks
        self._tape_limit = tapes

    def __call__(self) -> None:
        if self._device.is_closed:
            raise DeviceClosedError
        record = take_record()
        try:
            if record.prepared is not self:
                record.begin(self._kernel, self._tape_limit, self._grid, self._chunks)
                record.prepared = self
            self._run(self._arguments, record.pointer, _FIRST_CHUNK)
            if record.is_touched():
                self._report(record)
        finally:
            give_back_record(record)

    def _report(self, record: LaunchRecord) -> None:
        failure, raised = record.end()
        if raised is not None:
            raise raised
        if failure is not None:
            raise exception_of(failure[1], self._kernel.name, self._kernel.sites, self._tape_limit)
