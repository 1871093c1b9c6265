"""The files of the standard library that are visible everywhere.

In: nothing.   Out: their modules, of which every program gets its own, since checking fills them in.

They are parsed once in a process, without the bodies of functions. A part of the library that few programs use is
read for those in whose texts its names occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.copies import late_copy
from slangrad.syntax.parser import parse_module

TEXTURES = "std/texture.slang"  # names without bodies, so that programs with them can be loaded
MATHS = (  # functions that machines have no instruction for; a program reads them up to the last one it uses
    "math_functions",
    "math_functions_double",
    "angles_double",
    "error_function",
    "half_turns",
)
ON_REQUEST = {*MATHS}  # parts of the library that are imported by name
NAMES = {  # parts that are read where a text speaks of them
    "cooperative_product": re.compile("[cC]oopVec"),
    "cooperative_vector": re.compile("[cC]oopVec"),
}


def files() -> list[ast.Module]:
    """Modules for one program."""
    stems = (path.stem for path in sorted(STD.glob("*.slang")))
    return _copies(tuple(stem for stem in stems if stem not in ON_REQUEST | NAMES.keys()))


def parts_named_in(texts: Iterable[str]) -> set[str]:
    """The parts of the library that a program of these texts has besides."""
    read = list(texts)
    return {part for part, names in NAMES.items() if any(map(names.search, read))}


def parts(names: Iterable[str]) -> list[ast.Module]:
    """The modules of such parts."""
    return _copies(tuple(sorted(names)))


def _copies(stems: tuple[str, ...]) -> list[ast.Module]:
    return [late_copy(each) for each in _parsed(stems)]


@cache
def _parsed(stems: tuple[str, ...]) -> tuple[ast.Module, ...]:
    reporter = Reporter()
    sources = [
        SourceFile(f"std/{stem}.slang", (STD / f"{stem}.slang").read_text(encoding="utf-8")) for stem in stems
    ]
    made = tuple(parse_module(each, reporter, bodies_wait=True) for each in sources)
    reporter.raise_if_errors()
    return made
