"""The values of literals.

In: the text of a literal token.   Out: its value and suffix, or a ValueError with a sentence for the user.

    0xFFu -> (255, "u")     1'000 -> (1000, "")     .5h -> (0.5, "h")     "a\\n" -> a, line end     'x' -> 120

The checker decides whether a value fits its type.
"""

from __future__ import annotations

import re

LARGEST_INTEGER = (1 << 64) - 1

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]++|0[bB][01]+|0[oO]?[0-7]+|[0-9]+)([a-zA-Z]*)")
_FLOAT = re.compile(r"((?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+|#INF)?)([a-zA-Z]*)")
_HEX_FLOAT = re.compile(r"(0[xX][0-9a-fA-F]*+(?:\.[0-9a-fA-F]*+)?(?:[pP][+-]?[0-9]+|#INF))([a-zA-Z]*)")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,8}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r?\n|[\s\S])")

# fmt: off
_INTEGER_SUFFIX = {
    "": "", "u": "u", "l": "l", "ul": "ul", "lu": "ul", "ll": "ll", "ull": "ull", "llu": "ull",
    "z": "z", "uz": "uz", "zu": "uz",
}
_FLOAT_SUFFIX = {"": "", "f": "f", "h": "h", "hf": "h", "fh": "h", "l": "l", "lf": "lf", "fl": "lf"}
_SIMPLE_ESCAPE = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?", "\n": "", "\r\n": "",
}
# fmt: on


def read_integer(text: str) -> tuple[int, str]:
    """Value and suffix."""
    digits, suffix = _digits(text, _INTEGER_SUFFIX, _INTEGER)
    value = int(digits, _base(digits)) if len(digits) <= 80 else LARGEST_INTEGER + 1
    if value > LARGEST_INTEGER:
        raise ValueError("the number is larger than 64 bits")
    return value, suffix


def _digits(text: str, suffixes: dict[str, str], *forms: re.Pattern[str]) -> tuple[str, str]:
    """A number without separators, and its suffix."""
    plain = text.replace("'", "").replace("_", "")
    match = next(filter(None, (form.fullmatch(plain) for form in forms)), None)
    suffix = suffixes.get(match[2].lower()) if match else None
    if match is None or suffix is None:
        raise ValueError(f"{text!r} is not a number")
    return match[1].lower(), suffix


def _base(digits: str) -> int:
    if digits[:2] in ("0x", "0b", "0o"):
        return {"x": 16, "b": 2, "o": 8}[digits[1]]
    return 8 if digits[0] == "0" and len(digits) > 1 and not set(digits) & {"8", "9"} else 10


def read_float(text: str) -> tuple[float, str]:
    """Value and suffix."""
    digits, suffix = _digits(text, _FLOAT_SUFFIX, _HEX_FLOAT, _FLOAT)
    if digits.endswith("#inf"):
        return float("inf"), suffix
    try:
        return float.fromhex(digits) if digits[:2] == "0x" else float(digits), suffix
    except OverflowError:
        return float("inf"), suffix


def read_string(text: str) -> str:
    """The characters between the quotes, escapes resolved."""
    if text.startswith("R"):
        start = text.index("(") + 1
        return text[start : len(text) - (start - 2) - 1]
    return _ESCAPE.sub(_unescape, text[1:-1])


def read_character(text: str) -> int:
    """The code point of a character literal."""
    characters = read_string(text)
    if len(characters) != 1:
        raise ValueError(f"{text} is not one character")
    return ord(characters)


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape in _SIMPLE_ESCAPE:
        return _SIMPLE_ESCAPE[escape]
    if escape[0] in "xuU" and len(escape) > 1:
        return _character(int(escape[1:], 16), escape)
    if escape[0] in "01234567":
        return _character(int(escape, 8), escape)
    raise ValueError(f"'\\{escape}' is not an escape sequence")


def _character(code: int, escape: str) -> str:
    if code > 0x10FFFF:
        raise ValueError(f"'\\{escape}' is not a character")
    return chr(code)
