"""Associated types that a `where` clause or a `__constraint` fixes.

In: `T.Differential` with T : __BuiltinFloatingPointType.   Out: T, as that interface says.

Equalities are looked for where the root parameter is declared, among the `where` clauses that hold, and
in the interfaces that the base conforms to, there with `This` for the base.
"""

from __future__ import annotations

from slangrad.check.generics.bounds import generic_info, root_owner
from slangrad.check.generics.substitution import substitute
from slangrad.check.interfaces.lookup import cache_key, conformances
from slangrad.check.model.declref import Substitution
from slangrad.check.model.types import AssociatedType, ParameterType, Type, parameter_type
from slangrad.check.model.world import World
from slangrad.syntax import ast


def known_equal(world: World, kind: AssociatedType) -> Type:
    """The type that is known to be an associated type; the type itself if none is known."""
    meanwhile: Type = kind
    return world.settled(("equal", cache_key(world, kind)), lambda: _find(world, kind), meanwhile)


def _find(world: World, kind: AssociatedType) -> Type:
    for owner in _owners(world, kind):
        for left, right in generic_info(world, owner).equalities:
            replaced = _apply(world, kind, left, right, owner)
            if replaced is not None and replaced is not kind:
                return replaced
    return kind


def _owners(world: World, kind: AssociatedType) -> dict[ast.Declaration, None]:
    """The declarations whose equalities may speak of the type, in a fixed order."""
    found: dict[ast.Declaration, None] = {}
    root = root_owner(kind)
    if root is not None:
        found[root] = None
    for declaration in world.assumptions:
        found[declaration] = None
    base: Type = kind
    while isinstance(base, AssociatedType):
        found[base.interface.declaration] = None
        base = base.base
        for interface in conformances(world, base):
            found[interface.declaration] = None
    return found


def _apply(
    world: World, kind: AssociatedType, left: Type, right: Type, owner: ast.Declaration
) -> Type | None:
    if left is kind:
        return right
    if not isinstance(owner, ast.Interface) or not isinstance(left, AssociatedType):
        return None
    base = _matching_base(kind, left, parameter_type(owner))
    if base is None:
        return None
    substitution: Substitution = {owner: base}
    return substitute(world, right, substitution)


def _matching_base(kind: Type, pattern: Type, this: ParameterType) -> Type | None:
    """What `This` stands for in `pattern` when the pattern is `kind`: This.A.B against X.A.B gives X."""
    while isinstance(pattern, AssociatedType):
        if not isinstance(kind, AssociatedType) or kind.declaration is not pattern.declaration:
            return None
        kind, pattern = kind.base, pattern.base
    return kind if pattern is this else None
