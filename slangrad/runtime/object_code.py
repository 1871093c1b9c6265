"""Machine code out of an object file into executable memory, without a linker or LLVM.

In: bytes of a relocatable ELF file (x86-64 or AArch64), position-independent.   Out: addresses by name, and
an object that keeps them valid.

    load_object(code, ("entry", "drain"))  ->  Loaded({"entry": 0x7f..., "drain": 0x7f...}, memory)

Memory is written first and made executable afterwards, never both at a time. Another format, an unknown relocation
or a symbol from outside raises `Unloadable`; the compiler then uses its portable loader.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct, error

from slangrad.runtime.relocations import AARCH64, APPLY, X86_64, Unloadable

MACHINES = {"x86_64": X86_64, "amd64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}

_HEADER = Struct("<4s5B7xHHIQQQIHHHHHH")
_SECTION = Struct("<IIQQQQIIQQ")
_SYMBOL = Struct("<IBBHQQ")
_RELOCATION = Struct("<QQq")
PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITABLE, ALLOCATED = 1, 2
UNDEFINED, ABSOLUTE = 0, 0xFFF1
READ_EXECUTE = 1 | 4


@dataclass(frozen=True, slots=True)
class Loaded:
    """Addresses by name. They are valid as long as `code` lives."""

    addresses: dict[str, int]
    code: object


@dataclass(frozen=True, slots=True)
class Section:
    kind: int
    flags: int
    at: int  # where its bytes lie in the file
    size: int
    link: int
    about: int
    alignment: int


@dataclass(frozen=True, slots=True)
class ObjectSymbol:
    name: str
    section: int
    value: int


def is_loadable_here() -> bool:
    """Whether this loader serves the processes of this system at all."""
    return sys.platform.startswith("linux") and platform.machine().lower() in MACHINES


def load_object(code: bytes, names: Sequence[str]) -> Loaded:
    """The functions of an object file in memory of their own."""
    if not is_loadable_here():
        raise Unloadable(f"object files are not loaded on {sys.platform} {platform.machine()}")
    try:
        sections = _sections(code)
        symbols = _symbols(code, sections)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise Unloadable(f"the object file is damaged: {problem}") from None
    offsets, executable, size = _lay_out(sections)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for i, offset in offsets.items():
        section = sections[i]
        if section.kind != NOBITS:
            memory[offset : offset + section.size] = code[section.at : section.at + section.size]
    places = [_place(symbol, offsets) for symbol in symbols]
    _relocate(code, sections, offsets, places, memory)
    addresses = {symbol.name: place for symbol, place in zip(symbols, places) if place is not None}
    _make_executable(base, executable)
    missing = [name for name in names if name not in addresses]
    if missing:
        raise Unloadable(f"the object file has no function '{missing[0]}'")
    return Loaded({name: base + addresses[name] for name in names}, memory)


def _sections(code: bytes) -> list[Section]:
    magic, bits, order, *_ = header = _HEADER.unpack_from(code, 0)
    kind, machine, table, size, count = (header[i] for i in (6, 7, 11, 16, 17))
    if (magic, bits, order, kind, size) != (b"\x7fELF", 2, 1, 1, _SECTION.size):
        raise Unloadable("this is no relocatable ELF file of 64 bits")
    if machine != MACHINES[platform.machine().lower()]:
        raise Unloadable(f"the object file is for another machine ({machine})")
    rows = (_SECTION.unpack_from(code, table + i * size) for i in range(count))
    return [
        Section(kind, flags, at, size, link, about, max(alignment, 1))
        for _, kind, flags, _, at, size, link, about, alignment, _ in rows
    ]


def _symbols(code: bytes, sections: list[Section]) -> list[ObjectSymbol]:
    table = next(section for section in sections if section.kind == SYMTAB)
    names = sections[table.link].at
    symbols = []
    for at in range(table.at, table.at + table.size, _SYMBOL.size):
        name, _, _, section, value, _ = _SYMBOL.unpack_from(code, at)
        text = code[names + name : code.index(b"\0", names + name)].decode()
        symbols.append(ObjectSymbol(text, section, value))
    return symbols


def _lay_out(sections: list[Section]) -> tuple[dict[int, int], int, int]:
    """Offsets of the sections in memory, the size of the executable part, and the whole size. Sections that are
    written at run time have their own pages."""
    offsets: dict[int, int] = {}
    end = 0
    for writable in (0, WRITABLE):
        for i, section in enumerate(sections):
            if section.flags & ALLOCATED and section.flags & WRITABLE == writable and section.size:
                end += -end % section.alignment
                offsets[i] = end
                end += section.size
        end += -end % mmap.PAGESIZE
        if not writable:
            executable = end
    return offsets, executable, max(end, mmap.PAGESIZE)


def _place(symbol: ObjectSymbol, offsets: dict[int, int]) -> int | None:
    """Where a symbol lies in the memory; None where it does not."""
    start = offsets.get(symbol.section)
    return None if start is None else start + symbol.value


def _relocate(
    code: bytes,
    sections: list[Section],
    offsets: dict[int, int],
    places: list[int | None],
    memory: mmap.mmap,
) -> None:
    machine = MACHINES[platform.machine().lower()]
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for start, at, number, kind, addend in _relocations(code, sections, offsets):
        target = places[number]
        rule = APPLY.get((machine, kind))
        if target is None or rule is None:
            missing = "a symbol from outside" if rule is not None else f"relocation {kind}"
            raise Unloadable(f"the object file needs {missing}")
        rule(memory, start + at, base + target + addend, base + start + at)


def _relocations(
    code: bytes, sections: list[Section], offsets: dict[int, int]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Start of the section in memory, offset in it, number of the symbol, kind, addend."""
    for section in sections:
        if section.kind != RELA or section.about not in offsets:
            continue
        for row in range(section.at, section.at + section.size, _RELOCATION.size):
            at, info, addend = _RELOCATION.unpack_from(code, row)
            yield offsets[section.about], at, info >> 32, info & 0xFFFFFFFF, addend


def _make_executable(address: int, size: int) -> None:
    if not size:
        return
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, size, READ_EXECUTE) != 0:
        raise Unloadable(f"memory cannot be made executable (error {ctypes.get_errno()})")
