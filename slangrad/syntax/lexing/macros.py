"""Macro definitions and their expansion.

In: a name token that is a macro, and the tokens after it.   Out: its expansion.

    #define SQUARE(x) ((x) * (x))
    SQUARE(a + 1)            ->     ((a + 1) * (a + 1))

Each produced token remembers the macros it came from and is never expanded by them again. Tokens of a body
carry the place where the macro is used, tokens of arguments their own place. Depth and size are limited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits, limit_note
from slangrad.base.source import SourceFile
from slangrad.syntax.lexing.lexer import tokenize
from slangrad.syntax.lexing.tokens import Token

NOTHING: frozenset[str] = frozenset()


@dataclass(slots=True)
class Macro:
    """`parameters` is None without parentheses; the last one of a variadic macro takes the rest."""

    name: str
    parameters: list[str] | None
    is_variadic: bool
    body: list[Token]

    def same_as(self, other: Macro) -> bool:
        texts = [token.text for token in self.body]
        return self.parameters == other.parameters and texts == [token.text for token in other.body]


Arguments = list[list[Token]]


class Expander:
    """The defined macros, and the rest of the limits of their expansions."""

    def __init__(self, reporter: Reporter, limits: Limits) -> None:
        self.macros = {name: Macro(name, None, False, []) for name in _FROM_PLACE}
        self._reporter = reporter
        self._limits = limits
        self._depth = 0
        self._left = limits.macro_tokens
        self._characters_left = limits.macro_characters

    def expand(self, tokens: list[Token], index: int, output: list[Token]) -> int:
        """Append the expansion of the macro at `tokens[index]`; return the index after its use."""
        pending = [tokens[index]]
        index += 1
        while pending:
            token = pending.pop()
            macro = self.macros.get(token.text) if token.kind == "name" else None
            if macro is None or (token.hidden is not None and macro.name in token.hidden):
                output.append(token)
            elif macro.parameters is not None:
                index = self._expand_call(macro, token, pending, tokens, index, output)
            elif macro.name in _FROM_PLACE:
                output.append(_FROM_PLACE[macro.name](token))
            else:
                hidden = (token.hidden or NOTHING) | {macro.name}
                pending += reversed(self._substitute(macro, token, [], hidden))
        return index

    def expand_all(self, tokens: list[Token]) -> list[Token]:
        """The tokens with all macros expanded; the list needs no end token."""
        output: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.kind == "name" and token.text in self.macros:
                index = self.expand(tokens, index, output)
            else:
                output.append(token)
                index += 1
        return output

    def _expand_call(
        self,
        macro: Macro,
        use: Token,
        pending: list[Token],
        tokens: list[Token],
        index: int,
        output: list[Token],
    ) -> int:
        following = pending[-1] if pending else tokens[index] if index < len(tokens) else None
        if following is None or following.kind != "(":
            output.append(use)
            return index
        arguments, close, index = _take_arguments(pending, tokens, index)
        if close is None:
            self._reporter.error("E0109", f"the use of macro '{macro.name}' has no closing ')'", use.span)
            return index
        fitted = self._fit(macro, arguments, use)
        if fitted is None:
            return index
        if self._depth >= self._limits.macro_depth:
            message = f"macros are nested more than {self._limits.macro_depth} deep"
            self._reporter.error("E0113", message, use.span, limit_note("macro_depth"))
            return index
        hidden = ((use.hidden or NOTHING) & (close.hidden or NOTHING)) | {macro.name}
        self._depth += 1
        pending += reversed(self._substitute(macro, use, fitted, hidden))
        self._depth -= 1
        return index

    def _fit(self, macro: Macro, arguments: Arguments, use: Token) -> Arguments | None:
        """One argument for each parameter; the variadic one gets its commas back."""
        parameters = macro.parameters
        assert parameters is not None
        if not parameters and arguments == [[]]:
            return []
        named = len(parameters) - 1
        if macro.is_variadic and len(arguments) >= named:
            rest: list[Token] = []
            for position, argument in enumerate(arguments[named:]):
                rest += [_token_at(",", ",", use), *argument] if position else argument
            arguments = [*arguments[:named], rest]
        if len(arguments) != len(parameters):
            message = f"macro '{macro.name}' takes {len(parameters)} arguments, not {len(arguments)}"
            self._reporter.error("E0109", message, use.span)
            return None
        return arguments

    def _substitute(
        self, macro: Macro, use: Token, arguments: Arguments, hidden: frozenset[str]
    ) -> list[Token]:
        """The body with arguments in place, `#` and `##` done."""
        if len(hidden) > self._limits.chain_length:
            message = (
                f"a macro stands for another one, and so on, more than {self._limits.chain_length} times"
            )
            self._reporter.error("E0113", message, use.span, limit_note("chain_length"))
            return []
        raw = dict(zip(macro.parameters or (), arguments))
        expanded: dict[str, list[Token]] = {}
        kinds = ["", *(token.kind for token in macro.body), ""]
        output: list[Token] = []
        characters = 0
        source, start, end = use.source, use.start, use.end
        for token, before, after in zip(macro.body, kinds, kinds[2:]):
            kind, text = token.kind, token.text
            if kind == "##" or (kind == "#" and raw and after == "name"):
                continue
            if kind == "name" and text in raw:
                piece = [
                    _hide(piece_token, hidden)
                    for piece_token in self._argument(text, before, after, use, raw, expanded)
                ]
                characters += sum([len(piece_token.text) for piece_token in piece])
            else:
                piece = [Token(kind, text, source, start, end).hiding(hidden)]
                characters += len(text)
            output += self._paste(output, piece, use) if before == "##" else piece
            if len(output) > self._left or characters > self._characters_left:
                self._refuse(use, len(output) > self._left)
                return []
        self._left -= len(output)
        self._characters_left -= characters
        return output

    def _argument(
        self,
        name: str,
        before: str,
        after: str,
        use: Token,
        raw: dict[str, list[Token]],
        expanded: dict[str, list[Token]],
    ) -> list[Token]:
        """The argument of a parameter; arguments are expanded at most once."""
        if before == "#":
            return [_token_at("string", _stringify(raw[name]), use)]
        if before == "##" or after == "##":
            return raw[name]
        if name not in expanded:
            expanded[name] = self.expand_all(raw[name])
        return expanded[name]

    def _paste(self, output: list[Token], piece: list[Token], use: Token) -> list[Token]:
        """The tokens after `output` when its last token and the first of `piece` become one token."""
        if not output:
            return piece
        left = output.pop()
        if not piece:
            return [] if left.kind == "," else [left]
        text = left.text + piece[0].text
        tokens = tokenize(SourceFile(use.source.name, text))
        if len(tokens) != 2:
            if left.kind != ",":
                self._reporter.error("E0109", f"'##' makes {text!r}, which is not one token", use.span)
            return [left, *piece]
        joined = _token_at(tokens[0].kind, text, use)
        joined.hidden = piece[0].hidden
        return [joined, *piece[1:]]

    def _refuse(self, use: Token, tokens: bool) -> None:
        """Report too many tokens, or too much text, once."""
        name = "macro_tokens" if tokens else "macro_characters"
        if self._left >= 0:
            message = f"macros produce more than {getattr(self._limits, name)} {name.removeprefix('macro_')}"
            self._reporter.error("E0113", message, use.span, limit_note(name))
        self._left = -1


def _take_arguments(
    pending: list[Token], tokens: list[Token], index: int
) -> tuple[Arguments, Token | None, int]:
    """The arguments from "(" to its ")", that ")" or None, and the index after it."""
    arguments: Arguments = [[]]
    depth = 0
    while True:
        if pending:
            token = pending.pop()
        elif index < len(tokens) and tokens[index].kind != "end":
            token = tokens[index]
            index += 1
        else:
            return arguments, None, index
        if token.kind in ("(", "[", "{"):
            depth += 1
            if depth == 1:
                continue
        elif token.kind in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return arguments, token, index
        elif token.kind == "," and depth == 1:
            arguments.append([])
            continue
        arguments[-1].append(token)


def _hide(token: Token, hidden: frozenset[str]) -> Token:
    merged = hidden if token.hidden is None else hidden | token.hidden
    return _token_at(token.kind, token.text, token).hiding(merged)


def _token_at(kind: str, text: str, use: Token) -> Token:
    return Token(kind, text, use.source, use.start, use.end)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stringify(tokens: list[Token]) -> str:
    """The text of an argument as a string literal, one space where the source has any."""
    parts: list[str] = []
    for position, token in enumerate(tokens):
        if position and tokens[position - 1].end != token.start:
            parts.append(" ")
        parts.append(token.text)
    return _quote("".join(parts))


_FROM_PLACE: dict[str, Callable[[Token], Token]] = {
    "__LINE__": lambda use: _token_at("integer", str(use.span.line), use),
    "__FILE__": lambda use: _token_at("string", _quote(use.source.name), use),
}
