"""What does not fit is one error that says which function and which argument, what it was, and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, Tensor

F = np.float32
SOURCE = """
    extern static const int count = 3;
    uniform float scale;
    float add(float a, float b) { return a + b; }
    float scaled(float a) { return a * scale * count; }
    uint natural(uint n) { return n; }
    float entry(float m[2][2], int i) { return m[i][0]; }
    void twice(float x, out float y) { y = 2 * x; }
    struct Spring { float length; }
    float length(Spring s) { return s.length; }
    void fill(uint3 dispatchThreadID, RWStructuredBuffer<float> x, float by) { x[dispatchThreadID.x] = by; }
"""
READ_ONLY = np.zeros(3, F)
READ_ONLY.flags.writeable = False

CALLS: dict[str, Callable[[Any], Any]] = {
    "function 'add': Shape mismatch for argument 'b'": lambda m: m.add(np.ones((4, 3), F), np.ones(4, F)),
    "function 'add': argument 'a': Unsupported type <class 'str'>": lambda m: m.add("1", 2),
    "function 'add': argument 'a': an integer of so many digits does not fit into 'float'": lambda m: m.add(
        10**400, 1
    ),
    "function 'add': argument 'b': float64 values do not all fit": lambda m: m.add(1, np.array([0.1])),
    "function 'add': map: 'a' is specified by position and by name": lambda m: m.add.map((0,), a=(0,))(
        READ_ONLY, 1
    ),
    "function 'add': map: Unknown keyword argument c": lambda m: m.add.map(c=(0,))(1, 2),
    "function 'add': map: .* explicit vectorization: 3 for 2": lambda m: m.add.map((), (), ())(1, 2),
    "function 'add': Unknown return type 'nmpy'": lambda m: m.add(1, 2, _result="nmpy"),
    "function 'natural': argument 'n': -1 does not fit into 'uint'": lambda m: m.natural(-1),
    "function 'entry': Elements of nested array must all have equal lengths, not 1 and 2": (
        lambda m: m.entry([[1, 2], [3]], 0)
    ),
    "function 'twice': argument 'y': (.|\\n)* an array flags.writeable": lambda m: m.twice(
        np.ones(3, F), READ_ONLY
    ),
    "function 'twice': argument 'y': float cannot receive": lambda m: m.twice.bind_call(1.0, 2.0),
    "function 'length': dict: the key 1 is no name of a field": lambda m: m.length({1: 2.0}),
    "function 'scaled': set: the callable gave NoneType": lambda m: m.scaled.set(lambda: None)(1.0),
    "function 'scaled': set: 'scale' of type 'float': Unsupported type": lambda m: m.scaled.set(scale="x")(
        1.0
    ),
    "constants: 'count' of type 'int' cannot be float 1.5": lambda m: m.scaled.constants({"count": 1.5}),
    "constants: a dict is needed, not list": lambda m: m.scaled.constants([1]),
    "prelude: a text is needed, not int": lambda m: m.scaled.prelude(3),
    "kernel 'fill': parameter 'x' of type .* cannot be NumPy array": lambda m: m.fill.dispatch(
        [3], x=READ_ONLY, by=1
    ),
    "kernel 'fill': parameter 'by' of type 'float' has no value": (
        lambda m: m.fill.dispatch([3], x=m.device.create_buffer(size=12))
    ),
    "kernel 'fill': thread_count: 'abc'": lambda m: m.fill.dispatch("abc", by=1),
    "function 'add': NoneType is no command encoder": lambda m: m.add.append_to(None, 1, 2),
    "function 'add': the command encoder belongs to another device": (
        lambda m: m.add.append_to(spy.create_device().create_command_encoder(), 1, 2)
    ),
    "int is no command buffer": lambda m: m.device.submit_command_buffer(1),
    "device: NoneType is no device": lambda m: spy.Module.load_from_file(None, "a.slang"),  # type: ignore[arg-type]
    "source: a text is needed, not int": lambda m: m.device.load_module_from_source("a", 3),
    "include_paths: int is no path": lambda m: spy.create_device(include_paths=[3]),  # type: ignore[list-item]
    "rand_float: 'a' to 1.0 are no numbers": lambda m: spy.rand_float("a"),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def module() -> spy.Module:
    return spy.Module.load_from_source(spy.create_device(), "refused", SOURCE)


@pytest.mark.parametrize("message", CALLS)
def test_errors_name_what_was_called(module: spy.Module, message: str) -> None:
    with pytest.raises(CallError, match=message):
        CALLS[message](module)


def test_what_is_no_tensor_or_array(module: spy.Module) -> None:
    device, x = module.device, np.zeros(3, F)
    with pytest.raises(TypeError, match="other: expected a Tensor, not ndarray"):
        Tensor.zeros_like(x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="target: expected a Tensor, not NoneType"):
        Tensor.from_numpy(device, x).point_to(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="data: an array of Python objects has no bytes"):
        device.create_buffer(data=np.array([None, "x"], object))
    with pytest.raises(TypeError, match="grid: shape: expected an int or a tuple of ints, not 'ab'"):
        spy.grid("ab")


def test_names_that_were_perhaps_meant(device, load):
    module = load(
        "[Differentiable] float shade(float x, float rate) { return x * rate; } struct Particle { float m; }"
    )
    rows = [
        (lambda: module.shad, "did you mean 'shade'?"),
        (lambda: module.SHADE, "did you mean 'shade'?"),
        (lambda: module.Partcle, "did you mean 'Particle'?"),
        (lambda: module.require_struct("Particl"), "did you mean 'Particle'?"),
        (lambda: module.shade.bwd, "did you mean 'bwds'?"),
        (lambda: module.shade.retrun_type, "did you mean 'return_type'?"),
        (lambda: module.shade.backward, "bwds(...) adds gradients up"),
        (lambda: module.shade(1.0, 2.0, result=3.0), "did you mean '_result'?"),
        (lambda: module.shade(x=1.0, rat=2.0), "did you mean 'rate'? there are x, rate"),
        (lambda: spy.Tensr, "did you mean 'Tensor'?"),
        (lambda: spy.optim.Adamm, "did you mean 'Adam'?"),
    ]
    for look, text in rows:
        with pytest.raises((AttributeError, CallError)) as caught:
            look()
        assert text in str(caught.value)
    assert not hasattr(module.shade, "zzz") and not hasattr(spy, "zzz") and not hasattr(module, "zzz")


def test_tensors_of_other_numbers(device, load):
    module = load(
        "float f(float x) { return x; } float2 g(float2 x) { return x; } int h(int x) { return x; }"
    )
    double, whole = (
        Tensor.from_numpy(device, np.ones((2, 2))),
        Tensor.from_numpy(device, np.ones(2, np.int64)),
    )
    rows = [(module.f, double, "float", "double"), (module.g, double, "float", "double2")]
    for function, value, dtype, seen in [*rows, (module.h, whole, "int", "int64_t")]:
        with pytest.raises(
            CallError, match=rf"dtype='{dtype}', or convert in the call with map\(...='{seen}'\)"
        ):
            function(value)
        assert function.map(x=seen)(value).to_numpy().tolist() == value.to_numpy().tolist()
    with pytest.raises(TypeError, match="the device comes first"):
        Tensor.zeros((3,), "float")


class Endless:
    def get_this(self) -> Any:
        return {"length": Endless()}


def test_arguments_without_an_end(module: spy.Module) -> None:
    circle: list[Any] = []
    circle.append(circle)
    fields: dict[str, Any] = {"_type": "Spring"}
    fields["length"] = fields
    calls: list[Callable[[], Any]] = [
        lambda: module.add(circle, 1.0),
        lambda: module.add(1.0, 2.0, _result=circle),
        lambda: module.length(fields),
        lambda: module.length(Endless()),
        lambda: module.add.bind_call(circle, 1.0),
        lambda: module.scaled.set(scale=circle)(1.0),
        lambda: spy.pack(module, Endless()),
        lambda: spy.grad(module.add)(circle, 1.0),
    ]
    for call in calls:
        with pytest.raises(CallError, match=r"E1001.*contains itself, or is nested too deeply"):
            call()


def test_lists_have_the_dimensions_of_arrays(module: spy.Module) -> None:
    deep: Any = 1.0
    for _ in range(64):
        deep = [deep]
    assert module.add(deep, 1.0).to_numpy().item() == 2
    with pytest.raises(CallError, match=r"E1005.*argument 'a'.*at most 64, not 65"):
        module.add([deep], 1.0)


def test_a_type_is_a_name(module: spy.Module) -> None:
    with pytest.raises(CallError, match="add the key '_type' with the name of a type"):
        module.scaled({"_type": ["Spring"], "length": 1.0})


OVERLOADED = """
float first(FeedbackTexture2D<float> t) { return 1; }
float second(FeedbackTexture2D<float> t) { return 1; }
float second(float x) { return x; }
"""


def test_a_parameter_of_a_type_that_is_not_supported(device, load) -> None:
    module = load(OVERLOADED)
    texture = device.create_texture(format=spy.Format.r32_float)
    for function, argument in ((module.first, texture), (module.first, 2.0), (module.second, {"x": 1})):
        with pytest.raises(
            CallError, match=r"E9001.*'FeedbackTexture2D' is not supported(.|\n)*such textures"
        ):
            function(argument)
    assert module.second(2.0) == 2 and module.second(texture) == 0
