"""Files of users, by themselves: their errors and warnings, and the texts of their modules.

check_files([Path("a.slang")], [], Options())                 the errors and warnings
origins_of(Path("a.slang"), [], {"N": "4"}, Options())        the texts of its module and of those it imports
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slangrad.base.diagnostics import CompileError, Diagnostic, in_order
from slangrad.base.module_file import Origin
from slangrad.base.options import Options
from slangrad.check.modules import CheckedProgram
from slangrad.check.texts.files import is_standard


def check_files(
    paths: Sequence[Path], include_paths: Sequence[Path], options: Options
) -> tuple[Diagnostic, ...]:
    """The errors and warnings of files and of what they import, each once."""
    programs: dict[Path, CheckedProgram] = {}  # files of a folder mean the same modules by the same names
    diagnostics: dict[str, Diagnostic] = {}
    for path in paths:
        if path.parent not in programs:
            programs[path.parent] = CheckedProgram(options, include_paths)
        diagnostics |= {
            str(diagnostic): diagnostic for diagnostic in _check_file(programs[path.parent], path)
        }
    return tuple(diagnostics.values())


def _check_file(program: CheckedProgram, path: Path) -> Sequence[Diagnostic]:
    try:
        program.load_module(str(path))
    except CompileError as error:
        return error.diagnostics
    refused = (replace(refusal, severity="warning") for refusal in program.refusals.diagnostics.values())
    return in_order((*program.reporter.diagnostics, *refused))


def origins_of(
    path: Path, include_paths: Sequence[Path], macros: dict[str, str], options: Options
) -> tuple[list[Origin], Sequence[Diagnostic]]:
    """The texts of a file and of the modules that it imports, and the warnings; CompileError."""
    program = CheckedProgram(options, include_paths, macros)
    modules = program.load_module(str(path)).with_imports()
    origins = [module.origin for module in modules if module.origin is not None]
    return [origin for origin in origins if not is_standard(origin.path)], program.reporter.diagnostics
