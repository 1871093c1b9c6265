"""Kinds of devices, and what a device is made with.

create_device(type="cpu", label="mine")   ->   device.desc.label
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from os import PathLike
from typing import Any

from slangrad.base.store import DEFAULT_LIMIT, Store


class DeviceType(Enum):
    """Kinds of devices that programs name; those that there is no backend for are refused."""

    automatic = "automatic"
    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"
    d3d12 = "d3d12"
    metal = "metal"
    wgpu = "wgpu"


@dataclass(slots=True, kw_only=True)
class DeviceDesc:
    """What a device is made with. `shader_cache_path` is a folder for compiled kernels and what is known of modules
    (`module_cache_path`, if only that is given), in place of the user's; `shader_cache_size` is its size in bytes.
    `module_cache_path` is a folder for precompiled modules, which the device's own session fills. All but these,
    `type`, `compiler_options`, `enable_hot_reload`, `enable_print` and `label` are about other kinds of devices: they
    are checked and kept, and mean nothing here.
    """

    type: DeviceType = DeviceType.automatic
    compiler_options: Any = None
    label: str = ""
    enable_debug_layers: bool = False
    enable_rhi_validation: bool = False
    enable_cuda_interop: bool = False
    enable_print: bool = False
    enable_hot_reload: bool = True
    enable_ray_tracing: bool = False
    enable_aftermath: bool = False
    enable_compilation_reports: bool = False
    adapter_luid: list[int] | tuple[int, ...] | bytes | None = None
    shader_cache_path: str | PathLike[str] | None = None
    module_cache_path: str | PathLike[str] | None = None
    shader_cache_size: int = DEFAULT_LIMIT << 20
    bindless_options: object = None
    existing_device_handles: list[object] | tuple[object, ...] | None = None

    def set(self, name: str, value: object) -> None:
        """Change one of them by name; TypeError for what is none, or has another type."""
        if name not in DeviceDesc.__slots__:
            raise TypeError(f"create_device() got an unexpected keyword argument '{name}'")
        expected = _TYPES.get(name, bool)
        if not isinstance(value, expected):
            raise TypeError(f"{name}: {type(value).__name__} is not what this option takes")
        setattr(self, name, value)

    def store(self) -> Store | None:
        """The folder for kernels that is named here."""
        folder = self.shader_cache_path or self.module_cache_path
        return None if folder is None else Store(str(folder), self.shader_cache_size)


# What is not simply a bool.
_TYPES: dict[str, type | tuple[type, ...]] = {
    "label": str,
    "adapter_luid": (list, tuple, bytes, type(None)),
    "shader_cache_path": (str, PathLike, type(None)),
    "module_cache_path": (str, PathLike, type(None)),
    "shader_cache_size": int,
    "bindless_options": object,
    "existing_device_handles": (list, tuple, type(None)),
}
