"""Meshes: all workers, on named axes.

    graph.mesh("data")              all workers on one axis; one worker where nothing started more
    graph.mesh(data=2, model=4)     worker 5 stands at data=1, model=1
    graph.mesh("data", model=4)     as many on "data" as there are

`torchrun` starts the workers; torch.distributed connects them. A program that `python` runs is one worker, and
needs no torch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.workers.meshes.collectives import Collective
from slangrad.graph.workers.meshes.specs import MICRO, STAGES

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.faults import Watch
    from slangrad.graph.workers.connections.links import Link

DISTRIBUTED = LazyModule("torch.distributed")
LINKS = LazyModule("slangrad.graph.workers.connections.links")
TIMEOUT = 300.0  # seconds
ALL = "all workers"  # an exchange along all axes
OLDEST = (2, 8)  # torch: since then a store has a connection for each thread


@dataclass(frozen=True, eq=False)
class Mesh:
    """`sizes`: the number of workers along each axis, the slowest first. `rank`: this worker. `batch`: the axes along
    which workers have other parts of a batch. `links`: for each axis of several workers the connection to the
    others; `watch`: the state of these. `number`: of the mesh among those of the program. `all_workers`: the connection
    to them along all axes. A mesh for plans alone has none of these."""

    sizes: Mapping[str, int]
    rank: int = 0
    batch: tuple[str, ...] = ()
    links: Mapping[str, Link] = field(default_factory=dict)
    watch: Watch | None = None
    number: int = 0
    all_workers: Link | None = None

    def __repr__(self) -> str:
        return f"graph.mesh({', '.join(f'{name}={n}' for name, n in self.sizes.items())})"

    @property
    def name(self) -> str:
        return f"{self!r}, mesh {self.number} of the program"

    @property
    def several(self) -> dict[str, int]:
        """The axes with several workers."""
        return {name: n for name, n in self.sizes.items() if n > 1}

    @property
    def cuts(self) -> dict[str, int]:
        """The axes along which tensors may be cut: all but that of stages."""
        return {name: n for name, n in self.several.items() if name != STAGES}

    @property
    def stages(self) -> int:
        return self.sizes.get(STAGES, 1)

    @property
    def stage(self) -> int:
        """That of this worker."""
        return self.coordinates.get(STAGES, 0)

    @property
    def batch_cuts(self) -> tuple[str, ...]:
        """The axes along which the rows of a batch are cut."""
        return tuple(name for name in self.batch if name in self.cuts)

    @property
    def is_planned(self) -> bool:
        """Whether there are plans for it, but no workers."""
        return bool(self.several) and not self.links

    @property
    def workers(self) -> int:
        return prod(self.sizes.values())

    @property
    def coordinates(self) -> dict[str, int]:
        """The place of this worker on each axis."""
        return self.coordinates_of(self.rank)

    def coordinates_of(self, rank: int) -> dict[str, int]:
        places = {}
        for name, n in reversed(list(self.sizes.items())):
            rank, places[name] = divmod(rank, n)
        return {name: places[name] for name in self.sizes}

    def place(self, names: tuple[str, ...]) -> int:
        """The number of this worker's shard among those that axes make."""
        at = 0
        for name in names:
            at = at * self.sizes[name] + self.coordinates[name]
        return at

    def collective(self, name: str, over: str, how: str = "sum") -> Collective:
        return Collective(name, over, how, self)

    def of_first(
        self, make: Callable[[], int | Sequence[int]], count: int, axes: Iterable[str] | None = None
    ) -> list[int]:
        """Integers that the first worker makes, on all of them. `axes`: on those along some axes."""
        axes = self.several if axes is None else axes
        numbers = np.zeros(count, np.int64)
        if not any(self.coordinates[name] for name in axes):
            numbers[:] = make()
        for over in self.links and axes:
            self.collective("all_reduce", over).start(None, numbers).wait()
        return numbers.tolist()

    def settle(self) -> None:
        """Return when the results of exchanges on a GPU are there, before the host reads them. WorkerLost where they
        do not come."""
        if self.watch is not None:
            self.watch.settle()

    def link(self, over: str) -> Link:
        """The connection of this worker to the others along an axis. GraphError (E1048) where there are no others."""
        if over not in self.links:
            raise GraphError(
                "E1048", f"{self} is only planned for", "torchrun starts workers, graph.mesh connects them"
            )
        return self.links[over]


def mesh(*names: str, batch: object = None, timeout: float = TIMEOUT, **sizes: int) -> Mesh:
    """All workers on named axes. A name without a size gets the workers that are left; one such name at most.

    An axis `stages` is that of layers, for `graph.train`: its workers hold different ones.

    `batch`: the axes along which workers pass different parts of a batch: by default "data" where there is such an
    axis, else all but "stages". Along the others they pass the same. `timeout`: seconds that a worker waits for
    another that is alive; all meshes of a program have that of the last one. A worker whose process is gone is lost
    at once, one whose process stands still for 8 seconds is lost, too.

    GraphError (E1048) where sizes do not fit the number of workers, where there are several and torch is not
    installed, and where they cannot be connected. A timeout that is no positive number has the same code.
    WorkerLost where one of them does not call `mesh`, or calls it for other axes.
    """
    return mesh_for("", names, sizes, batch, timeout)


def mesh_for(
    caller: str,
    names: Sequence[str],
    sizes: Mapping[str, int],
    batch: object = None,
    timeout: float | None = None,
) -> Mesh:
    """As `mesh`. `caller`: the call of the program that all workers make together, if that is not `mesh`. `timeout`:
    by default that of the last mesh."""
    call = f"mesh({', '.join([*map(repr, names), *(f'{name}={n!r}' for name, n in sizes.items())])})"
    if timeout is not None and not _is_time(timeout):
        raise GraphError("E1048", f"{call}: timeout={timeout!r} is no number of seconds", "timeout=300")
    workers, rank = _started(timeout or TIMEOUT)
    axes = {**dict.fromkeys(names, 0), **sizes}
    is_named = all(isinstance(name, str) and name and name != MICRO for name in axes)
    if (
        not axes
        or len(names) > 1
        or len(axes) < len(names) + len(sizes)
        or not (is_named and are_sizes(sizes))
    ):
        raise GraphError("E1048", f"{call}: each axis has a size, but for one", "graph.mesh('data', model=2)")
    axes.update(dict.fromkeys(names, workers // prod(sizes.values())))
    if prod(axes.values()) != workers:
        note = "torchrun --nproc-per-node N starts N workers"
        raise GraphError(
            "E1048", f"{call}: there {'is 1 worker' if workers == 1 else f'are {workers}'}", note
        )
    alone = Mesh(axes, rank, batch_axes(batch, axes, call))
    if workers == 1:
        return alone
    check_torch(call)
    links, all_workers, watch = LINKS.connected(alone, timeout, caller or repr(alone))
    number = watch.number("mesh")
    return replace(alone, links=links, watch=watch, number=number, all_workers=all_workers)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return bool(0 < value < inf)


def are_sizes(sizes: Mapping[str, int]) -> bool:
    """Whether each axis has a number of workers."""
    numbers = (n for n in sizes.values() if not isinstance(n, bool))
    return sum(isinstance(n, int | np.integer) and n > 0 for n in numbers) == len(sizes)


def checked_mesh(value: object, caller: str) -> Mesh:
    """The mesh that a caller passed. GraphError (E1048) for another value."""
    if not isinstance(value, Mesh):
        raise GraphError("E1048", f"{caller}: {value!r} is no mesh of workers", "mesh=graph.mesh('data')")
    return value


def batch_axes(batch: object, sizes: Mapping[str, int], call: str) -> tuple[str, ...]:
    """The axes along which workers pass different parts of a batch: as given, else "data", else all; workers of
    different stages pass the same. GraphError (E1048) where there is no such axis."""
    if batch is None:
        return ("data",) if "data" in sizes else tuple(name for name in sizes if name != STAGES)
    names = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    able = [name for name in sizes if name != STAGES]
    if not all(name in able for name in names):
        raise GraphError(
            "E1048", f"{call}: batch={batch!r} are no axes of rows", f"some of {', '.join(able)}"
        )
    return names


def check_torch(call: str) -> None:
    """GraphError (E1048) where torch, which is loaded, is too old."""
    version = sys.modules["torch"].__version__
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        message = f"{call}: many workers and checkpoints need torch {oldest}, and this is {version}"
        raise GraphError("E1048", message, f"pip install 'torch>={oldest}'")


def _started(timeout: float) -> tuple[int, int]:
    """The number of workers, and which is this: as the program has connected them, or as `torchrun` says."""
    loaded = sys.modules.get("torch.distributed")
    if loaded is None or not loaded.is_initialized():
        workers = os.environ.get("WORLD_SIZE", "1")
        if workers == "1":
            return 1, 0
        world = f"mesh: WORLD_SIZE is {workers}, but "
        try:
            # For arrays of the host. A program with GPUs makes its own group, "cpu:gloo,cuda:nccl".
            DISTRIBUTED.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        except ImportError:
            raise GraphError(
                "E1048", f"{world}torch is not installed", "pip install 'slangrad[torch]'"
            ) from None
        except (
            RuntimeError,
            ValueError,
        ) as error:  # a variable that is not set; a port that is taken; timeout
            note = "torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, a free port"
            raise GraphError("E1048", f"{world}workers are not connected: {error}", note) from error
    return DISTRIBUTED.get_world_size(), DISTRIBUTED.get_rank()


ONE = Mesh({})
