"""Derivatives that users give: [BackwardDerivative(g)] on f, [BackwardDerivativeOf(f)] on g, and their kin.

In: a function.   Out: its CustomDerivatives, or an error that shows the signature they must have.

    [BackwardDerivativeOf(square)]
    void square_bwd(inout DifferentialPair<float> x, float d_result)

A derivative of a method is a method too when its object carries no derivative; else it is static and
takes the pair of the object first. One that names `f<float>`, or `f<T>` with a T of its own, is for these
instances alone, and goes before one for all.

`__func_extension __apply(f)` is a forward pass that leaves a context. Its `operator()` goes backward. Each
parameter of f that carries a derivative has one there for its cotangent. That one is `out` for an `in` parameter,
`inout` for an `inout` one, `in` for an `out` one. The cotangent of the result is last.

    __apply(cube)(float x) -> Tuple<float, Context>
    struct Context { float square; void operator()(out float dx, float d) { dx = 3 * square * d; } }
"""

from __future__ import annotations

from dataclasses import field

from slangrad.base.records import record
from slangrad.check.derivatives.derivative_attributes import (
    KINDS,
    derivatives_elsewhere,
    functions_meant,
    generic_parameters,
    named_instance,
)
from slangrad.check.derivatives.rules import refused_pair
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.signatures import function_text, signature_of, signature_text, this_of
from slangrad.check.generics.substitution import identity, see_through, self_argument
from slangrad.check.interfaces.differentiable import (
    derivative_signature,
    pointer_tangent,
    same_signature,
    tangent,
)
from slangrad.check.interfaces.lookup import concrete_members, unmet_constraint
from slangrad.check.model.checked import Applied, CustomDerivatives, FunctionInfo
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef, visible_parameters
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import (
    VOID,
    FunctionParameter,
    FunctionType,
    ScalarType,
    Tuple,
    Type,
    function_type,
)
from slangrad.syntax import ast

Differentiated = ast.FunctionDeclaration | ast.Accessor


@record
class InstanceDerivative:
    """A derivative for some instances of a generic function: `named` has its arguments in terms of the
    derivative's."""

    kind: str
    derivative: ast.FunctionDeclaration
    named: Bindings


@record
class DerivativeDeclarations:
    """The derivatives of a declaration: for all its instances by kind of derivative, and for some of them."""

    general: dict[str, DeclRef] = field(default_factory=dict)
    partial: list[InstanceDerivative] = field(default_factory=list)


# --- Finding ------------------------------------------------------------------------------------------


def derivatives(checker: Checker, reference: DeclRef) -> CustomDerivatives:
    """The derivatives given for a function, under the same substitution."""
    declared = declared_derivatives(checker, reference.declaration)
    by_kind = {
        kind: see_through(checker, general, reference.substitution)
        for kind, general in declared.general.items()
    }
    for derivative in declared.partial:
        match = _instance(checker, derivative, reference)
        if match is not None:
            by_kind[derivative.kind] = match
    apply = by_kind.pop("apply", None)
    custom = CustomDerivatives(**by_kind, apply=None)
    operator = None if apply is None else context_operator(checker, apply, reference)
    if apply is not None and operator is not None:
        custom.apply = Applied(apply, *operator)
    return custom


def declared_derivatives(checker: Checker, declaration: ast.Declaration) -> DerivativeDeclarations:
    """The derivatives given for a declaration."""
    declarations: DerivativeDeclarations | None = checker.custom_derivatives.get(declaration)
    if declarations is None:
        declarations = checker.custom_derivatives[declaration] = _find(checker, declaration)
    return declarations


def _instance(checker: Checker, derivative: InstanceDerivative, reference: DeclRef) -> DeclRef | None:
    """The derivative with its own generic arguments when it is one of this instance."""
    solver = Solver(checker, visible_parameters(derivative.derivative))
    for parameter in generic_parameters(reference.declaration):
        actual = reference.substitution.get(parameter)
        if actual is None or not solver.unify_argument(derivative.named[parameter], actual):
            return None
    owner: ast.Declaration | None = derivative.derivative
    while owner is not None:
        if unmet_constraint(checker, owner, solver.bindings) is not None:
            return None
        owner = owner.parent
    return DeclRef(derivative.derivative, solver.bindings)


def _find(checker: Checker, declaration: ast.Declaration) -> DerivativeDeclarations:
    declarations = DerivativeDeclarations()
    if not isinstance(declaration, (ast.FunctionDeclaration, ast.Accessor)):
        return declarations
    for name, _, kind in KINDS:
        attribute = declaration.attribute(name)
        if attribute is not None:
            for candidate in functions_meant(checker, declaration, attribute):
                _take(checker, declarations, kind, declaration, candidate)
    for kind, derivative, named in derivatives_elsewhere(checker, declaration):
        _take(checker, declarations, kind, declaration, Candidate(derivative, {}), named)
    return declarations


def _take(
    checker: Checker,
    declarations: DerivativeDeclarations,
    kind: str,
    declaration: Differentiated,
    candidate: Candidate,
    named: Candidate | None = None,
) -> None:
    reference = match_derivative(checker, kind, declaration, candidate)
    if reference is not None:
        declarations.general.setdefault(kind, reference)
        return
    instance = None if named is None else _fitting_instance(checker, kind, candidate.declaration, named)
    if instance is not None:
        declarations.partial.append(InstanceDerivative(kind, candidate.declaration, instance))


def _fitting_instance(
    checker: Checker, kind: str, derivative: ast.FunctionDeclaration, named: Candidate
) -> Bindings | None:
    """The generic arguments with which a derivative names a function, when it has the signature for these."""
    arguments = named_instance(named)
    if not arguments:
        return None
    with checker.assuming(derivative):
        reference = DeclRef(named.declaration, arguments)
        if kind == "apply":
            apply = DeclRef(derivative, identity(derivative))
            return None if context_operator(checker, apply, reference) is None else arguments
        wanted = expected_signature(
            checker, kind, reference, with_this=checker.info(derivative).this_type is None
        )
        offered = signature_of(checker, DeclRef(derivative, identity(derivative)))
        fits = wanted is not None and _fits(Solver(checker, ()), offered, wanted)
    return arguments if fits else None


def match_derivative(
    checker: Checker, kind: str, declaration: Differentiated, candidate: Candidate
) -> DeclRef | None:
    """The candidate with its generic arguments when it has the signature of the derivative, else None."""
    reference = DeclRef(declaration, identity(declaration))
    if kind == "apply":
        alone = not visible_parameters(candidate.declaration) and not reference.substitution
        apply = DeclRef(candidate.declaration, {})
        return apply if alone and context_operator(checker, apply, reference) is not None else None
    info: FunctionInfo = checker.info(candidate.declaration)
    wanted = expected_signature(checker, kind, reference, with_this=info.this_type is None)
    if wanted is None:
        return None
    offered = signature_of(checker, DeclRef(candidate.declaration, {}))
    open_parameters = [
        open_one for open_one in identity(candidate.declaration) if open_one not in identity(declaration)
    ]
    solver = Solver(checker, open_parameters)
    for parameter, argument in zip(candidate.declaration.generics, candidate.explicit):
        solver.bindings[parameter] = argument
    in_order = _in_order(declaration, candidate)
    if not _fits(solver, offered, wanted):  # `T.Differential` gives no T
        solver = Solver(checker, ())
        if not _fits(solver, signature_of(checker, DeclRef(candidate.declaration, in_order)), wanted):
            return None
    around = identity(declaration)
    bindings = {**around, **candidate.substitution, **in_order, **solver.bindings}
    if any(generic not in bindings for generic in candidate.declaration.generics):
        return None
    met = unmet_constraint(checker, candidate.declaration, bindings) is None
    return DeclRef(candidate.declaration, bindings) if met else None


def _in_order(declaration: ast.Declaration, candidate: Candidate) -> Bindings:
    """Generic parameters that do not occur in the parameters are those of the function, one by one."""
    pairs = zip(candidate.declaration.generics, getattr(declaration, "generics", ()))
    return {mine: self_argument(other) for mine, other in pairs if type(mine) is type(other)}


def _fits(solver: Solver, offered: FunctionType, wanted: FunctionType) -> bool:
    if len(offered.parameters) != len(wanted.parameters):
        return False
    for passed, other in zip(offered.parameters, wanted.parameters):
        if passed.direction != other.direction and not (
            other.no_diff and passed.direction in ("in", "inout", "constref")
        ):
            return False
        if not solver.unify(passed.type, other.type) and not _are_whole(passed, other):
            return False
    return solver.unify(offered.result, wanted.result)


def _are_whole(passed: FunctionParameter, other: FunctionParameter) -> bool:
    """A derivative gets a whole number by value, so it may take another type of them: `int n` for `uint n`."""
    kinds = (passed.type, other.type)
    by_value = passed.direction in ("in", "constref") and other.direction in ("in", "constref")
    return by_value and all(isinstance(kind, ScalarType) and kind.is_integer for kind in kinds)


def expected_signature(
    checker: Checker, kind: str, reference: DeclRef, with_this: bool
) -> FunctionType | None:
    """The type that a derivative of the function must have; None when it cannot be of this form."""
    info: FunctionInfo = checker.info(reference.declaration)
    with_this = with_this and info.this_type is not None
    if not with_this and kind != "primal_substitute" and _carries_this(checker, info, reference):
        return None
    signature = signature_of(checker, reference, with_this=with_this)
    if kind == "primal_substitute":
        return signature
    return derivative_signature(checker, kind, signature, info.no_diff_result)


def _carries_this(checker: Checker, info: FunctionInfo, reference: DeclRef) -> bool:
    """Whether derivatives go through the object of a method."""
    this = None if info.no_diff_this else this_of(checker, reference)
    return this is not None and (
        tangent(checker, this) is not None or pointer_tangent(checker, this) is not None
    )


# --- Checking -----------------------------------------------------------------------------------------


def check_derivative_attributes(checker: Checker, declaration: Differentiated) -> None:
    """Report attributes that name no function, or one of another signature."""
    for name, of, kind in KINDS:
        attribute = declaration.attribute(name)
        if attribute is not None:
            candidates = functions_meant(checker, declaration, attribute)
            pairs = [(Candidate(declaration, identity(declaration)), candidate) for candidate in candidates]
            _check_pairs(checker, attribute, kind, pairs)
        attribute = declaration.attribute(of)
        if attribute is not None:
            candidates = functions_meant(checker, declaration, attribute)
            derivative = Candidate(declaration, {})
            _check_pairs(checker, attribute, kind, [(candidate, derivative) for candidate in candidates])


def _check_pairs(
    checker: Checker, attribute: ast.AttributeNode, kind: str, pairs: list[tuple[Candidate, Candidate]]
) -> None:
    """Each pair is a named function, and the candidates for its derivative."""
    if not pairs:
        text = attribute.arguments[0].span.text if attribute.arguments else "nothing"
        shown = "__apply" if attribute.name == ast.APPLY_OF else f"[{attribute.name}]"
        message = f"{shown} needs the name of a function, which '{text}' is not"
        checker.error("E0504", message, attribute.span)
        return
    reason = refused_pair(checker, kind, pairs[0][0].declaration, pairs[0][1].declaration)
    if reason is not None:
        checker.error("E0504", reason, attribute.span)
        return
    for named, candidate in pairs:
        if match_derivative(checker, kind, named.declaration, candidate) is not None:
            return
        if _fitting_instance(checker, kind, candidate.declaration, named) is not None:
            return
    named, candidate = pairs[0]
    text = _WHAT.get(kind, f"{kind} derivative")
    message = (
        f"'{candidate.declaration.name}' has not the signature of a {text} of '{named.declaration.name}'"
    )
    with checker.assuming(candidate.declaration):
        note = _expected_text(checker, kind, named, candidate.declaration)
    offered = signature_text(checker, DeclRef(candidate.declaration, {}))
    checker.error("E0504", message, attribute.span, f"{note}\n        but it is {offered}")


_WHAT = {"primal_substitute": "primal substitute", "apply": "forward pass with a context"}


def _expected_text(checker: Checker, kind: str, named: Candidate, derivative: ast.FunctionDeclaration) -> str:
    arguments = named_instance(named) or identity(named.declaration)
    reference = DeclRef(named.declaration, arguments)
    if kind == "apply":
        return applied_text(checker, derivative, reference)
    static = checker.info(derivative).this_type is None
    wanted, name = expected_signature(checker, kind, reference, with_this=static), derivative.name
    if wanted is None:
        wanted, name = (
            expected_signature(checker, kind, reference, with_this=True),
            f"static {derivative.name}",
        )
    assert wanted is not None
    return f"expected {function_text(wanted, name)}"


# --- Forward passes with a context --------------------------------------------------------------------


_DIRECTIONS = {"in": "out", "constref": "out", "inout": "inout", "ref": "inout", "out": "in"}


def context_operator(checker: Checker, apply: DeclRef, reference: DeclRef) -> tuple[DeclRef, Type] | None:
    """The backward operator, and the type of its context; None for a wrong signature."""
    offered, wanted = signature_of(checker, apply), signature_of(checker, reference)
    context = _context(offered.result, wanted.result)
    parameters = function_type(wanted.parameters, offered.result)
    if (
        context is None
        or not same_signature(offered, parameters)
        or this_of(checker, apply) is not this_of(checker, reference)
    ):
        return None
    backward = context_signature(checker, reference)
    for member in concrete_members(checker, context, "operator()"):
        is_method = isinstance(member.declaration, ast.FunctionDeclaration)
        if is_method and same_signature(signature_of(checker, member.reference), backward):
            return member.reference, context
    return None


def _context(offered: Type, result: Type) -> Type | None:
    """The second of two results; the only one where the function has none."""
    if result is VOID:
        return offered
    is_pair = isinstance(offered, Tuple) and len(offered.elements) == 2 and offered.elements[0] is result
    return offered.elements[1] if is_pair and isinstance(offered, Tuple) else None


def context_signature(checker: Checker, reference: DeclRef) -> FunctionType:
    """The parameters that the `operator()` of a context must have for a function."""
    signature, info = signature_of(checker, reference, with_this=True), checker.info(reference.declaration)
    parameters = []
    for parameter in signature.parameters:
        kind = None if parameter.no_diff else tangent(checker, parameter.type)
        if kind is not None:
            parameters.append(
                FunctionParameter(kind, _DIRECTIONS[parameter.direction], False, f"d_{parameter.name}")
            )
    kind = None if info.no_diff_result else tangent(checker, signature.result)
    if kind is not None:
        parameters.append(FunctionParameter(kind, "in", False, "d_result"))
    return function_type(tuple(parameters), VOID)


def applied_text(checker: Checker, declaration: ast.Declaration, reference: DeclRef) -> str:
    """The expected signatures of an `__apply` and its context."""
    signature = signature_of(checker, reference)
    result = "Context" if signature.result is VOID else f"Tuple<{signature.result}, Context>"
    parameters = ", ".join(map(str, signature.parameters))
    backward = function_text(context_signature(checker, reference), "operator()")
    return f"expected {declaration.name}({parameters}) -> {result}\n        and in Context: {backward}"
