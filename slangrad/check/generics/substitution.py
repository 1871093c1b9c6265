"""Filling in generic parameters.

In: `vector<T, N + 1>` and {T: float, N: 2}.   Out: `float3`.

Replacement is simultaneous: arguments are not substituted again, so an argument may itself contain the parameters
being replaced, as in a recursive call f<N - 1>. Associated types of concrete types are looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from slangrad.base.records import OfClass, kinds_of
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef, GenericKey, Substitution, visible_parameters
from slangrad.check.model.packs import (
    SINGLE,
    Entry,
    alone,
    count_entries,
    element_of_pack,
    element_parameter,
    expanded,
    is_entry_pack,
    packs_of,
    part_parameter,
    spliced,
)
from slangrad.check.model.types import (
    ERROR,
    ArrayType,
    ConjunctionType,
    EnumType,
    ExpandedType,
    FunctionParameter,
    FunctionType,
    GenericArgument,
    InterfaceType,
    LambdaType,
    MatrixType,
    Nominal,
    ParameterType,
    Plain,
    PointerType,
    Projection,
    ScalarType,
    Stored,
    StructType,
    Tuple,
    Type,
    VectorType,
    array,
    conjunction,
    function_type,
    matrix,
    nominal,
    pointer,
    stored,
    tuple_of,
    unstored,
    vector,
)
from slangrad.check.model.values import (
    ExpandedValue,
    OpenValue,
    Operation,
    Pack,
    ParameterValue,
    Polynomial,
    RequiredValue,
    Symbol,
    Value,
    operate,
)
from slangrad.syntax import ast


@overload
def substitute(checker: Checker, kind: InterfaceType, substitution: Substitution) -> InterfaceType: ...
@overload
def substitute(checker: Checker, kind: FunctionType, substitution: Substitution) -> FunctionType: ...
@overload
def substitute(checker: Checker, kind: Type, substitution: Substitution) -> Type: ...
def substitute(checker: Checker, kind: Type, substitution: Substitution) -> Type:
    """`kind` with the parameters that the substitution names replaced."""
    if not kind.abstract or not substitution:
        return kind
    filled: Type = _TYPES[type(kind)](checker, kind, substitution)
    return filled


def substitute_stored(checker: Checker, kind: Type, substitution: Substitution) -> Type:
    """The same, but arguments keep their rules for memory."""
    argument = (
        argument_of(checker, kind.declaration, substitution) if isinstance(kind, ParameterType) else None
    )
    return argument if isinstance(argument, Type) else substitute(checker, kind, substitution)


def substitute_value(checker: Checker, value: Value, substitution: Substitution) -> Value:
    """An integer with parameters replaced; undefined values such as N / 0 become zero."""
    if isinstance(value, int) or not substitution:
        return value
    filled: Value = _VALUES[type(value)](checker, value, substitution)
    return filled


def substitute_argument(
    checker: Checker, argument: GenericArgument, substitution: Substitution
) -> GenericArgument:
    """A generic argument: a type, a value, or a tuple of them for a pack."""
    if isinstance(argument, Type):
        return substitute(checker, argument, substitution)
    if isinstance(argument, tuple):
        return spliced(substitute_argument(checker, entry, substitution) for entry in argument)
    return substitute_value(checker, argument, substitution)


def see_through(checker: Checker, reference: DeclRef, substitution: Substitution) -> DeclRef:
    """The reference after filling in the parameters at its place."""
    if not substitution or not reference.substitution:
        return reference
    replaced = {
        key: substitute_argument(checker, argument, substitution)
        for key, argument in reference.substitution.items()
    }
    return DeclRef(reference.declaration, replaced)


def own_substitution(kind: Nominal) -> Bindings:
    """The arguments of the generic parameters around the members of a declared type."""
    return dict(zip(nominal_parameters(kind.declaration), kind.arguments))


def nominal_parameters(declaration: ast.Declaration) -> tuple[GenericKey, ...]:
    """The generic parameters whose arguments a declared type carries."""
    return tuple(parameter for parameter in visible_parameters(declaration) if parameter is not declaration)


def identity(declaration: ast.Declaration) -> Bindings:
    """Each visible generic parameter as itself: the substitution inside of a declaration."""
    return {parameter: self_argument(parameter) for parameter in visible_parameters(declaration)}


def self_argument(parameter: GenericKey) -> GenericArgument:
    """A generic parameter as an argument."""
    is_pack = isinstance(parameter, (ast.TypeParameter, ast.ValueParameter)) and parameter.is_pack
    return (alone(parameter),) if is_pack else alone(parameter)


@overload
def self_type(declaration: ast.StructDeclaration) -> StructType: ...
@overload
def self_type(declaration: ast.Interface) -> InterfaceType: ...
@overload
def self_type(declaration: ast.Declaration) -> Nominal: ...
def self_type(declaration: ast.Declaration) -> Nominal:
    """A struct, enum, interface or lambda seen from inside: `Foo<T, N>`."""
    return nominal(
        declaration, tuple(self_argument(parameter) for parameter in nominal_parameters(declaration))
    )


# --- Types --------------------------------------------------------------------------------------------

Rule = Callable[[Checker, OfClass, Substitution], OfClass]


def _nominal(checker: Checker, kind: Nominal, substitution: Substitution) -> Nominal:
    keeps = keeps_rules(kind.declaration)
    arguments = (
        substitute_stored(checker, argument, substitution)
        if keeps and isinstance(argument, Type)
        else substitute_argument(checker, argument, substitution)
        for argument in kind.arguments
    )
    return nominal(kind.declaration, tuple(arguments))


KEEPING = ("StructuredBuffer", "RWStructuredBuffer", "ConstBufferPointer", "ConstantBuffer", "ParameterBlock")


def keeps_rules(declaration: ast.Declaration) -> bool:
    """Whether the arguments of a generic type have rules for memory."""
    return declaration.name in KEEPING and declaration.span.source.is_library


def _associated(checker: Checker, kind: Projection, substitution: Substitution) -> Type:
    base = substitute(checker, kind.base, substitution)
    if base is ERROR:
        return ERROR
    return checker.associated(base, substitute(checker, kind.interface, substitution), kind.declaration)


def _function(checker: Checker, kind: FunctionType, substitution: Substitution) -> Type:
    parameters = tuple(
        parameter
        for parameter in kind.parameters
        for parameter in passed_parameters(checker, parameter, substitution)
    )
    return function_type(parameters, substitute(checker, kind.result, substitution))


def passed_parameters(
    checker: Checker, parameter: FunctionParameter, substitution: Substitution
) -> list[FunctionParameter]:
    """A parameter with its type filled in; one for each element of a pack that becomes known."""
    filled: Any = substitute(checker, parameter.type, substitution)  # of a pack a tuple
    if not isinstance(filled, tuple):
        return [FunctionParameter(filled, parameter.direction, parameter.no_diff, parameter.name)]
    return [FunctionParameter(kind, parameter.direction, parameter.no_diff) for kind in filled]


def argument_of(
    checker: Checker, parameter: GenericKey, substitution: Substitution
) -> GenericArgument | None:
    """The argument of a parameter, None without one; for a part of a pack it follows from the pack."""
    direct = substitution.get(parameter)
    part_of = getattr(parameter, "part_of", None)
    if direct is not None or part_of is None:
        return direct
    whole, query = part_of
    entries = argument_of(checker, whole, substitution)
    if not isinstance(entries, tuple):
        return None
    part = taken(checker, spliced(entries), query)
    return ERROR if part is None else part[0] if query in SINGLE else part


def _parameter(
    checker: Checker, kind: ParameterType | ParameterValue, substitution: Substitution
) -> GenericArgument:
    argument = argument_of(checker, kind.declaration, substitution)
    return kind if argument is None else unstored(argument) if isinstance(argument, Type) else argument


def taken(checker: Checker, entries: tuple[Entry, ...], query: str) -> tuple[Entry, ...] | None:
    """The first or last entry of a pack, None where there is none, or all entries but that one."""
    if not entries:
        return None if query in SINGLE else ()
    at_end = query in ("__last", "__trimLast")
    entry, rest = (entries[-1], entries[:-1]) if at_end else (entries[0], entries[1:])
    part = (_part_of_entry(checker, entry, query),) if is_entry_pack(entry) else ()
    if query in SINGLE:
        return part or (entry,)
    return (*rest, *part) if at_end else (*part, *rest)


def _part_of_entry(checker: Checker, entry: Entry, query: str) -> Entry:
    """Of a pack that is not known yet."""
    packs = packs_of(entry)
    parts = tuple(part_parameter(pack, query) for pack in packs)
    if isinstance(entry, (ParameterType, ParameterValue)):
        return alone(parts[0])
    singles = parts if query in SINGLE else tuple(map(element_parameter, parts))
    seen: Bindings = {element_parameter(pack): alone(other) for pack, other in zip(packs, singles)}
    filled = _substitute_entry(checker, element_of_pack(entry), seen)
    return filled if query in SINGLE else expanded(filled, parts)


def _substitute_entry(checker: Checker, entry: Entry, substitution: Substitution) -> Entry:
    if isinstance(entry, Type):
        return substitute(checker, entry, substitution)
    return substitute_value(checker, entry, substitution)


def _expanded(
    checker: Checker, kind: ExpandedType | ExpandedValue, substitution: Substitution
) -> GenericArgument:
    """The pattern for each entry of its packs; the same packs where none is filled in."""
    arguments = [argument_of(checker, parameter, substitution) for parameter in kind.packs]
    if not any(argument is not None for argument in arguments):
        return expanded(_substitute_entry(checker, kind.pattern, substitution), kind.packs)
    columns = [
        spliced((alone(pack) if argument is None else argument,))
        for pack, argument in zip(kind.packs, arguments)
    ]
    if len({len(column) for column in columns}) > 1:
        return (ERROR,)
    return tuple(_expanded_entry(checker, kind, row, substitution) for row in zip(*columns))


def _expanded_entry(
    checker: Checker, kind: ExpandedType | ExpandedValue, row: tuple[Entry, ...], substitution: Substitution
) -> Entry:
    seen: Bindings = dict(substitution)
    packs: dict[Pack, None] = {}
    for pack, entry in zip(kind.packs, row):
        is_open = is_entry_pack(entry)
        seen[element_parameter(pack)] = element_of_pack(entry) if is_open else entry
        packs |= dict.fromkeys(packs_of(entry)) if is_open else {}
    filled = _substitute_entry(checker, kind.pattern, seen)
    return expanded(filled, tuple(packs)) if packs else filled


def _array(checker: Checker, kind: ArrayType, substitution: Substitution) -> Type:
    count = None if kind.count is None else substitute_value(checker, kind.count, substitution)
    return array(substitute(checker, kind.element, substitution), count)


def _rebuilt(make: Callable[..., Type], *names: str) -> Rule:
    """Of a type that is made of its parts."""

    def rule(checker: Checker, kind: object, substitution: Substitution) -> Type:
        return make(*[substitute_argument(checker, getattr(kind, name), substitution) for name in names])

    return rule


_TYPES: dict[type, Rule] = {
    ParameterType: _parameter,
    Projection: _associated,
    VectorType: _rebuilt(vector, "element", "count"),
    MatrixType: _rebuilt(matrix, "element", "rows", "columns"),
    ArrayType: _array,
    PointerType: lambda checker, kind, substitution: pointer(
        substitute_stored(checker, kind.element, substitution)
    ),
    Stored: lambda checker, kind, substitution: stored(
        substitute_stored(checker, kind.element, substitution),
        kind.rules,
        None if kind.layout is None else substitute(checker, kind.layout, substitution),
    ),
    Tuple: _rebuilt(tuple_of, "elements"),
    ExpandedType: _expanded,
    ConjunctionType: _rebuilt(conjunction, "interfaces"),
    FunctionType: _function,
    StructType: _nominal,
    EnumType: _nominal,
    InterfaceType: _nominal,
    LambdaType: _nominal,
}
assert _TYPES.keys() | {Plain, ScalarType} == kinds_of(Type)  # these two have no parts

# --- Values -------------------------------------------------------------------------------------------


def _required(checker: Checker, value: RequiredValue, substitution: Substitution) -> Value:
    base = substitute(checker, value.base, substitution)
    return checker.required(base, substitute(checker, value.interface, substitution), value.declaration)


def _operation(checker: Checker, value: Operation, substitution: Substitution) -> Value:
    # Types or values, as the operator takes them.
    operands: Any = [substitute_argument(checker, operand, substitution) for operand in value.operands]
    if isinstance(operands[0], Type):
        return checker.size_of(value.operator, operands[0])
    if value.operator == "countof":
        return count_entries(spliced(operands))
    result = operate(value.operator, *operands)
    return 0 if result is None else result


def _polynomial(checker: Checker, value: Polynomial, substitution: Substitution) -> Value:
    total: Value = 0
    for symbols, factor in value.terms:
        product: Value = factor
        for symbol in symbols:
            product = _certain("*", product, substitute_value(checker, symbol, substitution))
        total = _certain("+", total, product)
    return total


def _certain(operator: str, left: Value, right: Value) -> Value:
    result = operate(operator, left, right)
    assert result is not None
    return result


_VALUES: dict[type[Symbol], Rule] = {
    ParameterValue: _parameter,
    OpenValue: lambda checker, value, substitution: value,
    RequiredValue: _required,
    Operation: _operation,
    Polynomial: _polynomial,
    ExpandedValue: _expanded,
}
assert _VALUES.keys() == kinds_of(Symbol)
