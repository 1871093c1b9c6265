"""The value of a parameter: an argument, or a default.

f(x)  with  float f(no_diff float x, float y = 2 * kScale)     ->     detach %x, mul 2, ...
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.model.signatures import SignatureParameter


def argument_value(f: Frame, argument: checked.Argument, of: DeclRef) -> Value:
    """An `in` argument; a default is seen through the substitution of the called function."""
    if not isinstance(argument, checked.Default):
        return f.value(argument)
    parameter = argument.parameter
    with f.elsewhere(parameter, of.substitution) as allowed:
        if not allowed or parameter.default is None:
            return f.b.zero(f.type(f.program.info(parameter).type))
        return f.value(parameter.default)


def passed(f: Frame, parameter: SignatureParameter, place: Place) -> Value:
    """The input of a parameter."""
    value = place.get(f)
    return f.emit("detach", value) if f.differentiable and parameter.cut else value
