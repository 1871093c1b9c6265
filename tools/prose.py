"""Sentences of a Markdown page.

    list(sentences("# Title\\n\\nOne `x`. [Two](a.md) words."))   ->   ["One CODE.", "[Two] words."]

Headings, tables, images and code blocks are no prose. Code in backticks is one word, the address of a link is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 30  # of a sentence, by CONTRIBUTING.md

NO_PROSE = re.compile(r"^```(?s:.*?)^```$|^(?:\||#|!\[|<!--).*$", re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", re.MULTILINE)
SENTENCE = re.compile(r"(?<=[.?!])[*\")]* +(?=[A-Z`\[*\"(0-9])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, in order."""
    prose = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", NO_PROSE.sub("", text)))
    for paragraph in PARAGRAPH.split(prose):
        yield from filter(None, SENTENCE.split(" ".join(paragraph.split())))


def long_sentences(text: str) -> list[str]:
    """Those with more than `MOST_WORDS` words."""
    return [sentence for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS]
