"""Function bodies: parameters become variables; the result and the outputs are yielded.

float f(float x, inout float y) { y += x; return x; }     func @f(%x, inout %y) -> (f32) { ... yield %x, %y.1 }
"""

from __future__ import annotations

from collections import Counter

from slangrad.check.generics.signatures import declared_parameters
from slangrad.check.model import checked
from slangrad.check.model.declref import DeclRef
from slangrad.check.model.types import is_pack
from slangrad.ir.ops.core import Derivatives, Function, FunctionAttributes, Region, Value
from slangrad.lower.bodies.body import FunctionBody
from slangrad.lower.calls import intrinsics
from slangrad.lower.calls.lending import received
from slangrad.lower.instances.dispatch import lower_dispatch
from slangrad.lower.instances.forward_passes import lower_forward_pass
from slangrad.lower.model.flow import ERROR, RESULT, RETURNED, THIS, THROWN, Key, PackPart
from slangrad.lower.model.frame import Frame, Lowering, Place
from slangrad.lower.model.signatures import Signature
from slangrad.lower.places.defaults import default_value
from slangrad.lower.places.places import LocalPlace
from slangrad.lower.places.variables import begin_body, held
from slangrad.lower.values.runtime_types import dispatched
from slangrad.syntax import ast


def lower_function(lowering: Lowering, signature: Signature, reference: DeclRef) -> Function:
    declared = reference.declaration
    f = FunctionBody(lowering, signature.name, declared, reference.substitution, signature.differentiable)
    key = dispatched(lowering, reference)
    constructs = isinstance(declared, ast.Constructor) and key is None
    keys, inputs = enter(f, signature, reference, constructs)
    derivatives, attributes = _custom_derivatives(lowering, signature, reference), _attributes(declared)
    if key is not None:
        attributes["library"] = True  # made here, so it reports where it is called
        lower_dispatch(f, signature, reference, keys, key)
    elif f.program.info(declared).intrinsic is not None:
        _lower_primitive(f, reference)
    elif declared.body is None and derivatives is not None:  # there is a body to call, if not its own
        attributes["bodiless"] = True
    else:
        lower_body(f, declared)
    return Function(
        signature.name,
        signature.ir_parameters(),
        signature.result_type,
        Region(inputs, f.b.ops, _yields(f, signature, keys, THIS if constructs else RESULT)),
        signature.result_differentiable or signature.dual is not None,
        derivatives=derivatives,
        attributes=attributes,
        span=declared.span,
    )


def enter(
    f: Frame, signature: Signature, reference: DeclRef, constructs: bool = False
) -> tuple[list[Key], tuple[Value, ...]]:
    """Variables for the parameters and what goes in; `out` ones start at zero."""
    declared = reference.declaration
    info: checked.FunctionInfo = f.program.info(declared)
    keys: list[Key] = [THIS] if signature.has_this else []
    keys += _parameter_keys(f, reference)
    keys += [THROWN, ERROR] if signature.throws else []
    inputs = []
    for key, parameter in zip(keys, signature.parameters, strict=True):
        if parameter.lent:
            inputs.append(Value(parameter.type, parameter.name))
            f.lent[key] = received(f, inputs[-1])
            continue
        value = (
            f.b.zero(parameter.type)
            if parameter.direction == "out"
            else Value(parameter.type, parameter.name)
        )
        f.variables[key] = value
        inputs += [] if parameter.direction == "out" else [value]
    f.variables[RETURNED] = f.false()
    if signature.throws:
        f.variables[THROWN] = f.false()
    if constructs:
        assert signature.result_type is not None
        f.variables[THIS] = default_value(f, signature.result, signature.result_type)
    elif signature.result_type is not None:
        f.variables[RESULT] = f.b.zero(signature.result_type)
    for i, captured in enumerate(info.captures):
        f.variables[captured] = f.emit("get", f.variables[THIS], index=i)
    return keys, tuple(inputs)


def _parameter_keys(f: Frame, reference: DeclRef) -> list[Key]:
    """The variables of the parameters; of a pack, one for each element."""
    counts = Counter(declared_parameters(f.program, reference))
    keys: list[Key] = []
    for parameter in f.program.info(reference.declaration).parameters:
        is_a_pack = is_pack(f.program.info(parameter).type)
        keys += [PackPart(parameter, i) for i in range(counts[parameter])] if is_a_pack else [parameter]
    return keys


_ELSEWHERE = ("__target_intrinsic", "__intrinsic_op", "__specialized_for_target")


def lower_body(f: Frame, declared: ast.FunctionDeclaration | ast.Constructor | ast.Accessor) -> None:
    f.program.check_body(declared)
    body = declared.body
    if body is None and any(declared.attribute(name) for name in _ELSEWHERE):
        note = "give it a body"
        f.error(
            "E9003",
            f"'{declared.name}' is what another compiler makes of it",
            f.lowering.asked_at.get(f.name) or declared.span,
            note,
        )
        return
    if body is None:
        f.error("E0708", f"'{declared.name}' is declared but has no body", declared.span)
        return
    parameters = f.program.info(declared).parameters
    f.lowering.is_precise |= any(node.has("precise") for node in (declared, *parameters))
    begin_body(f, body)
    f.statement(body)


def _lower_primitive(f: Frame, reference: DeclRef) -> None:
    """The op that a declaration stands for, where it is named as a function: `fwd_diff(sin)`."""
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    keys: list[Key] = [THIS] if info.this_type is not None else []
    keys += [parameter for parameter in info.parameters if intrinsics.is_operand(f, parameter)]
    places: list[Place] = [LocalPlace(key, f.variables[key].type) for key in keys]
    value = intrinsics.apply(f, info, reference, places)
    if value is not None:
        f.variables[RESULT] = value


def _yields(f: Frame, signature: Signature, keys: list[Key], result: Key) -> tuple[Value, ...]:
    """The return value, then the final values of `out` and `inout` parameters."""
    pairs = zip(keys, signature.parameters, strict=True)
    written = [held(f, key) for key, p in pairs if p.direction != "in"]
    if signature.result_type is not None:
        written.insert(0, held(f, result))
    info = f.program.info(f.declared)
    assert isinstance(info, checked.FunctionInfo)
    if info.treat_as_differentiable and info.level == "none" and info.intrinsic is None:
        written = [f.detached(value) for value in written]
    return tuple(written)


def _custom_derivatives(lowering: Lowering, signature: Signature, reference: DeclRef) -> Derivatives | None:
    if any(p.lent for p in signature.parameters):
        return None  # no derivative is asked for, see lending.py
    custom: checked.CustomDerivatives = lowering.program.derivatives(reference)
    forward, backward, substitute = (
        None if function is None else lowering.function(function).name
        for function in (custom.forward, custom.backward, custom.primal_substitute)
    )
    applied = None if custom.apply is None else lower_forward_pass(lowering, signature, custom.apply)
    derivatives = Derivatives(forward, backward, substitute, applied)
    return derivatives if derivatives.names else None


def _attributes(declared: ast.Declaration) -> FunctionAttributes:
    """The attributes of a function for later passes."""
    attributes: FunctionAttributes = {"library": True} if declared.span.source.is_library else {}
    for name, attribute in ATTRIBUTES.items():
        if declared.attribute(name) is not None:
            attributes |= attribute
    return attributes


ATTRIBUTES: dict[str, FunctionAttributes] = {
    "PreferRecompute": {"prefer": "recompute"},
    "PreferCheckpoint": {"prefer": "checkpoint"},
    "drop_primal": {"drop_primal": True},
    "open_primal": {"open_primal": True},
}
