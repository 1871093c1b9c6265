"""Devices: where kernels run, and the modules loaded for them.

    device = create_device(include_paths=["shaders"])        # SLANGRAD_BACKEND=interpreter for the oracle
    module = device.load_module("polynomial")

One session holds all modules of a device, so they can import each other.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slangrad.api.compiler_options import SlangCompilerOptions
from slangrad.api.features import FEATURES, DeviceInfo, DeviceType, Feature
from slangrad.api.session import SHADER, SlangSession
from slangrad.base.late import Late
from slangrad.base.options import Options
from slangrad.marshal.errors import CallError
from slangrad.runtime.cpu import CpuDevice
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferDesc, BufferUsage, MemoryType
from slangrad.tensors.conversion import AnyArray

if TYPE_CHECKING:
    from slangrad.api.commands import CommandBuffer, CommandEncoder
    from slangrad.api.kernel import ComputeKernel, ComputePipeline
    from slangrad.api.shader import ShaderProgram, SlangEntryPoint, SlangModule
    from slangrad.api.shader_cursor import ShaderObject
    from slangrad.check.modules import Program

COMMANDS, KERNEL = Late("slangrad.api.commands"), Late("slangrad.api.kernel")
CURSOR, REFLECTION = Late("slangrad.api.shader_cursor"), Late("slangrad.api.reflection")

CPU, INTERPRETER = "cpu", "interpreter"
BACKENDS = (CPU, INTERPRETER)


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
        compiler_options: SlangCompilerOptions | Mapping[str, Any] | None = None,
        **ignored: Any,
    ) -> None:
        _check_ignored(ignored)
        self.type = DeviceType.cpu
        self.backend = _backend(type, backend)
        self.options = Options.from_environment() if options is None else options
        self.label: str = ignored.get("label", "")
        self.runtime = CpuDevice(self.options)
        given = SlangCompilerOptions.of(compiler_options)
        given.include_paths = [*_folders(include_paths), *given.include_paths]
        given.defines = {**given.defines, **(defines or {})}
        self.slang_session = SlangSession(self, given, self.options)
        self._submits: int = 0

    def __repr__(self) -> str:
        return f"Device(type={self.type.name}, backend={self.backend!r})"

    def explain(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """What the reverse sweeps of a call keep and why: `device.explain(module.f.bwds, x, _result=y)`."""
        return function.compile(*args, **kwargs).explanation

    # --- Modules and kernels ---

    @property
    def program(self) -> Program:
        """All modules of the device's own session."""
        return self.slang_session.program

    def create_slang_session(
        self,
        compiler_options: SlangCompilerOptions | Mapping[str, Any] | None = None,
        add_default_include_paths: bool = True,
        cache_path: str | Path | None = None,
    ) -> SlangSession:
        """A session with settings of its own; it knows nothing of the modules of others."""
        return SlangSession(self, SlangCompilerOptions.of(compiler_options), self.options)

    def load_module(self, module_name: str) -> SlangModule:
        return self.slang_session.load_module(module_name)

    def load_module_from_source(
        self, module_name: str, source: str, path: str | Path | None = None
    ) -> SlangModule:
        return self.slang_session.load_module_from_source(module_name, source, path)

    def link_program(
        self,
        modules: Sequence[SlangModule],
        entry_points: Sequence[SlangEntryPoint],
        link_options: object = None,
    ) -> ShaderProgram:
        return self.slang_session.link_program(modules, entry_points, link_options)

    def load_program(
        self,
        module_name: str,
        entry_point_names: Sequence[str],
        additional_source: str | None = None,
        link_options: object = None,
    ) -> ShaderProgram:
        """The program of a module and some of its entry points."""
        return self.slang_session.load_program(
            module_name, entry_point_names, additional_source, link_options
        )

    def create_compute_kernel(self, program: ShaderProgram) -> ComputeKernel:
        """Compile the first entry point of a program."""
        if not isinstance(program, SHADER.ShaderProgram):
            note = "link_program() and load_program() give one"
            raise CallError("E1020", f"program: {type(program).__name__} is no program", (), note)
        made: ComputeKernel = KERNEL.ComputeKernel(program)
        return made

    def create_compute_pipeline(self, program: ShaderProgram) -> ComputePipeline:
        """What a kernel launches, for cursors: `compute_pass.bind_pipeline(pipeline)`."""
        made: ComputePipeline = KERNEL.ComputePipeline(program)
        return made

    def create_root_shader_object(self, program: ShaderProgram) -> ShaderObject:
        """The parameters of a program, to be written by cursors."""
        made: ShaderObject = CURSOR.ShaderObject(KERNEL.ComputePipeline(program))
        return made

    def create_buffer(
        self,
        desc: BufferDesc | int | None = None,
        *,
        size: int | None = None,
        element_count: int | None = None,
        struct_size: int | None = None,
        struct_type: object = None,
        resource_type_layout: object = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        label: str = "",
        data: AnyArray | None = None,
    ) -> Buffer:
        """Memory of `size` bytes, of `element_count` elements, or as big as `data`, which is copied into it.

        Elements have a `struct_size` in bytes, or a type: `struct_type`, or that of a structured buffer's
        `resource_type_layout`.
        """
        if isinstance(desc, BufferDesc):
            return Buffer.create(
                self,
                desc.size,
                struct_size=desc.struct_size or None,
                usage=desc.usage,
                memory_type=desc.memory_type,
                data=data,
                label=desc.label,
            )
        element = struct_type
        if resource_type_layout is not None:
            element = REFLECTION.element_of_resource(resource_type_layout)
        return Buffer.create(
            self,
            size if desc is None else desc,
            element_type=element,
            element_count=element_count,
            struct_size=struct_size or None,
            usage=usage,
            memory_type=memory_type,
            data=data,
            label=label,
        )

    # --- Commands ---

    def create_command_encoder(self, queue: object = None) -> CommandEncoder:
        """Records commands, which run when they are submitted."""
        made: CommandEncoder = COMMANDS.CommandEncoder(self)
        return made

    def submit_command_buffer(
        self, command_buffer: CommandBuffer, queue: object = None, cuda_stream: object = None
    ) -> int:
        """Run recorded commands; they are finished when this returns. Gives a number for `wait_for_submit`."""
        if command_buffer.device is not self:
            raise COMMANDS.CommandError("E1021", "the command buffer belongs to another device")
        command_buffer.run()
        self._submits += 1
        return int(self._submits)

    def submit_command_buffers(self, command_buffers: Sequence[CommandBuffer], queue: object = None) -> int:
        for each in command_buffers:
            self.submit_command_buffer(each)
        return int(self._submits)

    def is_submit_finished(self, id: int) -> bool:
        return id <= self._submits

    def wait_for_submit(self, id: int) -> None:
        self.synchronize()

    # --- Abilities ---

    @property
    def features(self) -> list[Feature]:
        return list(FEATURES)

    def has_feature(self, feature: Feature | str) -> bool:
        name = feature.name if isinstance(feature, Feature) else feature
        return any(name == each.name for each in FEATURES)

    @property
    def info(self) -> DeviceInfo:
        return DeviceInfo(self.type, self.backend.upper(), platform.processor() or platform.machine())

    # --- Waiting ---

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
