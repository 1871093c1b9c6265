"""The standard library as it was parsed: what a program says of it is the same, wherever it comes from."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import slangrad as spy
from slangrad.base.diagnostics import CompileError
from slangrad.base.disk import store
from slangrad.base.disk.identity import compiler_identity
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts import standard
from slangrad.math_library import MathLibrary

WRONG = """
float f(float x) { return length(1, 2, 3); }
float g(Tensor<float, 2> t) { return t.loadx(1); }
void h(Atomic<float> a) { a.add("x"); }
"""
RIGHT = """
[Differentiable]
float3 f(float3 x) { return normalize(x) * atan2(x.x, x.y) + float3(countbits(5u)); }
"""
NEW_PROCESS = "from slangrad.cli.main import app; app()"


@pytest.fixture(autouse=True)
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of the library that were parsed."""
    names: list[str] = []
    parse = standard._parse
    monkeypatch.setattr(standard, "_parse", lambda source: (names.append(source.name), parse(source))[1])
    return names


@pytest.fixture(autouse=True)
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """As if the process began, but for the digest of the compiler."""
    compiler_identity()

    def forget() -> None:
        monkeypatch.setattr(standard, "_PARSED", {})
        monkeypatch.setattr(MathLibrary, "compiled", {})

    forget()
    return forget


def said() -> list[object]:
    """Errors about declarations of the library; the stages of a program that calls it, and their places."""
    with pytest.raises(CompileError) as caught:
        CheckedProgram().add_source("wrong", WRONG)
    module = spy.Module.load_from_source(spy.create_device(), "right", RIGHT)
    compiled = module.f.compile(spy.float3(1, 2, 3))
    lines = [each for stage in ("ast", "lowered", "math", "llvm") for each in compiled.lines(stage)]
    places = ["" if each.span is None else each.span.location for each in lines]
    assert {"std/vector", "std/derivatives", "std/math_functions"} <= {
        str(place).partition(".")[0] for place in places
    }
    numbered = [re.sub(r"kernel \d+ ", "kernel ", each) for each in places]
    return [str(caught.value), [each.text for each in lines], numbered]


def entries(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def test_a_second_process_parses_nothing(parsed: list[str], begin: Callable[[], None]) -> None:
    wanted = said()
    first = list(parsed)
    assert "std/core.slang" in first and "std/math_functions_double.slang" in first
    assert len(first) == len(set(first))
    begin()
    assert said() == wanted
    assert parsed == first


def test_where_nothing_is_kept_it_is_parsed_in_each_process(
    parsed: list[str], begin: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = said()
    first = list(parsed)
    monkeypatch.setenv("SLANGRAD_CACHE", "off")
    begin()
    assert said() == wanted
    assert parsed == first * 2


def test_parts_are_kept_by_themselves(parsed: list[str], begin: Callable[[], None]) -> None:
    CheckedProgram()
    visible = len(parsed)
    for _ in range(2):
        begin()
        CheckedProgram().add_source("m", "void f(CoopVec<float, 4> v) {}")
        CheckedProgram().add_source("m", "import half_turns;")
    assert {each.removeprefix("std/") for each in parsed[visible:]} >= {
        "cooperative_vector.slang",
        "half_turns.slang",
    }
    assert len(parsed) == len(set(parsed))


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "longer"])
def test_a_damaged_file_is_not_used(
    parsed: list[str], begin: Callable[[], None], folder: Path, damage: str
) -> None:
    CheckedProgram()
    (file,) = entries(folder)
    data = file.read_bytes()
    middle = len(data) // 2
    changed = bytes((data[middle] ^ 1,))
    file.write_bytes(
        {
            "cut": data[:middle],
            "other": data[:middle] + changed + data[middle + 1 :],
            "empty": b"",
            "longer": data + b"0",
        }[damage]
    )
    begin()
    CheckedProgram()
    assert parsed == parsed[: len(parsed) // 2] * 2
    assert len(file.read_bytes()) > len(data) // 2
    begin()
    CheckedProgram()
    assert len(parsed) == 2 * len(set(parsed))


@pytest.mark.parametrize("changed", ["compiler", "python", "text"])
def test_another_version_parses_its_own(
    parsed: list[str], begin: Callable[[], None], monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    CheckedProgram()
    number = len(parsed)
    if changed == "compiler":
        monkeypatch.setattr(standard, "compiler_identity", lambda: "another")
    elif changed == "python":
        monkeypatch.setattr(sys, "version", sys.version + "+")
    else:
        source = standard._source("core")
        monkeypatch.setattr(source, "text", source.text + " ")
    begin()
    CheckedProgram()
    assert parsed == parsed[:number] * 2
    begin()
    CheckedProgram()
    assert len(parsed) == 2 * number


def test_a_folder_that_cannot_be_written_to(
    parsed: list[str], begin: Callable[[], None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "write_whole", refuse)
    CheckedProgram()
    begin()
    CheckedProgram()
    assert parsed == parsed[: len(parsed) // 2] * 2 and entries(folder) == []


def test_a_file_that_others_may_write_is_not_used(
    parsed: list[str], begin: Callable[[], None], folder: Path
) -> None:
    CheckedProgram()
    (file,) = entries(folder)
    os.chmod(file, 0o620)
    begin()
    CheckedProgram()
    assert len(parsed) == 2 * len(set(parsed))


def test_processes_that_begin_at_once(folder: Path, tmp_path: Path, parsed: list[str]) -> None:
    """Each ends well, whoever writes first; what they leave is whole."""
    (tmp_path / "right.slang").write_text(RIGHT)
    command = [sys.executable, "-c", NEW_PROCESS, "check", str(tmp_path / "right.slang")]
    pipe = subprocess.PIPE
    begun = [subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(3)]
    assert [each.communicate() for each in begun] == [("1 file, 0 errors, 0 warnings\n", "")] * 3
    assert len(entries(folder)) == 2  # the library, and the digest of the compiler
    CheckedProgram()
    assert parsed == []
