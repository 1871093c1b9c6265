"""Tests with the mark `cuda` make devices of their own on a GPU, whose calls raise what their kernels report. They are
skipped where there is no GPU."""

import pytest


@pytest.fixture(autouse=True)
def gpu_for_marked_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("cuda"):
        request.getfixturevalue("gpu")
        monkeypatch.setenv("SLANGRAD_SYNCHRONOUS", "1")
