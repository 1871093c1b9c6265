"""Parts of packs: `__first(x)`, `__last(x)`, and `__trimFirst(x)`, `__trimLast(x)`, which are all others.

In: `__trimFirst(T)` of a pack of types, values or arguments, or of a tuple type.   Out: its meaning.

The part of an open pack is its own generic parameter, whose argument follows from that of the pack
(`substitution.argument_of`).
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check.generics.bounds import element_type
from slangrad.check.generics.substitution import taken
from slangrad.check.model import checked
from slangrad.check.model.meanings import ErrorMeaning, Meaning, PackMeaning, TypeMeaning, ValueMeaning
from slangrad.check.model.packs import SINGLE, packs_of
from slangrad.check.model.types import ERROR, Tuple, Type, expanded_type, is_pack, tuple_of
from slangrad.check.model.values import is_value_pack
from slangrad.check.names.members import fail, refuse, set_slots
from slangrad.check.names.places import value_type
from slangrad.check.names.resolve import mark_type, refer
from slangrad.check.names.scopes import Scope, levels
from slangrad.syntax import ast

_QUERIES = ("__first", "__last", "__trimFirst", "__trimLast")


def asks_for_part(scope: Scope, node: ast.Call) -> bool:
    """Whether a call is of one of these words, and no declaration has its name."""
    callee = node.callee
    if not isinstance(callee, ast.Name) or callee.name not in _QUERIES or len(node.arguments) != 1:
        return False
    return not any(level.local(callee.name) for level in levels(scope))


def part(scope: Scope, node: ast.Call) -> Meaning:
    """The meaning of such a call."""
    (operand,) = node.arguments
    meaning = refer(scope, operand)
    query = node.callee.span.text
    if isinstance(meaning, PackMeaning):
        return _of_types(scope, node, query, meaning.types, PackMeaning)
    if isinstance(meaning, TypeMeaning):
        mark_type(operand, meaning.type)
        if isinstance(meaning.type, Tuple):
            return _of_types(
                scope, node, query, meaning.type.elements, lambda rest: TypeMeaning(tuple_of(rest))
            )
        if is_pack(meaning.type):
            return _of_types(scope, node, query, (meaning.type,), lambda rest: TypeMeaning(rest[0]))
    if isinstance(meaning, ValueMeaning):
        value = _of_value(scope, node, query)
        if value is not None:
            return value
    if not isinstance(meaning, ErrorMeaning) and operand.type is not ERROR:
        message = f"'{query}' needs a pack or the type of a tuple, which '{operand.span.text}' is not"
        scope.checker.error("E0409", message, operand.span)
    return fail(node)


def _of_types(
    scope: Scope,
    node: ast.Call,
    query: str,
    types: tuple[Type, ...],
    rest: Callable[[tuple[Type, ...]], Meaning],
) -> Meaning:
    part = taken(scope.checker, types, query)
    if part is None:
        return _empty(scope, node, query)
    kinds = tuple(entry for entry in part if isinstance(entry, Type))
    return TypeMeaning(kinds[0]) if query in SINGLE else rest(kinds)


def _of_value(scope: Scope, node: ast.Call, query: str) -> Meaning | None:
    """A pack of values or of arguments; None for what is no pack."""
    (operand,) = node.arguments
    form, kind = operand.ref, value_type(operand)
    if isinstance(form, checked.Constant) and is_value_pack(form.value):
        (value,) = taken(scope.checker, (form.value,), query) or ()
        assert not isinstance(value, Type)
        element = element_type(scope.checker, kind)
        whole = element if query in SINGLE else expanded_type(element, packs_of(value))
        return set_slots(node, whole, checked.Constant(value))
    if not is_pack(kind):
        return None
    (part,) = taken(scope.checker, (kind,), query) or ()
    assert isinstance(part, Type)
    return set_slots(node, part, checked.PartOfPack(operand, query))


def _empty(scope: Scope, node: ast.Call, query: str) -> Meaning:
    return refuse(scope, node, "E0409", f"'{query}' needs a pack that is not empty", node.span)
