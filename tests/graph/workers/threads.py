"""Workers as threads of one process: the same plans as of processes, with exchanges in memory.

losses = run({"data": 2}, lambda mesh: train(mesh))        what each worker returns, in the order of ranks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Barrier, BrokenBarrierError
from typing import Any, cast

import numpy as np

import slangrad as spy
from slangrad.graph.workers.connections.gpu_memory import staged
from slangrad.graph.workers.meshes.mesh import Mesh, batch_axes

COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@dataclass
class ThreadGroup:
    """The workers along an axis, and the arrays that they give."""

    size: int
    given: dict[int, Any] = field(default_factory=dict)
    channels: dict[Any, SimpleQueue[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = Barrier(self.size, timeout=60)

    def exchange(self, at: int, array: Any) -> list[Any]:
        self.given[at] = array.copy()
        self.barrier.wait()
        found = [self.given[i] for i in range(self.size)]
        self.barrier.wait()
        return found

    def channel(self, *key: int) -> SimpleQueue[Any]:
        return self.channels.setdefault(key, SimpleQueue())


@dataclass
class Done:
    has_ended = True

    def wait(self) -> None:
        pass


@dataclass
class Arrival:
    channel: SimpleQueue[Any]
    array: Any

    def wait(self) -> None:
        self.array[...] = self.channel.get(timeout=60)


@dataclass
class Link:
    """The connection of one worker; it counts what it sends."""

    group: ThreadGroup
    at: int
    log: list[tuple[str, int]]

    def start(self, collective: Any, given: Any, result: Any) -> Done:
        source = result if given is None else given
        found = self.group.exchange(self.at, np.asarray(source))
        self.log.append((collective.name, source.nbytes))
        if collective.name == "all_reduce":
            result[...] = COMBINE[collective.how].reduce(found)
        elif collective.name == "all_gather":
            result[...] = np.stack(found)
        else:
            result[...] = np.stack([each[self.at] for each in found])
        return Done()

    def start_on_gpu(self, collective: Any, given: Any, result: Any) -> Any:
        return staged(cast("Any", self), collective, given, result)

    def send(self, array: Any, to: int, tag: int) -> Done:
        self.log.append(("send", array.nbytes))
        self.group.channel(self.at, to, tag).put(array.copy())
        return Done()

    def receive(self, array: Any, source: int, tag: int) -> Arrival:
        return Arrival(self.group.channel(source, self.at, tag), array)


def meshes(sizes: Mapping[str, int], batch: tuple[str, ...] | None = None) -> list[Mesh]:
    """The mesh as each worker sees it."""
    count = int(np.prod(list(sizes.values())))
    batch = batch_axes(batch, sizes, "mesh")
    groups: dict[Any, ThreadGroup] = {}
    made = []
    for rank in range(count):
        at = Mesh(sizes, rank).coordinates
        links = {}
        for name, n in sizes.items():
            key = name, tuple(k for other, k in at.items() if other != name)
            links[name] = Link(groups.setdefault(key, ThreadGroup(n)), at[name], [])
        made.append(Mesh(sizes, rank, batch, links))
    return made


def run(
    sizes: Mapping[str, int], worker: Callable[[Mesh], Any], batch: tuple[str, ...] | None = None
) -> list[Any]:
    """What the workers return. The first error of one that is not for the others' sake is raised."""
    made, device = meshes(sizes, batch), spy.default_device()

    def one(mesh: Mesh) -> Any:
        spy.push_current_device(device)  # a thread has none of its own
        try:
            return worker(mesh)
        except BaseException:
            for link in mesh.links.values():
                link.group.barrier.abort()
            raise

    with ThreadPoolExecutor(len(made)) as pool:
        futures = [pool.submit(one, mesh) for mesh in made]
    errors = [each.exception() for each in futures if each.exception()]
    for error in sorted(errors, key=lambda e: isinstance(e, BrokenBarrierError)):
        raise error
    return [each.result() for each in futures]
