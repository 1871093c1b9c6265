"""Devices: where kernels run, and the modules loaded for them.

    device = create_device(include_paths=["shaders"])        # SLANGRAD_BACKEND=interpreter for the oracle
    module = device.load_module("polynomial")

One program holds all modules of a device, so they can import each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from slangrad.base.options import Options
from slangrad.call.compile import KernelCompiler
from slangrad.check.modules import Module as CheckedModule
from slangrad.check.modules import Program
from slangrad.marshal.errors import CallError
from slangrad.runtime.cpu import CpuDevice

CPU, INTERPRETER = "cpu", "interpreter"
BACKENDS = (CPU, INTERPRETER)


class DeviceType(Enum):
    """Kinds of devices that programs name; those that there is no backend for are refused."""

    automatic = "automatic"
    cpu = "cpu"
    cuda = "cuda"
    vulkan = "vulkan"
    d3d12 = "d3d12"
    metal = "metal"
    wgpu = "wgpu"


# What programs pass that means nothing here: accepted if it is of these types.
_IGNORED: dict[str, tuple[type, ...]] = {
    "enable_cuda_interop": (bool,),
    "enable_print": (bool,),
    "enable_debug_layers": (bool,),
    "enable_hot_reload": (bool,),
    "enable_compilation_reports": (bool,),
    "enable_rhi_validation": (bool,),
    "adapter_luid": (list, tuple, bytes, type(None)),
    "label": (str,),
    "shader_cache_path": (str, Path, type(None)),
    "module_cache_path": (str, Path, type(None)),
    "bindless_options": (dict, object),
    "existing_device_handles": (list, tuple, type(None)),
}


class Device:
    """A device with its program."""

    def __init__(
        self,
        type: DeviceType | str | None = None,
        backend: str | None = None,
        include_paths: Iterable[str | Path] = (),
        defines: dict[str, str] | None = None,
        options: Options | None = None,
        **ignored: Any,
    ) -> None:
        _check_ignored(ignored)
        self.type = DeviceType.cpu
        self.backend = _backend(type, backend)
        self.options = Options.from_environment() if options is None else options
        self.label: str = ignored.get("label", "")
        self.runtime = CpuDevice(self.options)
        self.program = Program(self.options, _folders(include_paths), defines)
        self.compiler = KernelCompiler(self.program, self.options, self.backend)
        self._loaded: dict[str, str] = {}
        self._aliases: dict[CheckedModule, str] = {}

    def __repr__(self) -> str:
        return f"Device(type={self.type.name}, backend={self.backend!r})"

    def load_checked(self, name: str) -> tuple[CheckedModule, str]:
        """A module by name or path, and that name."""
        with self.compiler.lock:
            return self.program.load_module(name), name

    def add_source(self, name: str, text: str) -> tuple[CheckedModule, str]:
        """A module from its text. The same name with another text is another module."""
        with self.compiler.lock:
            if self._loaded.get(name) != text:
                self.program.add_source(name, text)
                self._loaded[name] = text
            return self.program.modules[name], name

    def imports_of(self, module: CheckedModule) -> tuple[str, ...]:
        """What a kernel imports in order to see a module and all that it sees."""
        seen: list[CheckedModule] = []
        pending = [module]
        while pending:
            each = pending.pop(0)
            if each not in seen:
                seen.append(each)
                pending += each.imports
        return tuple(map(self._import_name, seen))

    def _import_name(self, module: CheckedModule) -> str:
        """The name of a module, or another one where a newer module has taken its name."""
        if self.program.modules.get(module.name) is module:
            return module.name
        if module not in self._aliases:
            alias = self._aliases[module] = f"{module.name}#{len(self._aliases) + 1}"
            self.program.modules[alias] = module
        return self._aliases[module]

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        self.runtime.synchronize()

    wait = synchronize
    wait_for_idle = synchronize


def create_device(
    type: DeviceType | str | None = None,
    backend: str | None = None,
    include_paths: Iterable[str | Path] = (),
    **ignored: Any,
) -> Device:
    """A device: the machine's processors, or the interpreter that everything is compared with."""
    return Device(type, backend, include_paths, **ignored)


def _backend(type: DeviceType | str | None, backend: str | None) -> str:
    wanted = type.value if isinstance(type, DeviceType) else type
    if wanted not in (None, "automatic", CPU):
        message = f"type: there is no backend for '{wanted}'"
        raise CallError("E1015", message, (), "leave it out, or pass DeviceType.cpu")
    name = backend or os.environ.get("SLANGRAD_BACKEND") or CPU
    if name not in BACKENDS:
        raise CallError("E1015", f"backend: unknown backend '{name}'", (), f"there are {', '.join(BACKENDS)}")
    return name


def _folders(include_paths: Iterable[str | Path]) -> list[Path]:
    if isinstance(include_paths, (str, Path)):
        raise CallError("E1015", "include_paths: expected a list of folders, not one path")
    return [Path(each) for each in include_paths]


def _check_ignored(ignored: dict[str, Any]) -> None:
    for name, value in ignored.items():
        if name not in _IGNORED:
            raise TypeError(f"create_device() got an unexpected keyword argument '{name}'")
        if not isinstance(value, _IGNORED[name]):
            raise TypeError(f"{name}: {type(value).__name__} is not what this option takes")
