"""Calls: arguments in, results out, `out` and `inout` arguments written back to their places.

    f(x, a.y)  with  float f(in float, inout float)      %r, %y2 = call @f %x, %y     and a.y = %y2

A derivative is called like any function (`instances/derivatives.py` makes it one). What the standard library declares
as an intrinsic becomes an op (`intrinsics.py`).
"""

from __future__ import annotations

from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.model.declref import EMPTY, DeclRef
from slangrad.ir.ops.core import Value
from slangrad.lower.calls import intrinsics, lending
from slangrad.lower.calls.arguments import argument_value, passed
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.model.signatures import Signature, SignatureParameter
from slangrad.lower.places import packs
from slangrad.lower.places.places import Temporary
from slangrad.lower.values.runtime_types import dispatched, is_static, require_type
from slangrad.syntax import ast


def lower_call(
    f: Frame, form: checked.FunctionCall, cut: bool = False, thrown: tuple[Place, ...] = ()
) -> Value | None:
    """The value of a call; None when it is void. `cut`: no derivative passes through it. `thrown`: the variables
    that receive an error."""
    if isinstance(form.function, checked.Derivative):
        this = form.this if form.this is not None else form.function.this
        signature = _derivative(f, form.function)
        arguments = _passed(f, form.arguments, signature, this, DeclRef(None, EMPTY))
        lending.refuse_copies(f, _innermost(f, form.function), signature, arguments)
        return finish_call(f, signature, arguments, cut)
    reference = f.resolve(form.function)
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    key = dispatched(f.lowering, reference)
    if isinstance(key, ast.Interface) and form.this is None and is_static(f, reference.declaration):
        return _without_type(f, reference, key)
    if info.intrinsic is not None and key is None:
        return intrinsics.lower_intrinsic(f, info, reference, form)
    signature = f.lowering.signature(reference, f)
    arguments = [*_passed(f, form.arguments, signature, form.this, reference), *thrown]
    return finish_call(f, lending.lend(f, reference, signature, arguments), arguments, cut)


def call_function(f: Frame, reference: DeclRef, places: list[Place]) -> Value | None:
    """A call with places instead of expressions, `this` first."""
    resolved = f.resolve(reference)
    info: checked.FunctionInfo = f.program.info(resolved.declaration)
    key = dispatched(f.lowering, resolved)
    if isinstance(key, ast.Interface) and is_static(f, resolved.declaration):
        return _without_type(f, resolved, key)
    if info.intrinsic is not None and key is None:
        return intrinsics.apply(f, info, resolved, places)
    arguments = list(places)
    return finish_call(f, lending.lend(f, resolved, f.lowering.signature(resolved, f), arguments), arguments)


def _without_type(f: Frame, reference: DeclRef, key: ast.Interface) -> Value | None:
    """A static requirement of a type that is known at run time only."""
    require_type(f, f"'{reference.declaration.name}'", reference.type_for(key))
    result = f.program.substitute(f.program.info(reference.declaration).result, reference.substitution)
    return None if result is checked_types.VOID else f.b.zero(f.type(result))


def _derivative(f: Frame, form: checked.Derivative) -> Signature:
    if isinstance(form.function, checked.Derivative):
        of = _derivative(f, form.function)
    else:
        of = f.lowering.function(f.resolve(form.function), f)
    shape = f.concrete(form.signature)
    assert isinstance(shape, checked_types.FunctionType)
    return f.lowering.derivative(form.mode, of, shape, f.b.span)


def _innermost(f: Frame, form: checked.Derivative) -> DeclRef:
    """The function whose derivative it is."""
    function = form.function
    return _innermost(f, function) if isinstance(function, checked.Derivative) else f.resolve(function)


def _passed(
    f: Frame,
    passed_arguments: tuple[checked.Argument, ...],
    signature: Signature,
    this: checked.Base | None,
    of: DeclRef,
) -> list[Place]:
    """A place for each parameter that takes an argument, `this` first, a pack once for each of its parts."""
    parameters = iter(signature.parameters)
    arguments: list[Place] = []
    if this is not None and _takes_this(f, signature, passed_arguments):
        arguments.append(_place(f, next(parameters), this))
    for argument in passed_arguments:
        if packs.is_pack_value(argument):
            assert isinstance(argument, ast.Expression)
            for part in packs.parts(f, argument):
                arguments.append(_passed_part(f, next(parameters), part, of))
        else:
            arguments.append(_argument(f, next(parameters), argument, of))
    return arguments


def _takes_this(f: Frame, signature: Signature, arguments: tuple[checked.Argument, ...]) -> bool:
    declared = len(signature.parameters) - (2 if signature.throws else 0)
    return declared == sum(packs.count(f, argument) for argument in arguments) + 1


def _passed_part(f: Frame, parameter: SignatureParameter, part: packs.Part, of: DeclRef) -> Place:
    if isinstance(part, ast.Expression):
        return _argument(f, parameter, part, of)
    return Temporary(part.get(f)) if parameter.direction == "in" else part.for_update(f)


def _argument(f: Frame, parameter: SignatureParameter, argument: checked.Argument, of: DeclRef) -> Place:
    if isinstance(argument, checked.Default) or parameter.direction == "in":
        return Temporary(argument_value(f, argument, of))
    return _place(f, parameter, argument)


def _place(f: Frame, parameter: SignatureParameter, argument: checked.Base) -> Place:
    place = f.place(argument)
    return place.for_update(f) if parameter.direction == "inout" else place


def finish_call(f: Frame, signature: Signature, arguments: list[Place], cut: bool = False) -> Value | None:
    """Read the arguments, call, write back."""
    pairs = list(zip(signature.parameters, arguments, strict=True))
    operands = [
        lending.passed(f, p, place) if p.lent else passed(f, p, place)
        for p, place in pairs
        if p.direction != "out"
    ]
    results = f.b.call(signature.name, operands, signature.result_types)
    if f.differentiable:
        flags = signature.result_flags
        results = tuple(
            value if carries and not cut else f.detached(value)
            for value, carries in zip(results, flags, strict=True)
        )
    returned = results[:1] if signature.result_type is not None else ()
    written = results[len(returned) :]
    outputs = [place for p, place in pairs if p.direction != "in"]
    for place, value in zip(outputs, written, strict=True):
        place.set(f, value)
    return returned[0] if returned else None
