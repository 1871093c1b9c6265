"""Writes the text of one LLVM function: lines, blocks, fresh names; and fills in instruction templates.

    w.expand("%r = fadd{contract} {T} %x, %y", {"T": "float"}, {"x": "%1", "y": "%2"})   ->   "%3"
    appends   %3 = fadd contract float %1, %2

A template is LLVM text, one instruction a line, that ends by defining %r. `{T}` is a type, `{T!}` its name in
intrinsics, and `[T 1]` a constant of that type (splatted for lanes). Other names in braces are scalar types and get
as many lanes as `T` has. This file is independent of the meaning of instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from slangrad.base.source import Line, Span
from slangrad.llvm.machine.target import Features
from slangrad.llvm.text.type_names import constant, suffix

_TYPE = re.compile(r"\{(\w+)(!?)\}")
_CONSTANT = re.compile(r"\[(\w+) ([^\]]+)\]")
_LOCAL = re.compile(r"%(\w+)")
_VECTOR = re.compile(r"<(\d+) x \w+>")
_CALL = re.compile(r"call (?P<result>void|\w+|<[^>]+>) (?P<name>@llvm\.[\w.]+)\((?P<arguments>.*)\)")
_DEFINITION = re.compile(r"^(?=define |@)", re.MULTILINE)
_ARGUMENT = re.compile(r"(<[^>]+>|\w+) (?:<[^>]*>|[^,()]+(?:\([^)]*\))?)(?:, |$)")


class Declarations:
    """References of a module's functions: intrinsics by declaration, our own functions by their text."""

    def __init__(self) -> None:
        self.intrinsics: dict[str, str] = {}
        self.functions: dict[str, str] = {}

    def add_functions(self, text: str) -> None:
        """Definitions in LLVM text, each once."""
        for definition in _DEFINITION.split(text):
            if definition.strip():
                self.functions.setdefault(definition.split("(")[0], definition)
        for line in text.splitlines():
            self.note_intrinsic(line)

    def note_intrinsic(self, line: str) -> None:
        call = _CALL.search(line)
        if call is not None and call["name"] not in self.intrinsics:
            types = ", ".join(_ARGUMENT.findall(call["arguments"]))
            self.intrinsics[call["name"]] = f"declare {call['result']} {call['name']}({types})"


class Writer:
    """One function. Values are LLVM operands as text: `%12` or a constant."""

    def __init__(self, declarations: Declarations, features: Features, contract: bool) -> None:
        self.declarations = declarations
        self.features = features
        self.lines: list[str] = []
        self.entry: list[str] = []  # allocas, which must stand in the function's first block
        self.label = "entry"
        self._places: list[tuple[int, Span | None]] = []  # the source of the lines from a number on
        self.contract = " contract" if contract else ""
        self.approximate = ""  # flags of quotients and roots of floats
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """A context: lines written inside come from this place."""
        around = self._places[-1][1] if self._places else None
        self._places.append((len(self.lines), span or around))
        yield
        self._places.append((len(self.lines), around))

    def lines_of(self, module: str) -> list[Line]:
        """The text of a module in lines with their places; the writer wrote those behind the label `entry`."""
        lines = list(map(Line, module.split("\n")))
        first = module[: module.index("\nentry:\n")].count("\n") + 2
        placed = self._placed_lines()
        return [*lines[:first], *placed, *lines[first + len(placed) :]]

    def _placed_lines(self) -> list[Line]:
        places = iter([*self._places, (len(self.lines), None)])
        lines, span, following = [], None, next(places)
        for number, text in enumerate(self.lines):
            while following[0] <= number:
                span, following = following[1], next(places)
            lines.append(Line(text, span))
        return lines

    def labels(self, *hints: str) -> list[str]:
        """Fresh block labels that belong together."""
        self._count += 1
        return [f"{hint}{self._count}" for hint in hints]

    def line(self, text: str) -> None:
        if "@llvm." in text:
            self.declarations.note_intrinsic(text)
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """An instruction with a result."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    def slot(self, type_name: str, count: int, alignment: int) -> str:
        """Stack memory, made once a call of the function."""
        name = self.name()
        self.entry.append(f"  {name} = alloca {type_name}, i64 {count}, align {alignment}")
        return name

    def block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def reserve_line(self) -> int:
        """Room for a line that is known later: phis of a loop."""
        self.lines.append("")
        return len(self.lines) - 1

    def expand(self, template: str, types: Mapping[str, str], operands: Mapping[str, str]) -> str:
        """Append a template's instructions; the operand that it called %r."""
        names = dict(operands)
        vector = _VECTOR.fullmatch(types["T"])
        lanes = 0 if vector is None else int(vector[1])

        def type_of(key: str) -> str:
            written = types.get(key)
            return written if written is not None else f"<{lanes} x {key}>" if lanes else key

        def fill_type(match: re.Match[str]) -> str:
            return suffix(type_of(match[1])) if match[2] else type_of(match[1])

        for line in _lines_of(template):
            text = line.replace("{contract}", self.contract)
            text = text.replace("{approximate}", self.approximate if types["T"].endswith("float") else "")
            text = _CONSTANT.sub(lambda m: constant(type_of(m[1]), types.get(m[2], m[2])), text)
            text = _TYPE.sub(fill_type, text)
            target, _, instruction = text.partition(" = ")
            instruction = _LOCAL.sub(lambda m: names.get(m[1]) or m[0], instruction)
            names[target.strip()[1:]] = self.value(instruction)
        return names["r"]


@cache
def _lines_of(template: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in template.strip().splitlines() if line.strip())


def phi(name: str, type_name: str, incoming: Iterable[tuple[str, str]]) -> str:
    """A phi line, from pairs of value and label."""
    pairs = ", ".join(f"[ {value}, %{label} ]" for value, label in incoming)
    return f"  {name} = phi {type_name} {pairs}"


@contextmanager
def counted_loop(
    w: Writer, start: str, limit: str, step: int | str, number: str = "i64", hint: str = ""
) -> Iterator[str]:
    """The code in it runs for i = start, start + step, ... below limit, all of the unsigned type `number`. `hint`:
    metadata of the loop."""
    head, body, done = w.labels("waves", "wave", "endwaves")
    before = w.label
    w.jump(head)
    w.block(head)
    index, following = w.name(), w.name()
    line = w.reserve_line()
    w.branch(w.value(f"icmp ult {number} {index}, {limit}"), body, done)
    w.block(body)
    yield index
    w.line(f"{following} = add {number} {index}, {step}")
    w.lines[line] = phi(index, number, [(start, before), (following, w.label)])
    w.line(f"br label %{head}{hint}")
    w.block(done)
