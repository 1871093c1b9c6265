"""`slangrad compile`: sources to precompiled modules, which programs import without the sources.

write_modules([Path("scale.slang")], Path("lib"), [], {}, True)   ->   lib/scale.slang-module, and what it imports
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from slangrad.base.diagnostics import Diagnostic
from slangrad.base.disk.whole_files import write_output
from slangrad.base.module_file import SUFFIX, Origin, packed, to_bytes
from slangrad.base.options import Options
from slangrad.check.diagnose import origins_of


def write_modules(
    files: Sequence[Path], out: Path | None, include: Sequence[Path], macros: dict[str, str], imports: bool
) -> tuple[list[Path], list[Diagnostic]]:
    """The files that were written, and warnings. `out` is a folder, or the file of the only module; without it each
    stands beside its source. CompileError, ValueError, OSError, and then nothing was written."""
    is_file = out is not None and out.name.endswith(SUFFIX)
    if is_file and (len(files) > 1 or imports):
        raise ValueError(f"error: '{out}' can hold one module: name a folder to write several into")
    contents: dict[Path, bytes] = {}
    new_warnings: list[Diagnostic] = []
    for file in files:
        origins, warnings = origins_of(file, include, macros, Options.from_environment())
        new_warnings += [warning for warning in warnings if str(warning) not in map(str, new_warnings)]
        for path, origin in _targets(file, out, include, origins if imports else origins[:1]):
            data = to_bytes(packed(origin))
            if contents.setdefault(path, data) != data:
                raise ValueError(f"error: two modules would be written to '{path}'")
    for path, data in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, data)
    return list(contents), new_warnings


def _targets(
    file: Path, out: Path | None, include: Iterable[Path], origins: Iterable[Origin]
) -> Iterator[tuple[Path, Origin]]:
    """The target of each module: in the folder, at its path relative to its source's folder or to an include
    path."""
    roots = [file.parent, *include]
    for origin in origins:
        assert origin.path is not None
        if out is None:
            yield origin.path.with_suffix(SUFFIX), origin
        elif out.name.endswith(SUFFIX):
            yield out, origin
        else:
            inside = (origin.path.relative_to(root) for root in roots if origin.path.is_relative_to(root))
            yield (out / next(inside, origin.path.name)).with_suffix(SUFFIX), origin


def macros_of(words: Iterable[str]) -> dict[str, str]:
    """`NAME` and `NAME=VALUE`."""
    parts = [word.partition("=") for word in words]
    return {name: value if equals else "1" for name, equals, value in parts}
