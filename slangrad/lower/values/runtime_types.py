"""Code that depends on a type known at run time only: which function is called, and where the type is needed.

shape.area()            the requirement of IShape is called; instances/dispatch.py makes its body
T.kCount                of a value that tells which type T is: a constant for each type that it can have

A generic function that asks its type for more than a value tells is made for each type ("opened").
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.check.model import types as checked
from slangrad.check.model.declref import DeclRef, GenericKey
from slangrad.check.model.values import RequiredValue
from slangrad.ir.data.types import U32, Struct, Type
from slangrad.ir.ops.core import Value
from slangrad.lower.model.alternatives import is_tangent
from slangrad.lower.model.flow import THIS, Key
from slangrad.lower.model.frame import Frame, Lowering
from slangrad.lower.values.interface_values import has_number
from slangrad.syntax import ast


def dispatched(lowering: Lowering, reference: DeclRef) -> GenericKey | None:
    """The discriminating type of a callee that depends on a run-time type. It is the interface of a requirement, or
    the generic parameter of a function that uses more of its type than methods."""
    interface = _interface_of(reference)
    key = lowering.alternatives.opened.get(reference.declaration) if interface is None else interface
    if key is None or key not in reference.substitution or not checked.is_dynamic(reference.type_for(key)):
        return None
    of_tangents = reference.declaration.name in ("dzero", "dadd") and key.name == "IDifferentiable"
    return None if of_tangents else key


def _interface_of(reference: DeclRef) -> ast.Interface | None:
    owner = reference.declaration.parent
    if isinstance(reference.declaration, ast.Accessor):
        owner = owner.parent
    return owner if isinstance(owner, ast.Interface) else None


# --- Where the type has to be known ---------------------------------------------------------------------


def is_static(f: Frame, declared: ast.AnyFunction) -> bool:
    """Whether a requirement is called without an object."""
    return isinstance(declared, ast.Constructor) or f.program.info(declared).this_type is None


def require_type(f: Frame, subject: str, wide: checked.Type) -> None:
    """The function that is being made, or one that called it, has to be made for each type."""
    name: str | None = f.name
    while name is not None and name in f.lowering.asked_by:
        reference, name = f.lowering.asked_by[name]
        key = _opening(f, reference, checked.projection_root(wide))
        if key is not None:
            f.lowering.alternatives.open_function(reference.declaration, key)
            return
    message = f"{subject} depends on the type of a '{wide}', and no value here has that type"
    f.error("E0412", message, f.b.span, "use it on a value, or in a generic function that takes one")


def _opening(f: Frame, reference: DeclRef, root: checked.Type) -> GenericKey | None:
    """The generic parameter of a function that such a value is passed for."""
    if reference.declaration in f.lowering.alternatives.opened or _interface_of(reference) is not None:
        return None
    declared = [kind for _, kind in declared_types(f, reference.declaration)]
    for key, argument in reference.substitution.items():
        if not isinstance(key, (ast.TypeParameter, ast.Extension)) or argument is not root:
            continue
        if checked.parameter_type(key) in declared:
            return key
    return None


def declared_types(f: Frame, declared: ast.AnyFunction) -> Iterator[tuple[Key, checked.Type]]:
    """The types of `this` and of the parameters, as they are declared."""
    info = f.program.info(declared)
    if info.this_type is not None and not isinstance(declared, ast.Constructor):
        yield THIS, info.this_type
    for parameter in info.parameters:
        yield parameter, f.program.info(parameter).type


def with_discriminator(f: Frame, carrier: Value, wide: checked.Type) -> Value:
    """A value of an associated type, which says its type by the discriminator of `carrier`: an associated type has the
    number of the type that it belongs to."""
    t = f.lowering.types.of(wide, f.b.span)
    if not checked.is_dynamic(wide) or carrier.type is t:
        return carrier if carrier.type is t else f.b.zero(t)
    if is_tangent(wide) or not _has_numbers(carrier):
        require_type(f, f"'{wide}'", wide)
        return f.b.zero(t)
    assert isinstance(t, Struct)
    parts = [f.emit("get", carrier, index=0), *(f.b.zero(part_type) for _, part_type in t.fields[1:])]
    return f.emit("make", *parts, type=t)


def _has_numbers(carrier: Value) -> bool:
    return isinstance(carrier.type, Struct) and bool(carrier.type.fields) and carrier.type.fields[0][1] is U32


def required(f: Frame, carrier: Value, value: RequiredValue, t: Type) -> Value:
    """A constant that an interface requires, of the type that a value has."""
    if not _has_numbers(carrier):
        require_type(f, f"'{value.declaration.name}'", value.base)
        return f.b.zero(t)
    number = f.b.zero(t)
    for i, alternative in enumerate(f.lowering.types.alternatives(value.base)):
        constant = f.program.required(alternative, value.interface, value.declaration)
        assert isinstance(constant, int)
        number = f.emit("select", has_number(f, carrier, i), f.b.constant(t, constant), number)
    return number
