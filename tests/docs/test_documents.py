"""Every code block of README.md and docs/ runs and prints what the document shows; links lead somewhere."""

import re
import shutil
from pathlib import Path

import pytest

from slangrad.base.diagnostics import CODES
from slangrad.base.options import Options
from slangrad.pipeline import COMMON, TARGETS
from tests.docs.documents import Session, blocks_of

ROOT = Path(__file__).parent.parent.parent
GUIDE = sorted((ROOT / "docs/guide").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *GUIDE]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code(document, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    Session(most_torchruns=1).run(blocks_of(document.read_text()))


@pytest.mark.deep
def test_all_programs_of_many_workers(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    Session().run(blocks_of((ROOT / "docs/many_workers.md").read_text()))


@pytest.mark.parametrize(
    "document", sorted({*DOCUMENTS, *ROOT.glob("[A-Z]*.md")}), ids=lambda path: path.name
)
def test_links(document):
    prose = re.sub(r"```.*?```|`[^`]*`", "", document.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_guide_leads_from_page_to_page():
    index = (ROOT / "docs/index.md").read_text()
    assert re.findall(r"^\d\. \[.*?\]\(guide/(.*?)\)", index, re.MULTILINE) == [page.name for page in GUIDE]
    titles = {page: page.read_text().partition("\n")[0].removeprefix("# ") for page in GUIDE}
    for before, page, after in zip([None, *GUIDE], GUIDE, [*GUIDE[1:], None]):
        links = ["[Contents](../index.md)"]
        links += [f"Previous: [{titles[before]}]({before.name})"] if before else []
        links += [f"Next: [{titles[after]}]({after.name})"] if after else []
        assert page.read_text().endswith("\n---\n" + " · ".join(links) + "\n"), page.name


def test_all_documents_are_in_the_contents():
    index = (ROOT / "docs/index.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\((\w+\.md)", index))


def test_pictures_are_small():
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs").glob("*.png")}
    assert pictures and max(pictures.values()) < 200_000


def test_all_codes_are_explained():
    rows = re.findall(r"^\| (E\d{4}) \| (.*?) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert dict(rows) == CODES


def test_all_settings_are_explained():
    text = (ROOT / "docs/debugging.md").read_text()
    settings = set(Options.__dataclass_fields__) - {"limits", "store"}  # SLANGRAD_CACHE names the store
    assert {name for name in settings if f"| `SLANGRAD_{name.upper()}` |" not in text} == set()


def test_each_variable_of_a_page_is_read():
    code = "\n".join(path.read_text() for path in (ROOT / "slangrad").rglob("*.py"))
    fields = {f"SLANGRAD_{name.upper()}" for name in Options.__dataclass_fields__}
    named = {name for page in DOCUMENTS for name in re.findall(r"SLANGRAD_[A-Z_]*[A-Z]", page.read_text())}
    assert len(named) > 20
    assert {name for name in named - fields if f'"{name}"' not in code} == set()


def test_all_stages_are_explained():
    text = (ROOT / "docs/cli.md").read_text()
    names = [stage.name for stage in (*COMMON, *TARGETS["cpu"].tail)]
    assert not [name for name in ("kernel", *names) if f"| `{name}` |" not in text]
