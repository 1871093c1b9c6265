"""`slangrad run`: what is printed, what is returned, how failures look."""

import subprocess
import sys

import pytest


def test_prints_and_results(slangrad, write):
    write("hello.slang", 'int main() { printf("x = %d, %f\\n", 3, 0.5); return 7; }')
    assert slangrad("run", "hello.slang") == (0, "x = 3, 0.500000\n7\n", "")


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_another_entry(slangrad, write, backend):
    write("two.slang", "void main() {}  float half_of_pi() { return 1.5; }")
    assert slangrad("run", "two.slang", "--entry", "half_of_pi", SLANGRAD_BACKEND=backend) == (0, "1.5\n", "")


def test_modules_beside_the_file_and_in_other_folders(slangrad, write):
    write("sub/main.slang", 'import "near";  import "far";  int main() { return near() + far(); }')
    write("sub/near.slang", "int near() { return 1; }")
    write("library/far.slang", "int far() { return 2; }")
    assert slangrad("run", "sub/main.slang", "-I", "library") == (0, "3\n", "")


def test_the_file_that_is_named_runs(slangrad, write):
    write("program.slang", "int main() { return 1; }")
    write("library/program.slang", "int main() { return 2; }")
    assert slangrad("run", "program.slang", "-I", "library") == (0, "1\n", "")


@pytest.mark.parametrize(
    ("text", "words", "error"),
    [
        (None, (), "error: there is no file 'program.slang'"),
        (
            "float f() { return 1; }",
            (),
            "error[E1012]: Could not find function 'main' in module 'program.slang'",
        ),
        (
            "void main(float x) {}",
            (),
            "error[E1004]: Could not call function 'main': Parameter 'x' not specified",
        ),
        ("void main() { x; }", (), "error[E0301]: 'x' is not declared\n  --> program.slang:1:15"),
        ('#error "stop"', (), "error[E0111]"),
        ("\udcff", (), "error[E0327]: 'program.slang' cannot be read"),
        ("void main() { f(); } void f() { main(); }", (), "error[E0904]"),
        ("int main() { int a[2]; int i = 5; return a[i]; }", (), "error[E0901]: index 5 is out of range"),
        ("int main() { int a[2]; int i = 5; return a[i]; }", ("--entry", "g"), "note: there are main"),
    ],
)
def test_failures(slangrad, tmp_path, text, words, error):
    if text is not None:
        (tmp_path / "program.slang").write_bytes(text.encode("utf-8", "surrogateescape"))
    code, printed, shown = slangrad("run", "program.slang", *words)
    assert (code, printed) == (1, "")
    assert error in shown


def test_unsuitable_settings(slangrad, write):
    write("program.slang", "void main() {}")
    assert slangrad("run", "program.slang", SLANGRAD_LANES="3")[0] == 1
    assert "SLANGRAD_LANES" in slangrad("run", "program.slang", SLANGRAD_LANES="3")[2]
    assert "E1015" in slangrad("run", "program.slang", SLANGRAD_BACKEND="abacus")[2]


def test_python_dash_m(tmp_path):
    (tmp_path / "hello.slang").write_text('void main() { printf("hello\\n"); }')
    done = subprocess.run(
        [sys.executable, "-m", "slangrad", "run", str(tmp_path / "hello.slang")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


FORMATS = """
void main()
{
    printf("%d %i %u %x %X %o %c|\\n", -3, 4, 5u, 255, 255, 8, 65);
    printf("%f %.2f %8.3f|%-8.3f|%+f %e %g %G\\n", 1.5, 2.345, 3.14159, 3.14159, 1.0, 12345.678, 0.0001, 1e10);
    printf("%5d|%-5d|%05d|%+d|%*d %% done\\n", 42, 42, 42, 42, 6, 42);
    printf("%d %lld %llu %f %f\\n", true, int64_t(1) << 40, uint64_t(1) << 63, half(0.5), 0.25lf);
    printf("%g %g %g\\n", float3(1, 2, 3));
    printf("%f %f\\n", 1.0f / 0, -1.0f / 0);
}
"""


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_formats(slangrad, write, backend):
    write("formats.slang", FORMATS)
    code, printed, errors = slangrad("run", "formats.slang", SLANGRAD_BACKEND=backend)
    assert (code, errors) == (0, "")
    assert printed.splitlines() == [
        "-3 4 5 ff FF 10 A|",
        "1.500000 2.35 " + "   3.142|3.142   |+1.000000 1.234568e+04 0.0001 1E+10",
        "   42|42   |00042|+42|    42 % done",
        "1 1099511627776 9223372036854775808 0.500000 0.250000",
        "1 2 3",
        "inf -inf",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bool main() { return 3 > 2; }", "True"),
        ("half main() { return 0.5h; }", "0.5"),
        ("uint64_t main() { return ~0ull; }", "18446744073709551615"),
        ("float3 main() { return float3(1, 2, 3); }", "{1, 2, 3}"),
        ("int[3] main() { return { 1, 2, 3 }; }", "[1, 2, 3]"),
        (
            "struct S { float x; int2 y; } S main() { return { 1.5, { 2, 3 } }; }",
            "{'x': 1.5, 'y': int2(2, 3)}",
        ),
        ("void main() {}", ""),
    ],
)
def test_results_of_all_kinds(slangrad, write, text, shown):
    write("program.slang", text)
    assert slangrad("run", "program.slang") == (0, f"{shown}\n" if shown else "", "")
