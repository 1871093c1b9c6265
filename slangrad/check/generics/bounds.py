"""Facts about generic parameters: their bounds and `where` clauses.

In: `<T : IFoo> ... where T.Item : IBar, T.Next == T`.
Out: bounds {T: IFoo, T.Item: IBar} and the equality T.Next == T, resolved once for each declaration.

A method may add `where` clauses about the parameters of its struct. They hold only inside it, so they are searched
in the declarations that `Checker.assuming` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from slangrad.base.records import record
from slangrad.check.generics.substitution import own_substitution, self_type, substitute
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import Bindings
from slangrad.check.model.packs import element_of_pack, pack_of_element
from slangrad.check.model.types import (
    ERROR,
    ConjunctionType,
    InterfaceType,
    ParameterType,
    Projection,
    Type,
    associated_type,
    is_pack,
    parameter_type,
    projection_root,
)
from slangrad.check.model.values import Value
from slangrad.syntax import ast


@record
class GenericInfo:
    """Resolved bounds and equalities of one declaration."""

    bounds: dict[Type, list[InterfaceType]] = field(default_factory=dict)
    equalities: list[tuple[Type, Type]] = field(default_factory=list)
    counts: list[tuple[str, Value, Value]] = field(default_factory=list)  # `where countof(T) == N`
    conversions: list[tuple[Type, Type, bool]] = field(
        default_factory=list
    )  # from, to, without a cast: `where U(T)`


def generic_info(checker: Checker, declaration: ast.Declaration) -> GenericInfo:
    """The bounds that a declaration states. While they are being resolved: those found so far."""
    stated = checker.generics.get(declaration)
    if stated is None:
        stated = checker.generics[declaration] = GenericInfo()
        with checker.settling(("generics", declaration)):
            _resolve(checker, declaration, stated)
    elif ("generics", declaration) in checker.in_progress:
        checker.rests_on.add(("generics", declaration))
    info: GenericInfo = stated
    return info


def _resolve(checker: Checker, declaration: ast.Declaration, info: GenericInfo) -> None:
    for parameter in getattr(declaration, "generics", ()):
        if isinstance(parameter, ast.TypeParameter):
            for bound in parameter.bounds:
                _add_bound(checker, declaration, info, parameter_type(parameter), bound)
    for constraint in stated_constraints(declaration):
        _add_constraint(checker, declaration, info, constraint)


def stated_constraints(declaration: ast.Declaration) -> list[ast.Constraint]:
    """The `where` clauses of a declaration; of an interface also its `__constraint`s."""
    constraints = list(getattr(declaration, "constraints", ()))
    if isinstance(declaration, ast.Interface):
        for member in declaration.members:
            if isinstance(member, ast.ConstraintRequirement):
                constraints.append(member.constraint)
            constraints += member.constraints if isinstance(member, ast.AssociatedType) else []
    return constraints


def _add_constraint(
    checker: Checker, declaration: ast.Declaration, info: GenericInfo, constraint: ast.Constraint
) -> None:
    if constraint.is_optional:
        return  # nothing is asked
    if isinstance(constraint.subject, ast.SizeOf) or constraint.kind == "nonempty":
        _add_count(checker, declaration, info, constraint)
        return
    scope = checker.scope_of(declaration)
    if constraint.kind in ("converts", "converts implicitly"):
        source, other = (
            checker.resolve_type(scope, side) for side in (constraint.subject, constraint.bounds[0])
        )
        info.conversions.append((source, other, constraint.kind != "converts"))
        return
    if constraint.kind not in ("conforms", "equals"):
        message = "a 'where' can ask for interfaces, equal types and conversions only"
        checker.error("E0410", message, constraint.span, "leave it out")
        return
    subject = checker.resolve_type(scope, constraint.subject)
    if subject is not ERROR and not subject.abstract:
        message = f"'{subject}' is known: a constraint is about a generic parameter"
        checker.error("E0417", message, constraint.subject.span, "leave it out")
        return
    for bound in constraint.bounds:
        if constraint.kind == "conforms":
            _add_bound(checker, declaration, info, subject, bound)
        else:
            other = checker.resolve_type(scope, bound)
            if interfaces_in(other):
                message = f"no type is equal to '{other}', which is an interface"
                checker.error("E0417", message, bound.span, "for types that conform to it, write ':'")
                return
            info.equalities.append((subject, other))


_OPERATORS = {"equals": "==", "nonempty": ">="}


def _add_count(
    checker: Checker, declaration: ast.Declaration, info: GenericInfo, constraint: ast.Constraint
) -> None:
    """`where countof(T) == N`, `where nonempty(T)`."""
    subject = constraint.subject
    operator = _OPERATORS.get(constraint.kind, constraint.kind)
    right: Value | None = 1
    if constraint.kind == "nonempty":
        subject = ast.SizeOf(subject.span, "countof", subject, None)
    else:
        right = checker.constant(checker.scope_of(declaration), constraint.bounds[0])
    left = checker.constant(checker.scope_of(declaration), subject)
    if left is not None and right is not None:
        info.counts.append((operator, left, right))


def _add_bound(
    checker: Checker, declaration: ast.Declaration, info: GenericInfo, subject: Type, node: ast.Expression
) -> None:
    bound = checker.resolve_type(checker.scope_of(declaration), node)
    interfaces = info.bounds.setdefault(subject, [])
    for interface in interfaces_in(bound):
        interfaces.append(interface)
    if not interfaces_in(bound) and bound is not ERROR:
        checker.error("E0410", f"'{bound}' is no interface, so it cannot be a bound", node.span)


def interfaces_in(bound: Type) -> tuple[InterfaceType, ...]:
    """The interfaces of a bound: one, or those of `IFoo & IBar`."""
    if isinstance(bound, ConjunctionType):
        return bound.interfaces
    return (bound,) if isinstance(bound, InterfaceType) else ()


@contextmanager
def supposing(checker: Checker, bounds: dict[Type, list[InterfaceType]]) -> Iterator[None]:
    """A context in which types conform to a condition: `if (T is IFoo)`."""
    supposition: Any = object()  # in place of a declaration with bounds
    checker.generics[supposition] = GenericInfo(bounds)
    checker.assumptions.append(supposition)
    try:
        yield
    finally:
        checker.assumptions.pop()


# --- Questions ----------------------------------------------------------------------------------------


def bounds_of(checker: Checker, kind: ParameterType | Projection) -> Iterator[InterfaceType]:
    """The interfaces that a parameter or associated type is stated to conform to."""
    if isinstance(kind, Projection):
        yield from _bounds_of_associated(checker, kind)
    elif isinstance(kind.declaration, ast.Interface):
        yield self_type(kind.declaration)
    elif isinstance(kind.declaration, ast.Extension):
        yield from interfaces_in(checker.extension_targets[kind.declaration])
    owner = root_owner(kind)
    if isinstance(kind, ParameterType):
        pack = pack_of_element(kind.declaration)
        kind = parameter_type(pack) if isinstance(pack, ast.TypeParameter) else kind
    if owner is not None:
        yield from generic_info(checker, owner).bounds.get(kind, ())
    for declaration in checker.assumptions:
        if declaration is not owner:
            yield from generic_info(checker, declaration).bounds.get(kind, ())


def stated_conversion(checker: Checker, source: Type, target: Type) -> bool | None:
    """Whether a `where U(T)` states a conversion between two types without a cast; None without such a clause."""
    owners = [root for root in map(root_owner, (source, target)) if root is not None]
    stated = [
        pair
        for stating in (*owners, *checker.assumptions)
        for pair in generic_info(checker, stating).conversions
    ]
    matching = [implicit for left, other, implicit in stated if left is source and other is target]
    return any(matching) if matching else None


def stated_equal(checker: Checker, kind: Type) -> Type:
    """The type that equals a type parameter by `where T == int`; without such a clause the parameter."""
    seen: list[Type] = []
    while isinstance(kind, ParameterType) and kind not in seen:
        seen.append(kind)
        kind = _equal_once(checker, kind)
    return kind


def _equal_once(checker: Checker, kind: ParameterType) -> Type:
    owner = root_owner(kind)
    for stating in (owner, *checker.assumptions) if owner is not None else ():
        for left, right in generic_info(checker, stating).equalities:
            if left is kind and not isinstance(right, Projection):
                return right
            if right is kind and not isinstance(left, (ParameterType, Projection)):
                return left
    return kind


def _written_bounds(checker: Checker, kind: Projection) -> tuple[InterfaceType, ...]:
    """The bounds after the name of an associated type. Names there may belong to extensions of all types, which may
    need these bounds."""

    def find() -> tuple[InterfaceType, ...]:
        scope = checker.scope_of(kind.interface.declaration)
        bounds = (checker.resolve_type(scope, node) for node in kind.declaration.bounds)
        return tuple(interface for bound in bounds for interface in interfaces_in(bound))

    return checker.settled(("bounds", kind.declaration), find, ())


def _bounds_of_associated(checker: Checker, kind: Projection) -> Iterator[InterfaceType]:
    seen_from = requirement_substitution(kind.base, kind.interface)
    for bound in _written_bounds(checker, kind):
        yield substitute(checker, bound, seen_from)
    if root_owner(kind) is not kind.interface.declaration:
        subject = associated_type(
            parameter_type(kind.interface.declaration),
            self_type(kind.interface.declaration),
            kind.declaration,
        )
        for bound in generic_info(checker, kind.interface.declaration).bounds.get(subject, ()):
            yield substitute(checker, bound, seen_from)


def element_type(checker: Checker, entry: Type) -> Type:
    """The type of an element of a pack; the type of all elements if a `where` clause states one."""
    if not is_pack(entry):
        return entry
    if isinstance(entry, ParameterType):
        for owner in (entry.declaration.parent, *checker.assumptions):
            assert owner is not None
            for left, right in generic_info(checker, owner).equalities:
                if left is entry:
                    return element_type(checker, right)
    return element_of_pack(entry)


def requirement_substitution(base: Type, interface: InterfaceType) -> Bindings:
    """The substitution for the requirements of an interface in a type that conforms to it."""
    return {**own_substitution(interface), interface.declaration: base}


def root_owner(kind: Type) -> ast.Declaration | None:
    """The declaration that declares the parameter at the root of `T.Item.Next`; an interface for `This`."""
    kind = projection_root(kind)
    if not isinstance(kind, ParameterType):
        return None
    if isinstance(kind.declaration, ast.TypeParameter):
        return kind.declaration.parent
    return kind.declaration
