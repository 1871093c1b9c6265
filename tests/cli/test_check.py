"""`slangrad check`: all errors of all files, for people and for editors."""

import json

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
    assert printed.splitlines()[0] == "error[E0201]: expected ';' after the returned value"
    assert "  --> wrong.slang:3:15\n3 |     float y = z;\n  |               ^\n" in printed
    assert "wrong.slang:6:18" in printed
    assert printed.splitlines()[-1] == "2 files, 3 errors, 0 warnings"


def test_json_for_editors(slangrad, write):
    write("wrong.slang", WRONG)
    code, printed, _ = slangrad("check", "--json", "wrong.slang")
    found = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert [each["code"] for each in found] == ["E0201", "E0301", "E0301"]
    assert found[1] == {
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


def test_missing_file(slangrad):
    assert slangrad("check", "nowhere.slang") == (1, "", "error: there is no file 'nowhere.slang'\n")
