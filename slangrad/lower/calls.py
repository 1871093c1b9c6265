"""Calls: arguments in, results out, `out` and `inout` arguments written back to their places.

    f(x, a.y)  with  float f(in float, inout float)      %r, %y2 = call @f %x, %y     and a.y = %y2

A derivative is called like any function (`derivatives.py` makes it one). What the standard library declares as an
intrinsic becomes an op (`intrinsics.py`).
"""

from __future__ import annotations

from slangrad.check import checked
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Value
from slangrad.ir.types import U64, Type, components, is_aggregate, is_float
from slangrad.lower import expressions, intrinsics
from slangrad.lower.frame import Frame
from slangrad.lower.places import Accessed, Memory, Place, Temporary
from slangrad.lower.signatures import Signature, SignatureParameter
from slangrad.syntax import ast

Argument = Value | Place


def lower_call(f: Frame, form: checked.Call, node: ast.Expression | None) -> Value | None:
    """The value of a call; None when it is void."""
    if isinstance(form.function, checked.Derivative):
        this = form.this if form.this is not None else form.function.this
        signature = _derivative(f, form.function)
        return _call(f, signature, this, form.arguments, DeclRef(None, {}))
    reference = f.resolve(form.function)
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    if info.intrinsic is not None:
        return intrinsics.lower_intrinsic(f, info, reference, form, node)
    return _call(f, f.lowering.function(reference), form.this, form.arguments, reference)


def call_function(f: Frame, reference: DeclRef, places: list[Place]) -> Value | None:
    """A call with places instead of expressions, `this` first."""
    resolved = f.resolve(reference)
    info: checked.FunctionInfo = f.program.info(resolved.declaration)
    if info.intrinsic is not None:
        return intrinsics.apply(f, info, resolved, places, None)
    return finish_call(f, f.lowering.function(resolved), places)


def _derivative(f: Frame, form: checked.Derivative) -> Signature:
    if isinstance(form.function, checked.Derivative):
        of = _derivative(f, form.function)
    else:
        of = f.lowering.function(f.resolve(form.function))
    shape = f.concrete(form.signature)
    return f.lowering.derivative(form.mode, of, shape, f.b.span)  # type: ignore[arg-type]


def _call(
    f: Frame,
    signature: Signature,
    this: checked.Base | None,
    given: tuple[checked.Argument, ...],
    of: DeclRef,
) -> Value | None:
    parameters = iter(signature.parameters)
    arguments: list[Place] = []
    if this is not None and signature.parameters and len(signature.parameters) == len(given) + 1:
        next(parameters)
        arguments.append(expressions.place_of(f, this))
    for parameter, argument in zip(parameters, given, strict=True):
        arguments.append(_argument(f, parameter, argument, of))
    return finish_call(f, signature, arguments)


def _argument(f: Frame, parameter: SignatureParameter, argument: checked.Argument, of: DeclRef) -> Place:
    if isinstance(argument, checked.Default):
        return Temporary(default_argument(f, argument, of))
    if parameter.direction == "in":
        return Temporary(expressions.lower(f, argument))
    return expressions.place_of(f, argument)


def default_argument(f: Frame, argument: checked.Default, of: DeclRef) -> Value:
    """The parameter's default, seen through the substitution of the called function."""
    outer, f.substitution = f.substitution, of.substitution
    assert argument.parameter.default is not None
    value = expressions.lower(f, argument.parameter.default)
    f.substitution = outer
    return value


def finish_call(f: Frame, signature: Signature, arguments: list[Place]) -> Value | None:
    """Read the arguments, call, write back."""
    pairs = list(zip(signature.parameters, arguments, strict=True))
    operands = [_passed(f, signature, p, place) for p, place in pairs if p.direction != "out"]
    results = f.b.control("call", tuple(operands), signature.result_types, (), {"callee": signature.name})
    f.lowering.calls(f.name, signature.name, f.b.span)
    if f.differentiable and signature.cut_results:
        results = tuple(_detached(f, value) for value in results)
    returned = results[:1] if signature.result_type is not None else ()
    written = results[len(returned) :]
    outputs = [place for p, place in pairs if p.direction != "in"]
    for place, value in zip(outputs, written, strict=True):
        place.set(f, value)
    return returned[0] if returned else None


def _passed(f: Frame, signature: Signature, parameter: SignatureParameter, place: Place) -> Value:
    value = place.get(f)
    return f.emit("detach", value) if f.differentiable and parameter.cut else value


def _detached(f: Frame, value: Value) -> Value:
    """Only floats and what is made of them can carry a derivative."""
    return f.emit("detach", value) if may_carry(value.type) else value


def accessed(
    f: Frame,
    reference: DeclRef,
    base: checked.Base | None,
    given: tuple[checked.Argument, ...],
    t: Type,
) -> Place:
    """The place behind a property's or subscript's accessors: its memory, if it has a `ref` accessor."""
    resolved = f.resolve(reference)
    owner = None if base is None else expressions.place_of(f, base)
    if isinstance(resolved.declaration, ast.Variable):  # a field stands for the property that an interface requires
        assert owner is not None
        return owner.field(f, resolved.declaration.name)
    arguments = [
        Temporary(
            default_argument(f, each, resolved)
            if isinstance(each, checked.Default)
            else expressions.lower(f, each)
        )
        for each in given
    ]
    accessors = {each.name: each for each in resolved.declaration.accessors}

    def refer() -> Memory:
        pointer = _access(f, resolved, accessors["ref"], owner, arguments)
        assert pointer is not None
        return Memory(pointer, f.emit("not_equal", f.emit("bitcast", pointer, type=U64), f.b.zero(U64)))

    def read() -> Value:
        if "get" not in accessors:
            return refer().get(f)
        value = _access(f, resolved, accessors["get"], owner, arguments)
        assert value is not None
        return value

    def write(value: Value) -> None:
        if "set" in accessors:
            _access(f, resolved, accessors["set"], owner, [*arguments, Temporary(value)])
        else:
            refer().set(f, value)

    return Accessed(read, write, refer if "ref" in accessors else None, t)


def _access(
    f: Frame, resolved: DeclRef, accessor: ast.Accessor, owner: Place | None, arguments: list[Temporary]
) -> Value | None:
    reference = DeclRef(accessor, resolved.substitution)
    info: checked.FunctionInfo = f.program.info(accessor)
    places: list[Place] = [*([owner] if owner is not None and info.this_type is not None else []), *arguments]
    if info.intrinsic is not None:
        return intrinsics.apply(f, info, reference, places, None)
    return finish_call(f, f.lowering.function(reference), places)


def may_carry(t: Type) -> bool:
    return is_float(t) or (is_aggregate(t) and any(may_carry(part) for part in components(t)))
