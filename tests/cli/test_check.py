"""`slangrad check`: all errors of all files, for people and for editors."""

import json
import subprocess
import sys

import pytest

import slangrad as package

WRONG = """\
float f(float x)
{
    float y = z;
    return y
}
int g() { return h(); }
"""


def test_files_without_errors(slangrad, write):
    write("one.slang", "float f(float x) { return x; }")
    write("two.slang", 'import "one";  float g(float x) { return f(x); }')
    assert slangrad("check", "one.slang", "two.slang") == (0, "2 files, 0 errors, 0 warnings\n", "")


def test_several_errors_in_one_run(slangrad, write):
    write("wrong.slang", WRONG)
    write("right.slang", "float f(float x) { return x; }")
    code, printed, _ = slangrad("check", "wrong.slang", "right.slang")
    assert code == 1
    assert printed.splitlines()[0] == "error[E0301]: 'z' is not declared"  # as the text has them
    assert "  --> wrong.slang:3:15\n3 |     float y = z;\n  |               ^\n" in printed
    assert "wrong.slang:6:18" in printed
    assert printed.splitlines()[-1] == "2 files, 3 errors, 0 warnings"


def test_json_for_editors(slangrad, write):
    write("wrong.slang", WRONG)
    code, printed, _ = slangrad("check", "--json", "wrong.slang")
    found = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert [each["code"] for each in found] == ["E0301", "E0201", "E0301"]
    assert found[0] == {
        "severity": "error",
        "code": "E0301",
        "message": "'z' is not declared",
        "note": None,
        "file": "wrong.slang",
        "line": 3,
        "column": 15,
        "endLine": 3,
        "endColumn": 16,
    }


def test_errors_of_an_imported_file_are_shown_once(slangrad, write):
    write("base.slang", "int f() { return undefined; }")
    write("one.slang", 'import "base";')
    write("two.slang", 'import "base";')
    code, printed, _ = slangrad("check", "one.slang", "two.slang", "base.slang")
    assert code == 1
    assert printed.count("'undefined' is not declared") == 1


def test_modules_of_one_name_in_two_folders(slangrad, write):
    write("a/shape.slang", "int corners() { return 3; }")
    write("a/main.slang", 'import "shape";  int f() { return corners(); }')
    write("b/shape.slang", "int edges() { return 4; }")
    write("b/main.slang", 'import "shape";  int f() { return edges(); }')
    assert slangrad("check", "a/main.slang", "b/main.slang")[0] == 0


def test_missing_files_do_not_keep_others_from_being_checked(slangrad, write, tmp_path):
    write("wrong.slang", "int f() { return z; }")
    (tmp_path / "folder.slang").mkdir()
    code, printed, errors = slangrad("check", "nowhere.slang", "wrong.slang", "folder.slang")
    assert (code, errors) == (1, "")
    assert "error[E0327]: there is no file 'nowhere.slang'\n" in printed
    assert "error[E0327]: there is no file 'folder.slang'\n" in printed
    assert "error[E0301]: 'z' is not declared" in printed
    assert printed.splitlines()[-1] == "3 files, 3 errors, 0 warnings"


def test_several_files_for_editors(slangrad, write):
    write("one.slang", "int f() { return a; }")
    write("two.slang", "[Notes] int f() { return b; }")
    code, printed, _ = slangrad("check", "--json", "one.slang", "two.slang", "three.slang")
    found = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert sorted((each["severity"], each["code"], each.get("file")) for each in found) == [
        ("error", "E0301", "one.slang"),
        ("error", "E0301", "two.slang"),
        ("error", "E0327", None),
        ("warning", "E0328", "two.slang"),
    ]


def test_warnings_are_no_errors(slangrad, write):
    write("warned.slang", "#warning careful\nint f() { return 1; }")
    code, printed, _ = slangrad("check", "warned.slang")
    assert code == 0
    assert "warning[E0112]: #warning careful\n  --> warned.slang:1:2" in printed
    assert printed.splitlines()[-1] == "1 file, 0 errors, 1 warning"


@pytest.mark.parametrize(
    ("contents", "error"),
    [
        (
            b"\xff\xfe\x00float",
            "error[E0327]: 'damaged.slang' cannot be read: it is no text in UTF-8 from byte 0 on",
        ),
        (b"\0float f;", "error[E0101]: unexpected character '\\x00'\n  --> damaged.slang:1:1"),
        (b'float f( { ] "', "error[E0102]"),
        (b"{" * 5000, "error[E0204]"),
        (b"float f() { return " + b"(" * 5000, "error[E0206]: this is nested more than 256 deep"),
        (b"/* no end", "error[E0102]"),
    ],
)
def test_damaged_files(slangrad, tmp_path, contents, error):
    (tmp_path / "damaged.slang").write_bytes(contents)
    code, printed, errors = slangrad("check", "damaged.slang")
    assert (code, errors) == (1, "")
    assert error in printed


def test_an_empty_file(slangrad, write):
    write("empty.slang", "")
    assert slangrad("check", "empty.slang") == (0, "1 file, 0 errors, 0 warnings\n", "")


@pytest.mark.parametrize("words", [("check",), ("check", "--unknown", "a.slang"), ("inspect", "a.slang")])
def test_commands_that_are_not_understood(slangrad, words):
    assert slangrad(*words)[0] == 2


def test_version(slangrad):
    code, printed, _ = slangrad("--version")
    assert (code, printed) == (0, f"slangrad {package.__version__}\n")


def test_errors_are_shown_without_the_back_end(tmp_path):
    """Nobody waits for what a command does not need."""
    (tmp_path / "wrong.slang").write_text("float f() { return x; }")
    unneeded = ["numpy", "llvmlite", "rich.console", "slangrad.pipeline", "slangrad.lower", "slangrad.api"]
    text = f"""
import sys
from slangrad.cli.main import app
try:
    app(["check", {str(tmp_path / "wrong.slang")!r}])
except SystemExit as end:
    print(end.code, [each for each in {unneeded} if each in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "1 []", done.stderr
