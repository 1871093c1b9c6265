"""Recorded launches as a graph of the driver, which one call launches.

graph = CudaGraph(driver, recorded, launch)      the driver's graph, and what launches it
graph()
again = RepeatedLaunch(start, make_graph, may_replay)
again()                                          a launch, and later a graph of one
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from slangrad.runtime.cuda.driver import Driver

RUNS_BEFORE_GRAPH = 16  # a call that runs a few times only is not worth a graph


class CudaGraph:
    """`launch` takes the executable form of the graph. `kept`: objects whose memory it uses."""

    kept: object = None

    def __init__(self, driver: Driver, recorded: object, launch: Callable[[object], None]) -> None:
        try:
            self._executable: object = driver.call("cuGraphInstantiate", recorded, 0)
        finally:
            driver.call("cuGraphDestroy", recorded)
        self._launch = launch
        weakref.finalize(self, _destroy, driver, self._executable)

    def __call__(self) -> None:
        self._launch(self._executable)


class RepeatedLaunch:
    """A launch that a caller runs many times. After RUNS_BEFORE_GRAPH runs it is a graph of one kernel: the driver has
    checked its arguments then, and a launch takes the host less time. `may_replay`: whether a graph may be made and
    launched now; else `start` launches the kernel. `make_graph` gives None where the device makes no more graphs."""

    __slots__ = ("_graph", "_make_graph", "_may_replay", "_runs", "_start")

    def __init__(
        self,
        start: Callable[[], None],
        make_graph: Callable[[], CudaGraph | None],
        may_replay: Callable[[], bool],
    ) -> None:
        self._start, self._make_graph, self._may_replay = start, make_graph, may_replay
        self._graph: CudaGraph | None = None
        self._runs = 0  # without a graph

    def __call__(self) -> None:
        if self._graph is not None and self._may_replay():
            self._graph()
            return
        self._start()
        self._runs += 1
        if self._runs == RUNS_BEFORE_GRAPH and self._graph is None and self._may_replay():
            self._graph = self._make_graph()


def _destroy(driver: Driver, executable: object) -> None:
    """The driver waits with this for launches that still run."""
    if driver.lost is None:
        driver.call("cuGraphExecDestroy", executable)
