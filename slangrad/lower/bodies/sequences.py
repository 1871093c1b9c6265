"""Code in order, of which a part may leave: the rest runs where control has not left.

if (c) return 1;  f();        ->      %returned = if %c ...      if %returned { } else { call @f }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from slangrad.lower.model.exits import exited, flags
from slangrad.lower.model.frame import Frame


def lower_in_order(f: Frame, parts: Sequence[Callable[[], None]]) -> None:
    """One after the other; once control may have left, the rest runs only where it has not."""
    for i, part in enumerate(parts):
        rest = parts[i + 1 :]
        part()
        if continue_where_not_left(f, partial(lower_in_order, f, rest), bool(rest)):
            return


def continue_where_not_left(f: Frame, rest: Callable[[], None], more: bool) -> bool:
    """Whether nothing is left to be done here: control has left for sure, or the rest became an arm."""
    left = exited(f)
    known = f.b.constant_of(left)
    if known is None and more:
        f.branch(left, tuple, partial(not_left, f, rest))
    return known is None or bool(known)


def not_left(f: Frame, lower: Callable[[], None]) -> None:
    """Lower where control has not left: no flag is set. One that stays so is what it was."""
    before = {flag: f.variables[flag] for flag in flags(f)}
    f.variables.update(dict.fromkeys(before, f.false()))
    lower()
    unset = [flag for flag in before if f.b.constant_of(f.variables[flag]) is False]
    f.variables.update({flag: before[flag] for flag in unset})
