"""The files of the standard library that are visible everywhere.

In: nothing.   Out: their modules, of which every program gets its own, since checking fills them in.

They are parsed once in a process, without the bodies of functions.
"""

from __future__ import annotations

from functools import cache

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.copies import late_copy
from slangrad.syntax.parser import parse_module

TEXTURES = "std/texture.slang"  # names without bodies, so that programs with them can be loaded
ON_REQUEST = {"math_functions", "math_functions_double"}  # parts of the library that are imported by name


def files() -> list[ast.Module]:
    """Modules for one program."""
    return [late_copy(each) for each in _parsed()]


@cache
def _parsed() -> tuple[ast.Module, ...]:
    reporter = Reporter()
    sources = [
        SourceFile(f"std/{path.name}", path.read_text(encoding="utf-8"))
        for path in sorted(STD.glob("*.slang"))
        if path.stem not in ON_REQUEST
    ]
    made = tuple(parse_module(each, reporter, bodies_wait=True) for each in sources)
    reporter.raise_if_errors()
    return made
