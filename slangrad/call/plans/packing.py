"""The argument block of a kernel: one precompiled `struct` for all its bytes.

In: the Struct of a kernel's arguments.   Out: for each argument the places of its scalars in one flat list of
values, which `BlockPacker.pack` writes at once.

    struct { CallShape<1> shape; float a; Contiguous<float,1> x }   ->  "<I f Q q", a at 1, x at 2 and 3

Fields, components, rows and elements come in the order of memory. Arguments that a kernel never reads have no place
in its block, and their values are dropped. A `Compiled` is a kernel with its packer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slangrad.base.lazy import LazyModule
from slangrad.ir.data.layout import layout_of, scalars_of
from slangrad.ir.data.types import Struct, Type
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import MemoryFormat, format_of, memory_format
from slangrad.marshal.host.footprint import Values
from slangrad.runtime.device import Kernel
from slangrad.tensors.elements.element_types import slang_name

if TYPE_CHECKING:
    from slangrad.pipeline import CompiledKernel

MOST_SHOWN = 10**40  # larger integers are not written out


@dataclass(slots=True, frozen=True)
class BlockPacker:
    """`places[name]` is the slice of the flat list that argument `name` fills."""

    format: MemoryFormat
    places: Mapping[str, slice]
    scalars: tuple[Type, ...]
    offsets: tuple[int, ...]  # where each of them lies

    @property
    def empty(self) -> Values:
        """A list of zeros to be filled."""
        return [0] * len(self.scalars)

    def pack(self, values: list[object]) -> bytes:
        try:
            return self.format.pack(*values)
        except (struct.error, OverflowError, TypeError) as error:
            raise self._explain(values) from error

    def _explain(self, values: list[object]) -> CallError:
        for name, place in self.places.items():
            for scalar, value in zip(self.scalars[place], values[place]):
                if not _fits(scalar, value):
                    return CallError("E1010", _misfit(name, scalar, value))
        raise AssertionError(f"values that fit were not packed: {values}")


def _misfit(name: str, t: Type, value: object) -> str:
    is_long = isinstance(value, int) and abs(value) >= MOST_SHOWN
    shown = "an integer of so many digits" if is_long else repr(value)
    return f"argument '{name}': {shown} does not fit into '{slang_name(t)}'"


def packer_of(arguments: Struct) -> BlockPacker:
    leaves: list[tuple[int, Type]] = []
    places = {}
    for (name, t), offset in zip(arguments.fields, layout_of(arguments).offsets):
        before = len(leaves)
        leaves += scalars_of(t, offset)
        places[name] = slice(before, len(leaves))
    return BlockPacker(
        memory_format(arguments), places, tuple(t for _, t in leaves), tuple(at for at, _ in leaves)
    )


def _fits(t: Type, value: object) -> bool:
    try:
        struct.pack("=" + format_of(t), value)
    except (struct.error, OverflowError, TypeError):
        return False
    return True


PIPELINE = LazyModule("slangrad.pipeline")


@dataclass(slots=True)
class Compiled:
    """The kernel of a call. The values of the pipeline's stages, `stages`, are made anew for a kernel from the
    disk."""

    kernel: Kernel
    packer: BlockPacker
    used: frozenset[str]
    key: str  # of the kernel on disk
    make_stages: Callable[[], CompiledKernel]
    make_text: Callable[[], str]

    def __repr__(self) -> str:
        return f"Compiled({self.kernel.name}, arguments {', '.join(sorted(self.used)) or 'none'})"

    @property
    def stages(self) -> CompiledKernel:
        return self.make_stages()

    @property
    def text(self) -> str:
        """The page of Slang that the kernel was made from."""
        return self.make_text()
