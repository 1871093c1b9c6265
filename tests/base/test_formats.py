"""printf formats against what C writes."""

import ctypes
import math
import struct

import pytest

from slangrad.base.prints.formats import parse_format

LIBC = ctypes.CDLL(None)


def bits(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("plain", [], "plain"),
        ("100%%", [], "100%"),
        ("%d and %i", [-3, 4], "-3 and 4"),
        ("%d", [0xFFFF_FFFF], "-1"),
        ("%u", [-1], "4294967295"),
        ("%ld %lu", [-1, -1], "-1 18446744073709551615"),
        ("%lld %llu", [-(2**63), 2**63], "-9223372036854775808 9223372036854775808"),
        ("%hd %hhu", [65535, 257], "-1 1"),
        ("%x %X %#x %#o %o", [255, 255, 255, 8, 8], "ff FF 0xff 010 10"),
        ("[%5d|%-5d|%05d|%+d|% d]", [42, 42, 42, 42, 42], "[   42|42   |00042|+42| 42]"),
        ("[%8.3d|%08.3d]", [5, 5], "[     005|     005]"),
        ("[%*d|%-*d]", [5, 42, 5, 42], "[   42|42   ]"),
        ("[%*d]", [-5, 42], "[42   ]"),
        ("%c%c", [79, 75], "OK"),
        ("%p", [4096], "0x1000"),
    ],
)
def test_integers_and_characters(text: str, values: list[int], expected: str) -> None:
    form = parse_format(text)
    assert form.value_count == len(values)
    assert form.render(form.decode(values)) == expected


@pytest.mark.parametrize(
    "text",
    ["%f", "%g", "%e", "%E", "%G", "%.3f", "%10.2f", "%-10.2f|", "%+g", "%010.3f", "%.0f", "%#g", "%a"],
)
@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 123456789.0, 1e300, math.inf, -math.inf, math.nan]
)
def test_floats_are_written_as_c_writes_them(text: str, value: float) -> None:
    buffer = ctypes.create_string_buffer(400)
    LIBC.snprintf(buffer, 400, text.encode(), ctypes.c_double(value))
    form = parse_format(text)
    assert form.render(form.decode([bits(value)])) == buffer.value.decode()


def test_a_star_precision() -> None:
    form = parse_format("%*.*f")
    assert form.value_count == 3
    assert form.render(form.decode([8, 2, bits(3.14159)])) == "    3.14"


@pytest.mark.parametrize("text", ["%", "50% yes", "%y", "%5"])
def test_an_unknown_conversion_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no conversion at '%"):
        parse_format(text)
