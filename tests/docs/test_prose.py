"""The pages of `PAGES` keep the rule of CONTRIBUTING.md: no sentence has more than 30 words."""

from pathlib import Path

import pytest

from tools.prose import docstrings, faults, long_sentences, sentences

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    *(
        str(page.relative_to(ROOT))
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.name != "many_workers.md"  # its drawings are indented, and look like sentences
    ),
]


def test_code_and_tables_are_no_prose() -> None:
    text = (
        "# Title\n\n- One `a. B c` two.\n- [Three](x y) four. *Five.*\n\n| a | b |\n\n```text\nno. No\n```\n"
    )
    assert list(sentences(text)) == ["One CODE two.", "[Three] four.", "*Five.*"]


def test_examples_in_docstrings_are_no_prose(tmp_path: Path) -> None:
    text = (
        'def f():\n    """One. Two.\n\n        nobody = 1\n    a   ->   b\n\n    Nobody calls it.\n    """\n'
    )
    assert [line for line, _ in docstrings(text)] == [2]
    (tmp_path / "f.py").write_text(text)
    assert list(faults(tmp_path / "f.py")) == [(2, "Nobody calls it.")]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    assert long_sentences((ROOT / page).read_text()) == []
