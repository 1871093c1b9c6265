"""The Marshalls of classes: tables that users fill.

    PYTHON_TYPES[Noise] = lambda layout, value: NoiseMarshall(layout, value.octaves)
    PYTHON_SIGNATURES[Noise] = lambda value: f"[{value.octaves}]"

    register_write_to_cursor_type(Ray, slang_type_name="Ray")      values are structs: no Marshall has to be written

Subclasses of a class in the table share its Marshall. Classes with built-in support cannot be changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.api.functional.call_data import BoundVariable
from slangrad.compat.arguments import Factory, TaughtMarshal, binder_of
from slangrad.compat.marshall import BindContext, CodeGenBlock, NativeMarshall, NativeValueMarshall
from slangrad.compat.type_resolution import resolve_element_type
from slangrad.marshal import registry
from slangrad.marshal.composed import results
from slangrad.marshal.errors import BoundVariableException, CallError
from slangrad.marshal.reflection.slang_type import SlangType
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.api.reflection.slang_layout import SlangProgramLayout

Signature = Callable[[HostValue], str]


class _Table(dict[type, HostValue]):
    """A dict by class that clears the caches of calls when it changes."""

    def __init__(self, changed: Callable[[type], None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, kind: type, value: object) -> None:
        if not isinstance(kind, type) or registry.is_built_in(kind):
            name = getattr(kind, "__name__", repr(kind))
            raise CallError("E1001", f"PYTHON_TYPES: calls know values of {name} by themselves")
        super().__setitem__(kind, value)
        self._changed(kind)

    def __delitem__(self, kind: type) -> None:
        super().__delitem__(kind)
        self._changed(kind)

    def pop(self, kind: type, *default: object) -> HostValue:
        factory = super().pop(kind, *default)
        self._changed(kind)
        return factory

    def update(self, *args: HostValue, **named: HostValue) -> None:
        changes: HostValue = dict(*args, **named)
        for kind, value in changes.items():
            self[kind] = value


def _changed(kind: type) -> None:
    registry.unregister(kind)
    results.teach(kind, None)
    if kind in PYTHON_TYPES:
        registry.register(kind, key_of_taught, marshal_of_taught, launched_argument)
        if not hasattr(kind, "from_result"):
            results.teach(kind, binder_of(kind, PYTHON_TYPES[kind]))


#: By class, the function that makes a Marshall: `factory(layout, value)`.
PYTHON_TYPES: dict[type, Factory] = _Table(lambda kind: _changed(kind))
#: By class, the text that differs for values with different Marshalls; else their `slangpy_signature` is it.
PYTHON_SIGNATURES: dict[type, Signature | None] = _Table(lambda kind: _changed(kind))


def _looked_up(table: dict[type, HostValue], kind: type) -> Iterator[HostValue]:
    return (table[base] for base in kind.__mro__ if base in table)


def lookup_type_callback(python_type: type) -> Factory | None:
    """The function that makes the Marshall of a class, or of one that it inherits from."""
    return next(_looked_up(PYTHON_TYPES, python_type), None)


def lookup_signature_callback(python_type: type) -> tuple[bool, Signature | None]:
    """Whether a class has a signature of its own, and the function that gives it."""
    signatures = list(_looked_up(PYTHON_SIGNATURES, python_type))
    return bool(signatures), signatures[0] if signatures else None


def key_of_taught(value: object) -> Hashable:
    """The part of a value on which the kernel of a call depends."""
    kind = type(value)
    has_signature, callback = lookup_signature_callback(kind)
    if has_signature:
        signature = "" if callback is None else callback(value)
    else:
        signature = getattr(value, "slangpy_signature", "")
    return kind, lookup_type_callback(kind), signature


def marshal_of_taught(value: object) -> TaughtMarshal:
    factory = lookup_type_callback(type(value))
    assert factory is not None
    return TaughtMarshal(factory, value)


def launched_argument(layout: SlangProgramLayout, value: HostValue) -> HostValue:
    """The value that a kernel gets for one whose class is in the table: its Marshall gives it."""
    factory = lookup_type_callback(type(value))
    assert factory is not None
    marshall = factory(layout, value)
    data = marshall.create_dispatchdata(value)
    if data is None:
        message = f"{marshall!r}: create_dispatchdata gave nothing"
        raise BoundVariableException("E1001", message, (), "it gives the value for a launched kernel")
    return data


def get_or_create_type(
    layout: SlangProgramLayout, python_type: object, value: object = None
) -> NativeMarshall:
    """The Marshall of a class; for one with built-in support a NativeValueMarshall with its `slang_type`."""
    if isinstance(python_type, NativeMarshall):
        return python_type
    factory = lookup_type_callback(python_type) if isinstance(python_type, type) else None
    if factory is not None:
        marshall = factory(layout, value)
        if marshall is not None:
            return marshall
    try:
        return NativeValueMarshall(resolve_element_type(layout, python_type))
    except ValueError:
        note = "PYTHON_TYPES or register_type teaches calls a class"
        raise BoundVariableException("E1001", f"Unsupported type {python_type}", (), note) from None


@dataclass(frozen=True)
class WriteToCursorMarshallInfo:
    """The row of a class: the name of its Slang type, its signature, modules that the type is from, and the
    names of all types that may be meant.
    """

    slang_type_name: str
    signature: str
    imports: tuple[str, ...]
    accepted_type_regex: re.Pattern[str]

    def accepts_type(self, slang_type: SlangType) -> bool:
        return self.accepted_type_regex.fullmatch(slang_type.full_name) is not None


class WriteToCursorMarshall(NativeValueMarshall):
    """A struct that is the same in all calls, and only read."""

    def __init__(self, layout: SlangProgramLayout, info: WriteToCursorMarshallInfo) -> None:
        super().__init__()
        self.m_info = info
        t = layout.find_type_by_name(info.slang_type_name)
        if t is None:
            message = f"Cursor-bindable Slang type '{info.slang_type_name}' is not visible"
            note = "the called module has to declare or import it"
            raise BoundVariableException("E1001", message, (), note)
        self.slang_type = t

    def resolve_types(self, context: BindContext, bound_type: SlangType) -> list[SlangType]:
        if bound_type.is_generic:
            return [self.slang_type]
        return [bound_type] if self.m_info.accepts_type(bound_type) else []

    def resolve_dimensionality(
        self, context: BindContext, binding: BoundVariable | None, vector_target_type: SlangType
    ) -> int | None:
        return 0 if self.m_info.accepts_type(vector_target_type) else None

    def gen_calldata(self, cgb: CodeGenBlock, context: BindContext, binding: BoundVariable) -> None:
        for name in self.m_info.imports:
            cgb.add_import(name)
        binding.gen_calldata_type_name(cgb, binding.vector_type.full_name)


def register_write_to_cursor_type(
    python_type: type,
    *,
    slang_type_name: str,
    signature: str | None = None,
    imports: Iterable[str] = (),
    accepted_type_regex: str | re.Pattern[str] | None = None,
) -> None:
    """Register a class whose values are structs. ValueError if it is registered already."""
    if python_type in PYTHON_TYPES or python_type in PYTHON_SIGNATURES:
        raise ValueError(f"Python type '{python_type.__name__}' is already registered")
    pattern = re.escape(slang_type_name) if accepted_type_regex is None else accepted_type_regex
    usual = f"[{python_type.__module__}.{python_type.__qualname__},{slang_type_name}]"
    info = WriteToCursorMarshallInfo(
        slang_type_name, usual if signature is None else signature, tuple(imports), re.compile(pattern)
    )

    def make(layout: SlangProgramLayout, value: object) -> WriteToCursorMarshall:
        return WriteToCursorMarshall(layout, info)

    PYTHON_TYPES[python_type] = make
    PYTHON_SIGNATURES[python_type] = lambda value: info.signature
