"""Files `.slang-module`: the texts of one module, without its imports.

    data = to_bytes(packed(origin))          bytes of a file
    from_bytes(data)                         PackedModule; a ModuleFileError says in words why it is refused

A file holds texts: that of the module, those of its parts and of what it includes, the macros that they were read
with, and which name meant which text. So every version of the compiler can read it, errors show lines, and loading
it runs no code. The first line holds the kind of file, its length, and the digest of the rest. Records follow:
`text 7 12`, and then fields of so many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from slangrad.base.source import SourceFile

SUFFIX = ".slang-module"
MAGIC = b"slangrad module"
FORMAT = 1
LARGEST = 256 << 20  # bytes
OF_SLANGC = b"RIFF"  # how the files of Slang's own compiler begin
MODULE, FILE, INCLUDED, LINK = "module", "file", "included", "link"  # kinds of requests
FIELDS = {"text": 2, "found": 4, "macro": 2, "import": 1}


Macros = tuple[tuple[str, str], ...]


class ModuleFileError(ValueError):
    """A file cannot be used as a precompiled module. `note` is what to try."""

    def __init__(self, message: str, note: str = "compile its source again: slangrad compile FILE") -> None:
        super().__init__(message)
        self.note = note


CIRCLE = "circle "  # begins the meaning of an import that leads back to its importer


class Lookup(NamedTuple):
    """A name in a text, its file, and its meaning: the key of a module, or the digest of a file. In a circle of imports
    the meaning is CIRCLE and the digest of the module's text, as no key is known before the other."""

    kind: str
    name: str
    asker: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The sources of a module: its text and its file, the requests of its texts, the digests of the files found,
    and the defined macros."""

    source: SourceFile
    path: Path | None
    requests: tuple[Lookup, ...]
    texts: Mapping[str, SourceFile]
    macros: Macros

    @property
    def names(self) -> set[str]:
        """The module's own requests: those of its file and of its text."""
        return {str(self.path or ""), self.source.name}


@dataclass(frozen=True, slots=True)
class PackedModule:
    """`texts` are names and texts, that of the module first. `meanings` maps a request (its kind, the name, the number
    of the requesting text) to the number of the text that it meant."""

    texts: tuple[tuple[str, str], ...]
    meanings: Mapping[tuple[str, str, int], int]
    macros: Macros
    imports: tuple[str, ...]


# --- Packing ------------------------------------------------------------------------------------------


def packed(origin: Origin) -> PackedModule:
    """Texts of the standard library stay out: every version has its own."""
    numbers = dict.fromkeys(origin.names, 0)
    texts = [origin.source]
    for text in origin.texts.values():
        if not text.is_library and text.name not in numbers:
            numbers[text.name] = len(texts)
            texts.append(text)
    meanings = {}
    for kind, name, asker, digest in origin.requests:
        meant = origin.texts.get(digest)
        if meant is not None and asker in numbers and meant.name in numbers:
            meanings[kind, name, numbers[asker]] = numbers[meant.name]
    named = zip(_short_names(texts), (text.text for text in texts), strict=True)
    imports = dict.fromkeys(request.name for request in origin.requests if request.kind == MODULE)
    return PackedModule(tuple(named), meanings, origin.macros, tuple(imports))


def _short_names(texts: list[SourceFile]) -> list[str]:
    """Names as seen from the folder of the first text; of others, without their folders."""
    folder = Path(texts[0].name).parent
    names: list[str] = []
    for text in texts:
        path = Path(text.name)
        name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
        name = name if _is_inside(name) else path.name or "text"
        names.append(name if name not in names else f"{len(names)}/{name}")
    return names


def _is_inside(name: str) -> bool:
    """Whether a name stays inside the folder of its search."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def to_bytes(module: PackedModule) -> bytes:
    records = [_record("text", *row) for row in module.texts]
    records += [
        _record("found", *map(str, (*request, number))) for request, number in module.meanings.items()
    ]
    records += [_record("macro", *macro) for macro in module.macros]
    records += [_record("import", name) for name in module.imports]
    data = b"".join(records)
    return b"%s %d %d %s\n%s" % (MAGIC, FORMAT, len(data), _digest(data), data)


def _record(word: str, *fields: str) -> bytes:
    whole = [field.encode("utf-8", "surrogatepass") for field in fields]
    sizes = " ".join([word, *(str(len(field)) for field in whole)])
    return b"".join(part + b"\n" for part in (sizes.encode(), *whole))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=20).hexdigest().encode()


# --- Unpacking ----------------------------------------------------------------------------------------


def from_bytes(data: bytes) -> PackedModule:
    """The argument of `to_bytes`; ModuleFileError for all other bytes."""
    if len(data) > LARGEST:
        raise ModuleFileError(f"has more than {LARGEST >> 20} MiB")
    if data.startswith(OF_SLANGC):
        raise ModuleFileError("was made by Slang's own compiler, and holds what only that can read")
    first, _, rest = data.partition(b"\n")
    header = first[len(MAGIC) :].split()
    if not data.startswith(MAGIC) or not header or not header[0].isdigit():
        raise ModuleFileError("is no precompiled module")
    if int(header[0][:9]) != FORMAT:
        form = header[0].decode()
        raise ModuleFileError(f"is of form {form[:9]}; this version of slangrad reads form {FORMAT}")
    if len(header) != 3 or not header[1].isdigit():
        raise ModuleFileError("is damaged")
    if len(rest) < int(header[1][:18]):
        raise ModuleFileError("is cut off")
    if len(rest) != int(header[1]) or _digest(rest) != header[2]:
        raise ModuleFileError("is damaged")
    return _from_records(list(_records(rest)))


def _records(data: bytes) -> Iterator[tuple[str, list[str]]]:
    position = 0
    while position < len(data):
        end = data.find(b"\n", position)
        word, *sizes = data[position : max(end, position)].decode("ascii", "replace").split(" ")
        fields = []
        position = end + 1
        for size in sizes:
            stop = position + int(size) if size.isdecimal() and len(size) < 10 else len(data)
            if data[stop : stop + 1] != b"\n":
                raise ModuleFileError("is damaged")
            fields.append(_text(data[position:stop]))
            position = stop + 1
        if FIELDS.get(word) != len(fields):
            raise ModuleFileError("is damaged")
        yield word, fields


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ModuleFileError("is damaged") from None


def _from_records(records: list[tuple[str, list[str]]]) -> PackedModule:
    of = {word: [fields for kind, fields in records if kind == word] for word in FIELDS}
    texts = [(name, text) for name, text in of["text"]]
    numbers = {str(number): number for number in range(len(texts))}
    meanings = {}
    for kind, name, asker, meant in of["found"]:
        if asker not in numbers or meant not in numbers:
            raise ModuleFileError("is damaged")
        meanings[kind, name, numbers[asker]] = numbers[meant]
    names = {name for name, _ in texts}
    if not texts or len(names) != len(texts) or not all(map(_is_inside, names)):
        raise ModuleFileError("is damaged")
    macros = tuple((name, value) for name, value in of["macro"])
    imports = tuple(name for (name,) in of["import"])
    return PackedModule(tuple(texts), meanings, macros, imports)
