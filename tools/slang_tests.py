"""What a test file of Slang's own suite says: how to run it, what goes into its parameters, what must come out.

    //TEST(compute):COMPARE_COMPUTE(filecheck-buffer=CHECK):-cpu -output-using-type
    //TEST_INPUT:ubuffer(data=[1.0 2], stride=4):out,name=outputBuffer      or: set outputBuffer = out ubuffer(...)
    outputBuffer[0] = f(1);     // CHECK: 3.0                               or: a file NAME.slang.expected.txt

In: a path. Out: a `Case`; `Unsupported` when this tool cannot express the test. Nothing is compiled here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from slang_inputs import Inputs, Unsupported

# fmt: off
COMPUTE = ("COMPARE_COMPUTE", "COMPARE_COMPUTE_EX")
PREFERRED = ("-cpu", "-llvm", "", "-cuda", "-vk")   # of several directives the one for the nearest target
DIRECTIVE = re.compile(
    r"^[ \t]*//[ \t]*(DISABLE_)?TEST(?:\([^)\n]*\))?:[ \t]*(\w+)(?:\(([^)\n]*)\))?:(.*)$", re.MULTILINE
)
INPUT = re.compile(r"^[ \t]*//[ \t]*TEST_INPUT[ \t]*:(.*)$", re.MULTILINE)
OTHER_PROGRAM = re.compile(
    r"-(compile-only|gcompute|graphics|rt|mesh|task|allow-glsl|no-default-entry-point|lang|msvc-style-bitfield-packing)$"
)
MATRIX_LAYOUT = re.compile(r"-matrix-layout-(row|column)-major$")
NAMED = {"-compute-dispatch": "1,1,1", "-entry": "computeMain"}   # options that count, and what holds without
WITH_VALUE = {*NAMED, "-profile", "-render-feature", "-render-features", "-capability", "-D", "-I"}
# fmt: on


@dataclass
class Case:
    """One test, read."""

    path: Path
    source: str
    entry: str = "computeMain"
    groups: tuple[int, ...] = (1, 1, 1)
    is_typed: bool = False  # the output is written with its type, else as hexadecimal words
    prefix: str = ""  # of the check comments; "": there is a file with the expected lines
    expected: str = ""
    matrix_layout: str = "row_major"
    defines: dict[str, str] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=Inputs)


@dataclass
class Directive:
    """One line that asks for a run."""

    number: int  # among the file's directives
    options: str
    arguments: list[str]

    @property
    def rank(self) -> int:
        ranks = [PREFERRED.index(argument) for argument in self.arguments if argument in PREFERRED]
        apis = any(
            re.match(r"-(d3d|dx|mtl|metal|wgpu|webgpu|vulkan)", argument) for argument in self.arguments
        )
        return min(ranks, default=len(PREFERRED) if apis else PREFERRED.index(""))


def directives_of(source: str) -> list[Directive]:
    """The enabled compute tests of a file."""
    if "TEST_IGNORE_FILE" in source:
        return []
    matches = enumerate(DIRECTIVE.finditer(source))
    return [
        Directive(number, match[3] or "", match[4].split())
        for number, match in matches
        if match[2] in COMPUTE and not match[1]
    ]


def read_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def read_case(path: Path) -> Case:
    """The file's test for the target that is nearest to a CPU; of tests that this tool cannot express, another one."""
    source = read_text(path)
    refusal = Unsupported("no compute test")
    for directive in sorted(directives_of(source), key=lambda item: (item.rank, item.number)):
        case = Case(path, source)
        try:
            read_arguments(case, directive.arguments)
            break
        except Unsupported as error:
            refusal = error
    else:
        raise refusal
    for match in INPUT.finditer(source):
        case.inputs.add(match[1].strip())
    read_expectation(case, directive)
    return case


def read_arguments(case: Case, arguments: list[str]) -> None:
    options, rest = dict(NAMED), iter(arguments)
    for argument in rest:
        if OTHER_PROGRAM.match(argument):
            raise Unsupported(f"option {argument}")
        if match := MATRIX_LAYOUT.match(argument):
            case.matrix_layout = f"{match[1]}_major"
        case.is_typed |= argument == "-output-using-type"
        value = next(rest, "") if argument in WITH_VALUE else ""
        if argument in NAMED:
            options[argument] = value
        elif argument.startswith("-D"):
            name, _, text = (argument[2:] or value).partition("=")
            case.defines[name] = text or "1"
    case.groups = tuple(map(int, options["-compute-dispatch"].split(",")))
    case.entry = options["-entry"]


def read_expectation(case: Case, directive: Directive) -> None:
    if match := re.search(r"filecheck-buffer\s*=\s*([\w-]+)", directive.options):
        case.prefix = match[1]
        return
    names = [f"{case.path}.{directive.number}.expected.txt", f"{case.path}.expected.txt"]
    files = [Path(name) for name in names if Path(name).exists()]
    if not files:
        raise Unsupported("no expected result")
    case.expected = read_text(files[0])
