"""PTX to machine code: by the driver when a kernel is first launched, or ahead by ptxas, without a GPU.

    keep_ahead(store, image)                 by ptxas, if it is installed
    load_module(driver, store, capability, image)     the driver's module, of the code on disk where there is some

ptxas is the assembler of NVIDIA's toolkit: `pip install nvidia-cuda-nvcc`, or in the PATH. Its code is found by the
architecture and the PTX. Code of the driver is found by the driver's version, too.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slangrad.base.disk.store import Store, content_key
from slangrad.runtime.cuda.driver import CudaError, Driver
from slangrad.runtime.cuda.image import CudaImage

PATIENCE = 120.0  # seconds for a kernel
# Errors for code of a newer toolkit than the driver, and for code of another GPU.
# fmt: off
REFUSALS = {f"CUDA_ERROR_{name}" for name in (
    "INVALID_IMAGE", "NO_BINARY_FOR_GPU", "INVALID_SOURCE", "INVALID_PTX", "UNSUPPORTED_PTX_VERSION", "NOT_SUPPORTED",
)}
# fmt: on


@cache
def ptxas() -> str | None:
    """The assembler: that in the PATH, or that of NVIDIA's packages for CUDA 13 and 12."""
    program = shutil.which("ptxas")
    if program is not None:
        return program
    packages = find_spec("nvidia")
    places = () if packages is None else packages.submodule_search_locations or ()
    names = ("cu13/bin/ptxas", "cuda_nvcc/bin/ptxas")
    files = (Path(place) / name for place in places for name in names)
    return next((str(file) for file in files if file.is_file()), None)


def ahead_key(image: CudaImage) -> str:
    return content_key("cubin of ptxas", image.architecture, image.code)


def keep_ahead(store: Store, image: CudaImage) -> None:
    """Keep machine code of a kernel. There is none without ptxas, and where ptxas refuses the PTX. Then the driver
    makes the code."""
    key = ahead_key(image)
    if store.get(key) is None:
        code = _assembled(image)
        if code:
            store.put(key, code)


def _assembled(image: CudaImage) -> bytes:
    program = ptxas()
    if program is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="slangrad") as folder:
        text, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_bytes(image.code)
        command = [program, f"-arch={image.architecture}", "-o", str(code), str(text)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            return code.read_bytes()
        except (OSError, subprocess.SubprocessError):
            return b""


def load_module(
    driver: Driver, store: Store, capability: tuple[int, int], image: CudaImage
) -> Any:  # a handle of the driver
    """The driver's module of a kernel. What no code on disk serves, the driver assembles, and its code is kept."""
    ahead = store.get(ahead_key(image))
    if ahead is not None:
        try:
            return driver.call("cuModuleLoadData", ahead)
        except CudaError as error:
            if error.name not in REFUSALS:
                raise
    key = content_key("cubin", driver.version, *capability, image.code)
    code = store.get(key)
    if code is None:
        code = driver.assemble(image.code)
        store.put(key, code)
    return driver.call("cuModuleLoadData", code)
