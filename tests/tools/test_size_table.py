"""The table of sizes: what is counted, and that it comes from two commits."""

import subprocess

import pytest

from tools.size_table import Size, counts, folders, functions, main, names_twice, parameter_count, size_of

MODULE = '''"""A docstring is a statement."""
from typing import Any

def pair(x: Any, y: list[Any]) -> int:
    return 1
'''


def test_the_size_of_a_file():
    assert size_of(MODULE) == Size(lines=5, files=1, any=2, statements=4)


def test_folders_are_summed(tmp_path):
    (tmp_path / "ir").mkdir()
    for file in ("ir/core.py", "ir/types.py", "sites.py"):
        (tmp_path / file).write_text(MODULE)
    one, two, all_three = (Size(5 * n, n, 2 * n, 4 * n) for n in (1, 2, 3))
    assert list(folders(tmp_path).items()) == [(".", one), ("ir", two), ("sum", all_three)]


@pytest.mark.parametrize(
    "head, count",
    [
        ("def f(a, b, *rest, c=1, **named): ...", 3),
        ("def f(self, a, /, b): ...", 2),
        ("async def f(cls): ...", 0),
        ("def f(): ...", 0),
    ],
)
def test_parameters_that_a_caller_passes(head, count):
    assert [parameter_count(function) for function in functions(head)] == [count]


def test_names_of_classes_in_two_files():
    assert names_twice(["class A: ...\nclass B: ...", "class B:\n    class C: ...", "class C: ..."]) == [
        "B",
        "C",
    ]
    assert names_twice(["class A: ...\nif x:\n    class A: ..."]) == []


def test_counts_of_a_tree(tmp_path):
    (tmp_path / "slangrad" / "call").mkdir(parents=True)
    (tmp_path / "slangrad" / "marshal").mkdir()
    for folder in ("call", "marshal"):
        (tmp_path / "slangrad" / folder / "a.py").write_text(
            'class A:\n    """Nobody makes one."""\nisinstance(leaf, A)\n' + "x = 1\n" * 499
        )
    (tmp_path / "README.md").write_text(f"# Title\n\nShort. {'word ' * 31}end.\n")
    assert counts(tmp_path) == {
        "`isinstance(leaf` outside of marshal": "1",
        "walk of a tensor in each call": "-",
        "walk of a tensor for a new layout": "-",
        "files over 500 lines": "2",
        "functions with more than 6 parameters": "0",
        "class names that stand twice": "1",
        "sentences over 30 words": "1",
        "sentences of docstrings that break a rule": "2",
    }


def test_two_commits(tmp_path, monkeypatch, capsys):
    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "slangrad").mkdir()
    for number, text in enumerate(("x = 1\n", "x = 1\ny = 2\n")):
        (tmp_path / "slangrad" / "a.py").write_text(text)
        git("add", ".")
        git("commit", "-m", str(number))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["size_table", "HEAD~1"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["| . | 1 → 2 | 1 | 0 | 1 → 2 |", "| sum | 1 → 2 | 1 | 0 | 1 → 2 |"]
    assert "| files over 500 lines | 0 |" in lines
