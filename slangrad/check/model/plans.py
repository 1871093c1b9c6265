"""How a value could become one of another type, and what that costs: overloads are compared before one is chosen.

In: the literal `1` and `half`.   Out: a Plan; `calls/coerce.py` makes it and writes it down.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import record
from slangrad.check.model.checked import Conversion
from slangrad.check.model.types import Type


@record
class Coercion:
    """What a conversion costs and what it does; `conversion` is None between identical types."""

    cost: int
    conversion: Conversion | None = None
    warning: str | None = None


@record
class Plan:
    """How an expression becomes a value of `target`. `apply` writes the plan of an initializer list."""

    target: Type
    cost: int
    conversion: Conversion | None = None
    warning: str | None = None
    apply: Callable[[], None] | None = None
