"""The launch block and the status record as code on a GPU sees them.

    struct Launch { i64 nx, ny, nz; ptr status; i64 kernel, partials, rows; ptr arena; };   by value, after arguments
    struct Status { i32 error, site; i64 index, extent, kernel; ptr prints, memory; };   in pinned memory
    struct Arena { i64 used, size; frames of threads; bytes };            in memory of the GPU
    struct Prints { i64 used, room, lost; i64 words[room]; };             in pinned memory

All are the run time's; a test compares these tables with its own.
"""

from __future__ import annotations

from slangrad.ir.ops.core import Op
from slangrad.llvm.text.emit import RegionEmitter, Rule
from slangrad.llvm.text.writer import Writer

LAUNCH_FIELDS = {
    "nx": (0, "i64"),
    "ny": (8, "i64"),
    "nz": (16, "i64"),
    "status": (24, "ptr"),
    "kernel": (32, "i64"),
    "partials": (40, "i64"),
    "rows": (48, "i64"),
    "arena": (56, "ptr"),
}
LAUNCH_SIZE = 64
STATUS_FIELDS = {
    "error": 0,
    "site": 4,
    "index": 8,
    "extent": 16,
    "kernel": 24,
    "prints": 32,
    "memory": 40,
}
ARENA_FIELDS = {"used": 0, "size": 8}
ARENA_HEADER = 64  # bytes before what threads take
PRINT_FIELDS = {"used": 0, "room": 8, "lost": 16, "words": 24}
PRINT_HEADER = 3  # words of a printed line before its values
BOUNDS_ERROR, OUT_OF_MEMORY = 1, 2


def read_field(w: Writer, launch: str, name: str) -> str:
    """A number of the launch, which no thread changes."""
    distance, type_name = LAUNCH_FIELDS[name]
    place = w.value(f"getelementptr i8, ptr {launch}, i64 {distance}")
    return w.value(f"load {type_name}, ptr {place}, align 8, !invariant.load !0")


def _launch(e: RegionEmitter, op: Op) -> None:
    e.define(op.results[0], read_field(e.w, e.environment.launch, op.attributes["field"]))


RULES: dict[str, Rule] = {"launch": _launch}
