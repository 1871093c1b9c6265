"""Does an output match what a test expects? An empty text: yes; else the first difference.

`against_lines` follows slang-test: numbers of a float type may differ by 1e-4 of the sum of their magnitudes,
further lines are ignored. `against_checks` follows LLVM's FileCheck for PREFIX, -NEXT, -SAME and -NOT with
{{regular expressions}}.
"""

from __future__ import annotations

import re
import struct
from itertools import zip_longest

from slang_inputs import Unsupported

TOLERANCE = 1e-4
FLOATS = ("type: half", "type: float", "type: double")
# fmt: off
WRITTEN = {                      # scalar type in reflection: how it is unpacked, what it is called
    "int8":    ("b", "int8_t"),  "uint8":   ("B", "uint8_t"),
    "int16":   ("h", "int16_t"), "uint16":  ("H", "uint16_t"),
    "int32":   ("i", "int32_t"), "uint32":  ("I", "uint32_t"),
    "int64":   ("q", "int64_t"), "uint64":  ("Q", "uint64_t"),
    "float16": ("e", "half"),    "float32": ("f", "float"),    "float64": ("d", "double"),
}
# fmt: on


def written(data: bytes, scalar: str) -> str:
    """A buffer as slang-test writes it: a value a line under its type, or hexadecimal words."""
    if scalar not in WRITTEN:
        return "".join(f"{word:X}\n" for (word,) in struct.iter_unpack("<I", data[: len(data) // 4 * 4]))
    code, name = WRITTEN[scalar]
    size = struct.calcsize(code)
    values = [value for (value,) in struct.iter_unpack(f"<{code}", data[: len(data) // size * size])]
    lines = [f"{value:f}" if code in "efd" else str(value) for value in values]
    return "\n".join([f"type: {name}", *lines, ""])


def against_lines(output: str, expected: str) -> str:
    is_float = False
    for number, (wanted, line) in enumerate(zip_longest(stripped(expected), stripped(output)), 1):
        if wanted is None:
            return ""
        if line is None:
            return f"line {number}: nothing, expected {wanted}"
        if line.startswith("type:"):
            is_float = line in FLOATS
        if line != wanted and not (is_float and nearly_equal(line, wanted)):
            return f"line {number}: {line}, expected {wanted}"
    return ""


def stripped(text: str) -> list[str]:
    return [line.strip() for line in text.rstrip().splitlines()]


def nearly_equal(text: str, wanted: str) -> bool:
    try:
        a, b = float(text), float(wanted)
    except ValueError:
        return False
    return a == b or (a != 0 and b != 0 and abs(a - b) < TOLERANCE * (abs(a) + abs(b)))


def against_checks(output: str, source: str, prefix: str) -> str:
    lines, at, column, forbidden = stripped(output), -1, 0, []
    for kind, pattern in rules_of(source, prefix):
        if kind == "-NOT":
            forbidden.append(pattern)
            continue
        place = search(lines, at, column, kind, pattern)
        if place is None:
            return f"{prefix}{kind} finds no '{pattern}' after line {at + 1}"
        if message := not_between(lines[at + 1 : place[0]], forbidden):
            return message
        at, column, forbidden = *place, []
    return not_between(lines[at + 1 :], forbidden)


def rules_of(source: str, prefix: str) -> list[tuple[str, str]]:
    """The check comments: what follows the prefix (`-NEXT`), and the pattern; `-COUNT-3` is three of them."""
    rule = re.compile(
        rf"(?<![\w-]){re.escape(prefix)}(-NEXT|-SAME|-NOT|-DAG|-EMPTY|-LABEL)?(?:-COUNT-(\d+))?:(.*)"
    )
    rules = [
        (match[1] or "", match[3].split("*/")[0].strip())
        for match in rule.finditer(source)
        for _ in range(int(match[2] or 1))
    ]
    if not rules:
        raise Unsupported(f"no comments with {prefix}:")
    for kind, pattern in rules:
        if kind not in ("", "-NEXT", "-SAME", "-NOT") or "[[" in pattern:
            raise Unsupported(f"check {prefix}{kind}: {pattern}")
    return rules


def search(lines: list[str], at: int, column: int, kind: str, pattern: str) -> tuple[int, int] | None:
    """Line and column behind the next match."""
    last = {"-SAME": at, "-NEXT": at + 1}.get(kind, len(lines) - 1)
    first = at + 1 if kind == "-NEXT" else max(at, 0)
    for number in range(first, min(last + 1, len(lines))):
        start = column if number == at else 0
        if match := expression(pattern).search(lines[number], start):
            return number, match.end()
    return None


def expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", pattern)
    texts = [part if k % 2 else re.sub(r"(\\?\s)+", r"\\s+", re.escape(part)) for k, part in enumerate(parts)]
    return re.compile("".join(texts))


def not_between(lines: list[str], forbidden: list[str]) -> str:
    for pattern in forbidden:
        if any(expression(pattern).search(line) for line in lines):
            return f"'{pattern}' must not be there"
    return ""
