"""`slangrad graph plan`: the time of a training step of a Python file on workers that are not there."""

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
from slangrad.graph.workers.simulation.timeline import Simulation, bytes_text, table, time_text

AUTO = "auto"  # a mesh that is searched for
KEYWORDS = [
    name for name, each in signature(graph.cluster).parameters.items() if each.kind != each.VAR_KEYWORD
]


def simulated(
    target: str, workers: int | None, links: Path | None, mesh: str, workers_per_host: int | None
) -> tuple[list[str], Simulation]:
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
) -> tuple[list[str], Simulation]:
    """A line for each way to put workers on the axes "data" and "stages", with the same rows of all together, and the
    simulation of the one that takes the least time."""
    found: dict[str, Simulation] = {}
    refused: GraphError | None = None
    for stages in (n for n in range(1, workers + 1) if workers % n == 0):
        sizes: Any = {"data": workers // stages, **({"stages": stages} if stages > 1 else {})}
        cluster = graph.cluster(workers, links, workers_per_host, **sizes)
        name = ", ".join(f"{axis}={n}" for axis, n in sizes.items())
        try:
            found[name] = graph.simulate(step, *(with_rows(each, stages) for each in batch), cluster)
        except GraphError as error:  # too few layers, or too little memory
            refused = refused or error
            continue
    if not found:
        raise refused or ValueError(f"error: --workers {workers}")
    rows = [(name, time_text(each.seconds), bytes_text(each.peak)) for name, each in found.items()]
    best = min(found.values(), key=lambda each: each.seconds)
    return [*table([("mesh", "a step", "memory of a worker"), *rows]), ""], best


def with_rows(array: object, count: int) -> object:
    """An array of so many times the rows, for plans alone: it takes no memory."""
    given = np.asarray(array)
    if not given.ndim:
        return array
    number = np.zeros(1, given.dtype)
    return np.lib.stride_tricks.as_strided(
        number, (given.shape[0] * count, *given.shape[1:]), (0,) * given.ndim
    )


def sizes_of(mesh: str) -> dict[str, int]:
    """The sizes of axes in "data=128,model=8"."""
    try:
        pairs = [each.split("=") for each in mesh.split(",") if each]
        found = {name.strip(): int(size) for name, size in pairs}
    except ValueError:
        raise ValueError(f"error: --mesh {mesh}: expected data=128,model=8") from None
    if len(found) < len(pairs) or not found.keys().isdisjoint(KEYWORDS):
        raise ValueError(
            f"error: --mesh {mesh}: expected axes of different names, but for {', '.join(KEYWORDS)}"
        )
    return found


def step_of(target: str) -> tuple[Step, tuple[object, ...]]:
    """The step, and the batch of one worker."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"error: {target}: expected FILE:step, and there is no file '{file}'")
    module = _loaded(path.absolute())
    found = getattr(module, name, None)
    if isinstance(found, Step):
        made: object = found, getattr(module, "batch", None)
    else:
        made = found() if callable(found) else None
    match made:
        case (Step() as step, tuple() | list() as batch):
            return step, tuple(batch)
    said = "a step of graph.train beside a tuple 'batch', or a function that returns both"
    raise ValueError(f"error: {target}: '{name}' must be {said}")


def _loaded(path: Path) -> ModuleType:
    """The module of a file, which may import its neighbors."""
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
