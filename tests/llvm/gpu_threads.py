"""Kernels for a GPU without one: the text of a kernel as code of this processor, with a thread for each of a block.

    run(flat, arguments, (64, 1, 1))             arguments: the address of the argument block
    assert_like_oracle(text, arguments, (64, 1, 1))

What threads of a block do together happens in Python: lanes of a warp meet where they state the same mask, threads of a
block at its barriers. A meeting that some never come to is an error.
"""

from __future__ import annotations

import ctypes
import re
import threading
from contextlib import contextmanager
from itertools import product
from math import prod
from types import SimpleNamespace
from unittest.mock import patch

import llvmlite.binding as llvm
import numpy as np

from slangrad.base.traits import CUDA
from slangrad.runtime.cuda.launch import (
    LAUNCH,
    Status,
    arena_header,
    blocks_for,
    blocks_that_stay,
)
from slangrad.runtime.cuda.prints import PrintBuffer
from slangrad.runtime.memory import HOST_MEMORY
from slangrad.targets import cuda
from tests.flat import flat_kernel_of
from tests.llvm.machine import argument_block, assert_equal_arrays, oracle

PATIENCE = 60  # seconds until a meeting counts as never complete
I32, U8 = ctypes.c_uint32, ctypes.c_uint8
REGISTERS = [f"read.ptx.sreg.{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]


class Meeting:
    def __init__(self):
        self.brought = {}
        self.over = False


class Room:
    """Where members of a block or a warp meet. `members`: the numbers of those that have not ended."""

    def __init__(self, members):
        self.members = set(members)
        self.changed = threading.Condition()
        self.meetings = {}

    def meet(self, key, expected, member, thing):
        """What each of the expected members has brought."""
        with self.changed:
            meeting = self.meetings.setdefault(key, Meeting())
            meeting.brought[member] = thing
            while not meeting.over:
                if expected & self.members <= meeting.brought.keys():
                    meeting.over = True
                    del self.meetings[key]
                    self.changed.notify_all()
                elif not self.changed.wait(PATIENCE):
                    raise TimeoutError(f"{key}: {sorted(meeting.brought)} wait for others")
            return meeting.brought

    def leave(self, member):
        with self.changed:
            self.members.discard(member)
            self.changed.notify_all()


class GpuThread:
    def __init__(self, number, warps, block, registers):
        self.number, self.lane = number, number % 32
        self.warp, self.block, self.registers = warps[number // 32], block, registers
        self.failure = None

    def lanes(self, mask):
        assert mask >> self.lane & 1, f"lane {self.lane} exchanges with mask {mask:#x}"
        return {lane for lane in range(32) if mask >> lane & 1}

    def ballot(self, mask, condition):
        brought = self.warp.meet(("ballot", mask), self.lanes(mask), self.lane, condition & 1)
        return sum(1 << lane for lane, holds in brought.items() if holds)

    def shuffle(self, mask, value, lane, _):
        brought = self.warp.meet(("shuffle", mask), self.lanes(mask), self.lane, value)
        return brought.get(lane % 32, 0xDEADBEEF)

    def butterfly(self, mask, value, bits, last):
        return self.shuffle(mask, value, self.lane ^ bits, last)

    def barrier(self, _):
        self.block.meet("barrier", self.block.members, self.number, None)


CURRENT = threading.local()


def _guarded(act):
    def guarded(*arguments):
        thread = CURRENT.thread
        try:
            return act(thread, *arguments)
        except Exception as error:
            thread.failure = thread.failure or error
            return 0

    return guarded


def _callbacks():
    yield "vote.ballot.sync", ctypes.CFUNCTYPE(I32, I32, U8), GpuThread.ballot
    yield "shfl.sync.idx.i32", ctypes.CFUNCTYPE(I32, I32, I32, I32, I32), GpuThread.shuffle
    yield "shfl.sync.bfly.i32", ctypes.CFUNCTYPE(I32, I32, I32, I32, I32), GpuThread.butterfly
    yield "barrier.cta.sync.aligned.all", ctypes.CFUNCTYPE(None, I32), GpuThread.barrier
    for name in REGISTERS:
        yield name, ctypes.CFUNCTYPE(I32), lambda thread, name=name: thread.registers[name]


CALLBACKS = {name: kind(_guarded(act)) for name, kind, act in _callbacks()}


def for_this_processor(text, shared):
    """The module with one kind of memory, and functions for the instructions of a GPU."""
    text = re.sub(r"@llvm\.nvvm\.([\w.]+)", r'@"gpu.\1"', text)
    text = re.sub(r"addrspacecast \(ptr addrspace\(3\) (getelementptr \(.*?\)) to ptr\)", r"\1", text)
    text = re.sub(r" addrspace\(\d\)", "", text)
    text = re.sub(r"= addrspacecast (ptr .+) to ptr\b", r"= getelementptr i8, \1, i64 0", text)
    text = re.sub(r" syncscope\(\"\w+\"\)", "", text)
    text = text.replace("external global [0 x i8]", f"internal global [{max(shared, 1)} x i8] undef")
    text = re.sub(r'ptr byval\(\[\d+ x i8\]\) align 16 "nvvm.grid_constant" noalias', "ptr", text)
    return text.replace("define ptx_kernel void", "define void")


@contextmanager
def loaded(text):
    """The entries of a module as functions of the addresses of its blocks: the kernel, and what follows it."""
    for name, callback in CALLBACKS.items():
        llvm.add_symbol(f"gpu.{name}", ctypes.cast(callback, ctypes.c_void_p).value)
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    processor = {"cpu": llvm.get_host_cpu_name(), "features": llvm.get_host_cpu_features().flatten()}
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True, **processor)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    yield [entry(engine.get_function_address(name)) for name in ("kernel", "finish") if f"@{name}(" in text]
    engine.close()


def assert_like_oracle(text, arguments, grid, most_blocks=0, **settings):
    """Bit for bit. The first report, too, as threads come to it in another order."""
    assert_flat_like_oracle(flat_kernel_of(text, CUDA, **settings), arguments, grid, most_blocks)


def assert_flat_like_oracle(flat, arguments, grid, most_blocks=0):
    expected, reports = oracle(flat.program, arguments, grid)
    data, arrays = argument_block(flat.program, arguments)
    block = np.frombuffer(data, np.uint8)
    printed, status = run(flat, block.ctypes.data, grid, most_blocks)
    assert_equal_arrays(expected.arrays, arrays, "threads of a GPU")
    assert printed == [values for _, values in reports.prints]
    assert (status.index, status.extent) in reports.bounds if reports.bounds else not status.error


class Host:
    """What a print buffer needs of the driver."""

    def pinned(self, size):
        self.memory = ctypes.create_string_buffer(size)
        return ctypes.addressof(self.memory)


def run(flat, arguments, grid, most_blocks=0, arena_size=1 << 24, memory=(), number=1):
    """The values that each printed line has, and the status record of a launch. `most_blocks`: of those kernels whose
    threads go on with other threads of the program; 3 of those that add up. `memory`: the arrays that kernels of check mode may use."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    summed = cuda.find_sums(flat)
    module = cuda.write_llvm(cuda.widen_kernel(summed, cuda.DEFAULT_ARCHITECTURE)).module
    if summed.sums is not None:
        blocks, threads = blocks_that_stay(grid, module.group, most_blocks or 3)
        partials = ctypes.create_string_buffer(blocks[0] * summed.sums.row)
        address, rows, count = ctypes.addressof(partials), blocks[0], summed.sums.count
    else:
        most = most_blocks if module.takes_memory else 0
        blocks, threads = blocks_for(grid, module.group, module.lanes, most)
        address = rows = count = 0
    status, host = Status(), Host()
    prints = PrintBuffer(host)
    status.prints = prints.address
    arena = HOST_MEMORY.allocate(arena_size)  # as aligned as memory of a GPU
    header = arena_header(arena_size, prod(blocks) * prod(threads) * module.frame)
    ctypes.memmove(arena.address, header, len(header))
    numbers = ctypes.addressof(status), number, address, rows, arena.address
    launch = ctypes.create_string_buffer(LAUNCH.pack(*grid, *numbers))
    spans = sorted((array.ctypes.data, array.ctypes.data + array.nbytes) for array in memory)
    table = np.array([len(spans), *(place for span in spans for place in span)], np.int64)
    status.memory = table.ctypes.data
    with loaded(for_this_processor(module.text, module.shared)) as (entry, *finish):
        for block in product(*map(range, blocks)):
            _run_block(entry, arguments, ctypes.addressof(launch), block, blocks, threads)
        for number in range(count):
            place = (number, 0, 0), (count, 1, 1), (32, 1, 1)
            _run_block(finish[0], arguments, ctypes.addressof(launch), *place)
    lines = []
    kernels = {number: SimpleNamespace(sites=flat.sites)}
    with patch(
        "slangrad.runtime.cuda.prints.print_site", lambda site, values, _: lines.append(tuple(values))
    ):
        prints.take(kernels, None)
    return lines, status


def _run_block(entry, arguments, launch, block, blocks, threads):
    count = prod(threads)
    room, warps = Room(range(count)), [Room(range(min(32, count - at))) for at in range(0, count, 32)]
    members = []
    for number, (z, y, x) in enumerate(product(*map(range, reversed(threads)))):
        places = (("tid", (x, y, z)), ("ntid", threads), ("ctaid", block), ("nctaid", blocks))
        registers = {
            f"read.ptx.sreg.{name}.{axis}": at
            for name, values in places
            for axis, at in zip("xyz", values, strict=True)
        }
        members.append(GpuThread(number, warps, room, registers))

    def work(thread):
        CURRENT.thread = thread
        try:
            entry(arguments, launch)
        finally:
            thread.warp.leave(thread.lane)
            room.leave(thread.number)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in members]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for thread in members:
        if thread.failure is not None:
            raise thread.failure
