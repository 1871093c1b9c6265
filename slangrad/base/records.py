"""Classes of fields that load quickly.

    @record
    class Point:
        x: int                                                       Point(1), Point(1, 2)
        y: int = 0
        seen: list[Point] = field(default_factory=list, init=False)

Fields are in slots, and objects are compared by identity, as with `dataclass(slots=True, eq=False, repr=False)`, which
takes three times as long to make a class. The compiler has two hundred such classes, and makes them in each process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field
from typing import Any, TypeVar, cast, dataclass_transform

Kind = TypeVar("Kind")
OfClass = (
    Any  # the argument and the result of a function in a table by class; the key has the argument's class
)


class WeaklyReferenced:
    """A base of records that may be referred to weakly."""

    __slots__ = ("__weakref__",)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def record(kind: type[Kind]) -> type[Kind]:
    """The class again, with its fields in slots and an `__init__`."""
    declared: dict[str, object] = {name: kind.__dict__.get(name, MISSING) for name in kind.__annotations__}
    inherited = fields_of(kind.__bases__[0])
    fields = {**inherited, **declared}
    kept = {name: value for name, value in kind.__dict__.items() if name not in declared}
    kept["__slots__"] = tuple(name for name in declared if name not in inherited)
    kept |= {"_fields": fields, "__init__": _initializer(fields)}
    for name in ("__dict__", "__weakref__"):  # slots take their place
        kept.pop(name, None)
    make = cast("Callable[..., type[Kind]]", type(kind))
    made_class = make(kind.__name__, kind.__bases__, kept)
    made_class.__qualname__ = kind.__qualname__
    return made_class


def fields_of(kind: type[object]) -> Mapping[str, object]:
    """The fields of a record, those of its base first, with their defaults or what `field` says of them."""
    declared: Mapping[str, object] = getattr(kind, "_fields", {})
    return declared


def kinds_of(base: type[Kind]) -> set[type[Kind]]:
    """The records at the ends of a tree of classes. A table by class asserts that it has a row for each."""
    kinds: set[type[Kind]] = set()
    for kind in base.__subclasses__():
        if "_fields" in vars(kind):  # not the class that `record` took, which may still be in memory
            kinds |= kinds_of(kind) or {kind}
    return kinds


def default_of(value: object) -> object:
    """The value of a field that the caller leaves out."""
    if not isinstance(value, Field):
        return value
    return value.default if value.default_factory is MISSING else value.default_factory()


def _initializer(fields: Mapping[str, object]) -> Callable[..., None]:
    """A parameter for each field that has one; defaults, and what makes them, are names in the text."""
    parameters, lines = ["self"], [" pass"]
    names: dict[str, object] = {"MISSING": MISSING}
    for name, value in fields.items():
        default, is_parameter, value_text = f"default_{name}", True, name
        if isinstance(value, Field):
            is_parameter, names[default], names[f"make_{name}"] = (
                value.init,
                value.default,
                value.default_factory,
            )
            before = default if value.default_factory is MISSING else f"make_{name}()"
            value_text = f"{before} if {name} is MISSING else {name}" if is_parameter else before
        elif value is not MISSING:
            names[default] = value
        if is_parameter:
            parameters.append(f"{name}={default}" if default in names else name)
        lines.append(f" self.{name} = {value_text}")
    exec("\n".join((f"def __init__({', '.join(parameters)}):", *lines)), names)
    return cast("Callable[..., None]", names["__init__"])


def desc_and_values(
    kind: type[Kind],
    desc: Kind | Mapping[str, object] | None,
    named: Mapping[str, object],
    refusal: str,
    label: str = "desc",
    more: Sequence[str] = (),
) -> tuple[Kind, dict[str, Any]]:  # values of users
    """A dataclass to begin with, and the values of its fields, or of `more` names, in a dict and in `named`. TypeError
    for other objects and, with the `refusal`, for other names."""
    if not isinstance(desc, (kind, Mapping, type(None))):
        raise TypeError(f"{label}: expected a {kind.__name__} or a dict, not {desc!r}")
    values = {**(desc if isinstance(desc, Mapping) else {}), **named}
    names = [*vars(kind)["__dataclass_fields__"], *more]
    unknown = [name for name in values if name not in names]
    if unknown:
        raise TypeError(f"{unknown[0]}: {refusal} {', '.join(names)}")
    return (desc if isinstance(desc, kind) else kind()), values
