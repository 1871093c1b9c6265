"""Choosing among functions of one name.

In: candidates and checked arguments.   Out: the best Match, or an error that lists why each candidate failed.

A candidate applies when its generic arguments can be inferred, its bounds hold and each argument
converts. Which one wins is decided in candidates.py; two that remain equal are ambiguous.
"""

from __future__ import annotations

from itertools import accumulate

from slangrad.base.source import Span
from slangrad.check.calls.candidates import (
    Arguments,
    Match,
    Mismatch,
    best_matches,
    candidate_signature,
    innermost,
    instantiate,
)
from slangrad.check.calls.coerce import commit, mismatch, plan, report_list_failure, stripped
from slangrad.check.calls.convert import TO_FLOAT, common_type, convert
from slangrad.check.derivatives.custom_derivatives import declared_derivatives
from slangrad.check.generics.bounds import generic_info
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.signatures import function_text, signature_text
from slangrad.check.generics.substitution import passed_parameters, substitute
from slangrad.check.interfaces.differentiable import RESULT_COTANGENT, pair_element
from slangrad.check.interfaces.lookup import bind_by_bounds, conforms, function_interfaces, unmet_constraint
from slangrad.check.model import checked
from slangrad.check.model.checked import Argument, Default, Derivative
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef, Substitution
from slangrad.check.model.meanings import Candidate, Coercion
from slangrad.check.model.packs import grouped, spliced
from slangrad.check.model.types import (
    ERROR,
    FLOAT,
    ArrayType,
    EnumType,
    FunctionParameter,
    FunctionType,
    GenericArgument,
    InterfaceType,
    LambdaType,
    ScalarType,
    Type,
    element_of,
    is_pack,
    parameter_type,
    pointer,
    with_element,
)
from slangrad.check.names import constants
from slangrad.check.names.generic_arguments import default_argument, fits
from slangrad.check.names.memory_rules import in_memory
from slangrad.check.names.places import not_a_place, value_type
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate, unchecked
from slangrad.syntax.ast.walk import walk

BY_PLACE = ("out", "inout", "ref")  # directions that take a variable of exactly the parameter's type


def choose(
    scope: Scope, span: Span, name: str, candidates: list[Candidate], arguments: list[ast.Expression]
) -> Match | None:
    """The match to call; None after an error. Its plans are not committed."""
    if any(
        argument.type is ERROR and not isinstance(argument, ast.InitializerList) for argument in arguments
    ):
        return _choose_despite_errors(scope, candidates, arguments)
    tried = [evaluate(scope, candidate, arguments) for candidate in distinct(candidates)]
    if _converts_lambdas(scope, tried):
        tried = [evaluate(scope, candidate, arguments) for candidate in distinct(candidates)]
    matches = [attempt for attempt in tried if isinstance(attempt, Match)]
    if not matches:
        _report_failures(
            scope, span, name, [attempt for attempt in tried if isinstance(attempt, Mismatch)], arguments
        )
        return None
    best = best_matches(scope.checker, matches)
    if len(best) > 1:
        _report_ambiguity(scope, span, name, best, arguments)
        return None
    return best[0]


def _converts_lambdas(scope: Scope, tried: list[Match | Mismatch]) -> bool:
    """Check a lambda again with the result that the only candidates for it want: `(int x) => x` for IFunc<float, int>.
    Only where no candidate takes it as it is."""
    wanted = [attempt.converted for attempt in tried if isinstance(attempt, Mismatch) and attempt.converted]
    if not wanted or any(isinstance(attempt, Match) for attempt in tried):
        return False
    node, result = wanted[0]
    if any(other[0] is not node or other[1] is not result for other in wanted):
        return False
    again = duplicate(node)
    for inner in walk(again):
        unchecked(inner)
    scope.checker.lambda_results[again.function] = result
    with scope.checker.silence():
        kind = scope.checker.check_value(scope, again)
    if kind is ERROR:
        return False
    node.function, node.type, node.ref = again.function, kind, again.ref
    return True


def _choose_despite_errors(
    scope: Scope, candidates: list[Candidate], arguments: list[ast.Expression]
) -> Match | None:
    """With a wrong argument: the only candidate, so that its result type is known; nothing is reported."""
    with scope.checker.silence():
        tried = [evaluate(scope, candidate, arguments) for candidate in distinct(candidates)]
    matches = [attempt for attempt in tried if isinstance(attempt, Match)]
    return matches[0] if len(matches) == 1 else None


def distinct(candidates: list[Candidate]) -> list[Candidate]:
    """Each declaration once, the nearest way to it."""
    nearest: dict[object, Candidate] = {}
    for candidate in candidates:
        nearest.setdefault((candidate.declaration, candidate.mode), candidate)
    return list(nearest.values())


def commit_match(scope: Scope, match: Match) -> tuple[Argument, ...]:
    """Write the conversions of the arguments; the arguments in the order of the parameters."""
    result: list[Argument] = []
    parameters = scope.checker.info(match.candidate.declaration).parameters
    for index, (node, coercion) in enumerate(zip(match.arguments, match.plans)):
        if node is None:
            result.append(Default(parameters[index]))
        elif coercion is not None:
            commit(scope, node, coercion)
            result.append(node)
            if index < len(parameters) and parameters[index].has("constexpr"):  # a pack takes more arguments
                constants.require_constant(scope.checker, node, parameters[index])
    return tuple(result)


# --- One candidate ------------------------------------------------------------------------------------


def evaluate(scope: Scope, candidate: Candidate, arguments: list[ast.Expression]) -> Match | Mismatch:
    """Does this candidate apply, and at what cost?"""
    checker = scope.checker
    declared = candidate_signature(checker, candidate)
    if candidate.declaration.attribute("by_address") is not None:
        arguments = [_by_address(checker, argument) for argument in arguments]
    placed = _place_arguments(checker, candidate, declared, arguments)
    if isinstance(placed, Mismatch):
        return placed
    bindings = _infer(scope, candidate, placed)
    if isinstance(bindings, Mismatch):
        return bindings
    concretely = candidate.inner is not None and bool(
        declared_derivatives(checker, candidate.declaration).partial
    )
    outcome = _evaluate_seen(scope, candidate, bindings, placed, concretely)
    if isinstance(outcome, Mismatch) and candidate.inner is not None:
        other = _evaluate_seen(scope, candidate, bindings, placed, not concretely)
        outcome = other if isinstance(other, Match) else outcome
    return outcome


def _by_address(checker: Checker, node: ast.Expression) -> ast.Expression:
    """An array of group memory is passed as a pointer: copies in and out would lose the writes of other threads."""
    form = node.ref
    shared = isinstance(form, checked.Global) and form.reference.declaration.has("groupshared")
    if not shared or not isinstance(node.type, ArrayType):
        return node
    address = ast.Unary(node.span, "&", node)
    address.type, address.ref = (
        pointer(in_memory(checker, node.type, node)),
        checked.AddressOf(node),
    )
    return address


def _evaluate_seen(
    scope: Scope, candidate: Candidate, bindings: Bindings, placed: Arguments, concretely: bool
) -> Match | Mismatch:
    target, signature = instantiate(scope.checker, candidate, bindings, concretely=concretely)
    if len(signature.parameters) != len(placed):
        return Mismatch(candidate, f"it takes {_number(len(signature.parameters))}, not {len(placed)}")
    return _convert_arguments(scope, candidate, target, signature, placed)


def _place_arguments(
    checker: Checker, candidate: Candidate, signature: FunctionType, arguments: list[ast.Expression]
) -> Arguments | Mismatch:
    """Arguments by parameter: positional ones first, then named ones, then defaults."""
    if candidate.inner is not None:
        return list(arguments)
    count = len(signature.parameters)
    if any(is_pack(parameter.type) for parameter in signature.parameters):
        return _place_with_packs(candidate, signature, arguments)
    positional = [argument for argument in arguments if not isinstance(argument, ast.NamedArgument)]
    if len(positional) > count:
        return Mismatch(candidate, f"it takes {_number(count)}, not {len(arguments)}")
    placed: Arguments = [*positional, *[None] * (count - len(positional))]
    for named in arguments:
        if isinstance(named, ast.NamedArgument):
            index = next(
                (i for i, declared in enumerate(signature.parameters) if declared.name == named.name), None
            )
            if index is None or placed[index] is not None:
                return Mismatch(candidate, f"it has no free parameter '{named.name}'")
            placed[index] = named.value
    for index, node in enumerate(placed):
        if node is None and not _has_default(checker, candidate, index):
            return Mismatch(candidate, f"it takes {_number(count)}, not {len(arguments)}")
    return placed


def _place_with_packs(
    candidate: Candidate, signature: FunctionType, arguments: list[ast.Expression]
) -> Arguments | Mismatch:
    """A pack takes any number, so that all are given, in order."""
    least = sum(not is_pack(parameter.type) for parameter in signature.parameters)
    if len(arguments) < least:
        return Mismatch(candidate, f"it takes at least {_number(least)}, not {len(arguments)}")
    named = next((argument for argument in arguments if isinstance(argument, ast.NamedArgument)), None)
    if named is not None:
        return Mismatch(candidate, "arguments of a call with a pack cannot be named", named)
    return list(arguments)


def _number(count: int) -> str:
    return f"{count} argument{'s' if count != 1 else ''}"


def _has_default(checker: Checker, candidate: Candidate, index: int) -> bool:
    if candidate.inner is not None:
        return False
    return checker.info(candidate.declaration).parameters[index].default is not None


# --- Inference ----------------------------------------------------------------------------------------


def _infer(scope: Scope, candidate: Candidate, placed: Arguments) -> Bindings | Mismatch:
    """The generic arguments of the function itself: those written, then those inferred from the call's arguments."""
    generics = candidate.declaration.generics
    if not generics and not candidate.declaration.constraints and not innermost(candidate).explicit:
        return {}
    checker = scope.checker
    solver = Solver(checker, generics, lambda left, right: common_type(checker, left, right))
    failure = _bind_explicit(candidate, solver)
    if failure is None:
        failure = _bind_arguments(checker, candidate, solver, placed)
    if failure is None:
        failure = _bind_known(checker, candidate, solver, placed)
    if failure is None:
        _bind_as_float(checker, candidate, solver)
        bind_by_bounds(checker, candidate.declaration, candidate.substitution, solver)
        failure = _bind_defaults(scope, candidate, solver)
    if failure is not None:
        return failure
    bindings = {**candidate.substitution, **solver.bindings}
    reason = unmet_constraint(checker, candidate.declaration, bindings)
    if reason is None:
        return solver.bindings
    conversion = _result_of_lambda(checker, candidate.declaration, bindings)
    if conversion is None:
        return Mismatch(candidate, reason)
    function, wanted = conversion
    lambdas = [stripped(node) for node in placed if node is not None and value_type(node) is function]
    direct = [node for node in lambdas if isinstance(node, ast.Lambda)]
    converted = (direct[0], wanted) if len(lambdas) == len(direct) == 1 else None
    note = f"convert in the lambda: '{wanted}(...)'"
    return Mismatch(candidate, reason, code="E9012", note=note, converted=converted)


def _result_of_lambda(
    checker: Checker, declaration: ast.Declaration, bindings: Substitution
) -> tuple[LambdaType, Type] | None:
    """A lambda whose result converts to that of its function type, and that result."""
    for subject, interfaces in generic_info(checker, declaration).bounds.items():
        kind = substitute(checker, subject, bindings)
        if not isinstance(kind, LambdaType):
            continue
        for wanted in (substitute(checker, interface, bindings) for interface in interfaces):
            for offered in function_interfaces(checker, kind):
                if (
                    offered.declaration is wanted.declaration
                    and offered.arguments[1:] == wanted.arguments[1:]
                ):
                    converts = convert(checker, offered.inner, wanted.inner) is not None
                    return (kind, wanted.inner) if converts else None
    return None


def _bind_explicit(candidate: Candidate, solver: Solver) -> Mismatch | None:
    base = innermost(candidate)
    generics = [generic for generic in base.declaration.generics if not generic.name.startswith("$")]
    written: list[GenericArgument] | None = list(base.explicit)
    leading = next(
        (i for i, declared_generic in enumerate(generics) if declared_generic.is_pack), len(generics)
    )
    if leading < len(generics) and len(base.explicit) > leading:
        written = grouped(generics, spliced(base.explicit))
    if written is None or len(written) > len(generics):
        return Mismatch(candidate, f"it takes {len(generics)} generic arguments, not {len(base.explicit)}")
    for parameter, argument in zip(generics, written):
        if not fits(parameter, argument):
            return Mismatch(
                candidate, f"'{argument}' is no argument for its generic parameter '{parameter.name}'"
            )
        solver.bindings[parameter] = argument
        solver.open.discard(parameter)
    return None


def _bind_arguments(
    checker: Checker, candidate: Candidate, solver: Solver, placed: Arguments
) -> Mismatch | None:
    base = innermost(candidate)
    declared = candidate_signature(checker, base, differentiated=base is not candidate).parameters
    written = {key: value for key, value in solver.bindings.items() if key not in solver.open}
    seen = {**base.substitution, **written}
    patterns = [
        parameter for declaration in declared for parameter in passed_parameters(checker, declaration, seen)
    ]
    groups = _group_arguments(checker, candidate, solver, patterns, placed)
    pairs = list(zip(patterns, groups))
    for pattern, nodes in sorted(pairs, key=lambda pair: pair[0].direction not in BY_PLACE):
        if is_pack(pattern.type):
            failure = _bind_pack(checker, candidate, solver, pattern.type, nodes)
            if failure is not None:
                return failure
            continue
        node = nodes[0]
        if node is None or node.type is None or isinstance(node, ast.InitializerList):
            continue
        wanted = pattern.type
        actual = _unwrapped(checker, candidate, wanted, value_type(node))
        if wanted.abstract and not solver.unify(wanted, actual) and solver.conflict is not None:
            return Mismatch(candidate, solver.conflict, node, only_sizes=solver.sizes_differ)
        if pattern.direction in BY_PLACE:
            solver.fixed.update(solver.bindings)
    return None


def _bind_known(checker: Checker, candidate: Candidate, solver: Solver, placed: Arguments) -> Mismatch | None:
    """The library's `constexpr` parameters: constant numbers."""
    for parameter, node in zip(checker.info(innermost(candidate).declaration).parameters, placed):
        info = checker.info(parameter)
        if info.generic_value is None or node is None or node.type is None:
            continue
        value = constants.evaluate(checker, node)
        if value is None:
            reason = f"'{parameter.name}' must be known when compiling"
            return Mismatch(
                candidate, reason, node, code="E0309", note="write a constant, or a generic parameter"
            )
        solver.bindings[info.generic_value] = value
    return None


def _group_arguments(
    checker: Checker,
    candidate: Candidate,
    solver: Solver,
    patterns: list[FunctionParameter],
    placed: Arguments,
) -> list[Arguments]:
    """The arguments by parameter; a pack takes several."""
    if not any(is_pack(pattern.type) for pattern in patterns):
        return [[passed] for passed in placed]
    if candidate.inner is not None:
        derived = candidate_signature(checker, candidate).parameters
        placed = placed[: len(placed) - bool(derived and derived[-1].name == RESULT_COTANGENT)]
    counts = solver.shares(tuple(pattern.type for pattern in patterns), len(placed))
    if counts is None:
        return []
    ends = list(accumulate(counts))
    return [placed[end - count : end] for end, count in zip(ends, counts)]


def _bind_pack(
    checker: Checker, candidate: Candidate, solver: Solver, pattern: Type, nodes: Arguments
) -> Mismatch | None:
    """The types of arguments that one pack takes."""
    entries: list[Type] = []
    for node in nodes:
        if node is None or node.type is None or isinstance(node, ast.InitializerList):
            return Mismatch(candidate, "an initializer list has no type here", node)
        entries.append(_unwrapped(checker, candidate, pattern, value_type(node)))
    if not solver.unify_entries((pattern,), tuple(entries)):
        types = ", ".join(map(str, entries))
        return Mismatch(candidate, f"'{pattern}' cannot be ({types})", nodes[0] if nodes else None)
    return None


def _unwrapped(checker: Checker, candidate: Candidate, wanted: Type, actual: Type) -> Type:
    """Where a derivative takes pairs, the type in the pair is the argument of the function."""
    while candidate.inner is not None:
        element = pair_element(checker, actual)
        if element is not None and (is_pack(wanted) or pair_element(checker, wanted) is None):
            actual = element
        candidate = candidate.inner
    return actual


def _bind_as_float(checker: Checker, candidate: Candidate, solver: Solver) -> None:
    """An integer for a parameter that takes only floats is a float: `sqrt(2)`."""
    bounds = generic_info(checker, candidate.declaration).bounds
    for parameter, actual in solver.bindings.items():
        if parameter not in solver.open or not isinstance(actual, ScalarType) or not actual.is_integer:
            continue
        assert isinstance(parameter, ast.TypeParameter)
        wanted = bounds.get(parameter_type(parameter), [])
        if not _conforms_to_all(checker, actual, wanted) and _conforms_to_all(checker, FLOAT, wanted):
            solver.bindings[parameter] = FLOAT


def _conforms_to_all(checker: Checker, kind: Type, wanted: list[InterfaceType]) -> bool:
    return all(interface.abstract or conforms(checker, kind, interface) for interface in wanted)


def _bind_defaults(scope: Scope, candidate: Candidate, solver: Solver) -> Mismatch | None:
    for parameter in candidate.declaration.generics:
        if parameter in solver.bindings:
            continue
        if parameter.is_pack or parameter in solver.scalars:
            solver.bindings[parameter] = () if parameter.is_pack else 1
            continue
        default = default_argument(scope, parameter, {**candidate.substitution, **solver.bindings})
        if default is None:
            return Mismatch(candidate, f"'{parameter.name}' cannot be inferred from the arguments")
        solver.bindings[parameter] = default
    return None


# --- Conversion of arguments --------------------------------------------------------------------------


def _convert_arguments(
    scope: Scope,
    candidate: Candidate,
    target: DeclRef | Derivative,
    signature: FunctionType,
    placed: Arguments,
) -> Match | Mismatch:
    plans: list[Coercion | None] = []
    total = 0
    for index, (parameter, node) in enumerate(zip(signature.parameters, placed)):
        if node is None:
            plans.append(None)
            continue
        coercion = _convert_argument(scope, candidate, index, parameter, node)
        if isinstance(coercion, Mismatch):
            return coercion
        plans.append(coercion)
        total += coercion.cost
    return Match(candidate, target, signature, placed, plans, total)


def _convert_argument(
    scope: Scope, candidate: Candidate, index: int, parameter: FunctionParameter, node: ast.Expression
) -> Coercion | Mismatch:
    subject = f"argument {index + 1}"
    if parameter.direction in BY_PLACE:
        return _pass_place(scope, candidate, subject, parameter, node)
    coercion = plan(scope, node, parameter.type)
    if coercion is None:
        return Mismatch(candidate, mismatch(node, parameter.type, subject), node, parameter.type)
    if coercion.cost >= TO_FLOAT and _keeps_bits(candidate, node):
        reason = (
            f"{subject} must be '{parameter.type}', as its bits are what counts, not '{value_type(node)}'"
        )
        return Mismatch(candidate, reason, node)
    return coercion


def _keeps_bits(candidate: Candidate, node: ast.Expression) -> bool:
    """Whether a function of the library uses the exact number, so that it must not be converted before."""
    declared = candidate.declaration
    exact = declared.span.source.is_library and declared.attribute("exact_bits") is not None
    return exact and not isinstance(value_type(node), EnumType)


def _pass_place(
    scope: Scope, candidate: Candidate, subject: str, parameter: FunctionParameter, node: ast.Expression
) -> Coercion | Mismatch:
    if node.type is ERROR:
        return Coercion(parameter.type, 0)
    if isinstance(node, ast.InitializerList):
        return Mismatch(
            candidate, f"{subject} must be a variable, as its parameter is '{parameter.direction}'", node
        )
    reason = not_a_place(scope, node)
    if reason is not None:
        return Mismatch(candidate, f"{subject} must be a variable ('{parameter.direction}'): {reason}", node)
    actual = value_type(node)
    coercion = plan(scope, node, parameter.type)
    if actual is parameter.type or (
        coercion is not None and coercion.conversion and coercion.conversion.kind == "existing"
    ):
        assert coercion is not None
        return coercion
    if coercion is not None and parameter.direction != "ref" and _differ_in_sign(actual, parameter.type):
        coercion.conversion = checked.Conversion("sign", parameter.type)
        return coercion
    reason = f"{subject} must be exactly '{parameter.type}' ('{parameter.direction}'), not '{actual}'"
    return Mismatch(candidate, reason, node)


def _differ_in_sign(actual: Type, wanted: Type) -> bool:
    """`int` and `uint`, also of vectors and matrices: such numbers can be converted there and back."""
    have, want = element_of(actual), element_of(wanted)
    if (
        not isinstance(have, ScalarType)
        or not isinstance(want, ScalarType)
        or not (have.is_integer and want.is_integer)
    ):
        return False
    return have.bits == want.bits and with_element(actual, want) is wanted


# --- Errors -------------------------------------------------------------------------------------------


def _report_failures(
    scope: Scope, span: Span, name: str, failures: list[Mismatch], arguments: list[ast.Expression]
) -> None:
    checker = scope.checker
    if len(failures) == 1:
        _report_one(scope, span, name, failures[0])
        return
    types = ", ".join(map(argument_text, arguments))
    nearest = [failure for failure in failures if failure.only_sizes] or failures
    reasons = dict.fromkeys(
        f"{candidate_text(checker, failure.candidate)}: {failure.reason}" for failure in nearest
    )
    lines = [*reasons][:8]
    if len(reasons) > 8:
        lines.append(f"and {len(reasons) - 8} more")
    checker.error("E0405", f"no overload of '{name}' takes ({types})", span, "\n        ".join(lines))


def _report_one(scope: Scope, span: Span, name: str, failure: Mismatch) -> None:
    header = candidate_text(scope.checker, failure.candidate)
    node, wanted = failure.node, failure.wanted
    if node is not None and wanted is not None and report_list_failure(scope, node, wanted):
        return
    reported = span if failure.node is None else failure.node.span
    scope.checker.error(
        failure.code,
        f"cannot call '{name}': {failure.reason}",
        reported,
        failure.note or f"it is declared as {header}",
    )


def argument_text(node: ast.Expression) -> str:
    """The type of an argument for a message."""
    if isinstance(node, ast.NamedArgument):
        return f"{node.name}: {argument_text(node.value)}"
    return "{...}" if isinstance(node, ast.InitializerList) else str(value_type(node))


def candidate_text(checker: Checker, candidate: Candidate) -> str:
    """The header of a candidate."""
    if candidate.inner is None:
        return signature_text(checker, DeclRef(candidate.declaration, candidate.substitution))
    word = "fwd_diff" if candidate.mode == "forward" else "bwd_diff"
    return function_text(candidate_signature(checker, candidate), f"{word}({candidate.declaration.name})")


def _report_ambiguity(
    scope: Scope, span: Span, name: str, best: list[Match], arguments: list[ast.Expression]
) -> None:
    types = ", ".join(map(argument_text, arguments))
    lines = [candidate_text(scope.checker, match.candidate) for match in best]
    message = f"the call of '{name}' with ({types}) is ambiguous"
    scope.checker.error("E0406", message, span, "candidates: " + "\n        ".join(lines))
