from collections.abc import Iterator

import pytest

from tests.graph.workers.processes import Starter


@pytest.fixture(scope="session")
def start() -> Iterator[Starter]:
    """Starts programs as several processes."""
    with Starter() as starter:
        yield starter
