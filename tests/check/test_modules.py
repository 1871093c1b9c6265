"""Modules: finding, importing, including, visibility, and what stays separate."""

from pathlib import Path

import pytest

from slangrad.base.diagnostics import CompileError
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from tests.check.programs import type_of


def write(folder: Path, **texts: str) -> CheckedProgram:
    """Files named by keywords, `__` for a folder; a program that looks for modules there."""
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".slang")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return CheckedProgram(Options(), [folder])


def error(program: CheckedProgram, name: str) -> str:
    with pytest.raises(CompileError) as caught:
        program.load_module(name)
    (found,) = caught.value.diagnostics
    return f"{found.code}: {found.message}"


def test_import_by_name_and_by_path(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        main='import shapes; import deep.inner; import "deep/other.slang"; '
        "float f() { return g() + h() + k(); }",
        shapes="float g() { return 1; }",
        deep__inner="float h() { return 2; }",
        deep__other="float k() { return 3; }",
    )
    module = program.load_module("main")
    assert type_of(module, "g() + h() + k()") == "float"
    assert program.load_module("main") is module


def test_a_path_is_a_name_too(tmp_path: Path) -> None:
    program = write(tmp_path, main="import near; float f() { return g(); }", near="float g() { return 1; }")
    alone = CheckedProgram()
    assert alone.load_module(str(tmp_path / "main.slang")).scope.names.keys() == {"f"}
    del program


def test_underscores_may_be_hyphens(tmp_path: Path) -> None:
    (tmp_path / "my-shapes.slang").write_text("float g() { return 1; }")
    program = write(tmp_path, main="import my_shapes; float f() { return g(); }")
    program.load_module("main")


def test_imports_are_not_passed_on_unless_exported(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        main="import middle; float f() { return g() + h(); }",
        middle="__exported import public_part; import private_part; float g() { return h() + k(); }",
        public_part="float h() { return 1; }",
        private_part="float k() { return 1; }",
        wrong="import middle; float f() { return k(); }",
    )
    program.load_module("main")
    assert error(program, "wrong") == "E0301: 'k' is not declared"


def test_an_exported_import_of_a_module_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/deep.slang").write_text("float h() { return 1; }")
    program = write(
        tmp_path,
        main="import dotted; float f() { return h(); }",
        dotted="__exported import parts.deep;",
        other="import quoted; float f() { return h(); }",
        quoted='__exported import "parts/deep.slang";',
    )
    program.load_module("main")
    program.load_module("other")


def test_several_files_make_a_module(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        main="module main; __include part; public float f() { return g(); }",
        part="implementing main; float g() { return h(); } float h() { return 1; }",
        user="import main; float k() { return f(); }",
    )
    program.load_module("user")


def test_files_of_a_module_are_looked_for_beside_the_file_that_names_them(tmp_path: Path) -> None:
    program = write(tmp_path, main="module main; __include parts.a; float f() { return g() + h(); }")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/a.slang").write_text("implementing main; __include b; float g() { return h(); }")
    (tmp_path / "parts/b.slang").write_text("implementing main; float h() { return 1; }")
    program.load_module("main")


def test_imports_are_looked_for_beside_the_file_that_has_them(tmp_path: Path) -> None:
    """An included text, a file of the module, and the module itself; also within a namespace."""
    program = write(
        tmp_path,
        main='module main;\n#include "lib/text.slang"\n __include "lib/deep/part"; float f() { return inside.g() + p() + b(); }',
        lib__text="import near; import beside; namespace inside { import far; float g() { return a() + c(); } }",
        lib__near="public float a() { return 1; }",
        beside="public float b() { return 2; }",
        lib__far="public float c() { return 3; }",
        lib__deep__part="implementing main; import deepest; float p() { return d(); }",
        lib__deep__deepest="public float d() { return 4; }",
        deepest="public float other() { return 5; }",
    )
    assert type_of(program.load_module("main"), "inside.g() + p() + b()") == "float"


def test_what_is_not_public_stays_in_a_module_that_says_public(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        closed="public float f() { return g(); } internal float g() { return 1; } float h() { return 2; }",
        open="float f() { return 1; } float g() { return 2; }",
        first="import closed; float k() { return f(); }",
        second="import closed; float k() { return g(); }",
        third="import closed; float k() { return h(); }",
        fourth="import open; float k() { return g(); }",
    )
    program.load_module("first")
    assert error(program, "second") == "E0301: 'g' is not declared"
    assert error(program, "third") == "E0301: 'h' is not declared"
    program.load_module("fourth")


def test_namespaces_join_across_files(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        main="import a; import b; using space; float f() { return space::one() + space.two() + one(); }",
        a="namespace space { float one() { return 1; } }",
        b="namespace space { namespace inner { float g() { return 2; } } "
        "float two() { return inner::g(); } }",
    )
    program.load_module("main")


@pytest.mark.parametrize("text", ["using space;", "namespace n { using space; }"])
def test_using_what_is_not_declared_is_one_error(tmp_path: Path, text: str) -> None:
    program = write(tmp_path, main=f"{text} float f() {{ return 1; }}")
    assert error(program, "main") == "E0301: 'space' is not declared"


def test_includes_are_text(tmp_path: Path) -> None:
    (tmp_path / "defs.slangh").write_text("#define TWICE(x) (2 * (x))\n")
    program = write(tmp_path, main='#include "defs.slangh"\nfloat f(float x) { return TWICE(x); }')
    program.load_module("main")


def test_texts_are_modules(tmp_path: Path) -> None:
    program = CheckedProgram()
    program.add_source("shapes", "float g() { return 1; }")
    program.files.texts["more"] = SourceFile("more", "float h() { return 2; }")
    module = program.add_source("main", "import shapes; import more; float f() { return g() + h(); }")
    assert type_of(module, "g() + h()") == "float"


def test_what_is_not_found(tmp_path: Path) -> None:
    program = write(tmp_path, main="import missing; void f() {}", circle="import circle; void f() {}")
    assert error(program, "main") == "E0327: there is no module 'missing'"
    assert error(program, "circle") == "E0326: 'circle' imports itself"
    assert error(program, "nothing") == "E0327: there is no module 'nothing'"


CIRCLE = {
    "main": "import first; import third; int f() { return a() + b() + c(); }",
    "first": "import second; import third; __exported import second; int a() { return b() + c(); }",
    "second": "import first; import apart; int b() { return 1 + one(); }",
    "third": 'import "second"; __exported import first; int c() { return a() + b(); }',
    "apart": "int one() { return 1; }",
}


def keys(folder: Path, start: str, **changed: str) -> dict[str, str]:
    """Those of all modules, where one of them is loaded first."""
    program = write(folder, **(CIRCLE | changed))
    program.load_module(start)
    return {name: program.load_module(name).key for name in CIRCLE}


def test_the_key_of_a_module_in_a_circle_has_all_texts_of_the_circle(tmp_path: Path) -> None:
    before = keys(tmp_path, "main")
    assert len(set(before.values())) == len(before)
    for start in CIRCLE:
        assert keys(tmp_path, start) == before
    for name in CIRCLE:
        after = keys(tmp_path, "main", **{name: f"{CIRCLE[name]} int more() {{ return 2; }}"})
        same = {other for other in CIRCLE if after[other] == before[other]}
        assert same == ({"apart", "first", "second", "third"} if name == "main" else {"apart"} - {name})


def test_errors_in_a_circle_are_reported_once(tmp_path: Path) -> None:
    program = write(tmp_path, **(CIRCLE | {"third": "import first; int c() { return unknown; }"}))
    assert error(program, "main") == "E0301: 'unknown' is not declared"
    assert error(program, "second") == "E0301: 'unknown' is not declared"
    assert program.load_module("apart").name.endswith("apart.slang")


def test_errors_of_an_import_are_reported_where_they_are(tmp_path: Path) -> None:
    program = write(tmp_path, main="import bad; void f() {}", bad="void g() { unknown; }")
    with pytest.raises(CompileError) as caught:
        program.load_module("main")
    (found,) = caught.value.diagnostics
    assert found.span is not None and found.span.source.name.endswith("bad.slang")


def test_a_module_that_failed_can_be_given_again() -> None:
    program = CheckedProgram()
    with pytest.raises(CompileError):
        program.add_source("m", "void f() { unknown; }")
    program.add_source("m", "void f() {}")
    program.add_source("n", "import m; void g() { f(); }")


def test_extensions_are_seen_where_they_are_imported() -> None:
    program = CheckedProgram()
    program.add_source("one", "extension float { float extra() { return 1; } }")
    program.add_source("two", "extension float { float extra() { return 2; } }")
    module = program.add_source("user", "import one; float f(float x) { return x.extra(); }")
    assert type_of(module, "x.extra()") == "float"
    with pytest.raises(CompileError):
        program.add_source("other", "float f(float x) { return x.extra(); }")


def test_a_derivative_may_come_later() -> None:
    program = CheckedProgram()
    program.add_source("base", "float f(float x) { return x * x; } float g(float x) { return f(x); }")
    program.add_source(
        "more",
        "import base; [BackwardDerivativeOf(f)] void df(inout DifferentialPair<float> x, float d) {}"
        "void g(DifferentialPair<float> x) { bwd_diff(f)(x, 1.0); }",
    )


def test_macros_of_the_user_mean_nothing_in_the_library() -> None:
    program = CheckedProgram(defines={"N": "3", "T": "4"})
    program.add_source("m", "float3 f() { return normalize(float3(N, T, 0)); }")


def test_defines() -> None:
    program = CheckedProgram(defines={"SIZE": "3"})
    text = "float f(float a[SIZE]) { return a[2]; }"
    program.add_source("m", text)
    with pytest.raises(CompileError, match="'SIZE' is not declared"):
        CheckedProgram().add_source("m", text)
