"""What the examples of the gallery have in common in Python: options, a line of progress, the look of pictures."""

import argparse
import sys
import time
from contextlib import contextmanager
from io import BytesIO

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

INK, FAINT = "#23262b", "#b9bec8"
BLUE, RED, GREEN = "#2b4c9b", "#d1495b", "#2a9d6f"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#8a8f98",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.labelcolor": "#4a4f57",
    "xtick.color": "#6a6f78",
    "ytick.color": "#6a6f78",
    "legend.frameon": False,
}


def options(description, picture):
    """What was asked for on the command line: `quick`, and `out`, the picture's file."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small size, in a few seconds")
    parser.add_argument("--out", default=picture, help="the picture's file (%(default)s)")
    return parser.parse_args()


class Progress:
    """A line with the loss: rewritten in place on a terminal, else one line now and then."""

    def __init__(self, steps):
        self.steps, self.losses, self.start = steps, [], time.perf_counter()
        self.terminal = sys.stdout.isatty()

    def add(self, loss):
        self.losses.append(float(loss))
        step = len(self.losses)
        if self.terminal or step in (1, self.steps) or step % max(1, self.steps // 5) == 0:
            seconds = time.perf_counter() - self.start
            line = f"step {step:5}/{self.steps}   loss {loss:.3e}   {seconds:5.1f} s"
            goes_on = self.terminal and step < self.steps
            print(f"\r{line}" if self.terminal else line, end="" if goes_on else "\n", flush=True)


@contextmanager
def picture(path, size, layout="constrained"):
    """A figure to draw into, which becomes a file at the end."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, dpi=100, layout=layout)
        yield figure
        if str(path).endswith(".png"):
            save_small(figure, path)
        else:
            figure.savefig(path)
    print(f"picture: {path}")


def save_small(figure, path):
    """With 256 colors, white among them; others are mixed."""
    file = BytesIO()
    figure.savefig(file, format="png")
    pixels = Image.open(file).convert("RGB")
    palette = pixels.quantize(256)
    colors = np.array(palette.getpalette()).reshape(-1, 3)
    colors[colors.min(axis=1) > 245] = 255
    palette.putpalette(colors.ravel().tolist())
    pixels.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG).save(path, optimize=True)


def draw_losses(axes, losses, label="loss"):
    axes.plot(np.arange(1, len(losses) + 1), losses, color=BLUE, lw=1.2)
    axes.set(yscale="log", xlabel="step", ylabel=label, xlim=(0, len(losses)))
    axes.grid(True, axis="y", color="#e4e6ea", lw=0.6)


def draw_images(out, shown, text):
    """A picture of four images side by side, by their titles, with a line above."""
    with picture(out, (10, 2.75)) as figure:
        for axes, (title, image) in zip(figure.subplots(1, 4), shown.items()):
            draw_image(axes, image, title)
        figure.suptitle(text, fontsize=10)


def draw_image(axes, image, title):
    """An image of colors from 0 to 1, whose first row is at the top."""
    axes.imshow(np.clip(image, 0, 1), interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=9)
