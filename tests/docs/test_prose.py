"""The pages of `PAGES` keep the rule of CONTRIBUTING.md: no sentence has more than 30 words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs/calls.md",
    "docs/extending.md",
    "docs/index.md",
    "docs/tensors.md",
    *(f"docs/guide/{page.name}" for page in sorted((ROOT / "docs" / "guide").glob("*.md"))),
]
MOST_WORDS = 30

NO_PROSE = re.compile(r"^```(?s:.*?)^```$|^(?:\||#|!\[|<!--).*$", re.MULTILINE)
PARAGRAPH = re.compile(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", re.MULTILINE)
SENTENCE = re.compile(r"(?<=[.?!])[*\")]* +(?=[A-Z`\[*\"(0-9])")


def sentences(text: str) -> Iterator[str]:
    """Code in backticks and a link's address are no words."""
    prose = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", NO_PROSE.sub("", text)))
    for paragraph in PARAGRAPH.split(prose):
        yield from SENTENCE.split(" ".join(paragraph.split()))


def test_code_and_tables_are_no_prose() -> None:
    text = (
        "# Title\n\n- One `a. B c` two.\n- [Three](x y) four. *Five.*\n\n| a | b |\n\n```text\nno. No\n```\n"
    )
    assert [each for each in sentences(text) if each] == ["One CODE two.", "[Three] four.", "*Five.*"]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    assert [each for each in sentences((ROOT / page).read_text()) if len(each.split()) > MOST_WORDS] == []
