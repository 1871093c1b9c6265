"""Python's operators of tensors: equality element by element, the truth of one element; no arithmetic.

    x == y            ->   a NumPy array of truth values            x is y   whether they are the same object
    if x: ...         ->   ValueError for more than one element     x + 1    ->   TypeError: Slang functions compute

Tensors are found by identity in dicts and sets, as arrays of PyTorch are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slangrad.tensors.elements.conversion import HostValue
from slangrad.tensors.elements.element_types import holds_structs, slang_name

_ARITHMETIC = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
# Objects that answer calls of Slang functions have operators of their own, for tensors, too.
PROTOCOL = "__slangrad_call__"
_UNARY = {"-": "neg", "+": "pos", "~": "invert", "abs": "abs"}


class Operators:
    """The operators of a class with `shape`, `element_type` and `to_numpy`."""

    __slots__ = ()

    __hash__ = object.__hash__

    def __bool__(self: HostValue) -> bool:
        """The truth of the only component. ValueError for more or fewer than one."""
        values = self.to_numpy()
        if values.size != 1 or holds_structs(self.element_type):
            message = f"the truth of a Tensor of shape {tuple(self.shape)} is ambiguous"
            raise ValueError(f"{message}: say np.any(t.to_numpy()), np.all(t.to_numpy()) or 't is not None'")
        return bool(values.item())

    def __eq__(self, other: object) -> HostValue:
        """Which components are equal to those of another tensor, an array or a number, after NumPy's broadcasting."""
        return self._compared(other, np.equal, "==")

    def __ne__(self, other: object) -> HostValue:
        """Which components are not equal, as `==`."""
        return self._compared(other, np.not_equal, "!=")

    def _compared(self: HostValue, other: HostValue, compare: np.ufunc, sign: str) -> object:
        is_tensor = isinstance(other, Operators)
        if not is_tensor and not isinstance(other, (np.ndarray, np.generic, bool, int, float, list)):
            return NotImplemented
        self._refuse_structs(other if is_tensor else self, sign)
        return compare(self.to_numpy(), other.to_numpy() if is_tensor else other)

    def _refuse_structs(self, other: Operators, sign: str) -> None:
        operand: HostValue
        for operand in (self, other):
            if holds_structs(operand.element_type):
                name = slang_name(operand.element_type)
                message = f"'{sign}' does not compare Tensors of structs ({name})"
                raise TypeError(f"{message}: compare fields of t.to_numpy(structured=True)")


def _refusal(sign: str) -> Callable[..., object]:
    def refused(self: Operators, *other: object) -> HostValue:
        if other and hasattr(other[0], PROTOCOL):
            return NotImplemented
        raise TypeError(
            f"Tensors have no operator '{sign}': call a Slang function, or compute with t.to_numpy() on the host"
        )

    return refused


for _sign, _name in (*_ARITHMETIC.items(), *_COMPARISONS.items(), *_UNARY.items()):
    setattr(Operators, f"__{_name}__", _refusal(_sign))
for _sign, _name in _ARITHMETIC.items():
    setattr(Operators, f"__r{_name}__", _refusal(_sign))
