"""Which Marshall a class has: tables that users fill.

    PYTHON_TYPES[Noise] = lambda layout, value: NoiseMarshall(layout, value.octaves)
    PYTHON_SIGNATURES[Noise] = lambda value: f"[{value.octaves}]"

Classes that inherit from one of the table have its Marshall. What calls know by themselves stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from slangrad.api.marshalls.arguments import Factory, TaughtMarshal
from slangrad.api.marshalls.marshall import NativeMarshall, NativeValueMarshall
from slangrad.api.marshalls.outputs import binder_of
from slangrad.api.reflection.slang_lookup import resolve_element_type
from slangrad.marshal import registry, results
from slangrad.marshal.errors import BoundVariableException, CallError

if TYPE_CHECKING:
    from slangrad.api.reflection.slang_layout import SlangProgramLayout

Signature = Callable[[Any], str]


class _Table(dict[type, Any]):
    """A dict by class that tells calls when it changes."""

    def __init__(self, changed: Callable[[type], None]) -> None:
        super().__init__()
        self._changed = changed

    def __setitem__(self, kind: type, value: Any) -> None:
        if not isinstance(kind, type) or registry.is_built_in(kind):
            name = getattr(kind, "__name__", repr(kind))
            raise CallError("E1001", f"PYTHON_TYPES: calls know values of {name} by themselves")
        super().__setitem__(kind, value)
        self._changed(kind)

    def __delitem__(self, kind: type) -> None:
        super().__delitem__(kind)
        self._changed(kind)

    def pop(self, kind: type, *default: Any) -> Any:
        found = super().pop(kind, *default)
        self._changed(kind)
        return found

    def update(self, *given: Any, **named: Any) -> None:
        for kind, value in dict(*given, **named).items():
            self[kind] = value


def _changed(kind: type) -> None:
    registry.unregister(kind)
    results.teach(kind, None)
    if kind in PYTHON_TYPES:
        registry.register(kind, key_of_taught, marshal_of_taught)
        if not hasattr(kind, "from_result"):
            results.teach(kind, binder_of(kind, PYTHON_TYPES[kind]))


#: For classes, what makes a Marshall: `factory(layout, value)`.
PYTHON_TYPES: dict[type, Factory] = _Table(lambda kind: _changed(kind))
#: For classes, what tells values apart that need Marshalls of their own; else their `slangpy_signature` does.
PYTHON_SIGNATURES: dict[type, Signature | None] = _Table(lambda kind: _changed(kind))


def _looked_up(table: dict[type, Any], kind: type) -> Iterator[Any]:
    return (table[each] for each in kind.__mro__ if each in table)


def lookup_type_callback(python_type: type) -> Factory | None:
    """What makes the Marshall of a class, or of one that it inherits from."""
    return next(_looked_up(PYTHON_TYPES, python_type), None)


def lookup_signature_callback(python_type: type) -> tuple[bool, Signature | None]:
    """Whether a class has a signature of its own, and the function that gives it."""
    found = list(_looked_up(PYTHON_SIGNATURES, python_type))
    return bool(found), found[0] if found else None


def key_of_taught(value: Any) -> Any:
    """What a call's kernel depends on."""
    kind = type(value)
    known, callback = lookup_signature_callback(kind)
    if known:
        said = "" if callback is None else callback(value)
    else:
        said = getattr(value, "slangpy_signature", "")
    return kind, lookup_type_callback(kind), said


def marshal_of_taught(value: Any) -> Any:
    factory = lookup_type_callback(type(value))
    assert factory is not None
    return TaughtMarshal(factory, value)


def dispatched(program: Callable[[], SlangProgramLayout], value: Any) -> Any:
    """What a kernel gets for a value: what its Marshall says, if it has one."""
    factory = lookup_type_callback(type(value))
    if factory is None:
        return value
    made = factory(program(), value)
    found = made.create_dispatchdata(value)
    if found is None:
        message = f"{made!r}: create_dispatchdata gave nothing"
        raise BoundVariableException("E1001", message, (), "it says what a launched kernel gets")
    return found


def get_or_create_type(layout: SlangProgramLayout, python_type: Any, value: Any = None) -> NativeMarshall:
    """The Marshall of a class; for one that calls know by themselves a NativeValueMarshall with its `slang_type`."""
    if isinstance(python_type, NativeMarshall):
        return python_type
    factory = lookup_type_callback(python_type) if isinstance(python_type, type) else None
    if factory is not None:
        made = factory(layout, value)
        if made is not None:
            return made
    try:
        return NativeValueMarshall(resolve_element_type(layout, python_type))
    except ValueError:
        note = "PYTHON_TYPES or register_type teaches calls a class"
        raise BoundVariableException("E1001", f"Unsupported type {python_type}", (), note) from None
