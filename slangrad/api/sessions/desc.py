"""Kinds of devices, the arguments of a device, and the options of a compilation, in SlangPy's words.

create_device(type="cpu", label="mine")   ->   device.desc.label
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from os import PathLike
from pathlib import Path

from slangrad.base.disk.store import DEFAULT_LIMIT, Store
from slangrad.base.options import Options
from slangrad.base.suggestions import suggestion
from slangrad.marshal.errors import CallError


class DeviceType(Enum):
    """Kinds of devices in programs; those without a backend are refused."""

    automatic = "automatic"
    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"
    d3d12 = "d3d12"
    metal = "metal"
    wgpu = "wgpu"


@dataclass(slots=True, kw_only=True)
class DeviceDesc:
    """The arguments of a device. `shader_cache_path` is a folder for compiled kernels and facts about modules, in
    place of the user's (default: `module_cache_path`); `shader_cache_size` is its size in bytes.
    `module_cache_path` is a folder for precompiled modules, which the device's own session fills. All but these,
    `type`, `compiler_options`, `enable_hot_reload`, `enable_print` and `label` belong to other kinds of devices:
    they are checked and stored, and have no effect.
    """

    type: DeviceType = DeviceType.automatic
    compiler_options: SlangCompilerOptions | Mapping[str, object] | None = None
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
        """Change one of them by name; TypeError for an unknown name or a wrong type."""
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


# Arguments that are no plain bool.
_TYPES: dict[str, type | tuple[type, ...]] = {
    "label": str,
    "adapter_luid": (list, tuple, bytes, type(None)),
    "shader_cache_path": (str, PathLike, type(None)),
    "module_cache_path": (str, PathLike, type(None)),
    "shader_cache_size": int,
    "bindless_options": object,
    "existing_device_handles": (list, tuple, type(None)),
}


class SlangOptimizationLevel(Enum):
    """How hard to work on machine code."""

    none = 0
    default = 1
    high = 2
    maximal = 3


class SlangMatrixLayout(Enum):
    """How matrices lie in memory; here always by rows."""

    row_major = 1
    column_major = 2


class SlangFloatingPointMode(Enum):
    """`precise` keeps products and sums apart."""

    default = 0
    fast = 1
    precise = 2


class SlangDebugInfoLevel(Enum):
    """How much is written for debuggers; without effect here."""

    none = 0
    minimal = 1
    standard = 2
    maximal = 3


# LLVM's level for each of ours.
_LEVELS = {
    SlangOptimizationLevel.none: 0,
    SlangOptimizationLevel.default: 2,
    SlangOptimizationLevel.high: 3,
    SlangOptimizationLevel.maximal: 3,
}

_ENUMS: dict[str, type[Enum]] = {
    "matrix_layout": SlangMatrixLayout,
    "floating_point_mode": SlangFloatingPointMode,
    "debug_info": SlangDebugInfoLevel,
    "optimization": SlangOptimizationLevel,
}


@dataclass(slots=True, init=False)
class SlangCompilerOptions:
    """Made of a dict, or empty and then changed."""

    include_paths: list[str | Path] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)
    shader_model: object = None
    matrix_layout: SlangMatrixLayout = SlangMatrixLayout.row_major
    enable_warnings: list[str] = field(default_factory=list)
    disable_warnings: list[str] = field(default_factory=list)
    warnings_as_errors: list[str] = field(default_factory=list)
    report_downstream_time: bool = False
    report_perf_benchmark: bool = False
    skip_spirv_validation: bool = False
    floating_point_mode: SlangFloatingPointMode = SlangFloatingPointMode.default
    debug_info: SlangDebugInfoLevel = SlangDebugInfoLevel.none
    optimization: SlangOptimizationLevel = SlangOptimizationLevel.default
    downstream_args: list[str] = field(default_factory=list)
    dump_intermediates: bool = False
    dump_intermediates_prefix: str = ""
    enable_experimental_features: bool = False
    use_up_to_date_binary_module: bool = True  # of a source and a precompiled module, the source

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        options = {option.name: option for option in fields(self)}
        for name, option in options.items():
            setattr(
                self, name, option.default_factory() if callable(option.default_factory) else option.default
            )
        for name, value in (values or {}).items():
            if name not in options:
                message = f"compiler_options: there is no option '{name}'"
                raise CallError("E1015", message, (), suggestion(name, options))
            setattr(self, name, _converted(name, value))

    @staticmethod
    def of(options: SlangCompilerOptions | Mapping[str, object] | None) -> SlangCompilerOptions:
        """Options from a dict of their names; options themselves as they are."""
        return options if isinstance(options, SlangCompilerOptions) else SlangCompilerOptions(options)

    def applied_to(self, options: Options) -> Options:
        """The settings of slangrad, changed by these options."""
        if self.matrix_layout is SlangMatrixLayout.column_major:
            options = replace(options, column_major=True)
        if self.optimization is not SlangOptimizationLevel.default:
            options = replace(options, optimize=_LEVELS[self.optimization])
        if self.floating_point_mode is SlangFloatingPointMode.precise:
            options = replace(options, contraction=False)
        quiet = options.disable_warnings | frozenset(self.disable_warnings)
        errors = options.warnings_as_errors | frozenset(self.warnings_as_errors)
        return replace(options, disable_warnings=quiet, warnings_as_errors=errors)


def _converted(name: str, value: object) -> object:
    kind = _ENUMS.get(name)
    if kind is None:
        return value
    if isinstance(value, str) and value in kind.__members__:
        return kind[value]
    if not isinstance(value, kind):
        raise CallError(
            "E1015",
            f"{name}: {value!r} is no {kind.__name__}",
            (),
            f"there are {', '.join(kind.__members__)}",
        )
    return value
