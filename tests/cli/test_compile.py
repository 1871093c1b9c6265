"""`slangrad compile`: files that can be imported without the sources."""

from slangrad.base.module_file import from_bytes

MAIN = "import sub.part;\nint main() { return part() + N; }"
PART = 'module part;\n#include "../n.h"\npublic int part() { return TEN; }'


def test_modules_that_run_without_their_sources(slangrad, write, tmp_path):
    write("src/main.slang", MAIN)
    write("src/sub/part.slang", PART)
    write("src/n.h", "#define TEN 10")
    code, printed, told = slangrad("compile", "src/main.slang", "-o", "lib", "--imports", "-D", "N=4")
    assert (code, told) == (0, "")
    assert printed.splitlines() == ["lib/main.slang-module", "lib/sub/part.slang-module"]
    (tmp_path / "src").rename(tmp_path / "gone")
    assert slangrad("run", "lib/main.slang-module") == (0, "14\n", "")
    module = from_bytes((tmp_path / "lib/main.slang-module").read_bytes())
    assert (module.imports, module.macros) == (("sub/part",), (("N", "4"),))


def test_names_of_outputs(slangrad, write, tmp_path):
    write("a.slang", "int f() { return 1; }")
    write("sub/a.slang", "int f() { return 2; }")
    assert slangrad("compile", "a.slang", "sub/a.slang")[1] == "a.slang-module\nsub/a.slang-module\n"
    assert slangrad("compile", "a.slang", "-o", "new/b.slang-module") == (0, "new/b.slang-module\n", "")
    code, _, told = slangrad("compile", "a.slang", "sub/a.slang", "-o", "both")
    assert (code, told) == (1, "error: two modules would be written to 'both/a.slang-module'\n")
    assert not (tmp_path / "both").exists()
    code, _, told = slangrad("compile", "a.slang", "sub/a.slang", "-o", "b.slang-module")
    assert (code, told.count("can hold one module: name a folder")) == (1, 1)


def test_what_is_wrong(slangrad, write, tmp_path):
    write("wrong.slang", "float f() { return z; }")
    code, printed, told = slangrad("compile", "wrong.slang")
    assert (code, printed) == (1, "")
    assert "  --> wrong.slang:1:20\n" in told
    assert not (tmp_path / "wrong.slang-module").exists()
    write("odd.slang", "[Unheard] float f() { return 1; }")
    code, printed, told = slangrad("compile", "odd.slang")
    assert (code, printed) == (0, "odd.slang-module\n")
    assert told.startswith("warning[E0328]: there is no attribute 'Unheard'")
    assert "there is no file 'none.slang'" in slangrad("compile", "none.slang")[2]


def test_kernels_for_a_target(slangrad, write, tmp_path):
    write(
        "k.slang",
        """
        [shader("compute")] [numthreads(32, 1, 1)]
        void twice(uint3 t : SV_DispatchThreadID, RWTensor<float, 1> x) { x[t.x] = 2 * x[t.x]; }
        [shader("compute")] [numthreads(N, 1, 1)]
        void fill<T : IFloat>(uint3 t : SV_DispatchThreadID, RWTensor<T, 1> x) { x[t.x] = T(1); }
        """,
    )
    code, printed, told = slangrad("compile", "--target", "cuda:sm_90", "-o", "kept", "-D", "N=4", "k.slang")
    assert (code, told) == (0, "")
    first, second = printed.splitlines()
    assert first == "k.slang: twice for cuda:sm_90"
    assert second.startswith("k.slang: fill, not kept: it is generic")
    assert any(entry.is_file() for entry in (tmp_path / "kept/entries").rglob("*"))
    write("none.slang", "float f(float x) { return x; }")
    for words, message in (
        (("cuda:sm_1", "k.slang"), "unknown architecture 'sm_1'"),
        (("vulkan", "k.slang"), "unknown target 'vulkan'"),
        (("interpreter", "k.slang"), "kernels of the target 'interpreter' are not kept"),
        (("cuda:sm_90", "none.slang"), "no functions marked"),
    ):
        code, _, told = slangrad("compile", "-o", "kept", "--target", *words)
        assert code == 1 and message in told
