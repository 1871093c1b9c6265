"""Modules: Slang files and texts, whose functions are called like Python's.

module = Module.load_from_file(device, "polynomial.slang")
module.polynomial(a=2, b=8, c=-1, x=x)
module["sum<8>"](values)              generic arguments in the name
module.Particle                       types
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slangrad.api.device import Device
from slangrad.api.function import Function
from slangrad.api.reflection import ProgramLayout
from slangrad.api.session import SlangSession
from slangrad.api.shader import SlangModule
from slangrad.api.struct import Struct
from slangrad.call.caller import Caller
from slangrad.call.program import candidate_of
from slangrad.check.reflect import FunctionView
from slangrad.check.types import Type
from slangrad.marshal.errors import CallError, NameNotFound
from slangrad.marshal.spelling import spell

_OPTIONS: dict[str, type] = {"strict_broadcasting": bool}


class Module:
    """The functions and types of a module, to be called."""

    def __init__(
        self,
        device_module: SlangModule,
        options: dict[str, Any] | None = None,
        link: Sequence[Module] = (),
    ) -> None:
        if not isinstance(device_module, SlangModule):
            note = "Module.load_from_file() and Module.load_from_source() load one"
            raise CallError("E1015", f"Module: {type(device_module).__name__} is no SlangModule", (), note)
        self.device_module = device_module
        self.session: SlangSession = device_module.session
        self.device: Device = device_module.device
        self.name = device_module.name
        self.options = _checked_options(options)
        self.view = device_module.view
        self.types = device_module.types
        self.link = tuple(link)
        self._functions: dict[str, Function | None] = {}
        self._structs: dict[Type, Struct] = {}

    @staticmethod
    def load_from_file(
        device: Device, path: str, options: dict[str, Any] | None = None, link: Sequence[Module] = ()
    ) -> Module:
        """The module of a file, looked for in the include paths."""
        return Module(device.load_module(str(path)), options, link)

    @staticmethod
    def load_from_source(
        device: Device,
        name: str,
        source: str,
        options: dict[str, Any] | None = None,
        link: Sequence[Module] = (),
    ) -> Module:
        """A module from its text."""
        return Module(device.load_module_from_source(name, source), options, link)

    @staticmethod
    def load_from_module(
        device: Device,
        module: Module | SlangModule,
        options: dict[str, Any] | None = None,
        link: Sequence[Module] = (),
    ) -> Module:
        """The same module with other options."""
        return Module(module if isinstance(module, SlangModule) else module.device_module, options, link)

    @property
    def layout(self) -> ProgramLayout:
        """Reflection: parameters, entry points, types by name."""
        return self.device_module.layout

    def __repr__(self) -> str:
        return f"Module(name={self.name!r}, linked_modules={[each.name for each in self.link]})"

    # --- Names ---

    def find_function(self, name: str) -> Function | None:
        """The functions of a name, generic arguments perhaps in it; None when there are none."""
        if name not in self._functions:
            self._functions[name] = self._make_function(name, self.view.find_functions(name), None)
        return self._functions[name]

    def require_function(self, name: str) -> Function:
        found = self.find_function(name)
        if found is None:
            raise self._not_found(name, "function", self.view.function_names())
        return found

    def find_struct(self, name: str) -> Struct | None:
        """A type by name, `float3` and `Foo<4>` too; None when there is none."""
        found = self.view.find_type(name)
        return None if found is None else self.struct_of(found)

    def require_struct(self, name: str) -> Struct:
        found = self.find_struct(name)
        if found is None:
            raise self._not_found(name, "struct", self.view.type_names())
        return found

    def find_function_in_struct(self, struct: Struct | str, name: str) -> Function | None:
        """A method, static or not, or a constructor."""
        owner = self.find_struct(struct) if isinstance(struct, str) else struct
        if owner is None:
            return None
        if name == "__init":
            return self._make_function(name, self.view.find_constructors(owner.checked), owner)
        views = self.view.find_functions(f"{spell(owner.checked)}.{name}")
        return self._make_function(name, views, owner)

    def struct_of(self, checked: Type) -> Struct:
        """The one Struct for a checked type."""
        found = self._structs.get(checked)
        if found is None:
            found = self._structs[checked] = Struct(self, checked)
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
        self, name: str, views: Sequence[FunctionView], struct: Struct | None
    ) -> Function | None:
        if not views:
            return None
        candidates = [candidate_of(view, self.types) for view in _own(views)]
        caller = Caller(
            name,
            candidates,
            self.types,
            self.session.compiler,
            self.device,
            self._imports,
            self.options.get("strict_broadcasting", False),
        )
        return Function(self, name, caller, struct)

    def _imports(self) -> tuple[str, ...]:
        return self.session.imports_of(self.view.module)

    def _not_found(self, name: str, what: str, known: Sequence[str]) -> NameNotFound:
        return NameNotFound(
            f"Could not find {what} '{name}' in module '{self.name}'",
            f"there are {', '.join(known) or 'none'}",
        )


def _own(views: Sequence[FunctionView]) -> Sequence[FunctionView]:
    """Functions of the library stand back where a module has some of that name."""
    found = [view for view in views if not view.declaration.span.source.name.startswith("std/")]
    return found or views


def _checked_options(options: dict[str, Any] | None) -> dict[str, Any]:
    for name, value in (options or {}).items():
        if name not in _OPTIONS or not isinstance(value, _OPTIONS[name]):
            raise CallError("E1015", f"options: {name}={value!r}", (), f"there are {', '.join(_OPTIONS)}")
    return dict(options or {})
