"""The CUDA device: kernels and memory of one NVIDIA GPU, in the order of one stream.

In: a `CudaKernel` (PTX), an argument block, a grid.   Out: the effects of the kernel.

A launch returns at once. What a kernel reports is raised by the next call that waits for the GPU, or that launches;
with SLANGRAD_SYNCHRONOUS=1 and in check mode by the launch itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from weakref import WeakSet

import numpy as np

from slangrad.base.lazy import loaded_torch
from slangrad.base.options import Options, store_of
from slangrad.runtime.cuda.architectures import newest_architecture
from slangrad.runtime.cuda.arena import BLOCKS, Arena, PartialSums
from slangrad.runtime.cuda.copies import CAPTURED, Copies
from slangrad.runtime.cuda.driver import (
    OLDEST_CAPABILITY,
    OTHER_CONTEXT,
    OUT_OF_GPU_MEMORY,
    CudaUnavailable,
    load_driver,
)
from slangrad.runtime.cuda.graph import CudaGraph, RepeatedLaunch
from slangrad.runtime.cuda.image import ARENA, ENTRY, FINISH, MEMORY, PRINTS, CudaKernel
from slangrad.runtime.cuda.launch import (
    LAUNCH,
    STATUS_OFFSETS,
    LoadedKernel,
    PreparedLaunch,
    Status,
    blocks_for,
    blocks_that_stay,
)
from slangrad.runtime.cuda.machine_code import load_module
from slangrad.runtime.cuda.memory import StreamSource
from slangrad.runtime.cuda.prints import PrintBuffer
from slangrad.runtime.cuda.stream import Stream
from slangrad.runtime.device import (
    Array,
    CaptureError,
    Device,
    DeviceClosedError,
    Grid,
    Kernel,
    MemoryRegion,
    Recording,
    check_arguments,
    check_grid,
)
from slangrad.runtime.memory import CachingAllocator, KnownMemory, MemoryBlock
from slangrad.runtime.reports import OUT_OF_MEMORY, Printed, exception_of, no_room_for_frames

MOST_GRAPHS_OF_ONE = 256  # that a device has at a time; each takes memory of the driver
NEEDS_HOST = "prints, checks numbers or addresses, or takes memory while it runs"
LATER = "a launch since the last wait reported this; with SLANGRAD_SYNCHRONOUS=1 its call raises it"


class CudaDevice(Device):
    """A GPU by its number. CudaUnavailable where there is none."""

    kind = "cuda"
    reaches_host = False

    def __init__(self, options: Options | None = None, index: int = 0) -> None:
        self._options = Options.from_environment() if options is None else options
        self._driver = driver = load_driver().of_one_device()
        if not 0 <= index < driver.device_count():
            note = f"there are {driver.device_count()}, counted from 0"
            raise CudaUnavailable(f"there is no GPU number {index}", note)
        self._device = driver.call("cuDeviceGet", index)
        self.name = driver.name(self._device)
        self.capability = driver.capability(self._device)
        if self.capability < OLDEST_CAPABILITY:
            version, wanted = (".".join(map(str, pair)) for pair in (self.capability, OLDEST_CAPABILITY))
            message = f"the GPU {self.name} has compute capability {version}, and {wanted} is needed"
            raise CudaUnavailable(message, "create_device() makes a device of the processors")
        self._context = driver.call("cuDevicePrimaryCtxRetain", self._device)
        driver.call("cuCtxSetCurrent", self._context)
        self.index = index
        self._place = f"cuda:{index}"  # PyTorch's name of the GPU
        self._stream = Stream(driver, self._context, index)
        self._launch = driver.function("cuLaunchKernel")
        self._launch_graph = driver.function("cuGraphLaunch")
        self._set_context = driver.function("cuCtxSetCurrent")
        self._graphs_of_one = WeakSet[CudaGraph]()
        self._source = StreamSource(driver, self._stream, self._context)
        self.memory = CachingAllocator(self._source)
        self._copies = Copies(driver, self._stream, self._context)
        self._status_address = driver.pinned(ctypes.sizeof(Status))
        self._status = Status.from_address(self._status_address)
        ctypes.memset(self._status_address, 0, ctypes.sizeof(Status))
        self._prints: PrintBuffer | None = None  # with the first kernel that prints
        self._has_printed = False  # since the host waited
        self._arena = Arena(driver, self._device, self.memory)
        self._multiprocessors = driver.attribute(self._device, "MULTIPROCESSOR_COUNT")
        self._partials = PartialSums(self.memory, self._multiprocessors)
        self._known: MemoryBlock | None = None  # the table of memory of the last launch in check mode
        self._kernels: dict[int, CudaKernel] = {}
        self.printed = Printed()

    def close(self) -> None:
        super().close()
        self.memory.trim()

    def target(self, backend: str) -> str:
        return f"{backend}:{newest_architecture(self.capability)}"

    def _require_gpu(self) -> None:
        """DeviceClosedError, or DeviceLost."""
        if self.is_closed:
            raise DeviceClosedError
        if self._driver.lost is not None:
            raise self._driver.lost.again()

    def _enter(self) -> None:
        """Make the context of this GPU current in the calling thread."""
        self._require_gpu()
        self._driver.call("cuCtxSetCurrent", self._context)

    # --- launches

    def launch(self, kernel: Kernel, arguments: bytes | bytearray, grid: Grid) -> None:
        size = kernel.argument_size
        if len(arguments) != size:
            check_arguments(kernel, arguments)
            arguments = arguments[:size]
        if not isinstance(kernel, CudaKernel):
            raise TypeError(f"kernel '{kernel.name}' was not made for a GPU")
        try:
            idle = kernel.loaded[self].idle[grid]
            launch = idle.pop()
        except (KeyError, IndexError):
            check_grid(grid)
            if 0 in grid:
                self._report()
                return
            launch, idle = self._prepared(kernel, grid)
        launch.arguments[:] = arguments
        self._start(kernel, launch)
        idle.append(launch)

    def prepare(self, kernel: Kernel, arguments: bytes, grid: Grid) -> Callable[[], None]:
        check_arguments(kernel, arguments)
        if not isinstance(kernel, CudaKernel) or min(grid) <= 0:
            return super().prepare(kernel, arguments, grid)
        launch, _ = self._prepared(kernel, grid)
        launch.arguments[:] = arguments[: kernel.argument_size]
        start = partial(self._start, kernel, launch)
        if kernel.image.needs or kernel.image.synchronous or self._options.synchronous:
            return start
        return RepeatedLaunch(start, partial(self._graph_of_one, kernel, launch), self.may_replay)

    def _prepared(self, kernel: CudaKernel, grid: Grid) -> tuple[PreparedLaunch, list[PreparedLaunch]]:
        """A new launch, and the list that it goes to afterwards."""
        self._require_gpu()
        loaded = kernel.loaded.get(self) or self._load(kernel)
        image, call = kernel.image, self._launch
        shape = self._shape(kernel, loaded, grid)
        partials, rows = (0, 0) if image.sums is None else (self._partials.address, shape[0][0])
        block = LAUNCH.pack(*grid, self._status_address, loaded.number, partials, rows, 0)
        size, sizes = kernel.argument_size, (image.shared, image.frame)
        launch = PreparedLaunch(partial(call, loaded.function), size, block, shape, *sizes)
        if loaded.finish is not None and image.sums is not None:
            launch.then(call, loaded.finish, image.sums[1])
        return launch, loaded.idle_over(grid)

    def _shape(self, kernel: CudaKernel, loaded: LoadedKernel, grid: Grid) -> tuple[Grid, Grid]:
        """The blocks of a launch, and the threads of each. There are no more blocks than memory beside the arguments
        has room for."""
        image, multiprocessors = kernel.image, self._multiprocessors
        if image.sums is not None and image.group is not None:
            shape_of = partial(blocks_that_stay, grid, image.group)
            most = min(loaded.blocks * multiprocessors, self._partials.blocks(image.sums[0]))
        else:
            shape_of = partial(blocks_for, grid, image.group, image.lanes)
            most = BLOCKS * multiprocessors if ARENA in image.needs else 0
        blocks, threads = shape_of(most)
        if image.frame:
            size = prod(threads) * image.frame
            most = self._arena.blocks(size, prod(blocks))
            if not most:
                raise no_room_for_frames(kernel.name, image.frame, prod(threads))
            return shape_of(most)
        return blocks, threads

    def _start(self, kernel: CudaKernel, launch: PreparedLaunch) -> None:
        """Launch, and raise what earlier launches have reported. The context of the calling thread is set where the
        driver misses it, because to set it takes as long as half a launch."""
        if self._status.error or self._driver.lost is not None or self.is_closed:
            self._report()
        if self.recording is not None and self._records_launch(kernel, launch):
            return
        if kernel.image.needs:
            self._supply(kernel, launch)
        self._driver.launched = kernel.name
        with self._stream as stream:
            (error,) = launch.run(stream)
            if error:
                self._start_again(kernel, launch, error, stream)
        if kernel.image.synchronous or self._options.synchronous:
            self._wait(())

    def _records_launch(self, kernel: CudaKernel, launch: PreparedLaunch) -> bool:
        if kernel.image.needs or kernel.image.synchronous:
            self.refuse_recording(f"kernel '{kernel.name}' {NEEDS_HOST}")
        return self.records(partial(self._put, kernel, launch.copied()))

    def _put(self, kernel: CudaKernel, launch: PreparedLaunch) -> None:
        """On the stream that records."""
        self._driver.launched = kernel.name
        with self._stream as stream:
            (error,) = launch.run(stream)
        if error:
            raise self._driver.error("cuLaunchKernel", error)

    def fixed(self, work: Sequence[Callable[[], None]]) -> CudaGraph:
        self._enter()
        with self._stream.recorded() as graphs:
            for step in work:
                step()
        return CudaGraph(self._driver, graphs[0], partial(self._run_graph, self._driver.launched))

    def _graph_of_one(self, kernel: CudaKernel, launch: PreparedLaunch) -> CudaGraph | None:
        """A launch as a graph; None where the driver has no memory for it, or has many."""
        if len(self._graphs_of_one) >= MOST_GRAPHS_OF_ONE:
            return None
        try:
            graph = self.fixed((partial(self._put, kernel, launch),))
        except MemoryError:
            return None
        self._graphs_of_one.add(graph)
        return graph

    def replay_of(self, calls: Sequence[Callable[[], object]]) -> CudaGraph | None:
        """A graph. None where a call needs the host, while a thread records, and where the driver has no memory."""
        try:
            with self._recording_begins:
                if self.recording is not None:
                    return None
                recording = self.recording = Recording()
                try:
                    for call in calls:
                        call()
                finally:
                    self.end_recording()
            graph = self.fixed(recording.work)
        except (CaptureError, MemoryError):
            return None
        graph.kept = recording.kept
        return graph

    def may_replay(self) -> bool:
        """Whether work may be a graph: neither a capture of the device nor one of PyTorch's records it."""
        return self.recording is None and not self._stream.is_captured

    def _run_graph(self, last: str, executable: object) -> None:
        """Launch a graph whose last kernel has this name."""
        if self._status.error or self._driver.lost is not None or self.is_closed:
            self._report()
        self._driver.launched = last
        with self._stream as stream:
            self._set_context(self._context)
            (error,) = self._launch_graph(executable, stream)
        if error:
            raise self._driver.error("cuGraphLaunch", error)
        if self._options.synchronous:
            self._wait(())

    def _start_again(self, kernel: CudaKernel, launch: PreparedLaunch, error: object, stream: object) -> None:
        """After an error that has a cure: another context, or stacks of threads that the cache of memory leaves no
        room for. The driver has memory back once the GPU is done."""
        if error in OTHER_CONTEXT:
            self._enter()
            (error,) = launch.run(stream)
        if error == OUT_OF_GPU_MEMORY:
            self.memory.trim()
            self._driver.call("cuStreamSynchronize", stream)
            (error,) = launch.run(stream)
        if error == OUT_OF_GPU_MEMORY:
            raise self.memory.no_room(f"the stacks of all threads of kernel '{kernel.name}'")
        if error:
            raise self._driver.error("cuLaunchKernel", error)

    def _report(self) -> None:
        """Raise what is known before a launch."""
        self._require_gpu()
        if self._status.error:
            self.synchronize()

    def _supply(self, kernel: CudaKernel, launch: PreparedLaunch) -> None:
        """Have ready what a launch needs. Lines of different launches are not mixed: printed ones are written first."""
        needs = kernel.image.needs
        self._stream.refuse_capture(f"kernel '{kernel.name}' {NEEDS_HOST}")
        self._enter()
        if PRINTS in needs:
            if self._prints is None:
                self._prints = PrintBuffer(self._driver)
                self._status.prints = self._prints.address
            if self._has_printed:
                self._wait((LATER,))
            self._has_printed = True
        if ARENA in needs:
            launch.set_arena(self._arena.begin(self._copies, launch.frames))
        if MEMORY in needs:
            table = KnownMemory(self.memory).table
            self._known = self.memory.allocate(table.nbytes)
            self._known.wanted = 0  # no pointer of a program leads here
            self._copies.to_gpu(self._known.address, table)
            self._status.memory = self._known.address

    def _load(self, kernel: CudaKernel) -> LoadedKernel:
        """The kernel on this GPU, with its number here."""
        self._enter()
        image = kernel.image
        module = load_module(self._driver, store_of(self._options), self.capability, image)
        number = len(self._kernels) + 1
        self._kernels[number] = kernel
        function = self._driver.call("cuModuleGetFunction", module, ENTRY)
        if image.shared:
            self._driver.allow_shared(function, image.shared)
        blocks, finish = 0, None
        if image.sums is not None and image.group is not None:
            blocks = self._driver.blocks_at_once(function, prod(image.group), image.shared)
            if image.sums[1]:
                finish = self._driver.call("cuModuleGetFunction", module, FINISH)
        loaded = kernel.loaded[self] = LoadedKernel(function, number, finish, blocks)
        return loaded

    # --- reports

    def synchronize(self) -> None:
        self._enter()
        self._wait((LATER,))

    def _wait(self, notes: tuple[str, ...]) -> None:
        self.refuse_recording("this call waits for the GPU")
        self._wait_for_all()
        self._tell(notes)

    def _wait_for_all(self) -> None:
        self._stream.refuse_capture("this call waits for the GPU")
        with self._stream as handle:
            pass
        self._driver.call("cuStreamSynchronize", handle)

    def _tell(self, notes: tuple[str, ...]) -> None:
        """Write what was printed, and raise what was reported. All that was launched has finished."""
        self._write_prints()
        if self._status.error:
            self._raise_reported(notes)

    def _write_prints(self) -> None:
        if self._has_printed and self._prints is not None:
            self._has_printed = False
            self._prints.take(self._kernels, self.printed)

    def take_printed(self) -> str:
        if self._has_printed and self._driver.lost is None:
            self._enter()
            self._wait_for_all()
            self._write_prints()
        return super().take_printed()

    def _raise_reported(self, notes: tuple[str, ...]) -> None:
        failure, kernel = self._status.failure, self._kernels[self._status.kernel]
        self._clear_status()
        room = self._arena.grow() if failure.error == OUT_OF_MEMORY else ""
        error = exception_of(failure, kernel.name, kernel.sites, self._options.limits.tape_bytes, room)
        for note in notes:
            error.add_note(note)
        raise error

    def _clear_status(self) -> None:
        ctypes.memset(self._status_address, 0, STATUS_OFFSETS["prints"])

    # --- memory

    def holds(self, home: object) -> bool:
        return home == self._place or super().holds(home)

    @property
    def place_of_torch(self) -> str | None:  # type: ignore[override]
        """The GPU, if PyTorch has it."""
        torch = loaded_torch()
        return self._place if torch is not None and torch.cuda.is_available() else None

    def precede(self, stream: int | None) -> None:
        self._require_gpu()
        self._stream.precede(stream)

    def follow(self, stream: int) -> None:
        self._require_gpu()
        self._stream.follow(stream)

    def memory_beside_launches(self) -> int:
        return self._arena.size + self._partials.size

    def memory_of_gpu(self) -> tuple[int, int]:
        self._enter()
        free, total = self._driver.call("cuMemGetInfo")
        return free, total

    def allocate(self, size: int, zero: bool = False) -> MemoryBlock:
        self._require_gpu()
        self._stream.refuse_capture("this call takes memory of the GPU")
        block = self.memory.allocate(size, zero)
        self.keep_recorded(block)
        return block

    def write(self, address: int, source: Array) -> None:
        assert source.flags.c_contiguous, "only C-contiguous arrays are written"
        self._enter()
        self.refuse_recording(CAPTURED)
        if source.nbytes:
            self._copies.to_gpu(address, source)

    def read(self, region: MemoryRegion) -> Array:
        self._enter()
        if 0 in region.shape:
            return np.empty(region.shape, region.dtype)
        items = self._fetched(region)[1]
        return items if items.flags.c_contiguous else items.copy(order="C")

    def fetch(self, target: Array, address: int) -> None:
        self._enter()
        if target.nbytes:
            self._receive(target, address)

    def put(self, region: MemoryRegion, values: Array) -> None:
        self._enter()
        self.refuse_recording(CAPTURED)
        if 0 in region.shape:
            return
        values = np.broadcast_to(values, region.shape)
        if region.is_dense:
            self._copies.to_gpu(region.address, np.ascontiguousarray(values, region.dtype))
            return
        memory, items = self._fetched(region)
        items[...] = values
        self._copies.to_gpu(region.address + region.span[0], memory)

    def _fetched(self, region: MemoryRegion) -> tuple[Array, Array]:
        """All bytes from the first item to the last, and the items in these."""
        low, high = region.span
        memory = np.empty(high - low, np.uint8)
        self._receive(memory, region.address + low)
        return memory, np.ndarray(region.shape, region.dtype, memory, -low, region.strides)

    def _receive(self, target: Array, address: int) -> None:
        """Fill an array that is not empty, and tell what kernels have printed and reported."""
        self.refuse_recording(CAPTURED)
        self._copies.to_host(target, address)
        self._tell((LATER,))

    def copy(self, target: int, source: int, size: int) -> None:
        self._enter()
        if not size:
            return
        if abs(target - source) < size:  # the driver copies no ranges that overlap
            block = self.allocate(size)
            self._move(block.address, source, size)
            source = block.address
        self._move(target, source, size)

    def _move(self, target: int, source: int, size: int) -> None:
        if self.records(partial(self._move, target, source, size)):
            return
        with self._stream as handle:
            self._driver.call("cuMemcpyDtoDAsync", target, source, size, handle)

    def clear(self, region: MemoryRegion) -> None:
        self._enter()
        if 0 in region.shape or self.records(partial(self.clear, region)):
            return
        start, run, dims = region.runs
        rows, pitch = dims.pop(0) if dims and dims[0][1] >= run else (1, run)
        for index in product(*(range(size) for size, _ in dims)):
            at = start + sum(i * step for i, (_, step) in zip(index, dims, strict=True))
            if rows == 1:
                self._source.fill_zero(at, run)
            else:
                with self._stream as handle:
                    self._driver.call("cuMemsetD2D8Async", at, pitch, 0, run, rows, handle)

    def host_view(self, region: MemoryRegion, owner: object) -> None:
        """The host does not reach memory of a GPU."""
