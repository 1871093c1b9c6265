"""What a test file of Slang's own suite says: how to run it, what goes into its parameters, what must come out.

    //TEST(compute):COMPARE_COMPUTE(filecheck-buffer=CHECK):-cpu -output-using-type
    //TEST_INPUT:ubuffer(data=[1.0 2], stride=4):out,name=outputBuffer      or: set outputBuffer = out ubuffer(...)
    outputBuffer[0] = f(1);     // CHECK: 3.0                               or: a file NAME.slang.expected.txt

In: a path. Out: a `Case`; `Unsupported` when this tool cannot express the test. Nothing is compiled here.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

# fmt: off
COMPUTE = ("COMPARE_COMPUTE", "COMPARE_COMPUTE_EX")
PREFERRED = ("-cpu", "-llvm", "-slang", "", "-cuda", "-vk")   # of several directives the one for the nearest target
DIRECTIVE = re.compile(
    r"^[ \t]*//[ \t]*(DISABLE_)?TEST(?:\([^)\n]*\))?:[ \t]*(\w+)(?:\(([^)\n]*)\))?:(.*)$", re.MULTILINE
)
INPUT = re.compile(r"^[ \t]*//[ \t]*TEST_INPUT[ \t]*:(.*)$", re.MULTILINE)
NEW_BUFFER = re.compile(r"set\s+([\w.]+)\s*=\s*(out\s+)?ubuffer\s*\((.*)\)\s*;?$")
OLD_BUFFER = re.compile(r"ubuffer\s*\((.*)\)\s*(?::(.*))?$")
SETTING = re.compile(r"set\s+([\w.]+)\s*=\s*(-?[\d.]+(?:e-?\d+)?)\s*;?$")
CONFORMANCE = re.compile(r"type_conformance\s+(.+?)\s*:\s*(\w+)\s*=\s*(\d+)$")
OTHER_PROGRAM = re.compile(
    r"-(compile-only|gcompute|graphics|rt|mesh|task|allow-glsl|no-default-entry-point)$"
)
MATRIX_LAYOUT = re.compile(r"-matrix-layout-(row|column)-major$")
NAMED = {"-compute-dispatch": "1,1,1", "-entry": "computeMain"}   # options that count, and what holds without
WITH_VALUE = {*NAMED, "-xslang", "-profile", "-render-feature", "-render-features", "-capability", "-D", "-I"}
# fmt: on


class Unsupported(Exception):
    """The test needs something that this tool does not offer."""


@dataclass
class Buffer:
    """A parameter that takes words of 32 bits; without a name it is the parameter at this index."""

    name: str
    words: bytes
    is_output: bool


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
    buffers: list[Buffer] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    conformances: list[tuple[str, str, int]] = field(default_factory=list)  # interface, type, id


@dataclass
class Directive:
    """One line that asks for a run."""

    number: int  # among the file's directives
    options: str
    arguments: list[str]

    @property
    def rank(self) -> int:
        ranks = [PREFERRED.index(argument) for argument in self.arguments if argument in PREFERRED]
        apis = any(re.match(r"-(d3d|dx|mtl|metal|wgpu|vulkan)", argument) for argument in self.arguments)
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
    """The file's test for the target that is nearest to a CPU."""
    source = read_text(path)
    directive = min(directives_of(source), key=lambda item: (item.rank, item.number))
    case = Case(path, source)
    read_arguments(case, directive.arguments)
    for match in INPUT.finditer(source):
        read_input(case, match[1].strip())
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


def read_input(case: Case, text: str) -> None:
    if match := CONFORMANCE.match(text):
        case.conformances.append((match[2], match[1], int(match[3])))
    elif match := NEW_BUFFER.match(text):
        case.buffers.append(Buffer(match[1], words_of(match[3]), bool(match[2])))
    elif match := OLD_BUFFER.match(text):
        marks = [mark.strip() for mark in (match[2] or "").split(",")]
        names = [mark.partition("=")[2].strip() for mark in marks if mark.startswith("name")]
        case.buffers.append(Buffer(names[0] if names else "", words_of(match[1]), "out" in marks))
    elif match := SETTING.match(text):
        case.values[match[1]] = float(match[2]) if re.search(r"[.e]", match[2]) else int(match[2])
    else:
        raise Unsupported(f"test input '{text}'")


def words_of(arguments: str) -> bytes:
    """`data=[1.0 2], stride=4, count=8`: a word with a point is a float, whatever the buffer's type."""
    data = re.search(r"data\s*=\s*\[([^\]]*)\]", arguments)
    numbers = dict(re.findall(r"(stride|count)\s*=\s*(\d+)", arguments))
    if not data or numbers.get("stride") in ("1", "2") or "random" in arguments:
        raise Unsupported(f"buffer of '{arguments}'")
    words = [word_of(token) for token in re.split(r"[\s,]+", data[1]) if token]
    return b"".join(words).ljust(4 * int(numbers.get("count", 0)), b"\0")


def word_of(token: str) -> bytes:
    if re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|\d+)[uU]?", token):
        return (int(token.rstrip("uU"), 0) & 0xFFFFFFFF).to_bytes(4, "little")
    try:
        return struct.pack("<f", float(token.rstrip("fF")))
    except ValueError:
        raise Unsupported(f"buffer with '{token}'") from None


def read_expectation(case: Case, directive: Directive) -> None:
    if match := re.search(r"filecheck-buffer\s*=\s*([\w-]+)", directive.options):
        case.prefix = match[1]
        return
    names = [f"{case.path}.{directive.number}.expected.txt", f"{case.path}.expected.txt"]
    files = [Path(name) for name in names if Path(name).exists()]
    if not files:
        raise Unsupported("no expected result")
    case.expected = read_text(files[0])
