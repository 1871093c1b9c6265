"""Variables outside functions: constants are lowered where they are used, parameters come from the launch.

static const float G = 9.81;             const 9.81
uniform RWStructuredBuffer<float> b;     %p = parameter {name="b"} : ptr<..., constant>      load %p
"""

from __future__ import annotations

from slangrad.base.source import Span
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.texts.linking import is_open
from slangrad.ir.data.types import Type, pointer
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.model.outside import is_in_function
from slangrad.lower.places import statics
from slangrad.lower.places.defaults import field_default
from slangrad.lower.places.places import MemoryPlace, Temporary
from slangrad.syntax import ast


def launch_parameter(f: Frame, declared: ast.Variable | ast.ParameterDeclaration, t: Type) -> Value:
    """The address of a parameter of the launch."""
    t = f.lowering.types.memory(t, f.program.info(declared).rules)
    name = f.lowering.parameters.name_of(declared, t)
    return f.emit("parameter", type=pointer(t, "constant"), name=name)


def _shared(f: Frame, resolved: DeclRef, t: Type) -> Place:
    """Memory that the threads of a group have together."""
    declared: ast.Variable = resolved.declaration
    if declared.initializer is not None:
        message = f"'{declared.name}' is shared by a group, and no thread of it gives it a first value"
        f.error("E0706", message, declared.initializer.span, "store it in one thread, before a barrier")
    name = f.lowering.statics.name_of_shared(resolved)
    held = f.lowering.types.memory(t)
    return MemoryPlace(f.emit("shared", type=pointer(held, "shared"), name=name))


def place_of_global(f: Frame, reference: DeclRef, span: Span | None) -> Place:
    resolved = f.resolve(reference)
    declared: ast.Variable = resolved.declaration
    info: checked.VariableInfo = f.program.info(declared)
    if is_in_function(info, declared):
        resolved = DeclRef(declared, f.substitution)
    t = f.lowering.types.of(f.program.substitute(info.type, resolved.substitution), span)
    if info.constant is not None:
        constant = f.program.value(info.constant, resolved.substitution)
        if isinstance(constant, int):
            return Temporary(f.b.constant(t, constant))
    if is_open(declared):
        note = "give it a value there, or link a module that exports it"
        f.error("E0704", f"'{declared.name}' has no value: no linked module exports it", span, note)
        return Temporary(f.b.zero(t))
    if not info.mutable and (declared.has("static") or declared.initializer is not None):
        return Temporary(field_default(f, resolved))
    if declared.has("groupshared"):
        return _shared(f, resolved, t)
    if declared.has("static"):
        return statics.place_of_static(f, resolved, t)
    return MemoryPlace(launch_parameter(f, declared, t))
