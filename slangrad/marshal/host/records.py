"""Dataclasses and named tuples: structs with fields of the same names, like dicts.

    @dataclass
    class Ray: origin: Any; direction: Any

    module.trace(Ray(origins, [0, 0, 1]))     ->   {"origin": origins, "direction": [0, 0, 1]}
    module.reflect(ray, _result=Ray)          ->   Ray(origin=float3(...), direction=float3(...))

The attribute `_type` of a class, if it is no field, names the Slang type, like that key of a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import get_type_hints

from slangrad.marshal.errors import CallError
from slangrad.tensors.elements.conversion import AnyArray, HostValue
from slangrad.tensors.elements.element_types import holds_structs
from slangrad.tensors.tensor import Tensor

Reader = Callable[[object], dict[str, object]]
TYPE_KEY = "_type"


@cache
def names_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass or a named tuple; None for other classes."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
        return tuple(kind._fields)  # type: ignore[attr-defined]
    return None


@cache
def reader_of(kind: type) -> Reader | None:
    """A function that returns the fields of an object of a class by their names; None if it has none."""
    names = names_of(kind)
    if names is None:
        return None
    named = getattr(kind, TYPE_KEY, None)
    type_name = {TYPE_KEY: named} if isinstance(named, str) and TYPE_KEY not in names else {}
    return lambda value: type_name | {name: getattr(value, name) for name in names}


def as_fields(value: object) -> HostValue:
    """An object of such a class as a dict; other values unchanged."""
    kind: type = type(value)
    read = reader_of(kind)
    return value if read is None else read(value)


# --- Results ------------------------------------------------------------------------------------------


def is_record(kind: type) -> bool:
    return names_of(kind) is not None


def made_of(kind: type, result: object) -> object:
    """An object of the class from the default result of a call: from a dict, or from arrays of the fields of a
    tensor of structs. Other results are the argument of the class."""
    if isinstance(result, Tensor) and holds_structs(result.element_type):
        return _filled(kind, _columns(result.to_numpy(structured=True)))
    if isinstance(result, Mapping) and not _wraps(kind, result):
        return _filled(kind, result)
    return kind(result)


def _wraps(kind: type, result: Mapping[str, object]) -> bool:
    """Whether a class has one field for the whole result, rather than one for each of its fields."""
    accepted, needed = _wanted(kind)
    return len(needed) == 1 and not accepted & set(result)


def _columns(records: AnyArray) -> HostValue:
    if records.dtype.names is None:
        return records
    return {name: _columns(records[name]) for name in records.dtype.names}


def _filled(kind: type, values: Mapping[str, object]) -> object:
    accepted, needed = _wanted(kind)
    if not needed <= set(values) <= accepted:
        message = f"a result with the fields {', '.join(values) or 'none'} makes no {kind.__name__}"
        raise CallError("E1011", message, (), f"its fields are {', '.join(names_of(kind) or ()) or 'none'}")
    kinds = _kinds(kind)
    return kind(**{name: _part(kinds.get(name), value) for name, value in values.items()})


def _part(kind: object, value: object) -> object:
    """A field; one whose class is such a class, too, becomes an object of it."""
    if isinstance(kind, type) and is_record(kind) and isinstance(value, Mapping):
        return _filled(kind, value)
    return value


def _wanted(kind: type) -> tuple[set[str], set[str]]:
    """The fields that the class takes, and those that it needs."""
    if is_dataclass(kind):
        accepted = [field for field in fields(kind) if field.init]
        usual = [
            field
            for field in accepted
            if field.default is not MISSING or field.default_factory is not MISSING
        ]
        return {field.name for field in accepted}, {field.name for field in accepted} - {
            field.name for field in usual
        }
    names = set(names_of(kind) or ())
    return names, names - set(getattr(kind, "_field_defaults", {}))


@cache
def _kinds(kind: type) -> dict[str, object]:
    """The annotations of the fields; empty if they use unknown names."""
    try:
        return get_type_hints(kind)
    except (NameError, TypeError, AttributeError):
        return {}
