"""The files of the standard library, parsed.

In: nothing.   Out: their modules, a copy for each program, because checking annotates them.

They are parsed without the bodies of functions, once for each version of the compiler: the result is stored on disk
(without a store: once in a process). Most are visible everywhere. A part of the library that few programs use is
read for texts that mention its names, or for programs that import it.
"""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from slangrad.base.diagnostics import Reporter
from slangrad.base.disk.identity import compiler_identity
from slangrad.base.disk.store import Store, content_key
from slangrad.base.source import SourceFile
from slangrad.check.texts.files import STD
from slangrad.syntax import ast
from slangrad.syntax.parser import parse_module
from slangrad.syntax.saved import Packed, Surroundings, late_module, pack_module

TEXTURES = tuple(
    f"std/{part}.slang"
    for part in ("texture", "texture_more", "texture_cube", "texture_combined", "texture_samples")
)
MATHS = (  # functions that machines have no instruction for; a program reads them up to the last one it uses
    "math_functions",
    "math_functions_double",
    "angles_double",
    "error_function",
    "half_turns",
)
ON_REQUEST = {*MATHS, "neural"}  # parts of the library that are imported by name
HANDLES = re.compile("Handle|IOpaqueDescriptor|Descriptor(Kind|Access)")
TEXTURE_NAMES = re.compile("Texture|Sampler|ITexelElement")
NAMES = {  # parts that are read for texts that mention them
    "cooperative_product": re.compile("[cC]oopVec"),
    "cooperative_vector": re.compile("[cC]oopVec"),
    "descriptor": HANDLES,
    "texel": TEXTURE_NAMES,
    "texel_format": TEXTURE_NAMES,
    "texture": TEXTURE_NAMES,
    "texture_samples": re.compile(r"(Texture|Sampler)2DMS|\b_Texture\b"),
    "texture_combined": re.compile(r"Sampler[123C]|\b_Texture\b"),
    "texture_cube": re.compile("TextureCube"),
    "texture_more": re.compile("Gather|SampleCmp|(Depth|W)Texture"),
    "level_of_detail": re.compile("CalculateLevelOfDetail"),
    "quads": re.compile(r"\b(dd[xy]|fwidth)(_fine|_coarse)?\b"),
    "wave_sets": re.compile("Quad[A-Z]|Wave(M|Sync|ActiveAllEqual|Get(Active|Converged|NumWaves|WaveIndex))"),
}
TOGETHER = {"texture_handles": {"texture", "descriptor"}}  # parts that are read where all of these are
NEEDED = {  # further parts that a part needs; it stands before rows of these
    "level_of_detail": {"quads", "texture_combined"},
    "texture_handles": {"texture_combined", "texture_samples"},
    "texture_combined": {"texture_cube"},
    "texture_cube": {"texture_more"},
    "texture_more": {"texel", "texel_format", "texture"},
    "texture_samples": {"texel", "texel_format", "texture"},
}


def files(store: Store) -> list[ast.ModuleDeclaration]:
    """Modules for one program. Parsed modules come from the store, or are put there."""
    stems = (path.stem for path in sorted(STD.glob("*.slang")))
    return _modules(
        tuple(stem for stem in stems if stem not in ON_REQUEST | NAMES.keys() | TOGETHER.keys()), store
    )


def parts_named_in(texts: Iterable[str]) -> set[str]:
    """The parts of the library that a program of these texts has besides."""
    read = list(texts)
    named = {part for part, names in NAMES.items() if any(map(names.search, read))}
    named |= {part for part, others in TOGETHER.items() if others <= named}
    for part, others in NEEDED.items():
        named |= others if part in named else set()
    return named


def parts(names: Iterable[str], store: Store) -> list[ast.ModuleDeclaration]:
    """The modules of such parts."""
    return _modules(tuple(sorted(names)), store)


def imported(path: Path, store: Store) -> ast.ModuleDeclaration:
    """A file of the library that a program imports."""
    (module,) = _modules((path.relative_to(STD).with_suffix("").as_posix(),), store)
    return module


def _modules(stems: tuple[str, ...], store: Store) -> list[ast.ModuleDeclaration]:
    sources = [_source(stem) for stem in stems]
    if stems not in _PARSED:
        _PARSED[stems] = _parsed(sources, store)
    return [late_module(data, source) for data, source in zip(_PARSED[stems], sources)]


@cache
def _source(stem: str) -> SourceFile:
    return SourceFile(f"std/{stem}.slang", (STD / f"{stem}.slang").read_text(encoding="utf-8-sig"))


def _parsed(sources: list[SourceFile], store: Store) -> list[Packed]:
    texts = tuple((source.name, source.text) for source in sources)
    key = content_key("standard library", compiler_identity(), sys.version, texts)
    data = store.get(key)
    if data is None:
        data = marshal.dumps([_parse(source) for source in sources])
        store.put(key, data)
    packed: list[Packed] = marshal.loads(data)
    return packed


def _parse(source: SourceFile) -> Packed:
    reporter, around = Reporter(), Surroundings(source)
    module = parse_module(source, reporter, around=around)
    reporter.raise_if_errors()
    return pack_module(module, around)


_PARSED: dict[tuple[str, ...], list[Packed]] = {}
