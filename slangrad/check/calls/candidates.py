"""Candidates of a call: their signatures, derivatives included, whether they apply, and which is best.

In: a Candidate for `bwd_diff(f)` and generic arguments.   Out: the Derivative and its signature.
"""

from __future__ import annotations

from slangrad.base.records import record
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.signatures import signature_of
from slangrad.check.generics.substitution import identity, self_type, substitute
from slangrad.check.interfaces.differentiable import derivative_signature
from slangrad.check.interfaces.lookup import conformances, unmet_constraint
from slangrad.check.model.checked import Derivative
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings, DeclRef
from slangrad.check.model.meanings import Candidate, Coercion
from slangrad.check.model.types import ERROR, FunctionType, Type
from slangrad.syntax import ast

Arguments = list[ast.Expression | None]  # by parameter; None where the default is taken


@record
class Match:
    """A candidate that applies."""

    candidate: Candidate
    target: DeclRef | Derivative
    signature: FunctionType
    arguments: Arguments
    plans: list[Coercion | None]
    cost: int

    @property
    def defaults(self) -> int:
        return sum(argument is None for argument in self.arguments)


@record
class Mismatch:
    """A candidate that does not apply, and where to point when it is the only one."""

    candidate: Candidate
    reason: str
    node: ast.Expression | None = None
    wanted: Type | None = None
    code: str = "E0405"
    note: str | None = None  # what to try
    only_sizes: bool = False  # the types have the right form, and sizes that do not fit
    converted: tuple[ast.Lambda, Type] | None = None  # a lambda that fits with this type of its result


def innermost(candidate: Candidate) -> Candidate:
    """The function in bwd_diff(fwd_diff(f))."""
    while candidate.inner is not None:
        candidate = candidate.inner
    return candidate


def candidate_signature(checker: Checker, candidate: Candidate, differentiated: bool = False) -> FunctionType:
    """The signature before inference, in terms of the candidate's own generic parameters."""
    return instantiate(checker, candidate, {}, differentiated)[1]


def instantiate(
    checker: Checker,
    candidate: Candidate,
    bindings: Bindings,
    differentiated: bool = False,
    concretely: bool = False,
) -> tuple[DeclRef | Derivative, FunctionType]:
    """The callee and its signature, for inferred generic arguments.

    In `bwd_diff(Type.method)`, where the method is `differentiated`, its object is the first argument. The
    declaration decides which parameters carry a derivative (an unbounded T does not), or `concretely` the types do.
    """
    if candidate.inner is not None:
        return _instantiate_derivative(checker, candidate, candidate.inner, bindings, concretely)
    reference = DeclRef(candidate.declaration, {**candidate.substitution, **bindings})
    with_this = differentiated and _counts_this(checker, candidate)
    return reference, signature_of(checker, reference, with_this=with_this)


def _instantiate_derivative(
    checker: Checker, candidate: Candidate, inner: Candidate, bindings: Bindings, concretely: bool
) -> tuple[Derivative, FunctionType]:
    target, signature = instantiate(checker, inner, bindings, True, concretely)
    if concretely or inner.inner is not None:
        derivative = derivative_signature(
            checker, candidate.mode, signature, _has_plain_result(checker, target)
        )
    else:
        derivative = _declared_derivative(checker, candidate, inner, {**inner.substitution, **bindings})
    return Derivative(candidate.mode, target, candidate.this, derivative), derivative


def _declared_derivative(
    checker: Checker, candidate: Candidate, inner: Candidate, arguments: Bindings
) -> FunctionType:
    """The signature of the derivative as the declaration has it, its generics filled in afterwards."""
    reference = DeclRef(inner.declaration, identity(inner.declaration))
    with checker.assuming(inner.declaration):
        signature = signature_of(checker, reference, with_this=_counts_this(checker, inner))
        derivative = derivative_signature(
            checker, candidate.mode, signature, _has_plain_result(checker, reference)
        )
    return substitute(checker, derivative, arguments)


def _has_plain_result(checker: Checker, target: DeclRef | Derivative) -> bool:
    return isinstance(target, DeclRef) and bool(checker.info(target.declaration).no_diff_result)


def _counts_this(checker: Checker, candidate: Candidate) -> bool:
    """Whether a method is named through its type."""
    return candidate.through_type and checker.info(candidate.declaration).this_type is not None


# --- The best of several functions that take the arguments --------------------------------------------


def best_matches(checker: Checker, matches: list[Match]) -> list[Match]:
    """The match that beats all others, or those that are equally good. One with a parameter of a wrong type loses, and
    the cheapest wins. Ties are broken in this order: fewer defaults; not generic; more special; of the inheriting
    interface; a higher `[OverloadRank]`; fewer generic parameters. Members of the type then come before those of
    extensions, nearer ones before others, and those with a body before the rest."""
    best = [matches[0]]
    for match in matches[1:]:
        order = _compare(checker, match, best[0])
        if order < 0:
            best = [match]
        elif order == 0:
            best.append(match)
    return best


def _compare(checker: Checker, left: Match, right: Match) -> int:
    """Negative when `left` is better."""
    if _price(left) != _price(right):
        return -1 if _price(left) < _price(right) else 1
    for is_better in (_more_special, _overrides):
        balance = is_better(checker, right, left) - is_better(checker, left, right)
        if balance:
            return balance
    rank, other_rank = _rank(checker, left), _rank(checker, right)
    if rank != other_rank:
        return -1 if rank > other_rank else 1
    near, other = _distance(left), _distance(right)
    return (near > other) - (near < other)


def _rank(checker: Checker, match: Match) -> int:
    """`[OverloadRank(n)]`."""
    declaration = match.candidate.declaration
    attribute = declaration.attribute("OverloadRank")
    if attribute is None or len(attribute.arguments) != 1:
        return 0
    rank = checker.constant(checker.scope_of(declaration), attribute.arguments[0])
    return rank if isinstance(rank, int) else 0


def _price(match: Match) -> tuple[int, ...]:
    is_wrong = any(parameter.type is ERROR for parameter in match.signature.parameters)
    return is_wrong, match.cost, match.defaults, bool(match.candidate.declaration.generics)


def _distance(match: Match) -> tuple[int, ...]:
    """The last criteria. A subscript that can be written comes before one that can only be read."""
    declaration = match.candidate.declaration
    can_be_written, has_no_body = (
        len(getattr(declaration, "accessors", ())),
        not getattr(declaration, "body", None),
    )
    generics, remoteness = len(declaration.generics), _remoteness(match)
    return generics, remoteness, match.candidate.distance, -can_be_written, has_no_body


def _overrides(checker: Checker, left: Match, right: Match) -> int:
    """1 when `left` is a requirement of an interface that inherits from that of `right`."""
    mine, other = left.candidate.declaration.parent, right.candidate.declaration.parent
    if not isinstance(mine, ast.Interface) or not isinstance(other, ast.Interface) or mine is other:
        return 0
    return int(any(interface.declaration is other for interface in conformances(checker, self_type(mine))))


def _remoteness(match: Match) -> int:
    """Members of a type are nearer than those of an extension, of an extension of many types, of an interface."""
    parent = match.candidate.declaration.parent
    if not isinstance(parent, ast.Extension):
        return 3 * isinstance(parent, ast.Interface)
    return 2 if parent in match.candidate.substitution or parent.generics else 1


def _more_special(checker: Checker, left: Match, right: Match) -> int:
    """1 if `right` takes all arguments that `left` takes: its pattern matches the other's."""
    general, special = right.candidate.declaration, left.candidate.declaration
    if general is special:
        return 0
    solver = Solver(checker, getattr(general, "generics", ()))
    patterns = candidate_signature(checker, right.candidate).parameters
    shapes = candidate_signature(checker, left.candidate).parameters
    if not solver.unify_entries(
        tuple(pattern.type for pattern in patterns), tuple(shape.type for shape in shapes)
    ):
        return 0
    bindings = {**right.candidate.substitution, **solver.bindings}
    return int(unmet_constraint(checker, general, bindings) is None)
