"""Operators on constant integers.

In: ("+", 2) and 3, 4.   Out: 7; None where there is no value, as for a division by zero.

Numbers have no size here: callers cut them to that of a type.
"""

from __future__ import annotations

from collections.abc import Callable


def _divide(left: int, right: int) -> int | None:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int | None:
    quotient = _divide(left, right)
    return None if quotient is None else left - quotient * right


# fmt: off
FOLDS: dict[tuple[str, int], Callable[..., int | None]] = {
    ("+", 2):  lambda a, b: a + b,        ("-", 2):  lambda a, b: a - b,        ("*", 2):  lambda a, b: a * b,
    ("/", 2):  _divide,                   ("%", 2):  _remainder,
    ("<<", 2): lambda a, b: a << (b & 63),                                      ("-", 1):  lambda a: -a,
    (">>", 2): lambda a, b: a >> (b & 63),                                      ("+", 1):  lambda a: a,
    ("&", 2):  lambda a, b: a & b,        ("|", 2):  lambda a, b: a | b,        ("^", 2):  lambda a, b: a ^ b,
    ("~", 1):  lambda a: ~a,              ("!", 1):  lambda a: int(not a),
    ("<", 2):  lambda a, b: int(a < b),   (">", 2):  lambda a, b: int(a > b),
    ("<=", 2): lambda a, b: int(a <= b),  (">=", 2): lambda a, b: int(a >= b),
    ("==", 2): lambda a, b: int(a == b),  ("!=", 2): lambda a, b: int(a != b),
    ("&&", 2): lambda a, b: int(bool(a and b)),
    ("||", 2): lambda a, b: int(bool(a or b)),
    ("?:", 3): lambda a, b, c: b if a else c,
    ("min", 2): min,                      ("max", 2): max,
}
# fmt: on
