"""A CUDA driver without a GPU: memory that only its own calls reach, and launches that interpret the kernel.

    with fake_gpu() as driver:
        device = spy.create_device("cuda")

It stands for `cuda.bindings.driver`. Memory of the GPU is protected except within calls of the driver, so code of the
host that follows an address of it ends the process. A launch looks up the flat kernel that the PTX was made from. A
kernel that follows an address of the host is stopped, and the GPU is lost, as on a real one.
"""

import ctypes
import mmap
from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from functools import wraps
from threading import RLock, local
from unittest.mock import patch

import numpy as np

import slangrad as spy
from slangrad.call.compiling import together
from slangrad.ir.data.layout import layout_of
from slangrad.ir.oracle import memory as oracle
from slangrad.ir.oracle.interpret import KernelLaunch, run_kernel
from slangrad.runtime.cuda import device as devices
from slangrad.runtime.cuda import driver as drivers
from slangrad.runtime.cuda import stream as streams
from slangrad.runtime.cuda.arena import BLOCKS
from slangrad.runtime.cuda.launch import ARENA_HEADER, LAUNCH, Status
from slangrad.targets import cuda

ROOM = 256 << 20
PROTECTED, OPEN = 0, mmap.PROT_READ | mmap.PROT_WRITE
LIBC = ctypes.CDLL(None, use_errno=True)


class IllegalAddress(Exception):
    """A kernel uses memory that the GPU does not reach."""


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Names:
    """Gives each name back."""

    def __getattr__(self, name):
        return name


class Arena:
    """Memory of the GPU."""

    def __init__(self):
        self.map = mmap.mmap(-1, ROOM)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.end = self.start
        self.sizes = {}
        self.free = {}
        self.depth = 0
        self.lock = RLock()
        self.protect(PROTECTED)

    def protect(self, how):
        assert LIBC.mprotect(ctypes.c_void_p(self.start), ctypes.c_size_t(ROOM), how) == 0

    def holds(self, address, size):
        return any(start <= address and address + size <= start + n for start, n in self.sizes.items())

    def allocate(self, size):
        rounded = -(-size // 256) * 256
        if self.free.get(rounded):
            address = self.free[rounded].pop()
        elif self.end + rounded <= self.start + ROOM:
            address, self.end = self.end, self.end + rounded
        else:
            return None
        self.sizes[address] = rounded
        return address

    def release(self, address):
        self.free.setdefault(self.sizes[address], []).append(address)
        del self.sizes[address]

    @contextmanager
    def open(self):
        """For one thread at a time, and for calls inside each other."""
        with self.lock:
            self.depth += 1
            self.protect(OPEN)
            try:
                yield
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.protect(PROTECTED)

    @contextmanager
    def for_kernels(self, arguments, size):
        """What the oracle runs reaches this memory, `size` bytes of arguments, and its own."""
        places = [(self.start, self.start + ROOM), (arguments, arguments + size)]
        check, allocate = oracle._checked, oracle.ThreadMemory._allocate

        def checked(address):
            if not any(low <= address < high for low, high in places):
                raise IllegalAddress(hex(address))
            return check(address)

        def allocated(blocks, size, zero):
            address = allocate(blocks, size, zero)
            places.append((address, address + size))
            return address

        locals_ = patch.object(oracle.ThreadMemory, "_allocate", staticmethod(allocated))
        with patch.object(oracle, "_checked", checked), locals_:
            yield


def with_memory(function):
    @wraps(function)
    def inside(self, *arguments):
        with self.arena.open():
            return function(self, *arguments)

    return inside


def recordable(function):
    """Work on a stream, its last argument; a stream that records keeps it for later."""

    @wraps(function)
    def inside(self, *arguments):
        *inputs, stream = arguments
        if stream not in self._graphs:
            return function(self, *arguments)
        self._graphs[stream].append(lambda other: getattr(self, function.__name__)(*inputs, other))
        return (Result.CUDA_SUCCESS,)

    return inside


class FakeBindings:
    """`calls`: the names of all calls, without launches. `launches`: how many there were, `graph_launches`: those of graphs.
    `linked`: PTX that was
    assembled."""

    CUstreamCaptureMode = Names()
    CUdevice_attribute = CUjitInputType = CUpointer_attribute = CUfunction_attribute = Names()

    def __init__(self, capability=(9, 0), version=13000, gpus=1, pinned=1 << 30):
        self.capability, self.version, self.gpus = capability, version, gpus
        self.arena = Arena()
        self.kernels = {}  # kernels in IR, and their modules, by PTX
        self.stopped = Result.CUDA_SUCCESS  # what became of the kernels
        self.calls = []
        self.launches = self.graph_launches = 0
        self.launches_without_memory = 0  # how many of the next ones fail
        self.linked = []
        self.torch = None  # PyTorch as the device sees it, which has no GPU
        self.used = []  # the streams of launches and copies, in their order
        self.waits = []  # pairs of streams: the one that waits, and the one that it waits for
        self.capturing = set()  # streams whose work is recorded
        self._recorded = {}  # the streams of events
        self._graphs = {}  # what streams record, as functions of the stream of a launch
        self.shared = {}  # bytes of shared memory that functions may have, beyond those that all have
        self.pinned = pinned  # bytes that may be
        self._pinned = []
        self._thread = local()
        self._handles = {}

    def __getattribute__(self, name):
        if name.startswith("cu"):
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)

    def _handle(self, thing):
        self._handles[len(self._handles) + 1] = thing
        return len(self._handles)

    # --- errors, devices

    def cuGetErrorName(self, error):
        return Result.CUDA_SUCCESS, Result(error).name.encode()

    def cuGetErrorString(self, error):
        return Result.CUDA_SUCCESS, Result(error).name.lower().replace("_", " ").encode()

    def cuInit(self, flags):
        return (Result.CUDA_SUCCESS if self.gpus else Result.CUDA_ERROR_NO_DEVICE,)

    def cuDriverGetVersion(self):
        return Result.CUDA_SUCCESS, self.version

    def cuDeviceGetCount(self):
        return Result.CUDA_SUCCESS, self.gpus

    def cuDeviceGet(self, index):
        return Result.CUDA_SUCCESS, index

    def cuDeviceGetName(self, length, device):
        return Result.CUDA_SUCCESS, b"A fake GPU\0" + bytes(length - 11)

    def cuDeviceGetAttribute(self, name, device):
        major, minor = self.capability
        known = {
            "COMPUTE_CAPABILITY_MAJOR": major,
            "COMPUTE_CAPABILITY_MINOR": minor,
            "MULTIPROCESSOR_COUNT": 1,
        }
        return Result.CUDA_SUCCESS, known[name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDeviceTotalMem(self, device):
        return Result.CUDA_SUCCESS, ROOM

    def cuDevicePrimaryCtxRetain(self, device):
        return Result.CUDA_SUCCESS, self._handle(("context", device))

    def cuCtxSetCurrent(self, context):
        self._thread.context = context
        return (Result.CUDA_SUCCESS,)

    # --- streams, events: all is done at once

    def cuStreamCreate(self, flags):
        return Result.CUDA_SUCCESS, self._handle("stream")

    def CUstream(self, raw):
        """A stream of another library."""
        return "stream", raw

    def cuStreamIsCapturing(self, stream):
        return Result.CUDA_SUCCESS, int(stream in self.capturing)

    def cuStreamWaitEvent(self, stream, event, flags):
        assert not {stream, self._recorded[event]} & self.capturing
        self.waits.append((stream, self._recorded[event]))
        return (Result.CUDA_SUCCESS,)

    def cuEventCreate(self, flags):
        return Result.CUDA_SUCCESS, self._handle("event")

    def cuStreamSynchronize(self, stream):
        assert self._is_stream(stream) and stream not in self.capturing
        return (self.stopped,)

    def _is_stream(self, stream):
        return isinstance(stream, tuple) or self._handles[stream] == "stream"

    def cuEventSynchronize(self, event):
        assert self._handles[event] == "event"
        return (Result.CUDA_SUCCESS,)

    def cuEventRecord(self, event, stream):
        assert self._is_stream(stream)
        self._recorded[event] = stream
        return (Result.CUDA_SUCCESS,)

    def cuEventElapsedTime(self, first, last):
        assert self._handles[first] == self._handles[last] == "event"
        return Result.CUDA_SUCCESS, 1.0

    # --- memory

    def cuMemHostAlloc(self, size, flags):
        if size > self.pinned:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        self.pinned -= size
        self._pinned.append(ctypes.create_string_buffer(size))
        return Result.CUDA_SUCCESS, ctypes.addressof(self._pinned[-1])

    def cuPointerGetAttribute(self, attribute, address):
        assert attribute == "CU_POINTER_ATTRIBUTE_MEMORY_TYPE"
        if any(0 <= address - ctypes.addressof(block) < len(block) for block in self._pinned):
            return Result.CUDA_SUCCESS, 1
        return Result.CUDA_ERROR_INVALID_VALUE, None

    def cuMemAllocAsync(self, size, stream):
        if self.stopped:
            return self.stopped, 0
        address = self.arena.allocate(size)
        if address is None:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        with self.arena.open():
            ctypes.memset(address, 0xAA, size)
        return Result.CUDA_SUCCESS, address

    def cuMemGetInfo(self):
        return Result.CUDA_SUCCESS, ROOM - sum(self.arena.sizes.values()), ROOM

    def cuMemFreeAsync(self, address, stream):
        self.arena.release(address)
        return (Result.CUDA_SUCCESS,)

    @with_memory
    def cuMemcpyHtoDAsync(self, target, source, size, stream):
        assert self.arena.holds(target, size) and stream not in self.capturing
        self.used.append(stream)
        ctypes.memmove(target, source, size)
        return (Result.CUDA_SUCCESS,)

    @with_memory
    def cuMemcpyDtoHAsync(self, target, source, size, stream):
        assert self.arena.holds(source, size)
        ctypes.memmove(target, source, size)
        return (Result.CUDA_SUCCESS,)

    @with_memory
    @recordable
    def cuMemcpyDtoDAsync(self, target, source, size, stream):
        assert self.arena.holds(source, size) and self.arena.holds(target, size)
        assert abs(target - source) >= size, "the driver copies no ranges that overlap"
        ctypes.memmove(target, source, size)
        return (Result.CUDA_SUCCESS,)

    @with_memory
    @recordable
    def cuMemsetD8Async(self, address, value, size, stream):
        assert self.arena.holds(address, size)
        ctypes.memset(address, value, size)
        return (Result.CUDA_SUCCESS,)

    @with_memory
    @recordable
    def cuMemsetD2D8Async(self, address, pitch, value, width, height, stream):
        assert pitch >= width and self.arena.holds(address, pitch * (height - 1) + width)
        for row in range(height):
            ctypes.memset(address + row * pitch, value, width)
        return (Result.CUDA_SUCCESS,)

    # --- graphs: lists of functions

    def cuStreamBeginCapture(self, stream, mode):
        assert mode == "CU_STREAM_CAPTURE_MODE_RELAXED" and stream not in self._graphs
        self._graphs[stream] = []
        return (Result.CUDA_SUCCESS,)

    def cuStreamEndCapture(self, stream):
        return Result.CUDA_SUCCESS, self._handle(self._graphs.pop(stream))

    def cuStreamDestroy(self, stream):
        assert stream not in self._graphs
        return (Result.CUDA_SUCCESS,)

    def cuGraphInstantiate(self, graph, flags):
        return Result.CUDA_SUCCESS, self._handle(list(self._handles[graph]))

    def cuGraphDestroy(self, graph):
        self._handles[graph] = None
        return (Result.CUDA_SUCCESS,)

    def cuGraphExecDestroy(self, graph):
        self._handles[graph] = None
        return (Result.CUDA_SUCCESS,)

    def cuGraphLaunch(self, graph, stream):
        assert stream not in self.capturing, "the driver is not known to record graphs in graphs"
        self.graph_launches += 1
        for step in self._handles[graph]:
            assert step(stream)[0] == Result.CUDA_SUCCESS
        return (Result.CUDA_SUCCESS,)

    # --- code: what is linked is the PTX itself

    def cuLinkCreate(self, count, options, values):
        return Result.CUDA_SUCCESS, self._handle([])

    def cuLinkAddData(self, state, kind, data, size, name, count, options, values):
        assert data.endswith(b"\0") and size == len(data)
        self._handles[state].append(ctypes.create_string_buffer(data[:-1], size - 1))
        self.linked.append(data[:-1])
        return (Result.CUDA_SUCCESS,)

    def cuLinkComplete(self, state):
        (code,) = self._handles[state]
        return Result.CUDA_SUCCESS, ctypes.addressof(code), len(code)

    def cuLinkDestroy(self, state):
        self._handles[state] = None
        return (Result.CUDA_SUCCESS,)

    def cuModuleLoadData(self, image):
        return Result.CUDA_SUCCESS, self._handle(self.kernels[bytes(image)])

    def cuModuleGetFunction(self, module, name):
        summed, compiled = self._handles[module]
        function = summed.kernel if name == b"kernel" else summed.sums.finish
        return Result.CUDA_SUCCESS, self._handle((summed, compiled, function))

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, handle, threads, shared):
        assert threads in (128, 256, 512) and shared == self.shared.get(handle, 0)
        return Result.CUDA_SUCCESS, 2

    def cuFuncSetAttribute(self, function, name, value):
        assert name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.shared[function] = value
        return (Result.CUDA_SUCCESS,)

    @with_memory
    def cuLaunchKernel(self, handle, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        if not hasattr(self._thread, "context"):
            return (Result.CUDA_ERROR_INVALID_CONTEXT,)
        if self.launches_without_memory:
            self.launches_without_memory -= 1
            return (Result.CUDA_ERROR_OUT_OF_MEMORY,)
        summed, compiled, function = self._handles[handle]
        flat = summed.flat
        arguments, launch = (ctypes.c_void_p * 2).from_address(parameters)
        if stream in self._graphs:
            sizes = layout_of(flat.arguments).size, LAUNCH.size
            blocks = [
                ctypes.create_string_buffer(ctypes.string_at(at, size), size)
                for at, size in zip((arguments, launch), sizes)
            ]
            kept = (ctypes.c_void_p * 2)(*map(ctypes.addressof, blocks))

            def again(other, blocks=blocks):
                where = ctypes.addressof(kept)
                return self.cuLaunchKernel(handle, gx, gy, gz, bx, by, bz, shared, other, where, extra)

            self._graphs[stream].append(again)
            return (Result.CUDA_SUCCESS,)
        self.launches += 1
        self.used.append(stream)
        nx, ny, nz, status, number, partials, rows, arena = LAUNCH.unpack(
            ctypes.string_at(launch, LAUNCH.size)
        )
        grid = nx, ny, nz
        if summed.sums is not None:
            assert (bx, by, bz) == function.attributes["group_size"] and gy == gz == 1
            grid = gx * bx, 1, 1
        elif flat.group or flat.function.wave:
            assert (bx, by, bz) == flat.function.attributes["group_size"]
            assert gx * bx * by * bz >= nx * ny * nz and gy == gz == 1
            assert shared == self.shared.get(handle, 0)
        else:
            assert bx * by * bz <= 256 and shared == 0
            few = compiled.takes_memory
            for blocks, threads, count in ((gx, bx * compiled.lanes, nx), (gy, by, ny), (gz, bz, nz)):
                assert blocks * threads >= count or blocks == 65535 or (few and blocks <= BLOCKS)
        assert gx < 1 << 31
        if compiled.takes_memory:
            used, size = np.frombuffer(ctypes.string_at(arena, 16), np.int64).tolist()
            assert self.arena.holds(arena, size)
            assert used == ARENA_HEADER + gx * gy * gz * bx * by * bz * compiled.frame <= size
        reports = StatusReports(Status.from_address(status), number)
        size = layout_of(flat.arguments).size
        try:
            with self.arena.for_kernels(arguments, size):
                numbers = {"nx": nx, "ny": ny, "nz": nz, "partials": partials, "rows": rows}
                launch = KernelLaunch(arguments, grid, reports.holds, numbers)
                run_kernel(summed.program, function.name, launch, reports)
        except IllegalAddress:
            self.stopped = Result.CUDA_ERROR_ILLEGAL_ADDRESS
        return (Result.CUDA_SUCCESS,)


class StatusReports:
    """The oracle's reports in the status record, and its prints in the buffer."""

    def __init__(self, status, number):
        self.status, self.number = status, number

    def out_of_bounds(self, op, index, extent):
        if not self.status.error:
            self.status.error, self.status.site, self.status.kernel = 1, op.attributes["site"], self.number
            self.status.index, self.status.extent = index, extent

    def holds(self, address, size):
        """Whether memory is in the table of the launch."""
        (count,) = (ctypes.c_int64 * 1).from_address(self.status.memory)
        places = (ctypes.c_int64 * (2 * count)).from_address(self.status.memory + 8)
        at = bisect_right(places[::2], address) - 1
        return at >= 0 and address + size <= places[2 * at + 1]

    def print(self, op, values):
        words = list(map(_word, values))
        buffer = np.ctypeslib.as_array(ctypes.cast(self.status.prints, ctypes.POINTER(ctypes.c_int64)), (3,))
        used, room, size = int(buffer[0]), int(buffer[1]), 3 + len(words)
        buffer[0] += size
        if used + size > room:
            buffer[2] += 1
            return
        line = [
            op.attributes["site"] | size << 32,
            used,
            self.number << 32,
            *words,
        ]  # in the order of the oracle
        (ctypes.c_int64 * size).from_address(self.status.prints + 8 * (3 + used))[:] = line


def _word(value):
    """Integers as they are, floats as the bits of a double."""
    return value if isinstance(value, int) else int(np.float64(value).view(np.int64))


@contextmanager
def fake_gpu(**settings):
    """All CUDA devices that are made inside are fake ones."""
    bindings = FakeBindings(**settings)

    real_target_of = cuda.target_of

    def target_of(name):
        real = real_target_of(name)

        def finish(assembled):
            written = assembled.written
            bindings.kernels[assembled.ptx.encode()] = written.summed, written.module
            return real.finish(assembled)

        return replace(real, finish=finish)

    before = _current_device()
    drivers.load_driver.cache_clear()
    with (
        patch.object(drivers, "BINDINGS", bindings),
        patch.object(cuda, "target_of", target_of),
        patch.object(streams, "loaded_torch", lambda: bindings.torch),
        patch.object(devices, "loaded_torch", lambda: bindings.torch),
        patch.object(together, "_processes", lambda options: 1),  # kernels of workers have no IR here
    ):
        yield bindings
    drivers.load_driver.cache_clear()
    while (
        device := _current_device()
    ) is not before and device is not None:  # tests that come later take no fake
        spy.pop_current_device()


def _current_device():
    try:
        return spy.current_device()
    except spy.CallError:
        return None
