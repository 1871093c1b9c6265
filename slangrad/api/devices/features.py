"""Kinds of devices, what a device was made with, and what it can do.

device.has_feature(Feature.double)   ->   True        device.info.adapter_name        device.desc.label
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from os import PathLike
from typing import Any

from slangrad.base.store import DEFAULT_LIMIT, Store
from slangrad.marshal.vectors import HostArray, class_named


class DeviceType(Enum):
    """Kinds of devices that programs name; those that there is no backend for are refused."""

    automatic = "automatic"
    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"
    d3d12 = "d3d12"
    metal = "metal"
    wgpu = "wgpu"


class ShaderModel(IntEnum):
    """Direct3D's versions of what a device can do; all that is in them and not about graphics is here."""

    unknown = 0
    sm_6_0 = 60
    sm_6_1 = 61
    sm_6_2 = 62
    sm_6_3 = 63
    sm_6_4 = 64
    sm_6_5 = 65
    sm_6_6 = 66
    sm_6_7 = 67


class Feature(Enum):
    """What programs ask for by `has_feature`; what is about graphics is never there."""

    hardware_device = auto()
    software_device = auto()
    parameter_block = auto()
    bindless = auto()
    surface = auto()
    rasterization = auto()
    combined_texture_sampler = auto()
    acceleration_structure = auto()
    ray_tracing = auto()
    ray_query = auto()
    timestamp_query = auto()
    realtime_clock = auto()
    cooperative_vector = auto()
    cooperative_matrix = auto()
    half = auto()
    double = auto()
    int16 = auto()
    int64 = auto()
    atomic_float = auto()
    atomic_half = auto()
    atomic_int64 = auto()
    wave_ops = auto()
    mesh_shader = auto()
    pointer = auto()


FEATURES = (
    Feature.software_device,
    Feature.parameter_block,
    Feature.timestamp_query,
    Feature.half,
    Feature.double,
    Feature.int16,
    Feature.int64,
    Feature.atomic_float,
    Feature.atomic_half,
    Feature.atomic_int64,
    Feature.wave_ops,
    Feature.pointer,
)


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """How large things may be; what is about graphics has no limit here, since it is not there."""

    max_compute_threads_per_group: int = 1024
    max_compute_thread_group_size: HostArray = field(default_factory=lambda: _uint3(1024))
    max_compute_dispatch_thread_groups: HostArray = field(default_factory=lambda: _uint3((1 << 22) - 1))
    min_wave_size: int = 32
    max_wave_size: int = 32


def _uint3(size: int) -> HostArray:
    kind = class_named("uint3")
    assert kind is not None
    made: HostArray = kind(size)
    return made


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device is. Timestamps count `timestamp_frequency` ticks a second."""

    type: DeviceType
    api_name: str
    adapter_name: str
    adapter_luid: bytes = bytes(16)
    timestamp_frequency: int = 1_000_000_000
    limits: DeviceLimits = field(default_factory=DeviceLimits)


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """A device that could be made."""

    name: str
    vendor_id: int = 0
    device_id: int = 0
    luid: bytes = bytes(16)


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
