"""Sentences of Markdown pages and of docstrings.

    list(sentences("# Title\\n\\nOne `x`. [Two](a.md) words."))   ->   ["One CODE.", "[Two] words."]
    python -m tools.prose slangrad docs                           prints each sentence that breaks a rule

Headings, tables, images and code blocks are no prose, nor are examples in docstrings: indented lines, and lines with
columns. Code in backticks is one word, the address of a link is none.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

MOST_WORDS = 30  # of a sentence, by CONTRIBUTING.md

NO_PROSE = re.compile(r"^```(?s:.*?)^```$|^(?:\||#|!\[|<!--).*$", re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", re.MULTILINE)
EXAMPLE = re.compile(r"^(?:[ \t]+\S.*|.*\S {2,}\S.*)$", re.MULTILINE)
IMPERSONAL = re.compile(r"\b(?:nobody|somebody|anybody|that which|those which)\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.?!])[*\")]* +(?=[A-Z`\[*\"(0-9])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, in order."""
    prose = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", NO_PROSE.sub("", text)))
    for paragraph in PARAGRAPH.split(prose):
        yield from filter(None, SENTENCE.split(" ".join(paragraph.split())))


def long_sentences(text: str) -> list[str]:
    """Those with more than `MOST_WORDS` words."""
    return [sentence for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS]


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring of a Python file, without examples."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node.body[0].lineno, EXAMPLE.sub("", cleandoc(docstring))


def faults(file: Path) -> Iterator[tuple[int, str]]:
    """The line of its docstring (of a page: 1) and the text of each sentence that is long or has no actor."""
    text = file.read_text()
    for line, prose in docstrings(text) if file.suffix == ".py" else [(1, text)]:
        for sentence in sentences(prose):
            if len(sentence.split()) > MOST_WORDS or IMPERSONAL.search(sentence):
                yield line, sentence


def main() -> None:
    for root in map(Path, sys.argv[1:]):
        for file in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".md")):
            print(*(f"{file}:{line}: {sentence}\n" for line, sentence in faults(file)), sep="", end="")


if __name__ == "__main__":
    main()
