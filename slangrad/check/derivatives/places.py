"""Whether a place can store a derivative.

In: a checked place in a function.   Out: None if a stored value keeps its derivative, else why it does not.

    ray.origin = x      None, if the type of `ray` has a derivative
    plain.x = x         "'Plain' has no derivative"
    buffer[i] = x       "'RWStructuredBuffer<float>' has no derivative"

activity.py decides whether the stored value has a derivative at all.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.check.derivatives.custom_derivatives import derivatives
from slangrad.check.generics.signatures import function_name
from slangrad.check.interfaces.differentiable import differential, field_type, has_no_diff, tangent
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import StructType, Type
from slangrad.check.names.places import accessor, referred, steps, value_type
from slangrad.syntax import ast

Rule = Callable[[Checker, checked.FunctionInfo, OfClass], str | None]


def loses_derivative(checker: Checker, info: checked.FunctionInfo, node: checked.Base) -> str | None:
    """Why a derivative that is stored here is lost: because of the place, or of a place around it."""
    for part, form in steps(node):
        if isinstance(part, ast.Paren):
            continue
        rule = _RULES.get(type(form))
        reason = None if rule is None else rule(checker, info, form)
        if reason is not None or rule is None or not _is_part(form):
            return reason
    return None


def _is_part(form: checked.Form | None) -> bool:
    """Whether the place around it must keep the derivative, too: accessors store by themselves."""
    if isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)):
        return isinstance(form.reference.declaration, ast.Variable)
    return isinstance(form, (checked.Field, checked.TupleElement, checked.Element, checked.Swizzle))


def _this(checker: Checker, info: checked.FunctionInfo, form: checked.ThisValue) -> str | None:
    if info.no_diff_this:
        return "'this' is passed without its derivative"
    return None if info.this_type is None else _of_type(checker, info.this_type)


def _of_type(checker: Checker, kind: Type) -> str | None:
    return f"'{kind}' has no derivative" if tangent(checker, kind) is None else None


def _of_whole(checker: Checker, info: checked.FunctionInfo, form: OfClass) -> str | None:
    return None if form.base is None else _of_type(checker, value_type(form.base))


def _local(checker: Checker, info: checked.FunctionInfo, form: checked.Local) -> str | None:
    variable = checker.info(form.declaration)
    if isinstance(variable, checked.ParameterInfo) and variable.no_diff and variable.direction != "in":
        return f"'{form.declaration.name}' is no_diff"
    return _of_type(checker, variable.type)


def _global(checker: Checker, info: checked.FunctionInfo, form: checked.Global) -> str | None:
    return f"'{form.reference.declaration.name}' is no part of the function and has no derivative"


def _field(checker: Checker, info: checked.FunctionInfo, form: OfClass) -> str | None:
    declaration = form.reference.declaration
    if form.base is not None:
        reason = loses_in_field(checker, value_type(form.base), declaration)
        return _of_whole(checker, info, form) if reason is None else reason
    return f"'{declaration.name}' is no_diff" if checker.info(declaration).no_diff else None


def loses_in_field(checker: Checker, kind: Type, declaration: ast.Variable) -> str | None:
    """Why a derivative is lost in a field of a type that has derivatives. A field may have a derivative where the
    Differential of its struct, which is one for all instances, has none."""
    if checker.info(declaration).no_diff:
        return f"'{declaration.name}' is no_diff"
    info = differential(checker, kind) if isinstance(kind, StructType) else None
    for field, target in () if info is None or has_no_diff(declaration) else info.fields:
        if (
            target is None
            and field.declaration is declaration
            and tangent(checker, field_type(checker, field))
        ):
            assert isinstance(declaration.parent, ast.StructDeclaration)
            return f"'{declaration.name}' has no derivative for all instances of '{declaration.parent.name}'"
    return None


def _accessed(
    checker: Checker, info: checked.FunctionInfo, form: checked.PropertyAccess | checked.SubscriptAccess
) -> str | None:
    declaration = form.reference.declaration
    if isinstance(declaration, ast.Variable):
        return _field(checker, info, form)
    setter = accessor(declaration, "set", "ref")
    if setter is not None and checker.info(setter).level != "none":
        return _referred(checker, form.reference, setter) if setter.name == "ref" else None
    message = f"the setter of '{function_name(declaration)}' is not differentiable"
    return _of_whole(checker, info, form) or message


def set_object(checker: Checker, info: checked.FunctionInfo, place: checked.Base) -> checked.Base | None:
    """The object, one that stores derivatives, that a setter without a derivative changes at a store here."""
    _, form = next(step for step in steps(place) if not isinstance(step[0], ast.Paren))
    if not isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)) or form.base is None:
        return None
    setter = accessor(form.reference.declaration, "set")
    if setter is None or checker.info(setter).is_differentiable or not checker.info(setter).mutating:
        return None
    return form.base if loses_derivative(checker, info, form.base) is None else None


def is_required(place: checked.Base) -> bool:
    """Whether a place is behind a property or subscript that an interface requires, whose implementation is
    unknown."""
    accessed = (
        form
        for _, form in steps(place)
        if isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess))
    )
    return any(isinstance(form.reference.declaration.parent, ast.Interface) for form in accessed)


def _referred(checker: Checker, reference: DeclRef, setter: ast.Accessor) -> str | None:
    """The result of the `ref` accessor may have no derivative; its custom derivative is that of reading."""
    custom = derivatives(checker, DeclRef(setter, reference.substitution))
    if custom.forward is not None or custom.backward is not None:
        name = function_name(reference.declaration)
        return f"the 'ref' of '{name}' has a custom derivative, which says what reading does"
    info = checker.info(setter)
    reasons = (loses_derivative(checker, info, place) for place in referred(checker, reference.declaration))
    return next((reason for reason in reasons if reason is not None), None)


_RULES: dict[type, Rule] = {
    checked.ThisValue: _this,
    checked.Local: _local,
    checked.Global: _global,
    checked.Field: _field,
    checked.TupleElement: _of_whole,
    checked.Element: _of_whole,
    checked.Swizzle: _of_whole,
    checked.PropertyAccess: _accessed,
    checked.SubscriptAccess: _accessed,
    checked.Dereference: lambda checker, info, form: _of_type(checker, value_type(form.pointer)),
}
