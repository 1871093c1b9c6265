"""Runs the code of a Markdown document, from top to bottom, in a folder of its own.

    ```slang            checked; with a first line `// square.slang` it is also written to that file
    ```slang error      must have errors
    ```slang excerpt    stands like this in the file that its first line names
    ```python           executed; all blocks of a document share their variables
    ```text             what the Slang block (its main, or its errors) or Python block before it prints
    ```console          lines after `$ slangrad ...`, `$ python ...`, `$ torchrun ...` are what the command prints
    ```bash             not run here
    ```diff             a change of the package; test_extending.py applies it
    ```python changed   runs there, with the changes of its section
    ```python cuda      executed with a CUDA device that interprets kernels
    ```python gpu       executed where PyTorch has a GPU

In an output `...` stands for any text, on a line of its own for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from slangrad.cli.main import app
from tests.runtime.fake_cuda import fake_gpu

FENCE = re.compile(r"^```(\w*) ?(\w*)$")
FILE_NAME = re.compile(r"(?://|#) (\w+\.(?:slang|py))")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]  # at a port that is free
LANGUAGES = {"slang", "python", "text", "console", "bash", "diff", "json"}


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    note: str
    line: int
    text: str


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks, each with the number of its first line."""
    found, opened = [], None
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            assert fence[1] in LANGUAGES, f"line {number}: a block of unknown language '{fence[1]}'"
            opened = fence[1], fence[2], number + 1
        else:
            assert line == "```", f"line {number}: the block of line {opened[2]} is not closed"
            found.append(Block(*opened, "\n".join(lines[opened[2] - 1 : number - 1])))
            opened = None
    return found


class Session:
    """The state between the blocks of a document: variables of its Python blocks.

    A command of torchrun takes some 15 s, so that a session runs `most_torchruns` of them, the first ones.
    """

    def __init__(self, most_torchruns: float = inf) -> None:
        self.variables: dict[str, Any] = {"__name__": "__main__"}
        self.torchruns_left = most_torchruns

    def run(self, blocks: list[Block]) -> None:
        for block, following in zip(blocks, [*blocks[1:], None]):
            expected = following.text if following is not None and following.language == "text" else None
            run = NOTES.get(block.note, RUN[block.language])
            run(self, block, expected)

    def excerpt(self, block: Block, _: str | None) -> None:
        name, _, text = block.text.partition("\n")
        assert f"{text}\n" in Path(name.lstrip("/# ")).read_text(), f"line {block.line}"

    def slang(self, block: Block, expected: str | None) -> None:
        named = FILE_NAME.match(block.text)
        path = Path(named[1] if named else f"line_{block.line}.slang")
        path.write_text(block.text)
        checked = CliRunner().invoke(app, ["check", str(path)])
        if block.note == "error":
            assert_output(errors_of(path, block), expected or "...", block)
            return
        assert checked.exit_code == 0, f"line {block.line}: {checked.output}"
        if expected is not None:
            assert_output(command(f"slangrad run {path}"), expected, block)

    def python(self, block: Block, expected: str | None) -> None:
        if named := FILE_NAME.match(block.text):
            Path(named[1]).write_text(block.text)
            return
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile("\n" * (block.line - 1) + block.text, "<document>", "exec"), self.variables)
        assert_output(printed.getvalue(), expected or "", block)

    def on_a_gpu(self, block: Block, expected: str | None) -> None:
        with fake_gpu():
            self.python(block, expected)

    def with_torch_on_a_gpu(self, block: Block, expected: str | None) -> None:
        if torch.cuda.is_available():
            self.python(block, expected)

    def console(self, block: Block, _: str | None) -> None:
        for line, output in commands_of(block.text):
            if "torchrun" in line.split():
                self.torchruns_left -= 1
                if self.torchruns_left < 0:
                    continue
            assert_output(command(line), output, block)

    def nothing(self, block: Block, _: str | None) -> None:
        pass


RUN = {
    "slang": Session.slang,
    "python": Session.python,
    "console": Session.console,
    "text": Session.nothing,
    "bash": Session.nothing,
    "diff": Session.nothing,
    "json": Session.nothing,
}
NOTES = {
    "excerpt": Session.excerpt,
    "changed": Session.nothing,
    "cuda": Session.on_a_gpu,
    "gpu": Session.with_torch_on_a_gpu,
}


def errors_of(path: Path, block: Block) -> str:
    """What `check` reports; where it finds nothing, what `run` does."""
    checked = CliRunner().invoke(app, ["check", str(path)])
    shown = checked.output.rpartition("\n\n")[0]
    if checked.exit_code == 0:
        checked = CliRunner().invoke(app, ["run", str(path)])
        shown = checked.output.replace(
            "note: Slang compilation error: found when the call was compiled\n", ""
        )
    assert checked.exit_code == 1, f"line {block.line}: no errors"
    return shown.replace(str(path), "example.slang")


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Commands after `$`, and the lines that each prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield line, output


def command(line: str) -> str:
    """What `NAME=value slangrad ...`, `python ...` or `torchrun ...` prints."""
    words = shlex.split(line)
    settings = {}
    while "=" in words[0]:
        name, _, settings[name] = words.pop(0).partition("=")
    if words[0] == "slangrad":
        return CliRunner().invoke(app, words[1:], env=settings).output
    programs = {"python": [sys.executable], "torchrun": TORCHRUN}
    assert words[0] in programs, f"'{line}' is no command that documents show"
    words[:1] = programs[words[0]]
    env = {"OMP_NUM_THREADS": "1"} | os.environ | settings  # torchrun warns where it is not set
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=120)
    return done.stdout + done.stderr


def assert_output(found: str, expected: str, block: Block) -> None:
    pattern = "\n".join(map(pattern_of, lines_of(expected)))
    shown = "\n".join(lines_of(found))
    message = f"the block of line {block.line} prints\n{shown[:3000]}\ninstead of\n{expected.strip()}"
    assert re.fullmatch(pattern, shown), message


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def pattern_of(line: str) -> str:
    return r"(?:.*\n)*?.*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*")
