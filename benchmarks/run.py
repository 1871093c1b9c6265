"""Times slangrad and its peers on the workloads: markdown tables to stdout, everything as JSON if wanted.

    python benchmarks/run.py --workloads W1,W8 --peers c,slangrad
    python benchmarks/run.py --workloads W5a --peers slangrad,slangrad@1 --ref slangrad@1
    python benchmarks/run.py --against HEAD~3 --rounds 20

README.md beside this file says what is measured and how.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import sys
from pathlib import Path
from typing import IO, Any

import machine
import report
from against import Ratio, checkout, compare, compare_starts
from coldstart import cold_start
from peers import HERE, Peer, known_peers
from rounds import Pace, bench
from workloads import WORKLOADS

# fmt: off
OPTIONS: dict[str, dict[str, Any]] = {
    "--workloads":     {"default": ",".join(WORKLOADS), "metavar": "W1,...", "help": "default: all"},
    "--peers":         {"metavar": "NAME,...", "help": "default: every peer found; NAME@N runs on N CPUs"},
    "--ref":           {"default": "", "metavar": "NAME",
                        "help": "the peer that ratios are to (default: c, else cavx2, else the first that can run)"},
    "--threads":       {"type": int, "metavar": "N", "help": "pin every peer to N CPUs"},
    "--rounds":        {"type": int, "default": Pace.rounds, "metavar": "N"},
    "--max-rounds":    {"type": int, "default": Pace.most_rounds, "metavar": "N", "help": "if timings scatter"},
    "--patience":      {"type": float, "default": Pace.patience, "metavar": "S",
                        "help": "seconds per workload to spend waiting for idle CPUs"},
    "--against":       {"metavar": "COMMIT",
                        "help": "time nothing but this checkout against a commit, or a folder with a checkout"},
    "--cold":          {"action": "store_true", "help": "first of all, process start to first gradient"},
    "--json":          {"type": Path, "metavar": "FILE", "help": "write everything there"},
    "--log":           {"default": os.devnull, "metavar": "FILE", "help": "append what the peers print"},
    "--peer-path":     {"action": "append", "type": Path, "default": [], "metavar": "DIR",
                        "help": "look for peer_NAME.py there too"},
    "--update-readme": {"nargs": "+", "type": Path, "metavar": "FILE",
                        "help": "time nothing; replace the README's tables by those of JSON files"},
    "--readme":        {"type": Path, "default": HERE / "README.md", "metavar": "FILE"},
}
# fmt: on


class Choice:
    """What the command line asks for, checked."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.arguments = arguments = parser.parse_args()
        self.parser = parser
        self.folders = [folder.resolve() for folder in arguments.peer_path]
        for folder in self.folders:
            if not folder.is_dir():
                parser.error(f"--peer-path {folder}: no such folder")
        self.pace = Pace(arguments.rounds, max(arguments.rounds, arguments.max_rounds), arguments.patience)
        if arguments.rounds < 1:
            parser.error("--rounds is at least 1")
        if arguments.threads is not None:
            self._or_error("--threads", machine.pin, arguments.threads)
        peers = known_peers([HERE, *self.folders])
        names = peers if arguments.peers is None else list(filter(None, arguments.peers.split(",")))
        self.workloads = list(filter(None, arguments.workloads.split(",")))
        self.peers = [self._or_error("--peers", Peer.of, name) for name in names]
        self._all_known("peer", [peer.name for peer in self.peers], peers)
        self._all_known("workload", self.workloads, list(WORKLOADS))
        if arguments.ref and arguments.ref not in map(str, self.peers):
            parser.error(f"--ref {arguments.ref}: not among the peers {', '.join(map(str, self.peers))}")

    def _or_error(self, option: str, function: Any, value: Any) -> Any:
        try:
            return function(value)
        except ValueError as error:
            self.parser.error(f"{option}: {error}")

    def _all_known(self, kind: str, names: list[str], choices: list[str]) -> None:
        unknown = [name for name in names if name not in choices]
        if unknown:
            self.parser.error(f"unknown {kind} {', '.join(unknown)}; there are {', '.join(choices)}")


def save(run: dict[str, Any], file: Path | None) -> None:
    if file:
        file.write_text(json.dumps(run, indent=1) + "\n")


def measure(choice: Choice, log: IO[str]) -> None:
    """Runs what was chosen; prints and saves each part when it is done."""
    arguments = choice.arguments
    words = ["python", "benchmarks/run.py", *sys.argv[1:]]
    run: dict[str, Any] = {"command": shlex.join(words), "machine": machine.describe(), "workloads": []}
    if arguments.cold:
        run["cold"] = cold_start(choice.peers, choice.folders, log)
        print(f"\n### Cold start\n\n{report.starts(run['cold'])}", flush=True)
        save(run, arguments.json)
    for name in choice.workloads:
        result = dataclasses.asdict(
            bench(name, choice.peers, choice.folders, choice.pace, log, arguments.ref)
        )
        print(f"\n### {report.title(result)}\n\n{report.timings(result)}", flush=True)
        run["workloads"].append(result)
        save(run, arguments.json)


def measure_against(choice: Choice, log: IO[str]) -> None:
    """The ratios of the workloads and of the warm start; prints and saves each part when it is done."""
    arguments = choice.arguments
    run: dict[str, Any] = {"command": shlex.join(sys.argv), "machine": machine.describe(), "ratios": []}
    try:
        with checkout(arguments.against) as old:
            for name in choice.workloads:
                ratios = compare(name, old, choice.pace, log)
                add_ratios(run, ratios, arguments.json)
            add_ratios(run, compare_starts(old, choice.pace, log), arguments.json)
    except ValueError as error:
        choice.parser.error(f"--against: {error}")


def add_ratios(run: dict[str, Any], ratios: list[Ratio], file: Path | None) -> None:
    rows = [dataclasses.asdict(ratio) for ratio in ratios]
    print(report.ratios(rows), flush=True)
    run["ratios"] += rows
    save(run, file)


def update_readme(choice: Choice) -> None:
    runs = [json.loads(file.read_text()) for file in choice.arguments.update_readme]
    replaced, homeless = report.update_readme(choice.arguments.readme, runs)
    print(f"replaced: {', '.join(replaced) or 'nothing'}")
    if homeless:
        print(f"no place for: {', '.join(homeless)}")


def main() -> None:
    if not hasattr(os, "sched_getaffinity"):
        sys.exit("the benchmarks need Linux: they read /proc and pin processes to CPUs")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, settings in OPTIONS.items():
        parser.add_argument(name, **settings)
    choice = Choice(parser)
    if choice.arguments.update_readme:
        return update_readme(choice)
    with open(choice.arguments.log, "a") as log:
        return measure_against(choice, log) if choice.arguments.against else measure(choice, log)


if __name__ == "__main__":
    main()
