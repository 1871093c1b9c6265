"""The seconds of collectives, by the number of workers and of bytes, and those of kernels: measured, or assumed.

links = graph.measure_links()                   each worker calls it, and all get the same
links.save("links.json")
links.seconds("all_reduce", 16, 4 << 20)        among 16 neighboring workers

A host holds `workers_per_host` neighboring workers. A collective over several hosts first combines the values of a
host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf, prod
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

import slangrad as spy
from slangrad.base.lazy import LazyModule
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.node import new_input
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.meshes.mesh import Mesh, checked_mesh, mesh_for

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.links import Pending

SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 26)  # bytes
LARGE = 1 << 22  # bytes of an array that fewer turns measure
TURNS, FEW_TURNS = 15, 5
OVERLAPPED = 1 << 23  # bytes of the collective that runs beside products
PARAMETERS = 9  # of the larger of two steps by which the time of Python is measured
CALLER = "measure_links"
TRAIN = LazyModule("slangrad.graph.train")
SIDE, LENGTH = 512, 1 << 22  # of the matrices and the array by which kernels are measured


@dataclass(frozen=True, slots=True)
class Cost:
    """`alpha`: seconds of a round of messages; `rate`: bytes that a worker sends in a second, while all do."""

    alpha: float
    rate: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """A collective among n workers: `rounds` of messages, and the part of the array that each worker `sends`."""

    rounds: Callable[[int], int]
    sends: Callable[[int], float]

    def seconds(self, cost: Cost, workers: int, nbytes: float) -> float:
        return self.rounds(workers) * cost.alpha + self.sends(workers) * nbytes / cost.rate


def _doublings(n: int) -> int:
    return (n - 1).bit_length()


PATTERNS = {
    "all_reduce": Pattern(lambda n: 2 * _doublings(n), lambda n: 2 * (n - 1) / n),
    "all_gather": Pattern(_doublings, lambda n: (n - 1) / n),
    "all_to_all": Pattern(lambda n: n - 1, lambda n: (n - 1) / n),
    "send": Pattern(lambda n: int(n > 1), lambda n: float(n > 1)),  # from each worker to the next
}
Costs = Mapping[str, Cost]
# Of gloo on a common host, and over a network of 10 Gbit/s for each worker.
HOST: Costs = {
    "all_reduce": Cost(5e-5, 1e9),
    "all_gather": Cost(1e-4, 5e8),
    "all_to_all": Cost(1e-4, 1e9),
    "send": Cost(5e-5, 1e9),
}
NETWORK: Costs = dict.fromkeys(PATTERNS, Cost(1e-4, 1e9))


@dataclass(frozen=True)
class Links:
    """`host`, `network`: the cost of each collective among workers of one host, and among hosts. `overlap`: the
    part of the shorter of a collective and of kernels that is hidden where both run together. `machine`: of one
    worker. ValueError for numbers that are no times, rates or parts."""

    host: Costs = field(default_factory=lambda: HOST)
    network: Costs = field(default_factory=lambda: NETWORK)
    workers_per_host: int = 8
    overlap: float = 0.5
    machine: MachineRates = field(default_factory=MachineRates)

    def __post_init__(self) -> None:
        costs = [*self.host.values(), *self.network.values()]
        rates = [*(cost.rate for cost in costs), self.machine.rate, self.machine.bandwidth]
        machine = self.machine
        times = [*(cost.alpha for cost in costs), machine.launch, machine.call, machine.argument]
        if not all(_is_number(x) and 0 < x < inf for x in (*rates, self.workers_per_host)):
            raise ValueError("links: rates, bandwidth and workers_per_host are positive numbers")
        if not all(_is_number(x) and 0 <= x < inf for x in times):
            raise ValueError("links: alpha, launch, call and argument are seconds")
        if self.workers_per_host % 1 or not _is_number(self.overlap) or not 0 <= self.overlap <= 1:
            raise ValueError("links: workers_per_host is an integer, overlap a number from 0 to 1")

    def seconds(self, collective: str, workers: int, nbytes: int, apart: int = 1) -> float:
        """The seconds of "all_reduce", "all_gather" or "all_to_all" among workers whose ranks are `apart`. `nbytes`: of
        the result on one worker. ValueError for others, and for no workers."""
        if collective not in PATTERNS or workers < 1:
            raise ValueError(
                f"{collective!r} among {workers} workers: one of {', '.join(PATTERNS)}, from 1 on"
            )
        near = max(1, min(workers, self.workers_per_host // apart))
        far, pattern = -(-workers // near), PATTERNS[collective]
        # An all-to-all sends the whole array between hosts, and one part for each host within a host. The others
        # move the whole array within a host, and each worker's share of it between hosts.
        to_all = collective == "all_to_all"
        inside, outside = (nbytes / far, nbytes) if to_all else (nbytes, nbytes / near)
        within = pattern.seconds(self.host[collective], near, inside)
        return within + pattern.seconds(self.network[collective], far, outside)

    def with_hosts_of(self, workers: int) -> Links:
        """The same costs, for hosts of so many workers."""
        return replace(self, workers_per_host=workers)

    def save(self, path: str | Path) -> None:
        """Write them as JSON: seconds, and bytes and operations in a second."""
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Links:
        """The links that `save` wrote. ValueError for another file, OSError where there is none."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            levels = ({name: Cost(**data[level][name]) for name in PATTERNS} for level in ("host", "network"))
            host, network = levels
            return Links(
                host, network, data["workers_per_host"], data["overlap"], MachineRates(**data["machine"])
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # of text that is no JSON, too
            raise ValueError(f"{path}: not a file of links: {error!r}") from error


def links_of(links: Links | str | Path | None) -> Links:
    """The links in a file, or by default those of a common host."""
    return links if isinstance(links, Links) else Links() if links is None else Links.load(links)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


# --- measurement


def measure_links(mesh: Mesh | None = None) -> Links:
    """The costs of the links between the workers at hand, and of kernels while all of them compute: a few seconds.
    Each worker calls it, and all get the same. Where there is one worker, and between hosts where there is one host,
    they are those of a common host.

    `mesh`: by default one of all workers. Axes along which workers are both on one host and on others tell nothing.
    GraphError (E1048) for another value. WorkerLost where another worker is gone.
    """
    hosts = int(os.environ.get("GROUP_WORLD_SIZE", "1"))  # of torchrun
    mesh = _all_workers(hosts) if mesh is None else checked_mesh(mesh, CALLER)
    if mesh.watch is not None:
        mesh.watch.meet(f"{CALLER} of {mesh.name}")
    per_host = max(1, mesh.workers // hosts)
    costs: dict[bool, dict[str, Cost]] = {}
    for axis, workers in mesh.several.items():
        apart = apart_on(mesh, axis)
        is_near = workers * apart <= per_host
        if is_near or apart % per_host == 0:
            costs[is_near] = {name: _cost(mesh, name, axis) for name in PATTERNS}
    machine, overlap = _machine(mesh), _overlap(mesh)
    return Links(costs.get(True, HOST), costs.get(False, NETWORK), per_host, overlap, machine)


def apart_on(mesh: Mesh, axis: str) -> int:
    """The distance of the ranks of neighbors along an axis."""
    names = list(mesh.sizes)
    return prod(mesh.sizes[name] for name in names[names.index(axis) + 1 :])


def _all_workers(hosts: int) -> Mesh:
    return mesh_for(CALLER, ["local"], {"hosts": hosts} if hosts > 1 else {})


def _cost(mesh: Mesh, name: str, axis: str) -> Cost:
    """Seconds for several sizes as alpha and rate: the least squares of relative errors."""
    seconds = np.array(_agreed(mesh, [_seconds(mesh, name, axis, size) for size in SIZES]))
    n, pattern = mesh.sizes[axis], PATTERNS[name]
    rows = np.array([[pattern.rounds(n), pattern.sends(n) * size] for size in SIZES])
    alpha, each_byte = np.linalg.lstsq(rows / seconds[:, None], np.ones(len(SIZES)))[0]
    return Cost(float(max(alpha, 0.0)), float(1 / max(each_byte, 1e-15)))


def _seconds(mesh: Mesh, name: str, axis: str, size: int) -> float:
    begin = _exchange(mesh, name, axis, size)
    return _timed(lambda: begin().wait(), FEW_TURNS if size > LARGE else TURNS)


def _exchange(mesh: Mesh, name: str, axis: str, size: int) -> Callable[[], Pending | _Messages]:
    """A function that begins a collective, or messages to the next worker, and returns an object to wait for."""
    collective = mesh.collective(name, axis)
    whole = np.zeros((collective.count, size // 4 // collective.count), np.float32)
    if name == "send":
        return lambda: _Messages(mesh, axis, whole, np.empty_like(whole))
    if name == "all_reduce":
        return lambda: collective.start(None, whole.reshape(-1))
    sent = np.zeros_like(whole[0] if name == "all_gather" else whole)
    return lambda: collective.start(sent, whole)


class _Messages:
    """Messages to the next worker along an axis, and from the one before."""

    def __init__(self, mesh: Mesh, axis: str, sent: np.ndarray, result: np.ndarray) -> None:
        link, place, count = mesh.link(axis), mesh.coordinates[axis], mesh.sizes[axis]
        received = link.receive(result, (place - 1) % count, 0)
        self._begun = link.send(sent, (place + 1) % count, 0), received

    def wait(self) -> None:
        for pending in self._begun:
            pending.wait()


def _timed(run: Callable[[], object], turns: int) -> float:
    """The median of the seconds of each turn but the first, which touches memory."""
    seconds = []
    for _ in range(1 + turns):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return median(seconds[1:])


def _agreed(mesh: Mesh, values: Sequence[float]) -> list[float]:
    """The largest values of all workers, on all."""
    largest = np.array(values, np.float64)
    for axis in mesh.several:
        mesh.collective("all_reduce", axis, "max").start(None, largest).wait()
    return [float(value) for value in largest]


def _machine(mesh: Mesh) -> MachineRates:
    """The rates of kernels: of a product, and of a large and a small array that are changed in place."""
    plans = _product(), _halved(LENGTH), _halved(1)
    product, moved, launch = _agreed(mesh, [_kernel_seconds(plan) for plan in plans])
    rate = 2 * SIDE**3 / max(product - launch, launch)
    few, many = _agreed(mesh, [_beside_kernels(count) for count in (1, PARAMETERS)])
    argument = max(0.0, many - few) / (PARAMETERS - 1)
    call = max(0.0, few - 3 * argument)  # of a parameter, a batch and settings
    return MachineRates(rate, 8 * LENGTH / max(moved - launch, launch), launch, call, argument)


def _beside_kernels(count: int) -> float:
    """The seconds of a training step of so many numbers, less those of its kernels: the time of Python."""

    def loss(p: Sequence[Array], x: Array) -> Array:
        total: Array = sum(((w * x).sum() for w in p[1:]), (p[0] * x).sum())
        return total

    step = TRAIN.train(loss, spy.optim.SGD([np.ones(1) for _ in range(count)], lr=0.0))
    x = np.ones(1)
    return max(0.0, _timed(lambda: step(x), TURNS) - _kernel_seconds(step.explain(x).plan))


def _kernel_seconds(plan: Plan) -> float:
    return median(sum(plan.timed(_ones(plan))) for _ in range(TURNS))


def _ones(plan: Plan) -> list[np.ndarray]:
    return [np.ones(node.shape, node.dtype) for node in plan.inputs]


def _product() -> Plan:
    x, w = (new_input((SIDE, SIDE), np.dtype(np.float32)) for _ in range(2))
    return Plan([(Array(x) @ Array(w)).node], [x, w], spy.default_device())


def _halved(length: int) -> Plan:
    x = new_input((length,), np.dtype(np.float32))
    y = (Array(x) * 0.5).node
    return Plan([y], [x], spy.default_device(), PlanOptions(in_place={y: x}))


def _overlap(mesh: Mesh) -> float:
    """The hidden part of the shorter one: of a collective, and of products that take about as long."""
    if not mesh.several:
        return Links.overlap
    exchange = _exchange(mesh, "all_reduce", next(iter(mesh.several)), OVERLAPPED)
    plan = _product()
    arrays = _ones(plan)
    waited, product = _agreed(mesh, [_timed(lambda: exchange().wait(), TURNS), _kernel_seconds(plan)])
    products = max(1, round(waited / product))

    def compute() -> None:
        for _ in range(products):
            plan.run(arrays)

    def together() -> None:
        pending = exchange()
        compute()
        pending.wait()

    computed, both = _agreed(mesh, [_timed(compute, TURNS), _timed(together, TURNS)])
    return float(np.clip((computed + waited - both) / min(computed, waited), 0.0, 1.0))
