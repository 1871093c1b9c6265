"""Adds to elements that belong to one thread each go to memory at once; all others do not. Sums are exact."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import slangrad as spy
from slangrad import Tensor
from slangrad.runtime.cpu import CpuDevice

F = np.float32

SOURCE = """
    void affine(int2 at, int a, int b, int c, Tensor<float, 1> x, AtomicTensor<float, 1> g)
    {
        int i = at.y, j = at.x;
        if (x[(i + 3 * j) % int(x.shape[0])] > 0)
            g.add(a * i + b * j + c, x[(i + j) % int(x.shape[0])]);
    }
    void several(int i, int step, int wide, Tensor<float, 1> x, AtomicTensor<float, 1> g)
    {
        for (int k = 0; k < wide; k++)
            g.add(step * i + k, x[i] + k);
        g.add(step * i, 1);
    }
    void pairs(int i, AtomicTensor<float, 1> g) { g.add(i / 2, i); }
    void wrapped(int i, AtomicTensor<float, 1> g) { g.add(i % 5, i); }
    void bounded(int i, AtomicTensor<float, 1> g) { g.add(min(i, 4), i); }
    void narrow(int i, AtomicTensor<float, 1> g) { g.add(int(uint8_t(i)), 1); }
    void both(int i, AtomicTensor<float, 1> g, AtomicTensor<float, 1> h) { g.add(i, 1); h.add(i + 1, i); }
    void image(int2 at, AtomicTensor<float, 2> g, AtomicTensor<float, 1> rows) { g.add(at, at.x); rows.add(at.y, 1); }
    void squares(int i, Tensor<float, 1> x, AtomicTensor<float, 1> g) { g.add(i, x[i] * x[i]); }
    void cube(int3 at, AtomicTensor<double, 3> g) { g.add(at, at.x + 10 * at.y + 100 * at.z); }
    void halves(int i, AtomicTensor<half, 1> g) { g.add(i, half(i % 7)); }
    void vectors(int i, AtomicTensor<float3, 1> g) { g.add(i, float3(i, 1, -i)); }
"""


@pytest.fixture
def module(load):
    return load(SOURCE)


def zeros(device, shape, dtype="float"):
    return Tensor.zeros(device, shape, dtype)


numbers = st.integers(-40, 40)


@pytest.fixture(scope="module")
def affine():
    device = spy.create_device(options=spy.Options(threads=2))
    return device, spy.Module.load_from_source(device, "affine", SOURCE).affine


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(1, 40), numbers, numbers)
@example(33, 17, 17, 1)
@example(17, 33, 1, 17)
@example(17, 33, 1, 16)
@example(40, 40, 0, 1)
@example(40, 1, 3, 0)
@example(1, 40, 0, -2)
@example(5, 40, -40, 1)
def test_affine_places(affine, rows, columns, a, b):
    device, function = affine
    i, j = np.indices((rows, columns))
    place = a * i + b * j
    c = -int(place.min())
    x = np.random.default_rng(rows * 100 + columns).integers(-8, 8, size=23).astype(F)
    start = np.arange(int(place.max()) + c + 1, dtype=F)
    g = Tensor.from_numpy(device, start)
    function(spy.grid((rows, columns)), a, b, c, Tensor.from_numpy(device, x), g)
    on = x[(i + 3 * j) % 23] > 0
    expected = start.copy()
    np.add.at(expected, (place + c)[on], x[(i + j) % 23][on])
    assert g.to_numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("n", [1, 17, 3000])
@pytest.mark.parametrize("step, wide", [(1, 1), (3, 3), (3, 2), (3, 4), (0, 2), (2, 0)])
def test_several_adds_of_a_thread(device, module, n, step, wide):
    n = min(n, 200) if device.backend == "interpreter" else n
    x = np.arange(n, dtype=F) % 50
    g = zeros(device, (step * n + wide + 1,))
    module.several(spy.grid((n,)), step, wide, Tensor.from_numpy(device, x), g)
    expected = np.zeros(g.shape[0], F)
    i = np.arange(n)
    for k in range(wide):
        np.add.at(expected, step * i + k, x + k)
    np.add.at(expected, step * i, 1)
    assert g.to_numpy().tolist() == expected.tolist()


def test_places_that_threads_share(device, module):
    n = 300
    i = np.arange(n)
    for name, place in (("pairs", i // 2), ("wrapped", i % 5), ("bounded", np.minimum(i, 4))):
        g, expected = zeros(device, (n,)), np.zeros(n, F)
        module[name](spy.grid((n,)), g)
        np.add.at(expected, place, i)
        assert g.to_numpy().tolist() == expected.tolist(), name
    g = zeros(device, (256,))
    module.narrow(spy.grid((600,)), g)
    assert g.to_numpy().tolist() == np.bincount(np.arange(600) % 256).tolist()


def test_two_names_of_one_memory(device, module):
    n = 2000 if device.backend == "cpu" else 100
    g = zeros(device, (n + 1,))
    module.both(spy.grid((n,)), g, g)
    i = np.arange(n + 1)
    assert g.to_numpy().tolist() == (np.where(i < n, 1, 0) + np.where(i > 0, i - 1, 0)).tolist()
    g, h = zeros(device, (n,)), zeros(device, (n + 1,))
    module.both(spy.grid((n,)), g, h)
    assert g.to_numpy().tolist() == [1] * n and h.to_numpy().tolist() == [0, *range(n)]


def test_what_is_read_as_well(device, module):
    x = Tensor.from_numpy(device, np.arange(200, dtype=F) % 9)
    before = x.to_numpy()
    module.squares(spy.grid((200,)), x, x)
    assert x.to_numpy().tolist() == (before + before * before).tolist()


def test_views_and_dimensions(device, module):
    whole = zeros(device, (60, 40))
    module.image(spy.grid((29, 20)), whole[1:59:2, ::2], rows := zeros(device, (29,)))
    expected = np.zeros((60, 40))
    expected[1:59:2, ::2] = np.arange(20)
    assert whole.to_numpy().tolist() == expected.tolist() and rows.to_numpy().tolist() == [20] * 29
    turned = zeros(device, (33, 65))
    module.image(spy.grid((65, 33)), turned.transpose(), zeros(device, (65,)))
    assert turned.to_numpy().T.tolist() == [list(range(33))] * 65
    same = zeros(device, (1, 20)).broadcast_to((30, 20))
    module.image(spy.grid((30, 20)), same, zeros(device, (30,)))
    assert same.to_numpy()[0].tolist() == [30 * i for i in range(20)]
    cube = zeros(device, (3, 7, 18), "double")
    module.cube(spy.grid((3, 7, 18)), cube)
    z, y, x = np.indices((3, 7, 18))
    assert cube.to_numpy().tolist() == (x + 10 * y + 100 * z).tolist()


def test_halves_and_vectors(device, module):
    g = zeros(device, (100,), "half")
    module.halves(spy.grid((100,)), g)
    module.halves(spy.grid((100,)), g)
    assert g.to_numpy().tolist() == [2 * (i % 7) for i in range(100)]
    v = zeros(device, (100,), "float3")
    module.vectors(spy.grid((100,)), v)
    assert v.to_numpy().tolist() == [[i, 1, -i] for i in range(100)]


def test_an_index_out_of_range_is_told(device, module):
    x, g = Tensor.from_numpy(device, np.ones(100, F)), zeros(device, (90,))
    with pytest.raises(spy.BoundsError):
        module.squares(spy.grid((100,)), x, g)
    assert g.to_numpy().tolist() == [1] * 90


def test_many_elements_are_added_to_at_once(monkeypatch):
    """Of which partial sums would be many, on two threads; a size that is no multiple of 64 says that memory itself is used."""
    sizes, find = [], CpuDevice._size_of_partials

    def watched(*arguments):
        sizes.append(find(*arguments))
        return sizes[-1]

    monkeypatch.setattr(CpuDevice, "_size_of_partials", watched)
    device = spy.create_device(options=spy.Options(threads=2))
    module = spy.Module.load_from_source(device, "large", SOURCE)
    n = 400_000
    x = np.random.default_rng(1).integers(-9, 9, size=n).astype(F)
    g = zeros(device, (n,))
    for _ in range(2):
        module.squares(spy.grid((n,)), Tensor.from_numpy(device, x), g)
    assert np.array_equal(g.to_numpy(), 2 * x * x)
    assert sizes == [32, 32]
    module.pairs(spy.grid((n,)), g)
    assert sizes[2:] == [4 * n]  # two threads share each element
