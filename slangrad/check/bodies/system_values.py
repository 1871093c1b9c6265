"""The system values of entry points: known names, and the stages that read or write them.

    [shader("compute")] void f(uint3 id : SV_ThreadID)                     E0709: there is no such system value
    [shader("vertex")] float4 f(out float depth : SV_Depth) : SV_Position  E0709: a vertex shader does not write it
    [shader("vertex")] float4 f(float view : SV_ViewID) : SV_Position      E0709: it is a whole number
    [shader("intersection")] void f(out float x)                           E0709: such shaders give nothing back

In: an entry point.   Out: errors. Types of the values of kernels are checked where kernels are lowered.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.diagnostics import Diagnostic
from slangrad.base.source import Span
from slangrad.check.interfaces.differentiable import field_declarations
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import BOOL, ScalarType, StructType, Type
from slangrad.syntax import ast

_NAMES = frozenset((
    "sv_barycentrics", "sv_clipdistance", "sv_culldistance", "sv_coverage", "sv_cullprimitive", "sv_deviceindex",
    "sv_depth", "sv_depthgreaterequal", "sv_depthlessequal", "sv_dispatchthreadid", "sv_domainlocation",
    "sv_drawindex", "sv_fragcoord", "sv_fraginvocationcount", "sv_fragsize", "sv_groupid", "sv_groupindex",
    "sv_groupthreadid", "sv_gsinstanceid", "sv_innercoverage", "sv_insidetessfactor", "sv_instanceid",
    "sv_isfrontface", "sv_outputcontrolpointid", "sv_pointcoord", "sv_pointsize", "sv_position",
    "sv_primitiveid", "sv_quadlaneindex", "sv_rendertargetarrayindex", "sv_sampleindex", "sv_shadingrate",
    "sv_startinstancelocation", "sv_startinstanceindex", "sv_startvertexlocation", "sv_stencilref", "sv_target",
    "sv_tessfactor", "sv_vertexcount", "sv_vertexid", "sv_viewid", "sv_viewportarrayindex",
    "sv_vulkaninstanceid", "sv_vulkanvertexid", "sv_vulkansampleposition", "sv_wavelaneindex", "sv_wavelanecount",
))  # fmt: skip

_KERNELS = ("compute", "mesh", "amplification", "task", "node")
_PIXELS = ("pixel", "fragment")

# fmt: off
# The stages that read a value, and those that write it. Names that are not here are not checked.
_STAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("sv_dispatchthreadid", "sv_groupid", "sv_groupthreadid", "sv_groupindex"), (_KERNELS, ())),
    **dict.fromkeys(("sv_depth", "sv_depthgreaterequal", "sv_depthlessequal", "sv_target", "sv_stencilref"),
                                                                                    ((),          _PIXELS)),
    "sv_isfrontface":                                                              (_PIXELS,     ("mesh", "geometry")),
    "sv_vertexid":                                                                 (("vertex",), ()),
}
_DEPTHS = frozenset(("sv_depth", "sv_depthgreaterequal", "sv_depthlessequal"))  # a shader writes one
_WHOLE = frozenset(("sv_viewid", "sv_vertexid", "sv_instanceid", "sv_primitiveid", "sv_sampleindex"))
# Stages of rays, and the directions of parameters that these do not have.
_WITHOUT: dict[str, tuple[str, ...]] = {
    "callable": ("in", "out"), "intersection": ("out", "inout"), "raygeneration": ("out", "inout"),
}
# fmt: on


def check_system_values(checker: Checker, function: ast.FunctionDeclaration, stage: str) -> None:
    """The system values of the parameters and of the result. Errors about the entry point alone wait for its use."""
    written: list[tuple[str, Span]] = []
    for parameter in function.parameters:
        kind = checker.info(parameter).type
        reads, writes = parameter.direction != "out", parameter.direction in ("out", "inout")
        _check_direction(checker, function, stage, parameter)
        for name, value_type, span in _system_values(checker, parameter, kind, parameter.name_span):
            _check(checker, stage, name, span, reads, writes)
            _check_type(checker, function, name, value_type, span)
            written += [(name, span)] if writes else []
    result = checker.info(function).result
    for name, _, span in _system_values(checker, function, result, function.name_span):
        _check(checker, stage, name, span, False, True)
        written.append((name, span))
    depths = [(name, span) for name, span in written if _plain(name) in _DEPTHS]
    for name, span in depths[1:]:
        message = f"'{name}' is a second depth; a shader writes one, and this one has '{depths[0][0]}'"
        checker.refusals.add_to(function, Diagnostic("E0709", message, span, "leave one of them out"))


def _check_direction(
    checker: Checker, function: ast.FunctionDeclaration, stage: str, parameter: ast.ParameterDeclaration
) -> None:
    if parameter.direction in _WITHOUT.get(stage, ()) and not parameter.has("uniform"):
        message = f"{stage} shaders have no '{parameter.direction}' parameters"
        note = "its payload is 'inout'" if stage == "callable" else "leave the parameter out"
        checker.refusals.add_to(function, Diagnostic("E0709", message, parameter.name_span, note))


def _check_type(
    checker: Checker, function: ast.FunctionDeclaration, name: str, kind: Type, span: Span
) -> None:
    if not isinstance(kind, ScalarType):
        return
    is_whole = not kind.is_float and kind is not BOOL
    wanted = "uint" if _plain(name) in _WHOLE and not is_whole else ""
    wanted = "bool" if _plain(name) == "sv_isfrontface" and kind is not BOOL else wanted
    if wanted:
        message = f"'{name}' is a '{wanted}', not a '{kind}'"
        note = f"declare it as '{wanted}', and convert it in the body"
        checker.refusals.add_to(function, Diagnostic("E0709", message, span, note))


def _system_values(
    checker: Checker, node: ast.Declaration, kind: Type, span: Span
) -> Iterator[tuple[str, Type, Span]]:
    """The names, types and places of the system values of a declaration, and of the fields of its struct."""
    for semantic in getattr(node, "semantics", ()):
        if semantic.name.lower().startswith("sv_"):
            yield semantic.name, kind, span
    if isinstance(kind, StructType) and not kind.declaration.span.source.is_library:
        for field in field_declarations(kind.declaration):
            yield from _system_values(checker, field, checker.info(field).type, field.name_span)


def _plain(name: str) -> str:
    return name.lower().rstrip("0123456789")


def _check(checker: Checker, stage: str, name: str, span: Span, reads: bool, writes: bool) -> None:
    meant = _plain(name)
    readers, writers = _STAGES.get(meant, ((stage,), (stage,)))
    if meant not in _NAMES:
        message = f"there is no system value '{name}'"
        note = "kernels have SV_DispatchThreadID, SV_GroupID, SV_GroupThreadID and SV_GroupIndex"
    elif (reads and stage not in readers) or (writes and stage not in writers):
        verb = "read" if reads and stage not in readers else "write"
        message = f"a {stage} shader does not {verb} '{name}'"
        note = "kernels read SV_DispatchThreadID, SV_GroupID, SV_GroupThreadID and SV_GroupIndex"
    else:
        return
    checker.error("E0709", message, span, note)
