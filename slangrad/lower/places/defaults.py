"""First values: of variables, of fields, of structs before their constructors run.

struct S { int a = 1; int b = a + 1; }     S()  ->  %b = add 1, 1    make 1, %b

The initializer of a field can use the fields before it. It runs here, under the substitution of the struct.
"""

from __future__ import annotations

from collections.abc import Sequence

from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.model.declref import DeclRef
from slangrad.ir.data.types import Struct, Type
from slangrad.ir.ops.core import Value
from slangrad.lower.model.flow import THIS
from slangrad.lower.model.frame import Frame
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk


def initial_value(f: Frame, declared: ast.Variable, info: checked.VariableInfo) -> Value:
    """The value of a variable at its declaration."""
    if declared.initializer is not None:
        return f.value(declared.initializer)
    if info.initial is not None:
        return f.part(info.initial)
    return f.b.zero(f.type(info.type, declared.span))


def default_value(f: Frame, t: checked_types.Type, lowered: Type) -> Value:
    """A value before its constructor runs: fields with initializers have them, the others are zero."""
    if not isinstance(t, checked_types.StructType):
        return f.b.zero(lowered)
    return struct_of_parts(f, [checked.FieldDefault(field) for field, _ in f.program.fields(t)], lowered)


def struct_of_parts(f: Frame, parts: Sequence[checked.Part], t: Type) -> Value:
    """A struct, field by field; those without a part are zero."""
    assert isinstance(t, Struct), t
    values: list[Value] = []
    missing = [kind for _, kind in t.fields]
    for part in parts:
        if isinstance(part, checked.FieldDefault) and _sees_fields(part.reference.declaration.initializer):
            so_far = f.emit("make", *values, *map(f.b.zero, missing[len(values) :]), type=t)
            values.append(_with_this(f, so_far, part))
        else:
            values.extend(f.parts(part))
    return f.emit("make", *values, *map(f.b.zero, missing[len(values) :]), type=t)


def _sees_fields(initializer: ast.Expression | None) -> bool:
    """Whether an initializer uses `this`, explicitly or not."""
    if initializer is None:
        return False
    forms = [node.ref for node in walk(initializer) if isinstance(node, ast.Expression)]
    used = [
        part for form in forms for part in (form, getattr(form, "base", None), getattr(form, "this", None))
    ]
    return any(isinstance(use, checked.ThisValue) for use in used)


def _with_this(f: Frame, this: Value, part: checked.Part) -> Value:
    outer = f.variables.get(THIS)
    f.variables[THIS] = this
    value = f.part(part)
    if outer is None:
        del f.variables[THIS]
    else:
        f.variables[THIS] = outer
    return value


def field_default(f: Frame, reference: DeclRef) -> Value:
    """A field's initializer, under the substitution of the struct."""
    resolved = f.resolve(reference)
    declared: ast.Variable = resolved.declaration
    info: checked.VariableInfo = f.program.info(declared)
    with f.elsewhere(declared, resolved.substitution) as allowed:
        return initial_value(f, declared, info) if allowed else f.b.zero(f.type(info.type))
