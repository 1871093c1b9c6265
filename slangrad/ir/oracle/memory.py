"""Data of the oracle: numbers and aggregates, memory at real addresses, tapes.

A scalar or pointer is a Python number, an aggregate is a tuple of its components, a tape is a `Tape`:

    f32x2 -> (1.0, 2.0)      struct { f32 x; [2 x i32] n } -> (1.0, (3, 4))      ptr -> 140234...

Memory is the process's own, laid out by layout.py, so that the oracle and machine code take the same argument
block. This file does not know ops.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.numbers import Number, wrap
from slangrad.ir.data.small_floats import bits_of_small, small_of_bits
from slangrad.ir.data.types import (
    F16,
    SCALARS,
    SMALL_FLOATS,
    Pointer,
    Scalar,
    Type,
    component,
    components,
    is_tape,
)

Datum: TypeAlias = "Number | Tape | tuple[Datum, ...]"
Reader = Callable[[int], Datum]
Writer = Callable[[int, Datum], None]

LOWEST_ADDRESS = 4096
UNWRITTEN = 0xA5  # fills fresh local memory, so that reading before writing shows

# fmt: off
_C_TYPES: dict[str, type[ctypes._SimpleCData[int]] | type[ctypes._SimpleCData[float]]] = {
    "bool": ctypes.c_uint8,
    "i8": ctypes.c_int8,   "i16": ctypes.c_int16,   "i32": ctypes.c_int32,   "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,  "u16": ctypes.c_uint16,  "u32": ctypes.c_uint32,  "u64": ctypes.c_uint64,
    "f32": ctypes.c_float, "f64": ctypes.c_double,
}
# fmt: on


class Tape:
    """A growable array as a value: zero until written; `put` makes a new version.

    The newest version holds the elements; an older one is a difference to a newer one and takes the elements back
    on access. So linear use is cheap, and no version changes.
    """

    __slots__ = ("_at", "_elements", "_newer", "_value")

    def __init__(self) -> None:
        self._elements: dict[int, Datum] | None = {}
        self._newer: Tape | None = None
        self._at = 0
        self._value: Datum | None = None  # None: not written

    def at(self, index: int) -> Datum | None:
        """The element, or None where nothing was written."""
        return self._held().get(index)

    def put(self, index: int, value: Datum) -> Tape:
        elements, newer = self._held(), Tape()
        if not elements:  # the start of many tapes, which have nothing in common
            newer._elements = {index: value}
            return newer
        newer._elements, self._elements = elements, None
        self._newer, self._at, self._value = newer, index, elements.get(index)
        elements[index] = value
        return newer

    def items(self) -> dict[int, Datum]:
        """The written elements, in order of their indices."""
        return dict(sorted(self._held().items()))

    def _held(self) -> dict[int, Datum]:
        chain = [self]
        while (newer := chain[-1]._newer) is not None:
            chain.append(newer)
        for older in reversed(chain[:-1]):
            older._take_back()
        assert self._elements is not None
        return self._elements

    def _take_back(self) -> None:
        """Swap with the next newer version, which holds the elements."""
        newer = self._newer
        assert newer is not None and newer._elements is not None
        elements, value = newer._elements, self._value
        newer._elements, newer._newer, newer._at, newer._value = None, self, self._at, elements.get(self._at)
        self._elements, self._newer = elements, None
        if value is None:
            elements.pop(self._at, None)
        else:
            elements[self._at] = value


def zero_of(t: Type) -> Datum:
    """The datum of type `t` that is zero in each component."""
    if isinstance(t, Scalar):
        return wrap(t, 0)
    if isinstance(t, Pointer):
        return 0
    if is_tape(t):
        return Tape()
    return tuple(zero_of(c) for c in components(t))


def fill(t: Type, value: Datum, source: Type) -> Datum:
    """`value` of type `source` in each component of `t`, however deep."""
    return value if t is source else tuple(fill(c, value, source) for c in components(t))


def leaves(value: Datum) -> list[Number]:
    """The scalars of a datum in order."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    assert not isinstance(value, Tape)
    return [value]


@cache
def reader_of(t: Type) -> Reader:
    """A function from an address to the datum of type `t` there."""
    if isinstance(t, (Scalar, Pointer)):
        return _scalar_reader(t)
    parts = [(offset, reader_of(component(t, i))) for i, offset in enumerate(layout_of(t).offsets)]
    return lambda address: tuple(read(address + offset) for offset, read in parts)


@cache
def writer_of(t: Type) -> Writer:
    """A function that writes a datum of type `t` to an address."""
    if isinstance(t, (Scalar, Pointer)):
        return _scalar_writer(t)
    parts = [(offset, writer_of(component(t, i))) for i, offset in enumerate(layout_of(t).offsets)]

    def write(address: int, value: Datum) -> None:
        assert isinstance(value, tuple)
        for (offset, write_part), part in zip(parts, value, strict=True):
            write_part(address + offset, part)

    return write


def _scalar_reader(t: Scalar | Pointer) -> Reader:
    if t is F16:
        return _read_half
    if t in SMALL_FLOATS:
        assert isinstance(t, Scalar)
        small = t
        bits_at = _C_TYPES[f"u{t.bits}"].from_address
        return lambda address: small_of_bits(small, int(bits_at(_checked(address)).value))
    read = _C_TYPES[t.name if isinstance(t, Scalar) else "u64"].from_address
    if t is SCALARS["bool"]:
        return lambda address: read(_checked(address)).value != 0
    return lambda address: read(_checked(address)).value


def _scalar_writer(t: Scalar | Pointer) -> Writer:
    if t is F16:
        return _write_half
    if t in SMALL_FLOATS:
        return _small_writer(t)
    at = _C_TYPES[t.name if isinstance(t, Scalar) else "u64"].from_address

    def write(address: int, value: Datum) -> None:
        assert not isinstance(value, (tuple, Tape))
        at(_checked(address)).value = value

    return write


def _read_half(address: int) -> Datum:
    (value,) = struct.unpack("e", ctypes.string_at(_checked(address), 2))
    assert isinstance(value, float)
    return value


def _write_half(address: int, value: Datum) -> None:
    ctypes.memmove(_checked(address), struct.pack("e", value), 2)


def _small_writer(t: Scalar | Pointer) -> Writer:
    assert isinstance(t, Scalar)
    at = _C_TYPES[f"u{t.bits}"].from_address

    def write(address: int, value: Datum) -> None:
        assert isinstance(value, (int, float))
        at(_checked(address)).value = bits_of_small(t, float(value))

    return write


def _checked(address: int) -> int:
    assert address >= LOWEST_ADDRESS, f"memory is used at address {address}"
    return address


Block: TypeAlias = "ctypes.Array[ctypes.c_char]"


class ThreadMemory:
    """Memory of one thread, kept until the thread ends; that of variables, whose addresses other threads may have,
    lives as long as `lasting`."""

    def __init__(self, lasting: list[Block] | None = None) -> None:
        self._blocks: list[Block] = []
        self._lasting = self._blocks if lasting is None else lasting
        self._variables: dict[tuple[object, ...], tuple[int, int]] = {}  # where, how many bytes

    def variable(self, key: tuple[object, ...], size: int) -> int:
        """The same memory for the same key."""
        if key not in self._variables:
            self._variables[key] = self._allocate(self._lasting, size, False), size
        return self._variables[key][0]

    def has_variable(self, address: int, size: int) -> bool:
        """Whether so many bytes are within a variable."""
        return any(at <= address <= at + room - size for at, room in self._variables.values())

    def allocate(self, size: int, zero: bool) -> int:
        return self._allocate(self._blocks, size, zero)

    @staticmethod
    def _allocate(blocks: list[Block], size: int, zero: bool) -> int:
        block = ctypes.create_string_buffer(max(size, 1) + 8)
        blocks.append(block)
        address = -(-ctypes.addressof(block) // 8) * 8
        if not zero:
            ctypes.memset(address, UNWRITTEN, size)
        return address
