"""The picture of `slangrad train-mlp`: the loss, and for each function the target, what was learned, the error.

In: a result of train_mlp.py.   Out: an image file. The only file that needs matplotlib (the extra `plot`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slangrad.cli.mlp.train import Array
from slangrad.cli.train_mlp import TrainingResult

Drawn = Any  # figures, axes and images of matplotlib, which need not be installed
# fmt: off
STYLE: Drawn = {
    "font.family": "DejaVu Sans", "font.size": 9, "mathtext.fontset": "cm",
    "axes.edgecolor": "#8a8f98", "axes.linewidth": 0.6, "text.color": "#23262b", "axes.labelcolor": "#4a4f57",
    "xtick.color": "#6a6f78", "ytick.color": "#6a6f78", "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "savefig.facecolor": "white",
}
# fmt: on
TITLES = (r"$(x + y)\,/\,(1 + y^2)$", r"$2x + y$", r"$x^2/2 + 1.2\,y$", r"$x + y^2/2$")
ROWS = ("target", "learned", "error")
LINES = 9  # of equal values in maps
SHADES = 32
DARK, LIGHT = "#2b4c9b", "#b9c8ea"


def draw(result: TrainingResult, path: Path) -> None:
    with matplotlib.rc_context(STYLE):
        figure: Drawn = Figure(figsize=(10, 8.6), dpi=100)
        upper, lower = figure.subfigures(2, 1, height_ratios=(2.4, 6.2))
        _draw_loss(upper, result)
        _draw_maps(lower, result)
        small = {"pil_kwargs": {"optimize": True}} if path.suffix.lower() == ".png" else {}
        figure.savefig(path, **small)


# --- The loss


def _draw_loss(figure: Drawn, result: TrainingResult) -> None:
    progress, settings = result.progress, result.progress.settings
    axes = figure.subplots()
    figure.subplots_adjust(left=0.075, right=0.955, top=0.84, bottom=0.2)
    steps, mean = np.array(progress.mean or [(0, np.nan)]).T
    axes.plot(
        np.arange(1, progress.steps + 1),
        progress.worst,
        color=LIGHT,
        lw=0.7,
        label="largest of a step's points",
    )
    axes.plot(steps, mean, color=DARK, lw=1.6, label="mean over the square")
    axes.set(yscale="log", xlabel="step", ylabel="loss", xlim=(0, max(1, progress.steps)))
    axes.grid(True, axis="y", color="#e4e6ea", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", fontsize=8.5)
    words = f"{settings.precision}, {settings.optimizer}, {settings.points} points a step"
    axes.set_title(
        f"A 4-16-4 network in Slang learns four functions  ({words}; loss {progress.loss:.1e})",
        loc="left", fontsize=11, pad=10,
    )  # fmt: skip


# --- The maps


def _draw_maps(figure: Drawn, result: TrainingResult) -> None:
    grid = figure.subplots(3, 4, sharex=True, sharey=True)
    figure.subplots_adjust(left=0.075, right=0.915, top=0.95, bottom=0.075, wspace=0.16, hspace=0.12)
    errors = result.learned - result.targets
    limit = max(float(np.abs(errors).max()), 1e-6)
    for column, title in enumerate(TITLES):
        wanted, learned = result.targets[column], result.learned[column]
        low, high = float(wanted.min()), float(wanted.max())
        for axes, values in zip(grid[:2, column], (wanted, learned), strict=True):
            image = _draw_map(axes, values, low, high, "viridis")
            _draw_lines(axes, values, low, high)
        error = _draw_map(grid[2, column], errors[column], -limit, limit, "RdBu_r")
        grid[0, column].set_title(title, fontsize=12, pad=7)
        _add_scale(grid[0, column], grid[1, column], image)
        grid[2, column].set_xlabel("$x$", fontsize=10, labelpad=1)
    _add_scale(grid[2, 3], grid[2, 3], error)
    for axes, row in zip(grid[:, 0], ROWS, strict=True):
        axes.set_ylabel(f"{row}\n$y$", fontsize=10)


def _draw_map(axes: Drawn, values: Array, low: float, high: float, colors: str) -> object:
    """In few colors, so that the file is small."""
    shades = matplotlib.colormaps[colors].resampled(SHADES)
    ticks = {"xticks": (0, 0.5, 1), "yticks": (0, 0.5, 1)}
    axes.set(**ticks, xticklabels=("0", ".5", "1"), yticklabels=("0", ".5", "1"))
    return axes.imshow(
        values, vmin=low, vmax=high, cmap=shades, origin="lower", extent=(0, 1, 0, 1), interpolation="nearest"
    )


def _draw_lines(axes: Drawn, values: Array, low: float, high: float) -> None:
    line, levels = np.linspace(0, 1, len(values)), np.linspace(low, high, LINES + 2)[1:-1]
    axes.contour(line, line, values, levels=levels, colors="white", linewidths=0.6, alpha=0.75)


def _add_scale(top: Drawn, bottom: Drawn, image: Drawn) -> None:
    """A color bar to the right of maps that stand one above the other."""
    first, last = top.get_position(), bottom.get_position()
    place = (first.x1 + 0.006, last.y0, 0.008, first.y1 - last.y0)
    bar = top.figure.colorbar(image, cax=top.figure.add_axes(place))
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(5)
    bar.ax.tick_params(labelsize=7, length=0, pad=2)
