"""Workers whose tensors lie on a GPU: steps by copies on the host, and exchanges of the memory itself.

There is no NCCL without a GPU. So gloo stands for it, over Tensors of the CPU device, whose memory torch sees, too.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.connections.faults import WorkerLost
from slangrad.graph.workers.connections.links import PendingOnGpu
from tests.graph.workers import threads
from tests.graph.workers.processes import Starter
from tests.runtime.fake_cuda import fake_gpu

X = np.arange(32.0).reshape(8, 4) / 32
Y = np.cos(np.arange(16.0)).reshape(8, 2)
SETTINGS: list[tuple[dict[str, int], dict[str, Any]]] = [
    ({"data": 2}, {}),
    ({"data": 2}, {"partition": "states"}),
    ({"data": 2}, {"partition": "parameters"}),
    ({"model": 2}, {}),
    ({"data": 2, "stages": 2}, {"microbatches": 2}),
    ({"data": 2}, {"consistent": "bits"}),
]


@pytest.fixture(scope="module")
def gpu():
    with fake_gpu():
        yield spy.create_device("cuda")


def loss(p, x, y):
    return ((np.tanh(x @ p["v"]) @ p["w"] - y) ** 2).mean()


def loss_of_shards(p, x, y):
    return loss({"v": graph.shard(p["v"], None, "model"), "w": p["w"]}, x, y)


def weights(device: spy.Device, dtype: Any) -> dict[str, Any]:
    v, w = np.linspace(-1, 1, 16).reshape(4, 4), np.linspace(1, -1, 8).reshape(4, 2)
    return {name: spy.Tensor.from_numpy(device, x.astype(dtype)) for name, x in (("v", v), ("w", w))}


def steps(device: spy.Device, mesh: Any, settings: dict[str, Any], dtype: Any = np.float64) -> list[Any]:
    """Three losses, and the parameters after them."""
    function = loss_of_shards if "model" in mesh.sizes else loss
    optimizer = spy.optim.Adam(weights(device, dtype), lr=0.1)
    step = graph.train(function, optimizer, mesh=mesh, **settings)
    at, count = mesh.coordinates.get("data", 0), mesh.sizes.get("data", 1)
    x, y = (np.split(array.astype(dtype), count)[at] for array in (X, Y))
    losses = [step(*(spy.Tensor.from_numpy(device, array) for array in (x, y))) for _ in range(3)]
    parameters = step.parameters
    assert all(tensor.device is device for tensor in parameters.values())
    return [np.array(losses), *(tensor.to_numpy() for tensor in parameters.values())]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("sizes", "settings"), SETTINGS)
def test_steps_have_the_numbers_of_one_worker(gpu, sizes, settings, dtype):
    alone = graph.train(loss, spy.optim.Adam(weights(gpu, dtype), lr=0.1))
    expected = [alone(X.astype(dtype), Y.astype(dtype)) for _ in range(3)]
    tolerance = 1e-12 if dtype is np.float64 else 2e-5
    for losses, *parameters in threads.run(sizes, lambda mesh: steps(gpu, mesh, settings, dtype)):
        np.testing.assert_allclose(losses, expected, rtol=tolerance)
        for ours, theirs in zip(parameters, alone.parameters.values(), strict=True):
            np.testing.assert_allclose(ours, theirs.to_numpy(), rtol=tolerance, atol=tolerance)


EXCHANGES = """
from unittest.mock import patch
import numpy as np
import torch.distributed as dist
import slangrad as spy
from slangrad import graph
from slangrad.graph.workers.connections.gpu_memory import StagedExchange
from slangrad.graph.workers.connections.links import PendingOnGpu

mesh, device = graph.mesh("data"), spy.create_device("cpu")
link, rank = mesh.link("data"), mesh.rank
for config, kind in (("cpu:gloo,cuda:gloo", StagedExchange), ("cpu:gloo,cuda:nccl", PendingOnGpu)):
    with patch.object(dist, "get_backend_config", lambda group: config):
        for name in {types}:
            def tensor(*shape, add=0):
                numbers = spy.Tensor.zeros(device, shape, name).to_numpy()
                numbers[...] = (np.arange(numbers.size) + add).reshape(shape)
                return spy.Tensor.from_numpy(device, numbers)

            def exchange(operator, source, result, how="sum"):
                pending = link.start_on_gpu(mesh.collective(operator, "data", how), source, result)
                assert type(pending) is kind, pending
                pending.wait()
                mesh.settle()
                assert not mesh.watch.unsettled
                return result.to_numpy().astype(float).tolist()

            assert exchange("all_reduce", None, tensor(2, 3, add=rank)) == [[1, 3, 5], [7, 9, 11]]
            if name[0] != "u":  # those are compared as signed ones, and plans have no others
                assert exchange("all_reduce", None, tensor(2, add=rank), "max") == [1, 2]
                assert exchange("all_reduce", None, tensor(2, add=rank), "min") == [0, 1]
            gathered = exchange("all_gather", tensor(2, add=2 * rank), tensor(2, 2))
            assert gathered == [[0, 1], [2, 3]], gathered
            rows = tensor(3, 4).view((2, 3), (1, 4))  # with gaps
            gathered = exchange("all_gather", rows, tensor(2, 2, 3))
            assert gathered == [[[0, 4, 8], [1, 5, 9]]] * 2, gathered
            sent = exchange("all_to_all", tensor(2, 3, add=10 * rank), tensor(2, 3))
            first = 3 * rank
            assert sent == [[i + first for i in range(3)], [i + 10 + first for i in range(3)]], sent
dist.destroy_process_group()
"""


def test_exchanges_of_memory_that_torch_sees(start: Starter) -> None:
    types = ["half", "float", "double", "int8_t", "uint8_t", "int", "uint", "int64_t", "uint64_t"]
    for end in start(EXCHANGES.replace("{types}", repr(types)), 2):
        assert end.code == 0, end.output


@pytest.mark.parametrize("fails", [False, True])
def test_the_host_looks_for_the_end_of_an_exchange(fails: bool) -> None:
    """The stream waits for it, and the host looks before it reads a result. One that fails has completed, too."""

    class Work:
        looks = waits = 0

        def wait(self) -> None:
            self.waits += 1

        def is_completed(self) -> bool:
            self.looks += 1
            return self.looks == 3

        def is_success(self) -> bool:
            return not fails

    class Watch:
        def __init__(self) -> None:
            self.unsettled: list[PendingOnGpu] = []
            self.closed_works: list[object] = []

        def until(self, ends_within, name):
            assert not ends_within(0) and ends_within(10), name

        def closed(self, work):
            self.closed_works.append(work)

        def lost(self, name, error):
            return WorkerLost(f"{name}: {error}", -1, 1, name)

    work, watch = Work(), Watch()
    pending = PendingOnGpu(work, "all_reduce over data", watch)
    pending.wait()
    assert (work.waits, work.looks, watch.unsettled) == (1, 0, [pending])
    with (
        pytest.raises(WorkerLost, match="all_reduce over data: the collective has failed")
        if fails
        else nullcontext()
    ):
        pending.settle()
    assert watch.closed_works == [work] and work.looks == 3
