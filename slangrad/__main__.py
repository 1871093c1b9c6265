"""`python -m slangrad` is the command `slangrad`."""

from slangrad.cli.main import app

app()
