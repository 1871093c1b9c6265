"""An index out of range is told with the user's line, not with that of the library which looked at it."""

import numpy as np
import pytest

import slangrad as spy

TEXT = """
float third(Tensor<float, 1> numbers, int i)
{
    return numbers[i];
}

[Differentiable]
float weigh(DiffTensor<float, 1> numbers, int i)
{
    return 2 * numbers[i];
}

void put(RWTensor<float, 2> numbers, int i)
{
    numbers[i, 1] = 3;
}

float nested(StructuredBuffer<float> numbers, int i)
{
    return 1 + numbers.Load(i);
}

float of(StructuredBuffer<float> numbers, int i) { return numbers[i]; }
float outer(StructuredBuffer<float> numbers, int i)
{
    return 1 + of(numbers, i);
}
"""
INDICES = np.array([1, 9], np.int32)


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def module(request):
    return spy.Module.load_from_source(spy.create_device(backend=request.param), "bounds.slang", TEXT)


def numbers(module, *shape):
    return spy.Tensor.from_numpy(module.device, np.ones(shape, np.float32))


def buffer(module):
    return module.device.create_buffer(data=np.ones(4, np.float32))


def backwards(module):
    cotangents = numbers(module, 2).with_grads(numbers(module, 2))
    module.weigh.bwds(numbers(module, 4).with_grads(), INDICES, _result=cotangents)


# fmt: off
CALLS = {
    "a tensor":               (lambda m: m.third(numbers(m, 4), INDICES), 4, "numbers[i]", "return numbers[i];"),
    "a tensor with gradient": (lambda m: m.weigh(numbers(m, 4).with_grads(), INDICES), 4, "numbers[i]", "return 2 * numbers[i];"),
    "its derivative":         (backwards, 4, "numbers[i]", "return 2 * numbers[i];"),
    "a write":                (lambda m: m.put(numbers(m, 3, 3), INDICES), 3, "numbers[i, 1] = 3", "numbers[i, 1] = 3;"),
    "a method of a buffer":   (lambda m: m.nested(buffer(m), INDICES), 4, "numbers.Load(i)", "return 1 + numbers.Load(i);"),
    "a function of the user": (lambda m: m.outer(buffer(m), INDICES), 4, "numbers[i]", "of(StructuredBuffer<float> numbers, int i) {"),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_the_line_is_the_users(module, name):
    call, extent, marked, line = CALLS[name]
    with pytest.raises(IndexError) as raised:
        call(module)
    first, place, shown, carets, *_ = str(raised.value).splitlines()
    assert first == f"error[E0901]: index 9 is out of range: there are {extent} elements"
    assert place.startswith("  --> bounds.slang:") and line in shown
    start = carets.index("^")
    assert shown[start : start + carets.count("^")] == marked


def test_two_reads_of_buffers_have_a_place_each() -> None:
    text = "int f(StructuredBuffer<int> b, int i, int j)\n{\n    int x = b[i];\n    return x + b[j];\n}"
    device = spy.create_device()
    module = spy.Module.load_from_source(device, "reads", text)
    data = device.create_buffer(
        data=np.arange(3, dtype=np.int32), struct_size=4, usage=spy.BufferUsage.shader_resource
    )
    with pytest.raises(spy.BoundsError, match=r"index 8[\s\S]*reads:3:13"):
        module.f(data, 8, 0)
    with pytest.raises(spy.BoundsError, match=r"index 7[\s\S]*reads:4:16"):
        module.f(data, 0, 7)


UNREAD = """
[Differentiable] float array(float x, int i) { float a[4]; a[i] = x; return x * x; }
[Differentiable] float loop(float x, int i) { float a[4]; for (int k = 0; k < i; k++) a[k] = x; return x * x; }
[Differentiable] float whole(float x, int i) { int a[4]; a[i] = 1; return x * x; }
"""


@pytest.mark.parametrize("way", ["call", "bwds", "fwds"])
@pytest.mark.parametrize("name", ["array", "loop", "whole"])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_write_that_nobody_reads_is_told_of(backend, name, way):
    device = spy.create_device(backend=backend)
    function = getattr(spy.Module.load_from_source(device, "unread", UNREAD), name)
    ones = np.ones(3, np.float32)
    x, result = (
        spy.Tensor.from_numpy(device, ones).with_grads(
            grad_in=spy.Tensor.from_numpy(device, ones), grad_out=spy.Tensor.zeros(device, (3,), "float")
        )
        for _ in range(2)
    )
    call = {
        "call": function,
        "bwds": lambda x, i: function.bwds(x, i, _result=result),
        "fwds": function.fwds,
    }[way]
    call(x, np.array([0, 3, 2], np.int32))
    with pytest.raises(spy.BoundsError, match="out of range: there are 4 elements"):
        call(x, np.array([0, 3, 7], np.int32))
