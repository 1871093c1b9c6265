"""Groups of calls, and what functions ask about their place among the calls."""

import numpy as np
import pytest

import slangrad as spy
from slangrad import BoundsError, CallError, KernelGenException, Tensor

F = np.float32

PLACES = """
    int[6] place(int2 at)
    {
        let call = CallShapeInfo::get_call_id();
        let group = CallShapeInfo::get_call_group_id();
        let inside = CallShapeInfo::get_call_group_thread_id();
        return { call.shape[0], call.shape[1], group.shape[0], group.shape[1], inside.shape[0], inside.shape[1] };
    }
    int dimensions(float x) { return CallShapeInfo::get_call_id().dimensionality; }
    int total(float x)
    {
        let place = CallShapeInfo::get_call_id().shape;
        int sum = 0;
        for (int k = 0; k < place.getCount(); k++) sum = 10 * sum + place[k];
        return sum;
    }
    uint number(int2 at, uint thread) { return thread; }
    float noise(int2 at, float x) { return x; }
    [Differentiable] float scaled(float a, int at) { return a * (1 + CallShapeInfo::get_call_group_id().shape[0]); }
    int far(int k) { return CallShapeInfo::get_call_id().shape[k]; }
"""


@pytest.mark.parametrize(
    ("calls", "group"), [((4, 6), (2, 3)), ((3, 4), (2, 2)), ((3, 5), (4, 8)), ((4, 4), 4)]
)
def test_places_in_groups(load, calls, group):
    found = load(PLACES).place.call_group_shape(group)(spy.grid(calls), _result="numpy")
    rows, columns = group if isinstance(group, tuple) else (1, group)
    for i, j in np.ndindex(calls):
        assert found[i, j].tolist() == [i, j, i // rows, j // columns, i % rows, j % columns]


@pytest.mark.parametrize("group", [None, (), (1, 1)])
def test_without_groups_each_call_is_one(load, group):
    place = load(PLACES).place if group is None else load(PLACES).place.call_group_shape(group)
    found = place(spy.grid((2, 40)), _result="numpy")
    assert found[1, 37].tolist() == [1, 37, 1, 37, 0, 0]


def test_as_many_dimensions_as_the_call_has(device, load):
    module = load(PLACES)
    assert module.dimensions(1.0) == 0
    assert module.dimensions(np.zeros((2, 1, 3), F)).to_numpy().tolist() == [[[3] * 3]] * 2
    assert module.total(np.zeros((2, 1, 3), F)).to_numpy()[1, 0].tolist() == [100, 101, 102]
    assert module.total(np.zeros((1, 40, 2), F).transpose(1, 0, 2)).to_numpy()[39, 0].tolist() == [3900, 3901]
    with pytest.raises(BoundsError, match="index 1 is out of range: there is 1 element"):
        module.far(np.array([0, 1], np.int32))


def test_threads_follow_each_other_group_by_group(load):
    module = load(PLACES)
    found = module.number.call_group_shape((2, 2))(spy.grid((4, 4)), spy.thread_id(), _result="numpy")
    assert found.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    plain = module.noise(spy.grid((4, 4)), spy.rand_float(), _result="numpy")
    grouped = module.noise.call_group_shape((2, 2))(spy.grid((4, 4)), spy.rand_float(), _result="numpy")
    assert np.array_equal(grouped, plain.ravel()[found])


def test_derivatives_in_groups(device, load):
    x = Tensor.from_numpy(device, np.arange(1, 6, dtype=F)).with_grads()
    scaled = load(PLACES).scaled.call_group_shape(2)
    assert scaled(x, spy.grid((5,))).to_numpy().tolist() == [1, 2, 6, 8, 15]
    scaled.bwds(x, spy.grid((5,)))
    assert x.grad.to_numpy().tolist() == [1, 1, 2, 2, 3]
    a = spy.diffPair(2.0)
    scaled.bwds(a, spy.grid((5,)))
    assert a.grad == 1 + 1 + 2 + 2 + 3


def test_groups_share_memory(device, load):
    module = load("""
        groupshared float shared[6];
        float mean(float x)
        {
            let at = CallShapeInfo::get_call_group_thread_id().shape;
            shared[at[0] * 3 + at[1]] = x;
            GroupMemoryBarrierWithGroupSync();
            float sum = 0;
            for (int k = 0; k < 6; k++) sum += shared[k];
            return sum / 6;
        }
    """)
    x = np.arange(4 * 9, dtype=F).reshape(4, 9)
    means = x.reshape(2, 2, 3, 3).mean((1, 3)).repeat(2, 0).repeat(3, 1)
    assert np.allclose(module.mean.call_group_shape((2, 3))(x, _result="numpy"), means)
    with pytest.raises(KernelGenException, match="barrier"):
        module.mean.call_group_shape((2, 3))(x[:3], _result="numpy")


def test_shapes_that_cannot_be(load):
    place = load(PLACES).place
    with pytest.raises(CallError, match=r"call_group_shape\[1\] = 0 is no size: all must be >= 1"):
        place.call_group_shape((2, 0))
    with pytest.raises(CallError, match="10000 calls, and a group at most 1024"):
        place.call_group_shape((100, 100))
    with pytest.raises(
        CallError, match=r"call_group_shape dimensionality \(3\) must be <= call_shape dim.* \(2\)"
    ):
        place.call_group_shape((1, 2, 2))(spy.grid((4, 4)))


def test_imported_functions_ask_too(device):
    spy.Module.load_from_source(
        device, "asks_place", "int row() { return CallShapeInfo::get_call_id().shape[0]; }"
    )
    module = spy.Module.load_from_source(
        device, "imports_place", "import asks_place; int f(float x) { return row(); }"
    )
    assert module.f(np.zeros((2, 3), F)).to_numpy().tolist() == [[0] * 3, [1] * 3]
