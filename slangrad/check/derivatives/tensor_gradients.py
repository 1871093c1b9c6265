"""Tensors without gradients in calls of reverse mode that would add to them.

    void step(Tensor<float, 1> w) { bwd_diff(loss)(w, 1.0); }      warning: there is nowhere for the gradient of 'w'

Gradients of memory go to memory, which a DiffTensor has and a Tensor has not. The call from Python decides whether
an ITensor has it. A parameter with `no_diff` needs none.
"""

from __future__ import annotations

from slangrad.check.generics.bounds import bounds_of
from slangrad.check.interfaces.differentiable import tangent
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import InterfaceType, ParameterType, StructType, Type
from slangrad.check.names.places import value_type
from slangrad.syntax import ast

# fmt: off
GRADIENT_TYPES = {
    "Tensor":  "DiffTensor", "WTensor":  "WDiffTensor", "RWTensor":  "RWDiffTensor",
    "ITensor": "DiffTensor", "IWTensor": "WDiffTensor", "IRWTensor": "RWDiffTensor",
}
# fmt: on


def warn_of_lost_gradients(checker: Checker, form: checked.FunctionCall) -> None:
    """A warning for each tensor that a call of `bwd_diff(f)` gives to f, if it has no gradients."""
    of = form.function
    if not isinstance(of, checked.Derivative) or of.mode != "backward":
        return
    constant = _constant_parameters(checker, of)
    for parameter, argument in zip(of.signature.parameters[-len(form.arguments) :], form.arguments):
        if isinstance(argument, (checked.Default, ast.NoDiff)) or parameter.name in constant:
            continue
        kind = _plain_tensor(checker, value_type(argument))
        if kind is not None:
            _warn(checker, argument, parameter.name, kind)


def _constant_parameters(checker: Checker, of: checked.Derivative) -> set[str]:
    function = of.function
    while isinstance(function, checked.Derivative):
        function = function.function
    declared = checker.info(function.declaration).parameters if isinstance(function, DeclRef) else ()
    return {declaration.name for declaration in declared if checker.info(declaration).no_diff}


def _plain_tensor(checker: Checker, kind: Type | None) -> StructType | InterfaceType | None:
    """The tensor type, or the interface of a parameter, that has no gradients of numbers that could have some."""
    bounds = bounds_of(checker, kind) if isinstance(kind, ParameterType) else [kind]
    for bound in bounds:
        if not isinstance(bound, (StructType, InterfaceType)) or bound.declaration.name not in GRADIENT_TYPES:
            continue
        of_library = bound.declaration.span.source.is_library
        if of_library and tangent(checker, bound.inner) is not None:
            return bound
    return None


def _warn(checker: Checker, argument: ast.Expression, name: str, kind: StructType | InterfaceType) -> None:
    element, rank = kind.arguments[:2]
    wanted = f"{GRADIENT_TYPES[kind.declaration.name]}<{element}, {rank}>"
    if isinstance(kind, InterfaceType):
        message = f"only in a 'bwds' call '{argument.span.text}' has gradients; in others that of '{name}' is lost here"
    else:
        message = f"a '{kind}' has no gradients, so that of '{name}' is lost here"
    note = f"pass a {wanted}, or write 'no_diff' before the parameter '{name}' if it is constant"
    checker.warning("E0506", message, argument.span, note)
