"""The launch record in machine code: the fields' places and types.

    struct Launch { i64 nx, ny, nz, chunk_x, chunks_x, chunks; Shared* shared; ... }

The record is the run time's; a test compares this table with its definition.
"""

from __future__ import annotations

from slangrad.llvm.text.writer import Writer

_LAUNCH = (
    "nx ny nz chunk_x chunks_x chunks shared partials partial_size batch chunk arena arena_used arena_size "
    "error:i32 site:i32 index extent error_chunk print reserve poll released lists memory"
)
_SHARED = "next stop:i32"
_POINTERS = frozenset({"shared", "partials", "memory", "arena", "print", "reserve", "poll"})
_TYPES = {**dict.fromkeys(_POINTERS, "ptr"), "lists": "[64 x ptr]"}
_SIZES = {"i32": 4, "i64": 8, "ptr": 8, "[64 x ptr]": 512}


def _places(fields: str) -> dict[str, tuple[int, str]]:
    """Field name to offset and LLVM type; all fields are aligned as they come."""
    places, end = {}, 0
    for field in fields.split():
        name, _, given_type = field.partition(":")
        places[name] = end, given_type or _TYPES.get(name, "i64")
        end += _SIZES[places[name][1]]
    return places


LAUNCH_FIELDS = _places(_LAUNCH)
SHARED_FIELDS = _places(_SHARED)
FIELDS = LAUNCH_FIELDS | SHARED_FIELDS
BOUNDS_ERROR = 1


def field_at(record: str, name: str) -> str:
    """The instruction that gives a field's address."""
    return f"getelementptr inbounds i8, ptr {record}, i64 {FIELDS[name][0]}"


def field_address(w: Writer, record: str, name: str) -> str:
    return w.value(field_at(record, name))


def read_field(w: Writer, record: str, name: str) -> str:
    return w.value(f"load {FIELDS[name][1]}, ptr {field_address(w, record, name)}")


def write_field(w: Writer, record: str, name: str, value: str) -> None:
    w.line(f"store {FIELDS[name][1]} {value}, ptr {field_address(w, record, name)}")
