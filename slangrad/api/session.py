"""Sessions: modules that were compiled with the same settings, and know each other.

    session = device.create_slang_session(compiler_options={"defines": {"N": "4"}})
    module = session.load_module_from_source("scale", text)
    program = session.link_program([module], [module.entry_point("main")])

A device has a session of its own, which its methods of these names use.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from slangrad.api.compiler_options import SlangCompilerOptions
from slangrad.base.diagnostics import CompileWarning
from slangrad.base.late import Late
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.call.check_mode import CheckedSession, CheckMode
from slangrad.call.compiled import Compiled
from slangrad.call.module_index import ModuleIndex, reachable
from slangrad.check.files import Files
from slangrad.marshal.errors import CallError

if TYPE_CHECKING:
    from slangrad.api.shader import ShaderProgram, SlangEntryPoint, SlangModule, TypeConformance
    from slangrad.check.modules import Module as CheckedModule
    from slangrad.check.modules import Program

FRONT, SHADER = Late("slangrad.call.front"), Late("slangrad.api.shader")


class LoadedModule:
    """A module of a session. `checked` is there at once if it had to be parsed, else when it is asked for."""

    def __init__(
        self,
        session: SlangSession,
        name: str,
        key: str,
        text: str | None,
        path: Path | None,
        parsed: CheckedModule | None = None,
    ) -> None:
        self.session = session
        self.name = name
        self.key = key
        self.text = text  # None: it is in a file
        self.path = path
        self.parsed = parsed

    @property
    def checked(self) -> CheckedModule:
        if self.parsed is None:
            assert self.session.program is not None
        assert self.parsed is not None, f"module '{self.name}' is not in its session"
        return self.parsed


@dataclass(frozen=True, slots=True)
class SlangSessionDesc:
    """What a session is made with."""

    compiler_options: SlangCompilerOptions


class SlangSession:
    """A program: one space of modules, with one set of include paths and macros.

    As long as all modules are as in an earlier process, they are not parsed: `program` and `compiler` are made when
    they are first asked for.
    """

    def __init__(self, device: Any, compiler_options: SlangCompilerOptions, options: Options) -> None:
        self.device = device
        self.target: str = device.backend
        self.compiler_options = compiler_options
        self.settings = compiler_options.applied_to(options)
        self.lock = threading.RLock()
        self.kernels: dict[str, Compiled] = {}
        self._defines = _texts(compiler_options.defines)
        self._files = Files(compiler_options.include_paths)
        self._index = ModuleIndex(self._files, self._defines, self.settings, self.target)
        self._program: Program | None = None
        self._compiler: Any = None
        self._waiting: list[LoadedModule] = []
        self._loaded: dict[str, LoadedModule] = {}
        self._aliases: dict[CheckedModule, str] = {}
        self._modules: dict[CheckedModule, SlangModule] = {}
        self._linked: dict[tuple[CheckedModule, ...], SlangModule] = {}
        self.callers: WeakSet[Any] = WeakSet()
        self.checking: CheckMode | None = device.checking
        self._checked: CheckedSession | None = None
        device.sessions.add(self)

    def __repr__(self) -> str:
        return f"SlangSession(modules={[each.name for each in self._modules.values()]})"

    @property
    def desc(self) -> SlangSessionDesc:
        """What the session was made with."""
        return SlangSessionDesc(self.compiler_options)

    @property
    def is_parsed(self) -> bool:
        return self._program is not None

    @property
    def program(self) -> Program:
        """The modules, parsed and checked."""
        if self._program is None:
            with self.lock:
                if self._program is None:
                    self._parse_all()
        assert self._program is not None
        return self._program

    def _parse_all(self) -> None:
        """Load what was only looked up so far, in the same order."""
        program = FRONT.Program(self.settings, (), self._defines, self._files)
        for each in self._waiting:
            each.parsed = self._load(program, each)
        self._waiting.clear()
        self._files.kept.clear()
        self._program = program

    @property
    def compiler(self) -> Any:
        if self._compiler is None:
            with self.lock:
                if self._compiler is None:
                    made = FRONT.KernelCompiler(self.program, self.settings, self.target, self.lock)
                    self._compiler = made
        return self._compiler

    @property
    def checked(self) -> CheckedSession:
        """The session as calls in check mode see it."""
        if self._checked is None:
            make = lambda settings: FRONT.KernelCompiler(self.program, settings, self.target, self.lock)
            self._checked = CheckedSession(self, make)
        return self._checked

    def check(self, mode: CheckMode | None) -> None:
        """Calls from now on are in check mode, or no longer."""
        with self.lock:
            changes = (mode is None) != (self.checking is None)
            self.checking = mode
            for each in self.callers if changes else ():
                each.change_plans()

    # --- Modules ---

    def load_module(self, module_name: str) -> SlangModule:
        """The module of a name or path, looked for in the include paths."""
        return self.module_of(self.load(str(module_name)))

    def load_module_from_source(
        self, module_name: str, source: str, path: str | Path | None = None
    ) -> SlangModule:
        """A module from its text. With a path it is as if it stood in that file."""
        return self.module_of(self.add_source(module_name, source, Path(path) if path else None))

    def load_source(self, module_name: str) -> str:
        """The text of a module's file."""
        return self.load_module(module_name).checked.declaration.source.text

    def module_of(self, loaded: LoadedModule) -> SlangModule:
        """The module as kernels see it; it is parsed if it was not."""
        checked = loaded.checked
        with self.lock:
            if checked not in self._modules:
                self._modules[checked] = SHADER.SlangModule(self, checked, loaded.name)
            return self._modules[checked]

    def load(self, name: str) -> LoadedModule:
        """A module by name or path."""
        with self.lock:
            found = None if self.is_parsed else self._index.find(name)
            return self._enter(LoadedModule(self, name, found.key if found else "", None, None))

    def add_source(self, name: str, text: str, path: Path | None = None) -> LoadedModule:
        """A module from its text. The same name with another text is another module."""
        with self.lock:
            known = self._loaded.get(name)
            if known is not None and (known.text, known.path) == (text, path):
                return known
            source = SourceFile(name if path is None else str(path), text)
            found = None if self.is_parsed else self._index.of_text(name, source, path)
            made = self._enter(LoadedModule(self, name, found.key if found else "", text, path))
            self._loaded[name] = made
            return made

    def _enter(self, module: LoadedModule) -> LoadedModule:
        """A module without a key is parsed now."""
        if module.key:
            self._waiting.append(module)
            return module
        module.parsed = self._load(self.program, module)
        module.key = module.parsed.key
        self._index.keep(module.parsed)
        return module

    def _load(self, program: Program, module: LoadedModule) -> CheckedModule:
        if module.text is None:
            checked = program.load_module(module.name)
        else:
            checked = program.add_source(module.name, module.text, module.path)
        for each in program.reporter.diagnostics:
            warnings.warn(str(each), CompileWarning, stacklevel=2)
        return checked

    def imports_of(self, module: CheckedModule) -> tuple[str, ...]:
        """What a kernel imports in order to see a module and all that it sees."""
        return tuple(map(self._import_name, reachable(module)))

    def _import_name(self, module: CheckedModule) -> str:
        """The name of a module, or another one where a newer module has taken its name."""
        if self.program.modules.get(module.name) is module:
            return module.name
        if module not in self._aliases:
            alias = self._aliases[module] = f"{module.name}#{len(self._aliases) + 1}"
            self.program.modules[alias] = module
        return self._aliases[module]

    # --- Programs ---

    def compose_modules(
        self,
        name: str,
        modules: Sequence[SlangModule],
        type_conformances: Sequence[TypeConformance | tuple[Any, ...]] = (),
    ) -> SlangModule:
        """Modules under one name, with the entry points of all, which may know more types behind interfaces."""
        self._check_own("compose_modules", modules)
        if not modules:
            raise CallError("E1020", "compose_modules: there are no modules to compose")
        flat = [source for each in modules for source in each.source_modules or (each,)]
        made: SlangModule = SHADER.ComposedModule(name, flat, SHADER.conformances_of(type_conformances))
        return made

    def _check_own(self, what: str, given: Sequence[Any]) -> None:
        for each in given:
            if not isinstance(each, (SHADER.SlangModule, SHADER.SlangEntryPoint)):
                message = f"{what}: {type(each).__name__} is neither module nor entry point"
                raise CallError("E1020", message, (), "pass lists: link_program([module], [entry])")
            if each.session is not self:
                raise CallError("E1020", f"{what}: '{each.name}' belongs to another session")

    def link_program(
        self,
        modules: Sequence[SlangModule],
        entry_points: Sequence[SlangEntryPoint],
        link_options: object = None,
    ) -> ShaderProgram:
        """Modules and entry points that a kernel is made of."""
        self._check_own("link_program", (*modules, *entry_points))
        modules = [source for each in modules for source in each.source_modules or (each,)]
        linked = {each: self.linked(each, modules) for each in modules}
        entries = tuple(each.moved_to(linked.get(each.module, each.module)) for each in entry_points)
        program: ShaderProgram = SHADER.ShaderProgram(self, tuple(linked.values()), entries)
        return program

    def linked(self, module: SlangModule, others: Sequence[SlangModule]) -> SlangModule:
        """The module with what it leaves open (`extern`) taken from others that `export` it."""
        exporters = [each.checked for each in others if each is not module]
        if not exporters:
            return module
        with self.lock:
            key = (module.checked, *exporters)
            if key not in self._linked:
                checked = self.program.link(module.checked, exporters)
                made = LoadedModule(self, module.name, checked.key, None, None, checked)
                self._linked[key] = self.module_of(made)
            return self._linked[key]

    def with_text(self, loaded: LoadedModule, text: str) -> LoadedModule:
        """The module with a text that stands beside its own."""
        with self.lock:
            checked = self.program.with_text(loaded.checked, SourceFile(f"prelude of {loaded.name}", text))
            return LoadedModule(self, loaded.name, checked.key, None, None, checked)

    def load_program(
        self,
        module_name: str,
        entry_point_names: Sequence[str],
        additional_source: str | None = None,
        link_options: object = None,
    ) -> ShaderProgram:
        """The program of a module and some of its entry points."""
        module = self.load_module(module_name)
        if isinstance(entry_point_names, str):
            entry_point_names = [entry_point_names]
        modules = [module]
        if additional_source:
            modules.append(self.load_module_from_source(f"{module_name} (additional)", additional_source))
        return self.link_program(modules, [module.entry_point(each) for each in entry_point_names])


def _texts(defines: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Macros with texts as values: true and false for flags."""
    found = dict(defines)
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in found.items()}
