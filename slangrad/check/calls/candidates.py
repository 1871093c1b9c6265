"""Candidates of a call: their signatures, derivatives included, and whether they apply.

In: a Candidate for `bwd_diff(f)` and generic arguments.   Out: the Derivative and its signature.
"""

from __future__ import annotations

from typing import Any

from slangrad.base.records import record
from slangrad.check.calls.coerce import Plan
from slangrad.check.generics.signatures import signature_of
from slangrad.check.generics.substitution import identity, substitute
from slangrad.check.interfaces.differentiable import derivative_signature
from slangrad.check.model.checked import Derivative
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.meanings import Candidate
from slangrad.check.model.types import FunctionType, Type
from slangrad.check.model.world import World
from slangrad.syntax import ast

Arguments = list[ast.Expression | None]  # by parameter; None where the default is taken


@record
class Match:
    """A candidate that applies."""

    candidate: Candidate
    target: DeclRef | Derivative
    signature: FunctionType
    arguments: Arguments
    plans: list[Plan | None]
    cost: int

    @property
    def defaults(self) -> int:
        return sum(each is None for each in self.arguments)


@record
class Failure:
    """A candidate that does not apply, and where to point when it is the only one."""

    candidate: Candidate
    reason: str
    node: ast.Expression | None = None
    wanted: Type | None = None
    code: str = "E0405"
    note: str | None = None  # what to try
    only_sizes: bool = False  # the types have the right form, and sizes that do not fit


def innermost(candidate: Candidate) -> Candidate:
    """The function in bwd_diff(fwd_diff(f))."""
    while candidate.inner is not None:
        candidate = candidate.inner
    return candidate


def candidate_signature(world: World, candidate: Candidate, differentiated: bool = False) -> FunctionType:
    """The signature before inference, in terms of the candidate's own generic parameters."""
    return instantiate(world, candidate, {}, differentiated)[1]


def instantiate(
    world: World,
    candidate: Candidate,
    bindings: dict[Any, Any],
    differentiated: bool = False,
    concretely: bool = False,
) -> tuple[DeclRef | Derivative, FunctionType]:
    """What is called, and its signature, for inferred generic arguments.

    In `bwd_diff(Type.method)`, where the method is `differentiated`, its object is the first argument. What
    carries a derivative is decided by the declaration, where an unbounded T does not, or `concretely`.
    """
    if candidate.inner is not None:
        return _instantiate_derivative(world, candidate, candidate.inner, bindings, concretely)
    reference = DeclRef(candidate.declaration, {**candidate.substitution, **bindings})
    with_this = differentiated and _counts_this(world, candidate)
    return reference, signature_of(world, reference, with_this=with_this)


def _instantiate_derivative(
    world: World, candidate: Candidate, inner: Candidate, bindings: dict[Any, Any], concretely: bool
) -> tuple[Derivative, FunctionType]:
    target, signature = instantiate(world, inner, bindings, True, concretely)
    if concretely or inner.inner is not None:
        made = derivative_signature(world, candidate.mode, signature, _has_plain_result(world, target))
    else:
        made = _declared_derivative(world, candidate, inner, {**inner.substitution, **bindings})
    return Derivative(candidate.mode, target, candidate.this, made), made


def _declared_derivative(
    world: World, candidate: Candidate, inner: Candidate, arguments: dict[Any, Any]
) -> FunctionType:
    """The signature of the derivative as the declaration has it, its generics filled in afterwards."""
    reference = DeclRef(inner.declaration, identity(inner.declaration))
    with world.assuming(inner.declaration):
        signature = signature_of(world, reference, with_this=_counts_this(world, inner))
        made = derivative_signature(world, candidate.mode, signature, _has_plain_result(world, reference))
    filled = substitute(world, made, arguments)
    assert isinstance(filled, FunctionType)
    return filled


def _has_plain_result(world: World, target: DeclRef | Derivative) -> bool:
    return isinstance(target, DeclRef) and bool(world.info(target.declaration).no_diff_result)


def _counts_this(world: World, candidate: Candidate) -> bool:
    """Whether a method is named through its type."""
    return candidate.through_type and world.info(candidate.declaration).this_type is not None
