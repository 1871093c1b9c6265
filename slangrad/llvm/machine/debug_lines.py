"""The line of a kernel's LLVM text for each line of its assembly.

    lines_of_listing(assembly(with_debug_lines(text), target))   ->   [("\tvmulps ...", 57), ("\tretq", 0), ...]

Each instruction of `entry` gets a debug location whose line is its own line in the text. LLVM carries these to the
listing, where they are read and removed. The code itself does not change by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FIRST = 1000  # numbers of metadata below are the module's own
_HEADER = f"""
!llvm.dbg.cu = !{{!{_FIRST}}}
!llvm.module.flags = !{{!{_FIRST + 1}}}
!{_FIRST} = distinct !DICompileUnit(language: DW_LANG_C, file: !{_FIRST + 2}, emissionKind: LineTablesOnly)
!{_FIRST + 1} = !{{i32 2, !"Debug Info Version", i32 3}}
!{_FIRST + 2} = !DIFile(filename: "kernel", directory: "")
!{_FIRST + 3} = distinct !DISubprogram(name: "entry", file: !{_FIRST + 2}, unit: !{_FIRST}, spFlags: DISPFlagDefinition)
"""
_ENTRY = re.compile(r"^define .*@entry\(.*(?=\{$)")
_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_SECTION = re.compile(r"\s*\.(?:section\s+(\S+?)(?:,|$)|(text)$)")
_MARK = re.compile(r"\s*\.file\s|\.Ltmp\d+:|\.Lfunc_begin\d+:|\.Ldebug_\w+:|\s*\.cfi_")
_FUNCTION = re.compile(r"\s*\.type\s+\w+,@function")


def with_debug_lines(text: str) -> str:
    """The module with its line numbers as debug locations."""
    lines, inside = text.split("\n"), False
    locations: list[str] = []
    for index, line in enumerate(lines):
        if _ENTRY.match(line):
            lines[index] = f"{line[:-1]}!dbg !{_FIRST + 3} {{"
            inside = True
        elif line == "}":
            inside = False
        elif inside and line.startswith("  "):
            number = _FIRST + 4 + len(locations)
            lines[index] = f"{line}, !dbg !{number}"
            locations.append(f"!{number} = !DILocation(line: {index + 1}, scope: !{_FIRST + 3})")
    return "\n".join([*lines, _HEADER, *locations, ""])


def lines_of_listing(listing: str) -> Iterator[tuple[str, int]]:
    """The lines of an assembly listing without their debug information, and where they come from, or 0."""
    section, line = ".text", 0
    for text in listing.rstrip("\n").split("\n"):
        place, opened = _LOCATION.match(text), _SECTION.match(text)
        if opened:
            section = opened[1] or opened[2]
        if place:
            line = int(place[1])
        elif _FUNCTION.match(text):
            line = 0
        if not (place or section.startswith(".debug") or _MARK.match(text)):
            yield text, line
