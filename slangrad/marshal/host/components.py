"""Components of host values: conversions to components, and Slang's arithmetic on whole vectors.

    gathered([1, [2, 3]], int32)  ->  [1, 2, 3]      1.5 for an int, -1 for a uint: an error
    divide(int 7, -2)             ->  -3             whole numbers are cut off, as in C

In and out: small NumPy arrays of the element type; no input wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slangrad.tensors.elements.conversion import AnyArray, HostValue

Data = AnyArray  # small
SIGNED, UNSIGNED, FLOAT, BOOL = "i", "u", "f", "b"
WHOLE = SIGNED + UNSIGNED


def fits(value: object, dtype: np.dtype) -> bool:
    """Whether a number may be a component at all: floats are no whole numbers, whole numbers no truth values."""
    if isinstance(value, (bool, np.bool_)):
        return True
    if isinstance(value, (int, np.integer)):
        return dtype.kind != BOOL or value in (0, 1)
    return isinstance(value, (float, np.floating)) and dtype.kind == FLOAT


def gathered(parts: Sequence[object], dtype: np.dtype, name: str) -> Data:
    """Numbers, sequences and arrays one after the other. TypeError and OverflowError name the value."""
    numbers: list[object] = []
    for part in parts:
        _gather(part, dtype, name, numbers)
    return converted(numbers, dtype, name)


def _gather(part: object, dtype: np.dtype, name: str, numbers: list[object]) -> None:
    if isinstance(part, (int, float, np.generic)):
        _check(part, dtype, name)
        numbers.append(part)
    elif isinstance(part, np.ndarray):
        flat = part.ravel().tolist()
        if part.dtype.kind != dtype.kind:
            for number in flat:
                _check(number, dtype, name)
        numbers += flat
    elif isinstance(part, (list, tuple, range)):
        for inner in part:
            _gather(inner, dtype, name, numbers)
    elif hasattr(part, "__array__"):
        _gather(np.asarray(part), dtype, name, numbers)
    else:
        raise TypeError(f"{name}: {type(part).__name__} is no number")


def _check(value: object, dtype: np.dtype, name: str) -> None:
    if fits(value, dtype):
        return
    takes = {BOOL: "truth values", FLOAT: "numbers"}.get(dtype.kind, "whole numbers")
    note = "; use int(x) if cutting off is meant" if isinstance(value, (float, np.floating)) else ""
    raise TypeError(f"{name} takes {takes}, not {value!r}{note}")


def converted(values: HostValue, dtype: np.dtype, name: str) -> Data:
    """Checked numbers as an array; OverflowError for whole numbers out of range. Floats are rounded."""
    if dtype.kind not in WHOLE:
        with np.errstate(over="ignore"):
            return np.array(values, dtype)
    limits = np.iinfo(dtype)
    for number in values if isinstance(values, list) else [values]:
        if not limits.min <= int(number) <= limits.max:
            raise OverflowError(f"{name}: {number} is not from {limits.min} to {limits.max}")
    return np.array(values, dtype)


# --- Operators ----------------------------------------------------------------------------------------

Operation = Callable[[Data, Data], Data]


def _divided(left: Data, right: Data) -> Data:
    if np.result_type(left, right).kind == FLOAT:
        with np.errstate(all="ignore"):
            return np.true_divide(left, right)
    return _truncated(left, right)


def _truncated(left: Data, right: Data) -> Data:
    _check_divisor(right)
    quotient = np.floor_divide(left, right)
    inexact = (np.remainder(left, right) != 0) & ((left < 0) != (right < 0))
    return np.asarray(quotient + inexact.astype(quotient.dtype))


def _remainder(left: Data, right: Data) -> Data:
    if right.dtype.kind != FLOAT:
        _check_divisor(right)
    with np.errstate(all="ignore"):
        return np.fmod(left, right)


def _check_divisor(right: Data) -> None:
    if not np.all(right):
        raise ZeroDivisionError("division of a vector of whole numbers by zero")


def _shifted(shift: Operation) -> Operation:
    def apply(left: Data, right: Data) -> Data:
        bits = 8 * left.dtype.itemsize
        if np.any(right < 0) or np.any(right >= bits):
            raise ValueError(f"shifts of numbers of {bits} bits go from 0 to {bits - 1}")
        return shift(left, right)

    return apply


def _wrapping(operation: Operation) -> Operation:
    def apply(left: Data, right: Data) -> Data:
        with np.errstate(all="ignore"):
            return operation(left, right)

    return apply


# Operators by name, with the kinds of elements that have them.
# fmt: off
BINARY: dict[str, tuple[str, Operation]] = {
    "add":     (WHOLE + FLOAT, _wrapping(np.add)),
    "sub":     (WHOLE + FLOAT, _wrapping(np.subtract)),
    "mul":     (WHOLE + FLOAT, _wrapping(np.multiply)),
    "truediv": (WHOLE + FLOAT, _divided),
    "mod":     (WHOLE + FLOAT, _remainder),
    "lshift":  (WHOLE,         _shifted(np.left_shift)),
    "rshift":  (WHOLE,         _shifted(np.right_shift)),
    "or":      (WHOLE + BOOL,  np.bitwise_or),
    "and":     (WHOLE + BOOL,  np.bitwise_and),
    "xor":     (WHOLE + BOOL,  np.bitwise_xor),
}
UNARY: dict[str, tuple[str, Callable[[Data], Data]]] = {
    "neg":    (WHOLE + FLOAT, np.negative),
    "pos":    (WHOLE + FLOAT, np.positive),
    "invert": (WHOLE + BOOL,  np.invert),
}
# fmt: on
