"""The output of `slangrad train-mlp`: a bar while it trains, lines without a terminal, a table.

training ━━━━━━━━━━━━━━╸━━━━━━━━  1240/2000   loss 0.00041   1.2 M points/s   0:00:01
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from slangrad.cli.mlp.train import GOALS
from slangrad.cli.train_mlp import TrainingProgress, TrainingResult, TrainingSettings, new_network, train

LINES = 10  # where there is no terminal
HINT = "note: there is no picture without matplotlib: pip install matplotlib"
FORMATS = (".png", ".svg", ".pdf")


def run(console: Console, settings: TrainingSettings, out: Path) -> None:
    """The command: train, show, draw."""
    check_picture(out)
    start = perf_counter()
    network = new_network(settings)  # the first time takes seconds; later the kernels are on disk
    console.print(f"kernels ready after {perf_counter() - start:.1f} s")
    with shown_progress(console, settings.steps) as show:
        result = train(network, settings, show)
    console.print(f"{closing(result)}\n", soft_wrap=True)
    console.print(summary(result))
    console.print(f"\n{draw(result, out)}", soft_wrap=True, markup=False)


def check_picture(out: Path) -> None:
    """Before the training, not after it."""
    if out.suffix.lower() not in FORMATS:
        raise ValueError(f"error: --out '{out}' must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if not out.parent.is_dir():
        raise ValueError(f"error: --out '{out}': there is no folder '{out.parent}'")


def draw(result: TrainingResult, out: Path) -> str:
    """Draw the picture if possible; gives a sentence about it."""
    if find_spec("matplotlib") is None:
        return HINT
    import_module("slangrad.cli.train_mlp_picture").draw(result, out)
    return f"picture: {out}"


def rate(progress: TrainingProgress) -> str:
    """Points a second: 950, 12.3 k, 1.2 M."""
    count = progress.points_per_second
    for unit, size in (("M ", 1e6), ("k ", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}points/s"
    return f"{count:.0f} points/s"


@contextmanager
def shown_progress(console: Console, steps: int) -> Iterator[Callable[[TrainingProgress], None]]:
    """The function that runs after each step."""
    if not console.is_terminal:
        yield lambda progress: _line(console, progress, steps)
        return
    columns = (BarColumn(40), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.description}"))
    with Bar("training", *columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("", total=steps)
        yield lambda progress: bar.update(task, completed=progress.steps, description=_state(progress))


def _state(progress: TrainingProgress) -> str:
    return f"  loss {progress.loss:.2e}   {rate(progress)}  "


def _line(console: Console, progress: TrainingProgress, steps: int) -> None:
    """Some ten lines in all, the first step and the last among them."""
    if progress.steps == 1 or progress.steps == steps or progress.steps % max(1, steps // LINES) == 0:
        width = len(str(steps))
        console.print(
            f"step {progress.steps:>{width}}/{steps}  loss {progress.loss:.2e}  {rate(progress)}",
            highlight=False,
        )


def summary(result: TrainingResult) -> Table:
    """Errors of each function on the grid."""
    table = Table("function", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in ("values", "mean error", "largest error"):
        table.add_column(name, justify="right")
    for formula, wanted, learned in zip(GOALS, result.targets, result.learned, strict=True):
        error = np.abs(learned - wanted)
        values = f"{wanted.min():.1f} to {wanted.max():.1f}"
        table.add_row(formula, values, f"{error.mean():.4f}", f"{error.max():.4f}")
    return table


def closing(result: TrainingResult) -> str:
    progress = result.progress
    settings = progress.settings
    steps = f"{progress.steps} step{'' if progress.steps == 1 else 's'}"
    parts = [f"{steps} of {settings.points} points in {progress.seconds:.1f} s"]
    parts += [f"{settings.precision}, {settings.optimizer}", f"loss {progress.loss:.2e}"]
    return ("" if result.is_complete else "interrupted: ") + ", ".join(parts)
