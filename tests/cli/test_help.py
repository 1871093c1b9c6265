"""The texts of `--help` are whole: nothing in them is taken for markup."""

import inspect

import pytest
import typer

from slangrad.cli.main import app

COMMANDS = {
    (*above, name): command.callback
    for above, commands in (
        ((), app),
        *(((each.name,), each.typer_instance) for each in app.registered_groups),
    )
    for command in commands.registered_commands
    if (name := command.name or command.callback.__name__.replace("_", "-"))
}


def words_of(text: str) -> list[str]:
    return text.replace("│", " ").split()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_says_all_that_is_written(slangrad, words):
    code, shown, _ = slangrad(*words, "--help", COLUMNS="160", TERMINAL_WIDTH="160")
    assert code == 0
    callback = COMMANDS[words]
    texts = [inspect.getdoc(callback)]
    for parameter in inspect.signature(callback).parameters.values():
        said = getattr(parameter.annotation, "__metadata__", ())
        texts += [each.help for each in said if isinstance(each, typer.models.ParameterInfo)]
    flat = " ".join(words_of(shown))
    for text in texts:
        for word in words_of(text.replace("\\[", "[")):
            assert word in flat, (word, text)
    assert words != ("dump",) or '[shader("compute")]' in flat
