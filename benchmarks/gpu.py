"""Times the CUDA device: kernels on the GPU, calls on the host, copies between both. Needs an NVIDIA GPU.

    PYTHONPATH=. python benchmarks/gpu.py
    PYTHONPATH=. python benchmarks/gpu.py --parts kernels,calls --json gpu.json

Times of kernels are the GPU's own, by events around many launches. They stand beside a copy within the GPU that moves
as many bytes, which no kernel limited by memory can beat, and beside the same kernel with one element a thread.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import slangrad as spy

TEXT = """
[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }
[Differentiable] float wave(float x) { return sin(x) * exp(-x * x) + log(1 + x * x); }
[Differentiable] float chain(float a, float b, float c, float x) { return x + (a + b) * c; }
[Differentiable] float fixpoint(float x)
{
    float y = 1;
    [MaxIters(64)] for (int k = 0; k < 64; k++) y = y - 0.1f * (y * y * y - x);
    return y;
}
"""
NUMBERS = {"a": 0.75, "b": -1.25, "c": 0.5}
Run = Callable[[], object]
Row = dict[str, Any]


class Gpu:
    """A device, and the time that its GPU takes."""

    def __init__(self) -> None:
        self.device = spy.create_device("cuda")
        self.module = spy.Module.load_from_source(self.device, "gpu_benchmark", TEXT)
        self.runtime: Any = self.device.runtime
        self.driver = self.runtime._driver
        self._stream = self.runtime._stream
        self._first, self._last = (self.driver.call("cuEventCreate", 0) for _ in range(2))

    def tensor(self, count: int, low: float, high: float, seed: int = 1) -> spy.Tensor:
        values = np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)
        return spy.Tensor.from_numpy(self.device, values)

    def seconds(self, run: Run, launches: int = 20, rounds: int = 5) -> float:
        """Of one launch, on the GPU; the least of a few rounds."""
        run()
        return min(self._round(run, launches) for _ in range(rounds))

    def _round(self, run: Run, launches: int) -> float:
        self._note(self._first)
        for _ in range(launches):
            run()
        self._note(self._last)
        self.device.synchronize()
        milliseconds: float = self.driver.call("cuEventElapsedTime", self._first, self._last)
        return milliseconds / 1000 / launches

    def _note(self, event: object) -> None:
        with self._stream as handle:
            self.driver.call("cuEventRecord", event, handle)

    def copy_seconds(self, size: int) -> float:
        """Of a copy within the GPU that reads and writes so many bytes in all."""
        source, target = (self.runtime.allocate(size // 2, zero=True) for _ in range(2))
        return self.seconds(lambda: self.runtime.copy(target.address, source.address, size // 2))

    def host_seconds(self, run: Run, launches: int = 200, rounds: int = 20) -> float:
        """Of one call, on the host; a round ends with a wait for the GPU."""
        spent = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            for _ in range(launches):
                run()
            self.device.synchronize()
            spent.append((time.perf_counter() - began) / launches)
        return min(spent[1:])


# --- kernels


@dataclass(frozen=True)
class Kernel:
    """`arrays`: what a launch reads and writes of global memory, in arrays of all elements. `tensors`: parameters that
    are tensors; the others are numbers."""

    name: str
    is_gradient: bool
    arrays: int
    tensors: Sequence[str] = ("x",)

    def bound(self, gpu: Gpu, lanes: int, count: int) -> Run:
        function = gpu.module[self.name].lanes(lanes) if lanes else gpu.module[self.name]
        values: dict[str, Any] = {name: gpu.tensor(count, 0.5, 2) for name in self.tensors}
        if self.name == "polynomial":
            values |= NUMBERS
        result = spy.Tensor.zeros(gpu.device, (count,), "float")
        if not self.is_gradient:
            return function.bind_call(**values, _result=result)
        values["x"] = values["x"].with_grads()
        given = result.with_grads(spy.Tensor.full(gpu.device, (count,), 1, "float"))
        return function.bwds.bind_call(**values, _result=given)


KERNELS = (
    Kernel("polynomial", False, 2),
    Kernel("polynomial", True, 4),
    Kernel("wave", False, 2),
    Kernel("wave", True, 4),
    Kernel("chain", False, 5, ("a", "b", "c", "x")),
    Kernel("fixpoint", True, 4),
)


def kernels(gpu: Gpu, count: int) -> list[Row]:
    rows = []
    for kernel in KERNELS:
        size = 4 * kernel.arrays * count
        copy, spent, narrow = (
            gpu.copy_seconds(size),
            gpu.seconds(kernel.bound(gpu, 0, count)),
            gpu.seconds(kernel.bound(gpu, 1, count)),
        )
        rows.append(
            {
                "kernel": f"{kernel.name}, {'gradient' if kernel.is_gradient else 'forward'}",
                "µs": f"{spent * 1e6:.1f}",
                "a copy": f"{copy * 1e6:.1f}",
                "one element a thread": f"{narrow * 1e6:.1f}",
                "GB/s": f"{size / spent / 1e9:.0f}",
            }
        )
    return rows


# --- calls


def calls(gpu: Gpu, count: int) -> list[Row]:
    """Of four elements, whatever the count."""
    polynomial, x = gpu.module.polynomial, gpu.tensor(4, -3, 3).with_grads()
    y = spy.Tensor.empty_like(x).with_grads(spy.Tensor.full(gpu.device, (4,), 1, "float"))
    array = np.arange(4, dtype=np.float32)

    def waited() -> None:
        polynomial(**NUMBERS, x=x, _result=y)
        gpu.device.synchronize()

    runs: dict[str, Run] = {
        "call": lambda: polynomial(**NUMBERS, x=x, _result=y),
        "call with a new result": lambda: polynomial(**NUMBERS, x=x),
        "gradient": lambda: polynomial.bwds(**NUMBERS, x=x, _result=y),
        "bound call": polynomial.bind_call(**NUMBERS, x=x, _result=y),
        "bound gradient": polynomial.bwds.bind_call(**NUMBERS, x=x, _result=y),
        "call, and wait": waited,
        "call with a NumPy array": lambda: polynomial(**NUMBERS, x=array, _result="numpy"),
        "call with a number": lambda: polynomial(**NUMBERS, x=2.0),
    }
    return [{"call": name, "µs": f"{gpu.host_seconds(run) * 1e6:.2f}"} for name, run in runs.items()]


# --- copies


def copies(gpu: Gpu, count: int) -> list[Row]:
    """Of arrays of up to four times the count in bytes. A new array costs the pages that the system gives it."""
    return [row for size in sorted({1 << 16, 1 << 20, 1 << 24, 4 * count}) for row in _copies_of(gpu, size)]


def _copies_of(gpu: Gpu, size: int) -> list[Row]:
    block, runtime = gpu.runtime.allocate(size), gpu.runtime
    pinned = (ctypes.c_char * size).from_address(gpu.driver.pinned(size))
    rows = []
    for kind, array in (("pageable", np.ones(size, np.uint8)), ("pinned", np.frombuffer(pinned, np.uint8))):
        up = gpu.host_seconds(partial(runtime.write, block.address, array), 1, 8)
        down = gpu.host_seconds(partial(runtime.fetch, array, block.address), 1, 8)
        rows.append(_rates(size, kind, up, down))
    new = gpu.host_seconds(lambda: runtime.fetch(np.empty(size, np.uint8), block.address), 1, 8)
    return [*rows, _rates(size, "a new array", None, new)]


def _rates(size: int, kind: str, up: float | None, down: float) -> Row:
    rates = {"up, GB/s": up, "down, GB/s": down}
    shown = {name: "" if spent is None else f"{size / spent / 1e9:.1f}" for name, spent in rates.items()}
    return {"bytes": f"{size:,}", "memory": kind, **shown}


PARTS = {"kernels": kernels, "calls": calls, "copies": copies}


def table(rows: Sequence[Row]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS), metavar="NAME,...", help="default: all")
    parser.add_argument("--elements", type=int, default=1 << 26, metavar="N", help="of a kernel's arrays")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    arguments = parser.parse_args()
    gpu = Gpu()
    run: dict[str, Any] = {"gpu": gpu.device.info.adapter_name, "elements": arguments.elements}
    print(f"{run['gpu']}, arrays of {arguments.elements:,} floats", flush=True)
    for part in arguments.parts.split(","):
        run[part] = PARTS[part](gpu, arguments.elements)
        print(f"\n### {part}\n\n{table(run[part])}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
