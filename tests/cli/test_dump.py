"""`slangrad dump`: every stage of an example call."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TENSORS = str(EXAMPLES / "differentiable_tensors.slang")
STOPPING = str(EXAMPLES / "stopping.slang")


def stages_of(printed):
    """The text after each stage, by the stage's name."""
    parts = printed.split("// after stage '")[1:]
    return {name: text for name, _, text in (part.partition("'\n") for part in parts)}


def test_every_stage_of_the_gradient_of_a_product(slangrad):
    code, printed, errors = slangrad("dump", TENSORS, "product", "--bwd", "--all")
    stages = stages_of(printed)
    assert (code, errors) == (0, "")
    assert list(stages) == [
        "kernel", "ast", "lowered", "autodiff", "inlined", "clean", "flat", "math", "delayed", "lanes", "llvm", "asm"
    ]  # fmt: skip
    assert "uniform DiffTensor<float, 2> left," in stages["kernel"]
    assert "bwd_diff(product)(" in stages["kernel"]
    assert "Function product : void" in stages["ast"]
    assert "= vjp @" not in stages["autodiff"] and "vjp @" in stages["lowered"]
    assert ".vjp: " in stages["autodiff"] and "\n//   stored      %" in stages["autodiff"]
    assert "{reverse=true}" in stages["clean"]
    assert "= get %" in stages["clean"] and "= get %" not in stages["flat"]
    assert "lanes<f32>" in stages["lanes"]
    assert "define " in stages["llvm"] and " x float>" in stages["llvm"]
    assert ".text" in stages["asm"]


def test_plain_text_when_piped_and_color_when_not(slangrad):
    plain = slangrad("dump", STOPPING, "stoppingDistance", "--after", "lowered")[1]
    colored = slangrad("dump", STOPPING, "stoppingDistance", "--after", "lowered", FORCE_COLOR="1")[1]
    assert "\x1b[" not in plain
    assert "\x1b[" in colored


def test_forward_calls_and_forward_mode(slangrad):
    call = slangrad("dump", STOPPING, "stoppingDistance", "--after", "kernel")[1]
    tangents = slangrad("dump", STOPPING, "stoppingDistance", "--fwd", "--after", "kernel")[1]
    assert "stoppingDistance(speed.load(id), reaction.load(id), braking.load(id))" in call
    assert "fwd_diff(stoppingDistance)(speed_pair, reaction_pair, braking_pair)" in tangents


def test_parameters_with_one_value(slangrad):
    words = ["--uniform", "reaction", "--uniform", "braking"]
    printed = slangrad("dump", STOPPING, "stoppingDistance", *words, "--after", "kernel")[1]
    assert "stoppingDistance(speed.load(id), reaction, braking)" in printed


def times_of(printed):
    """Milliseconds, operations and functions by stage, from the table."""
    head, *lines = printed[printed.rindex("\nstage ") :].strip().splitlines()
    assert head.split() == ["stage", "ms", "operations", "functions"]
    return {name: tuple(map(float, numbers)) for name, *numbers in map(str.split, lines)}


def test_times(slangrad):
    table = times_of(slangrad("dump", STOPPING, "stoppingDistance", "--times")[1])
    assert list(table)[-2:] == ["asm", "sum"]
    assert abs(sum(each[0] for name, each in table.items() if name != "sum") - table["sum"][0]) < 1
    assert {name: len(each) for name, each in table.items() if len(each) != 3} == {
        "ast": 1,
        "llvm": 1,
        "asm": 1,
        "sum": 1,
    }
    assert table["lowered"][2] > 1 and table["inlined"][2] == 1
    assert table["clean"][1] < table["inlined"][1]


def test_operations_are_those_of_the_text(slangrad):
    printed = slangrad("dump", STOPPING, "stoppingDistance", "--bwd", "--after", "clean", "--times")[1]
    text = printed[: printed.rindex("\nstage ")]
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    ops = [line for line in lines if not line.startswith(("yield", "}"))]
    assert times_of(printed)["clean"][1] == len(ops)


def test_stages_of_the_interpreter(slangrad):
    printed = slangrad("dump", STOPPING, "stoppingDistance", "--all", SLANGRAD_BACKEND="interpreter")[1]
    assert list(stages_of(printed))[-1] == "math"


PROGRAM = """
struct Point : IDifferentiable
{
    float x, y;
    [Differentiable] float norm() { return sqrt(x * x + y * y); }
}

[Differentiable] T cube<T : __BuiltinFloatingPointType>(T x) { return x * x * x; }

RWStructuredBuffer<float> table;
float look_up(StructuredBuffer<float> values, int i) { return values[i] + table[i]; }

[Differentiable] void scale(inout float3 v, no_diff float s[2], out float l) { v *= s[0]; l = v.x * s[1]; }
"""


@pytest.mark.parametrize(
    ("function", "mode", "expected"),
    [
        ("Point.norm", "--bwd", "bwd_diff(Point.norm)"),
        ("cube<double>", "--bwd", "bwd_diff(cube<double>)"),
        ("look_up", None, "look_up("),
        ("scale", None, "scale("),
        ("scale", "--bwd", "bwd_diff(scale)"),
        ("scale", "--fwd", "fwd_diff(scale)"),
    ],
)
def test_examples_for_all_kinds_of_parameters(slangrad, write, function, mode, expected):
    write("program.slang", PROGRAM)
    words = ["dump", "program.slang", function, "--after", "kernel", *([mode] if mode else [])]
    code, printed, errors = slangrad(*words)
    assert (code, errors) == (0, "")
    assert expected in printed


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("nothing",), "error[E1012]: Could not find function 'nothing' in module 'program.slang'"),
        (("cube",), "error: a value of type 'T' cannot be made up: name an instance, such as 'f<float>'"),
        (("look_up", "--bwd"), "Function is not differentiable"),
        (("scale", "--after", "magic"), "error: there is no stage 'magic'; stages are: kernel, ast, lowered"),
        (("scale", "--uniform", "z"), "error: 'scale' has no parameter 'z'"),
        (("scale", "--fwd", "--bwd"), "error: choose one of --fwd and --bwd"),
    ],
)
def test_failures(slangrad, write, words, error):
    write("program.slang", PROGRAM)
    code, printed, shown = slangrad("dump", "program.slang", *words)
    assert (code, printed) == (1, "")
    assert error in shown


RELAX = """[Differentiable]
float relax(float x)
{
    for (int i = 0; i < 64; i++)
        x = x - 0.1 * (x * x * x - 1);
    return x;
}
"""


def test_the_report_tells_what_is_stored_and_why(slangrad, write):
    write("m.slang", RELAX)
    code, printed, _ = slangrad("dump", "--report", "m.slang", "relax")
    assert code == 0
    assert printed.splitlines()[:2] == [
        "@relax.vjp: 256 bytes a thread",
        "  stored      %x: f32, 256 bytes a thread, line 4: the loop carries it from one iteration to the next",
    ]


def test_the_report_with_times(slangrad, write):
    write("m.slang", RELAX)
    report = slangrad("dump", "--report", "m.slang", "relax")[1]
    both = slangrad("dump", "--report", "--times", "m.slang", "relax")[1]
    assert "stage " not in report
    assert both.startswith(report) and "asm" in times_of(both)
