"""Targets of the host, without the compiler: the devices of their kernels, and the form of their code on disk.

    backend = backend_of("cpu")  backend_of("cuda:sm_90") names an architecture
    backend.device(options, 0)   memory and launches, of a GPU by its number
    backend.identity()           this processor and this LLVM, as a part of the keys of kernels on disk
    backend.load(data)           a kernel from the bytes of its image, and the data stored with it

Their stages are in `slangrad/targets`, which loads the compiler's back ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from slangrad.base.disk.store import Json, content_key
from slangrad.base.lazy import LazyModule
from slangrad.base.options import Options, store_of
from slangrad.base.traits import CPU, CUDA, INTERPRETER, Traits
from slangrad.runtime.cpu import CpuDevice
from slangrad.runtime.device import Device, Kernel
from slangrad.runtime.image import KernelImage
from slangrad.runtime.object_code import Loaded, load_object
from slangrad.runtime.processors import processor_identity
from slangrad.runtime.relocations import Unloadable

CUDA_DEVICE = LazyModule("slangrad.runtime.cuda.device")
CUDA_IMAGE = LazyModule("slangrad.runtime.cuda.image")
CUDA_CODE = LazyModule("slangrad.runtime.cuda.machine_code")
NATIVE = LazyModule("slangrad.llvm.machine.native")


@dataclass(frozen=True, slots=True)
class Backend:
    """`identity`: the machine and library that code depends on, besides its source and the settings; without one no
    code is kept. `ready` keeps on disk what the device makes of a kernel when it loads it."""

    traits: Traits
    device: Callable[[Options, int], Device]
    identity: Callable[[], str] | None = None
    load: Callable[[bytes], tuple[Kernel, Json]] | None = None
    ready: Callable[[Options, Kernel], None] | None = None


@cache
def cpu_identity() -> str:
    """This processor; version and library of llvmlite, which is not imported for this. A folder of kernels may be moved
    to another machine with such a processor."""
    return content_key(processor_identity(), *_llvm_stamps())


@cache
def cuda_identity() -> str:
    """LLVM, which writes PTX. The architecture is in the target's name; the driver's part has keys of its own."""
    return content_key(*_llvm_stamps())


def _llvm_stamps() -> tuple[tuple[str, int, bytes], ...]:
    spec = find_spec("llvmlite")
    return () if spec is None or spec.origin is None else tuple(_stamps(Path(spec.origin).parent))


def _stamps(package: Path) -> Iterator[tuple[str, int, bytes]]:
    """The file with the version, and the library, whose name differs between systems, by its size."""
    for folder in (package, package / "binding"):
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                is_version = entry.name == "_version.py"
                if is_version or "llvmlite" in entry.name:
                    yield (
                        entry.name,
                        entry.stat().st_size,
                        Path(entry.path).read_bytes() if is_version else b"",
                    )


def load_image(data: bytes) -> tuple[Kernel, Json]:
    image = KernelImage.from_bytes(data)
    return image.kernel(load_object_code), image.about


def cpu_device(options: Options, index: int) -> Device:
    return CpuDevice(options)


def cuda_device(options: Options, index: int) -> Device:
    device: Device = CUDA_DEVICE.CudaDevice(options, index)
    return device


def load_cuda_image(data: bytes) -> tuple[Kernel, Json]:
    image = CUDA_IMAGE.CudaImage.from_bytes(data)
    return image.kernel(), image.about


def keep_machine_code(options: Options, kernel: Kernel) -> None:
    """Machine code of a kernel for a GPU, where ptxas is installed."""
    CUDA_CODE.keep_ahead(store_of(options), kernel.image)  # type: ignore[attr-defined]


def load_object_code(code: bytes, names: Sequence[str]) -> Loaded:
    """Machine code in memory, by slangrad's own loader; LLVM is loaded only where that one does not serve."""
    try:
        return load_object(code, names)
    except Unloadable:
        return Loaded(*NATIVE.load(code, names))


BACKENDS = {
    "cpu": Backend(CPU, cpu_device, cpu_identity, load_image),
    "interpreter": Backend(INTERPRETER, cpu_device),
    "cuda": Backend(CUDA, cuda_device, cuda_identity, load_cuda_image, keep_machine_code),
}


@cache
def backend_of(target: str) -> Backend:
    """The backend of a target by its name, which may end with an architecture. Its traits have the whole name."""
    name, _, _ = target.partition(":")
    backend = BACKENDS.get(name)
    if backend is None:
        raise ValueError(
            f"target: unknown target '{target}'; there are {', '.join(BACKENDS)}, and 'cuda:sm_90'"
        )
    return backend if name == target else replace(backend, traits=backend.traits._replace(name=target))
