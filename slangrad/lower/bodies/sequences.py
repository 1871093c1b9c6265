"""A sequence with parts that may leave: the rest runs where control has not left.

if (c) return 1;  f();        ->      %returned = if %c ...      if %returned { } else { call @f }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from slangrad.ir.ops.core import Value
from slangrad.lower.model.exits import exited, flags
from slangrad.lower.model.frame import Frame

MOST_NESTED = 64  # parts inside each other, each in an arm that the one before it leaves


def lower_in_order(f: Frame, parts: Sequence[Callable[[], None]]) -> None:
    """One after the other; once control may have left, the rest runs only where it has not."""
    starts = range(0, len(parts), MOST_NESTED)
    lower_portions(f, [partial(_lower_nested, f, parts[i : i + MOST_NESTED]) for i in starts])


def lower_portions(f: Frame, portions: Sequence[Callable[[], None]]) -> None:
    """The same, but the arm of code after an exit ends with each portion and begins anew with the next one, so that
    code is not nested ever deeper."""
    for portion in portions:
        left = exited(f)
        if f.b.constant_of(left) is True:
            return
        f.finished(partial(_lower_where, f, left, portion))


def _lower_where(f: Frame, left: Value, lower: Callable[[], None]) -> None:
    f.leave_where(left, flags(f))
    lower()


def _lower_nested(f: Frame, parts: Sequence[Callable[[], None]]) -> None:
    for i, part in enumerate(parts):
        rest = parts[i + 1 :]
        part()
        if continue_where_not_left(f, partial(_lower_nested, f, rest), bool(rest)):
            return


def continue_where_not_left(f: Frame, rest: Callable[[], None], more: bool) -> bool:
    """Whether nothing is left to be done here: control has left for sure, or the rest became an arm."""
    left = exited(f)
    constant = f.b.constant_of(left)
    if constant is None and more:
        f.branch(left, tuple, partial(not_left, f, rest))
    return constant is None or bool(constant)


def not_left(f: Frame, lower: Callable[[], None]) -> None:
    """Lower where control has not left: no flag is set. A flag that stays unset keeps its value."""
    before = {flag: f.variables[flag] for flag in flags(f)}
    f.variables.update(dict.fromkeys(before, f.false()))
    lower()
    unset = [flag for flag in before if f.b.constant_of(f.variables[flag]) is False]
    f.variables.update({flag: before[flag] for flag in unset})
