"""Sessions: modules that were compiled with the same settings, and can import each other.

    session = device.create_slang_session(compiler_options={"defines": {"N": "4"}})
    module = session.load_module_from_source("scale", text)
    program = session.link_program([module], [module.entry_point("main")])

A device has its own session, which its methods of these names use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from slangrad.api.sessions.desc import SlangCompilerOptions
from slangrad.api.sessions.generation import Generation, KnownModule
from slangrad.api.sessions.module_cache import ModuleCache
from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.base.lazy import LazyModule
from slangrad.base.module_file import SUFFIX, ModuleFileError, from_bytes
from slangrad.base.options import Options
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.base.process.threads import WeakBag
from slangrad.base.source import SourceFile
from slangrad.call.compiling.recipe import Step, perform
from slangrad.marshal.errors import CallError

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.api.kernels.shader import ShaderProgram, SlangEntryPoint, SlangModule, TypeConformance
    from slangrad.call.binding.module_index import FoundModule, ModuleIndex
    from slangrad.call.compiling.compile import KernelCompiler
    from slangrad.check.checked_module import CheckedModule
    from slangrad.check.modules import CheckedProgram


SHADER = LazyModule("slangrad.api.kernels.shader")


_numbers = count()
# Modules on disk from an earlier process, by the step that makes them.
# fmt: off
_FIND: dict[str, Callable[..., FoundModule | None]] = {
    "file":        lambda index, name: index.find(name),
    "source":      lambda index, name, text, path: index.of_text(
                       name, SourceFile(path or name, text), Path(path) if path else None),
    "precompiled": lambda index, name, path, data: index.of_precompiled(name, Path(path), data.encode("latin-1")),
}
# fmt: on


class LoadedModule:
    """A requested module of a session; it stays the same across reloads. `step` is how it is made, perhaps of other
    modules. One that `is_whole` consists of texts of the user alone, so later processes may find it on disk."""

    def __init__(
        self,
        session: SlangSession,
        name: str,
        step: Step,
        made_of: tuple[LoadedModule, ...] = (),
        is_whole: bool = True,
    ) -> None:
        self.session = session
        self.name = name
        self.step = step
        self.made_of = made_of
        self.is_whole = is_whole
        self.number = next(_numbers)
        self.seen_as: SlangModule | None = None

    @property
    def known(self) -> KnownModule:
        """As it is now."""
        return self.session.generation.of(self)

    @property
    def checked(self) -> CheckedModule:
        return self.known.checked

    def find(self, index: ModuleIndex) -> FoundModule | None:
        """The module on disk from an earlier process."""
        return _FIND[self.step[0]](index, *self.step[1:]) if self.is_whole else None

    def load(self, generation: Generation, program: CheckedProgram) -> CheckedModule:
        """The module in a program, where it is not yet."""
        checked: CheckedModule = perform(
            program, self.step, [generation.of(part).checked for part in self.made_of]
        )
        return checked


@dataclass(frozen=True, slots=True)
class SlangSessionDesc:
    """The arguments of a session."""

    compiler_options: SlangCompilerOptions


class LoadsModules:
    """The common base of devices and sessions: modules and programs of `slang_session`."""

    slang_session: SlangSession

    def load_module(self, module_name: str) -> SlangModule:
        """A module of the session: the file `module_name`, a path or a name in the include paths, with or without
        `.slang`. SlangCompileError where it is wrong or missing."""
        session = self.slang_session
        return session.module_of(session.load(str(module_name)))

    def load_module_from_source(
        self, module_name: str, source: str, path: str | Path | None = None
    ) -> SlangModule:
        """A module of the session from its text. `path` is named in messages, and its folder is looked in for imports.
        SlangCompileError where it is wrong."""
        session = self.slang_session
        return session.module_of(session.add_source(module_name, source, Path(path) if path else None))

    def load_module_from_ir_blob(
        self, module_name: str, blob: bytes, path: str | Path | None = None
    ) -> SlangModule:
        """A module of the session from the bytes of a precompiled one (`SlangModule.serialize`). `path` is named in
        messages, and its folder is looked in for imports. SlangCompileError (E0330) for other bytes."""
        session = self.slang_session
        return session.module_of(session.add_precompiled(module_name, bytes(blob), path))

    def compose_modules(
        self,
        name: str,
        modules: Sequence[SlangModule],
        type_conformances: Sequence[TypeConformance | tuple[object, ...]] = (),
    ) -> SlangModule:
        """Modules under one name, with the entry points of all. `type_conformances` say which types interfaces can
        hold. CallError (E1020) for no modules, and for those of other sessions."""
        self.slang_session.check_own("compose_modules", modules)
        if not modules:
            raise CallError("E1020", "compose_modules: there are no modules to compose")
        flat = [source for module in modules for source in module.source_modules or (module,)]
        composed: SlangModule = SHADER.ComposedModule(name, flat, SHADER.conformances_of(type_conformances))
        return composed

    def link_program(
        self,
        modules: Sequence[SlangModule],
        entry_points: Sequence[SlangEntryPoint],
        link_options: object = None,
    ) -> ShaderProgram:
        """The program of modules and of entry points of these. CallError (E1020) where they are of other sessions,
        CompileError where an entry point mentions features that are not supported."""
        session = self.slang_session
        session.check_own("link_program", (*modules, *entry_points))
        modules = [source for module in modules for source in module.source_modules or (module,)]
        linked = {module: session.linked(module, modules) for module in modules}
        entries = tuple(entry.moved_to(linked.get(entry.module, entry.module)) for entry in entry_points)
        for entry in entries:
            session.program.refusals.require_none(entry.declaration.span)
        program: ShaderProgram = SHADER.ShaderProgram(session, tuple(linked.values()), entries)
        return program

    def load_program(
        self,
        module_name: str,
        entry_point_names: Sequence[str],
        additional_source: str | None = None,
        link_options: object = None,
    ) -> ShaderProgram:
        """The program of a module (see `load_module`) and of its entry points of these names. `additional_source` is
        one more module that is linked."""
        module = self.load_module(module_name)
        if isinstance(entry_point_names, str):
            entry_point_names = [entry_point_names]
        modules = [module]
        if additional_source:
            modules.append(self.load_module_from_source(f"{module_name} (additional)", additional_source))
        return self.link_program(modules, [module.entry_point(name) for name in entry_point_names])


class SlangSession(LoadsModules):
    """A program: one space of modules, with one set of include paths and macros."""

    def __init__(
        self,
        device: Device,
        compiler_options: SlangCompilerOptions,
        options: Options,
        module_cache: str | PathLike[str] | None = None,
    ) -> None:
        self.device = device
        self.target: str = device.target
        self.compiler_options = compiler_options
        self.settings = compiler_options.applied_to(options)
        self.lock = kept_at_fork(threading.RLock(), WORK, self._begin_anew)
        self._is_broken = False
        self._defines = _texts(compiler_options.defines)
        self.module_cache = None if module_cache is None else self._cache_in(module_cache)
        self.generation = Generation(self, self._defines)
        self._named: dict[str, LoadedModule] = {}
        self._provided_modules: dict[str, LoadedModule] = {}
        self._whole: WeakBag[LoadedModule] = (
            WeakBag()
        )  # these two, and texts whose name another one has taken
        self._built_modules: dict[tuple[Step, tuple[LoadedModule, ...]], LoadedModule] = {}
        device.sessions.add(self)

    def __repr__(self) -> str:
        return f"SlangSession(modules={[module.name for module in self._in_order()]})"

    def _in_order(self) -> list[LoadedModule]:
        """The requested modules."""
        return sorted(self._whole, key=lambda module: module.number)

    def loaded_before(self, loaded: LoadedModule) -> list[LoadedModule]:
        """The requested modules that were there before this one."""
        return [module for module in self._in_order() if module.number < loaded.number]

    @property
    def desc(self) -> SlangSessionDesc:
        """The arguments that the session was made with."""
        return SlangSessionDesc(self.compiler_options)

    @property
    def slang_session(self) -> SlangSession:  # type: ignore[override]
        """Itself."""
        return self

    @property
    def is_parsed(self) -> bool:
        """Whether the texts of the session have been parsed."""
        return self.generation.is_parsed

    @property
    def program(self) -> CheckedProgram:
        """The modules, parsed and checked."""
        return self.generation.program

    @property
    def compiler(self) -> KernelCompiler:
        """The compiler of kernels for the texts as they are now."""
        return self.generation.compiler

    def _cache_in(self, folder: str | PathLike[str]) -> ModuleCache:
        try:
            return ModuleCache(Path(folder), self.compiler_options.include_paths, self._defines)
        except OSError as problem:
            raise CallError("E1015", f"the folder of the module cache cannot be made: {problem}") from None

    # --- Reloading ---

    def refresh(self) -> None:
        """Load what was found to have changed."""
        self.device.hot_reload.refresh()

    def has_changed(self) -> bool:
        """Whether files have another text than the modules."""
        with self.lock:
            generation = self.generation
            generation.expired = False  # later changes are noticed again
            return self._is_broken or generation.files.changed()

    def reload(self) -> Exception | None:
        """Load all modules from their current files. Gives the errors; with errors no module changes."""
        with self.lock:
            old, new = self.generation, Generation(self, self._defines)
            try:
                for module in self._in_order():
                    new.of(module)
            except (CompileError, OSError, UnicodeDecodeError) as error:
                old.files.watch_also(new.files)
                return error
            self.generation = new
            old.expired = True
            self._is_broken = False
            return None

    def _begin_anew(self) -> None:
        """In a child of a fork, a thread that is gone may have half made the program: the next call makes it
        anew."""
        self._is_broken = self.generation.expired = True

    # --- Modules ---

    def load_source(self, module_name: str) -> str:
        """The text of a module's file."""
        return self.load_module(module_name).checked.declaration.source.text

    def module_of(self, loaded: LoadedModule) -> SlangModule:
        """The module as kernels see it; it is parsed if it was not."""
        with self.lock:
            loaded = self.generation.first_of(loaded)
            if loaded.seen_as is None:
                loaded.seen_as = SHADER.SlangModule(self, loaded)
            return loaded.seen_as

    def load(self, name: str) -> LoadedModule:
        """A module by name or path."""
        self.refresh()
        with self.lock:
            return self._named.get(name) or self._enter(self._named, LoadedModule(self, name, ("file", name)))

    def add_source(self, name: str, text: str, path: Path | None = None) -> LoadedModule:
        """A module from its text. The same name with another text is another module. CallError (E1015) for what is no
        text, CompileError for errors in it.
        """
        if not isinstance(text, str):
            raise CallError("E1015", f"source: a text is needed, not {type(text).__name__}")
        self.refresh()
        with self.lock:
            return self._enter_given(name, ("source", name, text, str(path or "")))

    def add_precompiled(self, name: str, data: bytes, path: str | Path | None) -> LoadedModule:
        """A module from the bytes of a precompiled one, as if they stood in the file of that path. CompileError
        (E0330) if they do not fit this version.
        """
        file = Path(path or f"{name}{SUFFIX}")
        self.refresh()
        try:
            from_bytes(data)
        except ModuleFileError as problem:
            raise CompileError([Diagnostic("E0330", f"'{file}' {problem}", None, problem.note)]) from None
        with self.lock:
            return self._enter_given(name, ("precompiled", name, str(file), data.decode("latin-1")))

    def _enter_given(self, name: str, step: Step) -> LoadedModule:
        """The module of a text; the same text of the same name is the same module."""
        module = self._provided_modules.get(name)
        if module is not None and module.step == step:
            return module
        return self._enter(self._provided_modules, LoadedModule(self, name, step))

    def imported(self, name: str) -> LoadedModule | None:
        """The newest module of this name."""
        modules = [
            module
            for module in (self._provided_modules.get(name), self._named.get(name))
            if module is not None
        ]
        return max(modules, key=lambda module: module.number, default=None)

    def page(self, name: str, text: str) -> SlangModule:
        """A text that was written around modules; it does not count among the modules to load."""
        return self.module_of(self._make(name, ("source", name, text, "")))

    def _make(self, name: str, step: Step, *made_of: LoadedModule) -> LoadedModule:
        """The module of a step; the same step is the same module."""
        with self.lock:
            module = LoadedModule(self, name, step, made_of, is_whole=False)
            return self._built_modules.setdefault((step, made_of), module)

    def _enter(self, modules: dict[str, LoadedModule], module: LoadedModule) -> LoadedModule:
        self.generation.of(module)
        modules[module.name] = module
        self._whole.add(module)
        self.device.hot_reload.watch(self)
        return module

    # --- Programs ---

    def check_own(self, title: str, parts: Sequence[object]) -> None:
        """CallError (E1020) unless all parts are modules or entry points of the session."""
        for part in parts:
            if not isinstance(part, (SHADER.SlangModule, SHADER.SlangEntryPoint)):
                message = f"{title}: {type(part).__name__} is neither module nor entry point"
                raise CallError("E1020", message, (), "pass lists: link_program([module], [entry])")
            if part.session is not self:
                raise CallError("E1020", f"{title}: '{part.name}' belongs to another session")

    def linked(self, module: SlangModule, others: Sequence[SlangModule]) -> SlangModule:
        """The module with its `extern` declarations taken from other modules that `export` them."""
        exporters = [other.loaded for other in others if other is not module]
        if not exporters:
            return module
        return self.module_of(self._make(module.name, ("link",), module.loaded, *exporters))

    def with_text(self, loaded: LoadedModule, text: str) -> LoadedModule:
        """The module with a text that stands beside its own."""
        module = self._make(loaded.name, ("beside", f"prelude of {loaded.name}", text), loaded)
        self.generation.of(module)
        return module


def _texts(defines: Mapping[str, object] | Iterable[tuple[str, object]]) -> dict[str, str]:
    """Macros with texts as values: true and false for flags."""
    values = dict(defines)
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in values.items()}
