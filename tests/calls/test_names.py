"""Functions, parameters and types may have any name, also those that a kernel's page uses itself."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import slangrad
import slangrad as spy
from slangrad.base.page_words import is_page_word, rooted
from slangrad.marshal.errors import CallError

WORDS = """id shape thread group kernel each expand args kwargs cls x x_in x_pair x_grad x_value y_pair _result
_result_value _result_in CallId CallShape ContiguousElements RepeatedElements StridedElements ContiguousIndex diffPair
DifferentialPair lambda def None class name module map set bwds fwds call dispatch len dot sin min Tensor RWTensor
DiffTensor AtomicTensor end __id __order1 __noteCall uint3 float3 print session device types view options"""
NAMES = WORDS.split()
NOT_TYPES = {"each", "expand", "class", "module", "__id"}  # words of the language where a type is expected
LISTED = np.array([3, 3, 3], np.float32)


def test_functions(device):
    text = "".join(f"[Differentiable] float {name}(float x, float y) {{ return x * y; }}\n" for name in NAMES)
    for name in (
        "id",
        "shape",
        "thread",
        "each",
        "end",
        "lambda",
        "CallId",
        "diffPair",
        "DifferentialPair",
        "uint3",
    ):
        module = spy.Module.load_from_source(device, f"named_{name}", text)
        x = spy.Tensor.from_numpy(device, LISTED).with_grads()
        assert module[name](x, 2.0).to_numpy().tolist() == [6, 6, 6], name
        module[name].bwds(x, 2.0)
        assert x.grad.to_numpy().tolist() == [2, 2, 2], name


def test_parameters(device):
    text = "".join(
        f"[Differentiable] float f{i}(float {name}, float other) {{ return {name} * other; }}\n"
        for i, name in enumerate([*NAMES, "self"])
    )
    module = spy.Module.load_from_source(device, "named_parameters", text)
    for i, name in enumerate([*NAMES, "self"]):
        if name in (
            "_result",
            "id",
            "CallId",
            "diffPair",
            "uint3",
            "self",
            "other",
            "x_pair",
            "lambda",
            "kwargs",
        ):
            f = module[f"f{i}"]
            x = spy.Tensor.from_numpy(device, LISTED).with_grads()
            assert f(x, 2.0).to_numpy().tolist() == [6, 6, 6], name
            if name != "_result":
                assert f(**{name: x, "other": 2.0}).to_numpy().tolist() == [6, 6, 6], name
                f.bwds(**{name: x, "other": 2.0})
                assert x.grad.to_numpy().tolist() == [2, 2, 2], name


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_each_function_and_parameter(device, name):
    text = f"[Differentiable] float {name}(float {name}, float other) {{ return {name} * other; }}"
    f = spy.Module.load_from_source(device, f"one_{name}", text)[name]
    x = spy.Tensor.from_numpy(device, LISTED).with_grads()
    assert f(x, 2.0).to_numpy().tolist() == [6, 6, 6]
    f.bwds(x, 2.0)
    assert x.grad.to_numpy().tolist() == [2, 2, 2]
    assert f.fwds(spy.diffPair(3.0, 1.0), 2.0).grad == 2
    assert spy.grad(spy.grad(f))(3.0, 2.0) == 0


def struct_named(device, name):
    text = f"""
    struct {name} : IDifferentiable {{ float v; static float twice({name} s) {{ return 2 * s.v; }} }}
    [Differentiable] float of({name} x, float y) {{ return x.v * y; }}
    {name} made(float a) {{ {name} r; r.v = a; return r; }}
    """
    return spy.Module.load_from_source(device, f"type_{name}", text)


@pytest.mark.parametrize("name", ["id", "CallId", "uint3", "ContiguousElements", "diffPair"])
def test_types(device, name):
    module = struct_named(device, name)
    x = spy.Tensor.from_numpy(device, LISTED).with_grads()
    assert module.of({"v": x}, 2.0).to_numpy().tolist() == [6, 6, 6]
    module.of.bwds({"v": x}, 2.0)
    assert x.grad.to_numpy().tolist() == [2, 2, 2]
    assert module.made(3.0) == {"v": 3}
    made = module.made(x)
    assert made.dtype.name == name
    assert module.of(made, 2.0).to_numpy().tolist() == [6, 6, 6]
    assert module[name].twice({"v": 4.0}) == 8


@pytest.mark.deep
@pytest.mark.parametrize("name", [each for each in NAMES if each not in NOT_TYPES])
def test_each_type(device, name):
    module = struct_named(device, name)
    x = spy.Tensor.from_numpy(device, LISTED).with_grads()
    assert module.of({"v": x}, 2.0).to_numpy().tolist() == [6, 6, 6]
    assert module.made(3.0) == {"v": 3}


def test_global_values(device):
    text = (
        "static const float CallId = 2.0; static const float diffPair = 3.0; static const float uint3 = 1.0;"
    )
    text += "[Differentiable] float f(float x) { return x * CallId * diffPair * uint3; }"
    f = spy.Module.load_from_source(device, "named_values", text).f
    x = spy.Tensor.from_numpy(device, LISTED).with_grads()
    f.bwds(x)
    assert x.grad.to_numpy().tolist() == [6, 6, 6]


def test_a_namespace(device):
    text = "namespace id { float shape(float x) { return x + 1; } struct thread { float v; } }"
    text += "float of(id::thread t) { return t.v; }"
    module = spy.Module.load_from_source(device, "named_spaces", text)
    assert module["id::shape"](1.0) == 2
    assert module.of({"v": 3.0}) == 3


def test_a_dispatched_function(device):
    text = """import "slangpy";
    void launch(uint3 dispatchThreadID, RWTensor<float, 1> thread, float launch)
    { thread[dispatchThreadID.x] = launch; }"""
    module = spy.Module.load_from_source(device, "named_launch", text)
    made = spy.Tensor.zeros(device, (32,), "float")
    module.launch.dispatch((32, 1, 1), thread=made, launch=2.0)
    assert made.to_numpy().tolist() == [2] * 32


def test_a_parameter_named_as_the_result(device):
    module = spy.Module.load_from_source(device, "named_result", "int f(int _result) { return _result; }")
    assert module.f(3) == 3
    with pytest.raises(CallError, match=r"'_result'.*by position"):
        module.f(_result=3)


def test_a_page_knows_its_own_words():
    """What the library for calls and tensors declares has a place in the table."""
    folder = Path(inspect.getfile(slangrad)).parent / "std"
    for name in ("call", "call_shape", "tensor", "composed_tensor", "tensor_view"):
        text = (folder / f"{name}.slang").read_text()
        for word in re.findall(r"^(?:public )?(?:struct|interface|typealias) (\w+)", text, re.MULTILINE):
            assert is_page_word(word), f"{name}.slang declares '{word}'"


def test_rooted_names():
    assert [rooted(each) for each in ("f", "id", "id<4>", "id::f", "my::id", "float2", "float_sum", "__f")] == [
        "f", "::id", "::id<4>", "::id::f", "my::id", "::float2", "float_sum", "::__f",
    ]  # fmt: skip
