"""The commands of the README: each is one line, and does what the README says. `.ci/run` runs them with their set-up."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import PRINTED
from tests.docs.test_gallery import NEARER

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"<!-- (\w+) commands? -->\n```bash\n(.*?)\n```", re.DOTALL)
COMMANDS = {name: text.split("\n") for name, text in BLOCK.findall((ROOT / "README.md").read_text())}
PROGRAMS = {"python": [sys.executable], "slangrad": [sys.executable, "-m", "slangrad"]}


def test_one_line_does_the_main_job_and_one_the_tests():
    assert COMMANDS.keys() == {"main", "test", "example", "gallery"}
    for name in ("main", "test"):
        (line,) = COMMANDS[name]
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")


def test_all_examples_have_a_command():
    named = [
        line.split("/")[-1].removesuffix(" --quick") for line in COMMANDS["example"] + COMMANDS["gallery"]
    ]
    assert sorted(named) == sorted([*PRINTED, *(f"{name}.py" for name in NEARER)])


def test_ci_runs_all_of_them():
    script = (ROOT / ".ci/run").read_text()
    assert re.findall(r'"(\w+) commands?"', script) == ["main", "example", "gallery", "test"]


@pytest.mark.deep
@pytest.mark.parametrize(
    "line", [line for name, lines in COMMANDS.items() if name != "test" for line in lines]
)
def test_command(line, tmp_path):
    """The last command of the line, with the packages of this process."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    program, *arguments = line.rpartition(" && ")[2].split()
    done = subprocess.run(
        [*PROGRAMS[program.removeprefix(".venv/bin/")], *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "example" in line or (tmp_path / "mlp.png").exists()
