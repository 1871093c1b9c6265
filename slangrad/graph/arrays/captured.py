"""Captured arrays: those that a traced function reads and that are no arguments of it.

jit(lambda x: x * w)                    a node `captured` for w, whose elements each call reads anew
jit(lambda x, y: x[np.arange(3), y])    an assumption: the elements are 0, 1, 2; without it the function is traced anew
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local

import numpy as np

from slangrad.base.lazy import LazyModule
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.values import ArrayValue, is_torch, resolved, seen_as

TORCH_JOBS = LazyModule("slangrad.torch_jobs")


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

    @property
    def numbers(self) -> ArrayValue:
        """`value`, for a plan that no derivative of torch follows. GraphError (E1043) for a tensor with a tangent, and
        for one of a transform of torch.func, which the result would lose."""
        value = self.value
        if is_torch(value) and TORCH_JOBS.is_followed(value):
            message = "torch follows a tensor that is no argument of the function, as a dual level does"
            raise GraphError("E1043", message, "make it an argument, or x.detach()")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Captured) and other._held is self._held and other._form == self._form

    def __hash__(self) -> int:
        return id(self._held)

    def __lt__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{type(self._held).__name__}>"


class Counting:
    """The assumption about an array that its elements are 0, 1, 2, ... A trace with it has one index for each row."""

    __slots__ = ("_numbers", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self._numbers = array, np.arange(len(array))

    def holds(self) -> bool:
        return bool((self.array == self._numbers).all())


class _Assumptions(local):
    """Those of the trace under way in this thread, and the arrays that it must assume nothing about."""

    collected: list[Counting] | None = None
    doubted: Iterable[np.ndarray] = ()


_ASSUMPTIONS = _Assumptions()


@contextmanager
def assumptions(doubted: Iterable[np.ndarray]) -> Iterator[list[Counting]]:
    """A context for a trace. It gives the list of assumptions that the trace makes."""
    before = _ASSUMPTIONS.collected, _ASSUMPTIONS.doubted
    collected: list[Counting] = []
    _ASSUMPTIONS.collected, _ASSUMPTIONS.doubted = collected, doubted
    try:
        yield collected
    finally:
        _ASSUMPTIONS.collected, _ASSUMPTIONS.doubted = before


def is_assumed_to_count(array: object, count: int) -> bool:
    """Whether a trace may take the elements of an array, now 0, 1, ..., count - 1, for just these numbers."""
    collected = _ASSUMPTIONS.collected
    if collected is None or not isinstance(array, np.ndarray) or array.shape != (count,):
        return False
    assumption = Counting(array)
    if any(doubted is array for doubted in _ASSUMPTIONS.doubted) or not assumption.holds():
        return False
    collected.append(assumption)
    return True


def _refuse_gradients(array: ArrayValue) -> None:
    if getattr(array, "requires_grad", False):
        message = "a torch tensor that requires gradients is no argument of the function"
        raise GraphError("E1043", message, "make it one, or x.detach()")
