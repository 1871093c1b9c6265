"""The size of the package at two commits, as tables in Markdown.

    python -m tools.size_table d74d05f0 HEAD      lines, files, `Any` and statements by folder; then counts of the whole

A parameter `self` or `cls` does not count. The walks are those of count_walk.py, run in each commit's own tree; a dash
stands where that commit has no such tool.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.prose import MOST_WORDS, faults, long_sentences

PACKAGE = "slangrad"
MOST_LINES = 500
MOST_PARAMETERS = 6
PAGES = ("README.md", "ARCHITECTURE.md", "docs/guide/*.md")
WALK = re.compile(r"^(in each call|for a new layout): (\d+ stays, \d+ returns)", re.MULTILINE)
LEAF = re.compile(r"\bisinstance\(leaf\b")


@dataclass(frozen=True, slots=True)
class Size:
    """Of a folder: lines and files of Python, names `Any` in code, and statements of the AST."""

    lines: int = 0
    files: int = 0
    any: int = 0
    statements: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(x + y for x, y in zip(astuple(self), astuple(other), strict=True)))


def size_of(text: str) -> Size:
    """Of one file."""
    nodes = list(ast.walk(ast.parse(text)))
    names = sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
    return Size(text.count("\n"), 1, names, sum(isinstance(node, ast.stmt) for node in nodes))


def folders(package: Path) -> dict[str, Size]:
    """The size of each folder, with the files beside them under ".", and of all of them under "sum"."""
    sizes: dict[str, Size] = {}
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package).parts
        size = size_of(file.read_text())
        for name in (inside[0] if len(inside) > 1 else ".", "sum"):
            sizes[name] = sizes.get(name, Size()) + size
    return {name: sizes[name] for name in sorted(sizes, key=lambda name: (name == "sum", name))}


def counts(tree: Path) -> dict[str, str]:
    """What is counted over the whole package, and in its pages, by its title."""
    package = tree / PACKAGE
    texts = {file.relative_to(package): file.read_text() for file in sorted(package.rglob("*.py"))}
    leaves = sum(len(LEAF.findall(text)) for file, text in texts.items() if file.parts[0] != "marshal")
    pages = [page for pattern in PAGES for page in sorted(tree.glob(pattern))]
    walks = walks_of(tree)
    return {
        "`isinstance(leaf` outside of marshal": str(leaves),
        "walk of a tensor in each call": walks.get("in each call", "-"),
        "walk of a tensor for a new layout": walks.get("for a new layout", "-"),
        f"files over {MOST_LINES} lines": str(sum(text.count("\n") > MOST_LINES for text in texts.values())),
        f"functions with more than {MOST_PARAMETERS} parameters": str(
            sum(
                parameter_count(node) > MOST_PARAMETERS for text in texts.values() for node in functions(text)
            )
        ),
        "class names that stand twice": str(len(names_twice(texts.values()))),
        f"sentences over {MOST_WORDS} words": str(
            sum(len(long_sentences(page.read_text())) for page in pages)
        ),
        "sentences of docstrings that break a rule": str(
            sum(len(list(faults(file))) for file in package.rglob("*.py"))
        ),
    }


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a caller passes."""
    spec = function.args
    names = [parameter.arg for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def names_twice(texts: Iterable[str]) -> list[str]:
    """Names of classes that stand in several files."""
    files = Counter[str]()
    for text in texts:
        files.update({node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)})
    return sorted(name for name, count in files.items() if count > 1)


def walks_of(tree: Path) -> dict[str, str]:
    """Stays and returns by the kind of a call."""
    command = [sys.executable, str(tree / "tools" / "count_walk.py")]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    result = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    return dict(WALK.findall(result.stdout))


# --- tables


def folder_table(before: dict[str, Size], after: dict[str, Size]) -> list[str]:
    """Each cell is the count of both commits, with an arrow if they differ."""
    rows = ["| folder | lines | files | `Any` | statements |", "|---|---|---|---|---|"]
    for name in [name for name in dict.fromkeys([*before, *after]) if name != "sum"] + ["sum"]:
        pairs = zip(astuple(before.get(name, Size())), astuple(after.get(name, Size())), strict=True)
        rows.append(f"| {name} | {' | '.join(change(f'{x:,}', f'{y:,}') for x, y in pairs)} |")
    return rows


def count_table(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """A row for each count of the whole."""
    return [
        "| | before → after |",
        "|---|---|",
        *(f"| {name} | {change(before[name], after[name])} |" for name in after),
    ]


def change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def tree_of(commit: str, folder: Path) -> Path:
    """The files of a commit in a folder. CalledProcessError for a name that git does not know."""
    archive = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", default="HEAD", help="another one; HEAD by default")
    arguments = parser.parse_args()
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        trees = tree_of(arguments.before, Path(first)), tree_of(arguments.after, Path(second))
        print(*folder_table(*(folders(tree / PACKAGE) for tree in trees)), sep="\n")
        print("", *count_table(*map(counts, trees)), sep="\n")


if __name__ == "__main__":
    main()
