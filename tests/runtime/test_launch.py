"""Launches of native kernels: chunks, errors, partial sums, tapes, printing."""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from slangrad.base.options import Limits, Options
from slangrad.base.source import SourceFile, Span
from slangrad.runtime.cpu import CpuDevice, NativeKernel, chunks_of
from slangrad.runtime.device import Grid, Kernel
from slangrad.runtime.launch_record import LAUNCH_OFFSETS, SHARED_OFFSETS
from slangrad.runtime.reports import BoundsError, KernelAssertionError, Site

Native = Callable[..., NativeKernel]

# y[i] = x[i] * x[i] for the float arrays whose addresses are the arguments
SQUARE = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
start:
  %x = load ptr, ptr %arguments
  %y.p = getelementptr ptr, ptr %arguments, i64 1
  %y = load ptr, ptr %y.p
  %range = call { i64, i64 } @threads_of(ptr %launch, i64 %chunk)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %x.i = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %x.i
  %squared = fmul float %v, %v
  %y.i = getelementptr float, ptr %y, i64 %i
  store float %squared, ptr %y.i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def cpu(threads: int = 2, tape_bytes: int = 1 << 30) -> CpuDevice:
    return CpuDevice(Options(threads=threads, limits=Limits(tape_bytes=tape_bytes)))


def addresses(*arrays: np.ndarray) -> bytes:
    return struct.pack(f"={len(arrays)}q", *(array.ctypes.data for array in arrays))


def test_the_struct_that_compiled_code_sees() -> None:
    assert LAUNCH_OFFSETS == {
        "nx": 0,
        "ny": 8,
        "nz": 16,
        "chunk_x": 24,
        "chunks_x": 32,
        "chunks": 40,
        "shared": 48,
        "partials": 56,
        "partial_size": 64,
        "batch": 72,
        "chunk": 80,
        "arena": 88,
        "arena_used": 96,
        "arena_size": 104,
        "error": 112,
        "site": 116,
        "index": 120,
        "extent": 128,
        "error_chunk": 136,
        "print": 144,
        "reserve": 152,
        "poll": 160,
        "released": 168,
        "lists": 176,
        "memory": 688,
    }
    assert SHARED_OFFSETS == {"next": 0, "stop": 8}


@pytest.mark.parametrize(
    ("grid", "granularity", "expected"),
    [
        ((1, 1, 1), 256, (256, 1, 1)),
        ((256, 1, 1), 256, (256, 1, 1)),
        ((257, 1, 1), 256, (256, 2, 2)),
        ((512 * 256, 1, 1), 256, (256, 512, 512)),
        ((512 * 256 + 1, 1, 1), 256, (512, 257, 257)),
        ((1 << 24, 1, 1), 256, (32768, 512, 512)),
        ((1000, 100, 2), 64, (512, 2, 400)),
        ((5, 1000, 3), 64, (64, 1, 3000)),
        ((1 << 40, 1, 1), 64, (1 << 31, 512, 512)),
    ],
)
def test_how_a_grid_is_cut(grid: Grid, granularity: int, expected: Grid) -> None:
    assert chunks_of(grid, granularity) == expected


def test_chunks_cover_every_thread_once() -> None:
    for nx in (1, 63, 64, 65, 1000, 100_000, 131_073):
        chunk_x, chunks_x, chunks = chunks_of((nx, 3, 2), 64)
        assert chunk_x % 64 == 0
        assert (chunks_x - 1) * chunk_x < nx <= chunks_x * chunk_x
        assert chunks == chunks_x * 6


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 1000, 65_537, 400_000])
@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("drain", [True, False])
def test_every_thread_runs(native: Native, n: int, threads: int, drain: bool) -> None:
    kernel = native(SQUARE, argument_size=16, drain=drain)
    x = np.arange(n, dtype=np.float32) % 100
    y = np.full(n + 8, -1, np.float32)
    cpu(threads).launch(kernel, addresses(x, y), (n, 1, 1))
    assert (y[:n] == x * x).all()
    assert (y[n:] == -1).all()


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_an_empty_grid_runs_nothing(native: Native, grid: Grid) -> None:
    x, y = np.full(4, 2, np.float32), np.full(4, -1, np.float32)
    cpu().launch(native(SQUARE, argument_size=16), addresses(x, y), grid)
    assert (y == -1).all()


def test_a_negative_grid_is_refused(native: Native) -> None:
    with pytest.raises(ValueError, match=r"grid: \(-1, 1, 1\)"):
        cpu().launch(native(SQUARE), b"", (-1, 1, 1))


def test_too_small_an_argument_block_is_refused(native: Native) -> None:
    with pytest.raises(ValueError, match="'square' takes 16 bytes, not 8"):
        cpu().launch(native(SQUARE, name="square", argument_size=16), bytes(8), (1, 1, 1))


def test_a_kernel_of_another_device_is_refused() -> None:
    with pytest.raises(TypeError, match="'foreign' was not made for the CPU"):
        cpu().launch(Kernel(name="foreign", argument_size=0), b"", (1, 1, 1))


def test_arguments_may_be_a_bytearray(native: Native) -> None:
    x, y = np.array([3], np.float32), np.zeros(1, np.float32)
    cpu().launch(native(SQUARE, argument_size=16), bytearray(addresses(x, y)), (1, 1, 1))
    assert y[0] == 9


# stores y * 1000 + z at out[chunk], to see how rows are numbered
ROWS = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
  %out = load ptr, ptr %arguments
  %ny.p = getelementptr i8, ptr %launch, i64 8
  %ny = load i64, ptr %ny.p
  %chunks_x.p = getelementptr i8, ptr %launch, i64 32
  %chunks_x = load i64, ptr %chunks_x.p
  %row = sdiv i64 %chunk, %chunks_x
  %y = srem i64 %row, %ny
  %z = sdiv i64 %row, %ny
  %y1000 = mul i64 %y, 1000
  %value = add i64 %y1000, %z
  %out.i = getelementptr i64, ptr %out, i64 %chunk
  store i64 %value, ptr %out.i
  ret void
}
"""


def test_rows_of_y_and_z(native: Native) -> None:
    out = np.full(2 * 3 * 4, -1)
    cpu().launch(native(ROWS, argument_size=8, granularity=64), addresses(out), (100, 3, 4))
    assert out.tolist() == [y * 1000 + z for z in range(4) for y in range(3) for _ in range(2)]


# appends the chunk's number to a list without atomics: right only when chunks run one by one
APPEND = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
  %out = load ptr, ptr %arguments
  %count = load volatile i64, ptr %out
  %next = add i64 %count, 1
  %out.i = getelementptr i64, ptr %out, i64 %next
  store volatile i64 %chunk, ptr %out.i
  %slept = call i32 @usleep(i32 200)
  store volatile i64 %next, ptr %out
  ret void
}
"""


@pytest.mark.parametrize("drain", [True, False])
def test_an_ordered_kernel_runs_its_chunks_in_order(native: Native, drain: bool) -> None:
    out = np.zeros(41, np.int64)
    kernel = native(APPEND, argument_size=8, granularity=64, ordered=True, drain=drain)
    cpu(8).launch(kernel, addresses(out), (64 * 40, 1, 1))
    assert out.tolist() == [40, *range(40)]


# adds x[i] to the chunk's own partial sum, of the size that `plan` says; `reduce` adds these up in the order of the chunks
SUM = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
start:
  %x = load ptr, ptr %arguments
  %partials.p = getelementptr i8, ptr %launch, i64 56
  %partials = load ptr, ptr %partials.p
  %mine = getelementptr float, ptr %partials, i64 %chunk
  %range = call { i64, i64 } @threads_of(ptr %launch, i64 %chunk)
  %begin = extractvalue { i64, i64 } %range, 0
  %end = extractvalue { i64, i64 } %range, 1
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %x.i = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %x.i
  %before = load float, ptr %mine
  %after = fadd float %before, %v
  store float %after, ptr %mine
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @plan(ptr %arguments, ptr %launch, i64 %chunks) {
  %size.p = getelementptr i8, ptr %launch, i64 64
  store i64 4, ptr %size.p
  ret void
}

define void @reduce(ptr %arguments, ptr %launch, i64 %chunks) {
start:
  %out.p = getelementptr ptr, ptr %arguments, i64 1
  %out = load ptr, ptr %out.p
  %partials.p = getelementptr i8, ptr %launch, i64 56
  %partials = load ptr, ptr %partials.p
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  %partial.p = getelementptr float, ptr %partials, i64 %i
  %partial = load float, ptr %partial.p
  %before = load float, ptr %out
  %after = fadd float %before, %partial
  store float %after, ptr %out
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %chunks
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.mark.parametrize("n", [1, 1000, 300_000])
def test_partial_sums_do_not_depend_on_the_number_of_threads(native: Native, n: int) -> None:
    kernel = native(SUM, argument_size=16, delayed=True)
    x = np.random.default_rng(0).uniform(-1, 1, n).astype(np.float32)
    results = set()
    for threads in (1, 2, 8):
        for _ in range(5):
            out = np.zeros(1, np.float32)
            cpu(threads).launch(kernel, addresses(x, out), (n, 1, 1))
            results.add(out.tobytes())
    assert len(results) == 1
    assert abs(out[0] - x.sum(dtype=np.float64)) < 1e-2


# records error `arguments[0]` at site 1 with index 7 * chunk and extent 5, in chunks 3, 4, 5 ...
FAIL = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
  %early = icmp slt i64 %chunk, 3
  br i1 %early, label %done, label %fail
fail:
  %code = load i32, ptr %arguments
  %error.p = getelementptr i8, ptr %launch, i64 112
  %error = load i32, ptr %error.p
  %first = icmp eq i32 %error, 0
  br i1 %first, label %record, label %done
record:
  store i32 %code, ptr %error.p
  %site.p = getelementptr i8, ptr %launch, i64 116
  store i32 1, ptr %site.p
  %index = mul i64 %chunk, 7
  %index.p = getelementptr i8, ptr %launch, i64 120
  store i64 %index, ptr %index.p
  %extent.p = getelementptr i8, ptr %launch, i64 128
  store i64 5, ptr %extent.p
  %error_chunk.p = getelementptr i8, ptr %launch, i64 136
  store i64 %chunk, ptr %error_chunk.p
  br label %done
done:
  ret void
}
"""

SOURCE = SourceFile("poly.slang", "float f(int i)\n{\n    return x[i];\n}\n")
SITES = (
    Site(),
    Site.at(Span(SOURCE, SOURCE.text.index("[i]") + 1, SOURCE.text.index("[i]") + 2), "i is small"),
)


def test_the_first_index_error_is_raised_whoever_finds_it(native: Native) -> None:
    kernel = native(FAIL, name="poly", argument_size=4, granularity=64, sites=SITES)
    for threads in (1, 2, 8) * 10:
        with pytest.raises(BoundsError) as caught:
            cpu(threads).launch(kernel, struct.pack("=i", 1), (64 * 500, 1, 1))
        assert (caught.value.index, caught.value.extent, caught.value.location) == (21, 5, "poly.slang:3:14")
    assert str(caught.value) == (
        "error[E0901]: index 21 is out of range: there are 5 elements\n"
        "  --> poly.slang:3:14\n"
        "3 |     return x[i];\n"
        "  |              ^\n"
        "  note: in kernel 'poly'; the read gave 0 or the write was dropped"
    )
    assert isinstance(caught.value, IndexError)


def test_an_error_is_not_reported_again(native: Native) -> None:
    device = cpu(1)
    with pytest.raises(BoundsError):
        device.launch(native(FAIL, argument_size=4, granularity=64), struct.pack("=i", 1), (1000, 1, 1))
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    device.launch(native(SQUARE, argument_size=16), addresses(x, y), (4, 1, 1))
    assert y.tolist() == [1, 1, 1, 1]


def test_a_failed_assertion(native: Native) -> None:
    kernel = native(FAIL, name="poly", argument_size=4, granularity=64, sites=SITES)
    with pytest.raises(
        KernelAssertionError, match=r"E0903.*i is small\n  --> poly.slang:3:14\n3 \|     return"
    ):
        cpu().launch(kernel, struct.pack("=i", 3), (1000, 1, 1))


# each chunk reserves arguments[0] pieces of arguments[1] bytes, writes its number into the last byte of each,
# and stores the address of its last piece at arguments[2][chunk]; it leaves at once when there is no memory
TAPE = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
start:
  %used.p = getelementptr i8, ptr %launch, i64 96
  store i64 0, ptr %used.p
  %chunk.p = getelementptr i8, ptr %launch, i64 80
  store i64 %chunk, ptr %chunk.p
  %count = load i64, ptr %arguments
  %size.p = getelementptr i64, ptr %arguments, i64 1
  %size = load i64, ptr %size.p
  %out.p = getelementptr ptr, ptr %arguments, i64 2
  %out = load ptr, ptr %out.p
  %reserve.p = getelementptr i8, ptr %launch, i64 152
  %reserve = load ptr, ptr %reserve.p
  %last = sub i64 %size, 1
  %byte = trunc i64 %chunk to i8
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %write ]
  %piece = call ptr %reserve(ptr %launch, i64 %size)
  %none = icmp eq ptr %piece, null
  br i1 %none, label %done, label %write
write:
  %end = getelementptr i8, ptr %piece, i64 %last
  store i8 %byte, ptr %end
  %out.i = getelementptr ptr, ptr %out, i64 %chunk
  store ptr %piece, ptr %out.i
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


@pytest.mark.parametrize("size", [1, 64, 1000, 3 << 20])
def test_chunks_reserve_memory(native: Native, size: int) -> None:
    out = np.zeros(20, np.int64)
    kernel = native(TAPE, argument_size=24, granularity=64)
    for threads in (1, 4):
        arguments = struct.pack("=qqq", 5, size, out.ctypes.data)
        cpu(threads).launch(kernel, arguments, (64 * 20, 1, 1))
        assert (out % 64 == 0).all()
        assert out.all()


def test_pieces_of_one_chunk_do_not_overlap(native: Native) -> None:
    text = TAPE.replace("ptr %out, i64 %chunk", "ptr %out, i64 %i")
    out = np.zeros(300, np.int64)
    kernel = native(text, argument_size=24)
    cpu().launch(kernel, struct.pack("=qqq", 300, 40_000, out.ctypes.data), (1, 1, 1))
    starts = np.sort(out)
    assert (np.diff(starts) >= 40_000).all()


def test_memory_beyond_the_limit_is_an_error_that_names_the_kernel(native: Native) -> None:
    out = np.zeros(20, np.int64)
    kernel = native(TAPE, name="loss", argument_size=24, granularity=64)
    device = cpu(tape_bytes=1 << 20)
    device.launch(kernel, struct.pack("=qqq", 1, 1 << 20, out.ctypes.data), (64 * 20, 1, 1))
    with pytest.raises(
        MemoryError, match=r"E0902.*kernel 'loss' ran out of memory(.|\n)*may use 1048576 bytes"
    ):
        device.launch(kernel, struct.pack("=qqq", 3, 1 << 19, out.ctypes.data), (64 * 20, 1, 1))
    device.launch(kernel, struct.pack("=qqq", 1, 1 << 20, out.ctypes.data), (64 * 20, 1, 1))


# prints (thread's chunk, half of it as a double) through site 0
PRINT = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
  %values = alloca [2 x i64]
  store i64 %chunk, ptr %values
  %number = sitofp i64 %chunk to double
  %half = fmul double %number, 0.5
  %second = getelementptr i64, ptr %values, i64 1
  store double %half, ptr %second
  %print.p = getelementptr i8, ptr %launch, i64 144
  %print = load ptr, ptr %print.p
  call void %print(ptr %launch, i32 0, ptr %values)
  ret void
}
"""


def test_a_kernel_prints_in_order(native: Native, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = native(PRINT, granularity=64, ordered=True, sites=(Site(text="%d: %.2f\n"),))
    cpu(8).launch(kernel, b"", (64 * 4, 1, 1))
    assert capsys.readouterr().out == "0: 0.00\n1: 0.50\n2: 1.00\n3: 1.50\n"


def test_an_exception_while_printing_reaches_the_caller(
    native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def __init__(self) -> None:
            self.written = 0

        def write(self, text: str) -> None:
            self.written += 1
            raise OSError("the disk is full")

    stdout = Full()
    monkeypatch.setattr("sys.stdout", stdout)
    kernel = native(PRINT, granularity=64, ordered=True, sites=(Site(text="%d: %.2f\n"),))
    with pytest.raises(OSError, match="the disk is full"):
        cpu().launch(kernel, b"", (64 * 100, 1, 1))
    assert stdout.written == 1


def test_without_standard_output_nothing_is_printed(
    native: Native, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    kernel = native(PRINT, ordered=True, sites=(Site(text="%d: %.2f\n"),))
    cpu().launch(kernel, b"", (1, 1, 1))
    assert capfd.readouterr() == ("", "")


def test_options_choose_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu(5).threads == 5
    monkeypatch.setenv("SLANGRAD_THREADS", "3")
    assert CpuDevice().threads == 3
    assert CpuDevice(replace(Options(), threads=0)).threads >= 1


def test_copies_between_host_and_device() -> None:
    device = cpu()
    block = device.allocate(64, zero=True)
    device.write(block.address, np.arange(6, dtype=np.int16))
    device.write(block.address, np.empty(0))
    device.copy(block.address + 2, block.address, 8)
    assert ctypes.string_at(block.address, 14) == np.array([0, 0, 1, 2, 3, 5, 0], np.int16).tobytes()
