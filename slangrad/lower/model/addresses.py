"""Memory behind a pointer, of which a part may be missing.

Memory may have another form than values: `form` is that of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.ir.data.types import Type, pointer_of
from slangrad.ir.ops.core import Value
from slangrad.lower.model.flow import SSABuilder


@dataclass(slots=True)
class GuardedAddress:
    """With a guard, a bool, there is no memory where it is false: reads give zero. With `cut` loaded values are
    constants."""

    pointer: Value
    guard: Value | None = None
    cut: bool = False

    @property
    def form(self) -> Type:
        return pointer_of(self.pointer.type).element

    def guarded(self, f: SSABuilder, access: Callable[[], Value], t: Type) -> Value:
        """The value of an access to the memory, zero where there is none."""
        if self.guard is None:
            return access()
        return f.branch(self.guard, lambda: (access(),), lambda: (f.b.zero(t),))[0]
