"""Variables outside functions: constants are lowered where they are used, shader parameters are read from the launch.

static const float G = 9.81;             const 9.81
uniform RWStructuredBuffer<float> b;     %p = parameter {name="b"} : ptr<..., constant>      load %p
"""

from __future__ import annotations

from slangrad.base.source import Span
from slangrad.check import checked
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Value
from slangrad.ir.types import Type, pointer
from slangrad.lower import closures
from slangrad.lower.frame import Frame
from slangrad.lower.places import Memory, Place, Temporary


def place_of_global(f: Frame, reference: DeclRef, span: Span | None) -> Place:
    resolved = f.resolve(reference)
    declared = resolved.declaration
    info: checked.VariableInfo = f.program.info(declared)
    if info.constant is not None:
        known = f.program.value(info.constant, resolved.substitution)
        if isinstance(known, int):
            return Temporary(
                f.b.constant(f.type(f.program.substitute(info.type, resolved.substitution)), known)
            )
    if declared.has("static") and (declared.has("const") or not info.mutable):
        return Temporary(closures.field_default(f, reference))
    if declared.has("static") or declared.has("groupshared"):
        f.error(
            "E0706",
            f"'{declared.name}': variables outside functions that can be written are not supported",
            span,
            "pass it as an inout parameter, or declare it 'static const'",
        )
        return Temporary(f.b.zero(f.type(info.type)))
    if declared.has("const") and declared.initializer is not None:
        return Temporary(closures.field_default(f, reference))
    return Memory(launch_parameter(f, declared.name, f.type(info.type, span)))


def launch_parameter(f: Frame, name: str, t: Type) -> Value:
    """The address of a parameter of the launch, which is entered into its argument block."""
    f.lowering.arguments.setdefault(name, t)
    return f.b.primitive("parameter", (), pointer(t, "constant"), {"name": name})
