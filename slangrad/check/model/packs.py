"""Packs: several types or values under one name.

In: `S<each T>` where T is (int, float).   Out: S<int>, S<float>.

A pack as an argument is a tuple. Its entries are types, values or open packs: `T` itself (a ParameterType) and
`expand S<each T>` (an ExpandedType). The element of a pack in a pattern, `each T`, is its own generic parameter,
which a substitution may fill in. expansions.py checks `expand`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

from slangrad.check.model.types import (
    ExpandedType,
    GenericArgument,
    ParameterType,
    Type,
    expanded_type,
    is_pack,
    parameter_type,
)
from slangrad.check.model.values import (
    ExpandedValue,
    Pack,
    ParameterValue,
    Value,
    expanded_value,
    is_value_pack,
    operate,
    parameter_value,
    type_query,
)
from slangrad.syntax import ast

Entry = Type | Value  # of a pack


def element_parameter(pack: Pack) -> Pack:
    """The generic parameter that `each T` is, for the parameter T."""
    if pack.pack_element is None:
        pack.pack_element = _parameter_like(pack, f"each {pack.name}", False)
    return pack.pack_element


def _parameter_like(pack: Pack, name: str, is_pack: bool) -> Pack:
    parameter: Pack
    if isinstance(pack, ast.TypeParameter):
        parameter = ast.TypeParameter(pack.span, name, pack.name_span, [], None, is_pack)
    else:
        parameter = ast.ValueParameter(pack.span, name, pack.name_span, pack.value_type, None, is_pack)
    parameter.parent = pack.parent
    return parameter


def pack_of_element(declaration: object) -> Pack | None:
    """T where the parameter is `each T`, also of a part of T; None for others."""
    if not isinstance(declaration, (ast.TypeParameter, ast.ValueParameter)):
        return None
    generics = getattr(declaration.parent, "generics", ())
    return next((parameter for parameter in generics if _has_element(parameter, declaration)), None)


def _has_element(pack: Pack, declaration: Pack) -> bool:
    if pack.pack_element is declaration:
        return True
    return any(part is declaration or _has_element(part, declaration) for part in pack.parts.values())


SINGLE = ("__first", "__last")  # the parts of a pack that are no packs


def part_parameter(pack: Pack, query: str) -> Pack:
    """The generic parameter that `__trimFirst(T)` is, for the parameter T."""
    if query not in pack.parts:
        parameter = pack.parts[query] = _parameter_like(pack, f"{query}({pack.name})", query not in SINGLE)
        parameter.part_of = pack, query
    return pack.parts[query]


def alone(parameter: ast.TypeParameter | ast.ValueParameter | ast.Interface | ast.Extension) -> Entry:
    """A generic parameter as a type or value."""
    if isinstance(parameter, ast.ValueParameter):
        return parameter_value(parameter)
    return parameter_type(parameter)


def is_entry_pack(entry: object) -> bool:
    """Whether an entry of a pack is a pack that is not known yet."""
    return is_pack(entry) or is_value_pack(entry)


def packs_of(entry: object) -> tuple[Pack, ...]:
    """The generic parameters over whose elements an entry runs."""
    if isinstance(entry, (ParameterType, ParameterValue)):
        assert isinstance(entry.declaration, (ast.TypeParameter, ast.ValueParameter))
        return (entry.declaration,)
    assert isinstance(entry, (ExpandedType, ExpandedValue))
    return entry.packs


@overload
def element_of_pack(entry: Type) -> Type: ...
@overload
def element_of_pack(entry: GenericArgument) -> Entry: ...
def element_of_pack(entry: GenericArgument) -> Entry:
    """The pattern, for one element."""
    if isinstance(entry, (ExpandedType, ExpandedValue)):
        return entry.pattern
    return alone(element_parameter(packs_of(entry)[0]))


def expanded(pattern: Entry, packs: tuple[Pack, ...]) -> Entry:
    """The pattern for each element of packs."""
    if isinstance(pattern, Type):
        return expanded_type(pattern, packs)
    return expanded_value(pattern, packs)


def spliced(entries: Iterable[GenericArgument]) -> tuple[Entry, ...]:
    """Entries one after the other, packs that became known among them."""
    flat: list[Entry] = []
    for entry in entries:
        flat += spliced(entry) if isinstance(entry, tuple) else (entry,)
    return tuple(flat)


def count_entries(entries: tuple[object, ...]) -> Value:
    """How many there are, once all are known."""
    total: Value = 0
    for entry in entries:
        entry_count = type_query("countof", alone(packs_of(entry)[0])) if is_entry_pack(entry) else 1
        added = operate("+", total, entry_count)
        assert added is not None
        total = added
    return total


def shares(wanted: list[int | None], count: int) -> list[int] | None:
    """How many of `count` things each takes; those with None take the rest in equal parts."""
    packs = wanted.count(None)
    rest = count - sum(number for number in wanted if number is not None)
    if rest < 0 or (rest and not packs) or (packs and rest % packs):
        return None
    return [rest // packs if number is None else number for number in wanted]


def grouped(parameters: Sequence[Pack], arguments: Sequence[Entry]) -> list[GenericArgument] | None:
    """Generic arguments by parameter, those of each pack together; None where they cannot be shared out."""
    counts = shares([None if generic.is_pack else 1 for generic in parameters], len(arguments))
    if counts is None:
        return None
    groups: list[GenericArgument] = []
    position = 0
    for parameter, count in zip(parameters, counts):
        part = tuple(arguments[position : position + count])
        groups.append(part if parameter.is_pack else part[0])
        position += count
    return groups
