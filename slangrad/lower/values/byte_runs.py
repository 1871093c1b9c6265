"""The bytes of values, from which values of other types are made: pieces of scalars, and runs of long arrays.

    struct { uint16_t a, b; float w[64]; }    Piece(0, 2, %a)  Piece(2, 2, %b)  Run(4, 256, %words)

A long array is packed and unpacked in loops, as many elements at a time as fill whole words. So code does not
depend on its length, where arrays lie at other bytes in the one type than in the other, too. Lists are in the order
of memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import lcm
from typing import TypeAlias

from slangrad.ir.data.types import U32, U64, Array, Type, array, contains, is_long
from slangrad.ir.ops.core import Value
from slangrad.lower.model.frame import Frame

WORD = 4


@dataclass(frozen=True, slots=True)
class BytePiece:
    """Bytes of the source, as a u64."""

    start: int
    size: int
    bits: Value


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes of the source as words, from number `first` of an array on; no first one is number 0."""

    start: int
    size: int
    words: Value
    first: Value | None = None

    def covers(self, start: int, end: int) -> bool:
        return self.start <= start and end <= self.start + self.size

    def word(self, f: Frame, number: Value) -> Value:
        at = number if self.first is None else f.emit("add", self.first, number)
        return f.emit("index", self.words, at)


Bytes: TypeAlias = "BytePiece | Run"


def assembled(f: Frame, start: int, size: int, parts: list[Bytes]) -> Value:
    """The bytes from `start` on, at most eight, as a u64, which may have more than `size` of them."""
    bits, end = f.b.zero(U64), start + size
    for piece in _between(f, start, end, parts):
        bits = f.emit("or", bits, _moved(f, piece, start))
    return bits


def _between(f: Frame, start: int, end: int, parts: list[Bytes]) -> Iterator[BytePiece]:
    near = _part_at(parts, start)
    for part in parts[near : near + 8]:  # more do not lie in eight bytes
        if part.start >= end:
            return
        if isinstance(part, BytePiece):
            yield part
            continue
        last = min(end, part.start + part.size)
        for k in range(max(0, start - part.start) // WORD, -(-(last - part.start) // WORD)):
            word = f.emit("convert", part.word(f, f.b.constant(U32, k)), type=U64)
            yield BytePiece(part.start + WORD * k, WORD, word)


def _part_at(parts: list[Bytes], at: int) -> int:
    """The number of the part that a byte is in, or of the next one."""
    return bisect_right(parts, at, key=lambda part: part.start + part.size)


def _moved(f: Frame, piece: BytePiece, start: int) -> Value:
    """The piece's bits, shifted for a value that begins at `start`."""
    distance = 8 * abs(piece.start - start)
    name = "shl" if piece.start > start else "shr"
    return f.emit(name, piece.bits, f.b.constant(U64, distance)) if distance else piece.bits


# --- long arrays


@cache
def holds_long(t: Type) -> bool:
    """Whether there is a long array in a type."""
    return contains(t, lambda part: isinstance(part, Array) and is_long(part))


def run_of(
    f: Frame, value: Value, start: int, stride: int, parts_of: Callable[[Value, int], Iterable[Bytes]]
) -> Run:
    """The bytes of a long array; `parts_of` gives those of an element that begins at some byte."""
    t = value.type
    assert isinstance(t, Array) and t.length is not None
    size = t.length * stride
    block = lcm(stride, WORD)
    together, words = block // stride, block // WORD

    def packed(whole: Value, number: Value) -> Value:
        numbers = enumerate(_numbers(f, number, together))
        parts = [part for k, at in numbers for part in parts_of(f.emit("index", value, at), k * stride)]
        return _with_words(f, whole, f.emit("mul", number, f.b.constant(U32, words)), words, parts)

    empty = f.b.zero(array(U32, -(-size // WORD)))
    return Run(start, size, f.repeated(-(-t.length // together), empty, packed))


def array_of(
    f: Frame,
    t: Array,
    start: int,
    stride: int,
    parts: list[Bytes],
    element_from: Callable[[int, list[Bytes]], Value],
) -> Value:
    """A long array from the bytes at `start`; `element_from` gives an element from those that begin at some byte."""
    assert t.length is not None
    size = t.length * stride
    block = lcm(stride, WORD)
    together, words = block // stride, block // WORD
    whole = next((part for part in parts if isinstance(part, Run) and part.covers(start, start + size)), None)
    if whole is None or (start - whole.start) % WORD:
        count = -(-size // WORD)
        zero = f.b.zero(U32)
        whole = Run(start, size, _with_words(f, f.b.zero(array(U32, count)), zero, count, parts, start))
    before = f.b.constant(U32, (start - whole.start) // WORD)
    before = before if whole.first is None else f.emit("add", whole.first, before)

    def unpacked(elements: Value, number: Value) -> Value:
        first = f.emit("add", before, f.emit("mul", number, f.b.constant(U32, words)))
        of_block: list[Bytes] = [Run(0, block, whole.words, first)]
        for k, at in enumerate(_numbers(f, number, together)):
            elements = f.emit("set_index", elements, at, element_from(k * stride, of_block))
        return elements

    return f.repeated(-(-t.length // together), f.b.zero(t), unpacked)


def words_of(f: Frame, count: int, parts: list[Bytes]) -> Value:
    """All bytes as an array of words."""
    return _with_words(f, f.b.zero(array(U32, count)), f.b.zero(U32), count, parts)


def _numbers(f: Frame, block: Value, count: int) -> list[Value]:
    """Of the elements of a block; those of the last block may be beyond the end: they read zero and are dropped."""
    first = f.emit("mul", block, f.b.constant(U32, count))
    return [f.emit("add", first, f.b.constant(U32, k)) for k in range(count)]


def _with_words(
    f: Frame, whole: Value, first: Value, count: int, parts: list[Bytes], start: int = 0
) -> Value:
    """An array of words that are zero, with `count` of them, from `first` on, taken from the bytes at `start`."""
    done, runs = 0, [part for part in parts if isinstance(part, Run)]
    while True:
        upcoming = _part_at(parts, start + WORD * done)
        if upcoming == len(parts):
            return whole
        done = max(done, (parts[upcoming].start - start) // WORD)
        if done >= count:
            return whole
        at, to = start + WORD * done, f.emit("add", first, f.b.constant(U32, done))
        run = next((candidate for candidate in runs if candidate.covers(at, at + 2 * WORD)), None)
        if run is None:
            word = f.emit("convert", assembled(f, at, WORD, parts), type=U32)
            whole = f.emit("set_index", whole, to, word)
            done += 1
        else:
            length = min(count - done, (run.start + run.size - at) // WORD)
            whole = _with_run(f, whole, to, length, run, at - run.start)
            done += length


def _with_run(f: Frame, whole: Value, to: Value, count: int, run: Run, distance: int) -> Value:
    """An array of words with words of a run, which begin some bytes after its start."""
    before, bits = f.b.constant(U32, distance // WORD), 8 * (distance % WORD)

    def copied(whole: Value, number: Value) -> Value:
        at = f.emit("add", before, number)
        word = run.word(f, at)
        if bits:
            above = run.word(f, f.emit("add", at, f.b.constant(U32, 1)))
            low = f.emit("shr", word, f.b.constant(U32, bits))
            word = f.emit("or", low, f.emit("shl", above, f.b.constant(U32, 32 - bits)))
        return f.emit("set_index", whole, f.emit("add", to, number), word)

    return f.repeated(count, whole, copied)
