"""Devices: kernels run on them, with the modules loaded for them.

    device = create_device(include_paths=["shaders"])        # SLANGRAD_BACKEND=interpreter for the oracle
    module = device.load_module("polynomial")

One session holds all modules of a device, so they can import each other. A new device becomes the current one
(`current.py`).
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slangrad.api.devices.current import is_current, pop_current_device, push_current_device
from slangrad.api.devices.textures import MakesTextures
from slangrad.api.sessions.callbacks import Callbacks, RecordingCallbacks
from slangrad.api.sessions.desc import DeviceDesc, DeviceType, SlangCompilerOptions
from slangrad.api.sessions.hot_reload import HotReload, ShaderHotReloadEvent
from slangrad.api.sessions.session import SHADER, LoadsModules, SlangSession
from slangrad.backends import BACKENDS
from slangrad.base.lazy import LazyModule
from slangrad.base.options import Options, store_of
from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.base.process.threads import WeakBag
from slangrad.base.process.unique import Unique
from slangrad.call.binding.call_request import CheckMode
from slangrad.marshal.errors import CallError
from slangrad.runtime.device import Device as RuntimeDevice
from slangrad.runtime.device import DeviceMissing
from slangrad.runtime.reports import write_text
from slangrad.tensors.buffer import READ_WRITE, Buffer, BufferDesc, BufferUsage, MemoryType
from slangrad.tensors.elements.conversion import AnyArray, HostValue

if TYPE_CHECKING:
    from slangrad.api.devices import capture as CAPTURE
    from slangrad.api.devices import features as ABILITIES
    from slangrad.api.devices import reports as REPORTS
    from slangrad.api.functional.function import Function
    from slangrad.api.kernels import commands as COMMANDS
    from slangrad.api.kernels import fences as FENCES
    from slangrad.api.kernels import kernel as KERNEL
    from slangrad.api.kernels import pipeline as PIPELINE
    from slangrad.api.kernels import shader_block as BLOCK
    from slangrad.api.kernels import shader_cursor as CURSOR
    from slangrad.api.kernels.shader import ShaderProgram
    from slangrad.api.reflection import program_layout as REFLECTION
    from slangrad.api.reflection.program_layout import ReflectionCursor, TypeLayoutReflection
    from slangrad.check.modules import CheckedProgram
    from slangrad.tensors.textures import formats as FORMATS
else:
    ABILITIES = LazyModule("slangrad.api.devices.features")
    REPORTS = LazyModule("slangrad.api.devices.reports")
    CAPTURE = LazyModule("slangrad.api.devices.capture")
    COMMANDS = LazyModule("slangrad.api.kernels.commands")
    KERNEL = LazyModule("slangrad.api.kernels.kernel")
    BLOCK = LazyModule("slangrad.api.kernels.shader_block")
    CURSOR = LazyModule("slangrad.api.kernels.shader_cursor")
    FENCES = LazyModule("slangrad.api.kernels.fences")
    REFLECTION = LazyModule("slangrad.api.reflection.program_layout")
    FORMATS = LazyModule("slangrad.tensors.textures.formats")
    PIPELINE = LazyModule("slangrad.api.kernels.pipeline")

SHADER_PATH = str(Path(__file__).parents[2] / "std")  # the library's folder, which is always searched

CPU, CUDA = "cpu", "cuda"
CPU_NAMES = (None, "automatic", CPU)


class Device(Unique, RecordingCallbacks, LoadsModules, MakesTextures):
    """Runs functions and kernels, and has their modules, memory and settings. The newest device is current
    (`current_device`); `with device:` makes another one current inside. `close()` ends its use."""

    def __init__(
        self,
        type: DeviceType | str | None = None,
        backend: str | None = None,
        include_paths: Iterable[str | Path] = (),
        defines: dict[str, str] | None = None,
        options: Options | None = None,
        compiler_options: SlangCompilerOptions | Mapping[str, object] | None = None,
        desc: DeviceDesc | None = None,
        **described: object,
    ) -> None:
        """See `create_device`. `defines` are macros of Slang, `options` settings of ours (the environment gives the
        defaults), `compiler_options` those in SlangPy's words, `described` fields of a DeviceDesc. TypeError for
        unknown names, CallError (E1015) for other kinds of devices."""
        super().__init__()
        self.desc = DeviceDesc() if desc is None else replace(desc)
        for name, value in described.items():
            self.desc.set(name, value)
        wanted, index = _with_index(self.desc.type if type is None else type)
        self.backend = _backend(wanted, backend)
        self.type = self.desc.type = DeviceType.cuda if self.backend == CUDA else DeviceType.cpu
        self.options = Options.from_environment() if options is None else options
        self.options = replace(self.options, prints=self.options.prints or self.desc.enable_print)
        self.options = replace(self.options, store=self.desc.store() or self.options.store)
        self.runtime = _runtime(self.backend, self.options, index)
        self.target = self.options.target or self.runtime.target(self.backend)
        chosen = SlangCompilerOptions.of(compiler_options or self.desc.compiler_options)
        chosen.include_paths = [*_folders(include_paths), *chosen.include_paths]
        chosen.defines = {**chosen.defines, **(defines or {})}
        self.desc.compiler_options = chosen
        self.sessions: WeakBag[SlangSession] = WeakBag()
        self.programs: WeakBag[ShaderProgram] = WeakBag()
        self.hot_reload = HotReload(self, self.desc.enable_hot_reload)
        self._lock = kept_at_fork(threading.Lock(), BRIEF)
        self._check_modes = [CheckMode()] if self.options.check else []
        self.checking = self._check_modes[-1] if self._check_modes else None  # calls read it once
        self.package_modules: dict[str, object] = {}  # modules of slangrad's own texts, by name
        self.slang_session = SlangSession(self, chosen, self.options, self.desc.module_cache_path)
        self._submits: int = 0
        self._close_callbacks: Callbacks[Device] = Callbacks()
        _created.add(self)
        push_current_device(self)

    @contextmanager
    def check_mode(
        self, *, gradients: bool = True, rtol: float | None = None, atol: float = 0.0
    ) -> Iterator[None]:
        """A context. Calls of functions and kernels inside stop at the first NaN or infinity (NotFiniteError), and
        at a pointer that leads to no memory (PointerError). With `gradients` each `bwds` is compared with finite
        differences (GradientError). Tolerances follow the type unless `rtol` or `atol` is given.

        Calls of all threads that begin inside are checked. Of several contexts that are open, in one thread or in
        many, the one that was entered last counts."""
        mode = CheckMode(gradients, rtol, atol)
        self._set_check_modes(lambda modes: [*modes, mode])
        try:
            yield
        finally:
            self._set_check_modes(lambda modes: [other for other in modes if other is not mode])

    def _set_check_modes(self, change: Callable[[list[CheckMode]], list[CheckMode]]) -> None:
        with self._lock:
            self._check_modes = change(self._check_modes)
            self.checking = self._check_modes[-1] if self._check_modes else None

    def __getattr__(self, name: str) -> NoReturn:
        raise import_module("slangrad.missing_names").missing("'Device'", name)

    def __repr__(self) -> str:
        return f"Device(type={self.type.name}, backend={self.backend!r})"

    @property
    def label(self) -> str:
        """Its `label`, a name for people; empty without one."""
        return self.desc.label

    # --- Life time ---

    def __enter__(self) -> Device:
        push_current_device(self)
        return self

    def __exit__(self, *raised: object) -> None:
        if is_current(self):
            pop_current_device()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called: later uses of the device raise DeviceClosedError."""
        return self.runtime.is_closed

    def close(self) -> None:
        """Refuse all later uses of the device. Arrays that share memory of its tensors stay valid."""
        if self.is_closed:
            return
        self.flush_print()
        self.runtime.close()
        self.hot_reload.stop()
        _created.discard(self)
        self._close_callbacks.tell(self)
        for callbacks in (self._close_callbacks, self.recordings_submitted, self.recordings_discarded):
            callbacks.clear()
        if is_current(self):
            pop_current_device()

    def register_device_close_callback(self, callback: Callable[[Device], None]) -> int:
        """Call `callback(device)` when the device is closed. Gives a number to unregister it by."""
        return self._close_callbacks.add(callback)

    def unregister_device_close_callback(self, callback_id: int) -> None:
        """Remove the callback of that number, if it is there."""
        self._close_callbacks.remove(callback_id)

    @staticmethod
    def get_created_devices() -> list[Device]:
        """All devices that are referenced and not closed."""
        return list(_created)

    @staticmethod
    def enumerate_adapters(type: DeviceType | str | None = None) -> list[ABILITIES.AdapterInfo]:
        """The adapters for `create_device`: the machine's processors, for `cpu` and `automatic`."""
        return [ABILITIES.AdapterInfo(_processor())] if name_of(type) in CPU_NAMES else []

    def set_cuda_context_current(self) -> None:
        """Nothing: this device has no context of CUDA."""

    def explain(self, function: Function, /, *args: object, **kwargs: object) -> object:
        """The values that reverse sweeps keep, with reasons: `device.explain(module.f.bwds, x, _result=y)`."""
        return function.compile(*args, **kwargs).explanation

    # --- Reports ---

    def report_heaps(self) -> list[REPORTS.HeapReport]:
        """The memory that tensors and buffers take."""
        return REPORTS.heap_reports(self.runtime)

    def memory_report(self) -> REPORTS.MemoryReport:
        """The memory in use, the most that was, and what the GPU has left. `print` shows it in MiB."""
        return REPORTS.memory_report(self.runtime)

    def get_compilation_reports(self) -> list[dict[str, object]]:
        """`get_compilation_report()` of all programs that have pipelines; none unless the device was made with
        `enable_compilation_reports=True`."""
        wanted = self.desc.enable_compilation_reports
        return [program.get_compilation_report() for program in self.programs if wanted and program.pipelines]

    # --- Prints of kernels ---

    def flush_print(self) -> None:
        """Write the output of `print` of sgl.device.print to the standard output.
        `create_device(enable_print=True)` turns that `print` on."""
        write_text(self.flush_print_to_string())

    def flush_print_to_string(self) -> str:
        """The lines that were printed since the last time. Waits for the launches that print."""
        return self.runtime.take_printed()

    # --- Files that change ---

    @property
    def shader_cache_stats(self) -> REPORTS.ShaderCacheStats:
        """How much the folder of compiled kernels holds, and how often kernels were looked for there. The user's
        folder is counted for all devices of the process, one of the device's own (`shader_cache_path`) for the
        device."""
        return REPORTS.cache_stats(store_of(self.options))

    def reload_all_programs(self) -> None:
        """Load all modules anew. If the new texts have errors, there is a ReloadWarning and no module changes."""
        self.hot_reload.reload_all()

    def hot_reload_check(self) -> None:
        """Look at the files of modules now, and load those that have changed. Without this a thread looks at them,
        and the next call loads."""
        self.hot_reload.check()

    def set_hot_reload_delay(self, timeout_ms: int) -> None:
        """How many milliseconds pass between two looks at the files."""
        self.hot_reload.set_delay(timeout_ms / 1000)

    def register_shader_hot_reload_callback(self, callback: Callable[[ShaderHotReloadEvent], object]) -> int:
        """Call `callback(event)` after each reload, in the thread that asked for it or called. Gives a number to
        unregister it by."""
        return self.hot_reload.callbacks.add(callback)

    def unregister_shader_hot_reload_callback(self, callback_id: int) -> None:
        """Remove a callback by the number that its registration gave."""
        self.hot_reload.callbacks.remove(callback_id)

    # --- Modules and kernels ---

    @property
    def program(self) -> CheckedProgram:
        """All modules of the device's own session."""
        return self.slang_session.program

    def create_slang_session(
        self,
        compiler_options: SlangCompilerOptions | Mapping[str, object] | None = None,
        add_default_include_paths: bool = True,
        cache_path: str | Path | None = None,
    ) -> SlangSession:
        """A session with its own settings and modules. It also compiles modules that it reads from files into the
        folder `cache_path`."""
        return SlangSession(self, SlangCompilerOptions.of(compiler_options), self.options, cache_path)

    def create_compute_kernel(self, program: ShaderProgram) -> KERNEL.ComputeKernel:
        """Compile the first entry point of a program. CallError (E1020) for other objects."""
        if not isinstance(program, SHADER.ShaderProgram):
            note = "link_program() and load_program() give one"
            raise CallError("E1020", f"program: {type(program).__name__} is no program", (), note)
        return KERNEL.ComputeKernel(program)

    def create_compute_pipeline(
        self, program: ShaderProgram, defer_target_compilation: bool = False, label: str = ""
    ) -> PIPELINE.ComputePipeline:
        """The pipeline of a kernel, for cursors: `compute_pass.bind_pipeline(pipeline)`. It is compiled now."""
        return PIPELINE.ComputePipeline(program)

    def create_root_shader_object(self, program: ShaderProgram) -> CURSOR.ShaderObject:
        """The parameters of a program, to be written by cursors."""
        return CURSOR.ShaderObject(PIPELINE.ComputePipeline(program))

    def create_shader_object(self, type_layout: ReflectionCursor | TypeLayoutReflection) -> BLOCK.ShaderBlock:
        """Values for a struct, constant buffer or parameter block, to be written by a cursor and passed to launches:
        `type_layout` is the type's layout or a cursor to it, `kernel.reflection["spring"]`. CallError (E1015,
        E1019) for a type without fields."""
        return BLOCK.ShaderBlock(type_layout)

    def create_buffer(
        self,
        desc: BufferDesc | int | None = None,
        *,
        size: int | None = None,
        element_count: int | None = None,
        struct_size: int | None = None,
        struct_type: object = None,
        resource_type_layout: object = None,
        format: HostValue = None,
        usage: BufferUsage = READ_WRITE,
        memory_type: MemoryType = MemoryType.device_local,
        label: str = "",
        data: AnyArray | None = None,
    ) -> Buffer:
        """Memory of `size` bytes, of `element_count` elements, or as big as `data`, a contiguous NumPy array which is
        copied into it. Without `data` the bytes are not initialized.

        Elements have a `struct_size` in bytes, or a type: `struct_type`, that of a `format`, or that of a structured
        buffer's `resource_type_layout`. Without unordered access in `usage` no kernel writes there. `label` is a name
        for people. ValueError where sizes do not fit together, TypeError for `data` that is no array.
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
        elif element is None and format is not None:
            element = FORMATS.element_of(format)
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

    def capture(self) -> CAPTURE.CapturedCalls:
        """Record calls. The device records the calls that this thread makes in the block, and does not run them.
        `g()` runs the recorded calls. On a GPU they are one CUDA graph.

        with device.capture() as g:
            step(x, _result=y)
        g()
        """
        captured: CAPTURE.CapturedCalls = CAPTURE.CapturedCalls(self)
        return captured

    # --- Commands ---

    def create_command_encoder(self, queue: FENCES.CommandQueueType | None = None) -> COMMANDS.CommandEncoder:
        """Records commands, which run when they are submitted."""
        return COMMANDS.CommandEncoder(self, queue)

    def create_fence(
        self, desc: FENCES.FenceDesc | None = None, *, initial_value: int = 0, shared: bool = False
    ) -> FENCES.Fence:
        """A number that submitted commands signal, for others to wait for."""
        fence_desc = FENCES.FenceDesc(initial_value, shared) if desc is None else desc
        return FENCES.Fence(self, fence_desc)

    def create_query_pool(self, type: FENCES.QueryType, count: int) -> FENCES.QueryPool:
        """Room for the times that `encoder.write_timestamp(pool, index)` notes."""
        return FENCES.QueryPool(self, FENCES.QueryPoolDesc(type, count))

    def submit_command_buffer(
        self, command_buffer: COMMANDS.CommandBuffer, queue: object = None, cuda_stream: object = None
    ) -> int:
        """Run recorded commands; they are finished when this returns. Gives a number for `wait_for_submit`.
        CommandError (E1021) for other objects, and for buffers of another device.
        """
        if not isinstance(command_buffer, COMMANDS.CommandBuffer):
            kind = type(command_buffer).__name__
            raise COMMANDS.CommandError(
                "E1021", f"{kind} is no command buffer", (), "encoder.finish() gives one"
            )
        if command_buffer.device is not self:
            raise COMMANDS.CommandError("E1021", "the command buffer belongs to another device")
        self.runtime.keep_recorded(command_buffer)
        command_buffer.run()
        self._submits += 1
        command_buffer.submitted(self._submits)
        return int(self._submits)

    def submit_command_buffers(
        self,
        command_buffers: Sequence[COMMANDS.CommandBuffer],
        wait_fences: Sequence[FENCES.Fence] = (),
        wait_fence_values: Sequence[int] = (),
        signal_fences: Sequence[FENCES.Fence] = (),
        signal_fence_values: Sequence[int] = (),
        queue: object = None,
        cuda_stream: object = None,
    ) -> int:
        """The same for several command buffers. Waits for fences first, and signals fences afterwards."""
        if wait_fences:
            FENCES.check_waits(wait_fences, wait_fence_values)
        for command_buffer in command_buffers:
            self.submit_command_buffer(command_buffer)
        if signal_fences:
            FENCES.signal_all(signal_fences, signal_fence_values)
        return int(self._submits)

    def is_submit_finished(self, id: int) -> bool:
        """Whether a submission has finished; each has when `submit_command_buffer` returns."""
        return id <= self._submits

    def wait_for_submit(self, id: int) -> None:
        """Wait for a submission, by the number that `submit_command_buffer` gave."""
        self.synchronize()

    # --- Abilities ---

    @property
    def features(self) -> list[ABILITIES.Feature]:
        """The features for which `has_feature` is True."""
        return list(ABILITIES.FEATURES)

    def has_feature(self, feature: ABILITIES.Feature | str) -> bool:
        """Whether the device can do something: a Feature or its name; False for unknown names."""
        name = feature if isinstance(feature, str) else feature.name
        return any(name == known_feature.name for known_feature in ABILITIES.FEATURES)

    @property
    def supported_shader_model(self) -> ABILITIES.ShaderModel:
        """The highest of Direct3D's versions; all its parts that are not about graphics are supported."""
        return max(ABILITIES.ShaderModel)

    @property
    def info(self) -> ABILITIES.DeviceInfo:
        """The device's identity: the type, the backend's name, the processor's name."""
        adapter = self.runtime.name if self.backend == CUDA else _processor()
        return ABILITIES.DeviceInfo(self.type, self.backend.upper(), adapter)

    # --- Waiting ---

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        self.runtime.synchronize()

    wait = synchronize

    def wait_for_idle(self, queue: object = None) -> None:
        """See `synchronize`."""
        self.synchronize()

    def sync_to_cuda(self, cuda_stream: int = 0) -> None:
        """What is launched from now on comes after what was put on that stream of CUDA; no effect on the CPU."""
        self.runtime.follow(cuda_stream)

    def sync_to_device(self, cuda_stream: int = 0) -> None:
        """What is put on that stream of CUDA from now on comes after what was launched; no effect on the CPU."""
        self.runtime.precede(cuda_stream)


# Devices that are neither closed nor garbage.
_created: WeakBag[Device] = WeakBag()


def _processor() -> str:
    return platform.processor() or platform.machine()


def name_of(type: DeviceType | str | None) -> str | None:
    return type.value if isinstance(type, DeviceType) else type


def _backend(type: DeviceType | str | None, backend: str | None) -> str:
    wanted = name_of(type)
    if wanted not in (*CPU_NAMES, CUDA):
        message = f"type: there is no backend for '{wanted}'"
        raise CallError("E1015", message, (), "leave it out, or pass DeviceType.cpu or DeviceType.cuda")
    name = backend or (CUDA if wanted == CUDA else os.environ.get("SLANGRAD_BACKEND") or CPU)
    if name not in BACKENDS:
        raise CallError("E1015", f"backend: unknown backend '{name}'", (), f"there are {', '.join(BACKENDS)}")
    if (name == CUDA) != (wanted == CUDA) and wanted in (CPU, CUDA):
        raise CallError("E1015", f"backend: '{name}' is no backend of a device of type '{wanted}'")
    return name


def _with_index(type: DeviceType | str | None) -> tuple[DeviceType | str | None, int]:
    """A type and the number of the GPU: "cuda:1"  ->  "cuda", 1."""
    name, colon, number = (type if isinstance(type, str) else "").partition(":")
    if name != CUDA or not colon:
        return type, 0
    if not number.isdecimal():
        raise CallError("E1015", f"type: '{type}' has no number of a GPU", (), "cuda:0 is the first one")
    return name, int(number)


def _runtime(backend: str, options: Options, index: int) -> RuntimeDevice:
    try:
        return BACKENDS[backend].device(options, index)
    except DeviceMissing as error:
        raise CallError("E1015", f"type: {error.message}", (), error.note) from None


def _folders(include_paths: Iterable[str | Path]) -> list[Path]:
    if isinstance(include_paths, (str, Path)):
        raise CallError("E1015", "include_paths: expected a list of folders, not one path")
    folders = list(include_paths)
    for folder in folders:
        if not isinstance(folder, (str, os.PathLike)):
            raise CallError("E1015", f"include_paths: {type(folder).__name__} is no path")
    return [Path(folder) for folder in folders]
