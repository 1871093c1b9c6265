"""Entry points of other stages: errors about one wait until it is linked. Registers and payloads are checked at once."""

import re

import pytest

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.syntax import ast
from tests.check.programs import check, problem, problems, program

SHADERS = """
struct Out { float a : SV_Depth; float b : SV_DepthLessEqual; }
struct One { float d : SV_DepthGreaterEqual; }
struct In { bool view : SV_ViewID; }
struct Payload { float3 data; }
[shader("vertex")] float4 view(float id : SV_ViewID) : SV_Position { return id; }        // 'SV_ViewID' is a 'uint', not a 'float'
[shader("vertex")] float4 flag(bool id : SV_VertexID) : SV_Position { return 0; }        // 'SV_VertexID' is a 'uint', not a 'bool'
[shader("vertex")] float4 field(In inputs) : SV_Position { return 0; }                   // 'SV_ViewID' is a 'uint', not a 'bool'
[shader("fragment")] float4 front(int side : SV_IsFrontFace) : SV_Target { return 0; }   // 'SV_IsFrontFace' is a 'bool', not a 'int'
[shader("fragment")] void two(out float a : SV_Depth, out float b : SV_Depth) {}         // 'SV_Depth' is a second depth
[shader("fragment")] Out fields() { return {}; }                                         // 'SV_DepthLessEqual' is a second depth
[shader("fragment")] One mixed(out float a : SV_Depth) { return {}; }                    // 'SV_DepthGreaterEqual' is a second depth
[shader("callable")] void called(in Payload data) {}                                     // callable shaders have no 'in' parameters
[shader("intersection")] void hit(out float3 x : OWN) {}                                 // intersection shaders have no 'out' parameters
[shader("raygeneration")] void rays(inout float3 x : OWN) {}                             // raygeneration shaders have no 'inout' parameters
[shader("mesh")] [outputtopology("triangle_cw")] void mesh() {}                          // there is no topology 'triangle_cw' here
[domain("tri")] [outputtopology("triangle")] void patch() {}                             // there is no topology 'triangle' here
[shader("hull")] [outputtopology("cube")] void hull() {}                                 // there is no topology 'cube' here
[shader("vertex")] float4 good(uint id : SV_VertexID, int view : SV_ViewID) : SV_Position { return 0; }
[shader("fragment")] float4 pixel(bool front : SV_IsFrontFace, out float d : SV_Depth) : SV_Target { return 0; }
[shader("callable")] void payload(inout Payload data) {}
[shader("intersection")] void inside(uniform float x) {}
[shader("mesh")] [outputtopology("triangle")] void triangles() {}
[shader("domain")] [outputtopology("triangle_ccw")] void turned() {}
[shader("compute")] [numthreads(1, 1, 1)] void kernel(uint3 id : SV_DispatchThreadID) {}
"""
LINES = [line for line in SHADERS.split("\n") if line.startswith("[")]


def refusals_of(name: str) -> tuple[Diagnostic, ...]:
    (function,) = (member for member in check(SHADERS).members if member.name == name)
    assert isinstance(function, ast.FunctionDeclaration)
    try:
        program().refusals.require_none(function.span)
    except CompileError as error:
        return error.diagnostics
    return ()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("(")[0])
def test_an_error_about_an_entry_point_waits_for_its_use(line: str) -> None:
    declared, _, message = line.partition("// ")
    name = re.findall(r"(\w+)\((?!\")", declared.replace("numthreads(", ""))[0]
    messages = [diagnostic.message for diagnostic in refusals_of(name)]
    assert len(messages) == bool(message)
    assert all(re.match(message, text) for text in messages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Texture2D a : register(t);", "'t' is a kind of registers, without the number of one"),
        ("Texture2D a : register(s0, s1);", "'s1' is no space of registers"),
        ("Texture2D a : register(t2, space);", "'space' is no space of registers"),
        ("cbuffer A : register(b) { float x; }", "'b' is a kind of registers, without the number of one"),
        (
            "[raypayload] struct P { float x : read(anyht, miss) : write(caller); }",
            "no stage 'anyht' has a payload",
        ),
        (
            "[raypayload] struct P { float x : read(miss); float y; }",
            "'y' has neither stages that read it nor stages that write it",
        ),
    ],
)
def test_registers_and_payloads(text: str, message: str) -> None:
    assert problem(text).startswith(f"E0329: {message} (")


def test_registers_and_payloads_that_are_right() -> None:
    text = """#define REG t3
    Texture2D a : register(t0);
    Texture2D b : register(t1, space1);
    Texture2D c : register(REG);
    ParameterBlock<float> d : register(space2);
    [raypayload] struct P { float x : read(anyhit, closesthit, miss, caller) : write(caller); float y : read(miss); }
    """
    assert problems(text) == []
