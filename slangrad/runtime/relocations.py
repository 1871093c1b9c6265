"""Relocations of an object file: the kinds that compiled kernels have.

    APPLY[62, 2](memory, at, target, place)     x86-64: 32 bits at `at` become target - place

A row for each kind. `target` is the address of the symbol with its addend; `place` is that of the bytes to change.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from struct import Struct, pack_into, unpack_from

X86_64, AARCH64 = 62, 183

Rule = Callable[[mmap, int, int, int], None]


class Unloadable(Exception):
    """An object file that this loader cannot load."""


def _fits(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Unloadable("the parts of an object file lie too far from each other")
    return value


def _absolute(memory: mmap, at: int, target: int, place: int) -> None:
    pack_into("<Q", memory, at, target & 0xFFFFFFFFFFFFFFFF)


def _relative(bits: int) -> Rule:
    packed = Struct("<i" if bits == 32 else "<q")

    def apply(memory: mmap, at: int, target: int, place: int) -> None:
        packed.pack_into(memory, at, _fits(target - place, bits))

    return apply


def _instruction(memory: mmap, at: int, field: int, mask: int) -> None:
    """Put a field into an instruction of 32 bits."""
    (word,) = unpack_from("<I", memory, at)
    pack_into("<I", memory, at, word & ~mask & 0xFFFFFFFF | field & mask)


def _branch(memory: mmap, at: int, target: int, place: int) -> None:
    """Words from here, 26 bits."""
    _instruction(memory, at, _fits(target - place, 28) >> 2, 0x03FFFFFF)


def _page(memory: mmap, at: int, target: int, place: int) -> None:
    """Pages of 4 KiB from here: two bits at 29, nineteen at 5."""
    pages = _fits((target >> 12) - (place >> 12), 21)
    _instruction(memory, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0x60FFFFE0)


def _within_page(shift: int) -> Rule:
    """The place in the page in units of an access, twelve bits at 10."""

    def apply(memory: mmap, at: int, target: int, place: int) -> None:
        _instruction(memory, at, (target & 0xFFF) >> shift << 10, 0x003FFC00)

    return apply


# fmt: off
APPLY: dict[tuple[int, int], Rule] = {
    (X86_64,  1):   _absolute,          # R_X86_64_64
    (X86_64,  2):   _relative(32),      # R_X86_64_PC32
    (X86_64,  4):   _relative(32),      # R_X86_64_PLT32
    (X86_64,  24):  _relative(64),      # R_X86_64_PC64
    (AARCH64, 257): _absolute,          # R_AARCH64_ABS64
    (AARCH64, 260): _relative(64),      # R_AARCH64_PREL64
    (AARCH64, 261): _relative(32),      # R_AARCH64_PREL32
    (AARCH64, 275): _page,              # R_AARCH64_ADR_PREL_PG_HI21
    (AARCH64, 277): _within_page(0),    # R_AARCH64_ADD_ABS_LO12_NC
    (AARCH64, 278): _within_page(0),    # R_AARCH64_LDST8_ABS_LO12_NC
    (AARCH64, 282): _branch,            # R_AARCH64_JUMP26
    (AARCH64, 283): _branch,            # R_AARCH64_CALL26
    (AARCH64, 284): _within_page(1),    # R_AARCH64_LDST16_ABS_LO12_NC
    (AARCH64, 285): _within_page(2),    # R_AARCH64_LDST32_ABS_LO12_NC
    (AARCH64, 286): _within_page(3),    # R_AARCH64_LDST64_ABS_LO12_NC
    (AARCH64, 299): _within_page(4),    # R_AARCH64_LDST128_ABS_LO12_NC
}
# fmt: on
