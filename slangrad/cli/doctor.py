"""`slangrad doctor`: the features of this machine, and a test of a gradient on each device. For an absent device it
names the package to install."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import slangrad
from slangrad.base.disk.store import Store, Usage
from slangrad.base.options import Options
from slangrad.llvm.machine import native
from slangrad.runtime.cuda.architectures import newest_architecture
from slangrad.runtime.cuda.driver import OLDEST_CAPABILITY, CudaUnavailable, Driver, load_driver
from slangrad.runtime.processors import available_processors

PROBE = """
[Differentiable]
float probe(float x)
{
    return x * x * sin(x);
}
"""
WORKS, FAILS = "[green]works[/green]", "[red]fails[/red]"


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
    for name, text in (rows | _gpus()).items():
        table.add_row(name, escape(text))
    return table


def _gpus() -> dict[str, str]:
    """The driver and its GPUs; nothing without a driver, which the device's row explains."""
    try:
        driver = load_driver()
    except CudaUnavailable:
        return {}
    served = f"{driver.version // 1000}.{driver.version % 1000 // 10}"
    rows = {"CUDA": f"driver for CUDA {served}, cuda-bindings {_version_of('cuda-bindings')}"}
    return rows | {f"GPU {index}": _described_gpu(driver, index) for index in range(driver.device_count())}


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of no version"


def _described_gpu(driver: Driver, index: int) -> str:
    gpu = driver.call("cuDeviceGet", index)
    capability = driver.capability(gpu)
    shown = ".".join(map(str, capability))
    oldest = ".".join(map(str, OLDEST_CAPABILITY))
    fits = capability >= OLDEST_CAPABILITY
    target = f"target cuda:{newest_architecture(capability)}" if fits else f"{oldest} is needed"
    memory = driver.memory(gpu) / (1 << 30)
    return f"{driver.name(gpu)}, compute capability {shown} ({target}), {memory:.1f} GiB"


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
        fine, text = _tried(backend)
        works = works and fine
        table.add_row(backend, WORKS if fine else FAILS, escape(text))
    try:
        load_driver()
    except CudaUnavailable as missing:
        table.add_row("cuda", "absent", escape(f"{missing.message}: {missing.note}"))
        return table, works
    fine, text = _tried("cuda")
    table.add_row("cuda", WORKS if fine else FAILS, escape(text))
    return table, works and fine


def _tried(backend: str) -> tuple[bool, str]:
    """Whether the gradient is right on a device, and by how much or why not."""
    try:
        error = _gradient_error(backend)
    except Exception as failure:  # any exception of a broken installation is the report
        return False, f"{type(failure).__name__}: {failure}"
    return error < 1e-5, f"gradient of x * x * sin(x) within {error:.1e}"


def _gradient_error(backend: str) -> float:
    device = slangrad.create_device(backend=backend)
    module = slangrad.Module.load_from_source(device, "doctor", PROBE)
    points = np.linspace(-2, 2, 37, dtype=np.float32)
    x = slangrad.Tensor.from_numpy(device, points).with_grads()
    module.probe.bwds(x)
    wanted = 2 * points * np.sin(points) + points**2 * np.cos(points)
    return float(np.abs(x.grad.to_numpy() - wanted).max())
