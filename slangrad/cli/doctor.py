"""`slangrad doctor`: the features of this machine, and a test of a gradient on each device."""

from __future__ import annotations

import platform
from importlib.metadata import version

import numpy as np
from rich.console import Console
from rich.table import Table

import slangrad
from slangrad.base.disk.store import Store, Usage
from slangrad.base.options import Options
from slangrad.llvm.machine import native
from slangrad.runtime.processors import available_processors

PROBE = """
[Differentiable]
float probe(float x)
{
    return x * x * sin(x);
}
"""


def report(console: Console) -> bool:
    """Print the tables; whether all devices work."""
    console.print(_machine(Options.from_environment()))
    devices, works = _devices()
    console.print(devices)
    return works


def _machine(options: Options) -> Table:
    machine = native.target_of(options)
    table = plain_table()
    rows = {
        "slangrad": slangrad.__version__,
        "Python": platform.python_version(),
        "numpy": version("numpy"),
        "llvmlite": f"{version('llvmlite')} (LLVM {native.llvm_version()})",
        "CPU": f"{machine.cpu}, {machine.triple}",
        "features": ", ".join(machine.abilities),
        "lanes": f"{machine.lanes} of 32 bits (SLANGRAD_LANES)",
        "threads": f"{options.threads or available_processors()} (SLANGRAD_THREADS)",
        "cache": described_cache(Store.of_environment().usage()),
    }
    for name, text in rows.items():
        table.add_row(name, text, style=None)
    return table


def described_cache(usage: Usage) -> str:
    """The folder of compiled kernels and its size; or why there is none."""
    if usage.problem:
        return f"none: {usage.problem}"
    used, limit = (f"{size / (1 << 20):.1f} MiB" for size in (usage.size, usage.limit))
    entries = "1 entry" if usage.entries == 1 else f"{usage.entries} entries"
    return f"{usage.folder}, {entries}, {used} of {limit} (SLANGRAD_CACHE)"


def plain_table() -> Table:
    return Table(show_header=False, box=None, padding=(0, 2, 0, 0))


def _devices() -> tuple[Table, bool]:
    table, works = plain_table(), True
    for backend in ("cpu", "interpreter"):
        try:
            error = _gradient_error(backend)
            fine, text = error < 1e-5, f"gradient of x * x * sin(x) within {error:.1e}"
        except Exception as failure:  # any exception of a broken installation is the report
            fine, text = False, f"{type(failure).__name__}: {failure}"
        works = works and fine
        table.add_row(backend, "[green]works[/green]" if fine else "[red]fails[/red]", text)
    return table, works


def _gradient_error(backend: str) -> float:
    device = slangrad.create_device(backend=backend)
    module = slangrad.Module.load_from_source(device, "doctor", PROBE)
    points = np.linspace(-2, 2, 37, dtype=np.float32)
    x = slangrad.Tensor.from_numpy(device, points).with_grads()
    module.probe.bwds(x)
    wanted = 2 * points * np.sin(points) + points**2 * np.cos(points)
    return float(np.abs(x.grad.to_numpy() - wanted).max())
