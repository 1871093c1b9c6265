"""Kernels: uniform parameters come from the launch, the others have semantics for values of the thread.

[shader("compute")] void main(uniform float* p, uint3 id : SV_DispatchThreadID)

func @main() {kernel=true} {     %p = load (parameter {name="p"})      %x = thread_id {axis=0} ...
"""

from __future__ import annotations

from slangrad.base.options import MOST_LANES
from slangrad.base.source import Span
from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.model.declref import DeclRef
from slangrad.check.reflect import is_launch_parameter
from slangrad.ir.data.types import U32, Type, Vector, is_integer
from slangrad.ir.ops.core import Function, FunctionAttributes, Region, Value
from slangrad.lower.bodies.body import FunctionBody
from slangrad.lower.instances.functions import lower_body
from slangrad.lower.instances.wave_sizes import refuse_other_waves
from slangrad.lower.model.flow import RETURNED
from slangrad.lower.model.frame import Frame, Lowering
from slangrad.lower.places.globals import launch_parameter
from slangrad.lower.places.places import MemoryPlace
from slangrad.syntax import ast


def lower_kernel(lowering: Lowering, reference: DeclRef) -> Function:
    declared: ast.FunctionDeclaration = reference.declaration
    lowering.program.refusals.require_none(declared.span)
    f = FunctionBody(lowering, lowering.unique(declared.name), declared, reference.substitution, False)
    group = _group_size(f, declared)
    info: checked.FunctionInfo = f.program.info(declared)
    _refuse_results(f, declared, info)
    _refuse_errors(f, declared, info)
    refuse_other_waves(f, declared)
    for parameter in info.parameters:
        f.variables[parameter] = _parameter(f, parameter, group)
    f.variables[RETURNED] = f.false()
    lower_body(f, declared)
    attributes: FunctionAttributes = {"kernel": True, "group_size": group}
    lanes = declared.attribute("lanes")
    if lanes is not None:
        attributes["wanted_lanes"] = _lanes(f, lanes)
    return Function(
        f.name, (), None, Region((), f.b.ops, ()), False, attributes=attributes, span=declared.span
    )


def _refuse_results(f: Frame, declared: ast.FunctionDeclaration, info: checked.FunctionInfo) -> None:
    note = "write to a buffer or to what a pointer points to"
    if info.result is not checked_types.VOID:
        f.error(
            "E0709",
            f"kernel '{declared.name}' returns a value, and a launch has no result",
            declared.name_span,
            note,
        )
    for parameter in info.parameters:
        if f.program.info(parameter).direction not in ("in", "constref"):
            message = f"'{parameter.name}': a kernel gives nothing back through its parameters"
            f.error("E0709", message, parameter.span, note)


def _refuse_errors(f: Frame, declared: ast.FunctionDeclaration, info: checked.FunctionInfo) -> None:
    if info.throws is not None:
        message = f"kernel '{declared.name}' throws errors, and no code catches them"
        f.error("E0709", message, declared.name_span, "catch them in the kernel")


def _group_size(f: Frame, declared: ast.FunctionDeclaration) -> tuple[int, int, int]:
    attribute = declared.attribute("numthreads") or declared.attribute("NumThreads")
    constants = (
        []
        if attribute is None
        else [f.program.constant(f.scope, argument) for argument in attribute.arguments]
    )
    numbers = [
        None if constant is None else f.program.value(constant, f.substitution) for constant in constants
    ]
    sizes = [size for size in numbers if isinstance(size, int) and size > 0]
    if len(sizes) != len(numbers) or len(sizes) > 3:
        assert attribute is not None
        f.error("E0709", "numthreads takes up to three positive constants", attribute.span)
        return (1, 1, 1)
    x, y, z = [*sizes, 1, 1, 1][:3]
    return (x, y, z)


def _lanes(f: Frame, attribute: ast.AttributeNode) -> int:
    numbers = [f.program.constant(f.scope, argument) for argument in attribute.arguments]
    (count,) = numbers if len(numbers) == 1 else (None,)
    if isinstance(count, int) and 0 < count <= MOST_LANES and not count & (count - 1):
        return count
    f.error("E0709", f"lanes takes a power of two up to {MOST_LANES}", attribute.span)
    return 1


def _parameter(f: Frame, declared: ast.ParameterDeclaration, group: tuple[int, ...]) -> Value:
    info: checked.ParameterInfo = f.program.info(declared)
    t = f.type(info.type, declared.span)
    if is_launch_parameter(f.program, declared):
        return MemoryPlace(launch_parameter(f, declared, t)).read(f)
    return _known_to_thread(f, declared, f.concrete(info.type), t, group)


def _known_to_thread(
    f: Frame,
    declared: ast.ParameterDeclaration | ast.Variable,
    kind: checked_types.Type,
    t: Type,
    group: tuple[int, ...],
) -> Value:
    """The value of a semantic, or for a struct those of its fields."""
    if not declared.semantics:
        if isinstance(kind, checked_types.StructType):
            parts = [
                _known_to_thread(f, reference.declaration, of, f.type(of), group)
                for reference, of in f.program.fields(kind)
            ]
            return f.emit("make", *parts, type=t)
        f.error("E0709", f"'{declared.name}' has no semantic, but a field beside it has one", declared.span)
        return f.b.zero(t)
    semantic, span = declared.semantics[0], declared.semantics[0].span
    rule = SEMANTICS.get(semantic.name.lower())
    if rule is None:
        names = "SV_DispatchThreadID, SV_GroupID, SV_GroupThreadID and SV_GroupIndex"
        f.error("E0709", f"the semantic '{semantic.name}' is not known", span, f"kernels have {names}")
        return f.b.zero(t)
    return _shaped(f, rule(f, group), t, declared.span)


Axes = list[Value]


def _thread(f: Frame, group: tuple[int, ...]) -> Axes:
    return [f.emit("thread_id", type=U32, axis=axis) for axis in range(3)]


def _group(f: Frame, group: tuple[int, ...]) -> Axes:
    return [f.emit("div", id, f.b.constant(U32, n)) for id, n in zip(_thread(f, group), group, strict=True)]


def _in_group(f: Frame, group: tuple[int, ...]) -> Axes:
    return [f.emit("rem", id, f.b.constant(U32, n)) for id, n in zip(_thread(f, group), group, strict=True)]


def _group_index(f: Frame, group: tuple[int, ...]) -> Axes:
    """One number."""
    x, y, z = _in_group(f, group)
    row = f.emit("add", y, f.emit("mul", z, f.b.constant(U32, group[1])))
    return [f.emit("add", x, f.emit("mul", row, f.b.constant(U32, group[0])))]


SEMANTICS = {
    "sv_dispatchthreadid": _thread,
    "sv_groupid": _group,
    "sv_groupthreadid": _in_group,
    "sv_groupindex": _group_index,
}


def _shaped(f: Frame, axes: Axes, t: Type, span: Span) -> Value:
    """Numbers in the declared type: uint3, int2, uint."""
    if isinstance(t, Vector) and t.length <= len(axes) and is_integer(t.element):
        parts = [f.emit("convert", axis, type=t.element) for axis in axes[: t.length]]
        return f.emit("make", *parts, type=t)
    if is_integer(t):
        return f.emit("convert", axes[0], type=t)
    wanted = "a whole number" if len(axes) == 1 else "a whole number, or a vector of up to three"
    f.error("E0709", f"an id is {wanted}", span)
    return f.b.zero(t)
