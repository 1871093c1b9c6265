"""`slangrad graph plan`: the simulated time of a training step of a Python file on many workers."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from slangrad import graph
from slangrad.graph import GraphError
from slangrad.graph.train import Step
from slangrad.graph.workers.simulation.timeline import Timeline, bytes_text, table, time_text

AUTO = "auto"  # a mesh that is searched for
KEYWORDS = [
    name
    for name, parameter in signature(graph.cluster).parameters.items()
    if parameter.kind != parameter.VAR_KEYWORD
]


def simulated(
    target: str, workers: int | None, links: Path | None, mesh: str, workers_per_host: int | None
) -> tuple[list[str], Timeline]:
    """The simulation of "FILE:step", and lines that stand before it. ValueError for a target or a mesh that cannot be
    read."""
    sizes: Any = {} if mesh == AUTO else sizes_of(mesh)  # by names that no keyword has
    if workers is None and not sizes:
        raise ValueError("error: --workers or --mesh says how many workers there are")
    if mesh == AUTO:
        return best_of(*step_of(target), workers or 1, links, workers_per_host)
    cluster = graph.cluster(workers, links, workers_per_host, **sizes)
    step, batch = step_of(target)
    return [], graph.simulate(step, *batch, cluster)


def best_of(
    step: Step, batch: tuple[object, ...], workers: int, links: Path | None, workers_per_host: int | None
) -> tuple[list[str], Timeline]:
    """A line for each way to put workers on the axes "data" and "stages", with the same number of rows in all. Also
    gives the simulation of the fastest one."""
    simulations: dict[str, Timeline] = {}
    refused: GraphError | None = None
    for stages in (n for n in range(1, workers + 1) if workers % n == 0):
        # Keywords of a function that has others.
        sizes: Any = {"data": workers // stages, **({"stages": stages} if stages > 1 else {})}
        cluster = graph.cluster(workers, links, workers_per_host, **sizes)
        name = ", ".join(f"{axis}={n}" for axis, n in sizes.items())
        try:
            simulations[name] = graph.simulate(step, *(with_rows(array, stages) for array in batch), cluster)
        except GraphError as error:  # too few layers, or too little memory
            refused = refused or error
            continue
    if not simulations:
        raise refused or ValueError(f"error: --workers {workers}")
    rows = [
        (name, time_text(simulation.seconds), bytes_text(simulation.peak))
        for name, simulation in simulations.items()
    ]
    best = min(simulations.values(), key=lambda simulation: simulation.seconds)
    return [*table([("mesh", "a step", "memory of a worker"), *rows]), ""], best


def with_rows(array: object, count: int) -> object:
    """An array of so many times the rows, for plans alone: it takes no memory."""
    values = np.asarray(array)
    if not values.ndim:
        return array
    number = np.zeros(1, values.dtype)
    return np.lib.stride_tricks.as_strided(
        number, (values.shape[0] * count, *values.shape[1:]), (0,) * values.ndim
    )


def sizes_of(mesh: str) -> dict[str, int]:
    """The sizes of axes in "data=128,model=8"."""
    try:
        pairs = [pair.split("=") for pair in mesh.split(",") if pair]
        axes = {name.strip(): int(size) for name, size in pairs}
    except ValueError:
        raise ValueError(f"error: --mesh {mesh}: expected data=128,model=8") from None
    if len(axes) < len(pairs) or not axes.keys().isdisjoint(KEYWORDS):
        raise ValueError(
            f"error: --mesh {mesh}: expected axes of different names, but for {', '.join(KEYWORDS)}"
        )
    return axes


def step_of(target: str) -> tuple[Step, tuple[object, ...]]:
    """The step, and the batch of one worker."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not file:
        raise ValueError(f"error: {target}: expected FILE:step, as in {target}:step")
    if not path.is_file():
        raise ValueError(f"error: {target}: expected FILE:step, and there is no file '{file}'")
    module = _loaded(path.absolute())
    named = getattr(module, name, None)
    if isinstance(named, Step):
        result: object = named, getattr(module, "batch", None)
    else:
        result = named() if callable(named) else None
    match result:
        case (Step() as step, tuple() | list() as batch):
            return step, tuple(batch)
    expected = "a step of graph.train beside a tuple 'batch', or a function that returns both"
    raise ValueError(f"error: {target}: '{name}' must be {expected}")


def _loaded(path: Path) -> ModuleType:
    """The module of a file, which may import its neighbors."""
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
