"""Which of several functions that all take the arguments is meant.

In: matches with their costs.   Out: the best one, or those that are equally good.

The cheapest wins; then, in this order: fewer defaults, not generic, the more special one, the requirement of the
inheriting interface, fewer generic parameters, a member of the type before one of an extension, the nearer one, the
one with a body.
"""

from __future__ import annotations

from slangrad.check.calls.candidates import Match, candidate_signature
from slangrad.check.generics.infer import Solver
from slangrad.check.generics.substitution import self_type
from slangrad.check.interfaces.lookup import conformances, unmet_constraint
from slangrad.check.model.world import World
from slangrad.syntax import ast


def best_matches(world: World, matches: list[Match]) -> list[Match]:
    """The match that beats all others, or those that are equally good."""
    best = [matches[0]]
    for each in matches[1:]:
        order = _compare(world, each, best[0])
        if order < 0:
            best = [each]
        elif order == 0:
            best.append(each)
    return best


def _compare(world: World, left: Match, right: Match) -> int:
    """Negative when `left` is better."""
    if _price(left) != _price(right):
        return -1 if _price(left) < _price(right) else 1
    for is_better in (_more_special, _overrides):
        balance = is_better(world, right, left) - is_better(world, left, right)
        if balance:
            return balance
    one, other = _distance(left), _distance(right)
    return (one > other) - (one < other)


def _price(match: Match) -> tuple[int, ...]:
    return match.cost, match.defaults, bool(match.candidate.declaration.generics)


def _distance(match: Match) -> tuple[int, ...]:
    """What decides last. A subscript that can be written comes before one that can be read only."""
    declaration = match.candidate.declaration
    can_be_written, has_no_body = (
        len(getattr(declaration, "accessors", ())),
        not getattr(declaration, "body", None),
    )
    generics, remoteness = len(declaration.generics), _remoteness(match)
    return generics, remoteness, match.candidate.distance, -can_be_written, has_no_body


def _overrides(world: World, left: Match, right: Match) -> int:
    """1 when `left` is a requirement of an interface that inherits from that of `right`."""
    own, other = left.candidate.declaration.parent, right.candidate.declaration.parent
    if not isinstance(own, ast.Interface) or not isinstance(other, ast.Interface) or own is other:
        return 0
    return int(any(each.declaration is other for each in conformances(world, self_type(own))))


def _remoteness(match: Match) -> int:
    """Members of a type are nearer than those of an extension, of an extension of many types, of an interface."""
    parent = match.candidate.declaration.parent
    if not isinstance(parent, ast.Extension):
        return 3 * isinstance(parent, ast.Interface)
    return 2 if parent in match.candidate.substitution or parent.generics else 1


def _more_special(world: World, left: Match, right: Match) -> int:
    """1 when whatever `left` takes `right` takes too: its pattern fits on the other's."""
    general, special = right.candidate.declaration, left.candidate.declaration
    if general is special:
        return 0
    solver = Solver(world, getattr(general, "generics", ()))
    patterns = candidate_signature(world, right.candidate).parameters
    shapes = candidate_signature(world, left.candidate).parameters
    if not solver.unify_entries(tuple(each.type for each in patterns), tuple(each.type for each in shapes)):
        return 0
    known = {**right.candidate.substitution, **solver.bindings}
    return int(unmet_constraint(world, general, known) is None)
