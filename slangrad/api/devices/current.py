"""The current device, and functions that use it: `spy.create_buffer(...)` for `device.create_buffer(...)`.

    device = spy.create_device()          # is current from now on, in this thread
    with spy.create_device() as other:    # `other` is, within the block
        spy.current_device() is other

Each thread has its own stack. A stack does not keep a device alive.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device

_NOTE = "create_device() makes one, and `with device:` makes it current for a block"


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.devices: list[weakref.ref[Device]] = []


_stacks = _Stacks()


def push_current_device(device: Device) -> None:
    """Make a device current, in this thread."""
    _stacks.devices.append(weakref.ref(device))


def pop_current_device() -> Device:
    """Take the current device off the stack; the one before it is current again. CallError if there is none."""
    device = _top()
    if device is None:
        raise CallError("E1023", "No device to pop", (), _NOTE)
    _stacks.devices.pop()
    return device


def current_device() -> Device:
    """The device on top of this thread's stack. CallError if there is none."""
    device = _top()
    if device is None:
        raise CallError("E1023", "No current device", (), _NOTE)
    return device


def is_current(device: Device) -> bool:
    return _top() is device


def _top() -> Device | None:
    """The device on top that is still referenced; the stack does not keep devices alive."""
    stack = _stacks.devices
    while stack:
        device = stack[-1]()
        if device is not None:
            return device
        stack.pop()
    return None


def _on_current(name: str) -> Callable[..., HostValue]:
    def function(*args: object, **kwargs: object) -> HostValue:
        return getattr(current_device(), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Device.{name}` of the current device."
    return function


create_buffer = _on_current("create_buffer")
create_command_encoder = _on_current("create_command_encoder")
create_compute_kernel = _on_current("create_compute_kernel")
create_compute_pipeline = _on_current("create_compute_pipeline")
create_fence = _on_current("create_fence")
create_query_pool = _on_current("create_query_pool")
create_root_shader_object = _on_current("create_root_shader_object")
create_shader_object = _on_current("create_shader_object")
create_slang_session = _on_current("create_slang_session")
link_program = _on_current("link_program")
load_module = _on_current("load_module")
load_module_from_source = _on_current("load_module_from_source")
load_program = _on_current("load_program")
