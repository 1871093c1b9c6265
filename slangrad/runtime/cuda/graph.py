"""Recorded launches as a graph of the driver, which one call launches.

graph = CudaGraph(driver, recorded, launch)      the driver's graph, and what launches it
graph()
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from slangrad.runtime.cuda.driver import Driver


class CudaGraph:
    """`launch` takes the executable form of the graph."""

    def __init__(self, driver: Driver, recorded: object, launch: Callable[[object], None]) -> None:
        try:
            self._executable: object = driver.call("cuGraphInstantiate", recorded, 0)
        finally:
            driver.call("cuGraphDestroy", recorded)
        self._launch = launch
        weakref.finalize(self, _destroy, driver, self._executable)

    def __call__(self) -> None:
        self._launch(self._executable)


def _destroy(driver: Driver, executable: object) -> None:
    """The driver waits with this for launches that still run."""
    if driver.lost is None:
        driver.call("cuGraphExecDestroy", executable)
