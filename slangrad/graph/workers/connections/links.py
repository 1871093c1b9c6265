"""Connections between workers: torch.distributed, and the errors where one of them is lost.

Arrays are NumPy's: memory of the host, which the backend for CPUs moves. NCCL beside it moves memory of GPUs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from ctypes import py_object, pythonapi
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import PrefixStore
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_store

import slangrad as spy
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.values import layout_of, numpy_type
from slangrad.graph.workers.connections.faults import Watch, WorkerLost
from slangrad.graph.workers.connections.gpu_memory import StagedExchange, bytes_of, numbers_of, staged
from slangrad.graph.workers.connections.store import StoreConnection
from slangrad.graph.workers.connections.transfers import Queue, Transfer
from slangrad.graph.workers.meshes.collectives import Collective
from slangrad.graph.workers.meshes.mesh import ALL, TIMEOUT, Mesh

REDUCTIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
SPIN, SHORT = 0.002, 0.0002  # seconds: of looks without a pause, and between two others

_watches: dict[object, Watch] = {}  # by the process group that they are of


def connected(mesh: Mesh, timeout: float | None, caller: str) -> tuple[dict[str, Link], Link, Watch]:
    """A link for each axis of a mesh of several workers, one along all axes, and the watch over all workers. Each
    worker calls this, and all agree on it first: a process group waits for all of them. WorkerLost where one does not
    come, or makes another call than `caller`. GraphError (E1048) where the program connected GPUs only."""
    if "cpu:" not in dist.get_backend_config():
        note = 'init_process_group("cpu:gloo,cuda:nccl")'
        raise GraphError("E1048", "mesh: the process group of the program has no backend for CPUs", note)
    watch, sizes = _watch(mesh.rank, timeout), mesh.sizes
    watch.meet(caller)
    make = partial(init_device_mesh, "cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    try:
        device_mesh = watch.result_of(make, "graph.mesh")
    except WorkerLost:
        raise
    except RuntimeError as error:
        raise watch.lost("graph.mesh", error) from error
    groups = {name: device_mesh.get_group(name) for name in sizes}
    for group in groups.values():  # their ends would wait for collectives that never end
        pythonapi.Py_IncRef(py_object(group))
    stage = f", stage {mesh.stage} of {mesh}" if mesh.stages > 1 else ""  # another mesh may have others in it
    links = {name: Link(name, f"{name}{stage}", group, watch) for name, group in groups.items()}
    return links, Link(ALL, ALL, dist.group.WORLD, watch), watch


def _watch(rank: int, timeout: float | None) -> Watch:
    """One for all meshes. It has the timeout of the last one that has its own."""
    if dist.group.WORLD not in _watches:
        connection = StoreConnection(PrefixStore(f"slangrad {len(_watches)}", _get_default_store()))
        seconds = timeout or TIMEOUT
        connection.store.set_timeout(timedelta(seconds=seconds))
        holder = -1 if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" else 0
        _watches[dist.group.WORLD] = Watch(connection, rank, dist.get_world_size(), holder, seconds)
    watch = _watches[dist.group.WORLD]
    watch.timeout = timeout or watch.timeout
    return watch


@dataclass(frozen=True, slots=True)
class Link:
    """This worker and the others along an axis of a mesh. `sequence`: of events that are the same on all workers of a
    stage."""

    over: str
    sequence: str
    group: dist.ProcessGroup
    watch: Watch
    _sent: Queue = field(default_factory=lambda: Queue("slangrad-sends"))
    _received: Queue = field(default_factory=lambda: Queue("slangrad-receives"))

    def start(self, collective: Collective, source: np.ndarray | None, result: np.ndarray) -> Pending:
        """Begin; the memory of both arrays is in use until `wait` has returned. WorkerLost as by `wait`."""
        return self._started(
            collective, result.nbytes, partial(self._begin, collective, source, result), Pending
        )

    def start_on_gpu(self, collective: Collective, source: spy.Tensor | None, result: spy.Tensor) -> Begun:
        """As `start`, for memory of a GPU. NCCL moves it, in the order of the device's stream. Without NCCL, copies on
        the host go by the backend for CPUs, because gloo has fewer collectives for GPUs."""
        if "cuda:nccl" not in dist.get_backend_config(self.group):
            return staged(self, collective, source, result)
        nbytes = numpy_type(result).itemsize * result.element_count
        begin = partial(self._begin_on_gpu, collective, source, result)
        return self._started(collective, nbytes, begin, PendingOnGpu)

    def _started(
        self, collective: Collective, nbytes: int, begin: Callable[[], dist.Work], kind: type[Pending]
    ) -> Pending:
        name = f"{collective.name} over {self.over}"
        self.watch.note(f"{name}, {nbytes} bytes", self.sequence)
        try:
            with self.watch.calling():
                work = begin()
                self.watch.opened(work)
                return kind(work, name, self.watch)
        except WorkerLost:
            raise
        except RuntimeError as error:
            raise self.watch.lost(name, error) from error

    def _begin_on_gpu(
        self, collective: Collective, source: spy.Tensor | None, result: spy.Tensor
    ) -> dist.Work:
        lend = self.watch.lend
        assert layout_of(result).is_dense, "a copy would be filled in its place"
        if collective.name == "all_reduce":
            op = REDUCTIONS[collective.how]
            return dist.all_reduce(lend(numbers_of(result)), op, group=self.group, async_op=True)
        assert source is not None
        sent, filled = lend(bytes_of(source)), lend(bytes_of(result))
        if collective.name == "all_to_all":
            return dist.all_to_all_single(filled, sent, group=self.group, async_op=True)
        return dist.all_gather_into_tensor(filled, sent, group=self.group, async_op=True)

    def send(self, array: np.ndarray, to: int, tag: int) -> Transfer:
        """Begin to send an array without gaps to another place along the axis. Its memory is in use until `wait` of
        the result has returned. Messages of one tag arrive in the order in which they began. WorkerLost as by
        `wait`."""
        name = f"send {tag} to {self.over}={to}"
        self.watch.note(f"send {tag}, {array.nbytes} bytes", self.sequence)
        begin = partial(
            dist.isend, _bytes(array), group=self.group, tag=tag, dst=dist.get_global_rank(self.group, to)
        )
        return self._sent.add(Transfer(begin, name, self.watch))

    def receive(self, array: np.ndarray, source: int, tag: int) -> Transfer:
        """Begin to fill an array from another place along the axis; see `send`."""
        name = f"receive {tag} from {self.over}={source}"
        self.watch.note(f"receive {tag}, {array.nbytes} bytes", self.sequence)
        begin = partial(
            dist.irecv, _bytes(array), group=self.group, tag=tag, src=dist.get_global_rank(self.group, source)
        )
        return self._received.add(Transfer(begin, name, self.watch))

    def _begin(self, collective: Collective, source: np.ndarray | None, result: np.ndarray) -> dist.Work:
        lend = self.watch.lend
        if collective.name == "all_reduce":
            op = REDUCTIONS[collective.how]
            return dist.all_reduce(lend(_numbers(result)), op, group=self.group, async_op=True)
        sent = lend(_bytes(np.ascontiguousarray(source)))
        if collective.name == "all_to_all":
            return dist.all_to_all_single(lend(_bytes(result)), sent, group=self.group, async_op=True)
        parts = [lend(_bytes(part)) for part in result]
        return dist.all_gather(parts, sent, group=self.group, async_op=True)


@dataclass(frozen=True, slots=True)
class Pending:
    """A collective that has begun."""

    work: dist.Work
    name: str
    watch: Watch

    @property
    def has_ended(self) -> bool:
        return bool(self.work.is_completed())

    def wait(self) -> None:
        """Return when the result is there. WorkerLost where another worker is gone, hangs, is late, or runs
        another program."""
        try:
            self.watch.until(self._ends_within, self.name)
        except WorkerLost:
            raise
        except RuntimeError as error:
            raise self.watch.lost(self.name, error) from error
        self.watch.closed(self.work)

    def _ends_within(self, seconds: float) -> bool:
        """Wait for it that long. The error of a timeout is not an error of the collective."""
        try:
            self.work.wait(timedelta(seconds=seconds))
        except RuntimeError:
            if not self.work.is_completed():
                return False
            self.work.wait()  # its own error, if it has one
        return True


@dataclass(frozen=True, slots=True)
class PendingOnGpu(Pending):
    """A collective of NCCL that has begun. It keeps the order of the device's stream."""

    def wait(self) -> None:
        """Launches from now on come after it, and the host goes on. `Watch.settle` finds out whether it has ended."""
        try:
            self.work.wait()
        except RuntimeError as error:
            raise self.watch.lost(self.name, error) from error
        self.watch.unsettled.append(self)

    def settle(self) -> None:
        """Return when it has ended. WorkerLost as of `Pending.wait`."""
        self.watch.until(self._is_there_within, self.name)
        self.watch.closed(self.work)
        if not self.work.is_success():  # one that fails has completed, too
            raise self.watch.lost(self.name, RuntimeError("the collective has failed"))

    def _is_there_within(self, seconds: float) -> bool:
        """NCCL has no wait of the host with a timeout."""
        start = time.monotonic()
        while not self.work.is_completed():
            passed = time.monotonic() - start
            if passed > seconds:
                return False
            time.sleep(0 if passed < SPIN else SHORT)
        return True


Begun: TypeAlias = "Pending | StagedExchange"


def _numbers(array: np.ndarray) -> torch.Tensor:
    """The same memory, flat. Sums of unsigned integers have the bits of those of signed ones."""
    flat = array.reshape(-1)
    return torch.from_numpy(flat.view(flat.dtype.str.replace("u", "i")) if flat.dtype.kind == "u" else flat)


def _bytes(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.reshape(-1).view(np.uint8))
