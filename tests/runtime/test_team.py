"""Launches on the threads of PyTorch, while these wait busily for its next operation."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import slangrad as spy
from slangrad.base.options import Options
from slangrad.runtime import team
from slangrad.runtime.cpu import CpuDevice, NativeKernel
from slangrad.runtime.reports import BoundsError
from tests.runtime.test_threads import SLEEP, sleep_arguments

torch = pytest.importorskip("torch")

Native = Callable[..., NativeKernel]
Runs = list[list[int]]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    if team.openmp_of(torch.__file__) is None:
        pytest.skip("this PyTorch has another library for threads")
    yield
    torch.set_num_threads(before)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """The launch records of each run of the team, which stays awake longer than on quiet machines."""
    seen: Runs = []
    run = team.TEAM.run

    def recorded(share: int, arguments: bytes, launches: list[int], limit: int) -> None:
        seen.append(launches)
        run(share, arguments, launches, limit)

    monkeypatch.setattr(team.TEAM, "run", recorded)
    monkeypatch.setattr(team, "AWAKE", 10**11)
    monkeypatch.setattr(team.TEAM, "_awake_until", 0)
    return seen


def slept(native: Native, device: CpuDevice, chunks: int, microseconds: int) -> np.ndarray:
    """The record that each chunk saw."""
    kernel = native(SLEEP, argument_size=16, granularity=64)
    out = np.zeros(chunks, np.int64)
    device.launch(kernel, sleep_arguments(out, microseconds), (64 * chunks, 1, 1))
    return out


def test_all_threads_of_the_team_work(native: Native, runs: Runs) -> None:
    device = CpuDevice(Options(threads=2))
    device.torch_has_computed()
    out = slept(native, device, 100, 2000)
    assert out.all()
    assert len(set(out.tolist())) == 2
    assert {record for run in runs for record in run} == set(out.tolist())


def test_a_team_larger_than_the_device(native: Native, runs: Runs) -> None:
    torch.set_num_threads(4)
    device = CpuDevice(Options(threads=2))
    device.torch_has_computed()
    assert len(set(slept(native, device, 60, 2000).tolist())) == 2
    assert all(len(run) == 2 for run in runs)


def test_a_device_larger_than_the_team(native: Native, runs: Runs) -> None:
    device = CpuDevice(Options(threads=4))
    device.torch_has_computed()
    assert len(set(slept(native, device, 60, 2000).tolist())) == 2


@pytest.mark.parametrize("hint", [False, True])
def test_the_team_helps_after_operations_of_pytorch_only(native: Native, runs: Runs, hint: bool) -> None:
    device = CpuDevice(Options(threads=2))
    torch.set_num_threads(1 if hint else 2)  # nothing of it waits then
    if hint:
        device.torch_has_computed()
    assert slept(native, device, 60, 1000).all()
    assert runs == []


def test_a_team_that_sleeps_is_not_taken(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "AWAKE", -1)
    team.TEAM.torch_has_computed()
    assert not team.TEAM.is_taken()


def test_two_launches_at_a_time(native: Native, runs: Runs) -> None:
    device = CpuDevice(Options(threads=2))
    device.torch_has_computed()
    seen: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: seen.append(slept(native, device, 60, 2000))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(out.all() for out in seen)
    records = {record for run in runs for record in run}
    assert sum(records == set(out.tolist()) for out in seen) <= 1


def test_ctrl_c_stops_a_launch(native: Native, runs: Runs) -> None:
    device = CpuDevice(Options(threads=2))
    device.torch_has_computed()

    def interrupt() -> None:
        while not runs:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        slept(native, device, 500, 20_000)
    thread.join()
    assert slept(native, device, 60, 1000).all()


SLOW = """
float slow(int i, RWStructuredBuffer<float> x)
{
    float sum = 0;
    for (int k = 0; k < 2000; k++)
        sum += sin(sum + i);
    return sum + x[i];
}
"""


def test_results_and_errors_are_the_same(runs: Runs) -> None:
    device = spy.create_device(options=Options(threads=2))
    module = spy.Module.load_from_source(device, "slow", SLOW)
    x = spy.NDBuffer.from_numpy(device, np.arange(20_000, dtype=np.float32))
    numbers = np.arange(20_000, dtype=np.int32)
    alone = module.slow(numbers, x.storage, _result="numpy")
    assert runs == []
    device.runtime.torch_has_computed()
    assert (module.slow(numbers, x.storage, _result="numpy") == alone).all()
    before = len(runs)
    assert before > 0
    numbers[15_000:] += 5_001
    with pytest.raises(BoundsError, match="index 20001 "):
        module.slow(numbers, x.storage, _result="numpy")
    assert len(runs) > before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_of_a_fork_has_no_team(native: Native, runs: Runs) -> None:
    device = CpuDevice(Options(threads=2))
    device.torch_has_computed()
    slept(native, device, 60, 1000)
    assert runs
    child = os.fork()
    if not child:
        device.torch_has_computed()
        os._exit(0 if slept(native, device, 60, 1000).all() and not team.TEAM.is_taken() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_stacks_of_another_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_STACKSIZE", "64k")
    assert team.openmp_of.__wrapped__(torch.__file__) is None
