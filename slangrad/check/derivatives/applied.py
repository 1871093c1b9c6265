"""`__func_extension __apply(f)`: a forward pass of the user's own, which leaves a context for the backward pass.

In: `__apply(cube)(float x) -> Tuple<float, Context>`.   Out: the `operator()` of Context that fits.

    struct Context { float square; void operator()(out float dx, float d) { dx = 3 * square * d; } }

The operator has, for each parameter of f that carries a derivative, an `out` one for its cotangent; of an
`inout` one it takes and gives it, of an `out` one it takes it; then the cotangent of the result.
"""

from __future__ import annotations

from typing import Any

from slangrad.check.generics.signatures import function_text, signature_of
from slangrad.check.generics.substitution import substitute
from slangrad.check.interfaces.differentiable import same_signature, tangent
from slangrad.check.interfaces.lookup import concrete_members
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import VOID, FunctionParameter, FunctionType, Tuple, Type, function_type
from slangrad.check.model.world import World
from slangrad.syntax import ast

_DIRECTIONS = {"in": "out", "constref": "out", "inout": "inout", "ref": "inout", "out": "in"}


def context_operator(world: World, apply: DeclRef, reference: DeclRef) -> tuple[DeclRef, Type] | None:
    """What goes backward, and the type of the context it belongs to; None where something does not fit."""
    offered, wanted = signature_of(world, apply), signature_of(world, reference)
    context = _context(offered.result, wanted.result)
    parameters = function_type(wanted.parameters, offered.result)
    if (
        context is None
        or not same_signature(offered, parameters)
        or _this(world, apply) is not _this(world, reference)
    ):
        return None
    backward = context_signature(world, reference)
    for member in concrete_members(world, context, "operator()"):
        is_method = isinstance(member.declaration, ast.Function)
        if is_method and same_signature(signature_of(world, member.reference), backward):
            return member.reference, context
    return None


def _context(offered: Type, result: Type) -> Type | None:
    """The second of two results; the only one where the function has none."""
    if result is VOID:
        return offered
    is_pair = isinstance(offered, Tuple) and len(offered.elements) == 2 and offered.elements[0] is result
    return offered.elements[1] if is_pair and isinstance(offered, Tuple) else None


def _this(world: World, reference: DeclRef) -> Type | None:
    this: Type | None = world.info(reference.declaration).this_type
    return None if this is None else substitute(world, this, reference.substitution)


def context_signature(world: World, reference: DeclRef) -> FunctionType:
    """What the `operator()` of a context must take for a function."""
    signature, info = signature_of(world, reference, with_this=True), world.info(reference.declaration)
    made = []
    for each in signature.parameters:
        kind = None if each.no_diff else tangent(world, each.type)
        if kind is not None:
            made.append(FunctionParameter(kind, _DIRECTIONS[each.direction], False, f"d_{each.name}"))
    kind = None if info.no_diff_result else tangent(world, signature.result)
    if kind is not None:
        made.append(FunctionParameter(kind, "in", False, "d_result"))
    return function_type(tuple(made), VOID)


def applied_text(world: World, declaration: Any, reference: DeclRef) -> str:
    """What an `__apply` and its context must look like."""
    signature = signature_of(world, reference)
    result = "Context" if signature.result is VOID else f"Tuple<{signature.result}, Context>"
    parameters = ", ".join(map(str, signature.parameters))
    backward = function_text(context_signature(world, reference), "operator()")
    return f"expected {declaration.name}({parameters}) -> {result}\n        and in Context: {backward}"
