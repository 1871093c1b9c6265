"""Modules: Slang files and texts, whose functions are called like Python's.

module = Module.load_from_file(device, "polynomial.slang")
module.polynomial(a=2, b=8, c=-1, x=x)
module["sum<8>"](values)              generic arguments in the name
module.Particle                       types
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from slangrad.api.devices.device import Device
from slangrad.api.functional.function import DESCRIBE, Function, OwnText
from slangrad.api.functional.struct import Enum, Names, Struct
from slangrad.api.sessions.generation import FRONT, Generation, KnownModule
from slangrad.api.sessions.session import SHADER, LoadedModule, SlangSession
from slangrad.base.lazy import LazyModule
from slangrad.base.process.unique import Unique
from slangrad.base.suggestions import suggestion
from slangrad.call.binding.module_index import UNKNOWN
from slangrad.call.caller import Caller
from slangrad.call.plan_store import PlanStore
from slangrad.call.repeated import RenewedCaller
from slangrad.check.model.types import EnumType, Type
from slangrad.ir.data import types as ir
from slangrad.marshal.errors import CallError, NameNotFound
from slangrad.marshal.protocol.spelling import spell, spell_value
from slangrad.marshal.reflection.model import SavedType
from slangrad.marshal.saved import Unsaved, restored_type, saved_type
from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.torch_types import leave_out_of_graphs

if TYPE_CHECKING:
    from slangrad.api.kernels.shader import ShaderProgram, SlangModule
    from slangrad.api.reflection.slang_layout import SlangProgramLayout
    from slangrad.call.binding.binding import Binder
    from slangrad.call.binding.program import ModuleTypes
    from slangrad.check.reflect import FunctionView, Reflection

LAYOUT = LazyModule("slangrad.api.reflection.slang_layout")
TOGETHER = LazyModule("slangrad.api.functional.together")
Find = Callable[["Reflection"], Sequence["FunctionView"]]

_OPTIONS: dict[str, type] = {"strict_broadcasting": bool}


class Module(Unique, Names):
    """The functions and types of a module, to be called: `module.name`, `module["sum<8>"]`. A name that is missing is
    a NameNotFound, which is an AttributeError. `options` are `strict_broadcasting` (True: no dimensions are added in
    front of arguments); modules of `link` are linked with it."""

    def __init__(
        self,
        device_module: SlangModule | LoadedModule,
        options: Mapping[str, object] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> None:
        leave_out_of_graphs()
        self._loaded = self._unlinked = _handle_of(device_module)
        self.session: SlangSession = self._loaded.session
        if link:
            linked = [module.device_module if isinstance(module, Module) else module for module in link]
            self._loaded = _handle_of(self.session.linked(self.device_module, linked))
        self.device: Device = self.session.device
        self.name = self._loaded.name
        self.options = _checked_options(options)
        self._layout: SlangProgramLayout | None = None
        self.link = tuple(link)
        self._generation = self.session.generation
        self._fresh_functions: dict[str, Function | None] = {}  # in this generation
        self._functions: dict[str, Function] = {}  # in all of them
        self._structs: dict[str, Struct] = {}
        self._with_constants: dict[str, Module] = {}
        self._with_preludes: dict[str, Module] = {}

    @property
    def known(self) -> KnownModule:
        """The module as it is now, after a look at files that have changed."""
        if self._generation.expired:
            self.session.refresh()
            self._generation = self.session.generation
            self._fresh_functions = {}
        module = self._generation.of(self._loaded)
        if module.layout is None:
            module.layout = lambda: self.layout
        return module

    @property
    def is_imported(self) -> bool:
        """Whether `import` of its name loads this module."""
        return self.session.imported(self.name) is self._loaded

    @property
    def digest(self) -> str:
        """Of its texts, in hexadecimal digits."""
        return self.known.key

    @property
    def device_module(self) -> SlangModule:
        """The module as kernels see it."""
        return self.session.module_of(self._loaded)

    @property
    def view(self) -> Reflection:
        """The declarations of the module, as the checker sees them."""
        return self.known.view

    @property
    def types(self) -> ModuleTypes:
        """The types that the module and its imports declare."""
        return self.known.all_types

    @staticmethod
    def load_from_file(
        device: Device,
        path: str,
        options: dict[str, object] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """The module of a file: a path, or a name in the include paths, with or without `.slang`. A wrong or
        missing file raises SlangCompileError with all errors."""
        return Module(_session_of(device).load(str(path)), options, link)

    @staticmethod
    def load_from_source(
        device: Device,
        name: str,
        source: str,
        options: dict[str, object] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """A module of this name from its text. A wrong text raises SlangCompileError with all errors."""
        return Module(_session_of(device).add_source(name, source), options, link)

    @staticmethod
    def load_from_module(
        device: Device,
        module: Module | SlangModule,
        options: dict[str, object] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """The same module with other options."""
        return Module(module._loaded if isinstance(module, Module) else module, options, link)

    @property
    def layout(self) -> SlangProgramLayout:
        """Reflection: types and functions by name; parameters and entry points are in its `program_layout`."""
        if self._layout is None:
            self._layout = LAYOUT.SlangProgramLayout(self.device_module.layout)
            self._layout.newest = lambda: self.layout
        elif self._layout.types.view is not self.view:
            self._layout.on_hot_reload(self.device_module.layout)
        self._layout.device_module = self.device_module
        layout: SlangProgramLayout = self._layout
        return layout

    def __repr__(self) -> str:
        return f"Module(name={self.name!r}, linked_modules={[module.name for module in self.link]})"

    def with_constants(self, values: Mapping[str, object]) -> Module:
        """The module with constants that it leaves open: `extern static const int N;`."""
        if not isinstance(values, Mapping):
            raise CallError("E1013", f"constants: a dict is needed, not {type(values).__name__}")
        text = "\n".join(self._constant(name, value) for name, value in values.items())
        if text not in self._with_constants:
            name = f"constants {len(self._with_constants)} of {self.device_module.checked.name}"
            constants = self.session.load_module_from_source(name, text)
            self._with_constants[text] = Module(self._loaded, self.options, (*self.link, constants))
        return self._with_constants[text]

    def _constant(self, name: str, value: object) -> str:
        declared = self.session.program.extern_constants(self.view.module)
        if name not in declared:
            names = ", ".join(declared) or "none"
            message = f"constants: there is no 'extern static const' of the name '{name}'"
            raise CallError("E1013", message, (), f"there are {names}")
        spelled = spell_value(value, name)
        t = declared[name]
        if getattr(t, "is_integer", False) and isinstance(value, (float, np.floating)):
            message = f"constants: '{name}' of type '{t}' cannot be {type(value).__name__} {value!r}"
            raise CallError("E1013", message, (), "use int(x) if cutting off is meant")
        return f"export static const {t} {name} = {spelled};"

    def with_prelude(self, text: str) -> Module:
        """The module with another text beside its own, which may define `extern` declarations."""
        if not isinstance(text, str):
            raise CallError("E1013", f"prelude: a text is needed, not {type(text).__name__}")
        if text not in self._with_preludes:
            loaded = self.session.with_text(self._unlinked, text)
            self._with_preludes[text] = Module(loaded, self.options, self.link)
        return self._with_preludes[text]

    def compile_all(self, calls: Iterable[partial[object] | ShaderProgram]) -> None:
        """Compile the kernels of several calls, which are not run; on several processors where these are idle.

        A call is given as `functools.partial(module.f, x, y, _result=r)`: a function, `f.bwds` or any other with
        its arguments, or `partial(module.f.dispatch, ...)`. Types, shapes and strides of the arguments count. A
        ShaderProgram means its kernel. Calls may belong to any module of the device. Put those first that take
        longest to compile.

        Raises the errors of the calls. Errors about arguments come before any kernel is compiled; the error of the
        first refused kernel comes after all others are compiled. CallError (E1015) for an object that is no call.
        """
        TOGETHER.compile_together([TOGETHER.prepared(call) for call in calls], self.device.options)

    @staticmethod
    def compile_worker(device: Device) -> AbstractContextManager[None]:
        """A context for programs that load modules and then call `compile_all`: the process that takes a part of the
        kernels starts at once, where a processor is idle. It gets ready while the block loads modules."""
        context: AbstractContextManager[None] = TOGETHER.worker_ahead(device.options)
        return context

    # --- Names ---

    def find_function(self, name: str) -> Function | None:
        """The functions of a name, generic arguments perhaps in it; None when there are none."""
        if self._generation.expired or name not in self._fresh_functions:
            module = self.known
            self._fresh_functions[name] = self._find(
                module, name, name, lambda view: view.find_functions(name), None
            )
        return self._fresh_functions[name]

    def _find(
        self, module: KnownModule, label: str, name: str, views: Find, struct: Struct | None
    ) -> Function | None:
        """Functions, if there are any; `label` names them in this module."""
        exists = UNKNOWN if module.generation.is_parsed else module.facts.get("function", label)
        if exists is UNKNOWN:
            exists = bool(views(module.view))
            module.facts.put("function", label, exists)
        if not exists:
            return None
        key = label if struct is None else f"{label} of {struct.spelled}"
        if key not in self._functions:
            self._functions[key] = self._make_function(label, name, views, struct)
        return self._functions[key]

    def find_struct(self, name: str) -> Struct | None:
        """A type by name, `float3` and `Foo<4>` too; None when there is none."""
        t = self.find_type(name)
        return None if t is None else self.struct_of(t)

    def find_type(self, name: str) -> Type | None:
        """The type itself, or its form on disk from an earlier process."""
        module = self.known
        saved = UNKNOWN if module.generation.is_parsed else module.facts.get("type", name)
        if saved is not UNKNOWN:
            return None if saved is None else restored_type(saved)
        t = module.view.find_type(name)
        with suppress(Unsaved):  # it depends on generic parameters
            module.facts.put("type", name, None if t is None else saved_type(t, module.all_types))
        return t

    def find_function_in_struct(self, struct: Struct | str, name: str) -> Function | None:
        """A method, static or not, or a constructor."""
        owner = self.find_struct(struct) if isinstance(struct, str) else struct
        if owner is None:
            return None
        spelled = owner.spelled
        label = f"{spelled}.{name}"
        views: Find = lambda view: view.find_functions(label)
        if name == "__init":
            views = lambda view: _constructors(view, spelled)
        return self._find(self.known, label, name, views, owner)

    def struct_of(self, checked: Type) -> Struct:
        """The one Struct for a checked type."""
        key = checked.spelled if isinstance(checked, SavedType) else spell(checked)
        if key not in self._structs:
            self._structs[key] = (Enum if _is_enum(checked) else Struct)(self, checked)
        return self._structs[key]

    def _make_function(self, label: str, name: str, views: Find, struct: Struct | None) -> Function:
        strict = self.options.get("strict_broadcasting", False)

        def caller(generation: Generation) -> Caller:
            module = generation.of(self._loaded)

            def binder() -> Binder:
                functions = FRONT.without_library(views(module.view))
                if not functions:
                    raise self._missing(label, "function")
                candidates = [FRONT.candidate_of(view, module.all_types) for view in functions]
                bind: Binder = FRONT.Binder(name, candidates, module.all_types, module.imports)
                return bind

            store = PlanStore(module.key, label, generation.settings, generation.target, module.types)
            return Caller(name, binder, generation, store, strict, self)

        return Function(self, name, RenewedCaller(self.session, caller), struct)

    def _missing(self, name: str, kind: str) -> NameNotFound:
        if not kind:
            why, note = self.view.why_not_found(name)
            return NameNotFound(f"Module '{self.name}' {why}", note)
        names = self.view.function_names() if kind == "function" else self.view.type_names()
        message = f"Could not find {kind} '{name}' in module '{self.name}'"
        return NameNotFound(message, suggestion(name, names))


Module.__doc__ = OwnText(Module.__doc__, lambda module: DESCRIBE.documentation_of_module(module))


def module_of_package(device: Device, name: str, read: Callable[[], str]) -> Module:
    """The module of one of slangrad's own texts, which `read` returns: one for each device."""
    modules = device.package_modules
    if name not in modules:
        modules.setdefault(name, Module.load_from_source(device, name, read()))
    return cast("Module", modules[name])


def _is_enum(t: Type) -> bool:
    """Of declared types only enums are numbers in memory."""
    return isinstance(t.lowered, ir.Scalar) if isinstance(t, SavedType) else isinstance(t, EnumType)


def _session_of(device: object) -> SlangSession:
    if not isinstance(device, Device):
        kind = type(device).__name__
        raise CallError("E1015", f"device: {kind} is no device", (), "create_device() makes one")
    return device.slang_session


def _handle_of(module: object) -> LoadedModule:
    if isinstance(module, LoadedModule):
        return module
    if not isinstance(module, SHADER.SlangModule):
        note = "Module.load_from_file() and Module.load_from_source() load one"
        raise CallError("E1015", f"Module: {type(module).__name__} is no SlangModule", (), note)
    loaded: LoadedModule = module.loaded
    return loaded


def _constructors(view: Reflection, spelled: str) -> Sequence[FunctionView]:
    t = view.find_type(spelled)
    return () if t is None else view.find_methods(t, "__init")


def _checked_options(options: Mapping[str, object] | None) -> dict[str, HostValue]:
    for name, value in (options or {}).items():
        if name not in _OPTIONS or not isinstance(value, _OPTIONS[name]):
            raise CallError("E1015", f"options: {name}={value!r}", (), f"there are {', '.join(_OPTIONS)}")
    return dict(options or {})
