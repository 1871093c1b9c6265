"""Timing peers on one workload, round after round, each variant in turn, so that a busy machine hurts all alike.

In: a workload's name, the peers, `Pace`. Out: a `Result`: a row for each variant of each peer, and the reference peer.
The ratio of a row is the median over the rounds of its time over the reference's time in the same round.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import machine
import numpy as np
from peers import Peer, Worker
from workloads import WORKLOADS, base_variant

PREFERRED = ("c", "cavx2")  # the reference is the first of these that can run
LEAST_SECONDS = 0.06  # of one timing
LOST = 0.04  # of a timing's CPU time; more taken by others and it is disturbed
TRIES = 4  # timings in a round until one is undisturbed
SLOW_SECONDS, SLOW_ROUNDS = 2.0, 7  # a call that takes longer is timed in no more rounds than these
LONGEST_WAIT = 20.0


@dataclass
class Pace:
    """How long to go on: rounds, rounds if timings scatter, seconds of waiting for idle CPUs per workload."""

    rounds: int = 9
    most_rounds: int = 21
    patience: float = 150


@dataclass
class Row:
    """One variant of one peer: why it is skipped, or its first call, its error and its timings."""

    peer: str
    variant: str
    info: dict[str, Any]
    skip: str = ""
    first: float = 0.0
    error: float = 0.0
    seconds: list[float] = field(default_factory=list)
    undisturbed: list[bool] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)

    def is_steady(self) -> bool:
        times = chosen(self.seconds, self.undisturbed)
        return bool(np.percentile(times, 25) < 1.05 * min(times))

    def is_finished(self) -> bool:
        return len(self.seconds) >= SLOW_ROUNDS and min(self.seconds) > SLOW_SECONDS


@dataclass
class Result:
    """A workload's rows as they go to JSON, the reference peer, the share of disturbed timings."""

    workload: str
    reference: str
    disturbed: float
    rows: list[dict[str, Any]]


def chosen(values: list[float], undisturbed: list[bool]) -> list[float]:
    """The values of undisturbed timings if there are three, else all."""
    kept = [value for value, good in zip(values, undisturbed) if good]
    return kept if len(kept) >= 3 else values


def save_reference(name: str, file: Path) -> None:
    """The workload's references as arrays `variant|output`."""
    workload = WORKLOADS[name]
    references = workload.reference(workload.data())
    arrays = {
        f"{variant}|{key}": array for variant, outputs in references.items() for key, array in outputs.items()
    }
    np.savez(file, **arrays)


def set_up(name: str, peer: Peer, worker: Worker, reference: Path) -> list[Row]:
    """The peer's rows after the first call of each variant."""
    answer = {} if worker.failed else worker.ask(setup=name, reference=str(reference))
    report = answer.get("variants") or {v: {"skip": worker.failed} for v in WORKLOADS[name].cost}
    rows = [Row(str(peer), variant, worker.info, **row) for variant, row in report.items()]
    for row in rows:
        said = row.skip or f"first call {row.first:.2f} s, error {row.error:.1e}"
        print(f"  {name} {row.variant} {peer}: {said}", file=sys.stderr, flush=True)
    return rows


def time_once(row: Row, worker: Worker, patience: float) -> float:
    """Adds one timing to the row, undisturbed if patience allows; returns the patience that is left."""
    for _ in range(TRIES):
        time.sleep(0.02)  # idle threads of the other peers stop spinning
        patience -= machine.wait_until_quiet(min(LONGEST_WAIT, patience))
        start, (_, stolen) = time.perf_counter(), machine.cpu_seconds()
        answer = worker.ask(time=row.variant, least=LEAST_SECONDS)
        if worker.failed:
            row.skip = worker.failed
            return patience
        stolen = (machine.cpu_seconds()[1] - stolen) / (time.perf_counter() - start)
        lost = answer["waited"] + stolen
        if lost < LOST or patience <= 0:
            break
    row.seconds.append(answer["seconds"])
    row.cores.append(answer["cores"])
    row.undisturbed.append(lost < LOST)
    return patience


def time_rounds(rows: list[Row], workers: dict[str, Worker], pace: Pace) -> None:
    patience = pace.patience
    for done in range(1, pace.most_rounds + 1):
        for row in rows:
            if not row.skip and not row.is_finished():
                patience = time_once(row, workers[row.peer], patience)
        live = [row for row in rows if not row.skip]
        if not live or (done >= pace.rounds and all(row.is_steady() for row in live)):
            return


def reference_of(rows: list[Row], wanted: str) -> str:
    """The reference peer: the one that was asked for, else the first that can run, C before the others."""
    running = [row.peer for row in rows if row.seconds]
    return wanted or next((peer for peer in (*PREFERRED, *running) if peer in running), "")


def finished(row: Row, name: str, base: Row | None) -> dict[str, Any]:
    """The row as it goes to JSON."""
    common = {"peer": row.peer, "variant": row.variant, "info": row.info}
    if row.skip:
        return common | {"skip": row.skip}
    cost, times = WORKLOADS[name].cost_of(row.variant), chosen(row.seconds, row.undisturbed)
    median = statistics.median(times)
    measured = {
        "median": median,
        "min": min(times),
        "ratio": ratio(row, base) if base and base.seconds else None,
        "ns_per_item": median / cost.items * 1e9,
        "gigabytes_per_second": cost.bytes / median / 1e9,
        "gigaflops": cost.operations / median / 1e9,
        "cores": round(statistics.median(chosen(row.cores, row.undisturbed)), 2),
        "first_call": row.first,
        "error": row.error,
    }
    return common | measured | {"seconds": row.seconds, "undisturbed": row.undisturbed}


def ratio(row: Row, base: Row) -> float:
    both = [a and b for a, b in zip(row.undisturbed, base.undisturbed)]
    return statistics.median(chosen([a / b for a, b in zip(row.seconds, base.seconds)], both))


def result_of(name: str, rows: list[Row], wanted: str) -> Result:
    reference = reference_of(rows, wanted)
    bases = {row.variant: row for row in rows if row.peer == reference}
    flags = [good for row in rows for good in row.undisturbed]
    disturbed = flags.count(False) / max(1, len(flags))
    done = [finished(row, name, bases.get(base_variant(row.variant))) for row in rows]
    return Result(name, reference, disturbed, done)


def bench(
    name: str, peers: list[Peer], folders: list[Path], pace: Pace, log: IO[str], wanted: str = ""
) -> Result:
    """Times all peers on one workload; `wanted` is the reference that was asked for."""
    workers: dict[str, Worker] = {}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference.npz"
        save_reference(name, reference)
        try:
            for peer in peers:  # one after the other, so that first calls are undisturbed
                workers[str(peer)] = Worker(peer, folders, log)
                rows += set_up(name, peer, workers[str(peer)], reference)
            time_rounds(rows, workers, pace)
        finally:
            for worker in workers.values():
                worker.close()
    return result_of(name, rows, wanted)
