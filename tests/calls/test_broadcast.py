"""Call shapes."""

import pytest

from slangrad.call.binding.broadcast import UNKNOWN, Mapped, align_right, call_dimensions, call_shape
from slangrad.marshal.errors import CallError


def right_aligned(*shapes, strict=False):
    dims = max(map(len, shapes))
    arguments = [Mapped(name, shape, align_right(len(shape), dims)) for name, shape in zip("abcdef", shapes)]
    return call_shape(dims, arguments, strict)


def test_missing_leading_dimensions_repeat():
    assert right_aligned((4, 3), (3,)) == (4, 3)


def test_size_one_repeats():
    assert right_aligned((4, 1), (1, 3)) == (4, 3)


def test_numbers_bring_no_dimensions():
    assert right_aligned((), (5,)) == (5,)
    assert right_aligned((), ()) == ()


def test_an_empty_dimension_makes_an_empty_call():
    assert right_aligned((0,), (1,)) == (0,)
    assert right_aligned((4, 0), (4, 1)) == (4, 0)


def test_a_mismatch_names_the_argument_and_lists_all():
    with pytest.raises(CallError, match="Shape mismatch for argument 'b'") as caught:
        right_aligned((4, 3), (4,))
    assert caught.value.code == "E1005"
    assert "between value (4) and call (3)" in str(caught.value)
    assert "a " in str(caught.value) and "(4, 3)" in str(caught.value)


def test_an_empty_dimension_does_not_meet_a_longer_one():
    with pytest.raises(CallError, match="Shape mismatch"):
        right_aligned((0,), (3,))


def test_maps_choose_dimensions():
    assert call_dimensions([1, 1], [(0,), (1,)]) == 2
    assert call_shape(2, [Mapped("a", (4,), (0,)), Mapped("b", (3,), (1,))]) == (4, 3)


def test_a_map_transposes():
    assert call_shape(2, [Mapped("a", (4, 3), (1, 0))]) == (3, 4)


def test_strict_broadcasting_refuses_missing_dimensions():
    with pytest.raises(CallError, match="Strict broadcasting is enabled"):
        right_aligned((4, 3), (3,), strict=True)


def test_strict_broadcasting_refuses_size_one():
    with pytest.raises(CallError, match="Strict broadcasting is enabled"):
        right_aligned((4, 1), (4, 3), strict=True)


def test_strict_broadcasting_allows_numbers():
    assert right_aligned((4, 3), (), strict=True) == (4, 3)


def test_unknown_sizes_adapt():
    arguments = [Mapped("i", (UNKNOWN, UNKNOWN), (0, 1)), Mapped("x", (5, 7), (0, 1))]
    assert call_shape(2, arguments) == (5, 7)


def test_an_unknown_size_must_come_from_somewhere():
    with pytest.raises(CallError, match="No argument gives the size of call dimension 0"):
        call_shape(2, [Mapped("i", (UNKNOWN, UNKNOWN), (0, 1)), Mapped("x", (7,), (1,))])
