"""Loggers, their outputs, and the timer."""

from pathlib import Path

import pytest

import slangrad as spy
from slangrad import LogFrequency, LogLevel


class Kept(spy.LoggerOutput):
    def __init__(self) -> None:
        self.lines: list[tuple[LogLevel, str, str]] = []

    def write(self, level: LogLevel, name: str, msg: str) -> None:
        self.lines.append((level, name, msg))


@pytest.mark.parametrize("level", list(LogLevel)[1:])
def test_messages_below_the_level_are_not_written(level: LogLevel) -> None:
    logger, kept = spy.Logger(level, "here", use_default_outputs=False), Kept()
    logger.add_output(kept)
    for each in LogLevel:
        logger.log(each, f"a {each.name}")
    assert kept.lines == [(each, "here", f"a {each.name}") for each in LogLevel if not 0 < each < level]


def test_once_and_outputs() -> None:
    logger, kept, other = spy.Logger(use_default_outputs=False), Kept(), Kept()
    logger.add_output(kept)
    logger.add_output(kept)
    second = spy.Logger(use_default_outputs=False)
    second.use_same_outputs(logger)
    logger.add_output(other)
    for _ in range(2):
        logger.warn_once("a")
        logger.log(LogLevel.info, "a", LogFrequency.once)
        second.info("b")
    logger.remove_output(kept)
    logger.error("c")
    logger.remove_all_outputs()
    logger.fatal("d")
    assert [msg for *_, msg in kept.lines] == ["a", "a", "b", "b"]
    assert [(level.name, msg) for level, _, msg in other.lines] == [
        ("warn", "a"),
        ("info", "a"),
        ("error", "c"),
    ]


def test_files_and_the_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logger = spy.Logger(LogLevel.debug, "n")
    logger.add_file_output(tmp_path / "log.txt")
    for each in LogLevel:
        logger.log(each, "text")
    lines = ["text", *(f"[{each.name.upper()}] (n) text" for each in list(LogLevel)[1:])]
    assert (tmp_path / "log.txt").read_text().splitlines() == lines
    shown = capsys.readouterr()
    assert (shown.out + shown.err).splitlines() == lines
    assert shown.err.splitlines() == lines[4:]
    spy.log_info("shared")
    spy.log_info_once("shared once")
    spy.log_info_once("shared once")
    assert capsys.readouterr().out == "[INFO] shared\n[INFO] shared once\n"


def test_timer() -> None:
    timer = spy.Timer()
    start = spy.Timer.now()
    assert 0 <= timer.elapsed_ns() <= spy.Timer.now() - start + timer.elapsed_ns()
    assert timer.elapsed_s() <= timer.elapsed_ms() <= timer.elapsed_us()
    timer.reset()
    assert spy.Timer.delta_us(0, 2_500) == 2.5
    assert spy.Timer.delta_ms(0, 2_500_000) == 2.5
    assert spy.Timer.delta_s(0, 2_500_000_000) == 2.5


def test_an_output_without_write_cannot_be_made() -> None:
    class Silent(spy.LoggerOutput):
        pass

    with pytest.raises(TypeError, match="write"):
        Silent()
