"""`slangrad graph plan`: the time of a training step of a Python file on workers that are not there."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from slangrad import graph
from slangrad.graph.train import Step


def simulated(
    target: str, workers: int | None, links: Path | None, mesh: str, workers_per_host: int | None
) -> Any:
    """The simulation of "FILE:step". ValueError for a target or a mesh that cannot be read."""
    sizes: Any = sizes_of(mesh)
    if workers is None and not sizes:
        raise ValueError("error: --workers or --mesh says how many workers there are")
    cluster = graph.cluster(workers, links, workers_per_host, **sizes)
    step, batch = step_of(target)
    return graph.simulate(step, *batch, cluster)


def sizes_of(mesh: str) -> dict[str, int]:
    """The sizes of axes in "data=128,model=8"."""
    try:
        return {
            name.strip(): int(size) for name, size in (each.split("=") for each in mesh.split(",") if each)
        }
    except ValueError:
        raise ValueError(f"error: --mesh {mesh}: expected data=128,model=8") from None


def step_of(target: str) -> tuple[Step, tuple[Any, ...]]:
    """The step, and the batch of one worker."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"error: {target}: expected FILE:step, and there is no file '{file}'")
    module = _loaded(path.absolute())
    found = getattr(module, name, None)
    if isinstance(found, Step):
        made: Any = found, getattr(module, "batch", None)
    else:
        made = found() if callable(found) else None
    match made:
        case (Step() as step, tuple() | list() as batch):
            return step, tuple(batch)
    said = "a step of graph.train beside a tuple 'batch', or a function that returns both"
    raise ValueError(f"error: {target}: '{name}' must be {said}")


def _loaded(path: Path) -> Any:
    """The module of a file, which may import its neighbors."""
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
