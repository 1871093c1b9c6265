"""Operators: of users, of interfaces, assignments, `?:`.

In: `p + q` with two structs.   Out: a call of their `operator+`.

builtin_operators.py has those of numbers. A struct's operator is a function: a member `operator+`, a free
`operator+(A, B)`, or for a type parameter the method of IArithmetic and its kin that stands for it.
"""

from __future__ import annotations

from slangrad.check.calls.builtin_operators import (
    COMPARISONS,
    EQUALITIES,
    LOGICAL,
    apply_builtin,
    is_literal,
    literal_adapts,
)
from slangrad.check.calls.candidates import Match
from slangrad.check.calls.coerce import coerce, commit, shown_type, stripped
from slangrad.check.calls.convert import (
    common_type,
    convert,
    is_builtin_parameter,
    same_value,
)
from slangrad.check.calls.initializers import plan_literal
from slangrad.check.calls.overload import choose, commit_match
from slangrad.check.calls.throwing import require_try
from slangrad.check.generics.bounds import requirement_substitution, stated_equal
from slangrad.check.interfaces.lookup import conformances, declared, member_candidates
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import (
    BOOL,
    ERROR,
    INT,
    INT64,
    UINT64,
    ArrayType,
    EnumType,
    LambdaType,
    MatrixType,
    ParameterType,
    PointerType,
    Projection,
    ScalarType,
    StructType,
    Tuple,
    Type,
    VectorType,
    element_of,
    pointer,
    unstored,
    with_element,
)
from slangrad.check.names.members import CALLABLE, value_member
from slangrad.check.names.memory_rules import in_memory
from slangrad.check.names.places import not_a_place, value_type
from slangrad.check.names.scopes import Scope, levels
from slangrad.syntax import ast

# The requirements of the interfaces of the standard library that operators on a type parameter stand for.
# fmt: off
METHODS = {
    ("+", 2): "add",       ("-", 2): "sub",     ("*", 2): "mul",     ("/", 2): "div",    ("%", 2): "mod",
    ("<", 2): "lessThan",  ("<=", 2): "lessThanOrEquals",            ("==", 2): "equals",
    ("<<", 2): "shl",      (">>", 2): "shr",    ("&", 2): "bitAnd",  ("|", 2): "bitOr",  ("^", 2): "bitXor",
    ("-", 1): "neg",       ("~", 1): "bitNot",  ("!", 1): "not",     ("&&", 2): "and",   ("||", 2): "or",
}
# fmt: on


def check_binary(scope: Scope, node: ast.Binary) -> Type:
    for side in (node.left, node.right):
        scope.checker.check_argument(scope, side)
    return apply_operator(scope, node, node.operator, [node.left, node.right])


def check_unary(scope: Scope, node: ast.Unary) -> Type:
    if node.operator in ("++", "--"):
        return check_step(scope, node)
    if node.operator == "&":
        return _address(scope, node)
    if scope.checker.check_value(scope, node.operand) is ERROR:
        return ERROR
    if node.operator == "-" and isinstance(node.operand, ast.IntLiteral):
        _least(node.operand)
    kind = value_type(node.operand)
    if node.operator == "*" and isinstance(kind, PointerType):
        node.ref = checked.Dereference(node.operand)
        return unstored(kind.element)
    return apply_operator(scope, node, node.operator, [node.operand])


def _least(literal: ast.IntLiteral) -> None:
    """The digits of -2147483648 are too large for an int, and it is one; the same with 64 bits."""
    fitting = {(INT64, 1 << 31): INT, (UINT64, 1 << 63): INT64}
    if not literal.suffix:
        literal.type = fitting.get((literal.type, literal.value), literal.type)


def _address(scope: Scope, node: ast.Unary) -> Type:
    kind = scope.checker.check_value(scope, node.operand)
    if kind is ERROR:
        return ERROR
    node.ref = checked.AddressOf(node.operand)
    return pointer(in_memory(scope.checker, value_type(node.operand), node.operand))


def apply_operator(scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]) -> Type:
    """Resolve an operator on checked operands and write the form into `node`."""
    if any(operand.type is ERROR for operand in operands):
        return ERROR
    if operator in EQUALITIES and len(operands) == 2:
        kind = _compare_with_none(scope, node, operator, operands)
        if kind is not None:
            return kind
    for argument in operands:
        _see_equal(scope, argument)
    listed = any(isinstance(stripped(operand), ast.InitializerList) for operand in operands)
    types = [] if listed else [value_type(operand) for operand in operands]
    if not listed and not any(isinstance(source, _DECLARED) for source in types):
        kind = apply_builtin(scope, node, operator, operands)
        if kind is not None:
            return kind
    match = user_operator(scope, node, operator, operands)
    if match is not None:
        return _call(scope, node, match, operands)
    if not listed:
        kind = _requirement(scope, node, operator, operands)
        if kind is None and any(isinstance(source, EnumType) for source in types):
            kind = apply_builtin(scope, node, operator, operands)
        if kind is not None:
            return kind
    return report_no_operator(scope, node, operator, operands)


def _see_equal(scope: Scope, node: ast.Expression) -> None:
    """An operand of type T as the type that T is, where a `where T == int` says so."""
    if isinstance(node.type, ParameterType) and node.conversion is None:
        equal = stated_equal(scope.checker, node.type)
        if equal is not node.type:
            node.conversion = checked.Conversion("stated", equal, source=node.type)


def _compare_with_none(
    scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]
) -> Type | None:
    """`x == none` is `!x.hasValue`."""
    for optional_side, other in (operands, operands[::-1]):
        kind = value_type(optional_side)
        optional = isinstance(kind, StructType) and kind.declaration is scope.checker.standard("Optional")
        if isinstance(stripped(other), ast.NoneLiteral) and optional:
            question = ast.Member(node.span, optional_side, "hasValue", optional_side.span, ".")
            value_member(scope, question, optional_side)
            if question.type is ERROR:
                return None
            node.ref = checked.Convert(question) if operator == "!=" else checked.Operator("!", (question,))
            return BOOL
    return None


_DECLARED = (StructType, EnumType, LambdaType, ArrayType, Tuple)


def report_no_operator(
    scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]
) -> Type:
    types = " and ".join(shown_type(operand) for operand in operands)
    message = f"no operator '{operator}' for {types}"
    return scope.checker.error("E0313", message, node.span, _other_way(node, operator, operands))


POWER = "a power is pow(x, y); for small whole exponents x * x is faster"


def _other_way(node: ast.Expression, operator: str, operands: list[ast.Expression]) -> str | None:
    """The replacement for a missing operator."""
    kinds = [
        value_type(operand) for operand in operands if not isinstance(stripped(operand), ast.InitializerList)
    ]
    generic = next((kind for kind in kinds if isinstance(kind, ParameterType)), None)
    if generic is not None and (bound := _bound_with(operator)):
        return f"'{generic}' has the operators of its bound: '{generic} : {bound}' has this one"
    if operator == "*" and len(operands) == 1 and node.span.source.text[node.span.start - 1] == "*":
        return POWER
    if len(operands) == 2 and operator == "*" and any(isinstance(kind, MatrixType) for kind in kinds):
        return "'*' works componentwise; the product of matrices and vectors is mul(a, b)"
    if operator == "^" and any(isinstance(element_of(kind), ScalarType) for kind in kinds):
        return f"'^' combines the bits of integers; {POWER}"
    return None


def _bound_with(operator: str) -> str | None:
    """The interface of the library that has an operator."""
    if operator in ("&", "|", "^", "<<", ">>"):
        return "IInteger"
    if operator in ("<", ">", "<=", ">=", "==", "!="):
        return "IComparable"
    return "IArithmetic" if operator in ("+", "-", "*", "/", "%") else None


# --- Operators that are functions ---------------------------------------------------------------------


def user_operator(
    scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]
) -> Match | None:
    """The operator function that applies; None when none does, which is not reported."""
    name = f"operator{operator}"
    candidates = _free_operators(scope, name)
    candidates += _member_operators(scope, name, operands[0])
    other = {ast.Unary: "__postfix", ast.Postfix: "__prefix"}.get(type(node), "")
    candidates = [candidate for candidate in candidates if not candidate.declaration.has(other)]
    if not candidates:
        return None
    with scope.checker.silence():
        matches = [
            choose(scope, node.span, name, group, arguments)
            for group, arguments in _by_arity(candidates, operands)
            if group
        ]
    applicable = [match for match in matches if match is not None]
    return min(applicable, key=lambda match: match.cost) if applicable else None


def _by_arity(
    candidates: list[Candidate], operands: list[ast.Expression]
) -> list[tuple[list[Candidate], list[ast.Expression]]]:
    """Static and free operators take all operands, methods those after the first."""
    methods = [candidate for candidate in candidates if candidate.this is not None]
    others = [candidate for candidate in candidates if candidate.this is None]
    return [(others, operands), (methods, operands[1:])]


def _free_operators(scope: Scope, name: str) -> list[Candidate]:
    return [
        Candidate(result.declaration, result.substitution, distance=distance)
        for distance, level in enumerate(levels(scope))
        for result in level.local(name)
        if isinstance(result.declaration, CALLABLE) and not result.is_member
    ]


def _member_operators(scope: Scope, name: str, first: ast.Expression) -> list[Candidate]:
    if isinstance(stripped(first), ast.InitializerList):
        return []
    candidates = member_candidates(scope.checker, value_type(first), name, ast.FunctionDeclaration, first)
    for candidate in candidates:
        is_static = scope.checker.info(candidate.declaration).this_type is None
        candidate.this = None if is_static else first
    return candidates


def _call(scope: Scope, node: ast.Expression, match: Match, operands: list[ast.Expression]) -> Type:
    this = operands[0] if match.candidate.this is not None else None
    node.ref = checked.FunctionCall(match.target, this, commit_match(scope, match))
    require_try(scope, node, match)
    return match.signature.result


def _requirement(
    scope: Scope, node: ast.Expression, operator: str, operands: list[ast.Expression]
) -> Type | None:
    """An operator on a type parameter: `a + b` is `a.add(b)`."""
    subject = next(
        (operand for operand in operands if isinstance(value_type(operand), (ParameterType, Projection))),
        None,
    )
    if subject is None:
        return None
    kind = value_type(subject)
    if operator in (">", ">="):
        swapped = {">": "<", ">=": "<="}[operator]
        return _requirement(scope, node, swapped, operands[::-1])
    if operator == "!=":
        return _negated_equality(scope, node, operands)
    method = METHODS.get((operator, len(operands)))
    reference = None if method is None else _find_requirement(scope, kind, method)
    if reference is None or not all(_bring(scope, operand, kind) for operand in operands):
        return None
    node.ref = checked.FunctionCall(reference, operands[0], tuple(operands[1:]))
    return BOOL if operator in EQUALITIES | COMPARISONS | LOGICAL else kind


def _negated_equality(scope: Scope, node: ast.Expression, operands: list[ast.Expression]) -> Type | None:
    inner = ast.Binary(node.span, "==", operands[0], operands[1])
    kind = _requirement(scope, inner, "==", operands)
    if kind is None:
        return None
    inner.type, node.ref = kind, checked.Operator("!", (inner,))
    return BOOL


def _find_requirement(scope: Scope, kind: Type, name: str) -> DeclRef | None:
    for interface in conformances(scope.checker, kind):
        for requirement in declared(scope.checker, interface.declaration, name):
            return DeclRef(requirement, requirement_substitution(kind, interface))
    return None


def _bring(scope: Scope, node: ast.Expression, kind: Type) -> bool:
    """Convert an operand to a type parameter: only literals, and types from which the parameter has a
    conversion."""
    if value_type(node) is kind:
        return True
    if not is_literal(node):
        return False
    coercion = plan_literal(scope, node, kind)
    if coercion is None:
        return False
    commit(scope, node, coercion)
    return True


# --- Assignment ---------------------------------------------------------------------------------------


def check_assign(scope: Scope, node: ast.Assign) -> Type:
    target = scope.checker.check_value(scope, node.target)
    scope.checker.check_argument(scope, node.value)
    if target is ERROR or not require_place(scope, node.target):
        return target
    if node.operator == "=":
        if _is_atomic(scope, value_type(node.target)) and not _is_atomic(scope, node.value.type):
            return _store_atomic(scope, node)
        coerce(scope, node.value, value_type(node.target), "the value")
        node.ref = checked.Assignment(node.target, node.value)
        return value_type(node.target)
    if node.value.type is ERROR:
        return target
    return _update(scope, node, node.operator[:-1], node.target, node.value)


def _is_atomic(scope: Scope, kind: Type | None) -> bool:
    return isinstance(kind, StructType) and kind.declaration is scope.checker.standard("Atomic")


def _store_atomic(scope: Scope, node: ast.Assign) -> Type:
    """`x = 1` of an `Atomic<int>`."""
    candidates = member_candidates(
        scope.checker, value_type(node.target), "store", ast.FunctionDeclaration, node.target
    )
    match = choose(scope, node.span, "store", candidates, [node.value])
    return ERROR if match is None else _call(scope, node, match, [node.target, node.value])


def require_place(scope: Scope, node: ast.Expression) -> bool:
    """Report an operand that cannot be assigned."""
    reason = not_a_place(scope, node)
    if reason is None:
        return True
    note = None
    body = scope.body
    if "[mutating]" in reason and body is not None:
        note = f"mark '{body.declaration.name}' as [mutating]"
    scope.checker.error("E0314", f"cannot assign here: {reason}", node.span, note)
    return False


def _update(
    scope: Scope, node: ast.Expression, operator: str, place: ast.Expression, value: ast.Expression
) -> Type:
    """`place op= value`: the operator on a stand-in for the place, whose conversion is that after loading."""
    kind = value_type(place)
    current = Current(place.span)
    current.type = kind
    assigning = user_operator(scope, node, f"{operator}=", [place, value])
    if assigning is not None:
        return _call(scope, node, assigning, [place, value])
    trial = ast.Binary(node.span, operator, current, value)
    result = apply_operator(scope, trial, operator, [current, value])
    if result is ERROR:
        return ERROR
    store = convert(scope.checker, result, kind, explicit=True)
    if store is None:
        return scope.checker.error(
            "E0311", f"the result of '{operator}' is '{result}', not '{kind}'", node.span
        )
    function = trial.ref.function if isinstance(trial.ref, checked.FunctionCall) else None
    assert not isinstance(function, checked.Derivative)
    node.ref = checked.Update(operator, function, place, value, current.conversion, store.conversion)
    return kind


@ast.node
class Current(ast.Expression):  # The value of a place that is being updated.
    pass


def check_step(scope: Scope, node: ast.Unary | ast.Postfix) -> Type:
    operand = node.operand
    kind = scope.checker.check_value(scope, operand)
    if kind is ERROR:
        return ERROR
    kind = value_type(operand)
    if isinstance(kind, StructType):
        return apply_operator(scope, node, node.operator, [operand])
    if not require_place(scope, operand):
        return ERROR
    element = element_of(kind)
    countable = isinstance(element, ScalarType) and element is not BOOL
    if (
        not countable
        and not isinstance(kind, (PointerType, EnumType))
        and not is_builtin_parameter(scope.checker, element)
    ):
        return report_no_operator(scope, node, node.operator, [operand])
    node.ref = checked.Update(node.operator, None, operand, None, None, None)
    return kind


# --- Conditional --------------------------------------------------------------------------------------


def check_conditional(scope: Scope, node: ast.Conditional) -> Type:
    condition = scope.checker.check_value(scope, node.condition)
    for arm in (node.then, node.otherwise):
        scope.checker.check_argument(scope, arm)
    if condition is ERROR or ERROR in (node.then.type, node.otherwise.type):
        return ERROR
    common = _arm_type(scope, node)
    if common is None:
        return ERROR
    selects = isinstance(value_type(node.condition), VectorType)
    if selects and isinstance(common, VectorType):
        return _select(scope, node, common)
    coerce(scope, node.condition, BOOL, "a condition")
    if not coerce(scope, node.then, common, "this arm") or not coerce(
        scope, node.otherwise, common, "this arm"
    ):
        return ERROR
    return common


def _arm_type(scope: Scope, node: ast.Conditional) -> Type | None:
    arms = [node.then, node.otherwise]
    typed = [value_type(arm) for arm in arms if not isinstance(stripped(arm), ast.InitializerList)]
    if len(typed) == 1:
        return typed[0]
    common = common_type(scope.checker, *typed) if typed else None
    if common is None:
        common = literal_adapts(scope, arms) if typed else None
    if common is None:
        types = " and ".join(f"'{kind}'" for kind in typed) or "two initializer lists"
        scope.checker.error("E0311", f"the arms of '?:' have no common type: {types}", node.span)
    return common


def _select(scope: Scope, node: ast.Conditional, common: VectorType) -> Type:
    condition = value_type(node.condition)
    assert isinstance(condition, VectorType)
    if not same_value(condition.count, common.count):
        return scope.checker.error("E0313", f"'{condition}' cannot select from '{common}'", node.span)
    for part, kind in (
        (node.condition, with_element(common, BOOL)),
        (node.then, common),
        (node.otherwise, common),
    ):
        coerce(scope, part, kind, "this operand")
    node.ref = checked.Operator("?:", (node.condition, node.then, node.otherwise))
    return common
