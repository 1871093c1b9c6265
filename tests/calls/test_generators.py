"""Arguments that are made in the kernel."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import CallError, ResolveException, Tensor

F = np.float32

ECHO = """
    int number(int i) { return i; }
    uint unsigned_number(uint i) { return i; }
    float real(float x) { return x; }
    int2 two(int2 i) { return i; }
    uint3 three(uint3 i) { return i; }
    int[2] pair(int i[2]) { return i; }
"""


def into(device, shape, dtype):
    return Tensor.zeros(device, shape, dtype)


def test_grids(device, load):
    module = load(ECHO)
    assert module.number(spy.grid((4,))).to_numpy().tolist() == [0, 1, 2, 3]
    assert module.number(spy.grid((4,), offset=10, stride=3)).to_numpy().tolist() == [10, 13, 16, 19]
    assert module.number(spy.grid((3,), offset=-1, stride=-2)).to_numpy().tolist() == [-1, -3, -5]
    vectors = module.two(spy.grid((2, 3), offset=(10, 0), stride=(1, 2)), _result="numpy")
    assert vectors.tolist() == [[[0, 10], [2, 10], [4, 10]], [[0, 11], [2, 11], [4, 11]]]
    arrays = module.pair(spy.grid((2, 2)), _result="numpy")
    assert arrays.tolist() == [[[0, 0], [0, 1]], [[1, 0], [1, 1]]]


def test_a_grid_of_unknown_size_takes_that_of_the_others(device, load):
    module = load("float add(int2 i, float x) { return 10 * i.y + i.x + x; }")
    x = np.full((2, 3), 100, F)
    assert module.add(spy.grid(2), x).to_numpy().tolist() == [[100, 101, 102], [110, 111, 112]]
    with pytest.raises(CallError, match="No argument gives the size"):
        module.add(spy.grid((2, -1)), 1.0)


def test_grids_must_have_the_rank_of_the_parameter(load):
    module = load(ECHO)
    with pytest.raises(
        ResolveException, match="Could not find suitable conversion from a grid of 3 dimensions"
    ):
        module.two(spy.grid((1, 2, 3)))


def test_the_index_of_the_call(device, load):
    module = load(ECHO + "float add(int i, float x) { return i + x; }")
    assert module.add(spy.call_id(), np.full(3, 10, F)).to_numpy().tolist() == [10, 11, 12]
    found = into(device, (2, 3), "int2")
    module.two(spy.call_id(), _result=found)
    assert found.to_numpy().tolist() == [[[0, 0], [1, 0], [2, 0]], [[0, 1], [1, 1], [2, 1]]]
    found = into(device, (2, 3), "uint3")
    module.three(spy.call_id(), _result=found)
    assert found.to_numpy()[1, 2].tolist() == [2, 1, 0]

    with pytest.raises(CallError, match="the call has 2 dimensions"):
        module.number(spy.call_id(), _result=into(device, (2, 3), "int"))


def test_the_number_of_the_thread(device, load):
    module = load(ECHO)
    found = into(device, (2, 3), "uint")
    module.unsigned_number(spy.thread_id(), _result=found)
    assert found.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    found = into(device, (4,), "uint3")
    module.three(spy.thread_id(), _result=found)
    assert found.to_numpy().tolist() == [[i, 0, 0] for i in range(4)]
    with pytest.raises(ResolveException):
        module.three(spy.thread_id(2), _result=found)


def test_ranges(load):
    module = load(ECHO)
    assert module.number(range(5)).to_numpy().tolist() == [0, 1, 2, 3, 4]
    assert module.number(range(5, 15, 3)).to_numpy().tolist() == [5, 8, 11, 14]
    assert module.number(range(3, 0, -1)).to_numpy().tolist() == [3, 2, 1]
    with pytest.raises(ResolveException):
        module.real(range(3))


def test_random_floats(device, load):
    module = load(ECHO)
    found = into(device, (6,), "float")
    module.real(spy.rand_float(0, 10), _result=found)
    wanted = [0.99551558, 7.37167716, 8.21528196, 7.88278818, 5.38560390, 1.98835611]
    assert np.allclose(found.to_numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"seed": 7}, {"warmup": 2}, {"hash_seed": False}])
def test_hashes_agree_with_numpy(device, load, options):
    module = load(ECHO)
    one = into(device, (50,), "uint")
    module.unsigned_number(spy.wang_hash(**options), _result=one)
    assert (one.to_numpy() == spy.wang_hash_numpy(50, 1, **options)[:, 0]).all()
    two = into(device, (5, 7), "int2")
    module.two(spy.wang_hash(**options), _result=two)
    wanted = spy.wang_hash_numpy(35, 2, **options).astype(np.int32)
    assert (two.to_numpy().reshape(35, 2) == wanted).all()


def test_the_first_hashes(device, load):
    module = load(ECHO)
    found = into(device, (3,), "int2")
    module.two(spy.wang_hash(), _result=found)
    wanted = [[-779305445, -1287930844], [745088982, 1111768006], [-2025525364, -1250897945]]
    assert found.to_numpy().tolist() == wanted


def test_many_threads_of_one_call(device, load):
    module = load("void mark(uint i, RWTensor<uint, 1> t) { t[i] = i + 1; }")
    marks = into(device, (100,), "uint")
    module.mark(spy.thread_id(), marks, _thread_count=100)
    assert marks.to_numpy().tolist() == list(range(1, 101))
    with pytest.raises(CallError, match="_thread_count needs a call without dimensions") as caught:
        module.mark(np.arange(3, dtype=np.uint32), marks, _thread_count=3)
    assert caught.value.code == "E1014"
    with pytest.raises(CallError, match="_thread_count must be a positive int"):
        module.mark(spy.thread_id(), marks, _thread_count=0)


def test_without_a_shape_there_is_nothing_to_number(device, load):
    module = load("void f(int i) {} void g(int2 i) {} int h(int i) { return i; } void k(uint3 i) {}")
    y = Tensor.zeros(device, (3,), "int")
    for function, given in (
        (module.f, spy.call_id()),
        (module.g, spy.call_id()),
        (module.k, spy.thread_id()),
    ):
        with pytest.raises(
            CallError, match=r"numbers the calls, and no argument gives the call a shape"
        ) as caught:
            function(given)
        assert caught.value.code == "E1005" and "grid((4, 3))" in str(caught.value)
    with pytest.raises(CallError, match="give a shape"):
        module.h(spy.thread_id())
    module.h(spy.call_id(), _result=y)
    assert y.to_numpy().tolist() == [0, 1, 2]
    module.k(spy.thread_id(), _thread_count=4)
    assert 0 <= load("float f(float x) { return x; }").f(spy.rand_float()) < 1
