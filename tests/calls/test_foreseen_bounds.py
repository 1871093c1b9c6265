"""Bounds that a chunk of threads keeps are checked once; where some index is outside, each is checked as ever."""

import numpy as np
import pytest

import slangrad as spy

F = np.float32

SOURCE = """
float shifted(int i, int a, int c, Tensor<float, 1> x) { return x[a * i + c]; }
float wrapped(int i, int a, int c, Tensor<float, 1> x) { return x[a * (i + c) / 2]; }
float pixel(int2 at, int right, int down, Tensor<float, 2> x) { return x[at + int2(right, down)]; }
float around(int i, int width, Tensor<float, 1> x)
{
    float sum = 0;
    for (int k = -width; k <= width; k++)
        if (i + k >= 0 && i + k < int(x.shape[0]))
            sum += x[i + k];
    return sum;
}
float looked(int i, Tensor<int, 1> at, Tensor<float, 1> x) { return x[at[i]]; }
void put(int i, int c, RWTensor<float, 1> x) { if (i % 3 == 0) x[i + c] = i; }
float chosen(int i, Tensor<float, 1> x) { return i % 2 == 0 ? x[i / 2] : x[max(i - 300, 0)]; }
"""


@pytest.fixture(scope="module", params=[1, 4, 8, 16])
def module(request):
    device = spy.create_device(options=spy.Options(lanes=request.param, verify=True))
    return spy.Module.load_from_source(device, "foreseen", SOURCE)


def tensor(module, values):
    return spy.Tensor.from_numpy(module.device, values)


def numbers(*shape):
    return np.random.default_rng(1).integers(-99, 99, shape).astype(F)


def picked(x, index):
    """Zero outside."""
    inside = (index >= 0) & (index < x.size)
    return np.where(inside, x[np.clip(index, 0, x.size - 1)], 0), bool(inside.all())


def check(call, expected, inside):
    if inside:
        assert call().to_numpy().tolist() == expected.tolist()
    else:
        with pytest.raises(spy.BoundsError):
            call()


@pytest.mark.sampled(40)
@pytest.mark.parametrize("size", (1, 16, 300, 3001))
@pytest.mark.parametrize(
    "a, c, room", ((1, 0, 0), (1, 1, 0), (1, 5, 5), (2, 0, 1), (-1, 9, 9), (3, -1, 9), (0, 0, 1))
)
def test_even_steps(module, size, a, c, room):
    x, i = numbers(abs(a) * size + room), np.arange(size)
    if a < 0:
        c += size - 1
    expected, inside = picked(x, a * i + c)
    check(
        lambda: module.shifted(spy.grid((size,)), a, c, tensor(module, x), _result="tensor"), expected, inside
    )


def test_an_index_that_wraps_is_where_it_is(module):
    x, big, i = numbers(5000), 1 << 30, np.arange(1000)
    halved = (2 * (i + big - 1)).astype(np.int32) / 2  # 2^31 is below zero
    expected, inside = picked(x, np.trunc(halved).astype(int))
    check(
        lambda: module.wrapped(spy.grid((1000,)), 2, big - 1, tensor(module, x), _result="tensor"),
        expected,
        inside,
    )
    call = lambda: module.shifted(spy.grid((1000,), offset=(big,)), 4, 0, tensor(module, x), _result="tensor")
    check(call, x[4 * i], True)  # 2^30 * 4 is 0 in 32 bits


@pytest.mark.parametrize("right, down", ((0, 0), (1, 0), (0, 2), (-1, 1)))
def test_pixels(module, right, down):
    x, (rows, columns) = numbers(40, 50), (38, 49)
    expected = np.roll(x, (-down, -right), (0, 1))[:rows, :columns]
    check(
        lambda: module.pixel(spy.grid((rows, columns)), right, down, tensor(module, x), _result="tensor"),
        expected,
        right >= 0,
    )


@pytest.mark.parametrize("width", (0, 1, 20))
def test_conditions_of_the_program(module, width):
    x = numbers(1100)
    kernel = np.ones(2 * width + 1)
    found = module.around(spy.grid((1100,)), width, tensor(module, x), _result="tensor")
    assert found.to_numpy().tolist() == np.convolve(x, kernel, "same").tolist()


def test_indices_from_memory(module):
    x, at = numbers(70), np.random.default_rng(2).integers(0, 70, 900).astype(np.int32)
    call = lambda: module.looked(spy.grid((900,)), tensor(module, at), tensor(module, x), _result="tensor")
    check(call, x[at], True)
    at[777] = 70
    check(call, x, False)


def test_the_index_that_is_outside_is_told(module):
    x = tensor(module, np.zeros(2000, F))
    with pytest.raises(spy.BoundsError, match="index 2001 "):
        module.put(spy.grid((2001,)), 3, x)


def test_both_arms(module):
    x, i = numbers(1000), np.arange(1200)
    expected = np.where(i % 2 == 0, x[i // 2], x[np.maximum(i - 300, 0)])
    check(lambda: module.chosen(spy.grid((1200,)), tensor(module, x), _result="tensor"), expected, True)
