"""The command in this process; files of one test in a folder of its own."""

import pytest
from typer.testing import CliRunner

from slangrad.cli.main import app


@pytest.fixture
def slangrad(tmp_path, monkeypatch):
    """Runs a command line: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words, **settings):
        done = CliRunner().invoke(app, list(words), env=settings)
        unexpected = done.exception is not None and not isinstance(done.exception, SystemExit)
        assert not unexpected, done.exception
        return done.exit_code, done.stdout, done.stderr

    return run


@pytest.fixture
def write(tmp_path):
    """Writes a file into the current folder."""

    def write_file(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    return write_file
