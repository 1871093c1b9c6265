from collections.abc import Iterator

import pytest

from tests.graph.workers.processes import Starter, quick_starter

# Modules and kernels that programs need; each process would load and compile them again.
BEFORE = """
def load():
    import numpy as np
    import slangrad as spy
    from slangrad import graph

    text = "[Differentiable] double half(double x) { return x / 2; }"
    half = spy.Module.load_from_source(spy.default_device(), "halves", text).half
    for optimizer in spy.optim.SGD([np.eye(4)], lr=0.1), spy.optim.Adam([np.eye(4)]):
        step = graph.train(lambda p, x: (half(np.tanh(x @ p[0])) ** 2).mean(), optimizer, mesh=graph.mesh("data"))
        step(np.ones((2, 4)))

load()
"""


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """Starts programs as several processes."""
    with quick_starter(BEFORE, tmp_path_factory) as starter:
        yield starter
