"""Whether a call of a derivative has no gradient to write, or no tangent to read.

In: the leaves of a call of `bwds` or `fwds`, bound or from the disk.   Out: True where the call would be empty.

    f.bwds(x)  with x a NumPy array   ->   no argument can receive a gradient

The answer is True only if it is certain. Memory that a function may write or reach (buffers, pointers, output
tensors, values of users' own types) and prints are reasons to make a call. The error is made by `receivers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from slangrad.check.model.types import (
    UINT64,
    ArrayType,
    MatrixType,
    PointerType,
    ScalarType,
    Type,
    VectorType,
)
from slangrad.ir.data import types as ir
from slangrad.marshal.composed.scalars import NumberMarshal
from slangrad.marshal.protocol.marshal import Marshal
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.marshal.protocol.roles import BACKWARD, TANGENT
from slangrad.marshal.reflection.model import SavedType

if TYPE_CHECKING:
    from slangrad.call.binding.program import ModuleTypes

PRINTING = ("printf", "print")
Types = Callable[[], "ModuleTypes"]  # the types of the module, which need the checker


def is_idle(mode: str, leaves: Sequence[Leaf], types: Types) -> bool:
    """Whether `bwds` has no place for gradients, or `fwds` no tangent."""
    if mode == BACKWARD:
        if any(leaf.role.gives for leaf in leaves) or any(_may_change(leaf, types) for leaf in leaves):
            return False
        return not any(map(types().mentions, PRINTING))
    return mode == TANGENT and not any(_may_bring(leaf, types) for leaf in leaves)


def only_numbers(mode: str, marshals: Iterable[Marshal]) -> bool:
    """Whether `bwds` is called with numbers alone: SlangPy's programs do that, so it is a warning."""
    return mode == BACKWARD and all(isinstance(marshal, NumberMarshal) for marshal in marshals)


def _may_change(leaf: Leaf, types: Types) -> bool:
    """Whether the call may change memory that the value leads to."""
    return leaf.may_write or leaf.hides(lambda t: _holds_addresses(t, types))


def _may_bring(leaf: Leaf, types: Types) -> bool:
    """Whether a derivative may come in."""
    role = leaf.role
    in_place = role.reads and bool(role.gives)  # what goes out lies where it came in
    is_memory = leaf.is_whole and leaf.content is None
    return role.takes or in_place or is_memory or leaf.hides(lambda t: _holds_addresses(t, types))


def _holds_addresses(t: Type, types: Types) -> bool:
    """Pointers, and numbers that may be addresses."""
    if isinstance(t, (ArrayType, VectorType, MatrixType)):
        return _holds_addresses(t.element, types)
    if isinstance(t, (ScalarType, PointerType)):
        return t is UINT64 or isinstance(t, PointerType)
    lowered = t.lowered if isinstance(t, SavedType) else types().lower(t)
    return lowered is None or _are_addresses(lowered)


def _are_addresses(t: ir.Type) -> bool:
    value = ir.value_of(t)
    if isinstance(value, (ir.Struct, ir.Array, ir.Vector)):
        return any(map(_are_addresses, dict.fromkeys(ir.components(value))))
    return isinstance(value, ir.Pointer) or value is ir.U64
