"""Derivatives that users give: [BackwardDerivative(g)] on f, [BackwardDerivativeOf(f)] on g, and their kin.

In: a function.   Out: its CustomDerivatives, or an error that shows the signature they must have.

    [BackwardDerivativeOf(square)]
    void square_bwd(inout DifferentialPair<float> x, float d_result)

A derivative of a method is a method too when its object carries no derivative; else it is static and
takes the pair of the object first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slangrad.check.checked import CustomDerivatives, FunctionInfo
from slangrad.check.declref import DeclRef, Substitution
from slangrad.check.differentiable import derivative_signature, tangent
from slangrad.check.infer import Solver
from slangrad.check.lookup import unmet_constraint
from slangrad.check.meanings import Candidate, OverloadMeaning
from slangrad.check.names import refer
from slangrad.check.signatures import function_text, signature_of, signature_text
from slangrad.check.substitution import identity, see_through
from slangrad.check.types import FunctionType
from slangrad.check.world import World
from slangrad.syntax import ast

# fmt: off
#             attribute on f,      attribute on g,         what it is,         which derivative
KINDS = (
    ("ForwardDerivative",  "ForwardDerivativeOf",  "forward"),
    ("BackwardDerivative", "BackwardDerivativeOf", "backward"),
    ("PrimalSubstitute",   "PrimalSubstituteOf",   "primal_substitute"),
)
# fmt: on
_GIVEN = {of: kind for _, of, kind in KINDS}


def note_givers(world: World, declarations: list[Any]) -> None:
    """File the functions that are derivatives of others under the name of the other."""
    for node in declarations:
        if isinstance(node, ast.Function):
            for attribute in node.attributes:
                if attribute.name in _GIVEN and len(attribute.arguments) == 1:
                    world.derivative_givers.setdefault(_last_name(attribute.arguments[0]), []).append(node)
                    _remind(world, node, attribute)
        elif isinstance(node, (ast.Struct, ast.Extension, ast.Interface, ast.Namespace)):
            note_givers(world, node.members)


def _remind(world: World, giver: ast.Function, attribute: ast.Attribute) -> None:
    """Functions of other modules may have been looked at before their derivative became known."""
    for candidate in functions_meant(world, giver, attribute):
        world.custom_derivatives.pop(candidate.declaration, None)
        known = candidate.declaration.checked
        if isinstance(known, FunctionInfo) and known.level != "backward":
            known.level = "forward" if _GIVEN[attribute.name] == "forward" else "backward"


def _last_name(node: ast.Expression) -> str:
    while isinstance(node, (ast.GenericApplication, ast.Paren)):
        node = node.base if isinstance(node, ast.GenericApplication) else node.inner
    return node.name if isinstance(node, (ast.Name, ast.Member)) else ""


def givers_of(world: World, declaration: Any) -> Iterator[tuple[str, ast.Function]]:
    """The functions elsewhere that say they are a derivative of this one."""
    for giver in world.derivative_givers.get(declaration.name, ()):
        for attribute in giver.attributes:
            if attribute.name not in _GIVEN:
                continue
            meant = functions_meant(world, giver, attribute)
            if any(each.declaration is declaration for each in meant):
                yield _GIVEN[attribute.name], giver


def functions_meant(world: World, declaration: Any, attribute: ast.Attribute) -> list[Candidate]:
    """The functions that the argument of an attribute names, seen from the declaration."""
    if len(attribute.arguments) != 1:
        return []
    argument = attribute.arguments[0]
    with world.silence():
        meaning = refer(world.scope_of(declaration), argument)
    return meaning.candidates if isinstance(meaning, OverloadMeaning) else []


def given_level(world: World, declaration: Any) -> str:
    """ "forward" or "backward" when some function elsewhere is a derivative of this one."""
    kinds = {kind for kind, _ in givers_of(world, declaration)}
    if kinds - {"forward"}:
        return "backward"
    return "forward" if kinds else "none"


# --- Finding ------------------------------------------------------------------------------------------


def derivatives(world: World, reference: DeclRef) -> CustomDerivatives:
    """The derivatives given for a function, seen through the same substitution."""
    found = world.custom_derivatives.get(reference.declaration)
    if found is None:
        found = world.custom_derivatives[reference.declaration] = _find(world, reference.declaration)
    return CustomDerivatives(
        _seen(world, found.forward, reference.substitution),
        _seen(world, found.backward, reference.substitution),
        _seen(world, found.primal_substitute, reference.substitution),
    )


def _seen(world: World, given: DeclRef | None, substitution: Substitution) -> DeclRef | None:
    return None if given is None else see_through(world, given, substitution)


def _find(world: World, declaration: Any) -> CustomDerivatives:
    made = CustomDerivatives()
    if not isinstance(declaration, ast.Function):
        return made
    for name, _, kind in KINDS:
        attribute = declaration.attribute(name)
        if attribute is not None:
            for candidate in functions_meant(world, declaration, attribute):
                _take(world, made, kind, declaration, candidate)
    for kind, giver in givers_of(world, declaration):
        _take(world, made, kind, declaration, Candidate(giver, {}))
    return made


def _take(world: World, made: CustomDerivatives, kind: str, declaration: Any, candidate: Candidate) -> None:
    found = match_derivative(world, kind, declaration, candidate)
    if found is not None and getattr(made, kind) is None:
        setattr(made, kind, found)


def match_derivative(world: World, kind: str, declaration: Any, candidate: Candidate) -> DeclRef | None:
    """The candidate with its generic arguments when it has the signature of the derivative, else None."""
    given: FunctionInfo = world.info(candidate.declaration)
    wanted = expected_signature(world, kind, declaration, with_this=given.this_type is None)
    if wanted is None:
        return None
    reference = DeclRef(candidate.declaration, {})
    offered = signature_of(world, reference)
    open_parameters = [each for each in identity(candidate.declaration) if each not in identity(declaration)]
    solver = Solver(world, open_parameters)
    for parameter, argument in zip(candidate.declaration.generics, candidate.explicit):
        solver.bindings[parameter] = argument
    if not _fits(solver, offered, wanted):
        return None
    around = identity(declaration)
    made = {**around, **candidate.substitution, **solver.bindings}
    return (
        DeclRef(candidate.declaration, made)
        if unmet_constraint(world, candidate.declaration, made) is None
        else None
    )


def _fits(solver: Solver, offered: FunctionType, wanted: FunctionType) -> bool:
    if len(offered.parameters) != len(wanted.parameters):
        return False
    for one, other in zip(offered.parameters, wanted.parameters):
        if one.direction != other.direction and not (
            other.no_diff and one.direction in ("in", "inout", "constref")
        ):
            return False
        if not solver.unify(one.type, other.type):
            return False
    return solver.unify(offered.result, wanted.result)


def expected_signature(world: World, kind: str, declaration: Any, with_this: bool) -> FunctionType | None:
    """The type that a derivative of the function must have; None when it cannot be of this form."""
    info: FunctionInfo = world.info(declaration)
    reference = DeclRef(declaration, identity(declaration))
    with_this = with_this and info.this_type is not None
    if not with_this and kind != "primal_substitute" and _carries_this(world, info):
        return None
    signature = signature_of(world, reference, with_this=with_this)
    if kind == "primal_substitute":
        return signature
    return derivative_signature(world, kind, signature, info.no_diff_result)


def _carries_this(world: World, info: FunctionInfo) -> bool:
    """Whether derivatives go through the object of a method."""
    return info.this_type is not None and not info.no_diff_this and tangent(world, info.this_type) is not None


# --- Checking -----------------------------------------------------------------------------------------


def check_derivative_attributes(world: World, declaration: Any) -> None:
    """Report attributes that name no function, or one of another signature."""
    for name, of, kind in KINDS:
        attribute = declaration.attribute(name)
        if attribute is not None:
            candidates = functions_meant(world, declaration, attribute)
            _check_pair(world, attribute, kind, [(declaration, each) for each in candidates])
        attribute = declaration.attribute(of)
        if attribute is not None:
            candidates = functions_meant(world, declaration, attribute)
            own = Candidate(declaration, {})
            _check_pair(world, attribute, kind, [(each.declaration, own) for each in candidates])


def _check_pair(
    world: World, attribute: ast.Attribute, kind: str, pairs: list[tuple[Any, Candidate]]
) -> None:
    if not pairs:
        what = attribute.arguments[0].span.text if attribute.arguments else "nothing"
        message = f"[{attribute.name}] needs the name of a function, which '{what}' is not"
        world.error("E0504", message, attribute.span)
        return
    if any(match_derivative(world, kind, function, candidate) is not None for function, candidate in pairs):
        return
    function, candidate = pairs[0]
    static = world.info(candidate.declaration).this_type is None
    wanted = expected_signature(world, kind, function, with_this=static)
    name = candidate.declaration.name
    if wanted is None:
        wanted = expected_signature(world, kind, function, with_this=True)
        name = f"static {name}"
    assert wanted is not None
    offered = signature_text(world, DeclRef(candidate.declaration, {}))
    what = "primal substitute" if kind == "primal_substitute" else f"{kind} derivative"
    message = f"'{candidate.declaration.name}' has not the signature of a {what} of '{function.name}'"
    note = f"expected {function_text(wanted, name)}\n        but it is {offered}"
    world.error("E0504", message, attribute.span, note)
