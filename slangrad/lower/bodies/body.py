"""A frame with the lowering of expressions and statements: the abstract methods of `Frame`."""

from __future__ import annotations

from slangrad.lower.bodies import expressions, statements
from slangrad.lower.model.frame import Frame


class FunctionBody(Frame):
    """One function being lowered, with the abstract methods of its frame."""

    value = expressions.value
    effect = expressions.effect
    place = expressions.place
    part = expressions.part
    parts = expressions.parts
    statement = statements.statement
