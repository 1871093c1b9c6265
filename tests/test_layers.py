"""What import-linter does not check: the size of files, and imports inside functions."""

import ast
from pathlib import Path

import slangrad

PACKAGE = Path(slangrad.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.py"))

# The host loads the compiler when a call is not in its cache yet.
LATE_IMPORTS = {("call", "slangrad.pipeline")}


def test_no_file_is_longer_than_600_lines() -> None:
    sources = [*FILES, *PACKAGE.rglob("*.slang")]
    long = {str(f.relative_to(ROOT)): n for f in sources if (n := len(f.read_text().splitlines())) > 600}
    assert not long


def test_imports_stand_at_the_top_of_files() -> None:
    late = []
    for file in FILES:
        folder = file.relative_to(PACKAGE).parts[0]
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                late += [
                    (str(file.relative_to(ROOT)), node.lineno)
                    for node in ast.walk(function)
                    if isinstance(node, (ast.Import, ast.ImportFrom))
                    and (folder, imported(node)) not in LATE_IMPORTS
                ]
    assert not late


def imported(node: ast.Import | ast.ImportFrom) -> str:
    if isinstance(node, ast.Import):
        return node.names[0].name
    return f"{node.module}.{node.names[0].name}" if node.module == "slangrad" else node.module or ""


def test_every_folder_says_what_it_is() -> None:
    silent = [f.relative_to(ROOT) for f in FILES if not ast.get_docstring(ast.parse(f.read_text()))]
    assert not silent
