"""Devices are made here: of a type, for PyTorch's tensors, and the one that serves programs without a device.

create_device("cuda:1")   ->   the second GPU, current from now on
default_device()          ->   the current device, else one of the machine's processors
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from slangrad.api.devices.current import current_device, pop_current_device
from slangrad.api.devices.device import CPU, CUDA, Device, name_of
from slangrad.api.sessions.desc import DeviceType
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.torch_types import TORCH, has_gpu

_default: list[Device] = []
_making_default = kept_at_fork(threading.Lock(), WORK)


def create_device(
    type: DeviceType | str | None = None,
    backend: str | None = None,
    include_paths: Iterable[str | Path] = (),
    **described: HostValue,
) -> Device:
    """A new device, which becomes the current one: the processors, an NVIDIA GPU, or the interpreter of the IR.

    `type` is None, "automatic", "cpu", "cuda" or the DeviceType of these; "cuda:1" is the second GPU.
    `backend` is "cuda" for a GPU, and "cpu" or
    "interpreter" else, by default what SLANGRAD_BACKEND says, else "cpu". `import` in Slang looks in `include_paths`,
    after the folder of the importing file. `described` are arguments of `Device` (`options`, `defines`,
    `compiler_options`) and fields of a DeviceDesc.
    CallError (E1015) for devices and backends that do not exist; TypeError for unknown names.
    """
    return Device(type, backend, include_paths, **described)


def default_device() -> Device:
    """The current device, else one of the machine's processors that is made once and does not become current."""
    try:
        return current_device()
    except CallError:
        return _processors()


def host_device() -> Device:
    """The default device if the host reaches its memory, else one of the machine's processors that is made once."""
    device = default_device()
    return device if device.runtime.reaches_host else _processors()


def _processors() -> Device:
    """A device that is made once and does not become current."""
    with _making_default:
        if not _default:
            _default.append(create_device())
            pop_current_device()
    return _default[0]


def create_torch_device(
    type: DeviceType | str | None = None,
    torch_device: object = None,
    include_paths: Iterable[str | Path] = (),
    **described: object,
) -> Device:
    """`create_device` for PyTorch's tensors on a device of PyTorch: that GPU for "cuda:1", the processors for "cpu".
    Without a `torch_device` it is PyTorch's current GPU if PyTorch has one and the type permits it. CallError (E1015)
    where `torch_device` is neither, or does not fit the type."""
    kind, place = name_of(type), "" if torch_device is None else str(torch_device)
    wanted = place.partition(":")[0]
    if wanted not in ("", CPU, CUDA):
        message = f"torch_device: there is no backend for '{torch_device}'"
        raise CallError("E1015", message, (), "pass 'cpu' or 'cuda'")
    if wanted and kind not in (None, "automatic", wanted):
        raise CallError("E1015", f"torch_device: '{place}' does not fit a device of type '{kind}'")
    if place == CUDA or (not place and kind != CPU and has_gpu()):
        place = f"{CUDA}:{TORCH.cuda.current_device()}"
    return create_device(place or type, None, include_paths, **described)
