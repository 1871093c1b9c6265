"""Steps of a network on several workers, ours and those of PyTorch's DistributedDataParallel, in turn.

    python benchmarks/data_parallel.py --workers 1,2,4 --rounds 20

Each worker has one CPU and one thread, and the same number of rows: the step of one worker is the compute of all. CPUs
are those of different cores, as far as the system shows them. The table has the median of the rounds, for each number
of workers, in milliseconds:

    step        of one worker's rows, with its sum of gradients
    side        the same step without an exchange, while the other workers make theirs: where it is longer than the step
                of one worker, the workers share a core, a cache, or the bandwidth of memory
    beside      step less the step with one worker: the part of communication that compute does not hide
    sum         the sum of all gradients alone, by one all_reduce
    of bound    our step as a part of compute + sum - overlap + 5 %: `graph.measure_links` gives the hidden part of the
                shorter of compute and sum
    of its own  the same with `side` for compute: what workers cost each other without any exchange is no fault of the
                plan
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import machine
import numpy as np
import torch
import torch.distributed as dist

import slangrad as spy
from slangrad import graph

SIZES = {
    "small": (6, 512, 512),
    "wide": (4, 1024, 256),
    "deep": (24, 256, 256),
}  # layers, width, rows of a worker

COLUMNS = (
    "network",
    "workers",
    "slangrad step",
    "beside",
    "side",
    "DDP step",
    "beside",
    "ratio of beside",
    "sum",
    "of bound",
    "of its own",
)


def networks(layers: int, width: int, rows: int) -> tuple[dict[str, Callable[[], Any]], int]:
    """A step of each, ours without an exchange, too, and the number of gradients."""
    x = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
    weights = [np.random.default_rng(i).normal(size=(width, width)) * 0.05 for i in range(layers)]

    def optimizer_of_new() -> spy.optim.SGD:
        p = [{"w": w.astype(np.float32), "b": np.zeros(width, np.float32)} for w in weights]
        return spy.optim.SGD(p, lr=1e-3)

    def loss(p: Any, x: Any, y: Any) -> Any:
        for layer in p:
            x = np.tanh(x @ layer["w"] + layer["b"])
        return ((x - y) ** 2).mean()

    step = graph.train(loss, optimizer_of_new(), mesh=graph.mesh("data"))
    apart = graph.train(loss, optimizer_of_new())
    modules = [each for _ in range(layers) for each in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    net: Any = torch.nn.Sequential(*modules)
    net = torch.nn.parallel.DistributedDataParallel(net) if dist.is_initialized() else net
    optimizer, given = torch.optim.SGD(net.parameters(), lr=1e-3), torch.from_numpy(x)

    def torch_step() -> float:
        optimizer.zero_grad()
        value = ((net(given) - given) ** 2).mean()
        value.backward()
        optimizer.step()
        return float(value)

    count = sum(each.numel() for each in net.parameters())
    return {"slangrad": lambda: step(x, x), "side": lambda: apart(x, x), "DDP": torch_step}, count


def worker(size: str, rounds: int) -> None:
    """One of the processes: prints medians as JSON if it is the first."""
    rank, many = int(os.environ.get("RANK", "0")), "RANK" in os.environ
    os.sched_setaffinity(0, {machine.cpu_of(rank)})
    torch.set_num_threads(1)
    mesh = graph.mesh("data")  # connects the workers
    overlap = graph.measure_links(mesh).overlap if many else 0.0
    steps, count = networks(*SIZES[size])
    if many:
        gradients = torch.zeros(count)
        steps["sum"] = lambda: dist.all_reduce(gradients)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 3):
        for name, step in steps.items():
            if many:
                dist.barrier()
            start = time.perf_counter()
            step()
            if i >= 3:
                seconds[name].append(time.perf_counter() - start)
    if rank == 0:
        medians = {name: 1e3 * statistics.median(each) for name, each in seconds.items()}
        print(json.dumps(medians | {"overlap": overlap}))
    if many:
        dist.destroy_process_group()


def measured(size: str, workers: int, rounds: int) -> dict[str, float]:
    """Milliseconds by name, of so many processes, and the measured overlap."""
    own = [__file__, "--worker", size, "--rounds", str(rounds)]
    many = ["-m", "torch.distributed.run", "--nproc-per-node", str(workers)] if workers > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SLANGRAD_THREADS": "1"}
    done = subprocess.run([sys.executable, *many, *own], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2", metavar="N,...")
    parser.add_argument("--sizes", default=",".join(SIZES), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--worker", metavar="SIZE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.rounds)
        return
    print(f"| {' | '.join(COLUMNS)} |")
    print(f"| {' | '.join('---' for _ in COLUMNS)} |")
    for size in given.sizes.split(","):
        alone = measured(size, 1, given.rounds)
        for count in map(int, given.workers.split(",")):
            found = measured(size, count, given.rounds) if count > 1 else alone
            ours, theirs = (found[name] - alone[name] for name in ("slangrad", "DDP"))
            ratio = f"{ours / theirs:.2f}" if count > 1 else ""
            cells = [size, str(count), f"{found['slangrad']:.1f}", f"{ours:.1f}", f"{found['side']:.1f}"]
            total = found.get("sum", 0.0)
            cells += [f"{found['DDP']:.1f}", f"{theirs:.1f}", ratio, f"{total:.1f}"]
            for compute in (alone["slangrad"], found["side"]):
                bound = 1.05 * (compute + total - found["overlap"] * min(compute, total))
                cells.append(f"{found['slangrad'] / bound:.2f}")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
