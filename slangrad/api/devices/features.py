"""Properties of devices: names, features, limits.

device.has_feature(Feature.double)   ->   True        device.info.adapter_name
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto

from slangrad.api.sessions.desc import DeviceType
from slangrad.marshal.host.vectors import HostArray, class_named


class ShaderModel(IntEnum):
    """Versions of Direct3D's features; a CPU device has all of them that do not concern graphics."""

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
    """Features for `has_feature`; a CPU device has none that concerns graphics."""

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
    Feature.bindless,
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
    """The largest sizes of groups, launches and waves."""

    max_compute_threads_per_group: int = 1024
    max_compute_thread_group_size: HostArray = field(default_factory=lambda: _uint3(1024))
    max_compute_dispatch_thread_groups: HostArray = field(default_factory=lambda: _uint3((1 << 22) - 1))
    min_wave_size: int = 32
    max_wave_size: int = 32


def _uint3(size: int) -> HostArray:
    kind = class_named("uint3")
    assert kind is not None
    sizes: HostArray = kind(size)
    return sizes


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The names of a device, and its limits. Timestamps count `timestamp_frequency` ticks a second."""

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
