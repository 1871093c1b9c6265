"""One peer in a process of its own. It reads requests from stdin and answers on stdout, one line of JSON each.

    {"setup": "W1", "reference": "file.npz"}   {"variants": {"fwd": {"first": 0.2, "error": 1e-7},
                                                             "bwd": {"skip": "why"}}}
    {"time": "fwd", "least": 0.06}             {"seconds": 1.9e-3, "cores": 1.98, "calls": 32, "waited": 0.0}

`first` is the first call, `error` what `workloads.largest_error` says of its outputs, `seconds` those of a
call, `cores` CPU seconds a second, `waited` the seconds a second in which a thread was ready and had no CPU.
Before the first request comes {"info": ...} or {"failed": why the peer cannot be imported}. With --cold one
gradient is computed instead, and the answer says how long the import took.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
Run = Callable[[], Any]


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", help="the NAME of a file peer_NAME.py")
    parser.add_argument("folders", nargs="*", help="more folders in which to look for it")
    parser.add_argument("--cpus", help="the CPUs to stay on: 0,1")
    parser.add_argument("--cold", action="store_true", help="one gradient, then the end")
    return parser.parse_args()


class Answers:
    """Stdout for the answers; whatever libraries print goes to stderr."""

    def __init__(self) -> None:
        self.stream = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def __call__(self, **answer: Any) -> None:
        self.stream.write(json.dumps(answer) + "\n")
        self.stream.flush()


def reason(error: Exception) -> str:
    """An exception in one line."""
    first = next(iter(str(error).splitlines()), "")
    kind = "" if type(error) is ImportError else f"{type(error).__name__}: "
    return (kind + first)[:200]


def set_up(peer: ModuleType, name: str, reference: str) -> tuple[dict[str, Run], dict[str, dict[str, Any]]]:
    """The peer's variants of a workload, each after its first call: (what to run, the report)."""
    workload = importlib.import_module("workloads").WORKLOADS[name]
    function = getattr(peer, name, None) or getattr(peer, workload.same_as or name, None)
    if function is None:
        return {}, skipped(workload, getattr(peer, "CANNOT", {}).get(name, "not written"))
    try:
        variants = function(workload.data())
    except Exception as error:
        return {}, skipped(workload, reason(error))
    report = {variant: first_call(name, variant, *variants[variant], reference) for variant in variants}
    return {variant: variants[variant][0] for variant in variants if "first" in report[variant]}, report


def skipped(workload: Any, why: str) -> dict[str, dict[str, Any]]:
    return {variant: {"skip": why} for variant in workload.cost}


def first_call(name: str, variant: str, run: Run, outputs: Run, reference: str) -> dict[str, Any]:
    """What the first call took and how far its outputs are from the reference."""
    workloads, numpy = importlib.import_module("workloads"), importlib.import_module("numpy")
    try:
        start = time.perf_counter()
        run()
        first = time.perf_counter() - start
        with numpy.load(reference) as arrays:
            prefix = workloads.base_variant(variant) + "|"
            wanted = {key.removeprefix(prefix): arrays[key] for key in arrays.files if key.startswith(prefix)}
        return {"first": first, "error": workloads.largest_error(name, outputs(), wanted)}
    except Exception as error:
        return {"skip": reason(error)}


def seconds_without_cpu() -> float:
    """For how long threads of this process have been ready to run and had no CPU."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except OSError:  # the thread has ended
            continue
    return total / 1e9


def measure(run: Run, least: float) -> dict[str, float]:
    """Seconds of a call, over as many calls as fill `least` seconds."""
    run()  # warm: caches, clocks, thread pools
    waited, start, used = seconds_without_cpu(), time.perf_counter(), time.process_time()
    calls, more = 0, 1
    while True:
        for _ in repeat(None, more):  # the clock is read rarely: a call may take less than a microsecond
            run()
        calls, passed = calls + more, time.perf_counter() - start
        if passed >= least:
            break
        more = min(calls, 1 + int((least - passed) / passed * calls))
    return {
        "seconds": passed / calls,
        "cores": (time.process_time() - used) / passed,
        "calls": calls,
        "waited": (seconds_without_cpu() - waited) / passed,
    }


def answer_requests(peer: ModuleType, answer: Answers) -> None:
    runs: dict[str, Run] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "setup" in request:
            runs, report = set_up(peer, request["setup"], request["reference"])
            answer(variants=report)
        else:
            answer(**measure(runs[request["time"]], request["least"]))


def first_gradient(peer: ModuleType) -> list[float]:
    """The gradient of W1 for four values."""
    data = importlib.import_module("workloads").elementwise_data(4)
    run, outputs = peer.W1(data)["bwd"]
    run()
    return [float(value) for value in outputs()["gx"]]


def main() -> None:
    arguments = command_line()
    if arguments.cpus:
        os.sched_setaffinity(0, map(int, arguments.cpus.split(",")))
    # The checkout comes last: an installed package wins, so that a peer can be another release of it.
    sys.path.extend([*arguments.folders, str(HERE.parent)])
    answer, start = Answers(), time.perf_counter()
    try:
        peer = importlib.import_module(f"peer_{arguments.peer}")
    except Exception as error:
        return answer(failed=reason(error))
    imported = time.perf_counter() - start
    if arguments.cold:
        return answer(imported=imported, gradient=first_gradient(peer))
    answer(info=getattr(peer, "INFO", {}))
    return answer_requests(peer, answer)


main()
