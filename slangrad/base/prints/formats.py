"""printf formats: from a format and values to text, as C's printf would write it.

In: "x = %5.2f, n = %u\\n" and the values as 64-bit words (integers, or the bits of a double).
Out: "x =  1.50, n = 7\\n".

The length modifier decides how many bits of an integer count (none: 32, l and ll: 64). Vectors were
expanded by the compiler, one conversion a component; a `%s` was refused.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from slangrad.base.prints.brace_formats import MARK, BraceFormat, decoded

Value = int | float

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diuoxXcsfFeEgGaAp%])"
)
_BITS = {"hh": 8, "h": 16, None: 32}
_FLOATS = frozenset("fFeEgGaA")
_SIGNED = frozenset("di")
_HEX_AS = {"a": "f", "A": "F"}


@dataclass(frozen=True, slots=True)
class FormatConversion:
    """One `%...` of a format. `stars` is how many extra values its width and precision take."""

    flags: str
    width: str
    precision: str | None
    bits: int
    kind: str

    @property
    def stars(self) -> int:
        return (self.width == "*") + (self.precision == "*")

    def render(self, value: Value) -> str:
        if self.kind in _FLOATS:
            return self._render_float(float(value))
        if self.kind == "c":
            return self._layout("c", precision=False) % chr(int(value) & 0xFF)
        return self._render_integer(int(value))

    def _render_integer(self, value: int) -> str:
        value &= (1 << self.bits) - 1
        if self.kind in _SIGNED:
            value -= (value >> (self.bits - 1)) << self.bits
            return self._layout("d") % value
        if self.kind == "p":
            return self._layout("s", precision=False) % hex(value)
        if self.kind == "o" and "#" in self.flags:
            return self._layout("s", precision=False) % f"0{value:o}"
        return self._layout("d" if self.kind == "u" else self.kind) % value

    def _render_float(self, value: float) -> str:
        flags = self.flags if math.isfinite(value) else self.flags.replace("0", "")
        if self.kind not in "aA" or not math.isfinite(value):
            return f"%{flags}{self.width}{self._digits}{_HEX_AS.get(self.kind, self.kind)}" % value
        mantissa, _, exponent = value.hex().partition("p")
        text = f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"
        return self._layout("s", precision=False) % (text.upper() if self.kind == "A" else text)

    @property
    def _digits(self) -> str:
        return "" if self.precision is None else f".{self.precision}"

    def _layout(self, kind: str, precision: bool = True) -> str:
        """The same conversion for Python's `%`; C ignores the flag 0 where an integer has a precision."""
        digits = self._digits if precision else ""
        flags = self.flags.replace("0", "") if digits and kind in "doxX" else self.flags
        return f"%{flags}{self.width}{digits}{kind}"


@dataclass(frozen=True, slots=True)
class Format:
    """A parsed format: literal texts and conversions in turn."""

    pieces: tuple[str | FormatConversion, ...]

    @property
    def value_count(self) -> int:
        return sum(1 + piece.stars for piece in self.pieces if isinstance(piece, FormatConversion))

    def decode(self, words: Sequence[int]) -> list[Value]:
        """Machine words to Python numbers: the words of floating conversions hold the bits of a double."""
        values: list[Value] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                continue
            for _ in range(piece.stars):
                values.append(_signed32(words[len(values)]))
            word = words[len(values)]
            values.append(_double(word) if piece.kind in _FLOATS else word)
        return values

    def render(self, values: Sequence[Value]) -> str:
        parts, used = [], 0
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            resolved = _resolve_stars(piece, [int(v) for v in values[used : used + piece.stars]])
            used += piece.stars + 1
            parts.append(resolved.render(values[used - 1]))
        return "".join(parts)


def has_braces(text: str) -> bool:
    """Whether a print has a format with braces."""
    return text.startswith(MARK)


def format_of(text: str) -> Format | BraceFormat:
    """The format of a print, of either kind."""
    return decoded(text) if has_braces(text) else parse_format(text)


@cache
def parse_format(text: str) -> Format:
    """ValueError at the first `%` that starts no known conversion."""
    pieces: list[str | FormatConversion] = []
    position = 0
    while (percent := text.find("%", position)) >= 0:
        match = _CONVERSION.match(text, percent)
        if match is None:
            raise ValueError(f"format {text!r}: no conversion at {text[percent : percent + 8]!r}")
        pieces += [text[position:percent], _conversion(match)]
        position = match.end()
    pieces.append(text[position:])
    return Format(tuple(piece for piece in pieces if piece != ""))


def _conversion(match: re.Match[str]) -> str | FormatConversion:
    kind = match["kind"]
    if kind == "%":
        return "%"
    precision = match["precision"]
    bits = 64 if kind == "p" else _BITS.get(match["length"], 64)
    return FormatConversion(
        match["flags"], match["width"] or "", "0" if precision == "" else precision, bits, kind
    )


def _resolve_stars(conversion: FormatConversion, stars: list[int]) -> FormatConversion:
    """The conversion with its `*` filled in: a negative width aligns left, a negative precision is none."""
    if not stars:
        return conversion
    flags, width, precision = conversion.flags, conversion.width, conversion.precision
    if width == "*":
        number = stars.pop(0)
        flags, width = flags + ("-" if number < 0 else ""), str(abs(number))
    if precision == "*":
        number = stars.pop(0)
        precision = None if number < 0 else str(number)
    return FormatConversion(flags, width, precision, conversion.bits, conversion.kind)


def _double(word: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", word & 0xFFFF_FFFF_FFFF_FFFF))[0]
    return value


def _signed32(word: int) -> int:
    word &= 0xFFFF_FFFF
    return word - ((word >> 31) << 32)
