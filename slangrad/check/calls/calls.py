"""Calls: of functions, methods, derivatives, types (construction, conversion), values that can be called.

In: `bwd_diff(f)(pair, 1.0)`.   Out: Call(Derivative(...), arguments), conversions written into the arguments.
"""

from __future__ import annotations

from slangrad.base.source import Span
from slangrad.check.calls import pack_parts
from slangrad.check.calls.candidates import Match, innermost
from slangrad.check.calls.coerce import coerce, commit, plan, stripped
from slangrad.check.calls.initializers import (
    check_elements,
    component_count,
    constructors,
    explain_list,
    infer_struct,
    initial_value,
    plan_list,
)
from slangrad.check.calls.overload import choose, commit_match
from slangrad.check.calls.throwing import report_no_derivative, require_try, thrown_by
from slangrad.check.derivatives.tensor_gradients import warn_of_lost_gradients
from slangrad.check.generics.substitution import own_substitution
from slangrad.check.interfaces.lookup import member_candidates
from slangrad.check.model import checked
from slangrad.check.model.checked import Construct
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import (
    FAILED,
    Candidate,
    Coercion,
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
    ERROR,
    VOID,
    ArrayType,
    InterfaceType,
    LambdaType,
    MatrixType,
    ParameterType,
    Projection,
    StructType,
    Tuple,
    Type,
    VectorType,
    element_of,
    with_element,
)
from slangrad.check.names.generic_arguments import apply_arguments
from slangrad.check.names.members import fail, follow, refuse
from slangrad.check.names.places import not_a_place, value_type
from slangrad.check.names.resolve import mark_type, refer, unfold
from slangrad.check.names.scopes import Scope
from slangrad.check.names.unsupported import refused_member
from slangrad.syntax import ast


def check_argument(scope: Scope, node: ast.Expression) -> None:
    """Check an operand or argument; an initializer list has no type yet."""
    if isinstance(node, ast.NamedArgument):
        check_argument(scope, node.value)
        node.type = node.value.type
    elif isinstance(node, ast.InitializerList):
        check_elements(scope, node)
    elif isinstance(node, ast.Paren) and isinstance(stripped(node), ast.InitializerList):
        check_argument(scope, stripped(node))
    else:
        scope.checker.check_value(scope, node)


def check_condition(scope: Scope, node: ast.Expression) -> None:
    """An expression that decides a branch."""
    check_argument(scope, node)
    if node.type is not ERROR:
        coerce(scope, node, BOOL, "a condition")


def check_call(scope: Scope, node: ast.Call) -> Type:
    if pack_parts.asks_for_part(scope, node):
        meaning = pack_parts.part(scope, node)
        if isinstance(meaning, (TypeMeaning, PackMeaning)):
            message = f"'{node.span.text}' is a type, and a value is needed"
            return scope.checker.error("E0302", message, node.span)
        kind: Type = node.type
        return kind
    meaning = refer(scope, node.callee)
    for argument in node.arguments:
        check_argument(scope, argument)
    unfold(node.arguments)
    if isinstance(meaning, GenericMeaning):
        meaning = _applied(scope, node, meaning)
    if isinstance(meaning, TypeMeaning):
        mark_type(node.callee, meaning.type)
        kind = construct(scope, node, meaning.type, node.arguments)
        _discriminate_constructor(node, meaning)
        return kind
    if isinstance(meaning, OverloadMeaning):
        return call_overload(scope, node, meaning.name, meaning.candidates, node.arguments)
    if isinstance(meaning, ValueMeaning):
        return _call_value(scope, node)
    if not isinstance(meaning, ErrorMeaning):
        scope.checker.error("E0302", f"'{node.callee.span.text}' cannot be called", node.callee.span)
    return ERROR


def _applied(scope: Scope, node: ast.Call, meaning: GenericMeaning) -> Meaning:
    """`Foo(x)` of a generic struct: its arguments follow from those of a constructor."""
    declaration = meaning.declaration
    if isinstance(declaration, ast.StructDeclaration) and node.arguments:
        inferred = infer_struct(scope, node, declaration, meaning.substitution)
        if inferred is not None:
            return TypeMeaning(inferred)
    return apply_arguments(scope, node.callee, meaning)


def call_overload(
    scope: Scope,
    node: ast.Expression,
    name: str,
    candidates: list[Candidate],
    arguments: list[ast.Expression],
) -> Type:
    """Choose, commit, write the Call."""
    match = choose(scope, node.span, name, candidates, arguments)
    if match is None:
        return ERROR
    this = object_of_call(scope, node.span, match)
    node.ref = checked.FunctionCall(match.target, this, commit_match(scope, match))
    require_try(scope, node, match)
    warn_of_lost_gradients(scope.checker, node.ref)
    return match.signature.result


def object_of_call(scope: Scope, span: Span, match: Match) -> checked.Base | None:
    """The `this` of a call, after checking that there is one and that it may be changed."""
    candidate = match.candidate
    info = scope.checker.info(candidate.declaration)
    base = innermost(candidate)
    if info.this_type is None or isinstance(candidate.declaration, ast.Constructor):
        interface = candidate.declaration.parent
        if not isinstance(interface, ast.Interface):
            return None
        kind = base.substitution.get(interface)
        return base.this or (
            _discriminator(span, base.discriminator, kind) if isinstance(kind, Type) else None
        )
    if candidate.inner is not None and base.through_type:
        return None
    if base.this is None:
        message = f"'{candidate.declaration.name}' is a method and needs an object"
        scope.checker.error("E0307", message, span, "make it static, or call it on a value")
        return None
    if info.mutating and candidate.inner is None:
        reason = not_a_place(scope, base.this) or _unchangeable(base.this)
        if reason is not None:
            name = candidate.declaration.name
            scope.checker.error(
                "E0315", f"'{name}' changes its object, which is not possible here: {reason}", span
            )
    return base.this


def _unchangeable(this: checked.Base) -> str | None:
    """Why a method must not change an object that can be stored into."""
    if not isinstance(this, ast.Expression):
        return None
    parameter = this.ref.declaration if isinstance(this.ref, checked.Local) else None
    if not isinstance(parameter, ast.ParameterDeclaration) or parameter.direction != "in":
        return None
    kind = this.type
    if isinstance(kind, StructType) and kind.declaration.attribute("__NonCopyableType") is not None:
        return f"'{parameter.name}' is passed by value, and a '{kind}' cannot be copied"
    return None


def _discriminator(span: Span, discriminator: checked.Base | None, kind: Type) -> ast.Expression | None:
    """The value whose type a static requirement takes."""
    if discriminator is None:
        return None
    node = ast.Missing(span)
    node.type, node.ref = kind, checked.Discriminator(discriminator)
    return node


def _discriminate_constructor(node: ast.Call, meaning: TypeMeaning) -> None:
    form = node.ref
    if not isinstance(form, checked.FunctionCall) or not isinstance(form.function, DeclRef):
        return
    if form.this is None and isinstance(form.function.declaration.parent, ast.Interface):
        form.this = _discriminator(node.span, meaning.discriminator, meaning.type)


def _call_value(scope: Scope, node: ast.Call) -> Type:
    """A lambda, or an object with an `operator()`."""
    kind = follow(scope.checker, node.callee)
    if kind is ERROR:
        return ERROR
    candidates = _callable_candidates(scope, kind, node.callee)
    if not candidates:
        return scope.checker.error("E0302", f"a '{kind}' cannot be called", node.callee.span)
    return call_overload(scope, node, "operator()", candidates, node.arguments)


# --- Construction and conversion ----------------------------------------------------------------------


def construct(scope: Scope, node: ast.Expression, kind: Type, arguments: list[ast.Expression]) -> Type:
    """`T(...)` with checked arguments."""
    if kind is ERROR or any(argument.type is ERROR for argument in arguments):
        return kind
    if isinstance(kind, InterfaceType) and not arguments:
        return scope.checker.error(
            "E0412", f"'{kind}' is an interface, of which there are no objects", node.span
        )
    if not arguments:
        return _construct_empty(scope, node, kind)
    if len(arguments) == 1 and _convert_explicitly(scope, node, kind, arguments[0]):
        return kind
    if isinstance(kind, (StructType, ParameterType, Projection)):
        return _construct_declared(scope, node, kind, arguments)
    if isinstance(kind, (VectorType, MatrixType)):
        return _construct_components(scope, node, kind, arguments)
    if isinstance(kind, (ArrayType, Tuple)):
        return _construct_list(scope, node, kind, arguments)
    return _report_no_conversion(scope, node, kind, arguments)


def _construct_empty(scope: Scope, node: ast.Expression, kind: Type) -> Type:
    initial = initial_value(scope, kind)
    node.ref = Construct(kind, ()) if isinstance(initial, checked.Zero) else initial
    return kind


def _convert_explicitly(scope: Scope, node: ast.Expression, kind: Type, argument: ast.Expression) -> bool:
    """`T(x)` and `(T)x` where a conversion does it."""
    inner = stripped(argument)
    if (
        isinstance(kind, StructType)
        and isinstance(inner, ast.InitializerList)
        and _takes_one(scope, kind, inner)
    ):
        return False
    if isinstance(inner, ast.InitializerList):
        coercion = plan_list(scope, inner, kind)
        if coercion is None:
            explain_list(scope, inner, kind)
            coercion = Coercion(kind, 0, apply=lambda: None)
        commit(scope, inner, coercion)
        node.ref = checked.Convert(argument)
        return True
    if isinstance(argument, ast.NamedArgument):
        return False
    source = value_type(argument)
    if (
        isinstance(kind, StructType)
        and isinstance(inner, ast.IntLiteral)
        and inner.value == 0
        and not _takes_one(scope, kind, argument)
    ):
        _construct_empty(scope, node, kind)
        return True
    coercion = plan(scope, argument, kind, explicit=True)
    if coercion is None or (
        isinstance(kind, StructType) and source is not kind and _takes_one(scope, kind, argument)
    ):
        return False
    coercion.warning = None
    commit(scope, argument, coercion)
    node.ref = checked.Convert(argument)
    return True


def _takes_one(scope: Scope, kind: StructType, argument: ast.Expression) -> bool:
    """Whether a constructor takes this one argument."""
    candidates = constructors(scope, kind)
    if not candidates:
        return False
    with scope.checker.silence():
        return choose(scope, argument.span, "__init", candidates, [argument]) is not None


def _construct_declared(
    scope: Scope, node: ast.Expression, kind: Type, arguments: list[ast.Expression]
) -> Type:
    candidates = constructors(scope, kind)
    if candidates:
        match = choose(scope, node.span, str(kind), candidates, arguments)
        if match is not None:
            node.ref = checked.FunctionCall(match.target, None, commit_match(scope, match))
        return kind
    if isinstance(kind, StructType):
        return _construct_list(scope, node, kind, arguments)
    return _report_no_conversion(scope, node, kind, arguments)


def _construct_list(scope: Scope, node: ast.Expression, kind: Type, arguments: list[ast.Expression]) -> Type:
    """Memberwise, as by an initializer list."""
    elements = ast.InitializerList(node.span, arguments)
    coercion = plan_list(scope, elements, kind)
    refusal = refused_member(kind, "__init") if coercion is None else None
    if refusal is not None:
        return scope.refuse(refusal.code, f"a '{kind}' cannot be made", node.span, refusal.note)
    if coercion is None:
        explain_list(scope, elements, kind)
        return kind
    commit(scope, elements, coercion)
    node.ref = elements.ref
    return coercion.target


def _construct_components(
    scope: Scope, node: ast.Expression, kind: VectorType | MatrixType, arguments: list[ast.Expression]
) -> Type:
    element = kind.element
    total = 0
    for argument in arguments:
        if isinstance(argument, (ast.InitializerList, ast.NamedArgument)):
            scope.checker.error("E0312", f"this cannot be a component of '{kind}'", argument.span)
            return kind
        source = value_type(argument)
        target = with_element(source, element) if isinstance(source, (VectorType, MatrixType)) else element
        if not _convert_component(scope, argument, target, kind):
            return kind
        total += component_count(source) or 1
    wanted = component_count(kind)
    if wanted is not None and total != wanted:
        message = f"'{kind}' has {wanted} components, but {total} are given"
        scope.checker.error("E0312", message, node.span)
    node.ref = Construct(kind, tuple(arguments))
    return kind


def _convert_component(scope: Scope, node: ast.Expression, target: Type, kind: Type) -> bool:
    whole = isinstance(value_type(node), (ArrayType, StructType))
    coercion = None if whole else plan(scope, node, target, explicit=True)
    if coercion is None:
        message = f"a component of '{kind}' must be '{element_of(kind)}', not '{value_type(node)}'"
        scope.checker.error("E0312", message, node.span)
        return False
    commit(scope, node, coercion)
    return True


def _report_no_conversion(
    scope: Scope, node: ast.Expression, kind: Type, arguments: list[ast.Expression]
) -> Type:
    types = ", ".join(
        "{...}" if argument.type is None else f"'{value_type(argument)}'" for argument in arguments
    )
    scope.checker.error("E0311", f"a '{kind}' cannot be made from {types}", node.span)
    return kind


def check_cast(scope: Scope, node: ast.Cast) -> Type:
    kind = scope.checker.resolve_type(scope, node.target)
    check_argument(scope, node.operand)
    if (
        isinstance(kind, ArrayType)
        and kind.count is None
        and not isinstance(node.operand, ast.InitializerList)
    ):
        return scope.checker.error("E0311", f"'{kind}' is no type to convert to", node.target.span)
    if kind is VOID and node.operand.type not in (None, ERROR):
        node.ref = checked.Convert(node.operand)
        return VOID
    result = construct(scope, node, kind, [node.operand])
    if isinstance(kind, ArrayType) and isinstance(node.operand, ast.InitializerList):
        return value_type(node.operand)
    return result


# --- Derivatives --------------------------------------------------------------------------------------

MODES = {"fwd_diff": "forward", "bwd_diff": "backward", "__fwd_diff": "forward", "__bwd_diff": "backward"}


def differentiate(scope: Scope, node: ast.Differentiate) -> Meaning:
    """`bwd_diff(f)`: candidates for the derivatives of all functions that f may mean."""
    inner = refer(scope, node.function)
    if isinstance(inner, ErrorMeaning):
        return fail(node)
    candidates = inner.candidates if isinstance(inner, OverloadMeaning) else []
    if isinstance(inner, ValueMeaning):
        kind = follow(scope.checker, node.function)
        candidates = _callable_candidates(scope, kind, node.function)
    candidates = [
        candidate for candidate in candidates if not isinstance(candidate.declaration, ast.Constructor)
    ]
    if not candidates:
        text = node.function.span.text
        return refuse(
            scope, node, "E0502", f"{node.mode} needs a function, which '{text}' is not", node.function.span
        )
    differentiable = [
        candidate for candidate in candidates if scope.checker.info(candidate.declaration).is_differentiable
    ]
    if not differentiable:
        name = candidates[0].declaration.name
        message = f"'{name}' is not differentiable, so {node.mode} cannot be taken of it"
        scope.checker.error(
            "E0503", message, node.function.span, f"mark it: [Differentiable] before '{name}'"
        )
        return FAILED
    if thrown_by(scope.checker, differentiable[0]) is not None:
        report_no_derivative(scope, node, differentiable[0])
        return FAILED
    name, mode = f"{node.mode}({node.function.span.text})", MODES[node.mode]
    derivatives = [
        Candidate(
            f.declaration, f.substitution, f.this, f.through_type, distance=f.distance, mode=mode, inner=f
        )
        for f in differentiable
    ]
    return OverloadMeaning(name, derivatives)


def _callable_candidates(scope: Scope, kind: Type, node: ast.Expression) -> list[Candidate]:
    """The candidates of a call of a value: the body of a lambda, or an `operator()`."""
    if isinstance(kind, LambdaType):
        return [Candidate(kind.declaration, own_substitution(kind), node)]
    return member_candidates(scope.checker, kind, "operator()", ast.FunctionDeclaration, node)
