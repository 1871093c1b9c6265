"""This checkout against another commit: both time the same programs in turn, and the ratio gets an interval.

In: a commit, or the folder of a checkout. Out: a `Ratio` for each variant of each workload and for the warm start:
the median over the rounds of the new time over the old one, and the 95 % interval of that median.

The processes of both sides are started anew a few times, since where memory lies is chosen when a process starts.
The order of the two sides changes from round to round.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from coldstart import first_gradient
from peers import HERE, Peer, Worker
from rounds import Pace, Row, chosen, save_reference, set_up, time_once

MOST_STARTS = 4  # of the processes of each side
CONFIDENCE = 0.95
WARM_START = "warm start"


@dataclass
class Ratio:
    """New time over old time: the median over the rounds, and the ends of the interval of the median."""

    workload: str
    variant: str
    median: float
    low: float
    high: float
    rounds: int
    skip: str = ""


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A folder with the package as it was at a commit. The folder of a checkout is taken as it is."""
    if Path(commit).is_dir():
        yield Path(commit).resolve()
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = HERE.parent
        archive = subprocess.run(["git", "archive", commit, "slangrad"], cwd=root, capture_output=True)
        if archive.returncode:
            raise ValueError(archive.stderr.decode().strip())
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def sides(old: Path) -> tuple[Peer, Peer]:
    """The old and the new package, each on the path of its own process."""
    return Peer("slangrad", package=old), Peer("slangrad", package=HERE.parent)


def starts(pace: Pace) -> int:
    return min(MOST_STARTS, pace.rounds)


def interval(values: list[float]) -> tuple[float, float]:
    """The ends of the interval in which the median lies, whatever the values' distribution.

    The number of values below the median is binomial, so the ends are two of the values in their order
    (Conover, Practical Nonparametric Statistics, section 3.2).
    """
    ordered, n = sorted(values), len(values)
    outside, below = 0.0, 0
    while True:
        outside += math.comb(n, below) / 2**n
        if 2 * outside > 1 - CONFIDENCE:
            break
        below += 1
    return (ordered[below - 1], ordered[n - below]) if below else (ordered[0], ordered[-1])


def ratio_of(workload: str, variant: str, ratios: list[float]) -> Ratio:
    return Ratio(workload, variant, statistics.median(ratios), *interval(ratios), len(ratios))


def compare(name: str, old: Path, pace: Pace, log: IO[str]) -> list[Ratio]:
    """The ratios of one workload; `pace.rounds` rounds at least, spread over the starts."""
    ratios: dict[str, list[float]] = {}
    clean: dict[str, list[bool]] = {}
    skipped: dict[str, str] = {}
    for _ in range(starts(pace)):
        for variant, pairs in one_start(name, old, pace, log).items():
            if isinstance(pairs, str):
                skipped[variant] = pairs
                continue
            for before, after in pairs:
                ratios.setdefault(variant, []).append(after.seconds[-1] / before.seconds[-1])
                clean.setdefault(variant, []).append(after.undisturbed[-1] and before.undisturbed[-1])
    ratios_of_rows = [
        ratio_of(name, variant, chosen(values, clean[variant])) for variant, values in ratios.items()
    ]
    return ratios_of_rows + [Ratio(name, variant, 0, 0, 0, 0, why) for variant, why in skipped.items()]


def one_start(name: str, old: Path, pace: Pace, log: IO[str]) -> dict[str, list[tuple[Row, Row]] | str]:
    """Both sides in new processes: a variant's pairs of timings (each a row with one), or why it is skipped."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        reference = Path(folder) / "reference.npz"
        save_reference(name, reference)
        workers, rows = [], []
        for side in sides(old):
            workers.append(Worker(side, [], log))
            stack.callback(workers[-1].close)
            rows.append({row.variant: row for row in set_up(name, side, workers[-1], reference)})
        starts: dict[str, list[tuple[Row, Row]] | str] = {}
        for variant, new in rows[1].items():
            before = rows[0].get(variant)
            why = new.skip or (before.skip if before else "not there before")
            starts[variant] = why or list(pairs_of(variant, rows, workers, pace))
        return starts


def pairs_of(
    variant: str, rows: list[dict[str, Row]], workers: list[Worker], pace: Pace
) -> Iterable[tuple[Row, Row]]:
    patience = pace.patience / starts(pace)
    for turn in range(math.ceil(pace.rounds / starts(pace))):
        timed = [Row(side[variant].peer, variant, {}) for side in rows]
        for side in (0, 1) if turn % 2 else (1, 0):
            patience = time_once(timed[side], workers[side], patience)
        if all(row.seconds for row in timed):
            yield timed[0], timed[1]


def compare_starts(old: Path, pace: Pace, log: IO[str]) -> list[Ratio]:
    """From the start of a process to the first gradient, with everything in the cache."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        caches = [str(Path(folder) / side) for side in ("old", "new")]
        both = list(zip(sides(old), caches, strict=True))
        for peer, cache in both:
            first_gradient(peer, [], cache, log)
        ratios = []
        for turn in range(pace.rounds):
            order = both if turn % 2 else both[::-1]
            seconds = {cache: first_gradient(peer, [], cache, log)[0] for peer, cache in order}
            ratios.append(seconds[caches[1]] / seconds[caches[0]])
    return [ratio_of("cold", WARM_START, ratios)]
