"""A cache of the test's own, and a compiler that tells when it is asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slangrad import pipeline
from slangrad.unit import CompileRequest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where kernels are kept; checks between passes are off, because nothing is kept with them."""
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SLANGRAD_VERIFY", "0")
    return tmp_path / "cache" / "entries"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of kernels that went through the pipeline."""
    made: list[str] = []
    run = pipeline._compile

    def noted(request: CompileRequest) -> pipeline.CompiledKernel:
        made.append(request.source.name)
        return run(request)

    monkeypatch.setattr(pipeline, "_compile", noted)
    yield made
