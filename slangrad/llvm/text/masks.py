"""Truth values of many lanes where machines have no registers for them: as wide as compared floats are.

    and %a, %b : lanes<bool>      %c = and <8 x i32> %a.wide, %b.wide;   icmp slt %c, 0 where bits are wanted

LLVM narrows `<8 x i1>` to bytes at the borders of blocks, and for logic on more lanes than a register
holds; each step back and forth costs a handful of instructions. So masks cross borders wide, and logic is
done wide.
"""

from __future__ import annotations

from slangrad.ir.data.types import BOOL, Lanes
from slangrad.ir.ops.core import Value
from slangrad.llvm.text.type_names import TypeNames
from slangrad.llvm.text.writer import Writer

MASK_LOGIC = frozenset({"and", "or", "xor", "not"})


class Masks:
    """Remembers the wide form of each mask that has one."""

    def __init__(self, w: Writer, names: TypeNames) -> None:
        self._w = w
        self._narrow_type = names.widened("i1")
        self.type = names.widened("i32")
        self._wide: dict[str, str] = {}

    def apply_to(self, value: Value) -> bool:
        is_mask = isinstance(value.type, Lanes) and value.type.element is BOOL
        return is_mask and not self._w.features.mask_registers

    def widen(self, operand: str) -> str:
        """All bits of a lane equal the truth value."""
        if operand not in self._wide:
            return self._w.value(f"sext {self._narrow_type} {operand} to {self.type}")
        return self._wide[operand]

    def narrow(self, wide: str) -> str:
        narrow = self._w.value(f"icmp slt {self.type} {wide}, zeroinitializer")
        self._wide[narrow] = wide
        return narrow

    def logic(self, name: str, operands: list[str]) -> str:
        wide = [self.widen(x) for x in operands]
        if name == "not":
            name, wide = "xor", [wide[0], "splat (i32 -1)"]
        return self.narrow(self._w.value(f"{name} {self.type} {wide[0]}, {wide[1]}"))
