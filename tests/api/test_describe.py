"""What editors, `help()`, notebooks and type checkers find."""

import inspect
import pydoc
import rlcompleter
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import slangrad as spy

SOURCE = """
/// Scales a vector.
///
/// By two, if nothing is said.
[Differentiable]
float3 scale(float3 v, no_diff float by = 2.0) { return v * by; }

/** Of one number. */
float twice(float x) { return 2 * x; }
/**
 * Of a whole number.
 *   Indented.
 */
int twice(int x) { return 2 * x; }

/// Too far away to belong to anything.

void fill(inout float x, out int lambda, RWTensor<float, 1> t) { lambda = 1; }
float other(float a, float b = 1.0f + 2.0f) { return a; }
float other(int c) { return c; }
/* an ordinary comment */
T same<T, let N : int>(T x[N]) { return x[0]; }
//// a ruler
float plain(float a /* inner */) { return a; }

/// Something with mass.
struct Body : IDifferentiable
{
    float3 place;
    float mass;
    struct Inner { int a; }
    /// Half of m v^2.
    [Differentiable] float energy(float3 v) { return 0.5 * mass * dot(v, v); }
    static int count() { return 3; }
    [mutating] void grow(float by) { mass += by; }
}
enum Color { Red, Green }
interface IShape { float area(); }
"""


@pytest.fixture(scope="module")
def module() -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(), "described", SOURCE)


def test_names_are_listed(module: spy.Module) -> None:
    own = ["scale", "twice", "fill", "other", "same", "plain", "Body", "Color", "IShape"]
    assert set(own) <= set(dir(module))
    assert sorted(module._ipython_key_completions_()) == sorted(own)
    assert set(dir(module.Body)) - set(dir(spy.Struct)) == {"Inner", "energy", "count", "grow"}
    assert module.Body._ipython_key_completions_() == ["Inner", "count", "energy", "grow"]
    assert set(dir(module.Color)) - set(dir(type(module.Color))) == {"Red", "Green"}
    completer = rlcompleter.Completer({"m": module})
    assert (completer.complete("m.sca", 0), completer.complete("m.sca", 1)) == ("m.scale(", None)
    assert completer.complete("m.Body.ener", 0) == "m.Body.energy("
    for name in module._ipython_key_completions_():
        assert getattr(module, name) is not None


def test_signatures(module: spy.Module) -> None:
    def shown(function: object) -> str:
        return str(inspect.signature(function))  # type: ignore[arg-type]

    ending = "*, _result=None, _append_to=None)"
    assert shown(module.scale) == f"(v: 'float3', by: 'no_diff float' = 2.0, {ending} -> 'float3'"
    assert shown(module.twice) == f"(x: 'float | int', {ending} -> 'float | int'"
    assert shown(module.other) == "(*args, _result=None, _append_to=None, **kwargs) -> 'float'"
    assert shown(module.fill) == (
        "(x: 'inout float', lambda_: 'out int', t: 'RWTensor<float, 1>', *, _append_to=None) -> None"
    )
    assert shown(module.same) == f"(x: 'T[N]', {ending} -> 'T'"
    assert shown(module.scale.bwds) == shown(module.scale.map(v=(0,))) == shown(module.scale)
    energy = module.Body.energy
    assert shown(energy) == f"(_this: 'Body', v: 'float3', {ending} -> 'float'"
    assert shown(energy.bind({"mass": 1.0})) == f"(v: 'float3', {ending} -> 'float'"
    assert shown(module.Body.count) == f"({ending[:-1].strip()}) -> 'int'"
    assert list(inspect.signature(spy.Function).parameters)[:2] == ["module", "name"]


def test_texts_of_functions(module: spy.Module) -> None:
    scale = module.scale
    assert (scale.__name__, scale.__qualname__, scale.__module__) == ("scale", "scale", "described")
    assert module.Body.energy.__qualname__ == "Body.energy"
    assert scale.__doc__ == (
        "[Differentiable] float3 scale(float3 v, no_diff float by = 2.0)\n\n"
        "Scales a vector.\n\nBy two, if nothing is said."
    )
    assert module.twice.__doc__ == (
        "float twice(float x)\n\nOf one number.\n\nint twice(int x)\n\nOf a whole number.\n  Indented."
    )
    for name in ("fill", "same", "plain"):
        assert "\n" not in getattr(module, name).__doc__
    assert module.plain.__doc__ == "float plain(float a)"
    assert module.Body.energy.bind({}).__doc__.endswith("Half of m v^2.")
    assert "Scales a vector." in pydoc.render_doc(scale, renderer=pydoc.plaintext)
    assert str(spy.Function.__doc__).startswith("The functions of one name")
    assert spy.Function.__module__ == "slangrad.api.functional.function"
    assert pydoc.render_doc(spy.Function)


def test_texts_of_types_and_modules(module: spy.Module) -> None:
    assert module.Body.__doc__ == (
        "struct Body\n\nSomething with mass.\n\nFields:\n    float3 place\n    float mass\n\nMethods:\n"
        "    static int count()\n    [Differentiable] float energy(float3 v)\n    [mutating] void grow(float by)"
    )
    assert module.Color.__doc__ == "enum Color\n\nCases:\n    Green\n    Red"
    assert module.float3.__doc__.startswith("float3")
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    assert "Slang module 'described'" in text
    assert "T same<T, let N : int>(T x[N])" in text
    assert "IShape" in text


def test_a_module_of_the_cache_tells_the_same(
    module: spy.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLANGRAD_CACHE", str(tmp_path))
    for _ in range(2):
        again = spy.Module.load_from_source(spy.create_device(), "described", SOURCE)
        assert again.scale.__doc__ == module.scale.__doc__
        assert inspect.signature(again.scale) is not None
        assert set(again._ipython_key_completions_()) == set(module._ipython_key_completions_())


def test_lines(module: spy.Module) -> None:
    """Everything that a program gets shows itself on one short line."""
    scale, device = module.scale, module.device
    x = spy.Tensor.zeros(device, (10_000,), "float3")
    mapped = scale.map(v=(0,)).return_type(spy.Tensor)
    assert repr(mapped.bwds) == "Function(scale.map(v=(0,)).return_type(Tensor).bwds)"
    assert repr(module.Body.energy.set({})) == "Function(Body.energy.set(...))"
    compiled = scale.compile(x, 2.0)
    assert repr(compiled).startswith("CompiledKernel(stages=kernel, ast, ")
    assert repr(scale.bind_call(x, 2.0, _result=x)) == "RepeatedCall(scale)"
    optimizer = spy.optim.SGD([x.with_grads()], lr=0.5)
    assert repr(optimizer).startswith("SGD(1 parameters, lr=0.5, ")
    data = scale.debug_build_call_data(x, 2.0)
    others = [
        module,
        module.Body,
        device,
        x,
        x.storage,
        x.with_grads(),
        spy.grad(scale),
        data,
        compiled.kernel,
    ]
    others += [compiled.image, data._compiled, scale.bound(x, 2.0), scale.slang_function, module.layout]
    others += [spy.pack(module, np.zeros(10_000)), scale.map(*[("x" * 100,)] * 9), compiled, optimizer]
    for each in others:
        assert "\n" not in repr(each)
        assert len(repr(each)) < 160, repr(each)


def test_the_package_is_typed() -> None:
    assert (Path(spy.__file__).parent / "py.typed").is_file()


PROGRAM = """
import numpy as np
import slangrad as spy

device = spy.create_device()
module = spy.Module.load_from_file(device, "x.slang")
x = spy.Tensor.zeros(device, (3,), "float")
reveal_type(device)
reveal_type(module)
reveal_type(x.reshape(3, 1)[0])
reveal_type(x.to_numpy())
reveal_type(x.numpy())
reveal_type(spy.Tensor.numpy(device, np.ones(3)))
reveal_type(module.require_function("f"))
reveal_type(spy.grad(module.f))
reveal_type(spy.optim.Adam([x]))
reveal_type(len(x))
x.shapes
"""
TYPES = [
    "slangrad.api.devices.device.Device",
    "slangrad.api.functional.module.Module",
    "slangrad.tensors.tensor.Tensor",
    "numpy.ndarray[",
    "numpy.ndarray[",
    "slangrad.tensors.tensor.Tensor",
    "slangrad.api.functional.function.Function",
    "slangrad.transforms.gradients.Gradient",
    "slangrad.optim.optimizers.Adam",
    "int",
]


@pytest.mark.deep
def test_type_checkers_know_the_package(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        str(tmp_path / "cache"),
        "--config-file",
        "",
        "program.py",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(found) == len(TYPES), done.stdout + done.stderr
    assert all(a.startswith(b) for a, b in zip(found, TYPES)), found
    assert 'has no attribute "shapes"' in done.stdout
