"""Code that stands elsewhere and is run here: lambdas' captures, defaults of fields.

A lambda is a struct of the variables it captures, as they are when it is made; calling it passes that struct as `this`.
"""

from __future__ import annotations

from slangrad.check import checked
from slangrad.check import types as checked_types
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Value
from slangrad.ir.types import Type
from slangrad.lower import expressions
from slangrad.lower.frame import Frame
from slangrad.syntax import ast


def capture(f: Frame, function: ast.Function, t: Type) -> Value:
    info: checked.FunctionInfo = f.program.info(function)
    return f.emit("make", *(f.variables[each] for each in info.captures), type=t)


def default_value(f: Frame, t: checked_types.Type, lowered: Type) -> Value:
    """A struct before its constructor runs: fields with initializers have them, the others are zero."""
    assert isinstance(t, checked_types.StructType)
    parts = [field_default(f, reference) for reference, _ in f.program.fields(t)]
    return f.emit("make", *parts, type=lowered)


def field_default(f: Frame, reference: DeclRef) -> Value:
    """A field's initializer, seen through the substitution of the struct."""
    resolved = f.resolve(reference)
    declared = resolved.declaration
    outer, f.substitution = f.substitution, resolved.substitution
    info: checked.VariableInfo = f.program.info(declared)
    if declared.initializer is not None:
        value = expressions.lower(f, declared.initializer)
    elif info.initial is not None:
        value = expressions.lower_part(f, info.initial)
    else:
        value = f.b.zero(f.type(info.type))
    f.substitution = outer
    return value
