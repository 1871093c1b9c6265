"""Captured arrays: those that a traced function reads and that are no arguments of it.

jit(lambda x: x * w)        a node `captured` for w, whose elements each call reads anew
"""

from __future__ import annotations

from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.values import ArrayValue, resolved, seen_as


class Captured:
    """The array of a node `captured`. Arrays are equal if they are one object that looks the same."""

    __slots__ = ("_form", "_held")

    def __init__(self, array: ArrayValue) -> None:
        _refuse_gradients(array)
        self._held = array
        self._form = seen_as(resolved(array))

    @property
    def value(self) -> ArrayValue:
        """The array now. GraphError (E1043) if its shape, strides or dtype were changed in place, or if it requires
        gradients since then."""
        value = resolved(self._held)
        if seen_as(value) != self._form:
            message = "the shape, strides or dtype of an array that is no argument were changed in place"
            raise GraphError("E1043", message, "make it an argument of the function")
        _refuse_gradients(value)
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Captured) and other._held is self._held and other._form == self._form

    def __hash__(self) -> int:
        return id(self._held)

    def __lt__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{type(self._held).__name__}>"


def _refuse_gradients(array: ArrayValue) -> None:
    if getattr(array, "requires_grad", False):
        message = "a torch tensor that requires gradients is no argument of the function"
        raise GraphError("E1043", message, "make it one, or x.detach()")
