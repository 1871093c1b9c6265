"""Every Slang block of the manual, one case each."""

from __future__ import annotations

from pathlib import Path
from traceback import format_exc

import pytest

from tests.language.manual import Block, Library, Mismatch, blocks_of, run_block

BLOCKS = [block for path in sorted(Path(__file__).parent.glob("*.md")) for block in blocks_of(path)]


@pytest.fixture(scope="session")
def library() -> Library:
    return Library()


@pytest.mark.parametrize(
    "block", BLOCKS, ids=lambda block: f"{block.path.name}:{block.line}: {block.heading}"
)
def test_block(library: Library, block: Block) -> None:
    failure = ""
    try:
        run_block(library, block)
    except Mismatch as difference:
        failure = f"{block.path.name}:{block.line}: {difference}"
    except Exception:  # without pytest's own traceback, which would show whole syntax trees
        failure = format_exc()
    if failure:
        pytest.fail(failure, pytrace=False)
