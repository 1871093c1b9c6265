"""Kinds of devices, and what a device can do.

device.has_feature(Feature.double)   ->   True        device.info.adapter_name
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class DeviceType(Enum):
    """Kinds of devices that programs name; those that there is no backend for are refused."""

    automatic = "automatic"
    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"
    d3d12 = "d3d12"
    metal = "metal"
    wgpu = "wgpu"


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
class DeviceInfo:
    """What a device is."""

    type: DeviceType
    api_name: str
    adapter_name: str
