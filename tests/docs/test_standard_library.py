"""The page on the standard library names all of it, and nothing else."""

import re
from pathlib import Path

from slangrad.check.modules import CheckedProgram
from slangrad.syntax import ast

PAGE = Path(__file__).parent.parent.parent / "docs/standard_library.md"
FOR_GENERATED_KERNELS = "std/call.slang"
NAMED = (ast.FunctionDeclaration, ast.StructDeclaration, ast.Interface, ast.TypeAlias, ast.EnumDeclaration)


def declared_names():
    library = CheckedProgram()
    library.add_source(
        "parts",
        "// CoopVec, TextureCube, Texture2DMS, WaveMask, Handle, ddx, CalculateLevelOfDetail: the library has more parts for these\n"
        "import slang.neural;",
    )
    modules = [each for each in library.scopes if isinstance(each, ast.ModuleDeclaration)]
    members = [m for each in modules if each.source.name != FOR_GENERATED_KERNELS for m in each.members]
    return {each.name for each in members if isinstance(each, NAMED) and re.match(r"[A-Za-z]", each.name)}


def test_all_names_are_told():
    cells = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    told = [name for cell in cells for name in re.findall(r"`(\w+)(?:[(<][^`]*)?`", cell)]
    operators = {each for each in declared_names() if each.startswith("operator")}
    assert set(told) == declared_names() - operators
    assert sorted(told) == sorted(set(told))


def test_the_library_is_part_of_the_manual():
    language = (PAGE.parent / "language.md").read_text()
    assert "standard_library.md" in language
