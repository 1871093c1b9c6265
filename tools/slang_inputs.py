"""The lines `//TEST_INPUT:` of Slang's tests: which values parameters get.

    set params = new Params{ ubuffer(data=[1 2], stride=4), 0.5 }    ->    ("params", Parts("Params", [Buffer, Words]))
    ubuffer(data=[0 0], stride=4):out,name=outputBuffer              ->    ("outputBuffer", Buffer)

In: a line.   Out: a name ("" by position) and a tree of values; `Unsupported` for other lines. Numbers are words of 32
bits: one with a point is a float, whatever the parameter's type.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

# fmt: off
TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[uUfFhH]?|\S'
)
TEXTURES = {f"{letters}Texture{shape}": shape for letters in ("", "RW") for shape in ("1D", "2D", "3D", "Cube")}
COMBINED = {f"TextureSampler{shape}": shape for shape in ("1D", "2D", "3D", "Cube")}
ARGUMENTS = ("type", "entryPointSpecializationArg", "entryPointExistentialType")
# fmt: on


class Unsupported(Exception):
    """The test needs something that this tool does not offer."""


@dataclass
class Words:
    """Numbers; `addresses` are the buffers whose addresses stand at words."""

    data: bytes = b""
    addresses: dict[int, str] = field(default_factory=dict)


@dataclass
class Buffer(Words):
    """`data` is what it holds, in whole words; the first `size` bytes of an output are compared."""

    size: int = 0
    stride: int = 0
    is_output: bool = False


@dataclass
class Texture:
    shape: str
    is_written: bool
    options: dict[str, str]


@dataclass
class Sampler:
    options: dict[str, str]


@dataclass
class Combined:
    """A texture with its sampler."""

    texture: Texture
    sampler: Sampler


@dataclass
class Parts:
    """Fields or elements, by names or in order; `type_name` is that of `new T{...}`."""

    type_name: str = ""
    parts: list[tuple[str, Value]] = field(default_factory=list)
    is_output: bool = False


Value = Words | Texture | Sampler | Combined | Parts


class Line:
    """The tokens of a line, and the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = TOKEN.findall(text.split("//")[0])
        self.position = 0

    @property
    def token(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.token
        self.position += 1
        return token

    def accept(self, *tokens: str) -> bool:
        if self.token not in tokens or not self.token:
            return False
        self.position += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.unsupported()

    def unsupported(self) -> Unsupported:
        return Unsupported(f"test input '{self.text}'")

    def upto(self, *ends: str) -> str:
        """The text of the tokens before one of `ends` outside of angles."""
        start, depth = self.position, 0
        while self.token and (depth or self.token not in ends):
            depth += {"<": 1, ">": -1}.get(self.take(), 0)
        return "".join(self.tokens[start : self.position])

    # --- Values ---

    def value(self) -> Value:
        if self.accept("out"):
            value = self.value()
            if isinstance(value, (Buffer, Parts)):
                value.is_output = True
                return value
            raise self.unsupported()
        if self.accept("new"):
            name = self.upto("{", "[") if self.token not in "{[" else ""
            content = self.value()
            if not isinstance(content, Parts):
                raise self.unsupported()
            return Parts(name, content.parts)
        if self.accept("{"):
            return self.listed("}")
        if self.accept("["):
            return self.listed("]")
        if self.token in ("-", ".") or self.token[:1].isdigit():
            return Words(self.number())
        return self.resource(self.take())

    def listed(self, end: str) -> Parts:
        parts: list[tuple[str, Value]] = []
        while not self.accept(end):
            named = self.tokens[self.position + 1 : self.position + 2] == [":"]
            name = self.take() if named else ""
            if named:
                self.expect(":")
            parts.append((name, self.value()))
            self.accept(",")
            if not self.token:
                raise self.unsupported()
        return Parts("", parts)

    def resource(self, word: str) -> Value:
        if word not in ("ubuffer", "cbuffer", "uniform", "Sampler", *TEXTURES, *COMBINED):
            raise self.unsupported()
        options: dict[str, str] = {}
        words, addresses = [], {}
        if self.accept("("):
            while not self.accept(")"):
                name = self.take()
                if not self.accept("="):
                    options[name] = ""
                elif self.accept("["):
                    words, addresses = self.words()
                else:
                    options[name] = self.take()
                self.accept(",")
                if not self.token:
                    raise self.unsupported()
        if word == "Sampler":
            return Sampler(options)
        if word in TEXTURES:
            return Texture(TEXTURES[word], word.startswith("RW"), options)
        if word in COMBINED:
            return Combined(Texture(COMBINED[word], False, options), Sampler({}))
        if word != "ubuffer":
            return Words(b"".join(words), addresses)
        if set(options) - {"stride", "count", "format"}:
            raise self.unsupported()
        return packed(words, addresses, int(options.get("stride", 0)), int(options.get("count", 1)))

    def words(self) -> tuple[list[bytes], dict[int, str]]:
        words: list[bytes] = []
        addresses = {}
        while not self.accept("]"):
            if self.token.isidentifier():
                addresses[4 * len(words)] = self.take()
                words += [bytes(4), bytes(4)]
            elif self.token:
                words.append(self.number())
                self.accept(",")
            else:
                raise self.unsupported()
        return words, addresses

    def number(self) -> bytes:
        sign = -1 if self.accept("-") else 1
        text = self.take()
        digits = text.lower() if text[:2] in ("0x", "0X") else text.rstrip("uUfFhH")
        try:
            if re.fullmatch(r"\d+|0x[0-9a-f]+u?", digits):
                return (sign * int(digits.rstrip("u"), 0) & 0xFFFFFFFF).to_bytes(4, "little")
            return struct.pack("<exx" if text[-1] in "hH" else "<f", sign * float(digits))
        except (ValueError, OverflowError):
            raise self.unsupported() from None


def packed(words: list[bytes], addresses: dict[int, str], stride: int, count: int) -> Buffer:
    """A stride of 1 or 2 keeps so many bytes of each word; `count` elements are the least size."""
    data = b"".join(word[:stride] for word in words) if stride in (1, 2) else b"".join(words)
    size = max(-(-len(data) // 4) * 4, count * stride)
    return Buffer(data.ljust(-(-size // 4) * 4, b"\0"), addresses, size, stride)


@dataclass
class Inputs:
    """All lines of a test."""

    values: list[tuple[str, Value]] = field(default_factory=list)
    conformances: list[tuple[str, str, int]] = field(default_factory=list)  # interface, type, id
    arguments: list[str] = field(default_factory=list)  # of a generic entry point

    def add(self, text: str) -> None:
        line = Line(text)
        if line.accept("type_conformance"):
            of = line.upto(":")
            line.expect(":")
            interface = line.upto("=", ";")
            self.conformances.append((interface, of, int(line.take()) if line.accept("=") else -1))
        elif line.accept(*ARGUMENTS):
            self.arguments.append(line.upto(";"))
        elif line.accept("set"):
            name = line.upto("=")
            line.expect("=")
            self.values.append((name, line.value()))
        else:
            value, name = line.value(), ""
            marked = line.accept(":")
            while marked and line.token:
                if line.accept("out") and isinstance(value, (Buffer, Parts)):
                    value.is_output = True
                elif line.accept("name"):
                    line.accept("=")
                    name = line.upto(",")
                elif not line.accept(","):
                    raise line.unsupported()
            self.values.append((name, value))

    def implied(self, source: str) -> list[tuple[str, str, int]]:
        """The conformances, with those of the types of an interface whose values are in a buffer."""
        rows = list(self.conformances)
        for interface, names in self._in_buffers():
            bare = interface.partition("<")[0]
            if not re.search(rf"\binterface\s+{bare}\b", source):
                continue
            structs = re.findall(r"\bstruct\s+(\w+)\s*:\s*([^{;]*)", source)
            others = [name for name, bases in structs if interface in re.split(r"\s*,\s*", bases.strip())]
            for name in dict.fromkeys([*names, *others]):
                if all(of != name for _, of, _ in rows):
                    rows.append((interface, name, max((number for *_, number in rows), default=-1) + 1))
        return rows

    def _in_buffers(self) -> list[tuple[str, list[str]]]:
        buffers = [value for _, value in self.values if isinstance(value, Parts)]
        matches = [
            (re.match(r"(?:RW)?StructuredBuffer<(.*)>$", buffer.type_name), buffer) for buffer in buffers
        ]
        return [
            (match[1], [part.type_name for _, part in buffer.parts if isinstance(part, Parts)])
            for match, buffer in matches
            if match
        ]
