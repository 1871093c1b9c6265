"""The pages of `PAGES` keep the rule of CONTRIBUTING.md: no sentence has more than 30 words."""

from pathlib import Path

import pytest

from tools.prose import long_sentences, sentences

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


def test_code_and_tables_are_no_prose() -> None:
    text = (
        "# Title\n\n- One `a. B c` two.\n- [Three](x y) four. *Five.*\n\n| a | b |\n\n```text\nno. No\n```\n"
    )
    assert list(sentences(text)) == ["One CODE two.", "[Three] four.", "*Five.*"]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    assert long_sentences((ROOT / page).read_text()) == []
