"""A frame that knows how expressions and statements are lowered: what `Frame` leaves open."""

from __future__ import annotations

from slangrad.lower.bodies import expressions, statements
from slangrad.lower.model.frame import Frame


class FunctionBody(Frame):
    """One function being lowered, with the answers to what is asked of its frame."""

    value = expressions.value
    effect = expressions.effect
    place = expressions.place
    part = expressions.part
    parts = expressions.parts
    statement = statements.statement
