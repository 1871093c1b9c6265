"""Process groups of other devices, and the files that assume memory of the host or gloo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import slangrad
from tests.graph.workers.processes import Starter

GRAPH = Path(slangrad.__file__).parent / "graph"
# Of exchanges and of steps. Others read tensors by `to_numpy`, which copies from any device.
ASSUMING = {
    "planning/plan.py": "parts that a collective reads and fills; bodies of loops; outputs that are copied",
    "trace.py": "results as arrays of NumPy",
    "arrays/keywords.py": "the argument device= of NumPy's functions",
    "torch_bridge.py": "results as tensors of torch on the host",
    "ir/devices.py": "arrays of the host, and copies for other devices",
    "ir/values.py": "arguments, which are refused on other devices",
    "lowering/library.py": "products by libraries for CPUs",
    "weights.py": "files",
    "workers/meshes/mesh.py": "the process group that mesh makes",
    "workers/connections/gpu_memory.py": "copies on the host for exchanges without NCCL",
    "workers/connections/links.py": "collectives and messages, of arrays of NumPy, by the backend for CPUs",
    "workers/connections/transfers.py": "how messages that are under way end with the program",
    "workers/connections/costs.py": "costs that were not measured",
    "workers/checkpoints/storage.py": "a group of gloo, for copies of tensors on the host",
}


def test_files_that_assume_the_host() -> None:
    """ARCHITECTURE.md says what each of those in `workers` needs for GPUs."""
    files = {path.relative_to(GRAPH).as_posix(): path.read_text() for path in GRAPH.rglob("*.py")}
    assuming = {
        name for name, text in files.items() if re.search(r'gloo|nccl|host_view|from_numpy|"cpu"', text)
    }
    assert assuming == ASSUMING.keys()


DEVICES = """
import numpy as np
import torch.distributed as dist
import slangrad as spy
from slangrad import graph
from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

dist.init_process_group("cpu:gloo,cuda:fake")

def loss(p, x):
    return (np.tanh(x @ p["w"]) ** 2).mean()

x = np.arange(32.0).reshape(8, 4) / 32
for sizes, settings in [
    ({"data": 2}, {}),
    ({"data": 2}, {"partition": "parameters"}),
    ({"data": 1, "model": 2}, {}),
    ({"stages": 2}, {}),
    ({"data": 2}, {"consistent": "bits"}),
]:
    mesh = graph.mesh(**sizes)
    step = graph.train(loss, spy.optim.Adam({"w": np.eye(4)}, lr=0.1), mesh=mesh, **settings)
    mine = np.split(x, sizes.get("data", 1))[mesh.coordinates.get("data", 0)]
    losses = [step(mine) for _ in range(3)]
    step = graph.train(loss, spy.optim.Adam({"w": np.eye(4)}, lr=0.1))
    np.testing.assert_allclose(losses, [step(x) for _ in range(3)], rtol=1e-12)
dist.destroy_process_group()
"""


@pytest.mark.deep
def test_a_process_group_for_cpus_and_gpus(start: Starter) -> None:
    """Exchanges go by the backend for CPUs. That for GPUs, in whose place is one that does nothing, is not used."""
    for end in start(DEVICES, 2):
        assert end.code == 0, end.output
