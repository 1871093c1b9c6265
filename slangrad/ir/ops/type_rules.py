"""The type of an op's result, from its row's rule; a rule that does not hold is a mistake of ours.

    result_type("less", (f32x3, f32x3)) = boolx3

The row of an op in primitives.py or target_ops.py has its rule and its attributes; verify.py checks all that is not
about types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import get_args, get_origin, get_type_hints

from slangrad.ir.data.types import (
    BOOL,
    Array,
    Lanes,
    Scalar,
    Type,
    component,
    is_integer,
    lanes,
    pointer,
    pointer_of,
    scalar_of,
    with_scalar,
)
from slangrad.ir.ops import primitives as p
from slangrad.ir.ops import target_ops  # noqa: F401  (its rows join the table)
from slangrad.ir.ops.core import Attributes, Value


class RuleError(AssertionError):
    """Operands that an op does not take: the compiler made wrong IR."""


@cache
def _attributes_of(name: str) -> dict[str, bool]:
    """The attributes that an op has, and whether it needs them."""
    row = p.PRIMITIVES.get(name)
    words = p.CONTROL_SAYS.get(name, "") if row is None else row.says
    return {word.removesuffix("?"): not word.endswith("?") for word in words.split()}


@cache
def _classes() -> dict[str, tuple[type, ...]]:
    """Of the values of attributes."""
    hints = get_type_hints(Attributes)
    return {n: get_args(t) if isinstance(t, UnionType) else (get_origin(t) or t,) for n, t in hints.items()}


def check_attributes(name: str, attributes: Mapping[str, object]) -> None:
    """RuleError where the row of an op does not say what its attributes are."""
    expected = _attributes_of(name)
    for key, value in attributes.items():
        if key not in expected:
            raise RuleError(f"{name} has no attribute {key!r}")
        if type(value) not in _classes()[key]:
            raise RuleError(f"the attribute {key!r} of {name} is {value!r}")
    for key, is_needed in expected.items():
        if is_needed and key not in attributes:
            raise RuleError(f"{name} lacks the attribute {key!r}")


def result_type(
    name: str, operands: tuple[Value, ...], attributes: Attributes, stated: Type | None
) -> Type | None:
    """The type of an op's result, None for an op without one. `stated` is for rows whose rule is GIVEN."""
    types = tuple([v.type for v in operands])
    t = _from_types(name, types)
    return RULES[p.PRIMITIVES[name].rule](name, types, attributes, stated) if t is UNKNOWN else t


@cache
def _from_types(name: str, types: tuple[Type, ...]) -> Type | None:
    """By rules that look at the types only, cached because few combinations occur thousands of times. Else
    UNKNOWN."""
    row = p.PRIMITIVES[name]
    if row.kinds != "*" and not all(_takes(row.kinds, t) for t in types):
        raise RuleError(f"{name} does not take {types}")
    return UNKNOWN if row.rule in MORE_THAN_TYPES else RULES[row.rule](name, types, {}, None)


def _takes(kinds: str, t: Type) -> bool:
    scalar = scalar_of(t)
    return scalar is not None and scalar.kind[0] in kinds


def _require(condition: bool, name: str, types: tuple[Type, ...]) -> None:
    if not condition:
        raise RuleError(f"{name} does not take {types}")


def _same(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    _require(len(types) > 0 and all(t is types[0] for t in types), name, types)
    return types[0]


def _compare(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    return with_scalar(_same(name, types, attributes, stated), BOOL)


def _select(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    _require(len(types) == 3 and types[1] is types[2] and scalar_of(types[0]) is BOOL, name, types)
    if types[0] is not BOOL and not isinstance(types[1], Lanes):
        _require(scalar_of(types[1]) is not None and with_scalar(types[1], BOOL) is types[0], name, types)
    return types[1]


def _stated_type(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    _require(stated is not None, name, types)
    assert stated is not None
    return stated


def _component(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    return component(types[0], attributes["index"])


def _first(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    return types[0]


def _element(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    aggregate = types[0]
    _require(len(types) == 2 and is_integer(types[1]), name, types)
    if isinstance(aggregate, Array):
        return aggregate.element
    return component(aggregate, 0)


def _member(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    address = pointer_of(types[0])
    moved = pointer(component(address.element, attributes["index"]), address.space)
    return lanes(moved) if isinstance(types[0], Lanes) else moved


def _pointee(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    element = pointer_of(types[0]).element
    return lanes(element) if any(isinstance(t, Lanes) for t in types) else element


def _truth(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> Type:
    return lanes(BOOL) if any(isinstance(t, Lanes) for t in types) else BOOL


def _nothing(name: str, types: tuple[Type, ...], attributes: Attributes, stated: Type | None) -> None:
    return None


RULES: dict[str, Callable[[str, tuple[Type, ...], Attributes, Type | None], Type | None]] = {
    p.SAME: _same,
    p.COMPARE: _compare,
    p.SELECT: _select,
    p.SHIFT: _same,
    p.GIVEN: _stated_type,
    p.COMPONENT: _component,
    p.FIRST: _first,
    p.ELEMENT: _element,
    p.POINTEE: _pointee,
    p.MEMBER: _member,
    p.TRUTH: _truth,
    p.NOTHING: _nothing,
}
MORE_THAN_TYPES = frozenset({p.GIVEN, p.COMPONENT, p.MEMBER})
UNKNOWN = Type()


def scalar_type(value: Value) -> Scalar:
    """The scalar a value's type is made of."""
    scalar = scalar_of(value.type)
    assert scalar is not None, value.type
    return scalar
