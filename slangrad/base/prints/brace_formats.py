"""Formats with braces, as Python and fmtlib write them: "{}: {:.3} {:+5.2f}".

In: the format and the types of the arguments at compile time (`encode`), their values as 64-bit words at run time.
Out: "3: {1, 0.333} +2.00" with all numbers of a vector in braces, of a matrix row by row.

Numbers are shown as fmtlib shows them: a float without a precision by its shortest digits, "3.4028235e+38", "4000000".
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite, prod

Value = int | float

MARK = "{}"  # what an encoded format begins with; one of printf begins so only if it shows nothing
_PLACE = re.compile(r"(?P<at>\d*)(?::(?P<spec>[^{}]*))?$")
_SPEC = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?(?P<sign>[-+ ])?(?P<form>#)?(?P<zero>0)?(?P<width>\d+)?"
    r"(?:\.(?P<precision>\d+))?L?(?P<kind>[a-zA-Z]?)$"
)
_SHORTEST_ARE_FIXED = range(-4, 16)  # decimal exponents
_FORMS = {32: "<f", 64: "<d"}


@dataclass(frozen=True, slots=True)
class Argument:
    """A number (`shape` is empty) or several; `kind` is "bool", "text", "hash" (a text by its number), or one
    of "iuf" with the bits: "f32"."""

    kind: str
    shape: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Where an argument is shown, and how."""

    argument: int
    spec: str


@dataclass(frozen=True, slots=True)
class BraceFormat:
    """A parsed format: literal texts and places in turn. `texts` are those that numbers may stand for."""

    pieces: tuple[str | Placeholder, ...]
    arguments: tuple[Argument, ...]
    texts: tuple[str, ...] = ()

    @property
    def value_count(self) -> int:
        return sum(argument.count for argument in self.arguments)

    def decode(self, words: Sequence[int]) -> list[Value]:
        """Machine words to Python numbers: floats are the bits of a double."""
        kinds = [argument.kind for argument in self.arguments for _ in range(argument.count)]
        return [_decoded(kind, words[i]) for i, kind in enumerate(kinds)]

    def render(self, values: Sequence[Value]) -> str:
        """The line. ValueError for a spec that does not suit its argument."""
        starts = [sum(argument.count for argument in self.arguments[:i]) for i in range(len(self.arguments))]
        parts = []
        for piece in self.pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            argument, start = self.arguments[piece.argument], starts[piece.argument]
            if argument.kind == "hash":
                parts.append(format(self._text(int(values[start])), piece.spec))
                continue
            numbers = iter(values[start : start + argument.count])
            parts.append(_nested(argument.shape, lambda: _shown(next(numbers), argument.kind, piece.spec)))  # noqa: B023
        return "".join(parts) + "\n"

    def _text(self, number: int) -> str:
        texts = {text_hash(text): text for text in self.texts}
        return texts.get(number, f"PrintableString({number})")


def pieces_of(text: str) -> tuple[str | Placeholder, ...]:
    """ValueError for a malformed format. Places without a number take the arguments in order."""
    pieces: list[str | Placeholder] = []
    plain, position, following = "", 0, 0
    while position < len(text):
        letter = text[position]
        if text[position : position + 2] in ("{{", "}}"):
            plain, position = plain + letter, position + 2
        elif letter == "}":
            raise ValueError("'}' without '{': a brace by itself is '}}'")
        elif letter == "{":
            end = text.find("}", position)
            place = _PLACE.match(text[position + 1 : end]) if end >= 0 else None
            if place is None:
                raise ValueError(f"'{text[position : position + 8]}' is no place for a value")
            pieces += [plain, Placeholder(int(place["at"] or following), place["spec"] or "")]
            plain, position, following = "", end + 1, following + (not place["at"])
        else:
            plain, position = plain + letter, position + 1
    return tuple(piece for piece in (*pieces, plain) if piece != "")


def encode(
    pieces: Sequence[str | Placeholder], arguments: Sequence[Argument], texts: Sequence[str] = ()
) -> str:
    """A text that `decoded` reads. ValueError where a place cannot show its argument, or there is none."""
    result = BraceFormat(tuple(pieces), tuple(arguments), tuple(texts))
    shown = {piece.argument for piece in pieces if isinstance(piece, Placeholder)}
    if shown != set(range(len(arguments))):
        raise ValueError(
            f"the format shows {max(shown, default=-1) + 1} values, and {len(arguments)} are given"
        )
    result.render([0] * result.value_count)
    parts = [piece if isinstance(piece, str) else [piece.argument, piece.spec] for piece in pieces]
    return MARK + json.dumps([parts, [[argument.kind, argument.shape] for argument in arguments], [*texts]])


@cache
def decoded(text: str) -> BraceFormat:
    parts, arguments, texts = json.loads(text[len(MARK) :])
    pieces = tuple(part if isinstance(part, str) else Placeholder(*part) for part in parts)
    return BraceFormat(pieces, tuple(Argument(kind, tuple(shape)) for kind, shape in arguments), tuple(texts))


def text_hash(text: str) -> int:
    """The number by which kernels know a text: 32 bits, the same in every process (FNV-1a)."""
    number = 0x811C9DC5
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFF_FFFF
    return number


def _decoded(kind: str, word: int) -> Value:
    if kind[0] == "f":
        number: float = struct.unpack("<d", struct.pack("<Q", word & 0xFFFF_FFFF_FFFF_FFFF))[0]
        return number
    return word & 0xFFFF_FFFF_FFFF_FFFF if kind[0] == "u" else word


def _nested(shape: tuple[int, ...], show: object) -> str:
    assert callable(show)
    if not shape:
        return str(show())
    return "{" + ", ".join(_nested(shape[1:], show) for _ in range(shape[0])) + "}"


def _shown(value: Value, kind: str, spec: str) -> str:
    match = _SPEC.match(spec)
    if match is None:
        raise ValueError(f"'{spec}' is no way to show a value")
    if kind == "bool" and not match["kind"]:
        return format("true" if value else "false", spec)
    if kind[0] != "f":
        return format(int(value), spec.replace("L", ""))
    return _float(float(value), int(kind[1:]), match)


def _float(value: float, bits: int, spec: re.Match[str]) -> str:
    """With digits as fmtlib chooses them, and the rest as Python has it."""
    kind, precision = spec["kind"], spec["precision"]
    if kind or precision is not None:
        digits = f".{precision}" if precision is not None else ""
        text = format(abs(value), f"{spec['form'] or ''}{digits}{kind or 'g'}")
    else:
        text = _shortest(abs(value), max(bits, 32))  # as fmtlib, which has no half
    negative = value < 0 or (value == 0 and str(value).startswith("-"))
    sign = "-" if negative else (spec["sign"] or "").replace("-", "")
    width = int(spec["width"] or 0)
    if spec["zero"] and not spec["align"] and isfinite(value):
        return sign + text.rjust(width - len(sign), "0")
    return format(sign + text, f"{spec['fill'] or ''}{spec['align'] or '>'}{width or ''}")


def _shortest(value: float, bits: int) -> str:
    """The fewest digits that are this number and no other one of its type."""
    if not isfinite(value):
        return str(value)
    text = next(digits for digits in _candidates(value) if _rounded(float(digits), bits) == value)
    mantissa, _, exponent = text.partition("e")
    digits, power = mantissa.replace(".", "").rstrip("0"), int(exponent)
    if power not in _SHORTEST_ARE_FIXED:
        rest = f".{digits[1:]}" if digits[1:] else ""
        return f"{digits[:1] or '0'}{rest}e{power:+03}"
    if power < 0:
        return "0." + "0" * (-power - 1) + digits
    whole = digits[: power + 1].ljust(power + 1, "0")
    return whole + (f".{digits[power + 1 :]}" if digits[power + 1 :] else "")


def _candidates(value: float) -> Iterator[str]:
    for digits in range(17):
        yield f"{value:.{digits}e}"


def _rounded(value: float, bits: int) -> float:
    try:
        rounded: float = struct.unpack(_FORMS[bits], struct.pack(_FORMS[bits], value))[0]
    except OverflowError:
        return float("inf")
    return rounded
