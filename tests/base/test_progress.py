"""The line about a compilation that takes long: who sees it, what it says, that it goes."""

import io
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from slangrad.base import progress
from slangrad.base.progress import Progress, is_seen, shown
from slangrad.cli.progress import show

PROGRAM = """
import slangrad as spy
from slangrad.base import progress
progress.PATIENCE = 0
lines = "x = sin(x) * x;" * 200  # longer to compile than between two looks at the progress
module = spy.Module.load_from_source(spy.create_device(), "waves", f"float f(float x) {{ {lines} return x; }}")
print(module.f(0.0))
"""
ERASED = "\r\x1b[2K"


def on_terminal(program: str, **settings: str) -> tuple[str, str]:
    """What a program writes to standard output, a pipe, and to standard error, a terminal."""
    ours, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {
        "TERM": "xterm",
        "SLANGRAD_VERIFY": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    } | settings
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux: the other side is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.stdout is not None
    with process.stdout:
        printed = process.stdout.read()
    assert process.wait() == 0, seen
    return printed.decode(), seen.decode()


def test_a_terminal_is_told_what_is_compiled_and_the_line_goes() -> None:
    printed, seen = on_terminal(PROGRAM)
    assert printed == "0.0\n"
    *lines, last = seen.split(ERASED)
    assert last == ""
    plain = [re.sub(r"\x1b\[\d*m", "", each) for each in lines]
    assert "compiling module waves (0 s)" in plain
    assert any(
        re.fullmatch(r"compiling kernel 1 of f: stage \d+ of 11, \w+ \(\d+ s\)", each) for each in plain
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("setting", [{"SLANGRAD_PROGRESS": "0"}, {"CI": "true"}, {"TERM": "dumb"}])
def test_nobody_is_told(setting: dict[str, str]) -> None:
    assert on_terminal(PROGRAM, **setting) == ("0.0\n", "")


def test_stages_that_are_printed_are_not_mixed_with_the_line() -> None:
    printed, seen = on_terminal(PROGRAM, SLANGRAD_DUMP="clean")
    assert "after stage 'clean'" in printed
    assert "compiling kernel" not in seen


def test_short_compilations_write_nothing() -> None:
    assert on_terminal(PROGRAM.replace("PATIENCE = 0", "PATIENCE = 600")) == ("0.0\n", "")


def test_there_is_no_thread_where_nobody_looks() -> None:
    assert not is_seen(os.environ)  # pytest captures
    with shown("a kernel", wanted=True):
        assert "slangrad progress" not in [each.name for each in threading.enumerate()]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What lines were begun, all without a wait; as if there were a terminal."""
    begun: list[str] = []

    def begin(progress: Progress, done: threading.Event) -> None:
        begun.append(progress.title)

    monkeypatch.setattr(progress, "is_seen", lambda environment: True)
    monkeypatch.setattr(progress, "_show_later", begin)
    return begun


def test_the_outermost_has_the_line(told: list[str]) -> None:
    with shown("outer", wanted=True), shown("inner", wanted=True):
        pass
    with shown("next", wanted=True):
        pass
    assert told == ["outer", "next"]


def test_one_thread_has_the_line(told: list[str]) -> None:
    def other() -> None:
        with shown("other", wanted=True):
            pass

    with shown("first", wanted=True):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert told == ["first"]


def test_the_line_goes_when_the_compilation_fails(told: list[str]) -> None:
    with pytest.raises(ValueError), shown("wrong", wanted=True):
        raise ValueError
    assert "slangrad progress" not in [each.name for each in threading.enumerate()]
    with shown("right", wanted=True):
        pass
    assert told == ["wrong", "right"]


def test_a_long_line_is_cut() -> None:
    file, done = io.StringIO(), threading.Event()
    done.set()
    console = Console(file=file, force_terminal=True, width=30, color_system=None)
    show(Progress("kernel 1 of " + "f" * 100), done, console)
    assert file.getvalue() == f"{ERASED}compiling kernel 1 of fffffff…{ERASED}"


def test_it_says_what_comes_next() -> None:
    file, done = io.StringIO(), threading.Event()
    console = Console(file=file, force_terminal=True, width=80, color_system=None)
    at = Progress("kernel 1 of f", "stage 1 of 2, ast")
    thread = threading.Thread(target=show, args=(at, done, console))
    thread.start()
    while "ast" not in file.getvalue():
        time.sleep(0.01)
    at.detail = "stage 2 of 2, asm"
    while "asm" not in file.getvalue():
        time.sleep(0.01)
    done.set()
    thread.join()
    lines = file.getvalue().split(ERASED)
    assert lines[0] == lines[-1] == ""
    assert lines[1] == "compiling kernel 1 of f: stage 1 of 2, ast (0 s)"
    assert lines[-2].startswith("compiling kernel 1 of f: stage 2 of 2, asm (")
