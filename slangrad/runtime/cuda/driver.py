"""The CUDA driver through cuda-bindings, which only this file imports, with the first CUDA device.

    driver = load_driver()                   CudaUnavailable says what is missing
    context = driver.primary_context(0)      PyTorch uses the same
    driver.call("cuMemAllocAsync", 4096, stream)

A call that fails raises CudaError, or MemoryError where memory is missing. After some errors the driver refuses all
calls about the GPU (DeviceLost).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from slangrad.base.lazy import LazyModule
from slangrad.runtime.device import DeviceMissing

BINDINGS = LazyModule("cuda.bindings.driver")

OLDEST_DRIVER = 12_010  # it takes 32 KB of parameters, and PTX 8.1
OLDEST_CAPABILITY = (7, 5)
HOST_MEMORY = 1  # CU_MEMORYTYPE_HOST
OUT_OF_GPU_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
# A launch in a thread that uses no context, or that of another GPU, or one that is gone: CUDA_ERROR_INVALID_CONTEXT,
# CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED.
OTHER_CONTEXT = (201, 400, 709)

# Errors of a kernel or of the GPU that end the context of the process.
# fmt: off
ENDS = {f"CUDA_ERROR_{name}" for name in (
    "ECC_UNCORRECTABLE", "NVLINK_UNCORRECTABLE", "CONTAINED", "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT",
    "CONTEXT_IS_DESTROYED", "ASSERT", "HARDWARE_STACK_ERROR", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS",
    "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED", "UNKNOWN",
)}
# fmt: on


class CudaUnavailable(DeviceMissing):
    """There is no GPU that can be used."""


class CudaError(RuntimeError):
    """The driver refused a call, or a kernel ended with an error. `name` is the driver's, as CUDA_ERROR_INVALID_PTX."""

    code = "E1050"

    def __init__(self, function: str, name: str, text: str) -> None:
        self.name = name
        super().__init__(f"error[{self.code}]: the CUDA driver: {text} ({name}, from {function})")


class DeviceLost(CudaError):
    """The driver takes no more calls about the GPU in this process. `kernel` is the one that was launched last."""

    code = "E1051"

    def __init__(self, function: str, name: str, text: str, kernel: str) -> None:
        self.function, self.text, self.kernel = function, text, kernel
        super().__init__(function, name, text)
        where = (
            f"since a launch that ended with kernel '{kernel}'" if kernel else "before a kernel was launched"
        )
        self.args = (
            f"error[{self.code}]: this process has lost the GPU {where}: {text} ({name}, from {function}); "
            "start a new process, with SLANGRAD_SYNCHRONOUS=1 to see which call fails",
        )

    def again(self) -> DeviceLost:
        """The same error, to be raised once more."""
        return DeviceLost(self.function, self.name, self.text, self.kernel)


class Driver:
    """Calls of the driver by name. The results are those of cuda-bindings without the error in front. `launched` is the
    name of the last kernel, `lost` the error that ended all."""

    def __init__(self, bindings: Any) -> None:  # the module, or its stand-in of the tests
        self._bindings = bindings
        self.launched = ""
        self.lost: DeviceLost | None = None

    def of_one_device(self) -> Driver:
        """The same driver with a state of its own: a GPU that is lost leaves others as they are."""
        return Driver(self._bindings)

    def call(
        self, name: str, *arguments: object
    ) -> Any:  # a handle, a number or None, depending on the function
        error, *results = getattr(self._bindings, name)(*arguments)
        if error:
            raise self.error(name, error)
        return results[0] if len(results) == 1 else tuple(results)

    def error(self, function: str, error: Any) -> Exception:  # a CUresult
        """The exception for a failed call."""
        if error == OUT_OF_GPU_MEMORY:
            return MemoryError(f"error[E0908]: the CUDA driver has no memory left for {function}")
        _, name = self._bindings.cuGetErrorName(error)
        _, text = self._bindings.cuGetErrorString(error)
        if _text(name) not in ENDS:
            return CudaError(function, _text(name), _text(text))
        if self.lost is None:
            self.lost = DeviceLost(function, _text(name), _text(text), self.launched)
        return self.lost.again()

    def function(self, name: str) -> Callable[..., Any]:  # the bindings have no types
        """A function of cuda-bindings itself, for calls whose time counts."""
        return cast(Callable[..., Any], getattr(self._bindings, name))  # without types

    @property
    def version(self) -> int:
        """12040 for 12.4."""
        version: int = self.call("cuDriverGetVersion")
        return version

    def device_count(self) -> int:
        count: int = self.call("cuDeviceGetCount")
        return count

    def name(self, device: object) -> str:
        return _text(self.call("cuDeviceGetName", 256, device).split(b"\0")[0])

    def attribute(self, device: object, name: str) -> int:
        """An attribute by the end of its name: "MULTIPROCESSOR_COUNT"."""
        known = getattr(self._bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        value: int = self.call("cuDeviceGetAttribute", known, device)
        return value

    def memory(self, device: object) -> int:
        """All bytes of a GPU."""
        size: int = self.call("cuDeviceTotalMem", device)
        return size

    def capability(self, device: object) -> tuple[int, int]:
        """The compute capability."""
        major, minor = (self.attribute(device, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
        return major, minor

    def allow_shared(self, function: object, size: int) -> None:
        """So many bytes of dynamic shared memory for a kernel, beyond the 48 KB that need no leave."""
        known = self._bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.call("cuFuncSetAttribute", function, known, size)

    def blocks_at_once(self, function: object, threads: int, shared: int) -> int:
        """How many blocks of a kernel a multiprocessor runs at a time."""
        count: int = self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)
        return count

    def pinned(self, size: int) -> int:
        """The address of host memory that the GPU reaches at the same address."""
        portable, mapped = 1, 2
        return int(self.call("cuMemHostAlloc", size, portable | mapped))

    def is_pinned(self, address: int) -> bool:
        """Whether an address leads to pinned memory of the host."""
        kind = self._bindings.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        error, place = self._bindings.cuPointerGetAttribute(kind, address)
        return not error and place == HOST_MEMORY

    def stream(self) -> object:
        """One that does not wait for the default stream."""
        non_blocking = 1
        return self.call("cuStreamCreate", non_blocking)

    def stream_of(self, raw: int) -> object:
        """A stream that another library has made."""
        return self._bindings.CUstream(raw)

    def begin_capture(self, stream: object) -> None:
        """Record what is put on a stream. Other threads may use the driver meanwhile."""
        mode = self._bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self.call("cuStreamBeginCapture", stream, mode)

    def event(self) -> object:
        without_time = 2
        return self.call("cuEventCreate", without_time)

    def assemble(self, ptx: bytes) -> bytes:
        """PTX as machine code of the current device, by the driver's own assembler."""
        state = self.call("cuLinkCreate", 0, [], [])
        try:
            text, kind = ptx + b"\0", self._bindings.CUjitInputType.CU_JIT_INPUT_PTX
            self.call("cuLinkAddData", state, kind, text, len(text), b"kernel", 0, [], [])
            address, size = self.call("cuLinkComplete", state)
            return ctypes.string_at(int(address), int(size))
        finally:
            self.call("cuLinkDestroy", state)


def _text(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@cache
def load_driver() -> Driver:
    """The driver, ready to be used. CudaUnavailable where there is none that can be."""
    try:
        initialize = BINDINGS.cuInit
    except ImportError:
        note = "pip install 'slangrad[cuda]' installs it"
        raise CudaUnavailable("the package cuda-bindings is not installed", note) from None
    driver = Driver(BINDINGS)
    try:
        error, *_ = initialize(0)
    except RuntimeError:  # cuda-bindings finds no library of the driver
        note = "install the driver of NVIDIA for this GPU; no toolkit is needed"
        raise CudaUnavailable("there is no CUDA driver on this machine", note) from None
    if error:
        message = f"the CUDA driver does not start: {driver.error('cuInit', error)}"
        raise CudaUnavailable(message, "`nvidia-smi` shows whether the driver finds a GPU")
    if driver.version < OLDEST_DRIVER:
        version, wanted = (f"{v // 1000}.{v % 1000 // 10}" for v in (driver.version, OLDEST_DRIVER))
        message = f"the CUDA driver is too old: it serves CUDA {version}, and CUDA {wanted} is needed"
        raise CudaUnavailable(message, "install a newer driver of NVIDIA")
    if not driver.device_count():
        raise CudaUnavailable("the CUDA driver finds no GPU", "CUDA_VISIBLE_DEVICES may hide it")
    return driver
