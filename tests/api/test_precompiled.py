"""Precompiled modules: what was compiled in one place is imported in another, without its sources."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy
from slangrad.marshal.errors import CallError

SOURCES = {
    "springs.slang": """
        module springs;
        #include "inc/constants.h"
        __include parts;
        import waves;

        extern static const double GAIN = 1;

        [Differentiable] public double force(double x) { return STIFFNESS * x * wave(x) * part(x) * GAIN; }

        public interface IEnergy : IDifferentiable { [Differentiable] double energy(double x); }
        public struct Linear : IEnergy { double k; [Differentiable] double energy(double x) { return k * x; } }
        public struct Square : IEnergy { double k; [Differentiable] double energy(double x) { return k * x * x; } }
        [Differentiable] public double total<T : IEnergy>(T one, double x) { return one.energy(x) + force(x); }
        public T pick<T : IComparable>(T a, T b) { if (a.lessThan(b)) return b; return a; }
    """,
    "inc/constants.h": '#include "deeper.h"\n#define STIFFNESS (SCALE * DEEPER)\n',
    "inc/deeper.h": "#define DEEPER 2\n#ifndef SCALE\n#define SCALE 1\n#endif\n",
    "parts.slang": "implementing springs;\n[Differentiable] double part(double x) { return x; }\n",
    "waves.slang": """
        module waves;
        [Differentiable] public double wave(double x) { return sin(x); }
        public extension double { public double doubled() { return 2 * this; } }
    """,
}
USER = """
    import springs;
    import waves;

    [Differentiable] double square(double k, double x) { Square s = { k }; return total(s, x); }
    double slope(double k, double x) { return fwd_diff(square)(diffPair(k, 0.0), diffPair(x, 1.0)).d; }
    double doubled(double x) { return pick(x.doubled(), 0.5); }
    double dynamic(int kind, double x)
    {
        IEnergy one = Linear(3.0);
        if (kind == 1) one = Square(5.0);
        return one.energy(x);
    }
"""
X = np.linspace(-1, 2, 7)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def device_for(*folders: Path, **options: object) -> spy.Device:
    return spy.create_device(compiler_options={"include_paths": folders, **options})


def compiled(folder: Path, name: str, text: str) -> bytes:
    """A source's precompiled module; the source is not there any more."""
    source = folder / f"{name}.slang"
    source.write_text(text)
    data = device_for(folder).load_module(name).serialize()
    source.unlink()
    return data


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with compiled modules alone."""
    sources, library = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("library")
    write(sources, SOURCES)
    device = device_for(sources, defines={"SCALE": "1.5"})
    for name in ("springs", "waves"):
        device.load_module(name).write_to_file(library / f"{name}.slang-module")
    return library


@pytest.fixture(scope="module")
def user(library: Path) -> spy.Module:
    return spy.Module.load_from_source(device_for(library), "user", USER)


def square(x: np.ndarray) -> np.ndarray:
    """In Slang: k is 4, and the macro SCALE was 1.5 when the module was compiled."""
    return 4 * x * x + 3 * x * np.sin(x) * x


def test_functions_and_derivatives(user: spy.Module) -> None:
    assert user.square(4.0, X, _result="numpy") == pytest.approx(square(X))
    differences = (square(X + 1e-6) - square(X - 1e-6)) / 2e-6
    assert user.slope(4.0, X, _result="numpy") == pytest.approx(differences, rel=1e-8, abs=1e-8)
    slopes = user.slope(4.0, X, _result="numpy")
    assert np.asarray(spy.grad(user.square, 1)(4.0, X)) == pytest.approx(slopes, rel=1e-12)
    nested = spy.hvp(user.square, (4.0, X), (None, np.ones_like(X)))[1]
    differences = (square(X + 1e-4) - 2 * square(X) + square(X - 1e-4)) / 1e-8
    assert np.asarray(nested) == pytest.approx(differences, rel=1e-5, abs=1e-5)


def test_generics_extensions_and_dispatch(user: spy.Module) -> None:
    assert user.doubled(X, _result="numpy") == pytest.approx(np.maximum(2 * X, 0.5))
    assert [user.dynamic(kind, 2.0) for kind in (0, 1)] == [6.0, 20.0]


def test_link_time_constants(library: Path) -> None:
    """What a precompiled module leaves open is given by another one."""
    device = device_for(library)
    gain = device.load_module_from_source("gain", "export static const double GAIN = 10;").serialize()
    main = """
        import springs;
        [shader("compute")] [numthreads(1, 1, 1)]
        void main(RWStructuredBuffer<double> out) { out[0] = force(0.5); }
    """
    module = device.load_module_from_source("main", main)
    for modules, factor in (([module], 1), ([module, device.load_module_from_ir_blob("given", gain)], 10)):
        program = device.link_program(modules, [module.entry_point("main")])
        out = device.create_buffer(element_count=1, struct_size=8)
        device.create_compute_kernel(program).dispatch([1, 1, 1], out=out)
        assert out.to_numpy().view(np.float64)[0] == pytest.approx(3 * 0.5 * np.sin(0.5) * 0.5 * factor)


def test_what_a_file_says_of_itself(library: Path) -> None:
    device = device_for(library)
    module = device.load_module("springs.slang")
    assert module.path == str(library / "springs.slang-module")
    assert module is device.load_module(str(library / "springs.slang-module"))
    assert module.serialize() == (library / "springs.slang-module").read_bytes()


def test_errors_show_the_line(tmp_path: Path) -> None:
    """Of a text in the file, where the module that it imports has changed."""
    (tmp_path / "inner.slang").write_text("public float g(float x) { return x; }")
    data = compiled(
        tmp_path,
        "outer",
        "import inner;\nfloat f() { return g(1); }",
    )
    (tmp_path / "outer.slang-module").write_bytes(data)
    (tmp_path / "inner.slang").write_text("public float h(float x) { return x; }")
    with pytest.raises(spy.CompileError) as caught:
        device_for(tmp_path).load_module("outer")
    shown = f"  --> {tmp_path}/outer.slang-module/outer.slang:2:20\n2 | float f() {{ return g(1); }}\n"
    assert "error[E0301]: 'g' is not declared" in str(caught.value)
    assert shown + "  |                    ^" in str(caught.value)


def test_a_source_comes_first(tmp_path: Path) -> None:
    build, sources = tmp_path / "build", tmp_path / "sources"
    write(
        tmp_path,
        {"build/now.slang": "float f() { return 1; }", "sources/now.slang": "float f() { return 2; }"},
    )
    (build / "now.slang-module").write_bytes(compiled(build, "now", "float f() { return 1; }"))
    assert "return 2" in device_for(build, sources).slang_session.load_source("now")
    as_it_is = device_for(build, sources, use_up_to_date_binary_module=False)
    assert "return 1" in as_it_is.slang_session.load_source("now")


def test_modules_of_one_folder_belong_together(tmp_path: Path) -> None:
    """What a module imports is looked for beside it first, whatever else has the name."""
    library, program = tmp_path / "library", tmp_path / "program"
    write(
        tmp_path,
        {"library/inner.slang": "public float g() { return 1; }", "program/inner.slang": "int other;"},
    )
    outer = compiled(library, "outer", "import inner;\nfloat f() { return g(); }")
    inner = compiled(library, "inner", "public float g() { return 1; }")
    (library / "outer.slang-module").write_bytes(outer)
    (library / "inner.slang-module").write_bytes(inner)
    assert spy.Module.load_from_file(device_for(program, library), "outer").f() == 1


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    data = compiled(tmp_path, "cut", "float f() { return 3; }")
    (tmp_path / "cut.slang-module").write_bytes(data[:-5])
    (tmp_path / "foreign.slang-module").write_bytes(b"RIFF\x10\0\0\0SLmc")
    device = device_for(tmp_path)
    with pytest.raises(spy.CompileError) as caught:
        device.load_module_from_source("user", "import cut;\nimport foreign;")
    cut, foreign = str(caught.value).split("\n\n")
    assert cut.startswith(f"error[E0330]: '{tmp_path}/cut.slang-module' is cut off\n  --> user:1:1\n")
    assert "foreign.slang-module' was made by Slang's own compiler" in foreign
    assert "note: compile its source again: slangrad compile FILE" in foreign
    (tmp_path / "cut.slang").write_text("float f() { return 3; }")
    assert device.load_module("cut").path == str(tmp_path / "cut.slang")


def test_bytes(tmp_path: Path) -> None:
    device = device_for(tmp_path)
    data = compiled(tmp_path, "seven", "public int seven() { return 7; }")
    module = device.load_module_from_ir_blob("seven", data)
    assert device.load_module_from_ir_blob("seven", data) is module
    assert spy.Module.load_from_source(device, "u", "import seven; int f() { return seven(); }").f() == 7
    with pytest.raises(spy.CompileError, match=r"E0330\]: 'x.slang-module' is no precompiled module"):
        device.load_module_from_ir_blob("x", b"x")
    both = device.compose_modules("both", [module, module])
    with pytest.raises(CallError, match="'both' is composed of several modules"):
        both.serialize()


def test_warnings_are_told_once(tmp_path: Path) -> None:
    with pytest.warns(spy.CompileWarning, match="there is no attribute 'Unheard'"):
        data = compiled(tmp_path, "odd", "[Unheard] float f() { return 1; }")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = device_for(warnings_as_errors=["E0328"]).load_module_from_ir_blob("odd", data)
        assert module.entry_points == []


def test_a_file_that_is_compiled_anew(tmp_path: Path) -> None:
    files = [compiled(tmp_path, "it", f"float f() {{ return {value}; }}") for value in (1, 2)]
    (tmp_path / "it.slang-module").write_bytes(files[0])
    device = device_for(tmp_path)
    assert "return 1" in device.slang_session.load_source("it")
    (tmp_path / "it.slang-module").write_bytes(files[1])
    device.hot_reload_check()
    assert "return 2" in device.slang_session.load_source("it")


def test_slangpys_own_module_is_the_librarys(tmp_path: Path) -> None:
    """Whatever a folder has under that name."""
    (tmp_path / "slangpy.slang").write_text("what other compilers know")
    device = device_for(tmp_path)
    assert device.slang_session.load_module("slangpy").entry_points == []
    assert spy.Module.load_from_source(device, "u", "import slangpy; int f() { return 7; }").f() == 7
