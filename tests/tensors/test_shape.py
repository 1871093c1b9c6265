"""Shapes are tuples with a few manners of their own."""

import numpy as np
import pytest

from slangrad.tensors.elements.shape import Shape, as_shape, contiguous_strides, is_contiguous


def test_a_shape_is_a_tuple() -> None:
    shape = Shape([2, 3, 4])
    assert isinstance(shape, tuple)
    assert shape == (2, 3, 4) == shape
    assert shape == [2, 3, 4]
    assert shape != (2, 3)
    assert shape != [2, 3, 5]
    assert shape != "234"
    assert hash(shape) == hash((2, 3, 4))
    assert (shape[0], shape[-1], len(shape)) == (2, 4, 3)


def test_conversions_and_text() -> None:
    shape = Shape((2, 3))
    assert shape.as_tuple() == (2, 3)
    assert type(shape.as_tuple()) is tuple
    assert shape.as_list() == [2, 3]
    assert (str(shape), repr(shape), str(Shape())) == ("[2, 3]", "[2, 3]", "[]")
    assert str(shape + Shape([4])) == "[2, 3, 4]"


def test_sizes_that_are_not_known() -> None:
    assert Shape((4, 3)).concrete
    assert Shape().concrete
    assert not Shape((-1, 3)).concrete


def test_no_shape_at_all() -> None:
    assert not Shape(None).valid
    assert Shape().valid
    assert len(Shape(None)) == 0
    assert str(Shape(None)) == "[invalid]"
    assert Shape(None) == Shape(None)
    assert Shape(None) != Shape()


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (4, 1, 5), (2, 3, 4, 5)])
def test_contiguous_strides_are_numpys(shape: tuple[int, ...]) -> None:
    expected = tuple(step // 8 for step in np.empty(shape).strides)
    assert contiguous_strides(shape) == expected
    assert Shape(shape).calc_contiguous_strides() == expected
    assert Shape(shape).element_count == np.empty(shape).size


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), (), True),
        ((4, 3), (3, 1), True),
        ((4, 3), (1, 4), False),
        ((4, 3), (4, 1), False),
        ((1, 4, 3), (0, 3, 1), True),
        ((4, 1), (1, 99), True),
        ((4, 3), (0, 1), False),
        ((0, 3), (5, 7), True),
    ],
)
def test_contiguity(shape: tuple[int, ...], strides: tuple[int, ...], expected: bool) -> None:
    assert is_contiguous(shape, strides) is expected


def test_what_may_be_given_as_a_shape() -> None:
    assert as_shape(5) == (5,)
    assert as_shape([2, np.int64(3)]) == (2, 3)
    assert as_shape(np.array([2, 3])) == (2, 3)
    assert as_shape(size for size in (2, 3)) == (2, 3)


@pytest.mark.parametrize("wrong", [(2, -1), Shape((-1,)), Shape(None), -3])
def test_a_shape_without_sizes_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"shape: \[.*\] has a size that is negative or unknown"):
        as_shape(wrong)


@pytest.mark.parametrize("wrong", ["43", (2.0, 3), 2.5, None, {"a": 1}])
def test_a_shape_of_something_else_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="size: expected an int or a tuple of ints"):
        as_shape(wrong, "size")
