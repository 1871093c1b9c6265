"""Sessions: modules that were compiled with the same settings, and know each other.

    session = device.create_slang_session(compiler_options={"defines": {"N": "4"}})
    module = session.load_module_from_source("scale", text)
    program = session.link_program([module], [module.entry_point("main")])

A device has a session of its own, which its methods of these names use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slangrad.api.compiler_options import SlangCompilerOptions
from slangrad.api.shader import ShaderProgram, SlangEntryPoint, SlangModule
from slangrad.base.options import Options
from slangrad.call.compile import KernelCompiler
from slangrad.check.modules import Module as CheckedModule
from slangrad.check.modules import Program
from slangrad.marshal.errors import CallError


class SlangSession:
    """A program: one space of modules, with one set of include paths and macros."""

    def __init__(self, device: Any, compiler_options: SlangCompilerOptions, options: Options) -> None:
        self.device = device
        self.compiler_options = compiler_options
        folders = [Path(each) for each in compiler_options.include_paths]
        settings = compiler_options.applied_to(options)
        self.program = Program(settings, folders, _texts(compiler_options.defines))
        self.compiler = KernelCompiler(self.program, settings, device.backend)
        self._texts: dict[str, tuple[str, Path | None]] = {}
        self._aliases: dict[CheckedModule, str] = {}
        self._modules: dict[CheckedModule, SlangModule] = {}

    def __repr__(self) -> str:
        return f"SlangSession(modules={[each.name for each in self._modules.values()]})"

    # --- Modules ---

    def load_module(self, module_name: str) -> SlangModule:
        """The module of a name or path, looked for in the include paths."""
        return self._module(*self.load_checked(str(module_name)))

    def load_module_from_source(
        self, module_name: str, source: str, path: str | Path | None = None
    ) -> SlangModule:
        """A module from its text. With a path it is as if it stood in that file."""
        return self._module(*self.add_source(module_name, source, Path(path) if path else None))

    def load_source(self, module_name: str) -> str:
        """The text of a module's file."""
        return self.load_module(module_name).checked.declaration.source.text

    def _module(self, checked: CheckedModule, name: str) -> SlangModule:
        if checked not in self._modules:
            self._modules[checked] = SlangModule(self, checked, name)
        return self._modules[checked]

    def load_checked(self, name: str) -> tuple[CheckedModule, str]:
        """A module by name or path, and that name."""
        with self.compiler.lock:
            return self.program.load_module(name), name

    def add_source(self, name: str, text: str, path: Path | None = None) -> tuple[CheckedModule, str]:
        """A module from its text. The same name with another text is another module."""
        with self.compiler.lock:
            if self._texts.get(name) != (text, path):
                self.program.add_source(name, text, path)
                self._texts[name] = (text, path)
            return self.program.modules[name], name

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

    def link_program(
        self,
        modules: Sequence[SlangModule],
        entry_points: Sequence[SlangEntryPoint],
        link_options: object = None,
    ) -> ShaderProgram:
        """Modules and entry points that a kernel is made of."""
        for each in (*modules, *entry_points):
            if not isinstance(each, (SlangModule, SlangEntryPoint)):
                message = f"link_program: {type(each).__name__} is neither module nor entry point"
                raise CallError("E1020", message, (), "pass lists: link_program([module], [entry])")
            if each.session is not self:
                raise CallError("E1020", f"link_program: '{each.name}' belongs to another session")
        return ShaderProgram(self, tuple(modules), tuple(entry_points))

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


def reachable(module: CheckedModule) -> list[CheckedModule]:
    """A module and all that it imports, directly or not."""
    seen: list[CheckedModule] = []
    pending = [module]
    while pending:
        each = pending.pop(0)
        if each not in seen:
            seen.append(each)
            pending += each.imports
    return seen


def _texts(defines: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Macros with texts as values: true and false for flags."""
    found = dict(defines)
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in found.items()}
