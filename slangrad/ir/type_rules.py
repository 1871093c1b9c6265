"""The type of an op's result, from its row's rule; a rule that does not hold is a mistake of ours.

    result_type("less", (f32x3, f32x3)) = boolx3

Which rule an op has is written in its row in primitives.py or target_ops.py; verify.py asks what goes beyond types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from slangrad.ir import primitives as p
from slangrad.ir import target_ops  # noqa: F401  (its rows join the table)
from slangrad.ir.core import Attribute, Value
from slangrad.ir.types import (
    BOOL,
    Array,
    Lanes,
    Pointer,
    Scalar,
    Type,
    component,
    is_integer,
    lanes,
    pointer,
    scalar_of,
    with_scalar,
)

Attributes = dict[str, Attribute]


class RuleError(AssertionError):
    """Operands that an op does not take: the compiler made wrong IR."""


def result_type(
    name: str, operands: tuple[Value, ...], attributes: Attributes, given: Type | None
) -> Type | None:
    """The type of an op's result, None for an op without one. `given` is for rows whose rule is GIVEN."""
    types = tuple([v.type for v in operands])
    rule = _rule_for(name, types)
    return (
        RULES[rule](name, types, attributes, given) if rule in MORE_THAN_TYPES else _from_types(name, types)
    )


@cache
def _rule_for(name: str, types: tuple[Type, ...]) -> str:
    row = p.PRIMITIVES[name]
    if row.kinds != "*" and not all(_takes(row.kinds, t) for t in types):
        raise RuleError(f"{name} does not take {types}")
    return row.rule


@cache
def _from_types(name: str, types: tuple[Type, ...]) -> Type | None:
    """By rules that look at the types only; the same few are asked for thousands of times."""
    return RULES[p.PRIMITIVES[name].rule](name, types, {}, None)


def _takes(kinds: str, t: Type) -> bool:
    scalar = scalar_of(t)
    return scalar is not None and scalar.kind[0] in kinds


def _require(condition: bool, name: str, types: tuple[Type, ...]) -> None:
    if not condition:
        raise RuleError(f"{name} does not take {types}")


def _same(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    _require(len(types) > 0 and all(t is types[0] for t in types), name, types)
    return types[0]


def _compare(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    return with_scalar(_same(name, types, attributes, given), BOOL)


def _select(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    _require(len(types) == 3 and types[1] is types[2] and scalar_of(types[0]) is BOOL, name, types)
    if types[0] is not BOOL and not isinstance(types[1], Lanes):
        _require(scalar_of(types[1]) is not None and with_scalar(types[1], BOOL) is types[0], name, types)
    return types[1]


def _given(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    _require(given is not None, name, types)
    assert given is not None
    return given


def _component(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    return component(types[0], _index(attributes))


def _index(attributes: Attributes) -> int:
    index = attributes["index"]
    assert isinstance(index, int)
    return index


def _first(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    return types[0]


def _element(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    aggregate = types[0]
    _require(len(types) == 2 and is_integer(types[1]), name, types)
    if isinstance(aggregate, Array):
        return aggregate.element
    return component(aggregate, 0)


def _member(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    address = types[0].element if isinstance(types[0], Lanes) else types[0]
    assert isinstance(address, Pointer), types
    moved = pointer(component(address.element, _index(attributes)), address.space)
    return lanes(moved) if isinstance(types[0], Lanes) else moved


def _pointee(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    address = types[0].element if isinstance(types[0], Lanes) else types[0]
    assert isinstance(address, Pointer), types
    return lanes(address.element) if any(isinstance(t, Lanes) for t in types) else address.element


def _truth(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> Type:
    return lanes(BOOL) if any(isinstance(t, Lanes) for t in types) else BOOL


def _nothing(name: str, types: tuple[Type, ...], attributes: Attributes, given: Type | None) -> None:
    return None


RULES: dict[str, Callable[[str, tuple[Type, ...], Attributes, Type | None], Type | None]] = {
    p.SAME: _same,
    p.COMPARE: _compare,
    p.SELECT: _select,
    p.SHIFT: _same,
    p.GIVEN: _given,
    p.COMPONENT: _component,
    p.FIRST: _first,
    p.ELEMENT: _element,
    p.POINTEE: _pointee,
    p.MEMBER: _member,
    p.TRUTH: _truth,
    p.NOTHING: _nothing,
}
MORE_THAN_TYPES = frozenset({p.GIVEN, p.COMPONENT, p.MEMBER})


def scalar_type(value: Value) -> Scalar:
    """The scalar a value's type is made of."""
    found = scalar_of(value.type)
    assert found is not None, value.type
    return found
