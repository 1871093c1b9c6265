"""Helpers, concurrent launches, fork, interrupts, kernels written in Python, the number of processors."""

import ctypes
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Options
from slangrad.runtime import processors
from slangrad.runtime.cpu import CpuDevice, NativeKernel
from slangrad.runtime.device import Grid, PythonKernel
from slangrad.runtime.pool import Job, Pool
from slangrad.runtime.processors import available_processors, cgroup_quota
from slangrad.runtime.reports import ASSERTION, BOUNDS, BoundsError, KernelAssertionError, LaunchReports, Site

Native = Callable[..., NativeKernel]

# sleeps arguments[1] microseconds and stores the address of its Launch at arguments[0][chunk]
SLEEP = """
define void @entry(ptr %arguments, ptr %launch, i64 %chunk) {
  %out = load ptr, ptr %arguments
  %time.p = getelementptr i64, ptr %arguments, i64 1
  %time = load i32, ptr %time.p
  %slept = call i32 @usleep(i32 %time)
  %out.i = getelementptr ptr, ptr %out, i64 %chunk
  store ptr %launch, ptr %out.i
  ret void
}
"""


def sleep_arguments(out: np.ndarray, microseconds: int) -> bytes:
    return struct.pack("=qq", out.ctypes.data, microseconds)


def cpu(threads: int) -> CpuDevice:
    return CpuDevice(Options(threads=threads))


@pytest.mark.parametrize("drain", [True, False])
def test_helpers_take_part_in_long_launches(native: Native, drain: bool) -> None:
    kernel = native(SLEEP, argument_size=16, granularity=64, drain=drain)
    out = np.zeros(100, np.int64)
    cpu(4).launch(kernel, sleep_arguments(out, 2000), (64 * 100, 1, 1))
    assert out.all()
    assert 2 <= len(set(out.tolist())) <= 4


def test_one_thread_means_one_thread(native: Native) -> None:
    kernel = native(SLEEP, argument_size=16, granularity=64)
    out = np.zeros(20, np.int64)
    cpu(1).launch(kernel, sleep_arguments(out, 500), (64 * 20, 1, 1))
    assert len(set(out.tolist())) == 1


def test_many_python_threads_launch_at_once(native: Native) -> None:
    kernel = native(SLEEP, argument_size=16, granularity=64)
    device = cpu(3)
    wrong = []

    def launch_many(chunks: int) -> None:
        for _ in range(20):
            out = np.zeros(chunks, np.int64)
            device.launch(kernel, sleep_arguments(out, 50), (64 * chunks, 1, 1))
            if not out.all():
                wrong.append(chunks)

    threads = [threading.Thread(target=launch_many, args=(chunks,)) for chunks in (1, 2, 3, 10, 11, 40, 1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_helpers_of_its_own(native: Native) -> None:
    kernel = native(SLEEP, argument_size=16, granularity=64)
    out = np.zeros(60, np.int64)
    device = cpu(3)
    device.launch(kernel, sleep_arguments(out, 1000), (64 * 60, 1, 1))
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        out[:] = 0
        device.launch(kernel, sleep_arguments(out, 1000), (64 * 60, 1, 1))
        os._exit(0 if out.all() and len(set(out.tolist())) > 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_in_the_midst_of_a_launch(native: Native) -> None:
    """By a signal's handler: the parent finishes, the child has no helpers that could."""
    kernel = native(SLEEP, argument_size=16, granularity=64)
    device, out, ends = cpu(3), np.zeros(100, np.int64), []

    def fork(*_: object) -> None:
        ends.append(os.fork())
        if ends == [0]:
            signal.alarm(20)

    before = signal.signal(signal.SIGUSR1, fork)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        device.launch(kernel, sleep_arguments(out, 8_000), (64 * 100, 1, 1))
    except RuntimeError as error:
        os._exit(0 if ends == [0] and "forked in the midst" in str(error) else 1)
    finally:
        if 0 in ends:
            os._exit(2)
        signal.signal(signal.SIGUSR1, before)
    assert out.all()
    assert os.waitstatus_to_exitcode(os.waitpid(ends[0], 0)[1]) == 0


@pytest.mark.parametrize("room", [0, 1])
def test_without_room_for_threads_there_are_fewer(
    native: Native, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """The system refuses all threads but `room`: calls work, one warning says so, and there is room again later."""
    pool, started, start = Pool(), [], threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if len(started) >= room:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr("slangrad.runtime.cpu.POOL", pool)
    monkeypatch.setattr("slangrad.base.process.threads._warned", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    kernel = native(SLEEP, argument_size=16, granularity=64)
    device = cpu(4)

    def threads_of_a_launch() -> int:
        out = np.zeros(60, np.int64)
        device.launch(kernel, sleep_arguments(out, 1000), (64 * 60, 1, 1))
        assert out.all()
        return len(set(out.tolist()))

    with pytest.warns(RuntimeWarning, match="no room for another thread") as told:
        assert [threads_of_a_launch() for _ in range(3)] == [1 + room] * 3
    assert len(told) == 1
    assert pool._jobs.qsize() <= room  # no job waits for a helper that never comes
    monkeypatch.setattr(threading.Thread, "start", start)
    assert threads_of_a_launch() >= 2


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("drain", [True, False])
def test_ctrl_c_stops_a_launch_between_chunks(native: Native, threads: int, drain: bool) -> None:
    kernel = native(SLEEP, argument_size=16, granularity=64, drain=drain)
    device = cpu(threads)
    out = np.zeros(500, np.int64)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        device.launch(kernel, sleep_arguments(out, 20_000), (64 * 500, 1, 1))
    timer.join()
    done = np.count_nonzero(out)
    assert 0 < done < 500
    time.sleep(0.05)
    assert np.count_nonzero(out) == done
    small = np.zeros(5, np.int64)
    device.launch(kernel, sleep_arguments(small, 1), (64 * 5, 1, 1))
    assert small.all()


def test_a_job_that_is_closed_takes_no_helper() -> None:
    calls = []
    job = Job(lambda: calls.append(1))
    job.help()
    job.close()
    job.help()
    assert calls == [1]


def test_what_a_helper_raises_is_kept() -> None:
    job = Job(lambda: 1 // 0)
    job.help()
    job.close()
    assert isinstance(job.error, ZeroDivisionError)


@pytest.mark.parametrize("long_batch", [1, 10**4, 10**9])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_chunk_runs_once(monkeypatch: pytest.MonkeyPatch, threads: int, long_batch: int) -> None:
    monkeypatch.setattr("slangrad.runtime.cpu.WORTH_A_HELPER", 1)
    monkeypatch.setattr("slangrad.runtime.cpu.LONG_BATCH", long_batch)
    device = spy.create_device(options=Options(threads=threads))
    module = spy.Module.load_from_source(device, "bump", "float bump(float x) { return x + 1; }")
    for rows in (33, 100, 511, 1000):
        x = spy.Tensor.from_numpy(device, np.arange(37 * rows, dtype=np.float32).reshape(rows, 37))
        module.bump(x, _result=x)
        assert (x.to_numpy().ravel() == np.arange(1, 37 * rows + 1)).all()


def test_closing_waits_for_helpers_at_work() -> None:
    started, finish = threading.Event(), threading.Event()
    done = []

    def work() -> None:
        started.set()
        finish.wait(10)
        done.append(1)

    job = Job(work)
    helper = threading.Thread(target=job.help)
    helper.start()
    started.wait(10)
    threading.Timer(0.02, finish.set).start()
    job.close()
    assert done == [1]
    helper.join()


def test_a_kernel_written_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    def double(arguments: int, grid: Grid, reports: LaunchReports) -> None:
        values = (ctypes.c_int64 * grid[0]).from_address(ctypes.c_int64.from_address(arguments).value)
        for i in range(grid[0]):
            values[i] *= 2
        reports.print(0, [grid[0], 0.5])

    array = np.arange(5)
    kernel = PythonKernel(name="double", argument_size=8, function=double, sites=(Site(text="%d %g\n"),))
    cpu(2).launch(kernel, struct.pack("=q", array.ctypes.data), (5, 1, 1))
    assert array.tolist() == [0, 2, 4, 6, 8]
    assert capsys.readouterr().out == "5 0.5\n"


def test_a_kernel_written_in_python_reports_its_first_error() -> None:
    def fail(arguments: int, grid: Grid, reports: LaunchReports) -> None:
        reports.fail(BOUNDS, 0, index=9, extent=1)
        reports.fail(ASSERTION, 0)

    kernel = PythonKernel(name="fail", argument_size=0, function=fail, sites=(Site("f.slang:1:2"),))
    with pytest.raises(BoundsError, match=r"index 9 is out of range: there is 1 element\n  --> f.slang:1:2"):
        cpu(2).launch(kernel, b"", (1, 1, 1))


def test_an_error_without_a_site() -> None:
    kernel = PythonKernel(
        name="f", argument_size=0, function=lambda a, g, reports: reports.fail(ASSERTION, -1)
    )
    with pytest.raises(KernelAssertionError, match="assertion failed\n  note: in kernel 'f'"):
        cpu(1).launch(kernel, b"", (1, 1, 1))


def test_what_a_python_kernel_raises_reaches_the_caller() -> None:
    kernel = PythonKernel(name="f", argument_size=0, function=lambda a, g, r: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        cpu(1).launch(kernel, b"", (1, 1, 1))


def test_there_is_at_least_one_processor() -> None:
    assert 1 <= available_processors() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("limit", "quota"), [("max 100000", None), ("150000 100000", 1.5), ("400000 100000", 4.0), ("", None)]
)
def test_quota_of_a_cgroup(tmp_path: Path, limit: str, quota: float | None) -> None:
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "cpu.max").write_text(limit)
    assert cgroup_quota(tmp_path / "cgroup", tmp_path) == quota


def test_the_smallest_quota_on_the_way_up_counts(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/a/b\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("200000 100000")
    (tmp_path / "a" / "b" / "cpu.max").write_text("800000 100000")
    assert cgroup_quota(tmp_path / "cgroup", tmp_path) == 2.0


def test_quota_of_an_older_cgroup(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("5:memory:/x\n4:cpu,cpuacct:/a\n")
    (tmp_path / "cpu" / "a").mkdir(parents=True)
    (tmp_path / "cpu" / "a" / "cpu.cfs_quota_us").write_text("50000\n")
    (tmp_path / "cpu" / "a" / "cpu.cfs_period_us").write_text("100000\n")
    assert cgroup_quota(tmp_path / "cgroup", tmp_path) == 0.5


def test_without_cgroups_there_is_no_quota(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path / "nothing", tmp_path) is None


def test_other_programs_are_noticed(tmp_path, monkeypatch):
    """From the ticks of the CPUs of this process: all but idle ones and those that wait for disks."""
    numbers, clock = sorted(os.sched_getaffinity(0)), [0.0]
    statistics = tmp_path / "stat"

    def write(ticks):
        rows = [f"cpu{number} {ticks} 0 0 500 7 0 0 0 0 0" for number in numbers]
        statistics.write_text("\n".join(["cpu 1 2 3", *rows, f"cpu{max(numbers) + 1} 99999 0 0 0", "intr 5"]))

    monkeypatch.setattr(processors, "STATISTICS", statistics)
    monkeypatch.setattr(processors, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(processors, "process_time", lambda: 0.0)
    hz = os.sysconf("SC_CLK_TCK")
    write(100)
    others = processors.OtherPrograms()
    clock[0] = 10.0
    for share, expected in ((0.0, False), (0.05, False), (0.5, True)):
        write(100 + int(share * 10 * hz))
        assert others.were_at_work() == expected
    statistics.unlink()
    assert not processors.OtherPrograms().were_at_work()
