"""Conversions happen where every value survives, and nowhere else."""

import numpy as np
import pytest

from slangrad.tensors.elements.conversion import convert_exactly

DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
          np.float16, np.float32, np.float64]  # fmt: skip


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_zeros_and_ones_survive_everywhere(source: type, target: type) -> None:
    converted = convert_exactly(np.array([0, 1, 1], source), np.dtype(target), "data")
    assert converted.dtype == target
    assert converted.tolist() == np.array([0, 1, 1], target).tolist()


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_extreme_values_survive_or_are_refused(source: type, target: type) -> None:
    limits = np.finfo(source) if np.dtype(source).kind == "f" else None
    if source is np.bool_:
        values = [False, True]
    elif limits is not None:
        values = [float(limits.max), float(limits.min), float(limits.tiny), np.inf, -np.inf, 2.0**15, -1.0]
    else:
        values = [np.iinfo(source).max, np.iinfo(source).min, np.iinfo(source).max // 2 + 1]
    for value in values:
        given = np.array([value], source)
        try:
            converted = convert_exactly(given, np.dtype(target), "data")
        except ValueError:
            continue
        assert converted[0].item() == given[0].item()


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (0.1, np.float64, np.float32),
        (70_000.0, np.float32, np.float16),
        (-1, np.int32, np.uint32),
        (-1, np.int8, np.uint64),
        (2**31, np.int64, np.int32),
        (2**32 - 1, np.uint32, np.int32),
        (2**24 + 1, np.int32, np.float32),
        (2**63 - 1, np.int64, np.float64),
        (2**64 - 1, np.uint64, np.float64),
        (70_000, np.int32, np.float16),
        (1.5, np.float32, np.int32),
        (2.0**31, np.float32, np.int32),
        (2.0**63, np.float64, np.int64),
        (2.0**64, np.float64, np.uint64),
        (-1.0, np.float32, np.uint8),
        (np.nan, np.float32, np.int32),
        (np.inf, np.float64, np.int64),
        (2, np.int32, np.bool_),
        (np.nan, np.float32, np.bool_),
    ],
)
def test_a_value_that_would_change_is_refused(value: float, source: type, target: type) -> None:
    given = np.array([0, 1, value, 0], source)
    with pytest.raises(
        ValueError, match=rf"data: {np.dtype(source)} values do not all fit into {np.dtype(target)}"
    ):
        convert_exactly(given, np.dtype(target), "data")


def test_the_error_names_the_value_and_the_way_out() -> None:
    with pytest.raises(
        ValueError, match=r"x: .*: 0.1 does not; pass array.astype\(np.float32\) if rounding is meant"
    ):
        convert_exactly(np.array([[1.0, 0.5], [0.1, 0.2]]), np.dtype(np.float32), "x")


def test_special_values_survive_between_floats() -> None:
    given = np.array([np.nan, np.inf, -np.inf, -0.0])
    converted = convert_exactly(given, np.dtype(np.float16), "data")
    assert np.array_equal(converted, given, equal_nan=True)
    assert np.signbit(converted[3])


def test_the_same_dtype_is_not_copied() -> None:
    given = np.ones(3, np.float32)
    assert convert_exactly(given, np.dtype(np.float32), "data") is given


def test_byte_order_is_converted() -> None:
    converted = convert_exactly(np.array([1, 2], ">i4"), np.dtype(np.int32), "data")
    assert converted.dtype.isnative
    assert converted.tolist() == [1, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_arrays(dtype: type) -> None:
    assert convert_exactly(np.empty((0, 3)), np.dtype(dtype), "data").shape == (0, 3)


@pytest.mark.parametrize("given", [np.array([1j]), np.array(["a"]), np.array([None])])
def test_other_kinds_of_values_are_refused(given: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"data: NumPy dtype .* cannot become float32"):
        convert_exactly(given, np.dtype(np.float32), "data")
