"""Modules and calls that an earlier process has met need no parser: the second round of each program here parses
nothing and gives the same; whatever is not known, or is another one now, is parsed and right.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from tests.test_layers import LATE_MODULES

F = np.float32
POINT = np.dtype([("x", F), ("y", F)])
TEXT = """
struct Point : IDifferentiable { float x; float y; [mutating] void move(float by) { x += by; } float sum() { return x + y; } };
[Differentiable] float poly(float a, float x) { return a * x * x + x; }
[Differentiable] float3 scaled(float3 v, float s) { return v * s; }
[Differentiable] Point turned(Point p) { Point r; r.x = -p.y; r.y = p.x; return r; }
float total(float values[3]) { return values[0] + values[1] + values[2]; }
T twice<T : IFloat>(T x) { return x + x; }
int number(int i) { return 2 * i; }
void fill(out float a, inout float b) { a = 3; b += 1; }
float row(Tensor<float, 1> t) { return t[0] + t[1]; }
float corner(Tensor<float2, 1> t, StructuredBuffer<float2> b) { return t[1].y + b[1].x; }
float random(float r) { return r; }
float4 texel(Texture2D<float4> image, int2 p, RWTexture1D<float> line) { line[0] = 1; return 2 * image[p]; }
float4 doubled(float4 x) { return 2 * x; }
uniform float offset;
float shifted(float x) { return x + offset; }
"""

Program = Callable[[spy.Module], Any]


def tensor(module: spy.Module, *values: float) -> spy.Tensor:
    return spy.Tensor.from_numpy(module.device, np.array(values, F))


def gradient(module: spy.Module) -> Any:
    x = tensor(module, 1, 2, 3).with_grads()
    module.poly.bwds(2.0, x)
    return x.grad.to_numpy()


def gradient_through_a_result(module: spy.Module) -> Any:
    x = tensor(module, 1, 2, 3).with_grads()
    result = module.poly(2.0, x).with_grads()
    result.grad.copy_from_numpy(np.array([1, 10, 100], F))
    module.poly.bwds(2.0, x, _result=result)
    return x.grad.to_numpy()


def structs(module: spy.Module) -> Any:
    points = spy.Tensor.empty(module.device, (2,), module.Point)
    points.copy_from_numpy(np.array([(1, 2), (3, 4)], POINT))
    turned = module.turned(points)
    assert turned.dtype.name == "Point"
    return turned.to_numpy(), turned.shape


def struct_gradients(module: spy.Module) -> Any:
    points = spy.Tensor.zeros(module.device, (2,), module.Point).with_grads()
    result = spy.Tensor.zeros(module.device, (2,), module.Point).with_grads()
    result.grad.copy_from_numpy(np.array([(1, 2), (3, 4)], POINT))
    module.turned.bwds(points, _result=result)
    return points.grad.to_numpy()


def written(module: spy.Module) -> Any:
    a, b = spy.floatRef(), spy.floatRef(4.0)
    module.fill(a, b)
    into = np.zeros(3, F)
    module.fill(into, tensor(module, 1, 2, 3))
    return a.value, b.value, into


def textures(module: spy.Module) -> Any:
    make = module.device.create_texture
    values = np.arange(12, dtype=F).reshape(1, 3, 4)
    image = make(format=spy.Format.rgba32_float, width=3, data=values)
    line = make(type=spy.TextureType.texture_1d, format=spy.Format.r32_float, width=2)
    texel = module.texel(image, spy.int2(2, 0), line)
    return texel, line.to_numpy(), module.doubled(image, _result="texture").to_numpy()


def random(module: spy.Module) -> Any:
    into = spy.Tensor.zeros(module.device, (5,), "float")
    module.random(spy.rand_float(0, 1), _result=into)
    return into.to_numpy()


# fmt: off
PROGRAMS: dict[str, Program] = {
    "numbers":       lambda m: m.poly(2.0, 3.0),
    "tensors":       lambda m: m.poly(2.0, tensor(m, 1, 2, 3)).to_numpy(),
    "arrays":        lambda m: m.poly(2.0, np.array([[1, 2], [3, 4]], F)).to_numpy(),
    "strides":       lambda m: m.poly(2.0, np.arange(8, dtype=F)[::2], _result="numpy"),
    "conversion":    lambda m: m.poly(2.0, np.array([1, 2], np.int32), _result="numpy"),
    "broadcast":     lambda m: m.poly(np.array([[1], [2]], F), np.array([3, 4], F), _result="numpy"),
    "gradient":      gradient,
    "through":       gradient_through_a_result,
    "tangent":       lambda m: m.poly.fwds(2.0, spy.diffPair(3.0, 1.0)).grad,
    "pair":          lambda m: (m.poly.bwds(2.0, p := spy.diffPair(3.0), spy.diffPair(d=1.0)), p.grad)[1],
    "vectors":       lambda m: m.scaled(spy.float3(1, 2, 3), 2.0),
    "vector rows":   lambda m: m.scaled(np.ones((4, 3), F), tensor(m, 1, 2, 3, 4)).to_numpy(),
    "structs":       structs,
    "gradients":     struct_gradients,
    "dicts":         lambda m: m.turned({"x": 1.0, "y": 2.0}),
    "dict of":       lambda m: m.turned({"x": tensor(m, 1, 2), "y": 2.0}).to_numpy(),
    "lists":         lambda m: m.total([1.0, 2.0, 3.0]),
    "list each":     lambda m: m.number([1, 2, 3], _result="numpy"),
    "generic":       lambda m: m["twice<float>"](tensor(m, 1, 2)).to_numpy(),
    "inferred":      lambda m: m.twice(3.0),
    "written":       written,
    "textures":      textures,
    "whole tensors": lambda m: m.row(tensor(m, 5, 6)),
    "struct arrays": lambda m: m.turned({"x": tensor(m, 1, 2), "y": 2.0}, _result="numpy")["y"],
    "trailing":      lambda m: m.corner(np.arange(4, dtype=F).reshape(2, 2), np.ones((3, 2), F)),
    "rows":          lambda m: m.row(np.arange(6, dtype=F).reshape(3, 2), _result="numpy"),
    "ranges":        lambda m: m.number(range(4, 10, 2), _result="numpy"),
    "grids":         lambda m: m.number(spy.grid((3,), stride=2), _result="numpy"),
    "call ids":      lambda m: m.number(spy.call_id(), _result=np.zeros(4, np.int32)),
    "random":        random,
    "maps":          lambda m: m.poly.map(x=(1,), a=(0,))(tensor(m, 1, 2), tensor(m, 3, 4, 5)).to_numpy(),
    "as type":       lambda m: m.twice.map("float3")(np.ones((2, 3), F)).to_numpy(),
    "globals":       lambda m: m.shifted.set(offset=10.0)(tensor(m, 1, 2)).to_numpy(),
    "kinds":         lambda m: m.poly.return_type(np.ndarray)(2.0, np.ones(3, F)),
    "static":        lambda m: m.Point.sum({"x": 1.0, "y": 2.0}),
    "no points":     lambda m: m.poly(2.0, np.zeros(0, F)).to_numpy(),
}
# fmt: on


def module_of(text: str = TEXT, **settings: Any) -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(**settings), "m", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_round_parses_nothing(name: str, compilations: list[str]) -> None:
    first = PROGRAMS[name](module_of())
    compiled = len(compilations)
    module = module_of()
    second = PROGRAMS[name](module)
    assert not module.session.is_parsed
    assert len(compilations) == compiled
    assert repr(second) == repr(first)


def test_all_of_them_in_one_process() -> None:
    for _ in range(2):
        module = module_of()
        results = {name: repr(program(module)) for name, program in PROGRAMS.items()}
    assert not module.session.is_parsed
    for name in reversed(PROGRAMS):
        assert repr(PROGRAMS[name](module)) == results[name]


def test_a_call_that_is_not_known_is_compiled_among_those_that_are(compilations: list[str]) -> None:
    assert gradient(module_of()).tolist() == [5, 9, 13]
    module = module_of()
    assert gradient(module).tolist() == [5, 9, 13]
    assert not module.session.is_parsed
    assert module.number(4) == 8
    assert module.session.is_parsed
    assert gradient(module).tolist() == [5, 9, 13]
    assert gradient_through_a_result(module).tolist() == [5, 90, 1300]
    assert module.poly.parameters[1].name == "x"


def test_another_layout_of_a_known_call_is_compiled() -> None:
    module_of().poly(2.0, np.ones(4, F))
    module = module_of()
    module.poly(2.0, np.ones(4, F))
    assert not module.session.is_parsed
    assert module.poly(2.0, np.arange(8, dtype=F)[::2], _result="numpy").tolist() == [0, 10, 36, 78]


def test_errors_are_the_same() -> None:
    shown = []
    for _ in range(2):
        module = module_of()
        module.poly(np.ones(3, F), np.ones(3, F))
        with pytest.raises(spy.CallError) as caught:
            module.poly(np.ones(3, F), np.ones(4, F))
        shown.append(str(caught.value))
        with pytest.raises(AttributeError) as missing:
            module["no_such_name"]
        shown.append(str(missing.value))
        with pytest.raises(spy.ResolveException) as refused:
            module.number(1.5)
        shown.append(str(refused.value))
    assert shown[:3] == shown[3:]


def test_types_of_a_module_can_still_be_asked() -> None:
    for _ in range(2):
        module = module_of()
        kind = module.Point
        assert (kind.name, kind.ir_type.name, kind.differentiable) == ("Point", "Point", True)
        made = module.turned({"x": 1.0, "y": 2.0}, _result="tensor")
        assert made.dtype == kind
        assert list(made.dtype.fields) == ["x", "y"]
        assert kind is module.Point


def files(folder: Path, **texts: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.slang").write_text(text)


def scaled(*folders: Path, known: bool) -> float:
    device = spy.create_device(include_paths=folders)
    module = spy.Module.load_from_file(device, "main.slang")
    result: float = module.scaled(2.0)
    assert module.session.is_parsed is not known
    return result


def test_modules_in_files(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    main = 'import middle;\n#include "macros.slang"\nfloat scaled(float x) { return FACTOR * x * middle(); }'
    files(
        folder,
        main=main,
        middle="import deep; float middle() { return deep(); }",
        deep="float deep() { return 3; }",
    )
    files(folder, macros="#define FACTOR 10")
    assert scaled(folder, known=False) == 60
    assert scaled(folder, known=True) == 60
    files(folder, deep="float deep() { return 4; }")
    assert scaled(folder, known=False) == 80
    assert scaled(folder, known=True) == 80
    files(folder, macros="#define FACTOR 20")
    assert scaled(folder, known=False) == 160
    files(folder, main=main + " ")
    assert scaled(folder, known=False) == 160
    files(folder, main=main, macros="#define FACTOR 10", deep="float deep() { return 3; }")
    assert scaled(folder, known=False) == 60


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    texts = {
        "main": "import left; import right; float scaled(float x) { return x * leftHand(2) + right(); }",
        "left": "import right; import deep; float leftHand(int n) { return n == 0 ? deep() : rightHand(n - 1); }",
        "right": "import left; float right() { return 1; } float rightHand(int n) { return leftHand(n) + 1; }",
        "deep": "import left; float deep() { return 3; }",
    }
    files(folder, **texts)
    assert scaled(folder, known=False) == 11
    assert scaled(folder, known=True) == 11
    files(folder, deep=texts["deep"].replace("3", "4"))
    assert scaled(folder, known=False) == scaled(folder, known=True) == 13
    files(folder, right=texts["right"].replace("n) + 1", "n) + 2"))
    assert scaled(folder, known=False) == scaled(folder, known=True) == 17
    files(folder, **texts)
    assert scaled(folder, known=False) == 11


def test_a_new_file_that_comes_first_is_noticed(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    files(
        far,
        main="import deep; float scaled(float x) { return x * deep(); }",
        deep="float deep() { return 3; }",
    )
    files(near)
    assert scaled(near, far, known=False) == 6
    assert scaled(near, far, known=True) == 6
    files(near, main="float scaled(float x) { return 0.5 * x; }")
    assert scaled(near, far, known=False) == 1
    (near / "main.slang").unlink()
    assert scaled(near, far, known=True) == 6
    (far / "deep.slang").unlink()
    with pytest.raises(spy.CompileError, match="there is no module 'deep'"):
        scaled(near, far, known=False)


def test_a_file_that_changes_after_it_was_looked_up(tmp_path: Path) -> None:
    """What is parsed later is the text that was there when the module was loaded, where files are not looked at again."""
    files(tmp_path, main="float scaled(float x) { return 3 * x; } float other(float x) { return 5 * x; }")
    assert scaled(tmp_path, known=False) == 6
    device = spy.create_device(include_paths=[tmp_path], enable_hot_reload=False)
    module = spy.Module.load_from_file(device, "main.slang")
    files(tmp_path, main="float nothing;")
    assert module.scaled(2.0) == 6
    assert module.other(2.0) == 10


def test_modules_that_import_modules_from_texts() -> None:
    for round in range(2):
        device = spy.create_device()
        spy.Module.load_from_source(device, "base", "float base() { return 3; }")
        module = spy.Module.load_from_source(
            device, "user", "import base; float user() { return base() + 1; }"
        )
        assert module.user() == 4
        assert module.session.is_parsed is (round == 0)
    device = spy.create_device()
    spy.Module.load_from_source(device, "base", "float base() { return 30; }")
    module = spy.Module.load_from_source(device, "user", "import base; float user() { return base() + 1; }")
    assert module.user() == 31


def test_a_name_with_another_text_is_another_module() -> None:
    for _ in range(2):
        device = spy.create_device()
        one = spy.Module.load_from_source(device, "m", "float f() { return 1; }")
        two = spy.Module.load_from_source(device, "m", "float f() { return 2; }")
        assert (one.f(), two.f(), one.f()) == (1, 2, 1)
    assert one["f"].as_func() is one.f
    assert str(one.f) == str(two.f) != ""
    assert (one.f(), two.f()) == (1, 2)


def test_settings_and_macros_are_part_of_what_is_known() -> None:
    text = "float f(float x) { return N * x; }"
    assert module_of(text, defines={"N": "3"}).f(2.0) == 6
    module = module_of(text, defines={"N": "4"})
    assert module.f(2.0) == 8
    assert module_of(text, defines={"N": "3"}, options=spy.Options(bounds_checks=False)).f(2.0) == 6
    module = module_of(text, defines={"N": "3"})
    assert module.f(2.0) == 6
    assert not module.session.is_parsed


WARM = """
import json, sys
import numpy as np
import slangrad as spy
early = [name for name in sys.modules if name.startswith(("slangrad", "llvmlite"))]
module = spy.Module.load_from_source(spy.create_device(), "m", sys.argv[1])
x = spy.Tensor.from_numpy(module.device, np.array([1, 2, 3], np.float32)).with_grads()
module.poly.bwds(2.0, x)
late = [name for name in sys.modules if name.startswith(("slangrad", "llvmlite"))]
print(json.dumps([x.grad.to_numpy().tolist(), early, late]))
"""


# Late modules that a warm start needs: who loads them late may not import them.
OF_HIGHER_LAYERS = {"slangrad.api.devices.current", "slangrad.marshal.host.vectors"}


def test_a_warm_start_loads_no_compiler_and_nothing_that_is_late() -> None:
    for _ in range(2):
        command = [sys.executable, "-c", WARM, TEXT]
        done = subprocess.run(command, capture_output=True, check=True, env=os.environ)
        result, early, late = json.loads(done.stdout)
        assert result == [5, 9, 13]
        assert [name for name in early if is_compiler(name)] == []
    assert [name for name in late if is_compiler(name)] == []
    assert {name for _, name in LATE_MODULES} & {*late} == OF_HIGHER_LAYERS


def is_compiler(name: str) -> bool:
    folder = ".".join(name.split(".")[:2])
    passes = ("syntax", "lower", "autodiff", "opt", "flatten", "spmd", "llvm", "pipeline")
    known = (
        "slangrad.check",
        "slangrad.check.model",
        "slangrad.check.model.types",
        "slangrad.check.model.values",
        "slangrad.check.texts",
        "slangrad.check.texts.files",
        "slangrad.check.texts.precompiled",
        "slangrad.check.texts.reach",
    )
    return (
        name.startswith("llvmlite")
        or folder in [f"slangrad.{each}" for each in passes]
        or (folder == "slangrad.check" and name not in known)
    )
