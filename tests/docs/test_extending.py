"""The recipes of docs/extending.md: changes fit the files they name, and with them each section's program prints its text."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import Block, assert_output, blocks_of

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs/extending.md").read_text()
PARTS = re.split(r"^## ", TEXT, flags=re.MULTILINE)
SECTIONS = {
    part.partition("\n")[0]: blocks_of(part) for part in PARTS if "```diff" in part.partition("\n")[2]
}


def apply(change: Block, folder: Path) -> None:
    """Write a changed file, read from `folder` or, if it is not there yet, from the repository."""
    name, *lines = change.text.splitlines()
    target = folder / name
    source = target if target.exists() else ROOT / name
    old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    text = source.read_text() if source.exists() else ""
    assert source.exists() == bool(old) and text.count(old) == 1, f"{name} has no single place for\n{old}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace(old, new))


@pytest.mark.parametrize("name", SECTIONS)
def test_changes_fit(name: str, tmp_path: Path) -> None:
    changes = [block for block in SECTIONS[name] if block.language == "diff"]
    for change in changes:
        apply(change, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("name", SECTIONS)
def test_programs_with_the_changes(name: str, tmp_path: Path) -> None:
    for folder in ("slangrad", "tests/ir"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tests/__init__.py").touch()
    for change in SECTIONS[name]:
        if change.language == "diff":
            apply(change, tmp_path)
    for block, printed in zip(SECTIONS[name], SECTIONS[name][1:]):
        if block.note == "changed":
            command = [sys.executable, "-c", block.text]
            done = subprocess.run(
                command,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                env=os.environ | {"PYTHONPATH": str(tmp_path)},
            )
            assert_output(done.stdout + done.stderr, printed.text, block)
