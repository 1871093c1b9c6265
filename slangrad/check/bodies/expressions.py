"""Checking expressions: the dispatch table, literals and the small forms.

In: a scope and a node.   Out: the type of its value; `.type`, `.ref` and conversions of its parts are filled.

Names and members are in names.py, calls in calls.py, operators in operators.py. After an error the type is ERROR,
which all uses accept without another error.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass, kinds_of
from slangrad.check.bodies import expansions, lambdas, spirv
from slangrad.check.calls import pack_parts
from slangrad.check.calls.calls import (
    check_argument,
    check_call,
    check_cast,
    differentiate,
)
from slangrad.check.calls.coerce import coerce
from slangrad.check.calls.convert import is_builtin_parameter
from slangrad.check.calls.operators import (
    Current,
    check_assign,
    check_binary,
    check_conditional,
    check_step,
    check_unary,
)
from slangrad.check.calls.overload import choose, commit_match
from slangrad.check.calls.throwing import check_try
from slangrad.check.interfaces.handles import handled
from slangrad.check.interfaces.lookup import library_type, member_candidates
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import (
    ErrorMeaning,
    GenericMeaning,
    Meaning,
    OverloadMeaning,
    PackMeaning,
    TypeMeaning,
    ValueMeaning,
)
from slangrad.check.model.types import (
    BOOL,
    DOUBLE,
    ERROR,
    FLOAT,
    HALF,
    INT,
    INT64,
    NONE,
    NULL,
    STRING,
    UINT,
    UINT64,
    ArrayType,
    EnumType,
    MatrixType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    array_of,
    tuple_of,
    unstored,
    vector,
)
from slangrad.check.names.constants import BY_LAYOUT, known_value, size_of
from slangrad.check.names.members import fail, follow, this_value
from slangrad.check.names.memory_rules import check_layout, is_layout
from slangrad.check.names.places import require_readable, value_type
from slangrad.check.names.resolve import RULES, mark_type, refer, refer_whole
from slangrad.check.names.scopes import Scope, enclosing_member_scope
from slangrad.check.names.struct_fields import inherits
from slangrad.syntax import ast


def check_value(scope: Scope, node: ast.Expression) -> Type:
    """The type of an expression that must be a value."""
    rule = EXPRESSIONS.get(type(node))
    if rule is not None:
        kind = rule(scope, node)
        node.type = kind
        if kind is ERROR:
            called = node.ref.function if isinstance(node.ref, checked.FunctionCall) else None
            scope.mention(node, called.declaration if isinstance(called, DeclRef) else None)
        return kind
    return _value_of(scope, node, refer(scope, node))


def _value_of(scope: Scope, node: ast.Expression, meaning: Meaning) -> Type:
    if isinstance(meaning, ValueMeaning):
        return meaning.type
    if isinstance(meaning, OverloadMeaning):
        return lambdas.function_value(scope, node, meaning)
    if not isinstance(meaning, ErrorMeaning):
        text, is_type = node.span.text, isinstance(meaning, (TypeMeaning, GenericMeaning))
        several = (
            "are types, not values" if isinstance(meaning, PackMeaning) else "is a namespace, not a value"
        )
        note = f"write '{text}(...)' to make one" if is_type else None
        message = f"'{text}' {'is a type, not a value' if is_type else several}"
        scope.checker.error("E0302", message, node.span, note)
    node.type = ERROR
    return ERROR


# --- Literals -----------------------------------------------------------------------------------------

_INT_SUFFIXES = {
    "u": UINT,
    "l": INT64,
    "ll": INT64,
    "z": INT64,
    "ul": UINT64,
    "ull": UINT64,
    "uz": UINT64,
    "lu": UINT64,
    "llu": UINT64,
}
_FLOAT_SUFFIXES = {"": FLOAT, "f": FLOAT, "h": HALF, "l": DOUBLE, "lf": DOUBLE}


def _int(scope: Scope, node: ast.IntLiteral) -> Type:
    if node.suffix:
        kind = _INT_SUFFIXES.get(node.suffix, INT64)
        if kind is UINT and node.value >= 1 << 32:
            return UINT64
    elif node.value < 1 << 31:
        return INT
    elif node.span.text[:2].lower() in ("0x", "0b") and node.value < 1 << 32:
        return UINT
    else:
        return INT64 if node.value < 1 << 63 else UINT64
    return kind


# --- Small forms --------------------------------------------------------------------------------------


def _this(scope: Scope, node: ast.This) -> Type:
    value = this_value(scope, node.span)
    if value is None:
        sentence = "'this' has a meaning only in a method"
        if scope.without_this:
            sentence = "there is no 'this' in the default of a parameter"
        elif enclosing_member_scope(scope) is not None:
            sentence = "there is no 'this' in a static function"
        return scope.checker.error("E0307", sentence, node.span)
    node.ref = value
    return value.type


def _no_diff(scope: Scope, node: ast.NoDiff) -> Type:
    check_value(scope, node.operand)
    info = None if scope.body is None else scope.body.info
    if info is None or not info.is_differentiable:
        message = "'no_diff' has no effect in a function that is not differentiable"
        scope.checker.error(
            "E0508", message, node.span, "leave it out, or mark the function as [Differentiable]"
        )
    return value_type(node.operand)


def _comma(scope: Scope, node: ast.Comma) -> Type:
    check_value(scope, node.left)
    check_value(scope, node.right)
    return value_type(node.right)


def _size_of(scope: Scope, node: ast.SizeOf) -> Type:
    meaning = refer(scope, node.operand)
    kind = meaning.type if isinstance(meaning, (TypeMeaning, ValueMeaning)) else ERROR
    if isinstance(meaning, TypeMeaning):
        mark_type(node.operand, kind)
    if kind is ERROR:
        if not isinstance(meaning, ErrorMeaning):
            scope.checker.error("E0302", f"{node.query} needs a type or a value", node.operand.span)
        return ERROR
    if node.layout is not None:
        layout = scope.checker.resolve_type(scope, node.layout)
        if node.query != "countof" and is_layout(layout):
            node.ref = checked.Constant(
                size_of(scope.checker, node.query + BY_LAYOUT, tuple_of((kind, layout)))
            )
            return INT
        check_layout(scope.checker, node.layout, layout)
    node.ref = checked.Constant(size_of(scope.checker, node.query, kind))
    return INT


def _is(scope: Scope, node: ast.Is) -> Type:
    meaning = refer(scope, node.operand)
    if isinstance(meaning, TypeMeaning):
        mark_type(node.operand, meaning.type)
    elif not isinstance(meaning, ValueMeaning):
        _value_of(scope, node.operand, meaning)
    target = scope.checker.resolve_type(scope, node.target)
    node.ref = checked.TypeTest(node.operand, target)
    if isinstance(meaning, ValueMeaning):
        _refuse_unrelated(scope, node, target)
    return BOOL


def _refuse_unrelated(scope: Scope, node: ast.Is | ast.As, target: Type) -> None:
    """A struct is never another one."""
    kind = value_type(node.operand)
    if not isinstance(kind, StructType) or not isinstance(target, StructType) or kind is target:
        return
    is_known = not kind.abstract and not target.abstract
    if is_known and not inherits(kind, target.declaration) and not inherits(target, kind.declaration):
        message = f"a '{kind}' is never a '{target}'"
        scope.checker.error("E0311", message, node.span, "'is' and 'as' look at values of interfaces")


def _as(scope: Scope, node: ast.As) -> Type:
    """`x as T` is an Optional<T>."""
    check_value(scope, node.operand)
    target = scope.checker.resolve_type(scope, node.target)
    if target is ERROR:
        return ERROR
    node.ref = checked.Downcast(node.operand, target)
    _refuse_unrelated(scope, node, target)
    return library_type(scope.checker, "Optional", target)


def _bare_list(scope: Scope, node: ast.InitializerList) -> Type:
    check_argument(scope, node)
    return scope.checker.error("E0312", "an initializer list needs a type here", node.span, "write T{...}")


def _refuse(code: str, construct: str) -> Callable[[Scope, ast.Expression], Type]:
    def rule(scope: Scope, node: ast.Expression) -> Type:
        return scope.checker.error(code, f"{construct} is not supported", node.span)

    return rule


def _assembly(scope: Scope, node: ast.AssemblyBlock) -> Type:
    """A call of a lambda with the statements that are meant. Code for another target is not checked."""
    if scope.foreign:
        return ERROR
    if scope.body is None:
        return _refuse("E9003", "assembly outside of functions")(scope, node)
    function = ast.FunctionDeclaration(node.span, "", node.span, [], None, None, None, [])
    function.parent = scope.body.declaration
    block = spirv.block_of(scope, node, function)
    if block is None:
        return ERROR
    result = [ast.Return(node.span, ast.Name(node.span, spirv.RESULT))] if block.has_result else []
    function.body = ast.Block(node.span, [*block.statements, *result])
    call = ast.Call(node.span, ast.Lambda(node.span, function), [])
    kind = check_value(spirv.inside(scope, block), call)
    block.compare(scope)
    node.ref = call.ref
    return kind


# --- Index --------------------------------------------------------------------------------------------


Indexed = ArrayType | VectorType | MatrixType | PointerType


def _index(scope: Scope, node: ast.Index) -> Meaning:
    """`T[4]` where a value could stand; an index of a value otherwise."""
    base = refer_whole(scope, node.base)
    if isinstance(base, ValueMeaning):
        return ValueMeaning(_value_index(scope, node))
    if not isinstance(base, TypeMeaning):
        if not isinstance(base, ErrorMeaning):
            scope.checker.error("E0302", f"'{node.base.span.text}' is no value", node.base.span)
        return fail(node)
    kind = mark_type(node.base, base.type)
    for argument in node.arguments:
        count = scope.checker.constant(scope, argument)
        kind = ERROR if count is None else array_of(kind, count)
    return TypeMeaning(kind if node.arguments else array_of(kind, None))


def _value_index(scope: Scope, node: ast.Index) -> Type:
    """`base[i]` with a checked base."""
    for index in node.arguments:
        check_argument(scope, index)
    kind = value_type(node.base)
    if handled(scope.checker, kind) is not None:
        kind = follow(scope.checker, node.base)
    if kind is ERROR or any(argument.type is ERROR for argument in node.arguments):
        node.type = ERROR
        return ERROR
    single = len(node.arguments) == 1
    element = _element(scope, node, kind) if single and isinstance(kind, Indexed) else None
    value = _subscript(scope, node, kind) if element is None else element
    node.type = value
    return value


def _element(scope: Scope, node: ast.Index, kind: Indexed) -> Type:
    index = node.arguments[0]
    source = value_type(index)
    whole = isinstance(source, (ScalarType, EnumType)) and not (
        isinstance(source, ScalarType) and source.is_float
    )
    if not whole and not is_builtin_parameter(scope.checker, source):
        scope.checker.error("E0319", f"an index must be a whole number, not '{source}'", index.span)
    elif isinstance(source, EnumType) or source is BOOL:
        coerce(scope, index, INT, "an index")
    _check_range(scope, index, kind)
    node.ref = checked.Element(node.base, index)
    if isinstance(kind, MatrixType):
        return vector(kind.element, kind.columns)
    return unstored(kind.element)


def _check_range(scope: Scope, index: ast.Expression, kind: Indexed) -> None:
    if isinstance(kind, PointerType):
        return
    extent = kind.rows if isinstance(kind, MatrixType) else kind.count
    with scope.checker.silence():
        value = known_value(scope, index)
    if isinstance(value, int) and isinstance(extent, int) and not 0 <= value < extent:
        scope.checker.error("E0320", f"the index {value} is outside of '{kind}'", index.span)


def _subscript(scope: Scope, node: ast.Index, kind: Type) -> Type:
    candidates = member_candidates(scope.checker, kind, "__subscript", ast.Subscript, node.base)
    if not candidates:
        return scope.checker.error("E0319", f"a '{kind}' has no elements", node.span)
    match = choose(scope, node.span, "[]", candidates, node.arguments)
    if match is None:
        return ERROR
    assert isinstance(match.target, DeclRef)
    require_readable(scope, match.target.declaration, node.base, node.span)
    node.ref = checked.SubscriptAccess(node.base, match.target, commit_match(scope, match))
    return match.signature.result


def _call_or_part(scope: Scope, node: ast.Call) -> Meaning:
    """`__first(T)` can be a type."""
    if pack_parts.asks_for_part(scope, node):
        return pack_parts.part(scope, node)
    return ValueMeaning(check_value(scope, node))


Rule = Callable[[Scope, OfClass], Type]

EXPRESSIONS: dict[type[ast.Expression], Rule] = {
    ast.Missing: lambda scope, node: ERROR,
    ast.IntLiteral: _int,
    ast.FloatLiteral: lambda scope, node: _FLOAT_SUFFIXES[node.suffix],
    ast.BoolLiteral: lambda scope, node: BOOL,
    ast.CharLiteral: lambda scope, node: INT,
    ast.StringLiteral: lambda scope, node: STRING,
    ast.NullLiteral: lambda scope, node: NULL,
    ast.NoneLiteral: lambda scope, node: NONE,
    ast.This: _this,
    ast.Super: _refuse("E9005", "'super'"),
    ast.Call: check_call,
    ast.Cast: check_cast,
    ast.Unary: check_unary,
    ast.Postfix: check_step,
    ast.Binary: check_binary,
    ast.Assign: check_assign,
    ast.Conditional: check_conditional,
    ast.Comma: _comma,
    ast.InitializerList: _bare_list,
    ast.NamedArgument: lambda scope, node: check_value(scope, node.value),
    ast.NoDiff: _no_diff,
    ast.SizeOf: _size_of,
    ast.Is: _is,
    ast.As: _as,
    ast.New: _refuse("E9005", "'new'"),
    ast.Try: check_try,
    ast.AssemblyBlock: _assembly,
    ast.Lambda: lambdas.check_lambda,
}

RULES[ast.Differentiate] = differentiate
RULES[ast.Call] = _call_or_part
RULES[ast.Index] = _index
RULES[ast.Expand] = expansions.expand
RULES[ast.Each] = expansions.each
_KNOWN = EXPRESSIONS.keys() | RULES.keys() | {Current}
assert kinds_of(ast.Expression) == _KNOWN, kinds_of(ast.Expression) ^ _KNOWN
