"""The tool that runs Slang's own tests, on tests written for it."""

import importlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"

CHECKED = """
//TEST(compute):COMPARE_COMPUTE(filecheck-buffer=CHECK):-cuda -compute
//TEST(compute):COMPARE_COMPUTE(filecheck-buffer=CHECK):-cpu -output-using-type -compute-dispatch 1,1,1 -DSCALE=2
//TEST_INPUT: set input = ubuffer(data=[1.5 2.5], stride=4)
RWStructuredBuffer<float> input;
//TEST_INPUT:ubuffer(data=[0 0 7], stride=4):out,name=outputBuffer
RWStructuredBuffer<float> outputBuffer;
//TEST_INPUT: set offset = 1
uniform int offset;

[Differentiable]
float square(float x) { return x * x; }

[numthreads(2, 1, 1)]
void computeMain(uint3 id : SV_DispatchThreadID)
{
    var x = diffPair(input[id.x], 0.0);
    bwd_diff(square)(x, SCALE);
    outputBuffer[id.x] = x.d + offset;
    // CHECK: type: float
    // CHECK-NEXT: 7.0
    // CHECK-NEXT: {{1[0-9]}}.000
    // CHECK-NOT: 8
}
"""

WORDS = """
//TEST:COMPARE_COMPUTE:-cpu
//TEST_INPUT:ubuffer(data=[0 0], stride=4):out,name=outputBuffer
RWStructuredBuffer<int> outputBuffer;
[numthreads(1, 1, 1)]
void computeMain() { outputBuffer[0] = 10; outputBuffer[1] = -1; }
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)


def test_outcomes(tmp_path: Path) -> None:
    tests = {
        "checked.slang": CHECKED,
        "words.slang": WORDS,
        "words.slang.expected.txt": "A\nFFFFFFFF\n",
        "wrong.slang": WORDS,
        "wrong.slang.expected.txt": "A\nB\n",
        "broken.slang": WORDS.replace("= 10", "= nothing"),
        "broken.slang.expected.txt": "A\n",
        "refused.slang": WORDS.replace("= -1", "= assert(true)"),
        "refused.slang.expected.txt": "A\n",
        "rays.slang": WORDS.replace("ubuffer(data=[0 0], stride=4)", "AccelerationStructure"),
        "disabled.slang": WORDS.replace("//TEST:", "//DISABLE_TEST:"),
        "diagnostics.slang": "//TEST:SIMPLE(filecheck=CHECK):\nint x;\n",
    }
    write(tmp_path, {f"suite/{name}": text for name, text in tests.items()})
    saved = tmp_path / "report.json"
    command = [sys.executable, str(TOOLS / "conformance.py"), str(tmp_path), "suite", "--json", str(saved)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(
        "| folder | tests | pass | refused | mismatch | compile_error | unsupported |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| suite | 6 | 2 | 1 | 1 | 1 | 1 |\n\n"
    )
    assert "- suite/wrong.slang: mismatch: line 2: FFFFFFFF, expected B\n" in done.stdout
    outcomes = json.loads(saved.read_text())["suite"]
    assert outcomes["suite/checked.slang"] == {"status": "pass", "reason": ""}
    assert "nothing" in outcomes["suite/broken.slang"]["reason"]
    assert outcomes["suite/rays.slang"]["reason"].startswith("test input 'AccelerationStructure")


INPUTS = """
//TEST:COMPARE_COMPUTE:-vk
//TEST(compute):COMPARE_COMPUTE(filecheck-buffer=CHECK):-cpu -output-using-type -xslang -DSCALE=2
//TEST_INPUT: set parts = new Parts{ ubuffer(data=[1.5 2.5], stride=4), {3, [4.0, 5.0]} }
struct Inner { int count; float2 pair; };
struct Parts { StructuredBuffer<float> numbers; Inner inner; };
ConstantBuffer<Parts> parts;
//TEST_INPUT: set rows[0] = ubuffer(data=[7], stride=4)
//TEST_INPUT: set rows[1] = ubuffer(data=[8], stride=4)
StructuredBuffer<int> rows[2];
//TEST_INPUT: cbuffer(data=[1.0 0.0 0.0 2.0]):name=turn
ConstantBuffer<float2x2> turn;
//TEST_INPUT: set shapes = new StructuredBuffer<IShape>[new Square{3.0}, new Disk{{2.0, 5.0}}]
StructuredBuffer<IShape> shapes;
//TEST_INPUT: ubuffer(data=[-1 2 3], stride=2, count=4):name=small
StructuredBuffer<int16_t> small;
//TEST_INPUT: Texture2D(size=4, content=chessboard, arrayLength=2):name=board
Texture2DArray<float4> board;
//TEST_INPUT: Sampler(filteringMode=point):name=sampler
SamplerState sampler;
//TEST_INPUT: TextureSampler2D(size=4, content=one):name=both
Sampler2D<float4> both;
//TEST_INPUT: Texture2D(size=4, content=one, sampleCount=two, format=RGBA32Float):name=several
Texture2DMS<float4> several;
//TEST_INPUT: set mixed = new Tuple<Texture2D, SamplerState>{Texture2D(size=4, content=one), Sampler}
ConstantBuffer<Tuple<Texture2D, SamplerState>> mixed;
//TEST_INPUT: uniform(data=[4 5]):name=limits
uniform int2 limits;
//TEST_INPUT: set value = ubuffer(data=[6.5], stride=4)
uniform float* value;
//TEST_INPUT: set places = ubuffer(data=[value], stride=8)
StructuredBuffer<float*> places;
//TEST_INPUT: ubuffer(data=[0], stride=4, count=19):out,name=outputBuffer
RWStructuredBuffer<float> outputBuffer;

interface IShape { float area(); }
struct Square : IShape { float side; float area() { return side * side; } };
struct Disk : IShape { float2 radii; float area() { return radii.x * radii.y; } };

[numthreads(1, 1, 1)]
void computeMain()
{
    float values[] = { parts.numbers[1], float(parts.inner.count), parts.inner.pair.y, float(rows[0][0]), float(rows[1][0]),
        turn[1][1], shapes[0].area(), shapes[1].area(), float(small[0]), float(small[3]), board.Load(int4(0, 3, 1, 0)).x,
        board.SampleLevel(sampler, float3(0.1, 0.1, 0), 0).x, float(limits.y), *value, *places[0], SCALE, both.Sample(float2(0)).x,
        several[int2(3, 3), 1].x * 2, mixed._0.SampleLevel(mixed._1, float2(0), 0).x * 3 };
    for (int i = 0; i < 19; i++)
        outputBuffer[i] = values[i];
    // CHECK: type: float
    // CHECK-HLSL: is the rule of another test
    // CHECK-NEXT: 2.5
    // CHECK-NEXT: 3.0
    // CHECK-NEXT: 5.0
    // CHECK-NEXT: 7.0
    // CHECK-NEXT: 8.0
    // CHECK-NEXT: 2.0
    // CHECK-NEXT: 9.0
    // CHECK-NEXT: 10.0
    // CHECK-NEXT: -1.0
    // CHECK-NEXT: 0.0
    // CHECK-NEXT: 1.0
    // CHECK-NEXT: 0.50
    // CHECK-NEXT: 5.0
    // CHECK-COUNT-2: 6.5
    // CHECK-NEXT: 2.0
    // CHECK-NEXT: 1.0
    // CHECK-NEXT: 2.0
    // CHECK-NEXT: 3.0
}
"""


def test_kinds_of_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    write(tmp_path, {"inputs.slang": INPUTS})
    outcome = importlib.import_module("conformance").outcome(tmp_path / "inputs.slang")
    assert outcome == {"status": "pass", "reason": ""}


@pytest.mark.parametrize(
    "line",
    [
        "set x = new",
        "set x = [1, 2",
        "ubuffer(data=[1 2",
        "set x = TextureSampler2DRect(size=4)",
        "globalSpecializationArg A",
    ],
)
def test_lines_that_are_no_input(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    module = importlib.import_module("slang_inputs")
    with pytest.raises(module.Unsupported):
        module.Inputs().add(line)


COLUMNS = """
//TEST:COMPARE_COMPUTE: -cpu -Xslang... -matrix-layout-column-major -X.
//TEST_INPUT:ubuffer(data=[1.0 2.0 3.0 4.0 5.0 6.0], stride=4):name=matrices
RWStructuredBuffer<float2x3> matrices;
//TEST_INPUT:ubuffer(data=[0 0], stride=4):out,name=outputBuffer
RWStructuredBuffer<int> outputBuffer;
[numthreads(1, 1, 1)]
void computeMain() { outputBuffer[0] = int(matrices[0][0][1]); outputBuffer[1] = int(matrices[0][1][0]); }
"""


def test_the_page_names_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = COLUMNS.replace("-column-", "-row-")
    files = {"columns.slang": COLUMNS, "rows.slang": rows, "columns.slang.expected.txt": "3\n2\n"}
    write(tmp_path, {f"suite/{name}": text for name, text in files.items()})
    write(tmp_path, {"suite/rows.slang.expected.txt": "2\n4\n"})
    page = tmp_path / "page.md"
    monkeypatch.syspath_prepend(TOOLS)
    marks = importlib.import_module("conformance_page")
    page.write_text(f"{marks.START}{marks.END}")
    command = [sys.executable, str(TOOLS / "conformance.py"), str(tmp_path), "suite", "--page", str(page)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    run = partial(subprocess.run, capture_output=True, text=True, env=environment, check=False)
    assert "is no git checkout: --version tells" in run(command).stderr
    done = run([*command, "--version", "v1"])
    assert done.returncode == 0, done.stderr
    assert ", tests of Slang v1: `python" in page.read_text() and "| all | 2 | 2 | 0 |" in page.read_text()
    for arguments in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1", "--allow-empty"],
    ):
        assert run(["git", "-C", str(tmp_path), *arguments]).returncode == 0
    commit = run(["git", "-C", str(tmp_path), "log", "-1", "--format=%h"]).stdout.strip()
    run(command)
    assert f", tests of Slang {commit}: `python" in page.read_text()


def test_an_unknown_folder_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, str(TOOLS / "conformance.py"), str(tmp_path), "nowhere"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert "no 'nowhere' in" in done.stderr


@pytest.mark.parametrize(
    ("output", "expected", "message"),
    [
        ("type: float\n1.00001\n", "type: float\n1.0\n", ""),
        ("type: float\n1.001\n", "type: float\n1.0\n", "line 2: 1.001, expected 1.0"),
        ("type: float\n0.000001\n", "type: float\n0.0\n", "line 2: 0.000001, expected 0.0"),
        ("type: int32_t\n1\n2\n", "type: int32_t\n1\n", ""),
        ("type: int32_t\n1\n", "type: int32_t\n1\n2\n", "line 3: nothing, expected 2"),
        ("type: int32_t\n10001\n", "type: int32_t\n10000\n", "line 2: 10001, expected 10000"),
        ("type: float\n1\n", "type: int32_t\n1\n", "line 1: type: float, expected type: int32_t"),
    ],
)
def test_expected_lines(output: str, expected: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    assert importlib.import_module("expectations").against_lines(output, expected) == message


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("// C: 2\n// C-NEXT: 3", ""),
        ("// C: 1\n// C-NEXT: 3", "C-NEXT finds no '3' after line 2"),
        ("// C: 3\n// C: 1", "C finds no '1' after line 4"),
        ("// C: 1\n// C-NOT: 2\n// C: 3", "'2' must not be there"),
        ("// C: 4\n// C-SAME: 5\n/* C-NOT: 2 */", ""),
        ("// C: {{[12]}}\n// C: {{[12]}}", ""),
        ("// C: type:   int", ""),
    ],
)
def test_check_comments(rules: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    output = "type: int\n1\n2\n3\n4 5\n"
    assert importlib.import_module("expectations").against_checks(output, rules, "C") == message


def test_what_cannot_be_checked_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    expectations, slang_tests = map(importlib.import_module, ("expectations", "slang_tests"))
    for rules in ("// C-DAG: 1", "// C: [[X:1]]", "// OTHER: 1"):
        with pytest.raises(slang_tests.Unsupported):
            expectations.against_checks("1\n", rules, "C")


def test_the_page_has_counts_and_failures_by_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    module = importlib.import_module("conformance_page")
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{module.START}\nold\n{module.END}\n\nAfter\n")
    undeclared = {
        "status": "compile_error",
        "reason": "error[E0301]: 'T<x>' is not declared\n --> /a/b.slang:1:2",
    }
    report = {
        "first": {
            "first/a.slang": {"status": "pass", "reason": ""},
            "first/c.slang": undeclared,
            "first/b/d.slang": undeclared,
            "first/e.slang": {"status": "mismatch", "reason": "line 3: 1, expected 2"},
            "first/g.slang": {"status": "refused", "reason": "error[E9001]: textures"},
            "first/f.slang": {"status": "unsupported", "reason": "an option"},
        },
        "second": {"second/a.slang": {"status": "pass", "reason": ""}},
    }
    module.write_page(page, report, "Today")
    assert (
        page.read_text()
        == f"""# Before

{module.START}

Today

| folder | tests | pass | refused | fail | cannot be expressed |
|---|---|---|---|---|---|
| first | 6 | 1 | 1 | 3 | 1 |
| second | 1 | 1 | 0 | 0 | 0 |
| all | 7 | 2 | 1 | 3 | 1 |

### first

| reason | | tests |
|---|---|---|
| E0301: 'T\\<x>' is not declared | 2 | `b/d`, `c` |
| E9001: textures | 1 | `g` |
| mismatch: line 3: 1, expected 2 | 1 | `e` |

### second

All pass.

{module.END}

After
"""
    )
