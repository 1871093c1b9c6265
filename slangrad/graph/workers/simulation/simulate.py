"""The simulated time of a step on a cluster: the plan of one worker, and the costs of its kernels and links.

    print(graph.simulate(step, x, y, graph.cluster(workers=1024, links="h200.json")))

All workers run one plan, so one of them stands for all. Nothing is compiled or run, and no array of the cluster's is
made, unless kernels are to be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.node import type_text
from slangrad.graph.lowering.emit import RESULT
from slangrad.graph.lowering.steps import Await, Exchange, MemoryPart
from slangrad.graph.workers.connections.costs import Links, apart_on, links_of
from slangrad.graph.workers.meshes.mesh import Mesh, are_sizes, batch_axes
from slangrad.graph.workers.simulation.events import CALL, COMPARED, COMPARISON
from slangrad.graph.workers.simulation.timeline import Timeline, WorkerQueues

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan
    from slangrad.graph.train import Step


TURNS = 3  # of a plan whose kernels are measured


@dataclass(frozen=True, eq=False, repr=False)
class Cluster(Mesh):
    """A mesh that is only planned for. `costs`: of its links and of a worker's kernels. `stragglers`: the standard
    deviation of the workers' times for a kernel, as a part of it, drawn by `seed`."""

    costs: Links = field(default_factory=Links)
    stragglers: float = 0.0
    seed: int = 0

    @property
    def slowest(self) -> float:
        """The time of the slowest worker for a kernel, for which the others wait, as a multiple of the usual one."""
        if not self.stragglers:
            return 1.0
        draws = np.random.default_rng(self.seed).normal(0.0, self.stragglers, self.workers)
        return float(1 + max(0.0, draws.max()))


def cluster(
    workers: int | None = None,
    links: Links | str | Path | None = None,
    workers_per_host: int | None = None,
    *,
    batch: tuple[str, ...] | str | None = None,
    stragglers: float = 0.0,
    seed: int = 0,
    **sizes: int,
) -> Cluster:
    """A mesh of workers that are not here, for plans and `simulate`. `sizes`: of its axes, of which neighbors stand on
    the last; by default all workers are on "data". `links`: their costs or a file of these, by default those of a
    common host and network; `workers_per_host`: by default what `links` say, which is 8 there.

    `batch`: as in `mesh`. `stragglers`: the standard deviation of workers' times for a kernel, as a part of it; a step
    takes the time of the slowest.

    GraphError (E1048) where sizes are no numbers from 1 on, or do not fit the number of workers. ValueError for
    `stragglers` below 0. As `Links.load` for the file.
    """
    sizes = sizes or {"data": 1 if workers is None else workers}
    call = f"cluster({', '.join(f'{name}={n!r}' for name, n in sizes.items())})"
    if not are_sizes(sizes):
        raise GraphError("E1048", f"{call}: each axis has a number of workers, from 1 on")
    if workers not in (None, prod(sizes.values())):
        raise GraphError("E1048", f"{call}: these are not {workers} workers", "the sizes of all axes")
    if not isinstance(stragglers, int | float) or not 0 <= stragglers < inf:
        raise ValueError(f"stragglers={stragglers!r} is no part of a time, from 0 on")
    costs = links_of(links)
    if workers_per_host is not None:
        costs = costs.with_hosts_of(workers_per_host)
    return Cluster(sizes, 0, batch_axes(batch, sizes, call), costs=costs, stragglers=stragglers, seed=seed)


def simulate(
    step: Step,
    *batch_and_cluster: Any,
    measured: bool = False,  # trees of arrays, and a Cluster
) -> Timeline:
    """A step of `graph.train` on a cluster: `simulate(step, x, y, cluster)`, where x and y are the part of a batch
    that each worker passes. The parameters are those that the optimizer got, whatever the mesh of the step.

    `measured`: each kernel of the plan is compiled and run here, with memory for one worker; else the cost model gives
    its seconds. GraphError (E1043) without a step or a cluster.
    """
    *batch, mesh = batch_and_cluster or (None,)
    if not isinstance(mesh, Cluster) or not hasattr(step, "planned_for"):
        message = f"simulate takes a step, its batch and a cluster, not {type(step).__name__} ... {type(mesh).__name__}"
        raise GraphError("E1043", message, "graph.simulate(step, x, y, graph.cluster(workers=64))")
    planned = step.planned_for(mesh, *batch, by_cost=not measured)
    return planned.simulated(mesh.costs, measured, mesh.slowest)


def simulated(
    plan: Plan, mesh: Mesh, links: Links, measured: bool = False, slowest: float = 1.0, is_piece: bool = False
) -> Timeline:
    """The plan of one worker of a mesh. `slowest`: as in `Cluster`. `is_piece`: it is not a whole step."""
    seconds = iter(_measured(plan) if measured else _estimated(plan, links))
    names, worker, begun = names_of(plan), WorkerQueues(links.overlap), dict[int, int]()
    call = links.machine.call + links.machine.argument * len(plan.inputs)
    if call and not is_piece:
        worker.compute(CALL, call)
    is_compared = mesh.workers > 1 and not is_piece
    comparison = worker.begin(COMPARISON, comparison_seconds(mesh, links), COMPARED) if is_compared else None
    start = worker.now
    for cost in islice(seconds, len(plan.copies)):
        worker.compute("copy of a weight", cost * slowest)
    copying = worker.now - start
    for step, cost in zip(plan.steps, seconds, strict=True):
        if isinstance(step, Exchange):
            seconds_alone = seconds_of(step, mesh, links)
            begun[id(step)] = worker.begin(exchange_name(step), seconds_alone, bytes_of(step))
        elif isinstance(step, Await):
            worker.wait(begun[id(step.exchange)])
        else:
            worker.compute(names[id(step)], cost * slowest)
    if comparison is not None:
        worker.wait(comparison)
    return Timeline(workers_text(mesh), worker.now, worker.events, worker.path, plan.memory, copying)


def exchange_name(step: Exchange) -> str:
    return f"{step.collective.name} over {step.collective.over}"


def comparison_seconds(mesh: Mesh, links: Links) -> float:
    """The seconds of the exchange by which workers find that their steps differ."""
    return links.seconds("all_reduce", mesh.workers, COMPARED)


def seconds_of(step: Exchange, mesh: Mesh, links: Links) -> float:
    over = step.collective.over
    return links.seconds(step.collective.name, step.collective.count, bytes_of(step), apart_on(mesh, over))


def bytes_of(step: Exchange) -> int:
    """Bytes of the result."""
    return _bytes_of_part(step.writes[RESULT])


def _bytes_of_part(part: MemoryPart) -> int:
    return prod(part.layout.shape) * part.holder.dtype.itemsize


def _measured(plan: Plan) -> list[float]:
    return plan.timed([np.zeros(node.shape, node.dtype) for node in plan.inputs], TURNS)


def _estimated(plan: Plan, links: Links) -> list[float]:
    """Seconds of each copy and each step by the cost model; the steps of one group share them."""
    seconds: dict[int, float] = {}
    for task in plan.tasks:
        work = plan.fusion.groups[task.number].work
        count = max(1, len(task.steps))
        arithmetic = links.machine.seconds(work.flops, work.bytes) - links.machine.launch
        seconds |= dict.fromkeys(map(id, task.steps), arithmetic / count + links.machine.launch)
    moved = (sum(map(_bytes_of_part, step.parts)) for step in plan.copies)
    copies = [links.machine.seconds(0, nbytes) for nbytes in moved]
    return [*copies, *(seconds.get(id(step), 0.0) for step in plan.steps)]


def names_of(plan: Plan) -> Mapping[int, str]:
    """For each step the kind, the type and the line of its group."""
    return {id(step): _name(plan, task.number) for task in plan.tasks for step in task.steps}


def _name(plan: Plan, number: int) -> str:
    group = plan.fusion.groups[number]
    place = f" {group.roots[0].place}" if group.roots[0].place else ""
    return f"{group.kind} {type_text(group.roots[0])}{place}"


def workers_text(mesh: Mesh) -> str:
    """The number of workers, and the sizes of axes."""
    sizes = ", ".join(f"{name}={n}" for name, n in mesh.sizes.items())
    return f"{mesh.workers} worker{'s' * (mesh.workers != 1)}{f' ({sizes})' if sizes else ''}"
