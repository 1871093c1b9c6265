"""Function bodies and kernels: parameters become variables, the result and what was written is yielded.

[shader("compute")] void main(uniform float* p, uint3 id : SV_DispatchThreadID)

func @main() {kernel=true} {     %p = load (parameter {name="p"})      %x = thread_id {axis=0} ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slangrad.base.source import Span
from slangrad.check import checked
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Attribute, Derivatives, Function, Region, Value
from slangrad.ir.types import U32, Type, Vector, is_integer
from slangrad.lower import closures, intrinsics, statements
from slangrad.lower.frame import RESULT, RETURNED, THIS, Frame, Key
from slangrad.lower.globals import launch_parameter
from slangrad.lower.places import Local, Place
from slangrad.lower.signatures import Signature
from slangrad.syntax import ast

if TYPE_CHECKING:
    from slangrad.lower.instances import Lowering


def lower_function(lowering: Lowering, signature: Signature, reference: DeclRef) -> Function:
    declared = reference.declaration
    f = Frame(lowering, signature.name, declared, reference.substitution, signature.differentiable)
    keys, inputs = _enter(f, signature, reference)
    if f.program.info(declared).intrinsic is not None:
        _lower_primitive(f, reference)
    else:
        lower_body(f, declared)
    return Function(
        signature.name,
        signature.ir_parameters(),
        signature.result_type,
        Region(inputs, f.b.ops, _yields(f, signature, keys, declared)),
        signature.result_differentiable,
        derivatives=_custom_derivatives(lowering, reference),
        attributes=_attributes(declared),
        span=declared.span,
    )


def _enter(f: Frame, signature: Signature, reference: DeclRef) -> tuple[list[Key], tuple[Value, ...]]:
    """Variables for the parameters and what goes in; `out` ones start at zero."""
    declared = reference.declaration
    info: checked.FunctionInfo = f.program.info(declared)
    keys: list[Key] = [THIS] if signature.parameters and signature.parameters[0].name == "this" else []
    keys += info.parameters
    inputs = []
    for key, parameter in zip(keys, signature.parameters, strict=True):
        value = (
            f.b.zero(parameter.type)
            if parameter.direction == "out"
            else Value(parameter.type, parameter.name)
        )
        f.variables[key] = value
        inputs += [] if parameter.direction == "out" else [value]
    f.variables[RETURNED] = f.false()
    if isinstance(declared, ast.Constructor):
        assert signature.result_type is not None
        f.variables[THIS] = closures.default_value(f, signature.result, signature.result_type)
    elif signature.result_type is not None:
        f.variables[RESULT] = f.b.zero(signature.result_type)
    for i, captured in enumerate(info.captures):
        f.variables[captured] = f.emit("get", f.variables[THIS], index=i)
    return keys, tuple(inputs)


def lower_body(f: Frame, declared: ast.Function | ast.Constructor | ast.Accessor) -> None:
    f.program.check_body(declared)
    body = declared.body
    if body is None:
        f.error("E0708", f"'{declared.name}' is declared but has no body", declared.span)
        return
    statements.lower_statement(f, body)


def _lower_primitive(f: Frame, reference: DeclRef) -> None:
    """The op that a declaration stands for, where it is named as a function: `fwd_diff(sin)`."""
    info: checked.FunctionInfo = f.program.info(reference.declaration)
    keys: list[Key] = [THIS] if info.this_type is not None else []
    keys += [each for each in info.parameters if intrinsics.is_operand(f, each)]
    places: list[Place] = [Local(key, f.variables[key].type) for key in keys]
    value = intrinsics.apply(f, info, reference, places)
    if value is not None:
        f.variables[RESULT] = value


def _yields(f: Frame, signature: Signature, keys: list[Key], declared: ast.Declaration) -> tuple[Value, ...]:
    """The return value, then what `out` and `inout` parameters hold at the end."""
    pairs = zip(keys, signature.parameters, strict=True)
    written = [f.variables[key] for key, p in pairs if p.direction != "in"]
    if signature.result_type is None:
        return tuple(written)
    return (f.variables[THIS if isinstance(declared, ast.Constructor) else RESULT], *written)


def _custom_derivatives(lowering: Lowering, reference: DeclRef) -> Derivatives | None:
    given: checked.CustomDerivatives = lowering.program.derivatives(reference)
    names = [
        None if each is None else lowering.function(each).name
        for each in (given.forward, given.backward, given.primal_substitute)
    ]
    return Derivatives(*names) if any(names) else None


def _attributes(declared: ast.Declaration) -> dict[str, Attribute]:
    """What later passes are told about a function."""
    found: dict[str, Attribute] = {}
    for name, (key, value) in ATTRIBUTES.items():
        if declared.attribute(name) is not None:
            found[key] = value
    return found


ATTRIBUTES: dict[str, tuple[str, Attribute]] = {
    "PreferRecompute": ("prefer", "recompute"),
    "PreferCheckpoint": ("prefer", "checkpoint"),
    "drop_primal": ("drop_primal", True),
}

# --- Kernels ------------------------------------------------------------------------------------------


def lower_kernel(lowering: Lowering, reference: DeclRef) -> Function:
    """An entry point: uniform parameters come from the launch, the others say what they are by a semantic."""
    declared: ast.Function = reference.declaration
    f = Frame(lowering, lowering.unique(declared.name), declared, reference.substitution, False)
    group = _group_size(f, declared)
    info: checked.FunctionInfo = f.program.info(declared)
    for parameter in info.parameters:
        f.variables[parameter] = _kernel_parameter(f, parameter, group)
    f.variables[RETURNED] = f.false()
    lower_body(f, declared)
    attributes: dict[str, Attribute] = {"kernel": True, "group_size": group}
    return Function(
        f.name, (), None, Region((), f.b.ops, ()), False, attributes=attributes, span=declared.span
    )


def _group_size(f: Frame, declared: ast.Function) -> tuple[int, int, int]:
    attribute = declared.attribute("numthreads") or declared.attribute("NumThreads")
    given = [] if attribute is None else [f.program.constant(f.scope, each) for each in attribute.arguments]
    known = [None if each is None else f.program.value(each, f.substitution) for each in given]
    sizes = [size for size in known if isinstance(size, int) and size > 0]
    if len(sizes) != len(known) or len(sizes) > 3:
        assert attribute is not None
        f.error("E0709", "numthreads takes up to three positive constants", attribute.span)
        return (1, 1, 1)
    x, y, z = [*sizes, 1, 1, 1][:3]
    return (x, y, z)


def _kernel_parameter(f: Frame, declared: ast.Parameter, group: tuple[int, ...]) -> Value:
    info: checked.ParameterInfo = f.program.info(declared)
    t = f.type(info.type, declared.span)
    semantic = declared.semantics[0].name.lower() if declared.semantics else ""
    if semantic in SEMANTICS:
        return _shaped(f, [SEMANTICS[semantic](f, axis, group) for axis in range(3)], t, declared.span)
    if semantic == "sv_groupindex":
        return f.emit("convert", _group_index(f, group), type=t)
    if declared.has("uniform") or not semantic:
        return f.emit("load", launch_parameter(f, declared, t), type=t)
    f.error("E0709", f"the semantic '{declared.semantics[0].name}' is not known", declared.semantics[0].span)
    return f.b.zero(t)


def _thread(f: Frame, axis: int, group: tuple[int, ...]) -> Value:
    return f.emit("thread_id", type=U32, axis=axis)


def _group(f: Frame, axis: int, group: tuple[int, ...]) -> Value:
    return f.emit("div", _thread(f, axis, group), f.b.constant(U32, group[axis]))


def _in_group(f: Frame, axis: int, group: tuple[int, ...]) -> Value:
    return f.emit("rem", _thread(f, axis, group), f.b.constant(U32, group[axis]))


def _group_index(f: Frame, group: tuple[int, ...]) -> Value:
    x, y, z = (_in_group(f, axis, group) for axis in range(3))
    row = f.emit("add", y, f.emit("mul", z, f.b.constant(U32, group[1])))
    return f.emit("add", x, f.emit("mul", row, f.b.constant(U32, group[0])))


SEMANTICS = {"sv_dispatchthreadid": _thread, "sv_groupid": _group, "sv_groupthreadid": _in_group}


def _shaped(f: Frame, axes: list[Value], t: Type, span: Span) -> Value:
    """Ids in the declared type: uint3, int2, uint."""
    if isinstance(t, Vector) and t.length <= 3 and is_integer(t.element):
        parts = [f.emit("convert", axis, type=t.element) for axis in axes[: t.length]]
        return f.emit("make", *parts, type=t)
    if is_integer(t):
        return f.emit("convert", axes[0], type=t)
    f.error("E0709", "an id is a whole number, or a vector of up to three", span)
    return f.b.zero(t)
