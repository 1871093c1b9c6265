"""Single values that a call can write: `ValueRef`, `diffPair`; a torch tensor with the tensor of its gradient.

c = intRef();  f(5, 10, c);  c.value               # an `out` parameter
a = diffPair(5.0);  f.bwds(a, diffPair(d=1.0));  a.grad
f.bwds(diff_pair(x, x_grad), _result=diff_pair(y, y_grad))
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from slangrad.tensors.torch_types import is_torch_type


class ValueRef:
    """A place for one value, which `out` and `inout` parameters write: `value` is it, before and after the call."""

    __slots__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"ValueRef({self.value!r})"


def intRef(value: int = 0) -> ValueRef:
    """A ValueRef that holds a whole number."""
    return ValueRef(int(value))


def floatRef(value: float = 0.0) -> ValueRef:
    """A ValueRef that holds a float."""
    return ValueRef(float(value))


class PrimType(Enum):
    """Which half of a pair is meant."""

    primal = 0
    derivative = 1


class DiffPair:
    """A value with its derivative, `primal` and `grad`. As an argument of `bwds`, `grad` of an input gets the
    derivative (unless `needs_grad` is False), and `grad` of an output is read; in `fwds` it is the tangent. What is
    left out is zero, of the other's type."""

    __slots__ = ("grad", "needs_grad", "primal")

    def __init__(self, primal: Any = None, grad: Any = None, needs_grad: bool = True) -> None:
        self.primal = _beside(grad, float) if primal is None else primal
        self.grad = _beside(self.primal, type(self.primal)) if grad is None else grad
        self.needs_grad = needs_grad

    @property
    def value(self) -> Any:
        """The same as `primal`."""
        return self.primal

    @value.setter
    def value(self, value: Any) -> None:
        self.primal = value

    def get(self, half: PrimType) -> Any:
        """`primal` or `grad`."""
        return self.primal if half is PrimType.primal else self.grad

    def set(self, half: PrimType, value: Any) -> None:
        """Change `primal` or `grad`."""
        setattr(self, "primal" if half is PrimType.primal else "grad", value)

    @property
    def slangpy_signature(self) -> str:
        """What a kernel depends on."""
        return f"[{type(self.primal).__name__},{type(self.grad).__name__},{self.needs_grad}]"

    def __repr__(self) -> str:
        return f"diffPair({self.primal!r}, {self.grad!r})"


def _beside(other: Any, kind: Any) -> Any:
    """What a pair holds beside `other` if it was not given: a zero, for a torch tensor zeros of its shape."""
    if is_torch_type(type(other)):
        return other.detach().new_zeros(other.shape)
    return kind.zeros() if hasattr(kind, "zeros") else kind()


def diff_pair(primal: Any = None, grad: Any = None) -> DiffPair:
    """A torch tensor (or a number) with its gradient: `bwds` adds to those of inputs, and reads those of outputs."""
    return DiffPair(primal, grad)


def diffPair(p: Any = None, d: Any = None, needs_grad: bool = True) -> DiffPair:
    """A DiffPair of a value and its derivative."""
    return DiffPair(p, d, needs_grad)


def floatDiffPair(p: float = 0.0, d: float = 1.0, needs_grad: bool = True) -> DiffPair:
    """A DiffPair of two floats, with the derivative 1 where none is given."""
    return DiffPair(float(p), float(d), needs_grad)
