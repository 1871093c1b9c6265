"""Constant integers, perhaps only after generics are filled in.

In: `N`, `4`, `T.kCount`.   Out: one interned normal form, so that equal values are the same object.

    N + 1 + N      ->  the polynomial 2*N + 1
    N / 2          ->  an operation on N, opaque until N is known

A value is a Python `int` or a `Symbol`. Truth values are 0 and 1, enum cases their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast

from slangrad.base.folding import FOLDS
from slangrad.base.process.threads import Interned
from slangrad.base.records import WeaklyReferenced, record

if TYPE_CHECKING:
    from slangrad.syntax import ast

_serial = count(1)
CheckedType = Any  # a Type of types.py, which is above this file


@record
class Symbol(WeaklyReferenced):
    """A value that is not known yet. Interned: compare with `is`. `serial` orders symbols."""

    serial: int = field(default_factory=lambda: next(_serial), init=False)

    def __repr__(self) -> str:
        return str(self)


@record
class ParameterValue(Symbol):
    """The generic value parameter `let N : int`."""

    declaration: ast.ValueParameter

    def __str__(self) -> str:
        return self.declaration.name


@record
class RequiredValue(Symbol):
    """`T.kCount`: a constant that an interface requires; `base` and `interface` are checked types."""

    base: CheckedType
    interface: CheckedType
    declaration: ast.Variable

    def __str__(self) -> str:
        return f"{self.base}.{self.declaration.name}"


@record
class OpenValue(Symbol):
    """`extern static const int N;`: a constant of another module."""

    declaration: ast.Variable

    def __str__(self) -> str:
        return self.declaration.name


@record
class Operation(Symbol):
    """`a / b`, `a < b`, `sizeof(T)`: no polynomial. Operands are values, or one type."""

    operator: str
    operands: tuple[CheckedType, ...]

    def __str__(self) -> str:
        if len(self.operands) == 2:
            return f"({self.operands[0]} {self.operator} {self.operands[1]})"
        return f"{self.operator}({', '.join(map(str, self.operands))})"


Monomial = tuple[Symbol, ...]


@record
class Polynomial(Symbol):
    """A sum of products of symbols with integer factors; the empty product carries the constant."""

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        return " + ".join(_term_text(symbols, factor) for symbols, factor in self.terms)


@record
class ExpandedValue(Symbol):
    """`expand (each N) + 1`: the pattern for each element of the packs of values or types it is about."""

    pattern: Value
    packs: tuple[Pack, ...]

    def __str__(self) -> str:
        return f"expand {self.pattern}"


Value = int | Symbol
Pack = Union["ast.TypeParameter", "ast.ValueParameter"]  # that stands for several types or values

_TABLE: Interned[Symbol] = Interned()


def parameter_value(declaration: ast.ValueParameter) -> ParameterValue:
    return _intern(ParameterValue, declaration)


def open_value(declaration: ast.Variable) -> OpenValue:
    return _intern(OpenValue, declaration)


def required_value(base: object, interface: object, declaration: ast.Variable) -> RequiredValue:
    return _intern(RequiredValue, base, interface, declaration)


def expanded_value(pattern: Value, packs: tuple[Pack, ...]) -> Symbol:
    """A value for each element of packs; the pack itself if the pattern is its element."""
    if (
        isinstance(pattern, ParameterValue)
        and len(packs) == 1
        and packs[0].pack_element is pattern.declaration
    ):
        return parameter_value(cast("ast.ValueParameter", packs[0]))
    return _intern(ExpandedValue, pattern, packs)


def is_value_pack(value: object) -> bool:
    """Whether a value stands for several."""
    if isinstance(value, ParameterValue):
        return value.declaration.is_pack
    return isinstance(value, ExpandedValue)


def type_query(operator: str, subject: object) -> Operation:
    """`sizeof(T)` of a type that is not known yet."""
    return _intern(Operation, operator, (subject,))


def operate(operator: str, *operands: Value) -> Value | None:
    """The value of an operator on values; None when there is none, as for a division by zero."""
    rule = _POLYNOMIAL.get((operator, len(operands)))
    if rule is not None and not all(isinstance(operand, int) for operand in operands):
        return _from_terms(rule(*map(_terms, operands)))
    numbers = [operand for operand in operands if isinstance(operand, int)]
    if len(numbers) < len(operands):
        return _intern(Operation, operator, operands)
    fold = FOLDS.get((operator, len(operands)))
    return None if fold is None else fold(*numbers)


def identity_key(part: object) -> object:
    """The key of a part in a table of interned objects.

    Not the part itself: that would keep it alive, and with it its program. Each interned object holds its parts, so
    their identities stay valid as long as it lives.
    """
    if isinstance(part, tuple):
        return tuple(map(identity_key, part))
    return part if isinstance(part, (int, str)) else id(part)


AnySymbol = TypeVar("AnySymbol", bound=Symbol)


def _intern(kind: type[AnySymbol], *parts: object) -> AnySymbol:
    key = (kind, identity_key(parts))
    interned = cast("AnySymbol | None", _TABLE.get(key))
    if interned is None:
        interned = cast("AnySymbol", _TABLE.setdefault(key, kind(*parts)))
    return interned


# --- Polynomials --------------------------------------------------------------------------------------

Terms = dict[Monomial, int]


def _terms(value: Value) -> Terms:
    if isinstance(value, int):
        return {(): value}
    if isinstance(value, Polynomial):
        return dict(value.terms)
    return {(value,): 1}


def _from_terms(terms: Terms) -> Value:
    kept = {symbols: factor for symbols, factor in terms.items() if factor}
    if not kept:
        return 0
    if len(kept) == 1:
        ((symbols, factor),) = kept.items()
        if not symbols:
            return factor
        if len(symbols) == 1 and factor == 1:
            return symbols[0]
    order = sorted(kept.items(), key=lambda term: (-len(term[0]), [symbol.serial for symbol in term[0]]))
    polynomial: Polynomial = _intern(Polynomial, tuple(order))
    return polynomial


def _add(left: Terms, right: Terms) -> Terms:
    result = dict(left)
    for symbols, factor in right.items():
        result[symbols] = result.get(symbols, 0) + factor
    return result


def _negate(terms: Terms) -> Terms:
    return {symbols: -factor for symbols, factor in terms.items()}


def _multiply(left: Terms, right: Terms) -> Terms:
    result: Terms = {}
    for first, first_factor in left.items():
        for second, second_factor in right.items():
            symbols = tuple(sorted(first + second, key=lambda symbol: symbol.serial))
            result[symbols] = result.get(symbols, 0) + first_factor * second_factor
    return result


_POLYNOMIAL: dict[tuple[str, int], Callable[..., Terms]] = {
    ("+", 2): _add,
    ("-", 2): lambda left, right: _add(left, _negate(right)),
    ("*", 2): _multiply,
    ("-", 1): _negate,
    ("+", 1): lambda terms: terms,
}


def _term_text(symbols: Monomial, factor: int) -> str:
    names = [str(symbol) for symbol in symbols]
    return "*".join(([str(factor)] if factor != 1 or not names else []) + names)
