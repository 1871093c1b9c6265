"""Structs and other types of a module: name spaces of methods, constructors, element types.

Particle = module.Particle
Tensor.empty(device, (100,), Particle)         Particle.fields["mass"]
Particle(1.0, velocity)                        calls its constructor
Particle.step(this, 0.1)                       calls a method
m.Color.Green   m.Color["Green"]   m.Color(5)  enums: types with enumerators
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from operator import index
from typing import TYPE_CHECKING, Any

from slangrad.api.functional.function import DESCRIBE, Function, OwnText
from slangrad.base.process.unique import Unique
from slangrad.base.suggestions import near
from slangrad.check.model.types import Type
from slangrad.marshal.errors import CallError, NameNotFound
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.spelling import spell
from slangrad.marshal.reflection.model import SavedType
from slangrad.marshal.reflection.slang_type import SlangType
from slangrad.marshal.simple.enums import EnumValue, holds
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.api.devices.device import Device
    from slangrad.api.functional.module import Module
    from slangrad.api.kernels.shader import SlangModule
    from slangrad.api.reflection.slang_layout import SlangProgramLayout
    from slangrad.api.sessions.session import SlangSession
Member = Any  # a Function, a Struct or an EnumValue, which users call by its name


class Names(ABC):
    """Functions and types by name, as attributes and items: the common base of modules and types."""

    __slots__ = ()

    @abstractmethod
    def find_function(self, name: str) -> Function | None:
        """The functions of a name, generic arguments perhaps in it; None when there are none."""

    @abstractmethod
    def find_struct(self, name: str) -> Struct | None:
        """A type by name; None when there is none."""

    @abstractmethod
    def _missing(self, name: str, kind: str) -> NameNotFound:
        """The error for a name; `kind` is "function", "struct", or empty for both."""

    def require_function(self, name: str) -> Function:
        """The functions of a name, as `find_function`; NameNotFound when there are none."""
        function = self.find_function(name)
        if function is None:
            raise self._missing(name, "function")
        return function

    def require_struct(self, name: str) -> Struct:
        """A type by name, as `find_struct`; NameNotFound when there is none."""
        struct = self.find_struct(name)
        if struct is None:
            raise self._missing(name, "struct")
        return struct

    def __getitem__(self, name: str) -> Member:
        """A function or, if there is none of that name, a type."""
        member = self.find_function(name) or self.find_struct(name)
        if member is None:
            raise self._missing(name, "")
        return member

    def __getattr__(self, name: str) -> Member:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self[name]

    def _ipython_key_completions_(self) -> list[str]:
        names: list[str] = DESCRIBE.names_in(self)
        return names

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._ipython_key_completions_()]


class Struct(Unique, Names, SlangType):
    """A type of a module: an element type of tensors, and a name space. `Type.method(this, ...)` calls a method,
    `Type(...)` a constructor, `Type.Inner` is a type inside of it."""

    __slots__ = ("_functions", "_made_in", "_text", "_type", "module")

    def __init__(self, module: Module, checked: Type) -> None:
        self.module = module
        self._made_in = module.known.generation
        self._type = checked
        self._program = None
        self._text = checked.spelled if isinstance(checked, SavedType) else spell(checked)
        self._functions: dict[str, Function] = {}

    @property
    def _types(self) -> ProgramTypes:  # type: ignore[override]
        types: ProgramTypes = self.module.known.types
        return types

    @property
    def _checked(self) -> Type:
        """The type as it is now: a reload may have changed it."""
        generation = self.module.known.generation
        if self._made_in is not generation:
            t = self.module.find_type(self._text)
            if t is None:
                message = f"Module '{self.module.name}' has no type '{self._text}' any more"
                raise CallError("E1012", message, (), "its file has changed")
            self._made_in, self._type, self._functions = generation, t, {}
        return self._type

    @_checked.setter
    def _checked(self, t: Type) -> None:
        self._type = t

    def __repr__(self) -> str:
        return f"Struct({self._text})"

    @property
    def program(self) -> SlangProgramLayout:
        """The reflection of the struct's module."""
        return self.module.layout

    @property
    def struct(self) -> SlangType:
        """The type by itself, as an object of its kind."""
        return self.program.type_of(self.checked)

    @property
    def type(self) -> SlangType:
        """The type by its reflection, as `struct`."""
        return self.struct

    @property
    def device_module(self) -> SlangModule:
        """The type's module as kernels see it."""
        return self.module.device_module

    @property
    def session(self) -> SlangSession:
        """The module's session."""
        return self.module.session

    @property
    def device(self) -> Device:
        """The module's device."""
        return self.module.device

    def as_struct(self) -> Struct:
        """Itself: tells type checkers that the name is a type."""
        return self

    def as_func(self) -> Function:
        """ValueError: a type is no function."""
        raise ValueError(f"Cannot convert type '{self.name}' to a function: Type(...) calls its constructor")

    @property
    def methods(self) -> dict[str, Function]:
        """Methods, static ones too, by name."""
        members = {name: self.find_function(name) for name in self.module.view.member_names(self.checked)}
        return {name: function for name, function in members.items() if function is not None}

    def __call__(self, /, *args: HostValue, **kwargs: HostValue) -> HostValue:
        """Call the constructor; where none is declared, with a value for each field, in order or by name."""
        return self.constructor()(*args, **kwargs)

    def constructor(self) -> Function:
        """The constructor that `Type(...)` calls. NameNotFound where none is declared and there are no fields."""
        function = self.find_function("__init")
        if function is None and self.fields:
            fields = [(name, field.type.spelled) for name, field in self.fields.items()]
            parameters = ", ".join(f"{kind} {name}" for name, kind in fields)
            body = " ".join(f"this.{name} = {name};" for name, _ in fields)
            text = f"extension {self.spelled} {{ __init({parameters}) {{ {body} }} }}"
            function = self.module.with_prelude(text).require_struct(self.spelled).require_function("__init")
        return self.require_function("__init") if function is None else function

    def find_struct(self, name: str) -> Struct | None:
        """A type inside of this one, or None."""
        return self.module.find_struct(f"{self.name}.{name}")

    def find_function(self, name: str) -> Function | None:
        """A method or constructor (`__init`), or None."""
        function = self._functions.get(name)
        if function is None or self._made_in.expired:
            function = self.module.find_function_in_struct(self, name)
            if function is not None:
                self._functions[name] = function
        return function

    def _missing(self, name: str, kind: str) -> NameNotFound:
        members = self.module.view.member_names(self.checked)
        message = f"Type '{self.name}' has no method or sub-type named '{name}'"
        return NameNotFound(message, self._similar(name, members))

    def _similar(self, name: str, members: Iterable[str]) -> str:
        listed = list(members)
        return near(name, listed) or f"its members are {', '.join(listed) or 'none'}"


Struct.__doc__ = OwnText(Struct.__doc__, lambda struct: DESCRIBE.documentation_of_type(struct))


class Enum(Struct):
    """An enum of a module: `Color.Green` is one of its values, an int with a name; `Color(5)` is the value of a
    number, which may have no name. `len` and iteration serve the named values."""

    __slots__ = ("_known",)

    def __init__(self, module: Module, checked: Type) -> None:
        super().__init__(module, checked)
        self._known: tuple[Type | None, dict[str, EnumValue]] = (None, {})

    @property
    def values(self) -> dict[str, EnumValue]:
        """The enumerators by name, in the order of their declaration."""
        t, enum = self.checked, self.spelled
        if self._known[0] is not t:
            listed = self._types.enumerators(t)
            self._known = t, {name: EnumValue(value, enum, name) for name, value in listed}
        return self._known[1]

    def __getitem__(self, name: str) -> Member:
        if isinstance(name, str) and name in self.values:
            return self.values[name]
        return super().__getitem__(name)

    def __call__(self, value: HostValue, /) -> EnumValue:
        """The value of a whole number. CallError (E1010) where the enum's type cannot hold it."""
        if isinstance(value, str):
            raise CallError(
                "E1001", f"{self.name}({value!r}): a number is needed", (), f'{self.name}["..."] finds names'
            )
        try:
            number = index(value)
        except TypeError:
            kind = type(value).__name__
            raise CallError("E1001", f"{self.name}: {kind} is no whole number") from None
        if not holds(self.ir_type, number):
            raise CallError("E1010", f"{self.name}({number}): its type cannot hold this number")
        named = (value for value in self.values.values() if value == number)
        return next(named, EnumValue(number, self.spelled))

    def __iter__(self) -> Iterator[EnumValue]:
        return iter(self.values.values())

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: object) -> bool:
        return value in self.values if isinstance(value, str) else value in self.values.values()

    def __repr__(self) -> str:
        listed = ", ".join(f"{name} = {int(value)}" for name, value in self.values.items())
        return f"Enum({self.spelled}: {listed})"

    def _missing(self, name: str, kind: str) -> NameNotFound:
        return NameNotFound(
            f"Enum '{self.name}' has no enumerator named '{name}'", self._similar(name, self.values)
        )


Enum.__doc__ = OwnText(Enum.__doc__, lambda enum: DESCRIBE.documentation_of_type(enum))
