"""Loops of a launch: merging, the choice of lanes, classes of streams."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slangrad.call.plans.geometry import StreamStrides, plan_loops
from slangrad.marshal.host.footprint import injective
from slangrad.tensors.elements.shape import contiguous_strides


def floats(*strides):
    return StreamStrides(strides, 4)


def test_contiguous_dimensions_merge():
    loops = plan_loops((4, 3), [floats(12, 4), floats(12, 4)])
    assert loops.extents == (1, 12)
    assert loops.strides == ((0, 4), (0, 4))
    assert loops.classes == "cc"
    assert loops.grid == (12, 1, 1)


def test_a_broadcast_row_keeps_dimensions_apart():
    loops = plan_loops((4, 30), [floats(120, 4), floats(0, 4)])
    assert loops.extents == (4, 30)
    assert loops.classes == "cc"
    assert loops.grid == (30, 4, 1)


def test_a_broadcast_column_is_repeated_along_the_lanes():
    loops = plan_loops((4, 30), [floats(120, 4), floats(4, 0)])
    assert loops.classes == "cr"


def test_a_number_for_all_merges_with_everything():
    loops = plan_loops((4, 3), [floats(12, 4), floats(0, 0)])
    assert loops.extents == (1, 12)
    assert loops.classes == "cr"


def test_a_short_last_dimension_gives_way_to_a_long_one():
    loops = plan_loops((100000, 3), [floats(12, 4), floats(0, 4)])
    assert loops.extents == (3, 100000)
    assert loops.strides == ((4, 12), (4, 0))
    assert loops.classes == "sr"


def test_the_rest_merges_when_a_dimension_moved():
    loops = plan_loops((6, 1000, 2), [StreamStrides((8000, 4, 4000), 4)])
    assert loops.extents == (1, 12, 1000)
    assert loops.strides == ((0, 4000, 4),)


def test_no_dimensions_are_one_round():
    loops = plan_loops((), [StreamStrides((), 4, fixed=True)])
    assert loops.extents == (1,)
    assert loops.grid == (1, 1, 1)
    assert loops.classes == "r"


def test_one_element_uses_the_kernel_of_many():
    assert plan_loops((1,), [floats(4), StreamStrides((0,), 4, fixed=True)]).classes == "cr"


def test_many_dimensions_share_z():
    streams = [floats(1, 10, 100, 1000, 10000)]
    loops = plan_loops((2, 3, 4, 5, 60), streams)
    assert loops.grid == (60, 5, 24)


def test_injective():
    assert injective((4, 3), (12, 4), 4)
    assert injective((3, 4), (4, 12), 4)
    assert not injective((4, 3), (0, 4), 4)
    assert not injective((4, 3), (4, 4), 4)
    assert not injective((4,), (4,), 8)
    assert injective((1, 4), (0, 4), 4)
    assert injective((4,), (-4,), 4)


SHAPES = st.lists(st.integers(1, 18), min_size=0, max_size=3)


@settings(deadline=None, max_examples=50)
@given(SHAPES, st.randoms(use_true_random=False))
def test_loops_reach_what_the_call_reaches(shape, random):
    streams = [StreamStrides(tuple(random.choice((0, 4, 4 * n, 64)) for n in shape), 4) for _ in range(3)]
    streams.append(StreamStrides(contiguous_strides(tuple(shape)), 1))
    loops = plan_loops(tuple(shape), streams)
    wanted = {
        tuple(np.dot(index, each.strides) if shape else 0 for each in streams)
        for index in itertools.product(*map(range, shape))
    }
    reached = [
        tuple(np.dot(index, strides) for strides in loops.strides)
        for index in itertools.product(*map(range, loops.extents))
    ]
    assert len(reached) == len(wanted)
    assert set(reached) == wanted
