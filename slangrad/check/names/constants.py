"""Constant integers.

In: a checked expression such as `N * 2 + kCount`.   Out: its Value (perhaps symbolic), or None.

Array sizes, generic arguments, case labels, enum cases and attribute arguments are such. Also here: the
sizes of types, laid out as in C.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from slangrad.base.records import OfClass
from slangrad.check.interfaces.differentiable import field_references, field_type
from slangrad.check.interfaces.lookup import tag_type
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.packs import count_entries
from slangrad.check.model.types import (
    BOOL,
    ERROR,
    LAYOUTS,
    NULL,
    ArrayType,
    EnumType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    array,
    is_pack,
    tuple_of,
    vector,
)
from slangrad.check.model.values import Value, expanded_value, operate, type_query
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def constant(scope: Scope, node: ast.Expression) -> Value | None:
    """Check an expression and compute it; None after reporting that it is no constant."""
    scope.checker.check_argument(scope, node)
    return None if node.type is ERROR else known_value(scope, node)


def known_value(scope: Scope, node: ast.Expression) -> Value | None:
    """The value of a checked expression; None after reporting that it is no constant."""
    value = evaluate(scope.checker, node)
    if value is None and node.type is not ERROR:
        scope.checker.error("E0309", "this must be a whole number that is known when compiling", node.span)
    return value


def evaluate(checker: Checker, node: ast.Expression) -> Value | None:
    """The value of a checked expression, None if it is no constant."""
    rule = _RULES.get(type(node))
    value = rule(checker, node) if rule is not None else _by_form(checker, node)
    if value is None or node.conversion is None:
        return value
    return _converted(value, node.conversion.target)


def require_constant(checker: Checker, node: ast.Expression, parameter: ast.ParameterDeclaration) -> None:
    """Report an argument of a `constexpr` parameter of a program that depends on a usual parameter around the call."""
    for name in walk(node) if not parameter.span.source.is_library else ():
        form = name.ref if isinstance(name, ast.Name) else None
        named = form.declaration if isinstance(form, checked.Local) else None
        if isinstance(named, ast.ParameterDeclaration) and not named.has("constexpr"):
            message = f"'{parameter.name}' is known when compiling, and the parameter '{named.name}' is not"
            checker.error("E0309", message, name.span, "declare it 'constexpr', or pass a constant")


def _converted(value: Value, target: Type) -> Value | None:
    if isinstance(target, EnumType):
        return value
    if not isinstance(target, ScalarType) or target.is_float:
        return None
    return wrapped(value, target)


def wrapped(value: Value, kind: ScalarType) -> Value:
    """A constant integer as a value of a type: bits that do not fit are lost."""
    if not isinstance(value, int):
        return value
    if kind is BOOL:
        return int(value != 0)
    value &= (1 << kind.bits) - 1
    negative = kind.kind == "int" and value >> (kind.bits - 1)
    return value - (1 << kind.bits) if negative else value


def _by_form(checker: Checker, node: ast.Expression) -> Value | None:
    form = node.ref
    if isinstance(form, checked.Constant):
        return form.value
    if isinstance(form, checked.Expansion):
        value = evaluate(checker, form.pattern)
        return None if value is None else expanded_value(value, form.packs)
    if isinstance(form, checked.Element):
        return _element(checker, form)
    if isinstance(form, checked.Convert):
        return evaluate(checker, form.operand)
    if isinstance(form, checked.Operator) and form.name != "?:":
        return _operator(checker, node, form)
    if isinstance(form, checked.FunctionCall):
        return _bits_of_float(checker, form)
    return None


def _bits_of_float(checker: Checker, form: checked.FunctionCall) -> Value | None:
    """`__floatAsInt(1.0)`, `asint(-1.0)`."""
    declared = form.function.declaration if isinstance(form.function, DeclRef) else None
    if declared is None or declared.name not in _SEEN_AS_INTEGERS or not declared.span.source.is_library:
        return None
    argument = form.arguments[0]
    if not isinstance(argument, ast.Expression) or argument.conversion is not None:
        return None
    kind, number = argument.type, _float(checker, argument)
    if number is None or not isinstance(kind, ScalarType):
        return None
    try:
        bits = int.from_bytes(struct.pack(_FLOATS[kind.bits], number), "little")
    except OverflowError:
        return None
    return wrapped(bits, checker.info(declared).result)


_SEEN_AS_INTEGERS = ("__floatAsInt", "asint", "asuint", "asint16", "asuint16")
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}


def _float(checker: Checker, node: ast.Expression) -> float | None:
    """A constant number with a fraction."""
    if isinstance(node, ast.Paren):
        return _float(checker, node.inner)
    if isinstance(node, ast.FloatLiteral):
        return node.value
    form = node.ref
    if isinstance(form, checked.Operator) and form.name == "-" and len(form.operands) == 1:
        number = _float(checker, form.operands[0])
        return None if number is None else -number
    if isinstance(form, checked.Convert):
        if isinstance(form.operand.type, ScalarType) and form.operand.type.is_float:
            return _float(checker, form.operand) if form.operand.conversion is None else None
        whole = evaluate(checker, form.operand) if form.operand.conversion is None else None
        if whole is None and isinstance(form.operand, ast.IntLiteral):
            whole = form.operand.value
        return float(whole) if isinstance(whole, int) else None
    return None


def _element(checker: Checker, form: checked.Element) -> Value | None:
    """An element of an array that is a constant."""
    source = getattr(form.base, "ref", None)
    declaration: ast.Declaration | None = None
    if isinstance(source, checked.Local):
        declaration = source.declaration
    elif isinstance(source, checked.Global):
        declaration = source.reference.declaration
    index = evaluate(checker, form.index)
    if not isinstance(declaration, ast.Variable) or checker.info(declaration).mutable:
        return None
    initial = None if declaration.initializer is None else declaration.initializer.ref
    if (
        not isinstance(initial, checked.Construct)
        or not isinstance(initial.type, ArrayType)
        or not isinstance(index, int)
    ):
        return None
    part = initial.parts[index] if 0 <= index < len(initial.parts) else None
    return evaluate(checker, part) if isinstance(part, ast.Expression) else None


def _operator(checker: Checker, node: ast.Expression, form: checked.Operator) -> Value | None:
    value = _computed(checker, form.name, form.operands)
    return value if value is None or not isinstance(node.type, ScalarType) else wrapped(value, node.type)


def _computed(checker: Checker, operator: str, nodes: Iterable[ast.Expression]) -> Value | None:
    values = [evaluate(checker, node) for node in nodes]
    numbers = [value for value in values if value is not None]
    return operate(operator, *numbers) if len(numbers) == len(values) else None


_RULES: dict[type[ast.Expression], Callable[[Checker, OfClass], Value | None]] = {
    ast.IntLiteral: lambda checker, node: node.value,
    ast.BoolLiteral: lambda checker, node: int(node.value),
    ast.CharLiteral: lambda checker, node: node.value,
    ast.Paren: lambda checker, node: evaluate(checker, node.inner),
    ast.Conditional: lambda checker, node: _computed(
        checker, "?:", (node.condition, node.then, node.otherwise)
    ),
}

# --- Sizes --------------------------------------------------------------------------------------------


BY_LAYOUT = " by layout"  # behind `sizeof` or `alignof`: of a type and the layout, as a tuple


def size_of(checker: Checker, query: str, kind: Type) -> Value:
    """`sizeof`, `alignof` or `countof` of a type, symbolic while the type is open."""
    if query == "countof":
        return _count(kind)
    if query.endswith(BY_LAYOUT):
        assert isinstance(kind, Tuple)
        return _size_by_layout(checker, query, *kind.elements)
    if kind.abstract:
        return type_query(query, kind)
    size, alignment = layout(checker, kind)
    return alignment if query == "alignof" else size


def _size_by_layout(checker: Checker, query: str, kind: Type, rules: Type) -> Value:
    """`sizeof(T, Std430DataLayout)`, without padding after it; `alignof`. The layout may be a generic parameter."""
    if kind.abstract or rules.abstract:
        return type_query(query, tuple_of((kind, rules)))
    assert isinstance(rules, StructType)
    size, alignment = layout(checker, kind, LAYOUTS.get(rules.declaration.name, ""))
    return alignment if query.startswith("alignof") else size


def _count(kind: Type) -> Value:
    if isinstance(kind, (VectorType, ArrayType)) and kind.count is not None:
        return kind.count
    if isinstance(kind, MatrixType):
        return kind.rows
    if isinstance(kind, Tuple):
        return count_entries(kind.elements)
    if is_pack(kind):
        return count_entries((kind,))
    return 1 if not kind.abstract else type_query("countof", kind)


def layout(checker: Checker, kind: Type, rules: str = "") -> tuple[int, int]:
    """Size and alignment of a concrete type as in C; by other rules without the padding after it."""
    rules = "" if isinstance(kind, Tuple) else rules
    is_std, least = rules.startswith("std"), 16 if rules == "std140" else 1
    if isinstance(kind, ScalarType):
        size = 4 if rules and kind is BOOL else max(1, kind.bits // 8)
        return size, size
    if isinstance(kind, PointerType) or kind is NULL:
        return 8, 8
    if isinstance(kind, EnumType):
        return layout(checker, tag_type(checker, kind), rules)
    if isinstance(kind, MatrixType):
        return layout(checker, array(vector(kind.element, kind.columns), kind.rows), rules)
    if isinstance(kind, (VectorType, ArrayType)):
        size, alignment = layout(checker, kind.element, rules)
        count = kind.count if isinstance(kind.count, int) else 0
        if isinstance(kind, VectorType):
            return size * count, size * (1, 2, 4, 4)[count - 1] if is_std else alignment
        alignment = max(alignment, least)
        return ((count - 1) * _aligned(size, alignment) + size if count else 0), alignment
    if kind is ERROR:
        checker.refusals.raise_at(None)
    if isinstance(kind, StructType):
        return _record(checker, _field_types(checker, kind), rules, least)
    return _record(checker, kind.elements, rules, least) if isinstance(kind, Tuple) else (0, 1)


def _field_types(checker: Checker, kind: StructType) -> Iterator[Type]:
    checker.refusals.require_bases(kind.declaration)
    for field in field_references(kind):
        field_kind = field_type(checker, field)
        if field_kind is ERROR:
            checker.refusals.raise_at(field.declaration.span)
        yield field_kind


def _record(checker: Checker, kinds: Iterable[Type], rules: str, least: int) -> tuple[int, int]:
    end, widest = 0, least
    for kind in kinds:
        size, alignment = layout(checker, kind, rules)
        if rules.startswith("std") and isinstance(kind, (StructType, ArrayType, MatrixType)):
            size = _aligned(size, alignment)
        end, widest = _aligned(end, alignment) + size, max(widest, alignment)
    return end if rules else _aligned(end, widest), widest


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
