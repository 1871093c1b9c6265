"""Can a derivative be stored here?

In: a checked place in a function.   Out: None where what is stored keeps its derivative, else why it does not.

    ray.origin = x      None, if the type of `ray` has a derivative
    plain.x = x         "'Plain' has no derivative"
    buffer[i] = x       "'RWStructuredBuffer<float>' has no derivative"

Whether what is stored has a derivative at all is in activity.py.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.check.derivatives.given import derivatives
from slangrad.check.generics.signatures import function_name
from slangrad.check.interfaces.differentiable import differential, field_type, has_no_diff, tangent
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import StructType, Type
from slangrad.check.model.world import World
from slangrad.check.names.places import accessor, referred, steps, value_type
from slangrad.syntax import ast

Part = checked.Field | checked.Property | checked.TupleElement | checked.Element | checked.Swizzle


def loses_derivative(world: World, info: checked.FunctionInfo, node: checked.Base) -> str | None:
    """Why a derivative that is stored here is lost."""
    if isinstance(node, (checked.ThisValue, ast.This)):
        return _this(world, info)
    if isinstance(node, ast.Paren):
        return loses_derivative(world, info, node.inner)
    rule = _RULES.get(type(node.ref))
    return None if rule is None else rule(world, info, node.ref)


def _this(world: World, info: checked.FunctionInfo) -> str | None:
    if info.no_diff_this:
        return "'this' is passed without its derivative"
    return None if info.this_type is None else _of_type(world, info.this_type)


def _of_type(world: World, kind: Type) -> str | None:
    return f"'{kind}' has no derivative" if tangent(world, kind) is None else None


def _local(world: World, info: checked.FunctionInfo, form: checked.Local) -> str | None:
    own = world.info(form.declaration)
    if isinstance(own, checked.ParameterInfo) and own.no_diff and own.direction != "in":
        return f"'{form.declaration.name}' is no_diff"
    return _of_type(world, own.type)


def _global(world: World, info: checked.FunctionInfo, form: checked.Global) -> str | None:
    return f"'{form.reference.declaration.name}' is no part of the function and has no derivative"


def _field(world: World, info: checked.FunctionInfo, form: checked.Field | checked.Property) -> str | None:
    reason = None
    if form.base is not None:
        reason = loses_in_field(world, value_type(form.base), form.reference.declaration)
    elif world.info(form.reference.declaration).no_diff:
        reason = f"'{form.reference.declaration.name}' is no_diff"
    return _part(world, info, form) if reason is None else reason


def loses_in_field(world: World, kind: Type, declaration: ast.Variable) -> str | None:
    """Why a derivative is lost in a field of a type that has derivatives."""
    if world.info(declaration).no_diff:
        return f"'{declaration.name}' is no_diff"
    if _has_no_place(world, kind, declaration):
        assert isinstance(declaration.parent, ast.Struct)
        return f"'{declaration.name}' has no derivative for all instances of '{declaration.parent.name}'"
    return None


def _has_no_place(world: World, kind: Type, declaration: ast.Variable) -> bool:
    """Whether a field has a derivative and the Differential of its struct, which is one for all instances, has not."""
    found = differential(world, kind) if isinstance(kind, StructType) else None
    pairs = () if found is None else found.fields
    return any(
        target is None
        and field.declaration is declaration
        and not has_no_diff(declaration)
        and tangent(world, field_type(world, field)) is not None
        for field, target in pairs
    )


def _part(world: World, info: checked.FunctionInfo, form: Part) -> str | None:
    if form.base is None:
        return None
    whole = _of_type(world, value_type(form.base))
    return loses_derivative(world, info, form.base) if whole is None else whole


def _accessed(
    world: World, info: checked.FunctionInfo, form: checked.Property | checked.Subscript
) -> str | None:
    declaration = form.reference.declaration
    if isinstance(declaration, ast.Variable):
        return _field(world, info, form)  # type: ignore[arg-type]
    setter = accessor(declaration, "set", "ref")
    if setter is not None and world.info(setter).level != "none":
        return _referred(world, form.reference, setter) if setter.name == "ref" else None
    whole = None if form.base is None else _of_type(world, value_type(form.base))
    name = function_name(form.reference.declaration)
    return f"the setter of '{name}' is not differentiable" if whole is None else whole


def is_required(place: checked.Base) -> bool:
    """Whether a place is behind a property or subscript that an interface requires: what satisfies it is not known."""
    accessed = (form for _, form in steps(place) if isinstance(form, (checked.Property, checked.Subscript)))
    return any(isinstance(form.reference.declaration.parent, ast.Interface) for form in accessed)


def _referred(world: World, reference: DeclRef, setter: ast.Accessor) -> str | None:
    """What the `ref` accessor returns may have no derivative; a custom derivative of it is one of reading."""
    given = derivatives(world, DeclRef(setter, reference.substitution))
    if given.forward is not None or given.backward is not None:
        name = function_name(reference.declaration)
        return f"the 'ref' of '{name}' has a custom derivative, which says what reading does"
    info = world.info(setter)
    reasons = (loses_derivative(world, info, each) for each in referred(world, reference.declaration))
    return next((each for each in reasons if each is not None), None)


_RULES: dict[type[checked.Form], Callable[[World, checked.FunctionInfo, OfClass], str | None]] = {
    checked.ThisValue: lambda world, info, form: _this(world, info),
    checked.Local: _local,
    checked.Global: _global,
    checked.Field: _field,
    checked.TupleElement: _part,
    checked.Element: _part,
    checked.Swizzle: _part,
    checked.Property: _accessed,
    checked.Subscript: _accessed,
    checked.Dereference: lambda world, info, form: _of_type(world, value_type(form.pointer)),
}
