"""Modules: Slang files and texts, whose functions are called like Python's.

module = Module.load_from_file(device, "polynomial.slang")
module.polynomial(a=2, b=8, c=-1, x=x)
module["sum<8>"](values)              generic arguments in the name
module.Particle                       types
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slangrad.api.device import Device
from slangrad.api.function import Function
from slangrad.api.plain_types import PLAIN, is_plain
from slangrad.api.session import FRONT, SHADER, LoadedModule, SlangSession
from slangrad.api.struct import Struct
from slangrad.base.late import Late
from slangrad.call.caller import Caller
from slangrad.call.module_index import UNKNOWN, Facts
from slangrad.call.plan_store import PlanStore
from slangrad.check.types import Type
from slangrad.ir import types as ir
from slangrad.marshal.errors import CallError, NameNotFound
from slangrad.marshal.literals import spell_value
from slangrad.marshal.saved import Unsaved, restored_type, saved_type
from slangrad.marshal.slang_type import SavedType
from slangrad.marshal.spelling import spell

if TYPE_CHECKING:
    from slangrad.api.shader import SlangModule
    from slangrad.api.slang_layout import SlangProgramLayout
    from slangrad.call.program import ModuleTypes
    from slangrad.check.reflect import FunctionView, Reflection

LAYOUT = Late("slangrad.api.slang_layout")

_OPTIONS: dict[str, type] = {"strict_broadcasting": bool}


class LateTypes:
    """The types of a module, which is parsed when it is asked about one that is not plain."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def program(self) -> Any:
        return self._module.layout

    def lower(self, t: Type) -> ir.Type | None:
        return (PLAIN if is_plain(t) else self._module.types).lower(t)

    def tangent(self, t: Type) -> Type | None:
        return (PLAIN if is_plain(t) else self._module.types).tangent(t)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module.types, name)
        setattr(self, name, found)
        return found


class Module:
    """The functions and types of a module, to be called: `module.name`, `module["sum<8>"]`. A name that is missing is
    a NameNotFound, which is an AttributeError. `options` are `strict_broadcasting` (True: no dimensions are added in
    front of arguments); modules of `link` are linked with it."""

    def __init__(
        self,
        device_module: SlangModule | LoadedModule,
        options: dict[str, Any] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> None:
        self._loaded = self._unlinked = _handle_of(device_module)
        self.session: SlangSession = self._loaded.session
        if link:
            given = [each.device_module if isinstance(each, Module) else each for each in link]
            self._loaded = _handle_of(self.session.linked(self.device_module, given))
        self.device: Device = self.session.device
        self.name = self._loaded.name
        self.options = _checked_options(options)
        self._late_types: Any = LateTypes(self)
        self._layout: SlangProgramLayout | None = None
        self.link = tuple(link)
        self._facts = Facts(self._loaded.key, self.session.settings, self.session.target)
        self._functions: dict[str, Function | None] = {}
        self._structs: dict[str, Struct] = {}
        self._with_constants: dict[str, Module] = {}
        self._with_preludes: dict[str, Module] = {}

    @property
    def device_module(self) -> SlangModule:
        """The module as kernels see it."""
        return self.session.module_of(self._loaded)

    @property
    def view(self) -> Reflection:
        return self.device_module.view

    @property
    def types(self) -> ModuleTypes:
        found = self.device_module.types
        if found.layout is None:
            found.layout = lambda: self.layout
        return found

    @staticmethod
    def load_from_file(
        device: Device,
        path: str,
        options: dict[str, Any] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """The module of a file: a path, or a name in the include paths, with or without `.slang`. SlangCompileError,
        with all errors, where it is wrong or missing."""
        return Module(device.slang_session.load(str(path)), options, link)

    @staticmethod
    def load_from_source(
        device: Device,
        name: str,
        source: str,
        options: dict[str, Any] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """A module of this name from its text. SlangCompileError, with all errors, where it is wrong."""
        return Module(device.slang_session.add_source(name, source), options, link)

    @staticmethod
    def load_from_module(
        device: Device,
        module: Module | SlangModule,
        options: dict[str, Any] | None = None,
        link: Sequence[Module | SlangModule] = (),
    ) -> Module:
        """The same module with other options."""
        return Module(module._loaded if isinstance(module, Module) else module, options, link)

    @property
    def layout(self) -> SlangProgramLayout:
        """Reflection: types and functions by name; parameters and entry points are in its `program_layout`."""
        if self._layout is None:
            self._layout = LAYOUT.SlangProgramLayout(self.device_module.layout)
        elif self._layout.types is not self.types:
            self._layout.on_hot_reload(self.device_module.layout)
        self._layout.device_module = self.device_module
        found: SlangProgramLayout = self._layout
        return found

    def __repr__(self) -> str:
        return f"Module(name={self.name!r}, linked_modules={[each.name for each in self.link]})"

    def with_constants(self, values: Mapping[str, Any]) -> Module:
        """The module with constants that it leaves open: `extern static const int N;`."""
        text = "\n".join(self._constant(name, value) for name, value in values.items())
        if text not in self._with_constants:
            name = f"constants {len(self._with_constants)} of {self.device_module.checked.name}"
            given = self.session.load_module_from_source(name, text)
            self._with_constants[text] = Module(self._loaded, self.options, (*self.link, given))
        return self._with_constants[text]

    def _constant(self, name: str, value: Any) -> str:
        found = self.session.program.extern_constants(self.view.module)
        if name not in found:
            known = ", ".join(found) or "none"
            message = f"constants: there is no 'extern static const' of the name '{name}'"
            raise CallError("E1013", message, (), f"there are {known}")
        return f"export static const {found[name]} {name} = {spell_value(value, name)};"

    def with_prelude(self, text: str) -> Module:
        """The module with a text that stands beside its own, and may define what it leaves open."""
        if text not in self._with_preludes:
            made = Module(self.session.with_text(self._unlinked, text), self.options, self.link)
            self._with_preludes[text] = made
        return self._with_preludes[text]

    # --- Names ---

    def find_function(self, name: str) -> Function | None:
        """The functions of a name, generic arguments perhaps in it; None when there are none."""
        if name not in self._functions:
            views = lambda: self.view.find_functions(name)
            self._functions[name] = self._find(name, name, views, None)
        return self._functions[name]

    def _find(
        self, label: str, name: str, views: Callable[[], Sequence[FunctionView]], struct: Struct | None
    ) -> Function | None:
        """Functions, if there are any; `label` names them in this module."""
        exists = UNKNOWN if self.session.is_parsed else self._facts.get("function", label)
        if exists is UNKNOWN:
            exists = bool(views())
            self._facts.put("function", label, exists)
        return self._make_function(label, name, views, struct) if exists else None

    def require_function(self, name: str) -> Function:
        """The functions of a name, as `find_function`; NameNotFound when there are none."""
        found = self.find_function(name)
        if found is None:
            raise self._not_found(name, "function", self.view.function_names())
        return found

    def find_struct(self, name: str) -> Struct | None:
        """A type by name, `float3` and `Foo<4>` too; None when there is none."""
        known = UNKNOWN if self.session.is_parsed else self._facts.get("type", name)
        if known is not UNKNOWN:
            return None if known is None else self.struct_of(restored_type(known))
        found = self.view.find_type(name)
        try:
            self._facts.put("type", name, None if found is None else saved_type(found, self.types))
        except Unsaved:  # it depends on what is not known yet
            return None if found is None else self.struct_of(found)
        return None if found is None else self.struct_of(found)

    def require_struct(self, name: str) -> Struct:
        """A type by name, as `find_struct`; NameNotFound when there is none."""
        found = self.find_struct(name)
        if found is None:
            raise self._not_found(name, "struct", self.view.type_names())
        return found

    def find_function_in_struct(self, struct: Struct | str, name: str) -> Function | None:
        """A method, static or not, or a constructor."""
        owner = self.find_struct(struct) if isinstance(struct, str) else struct
        if owner is None:
            return None
        label = f"{owner.spelled}.{name}"
        if name == "__init":
            return self._find(label, name, lambda: self.view.find_constructors(owner.checked), owner)
        return self._find(label, name, lambda: self.view.find_functions(f"{owner.spelled}.{name}"), owner)

    def struct_of(self, checked: Type) -> Struct:
        """The one Struct for a checked type."""
        key = checked.spelled if isinstance(checked, SavedType) else spell(checked)
        found = self._structs.get(key)
        if found is None:
            found = self._structs[key] = Struct(self, checked, self._late_types)
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        """A function or, if there is none of that name, a type."""
        found = self.find_function(name) or self.find_struct(name)
        if found is None:
            known = ", ".join((*self.view.function_names(), *self.view.type_names())) or "none"
            raise NameNotFound(
                f"Module '{self.name}' has no function or type named '{name}'", f"there are {known}"
            )
        return found

    def _make_function(
        self, label: str, name: str, views: Callable[[], Sequence[FunctionView]], struct: Struct | None
    ) -> Function:
        session = self.session

        def binder() -> Any:
            candidates = [FRONT.candidate_of(view, self.types) for view in _own(views())]
            return FRONT.Binder(name, candidates, self.types, self._imports)

        store = PlanStore(self._loaded.key, label, session.settings, session.target, self._late_types)
        strict = self.options.get("strict_broadcasting", False)
        return Function(self, name, Caller(name, binder, session, store, strict, self), struct)

    def _imports(self) -> tuple[str, ...]:
        return self.session.imports_of(self._loaded.checked)

    def _not_found(self, name: str, what: str, known: Sequence[str]) -> NameNotFound:
        return NameNotFound(
            f"Could not find {what} '{name}' in module '{self.name}'",
            f"there are {', '.join(known) or 'none'}",
        )


def _handle_of(given: Any) -> LoadedModule:
    if isinstance(given, LoadedModule):
        return given
    if not isinstance(given, SHADER.SlangModule):
        note = "Module.load_from_file() and Module.load_from_source() load one"
        raise CallError("E1015", f"Module: {type(given).__name__} is no SlangModule", (), note)
    return LoadedModule(given.session, given.name, given.checked.key, None, None, given.checked)


def _own(views: Sequence[FunctionView]) -> Sequence[FunctionView]:
    """Functions of the library stand back where a module has some of that name."""
    found = [view for view in views if not view.declaration.span.source.is_library]
    return found or views


def _checked_options(options: dict[str, Any] | None) -> dict[str, Any]:
    for name, value in (options or {}).items():
        if name not in _OPTIONS or not isinstance(value, _OPTIONS[name]):
            raise CallError("E1015", f"options: {name}={value!r}", (), f"there are {', '.join(_OPTIONS)}")
    return dict(options or {})
