"""Generations: objects that a session derives from its texts, from one reload to the next.

    generation = session.generation
    generation.of(loaded).checked          a module as it was when the generation began
    generation.expired                     a file changed since, or a newer generation is there

Calls, kernels and reflection record their generation, so objects that belong together come from the same texts. They
look at `expired` when they are used next, and take the session's newest generation. Calls in check mode have plans and
kernels of their own (`CheckedSession`), so other calls cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from slangrad.api.sessions.plain_types import PLAIN, is_plain
from slangrad.backends import backend_of
from slangrad.base.diagnostics import CompileWarning
from slangrad.base.lazy import LazyModule, lazy_property
from slangrad.base.module_file import Origin
from slangrad.base.options import Options
from slangrad.base.process.warn import warn
from slangrad.call.binding.module_index import ModuleFacts, ModuleIndex, reachable
from slangrad.call.compiling.recipe import Recipe, recipe_of, steps_of
from slangrad.call.plans.packing import Compiled
from slangrad.check.model.types import Type
from slangrad.check.texts.files import Files
from slangrad.ir.data import types as ir
from slangrad.marshal.protocol.program_types import Reflected

if TYPE_CHECKING:
    from slangrad.api.sessions.session import LoadedModule, SlangSession
    from slangrad.call.binding.program import ModuleTypes
    from slangrad.call.compiling.compile import KernelCompiler
    from slangrad.check.checked_module import CheckedModule
    from slangrad.check.modules import CheckedProgram
    from slangrad.check.reflect import Reflection

FRONT = LazyModule("slangrad.call.front")


class KnownModule:
    """A module of a generation. It is parsed at once if necessary, else at its first use."""

    def __init__(self, generation: Generation, key: str, parsed: CheckedModule | None = None) -> None:
        self.generation = generation
        self.key = key  # the digest of its texts
        self.parsed = parsed
        self.types = cast("ModuleTypes", LateTypes(self))
        self.layout: Callable[[], Reflected] | None = None  # its types and functions by name

    @property
    def checked(self) -> CheckedModule:
        if self.parsed is None:
            assert self.generation.program is not None
        assert self.parsed is not None, "the module is not in its generation"
        return self.parsed

    @lazy_property
    def view(self) -> Reflection:
        reflection: Reflection = FRONT.Reflection(self.generation.program, self.checked)
        return reflection

    @lazy_property
    def all_types(self) -> ModuleTypes:
        types: ModuleTypes = FRONT.ModuleTypes(self.view)
        types.layout = self.program
        return types

    def program(self) -> Reflected:
        return None if self.layout is None else self.layout()

    @property
    def facts(self) -> ModuleFacts:
        return ModuleFacts(self.key, self.generation.settings, self.generation.target)

    def imports(self) -> tuple[str, ...]:
        """The imports of a kernel that sees the module and all that it sees."""
        return self.generation.imports_of(self.checked)


class LateTypes:
    """The types of a module, which is parsed at the first lookup of a type that is not plain."""

    def __init__(self, module: KnownModule) -> None:
        self._module = module

    def program(self) -> Reflected:
        return self._module.program()

    def lower(self, t: Type) -> ir.Type | None:
        return (PLAIN if is_plain(t) else self._module.all_types).lower(t)

    def tangent(self, t: Type) -> Type | None:
        return (PLAIN if is_plain(t) else self._module.all_types).tangent(t)

    def __getattr__(self, name: str) -> Any:  # as ModuleTypes have it
        attribute = getattr(self._module.all_types, name)
        setattr(self, name, attribute)
        return attribute


class Generation:
    """The program of a session. As long as all modules are as in an earlier process, they are not parsed: `program`
    and `compiler` are made on first use.
    """

    def __init__(self, session: SlangSession, defines: Mapping[str, str], target: str = "") -> None:
        """`target`: whose kernels it makes, "" for those of the session's device."""
        self.session = session
        self.expired = False
        self.settings = session.settings
        self.target = target or session.target
        self.lock = session.lock
        self.kernels: dict[str, Compiled] = {}
        chosen = session.compiler_options
        caches = [] if session.module_cache is None else session.module_cache.folders
        self._places = (chosen.include_paths, chosen.use_up_to_date_binary_module, caches)
        self.files = Files(*self._places)
        self._defines = dict(defines)
        self._index = ModuleIndex(self.files, self._defines, self.settings, self.target)
        self._program: CheckedProgram | None = None
        self._compiler: KernelCompiler | None = None
        self._waiting: list[tuple[LoadedModule, KnownModule]] = []
        self._known: WeakKeyDictionary[LoadedModule, KnownModule] = WeakKeyDictionary()
        self._first: dict[CheckedModule, LoadedModule] = {}
        self._aliases: dict[CheckedModule, str] = {}
        self._checked: CheckedSession | None = None

    @lazy_property
    def others(self) -> tuple[Generation, ...]:
        """The same texts for other targets, whose kernels are kept on disk (`Options.also`)."""
        if self.target != self.session.target:
            return ()
        targets = dict.fromkeys(self.settings.also)
        return tuple(Generation(self.session, self._defines, t) for t in targets if t != self.target)

    @property
    def is_parsed(self) -> bool:
        return self._program is not None

    @property
    def program(self) -> CheckedProgram:
        """The modules, parsed and checked."""
        if self._program is None:
            with self.lock:
                if self._program is None:
                    self._parse_all()
        assert self._program is not None
        return self._program

    def _parse_all(self) -> None:
        """Parse the modules that were only looked up so far, in the same order."""
        program = FRONT.CheckedProgram(
            self.settings, (), self._defines, self.files, backend_of(self.target).traits
        )
        for loaded, module in self._waiting:
            module.parsed = self._load(program, loaded)
        self._waiting.clear()
        self.files.kept.clear()
        self._program = program

    @property
    def compiler(self) -> KernelCompiler:
        if self._compiler is None:
            with self.lock:
                self._compiler = self._compiler or self._compiler_for(self.settings)
        return self._compiler

    def _compiler_for(self, settings: Options) -> KernelCompiler:
        compiler: KernelCompiler = FRONT.KernelCompiler(
            self.program, settings, self.target, self.lock, self.recipe
        )
        return compiler

    @property
    def checked(self) -> CheckedSession:
        """The same program for calls in check mode."""
        if self._checked is None:
            self._checked = CheckedSession(self, self._compiler_for)
        return self._checked

    # --- Modules ---

    def of(self, loaded: LoadedModule) -> KnownModule:
        """A module of the session in this generation. CompileError."""
        module = self._known.get(loaded)
        if module is None:
            with self.lock:
                module = self._known.get(loaded)
                if module is None:
                    self._enter_before(loaded)
                    module = self._known[loaded] = self._enter(loaded)
        return module

    def _enter_before(self, loaded: LoadedModule) -> None:
        """Modules that the session loaded earlier, for another target: a text may import them by their names."""
        if self.target != self.session.target:
            for earlier in self.session.loaded_before(loaded):
                if earlier not in self._known:
                    self._known[earlier] = self._enter(earlier)

    def first_of(self, loaded: LoadedModule) -> LoadedModule:
        """The representative of all requests of the same module: several names can mean one file."""
        return self._first.setdefault(self.of(loaded).checked, loaded)

    def _enter(self, loaded: LoadedModule) -> KnownModule:
        """A module that no earlier process has kept is parsed now."""
        self.files.asked_for.add(loaded.name)
        kept = None if self.is_parsed else loaded.find(self._index)
        if kept is not None:
            module = KnownModule(self, kept.key)
            self._waiting.append((loaded, module))
            self._compile(self._index.found())
            return module
        parsed = self._load(self.program, loaded)
        if not loaded.made_of:
            self._index.keep(parsed)
        if loaded.is_whole:
            self._compile(reached.origin for reached in reachable(parsed) if reached.origin is not None)
        return KnownModule(self, parsed.key, parsed)

    def _compile(self, origins: Iterable[Origin]) -> None:
        """Into the session's folder of precompiled modules."""
        if self.session.module_cache is not None:
            for origin in origins:
                self.session.module_cache.keep(origin, self.files)

    def _load(self, program: CheckedProgram, loaded: LoadedModule) -> CheckedModule:
        checked = loaded.load(self, program)
        for diagnostic in program.reporter.diagnostics:
            warn(str(diagnostic), CompileWarning)
        return checked

    def page(self, name: str, text: str) -> KnownModule:
        """A text that was written around modules, for this generation alone."""
        with self.lock:
            checked = self.program.add_source(name, text)
            self._index.keep(checked)
            return KnownModule(self, checked.key, checked)

    def recipe(self, needed: Iterable[CheckedModule]) -> Recipe | None:
        """The recipe with which another process makes the program with these modules; None without one."""
        with self.lock:
            checked = {
                loaded: module.parsed for loaded, module in self._known.items() if module.parsed is not None
            }
            steps = steps_of(checked, needed)
            inputs = (self.settings, self.target, self._defines, self._places)
            return None if steps is None else recipe_of(*inputs, steps)

    def imports_of(self, module: CheckedModule) -> tuple[str, ...]:
        """The imports of a kernel that sees a module and all that it sees."""
        return tuple(map(self._import_name, reachable(module)))

    def _import_name(self, module: CheckedModule) -> str:
        """The name of a module, or another one where a newer module has taken its name."""
        if self.program.modules.get(module.name) is module:
            return module.name
        if module not in self._aliases:
            alias = self._aliases[module] = f"{module.name}#{len(self._aliases) + 1}"
            self.program.modules[alias] = module
        return self._aliases[module]


Found = TypeVar("Found")


class of_generation(Generic[Found]):
    """A property that is computed once in each generation of `self.session`."""

    def __init__(self, find: Callable[[Any], Found]) -> None:  # of an object of the owner
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_found_{name}"

    def __get__(self, instance: Any, owner: type) -> Found:  # has a session
        generation = instance.session.generation
        kept: tuple[Generation, Found] | None = instance.__dict__.get(self._name)
        if kept is None or kept[0] is not generation:
            kept = instance.__dict__[self._name] = generation, self._find(instance)
        return kept[1]


class CheckedSession:
    """A session for kernels of check mode: the same program, compiled with checks."""

    __slots__ = ("_compiler", "_make_compiler", "kernels", "lock", "settings", "target")

    def __init__(self, session: Generation, make_compiler: Callable[[Options], KernelCompiler]) -> None:
        self.lock, self.target = session.lock, session.target
        self._make_compiler = make_compiler
        self._compiler: KernelCompiler | None = None
        self.kernels: dict[str, Compiled] = {}
        self.settings: Options = replace(session.settings, check=True)

    @property
    def compiler(self) -> KernelCompiler:
        if self._compiler is None:
            with self.lock:
                self._compiler = self._compiler or self._make_compiler(self.settings)
        return self._compiler
