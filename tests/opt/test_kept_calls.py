"""Which functions stay functions."""

import pytest

from slangrad.base.options import AUTO, INLINE, KEEP, Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from slangrad.opt.calls.kept_calls import keep_calls
from slangrad.pipeline import CompiledKernel, compile_kernel
from tests.ir.parse_text import parse_program

KERNEL = """
[shader("compute")] [numthreads(32, 1, 1)]
void main(uint3 id : SV_DispatchThreadID, uniform float* x) { x[id.x] = top(x[id.x]); }
"""
BODY = "x = x * 1.5 + 0.25 / (1 + x * x);\n"
LONG = BODY * 40


def compiled(text: str, calls: str, check: bool = False) -> CompiledKernel:
    chosen = Options(calls=calls, check=check)
    return compile_kernel(CheckedProgram(chosen), SourceFile("text", text + KERNEL), "main", chosen, "cpu")


def kept(text: str, calls: str = AUTO, check: bool = False) -> list[str]:
    """The functions that a flat kernel calls."""
    lines = compiled(text, calls, check).text("flat").splitlines()
    return [line.split("@")[1].split("(")[0] for line in lines if line.startswith("func @")][:-1]


def chain(depth: int) -> str:
    text = f"float f0(float x) {{ {LONG} return x; }}\n"
    for i in range(1, depth):
        text += f"float f{i}(float x) {{ return f{i - 1}(x * 0.5) + f{i - 1}(x + 1); }}\n"
    return text + f"float top(float x) {{ return f{depth - 1}(x); }}\n"


def test_small_programs_are_inlined() -> None:
    assert kept(chain(3)) == []


def test_what_is_called_twice_is_kept_in_large_programs() -> None:
    found = kept(chain(12))
    assert "f0" in found
    assert "f11" not in found and "top" not in found  # called once


def test_code_grows_with_the_text() -> None:
    sizes = [compiled(chain(depth), AUTO).text("lanes").count("\n") for depth in (10, 20, 40)]
    assert sizes[2] - sizes[1] <= 2.2 * (sizes[1] - sizes[0])


def test_either_way_can_be_chosen() -> None:
    assert kept(chain(8), AUTO) != []
    assert kept(chain(8), INLINE) == []
    assert kept(chain(3), KEEP) == ["f0", "f1", "f2", "top"]


BOUND = {
    "a static variable": """
        static float total;
        void add(float x) { total += x; }
        float top(float x) { add(x); add(1); return total; }
    """,
    "a group": """
        groupshared float box[32];
        float half_of(float x) { return x * 0.5; }
        float shared_with(uint i) { GroupMemoryBarrierWithGroupSync(); return half_of(box[i]); }
        float top(float x) { return shared_with(0) + half_of(x); }
    """,
    "a wave": """
        float all_of(float x) { return WaveActiveSum(x); }
        float half_of(float x) { return x * 0.5; }
        float top(float x) { return half_of(all_of(x)) + half_of(x); }
    """,
}


@pytest.mark.parametrize("name", BOUND)
def test_what_belongs_to_the_caller_is_inlined(name: str) -> None:
    found = kept(BOUND[name], KEEP)
    assert found == (["half_of"] if "half_of" in BOUND[name] else [])


def test_check_mode_inlines_what_follows_pointers_of_the_program() -> None:
    text = """
        StructuredBuffer<float> values;
        float read(float* p) { return *p * 2; }
        float over(float* p) { return read(p); }
        float at(int i) { return values[i] + 1; }
        float square(float x) { return x * x; }
        uniform float* y;
        float top(float x) { return square(at(int(x))) + over(y) + square(x); }
    """
    assert kept(text, KEEP, check=True) == ["square", "at"]


def test_functions_that_point_into_the_caller_are_inlined() -> None:
    text = """
        float read(float* p) { return *p * 2; }
        float twice(float* p) { return read(p) + read(p); }
        float plain(float x) { return x * 3; }
        float top(float x) { float y = x; return twice(&y) + plain(y); }
    """
    assert kept(text, KEEP) == ["plain", "top"]


def test_library_functions_that_report_are_inlined() -> None:
    text = """
        StructuredBuffer<float> values;
        float at(int i) { return values[i]; }
        float top(float x) { return at(int(x)) + at(1); }
    """
    assert kept(text, KEEP) == ["at", "top"]


# --- on IR: functions that use state of their callers are never kept

# fmt: off
BODIES = {
    #                            parameter                body of f                                          kept
    "arithmetic":               ("%x: f32",               "%y = mul %x, %x",                                 True),
    "global memory":            ("%x: ptr<f32, global>",  "%y = load %x : f32",                              True),
    "a static variable":        ("%x: f32",               'write_static %x {name="n"}',                      False),
    "a barrier":                ("%x: f32",               "barrier",                                         False),
    "a wave":                   ("%x: f32",               "%y = wave_lane : u32",                            False),
    "a tape":                   ("%x: [? x f32]",          "",                               False),
    "memory of a group":        ("%x: ptr<f32, shared>",  "%y = load %x : f32",                              False),
}
# fmt: on


@pytest.mark.parametrize("parameter, body, is_kept", BODIES.values(), ids=BODIES)
def test_functions_with_state_of_their_callers(parameter: str, body: str, is_kept: bool) -> None:
    program = parse_program(f"""
    func @f({parameter}) -> () {{ {body} yield }}
    func @kernel({parameter}) -> () {{kernel=true}} {{ call @f %x  call @f %x  yield }}""")
    marked = keep_calls(program, "kernel", Options(calls=KEEP)).functions
    assert bool(marked["f"].attributes.get("kept")) == is_kept
    assert not marked["kernel"].attributes.get("kept")
    assert not keep_calls(program, "kernel", Options(calls=INLINE)).functions["f"].attributes.get("kept")


def test_a_pointer_to_a_variable_binds_a_function() -> None:
    program = parse_program("""
    func @f(%p: ptr<f32, local>) -> () { %y = load %p : f32  store %p, %y  yield }
    func @kernel() -> () {kernel=true} { %v = variable : ptr<f32, local>  call @f %v  yield }""")
    assert not keep_calls(program, "kernel", Options(calls=KEEP)).functions["f"].attributes.get("kept")
