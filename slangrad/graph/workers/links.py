"""Connections between workers: torch.distributed, and the errors where one of them is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from slangrad.graph.workers.collectives import Collective
from slangrad.graph.workers.faults import Watch

REDUCTIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}


def connected(sizes: Mapping[str, int], rank: int, timeout: float) -> dict[str, Link]:
    """A link for each axis of a mesh of several workers. Each worker calls this."""
    device_mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    watch = Watch(rank, dist.get_world_size(), timeout)
    return {name: Link(name, device_mesh.get_group(name), device_mesh, watch) for name in sizes}


@dataclass(frozen=True, slots=True)
class Link:
    """This worker and the others along an axis of a mesh."""

    over: str
    group: Any
    device_mesh: Any
    watch: Watch

    def start(self, collective: Collective, given: Any, result: Any) -> Pending:
        """Begin; the memory of both arrays is in use until `wait` has returned. WorkerLost as by `wait`."""
        said = f"{collective.name} over {self.over}"
        self.watch.note(said)
        try:
            return Pending(self._begin(collective, given, result), said, self.watch)
        except RuntimeError as error:
            raise self.watch.lost(said, error) from error

    def _begin(self, collective: Collective, given: Any, result: Any) -> Any:
        if collective.name == "all_reduce":
            op = REDUCTIONS[collective.how]
            return dist.all_reduce(_numbers(result), op, group=self.group, async_op=True)
        source = np.ascontiguousarray(given)
        if collective.name == "all_to_all":
            return dist.all_to_all_single(_bytes(result), _bytes(source), group=self.group, async_op=True)
        return dist.all_gather(
            [_bytes(each) for each in result], _bytes(source), group=self.group, async_op=True
        )


@dataclass(frozen=True, slots=True)
class Pending:
    """A collective that has begun."""

    work: Any
    name: str
    watch: Watch

    def wait(self) -> None:
        """Return when the result is there. WorkerLost where another worker is gone, hangs, or is late."""
        self.watch.until(self.work.is_completed, self.name)
        try:
            self.work.wait()
        except RuntimeError as error:
            raise self.watch.lost(self.name, error) from error


def _numbers(array: Any) -> Any:
    """The same memory, flat. Sums of unsigned integers have the bits of those of signed ones."""
    flat = array.reshape(-1)
    return torch.from_numpy(flat.view(flat.dtype.str.replace("u", "i")) if flat.dtype.kind == "u" else flat)


def _bytes(array: Any) -> Any:
    return torch.from_numpy(array.reshape(-1).view(np.uint8))
