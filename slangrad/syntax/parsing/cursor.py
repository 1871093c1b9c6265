"""The place in the tokens: looking, taking, reporting, recovering.

In: tokens.   Out: the base of all files of the parser.

A construct that cannot be parsed reports once and raises `Unparsable`. The statement or declaration around it
catches that, skips to the next construct, and goes on, so one run shows several errors. `GivenUp` ends the parse: a
construct is nested too deeply, or there are too many errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from slangrad.base.diagnostics import Reporter
from slangrad.base.options import Limits, limit_note
from slangrad.base.source import Span
from slangrad.syntax import ast
from slangrad.syntax.lexing.foreign import CHOICE, STATEMENTS, SYNTAX
from slangrad.syntax.lexing.tokens import ASSIGNMENT, Token
from slangrad.syntax.lexing.words import RESTARTS, TYPE_INTRODUCERS
from slangrad.syntax.saved import Surroundings

LOOKAHEAD = 4
LINE = 40  # tokens of a line that an error looks back at

State = tuple[ast.Declaration, int, bool, bool]


class Unparsable(Exception):
    """The construct at hand cannot be parsed; that is already reported."""


class GivenUp(Exception):
    """The text cannot be parsed further; that is already reported."""


class Cursor:
    """The current token and its context."""

    def __init__(
        self,
        tokens: list[Token],
        reporter: Reporter,
        limits: Limits,
        container: ast.Declaration,
        language: int,
    ) -> None:
        self.tokens = tokens + tokens[-1:] * LOOKAHEAD
        self.position = 0
        self.token = tokens[0]
        self.kind = self.token.kind
        self.closing = _match_brackets(self.tokens)
        self.known_types = _declared_types(tokens)
        self.reporter = reporter
        self.limits = limits
        self.container = container
        self.language = language
        self.depth = 0
        self.in_generic = False  # ">" ends the generic arguments being parsed
        self.braces_end = False  # "{" ends the expression being parsed
        self.around: Surroundings | None = None  # the bodies of functions wait, and will need this
        self.names_result = False  # `__return_val` stands in the function being parsed
        self._errors = 0

    # --- Looking and taking ------------------------------------------------------------------------------

    def advance(self) -> Token:
        """Take the current token; the end is never passed."""
        token = self.token
        if token.kind != "end":
            self.position += 1
            self.token = following = self.tokens[self.position]
            self.kind = following.kind
        return token

    def move_to(self, position: int) -> None:
        self.position = position
        self.token = self.tokens[position]
        self.kind = self.token.kind

    def at(self, kind: str) -> bool:
        return self.kind == kind

    def at_word(self, word: str) -> bool:
        return self.kind == "name" and self.token.text == word

    def peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.position + distance, len(self.tokens) - 1)]

    def accept(self, kind: str) -> bool:
        if self.kind != kind:
            return False
        self.advance()
        return True

    def accept_word(self, word: str) -> bool:
        if self.kind != "name" or self.token.text != word:
            return False
        self.advance()
        return True

    def expect(self, kind: str, position: str) -> Token:
        """Take a token of this kind; `position` ends the sentence: "after the condition"."""
        if self.kind == kind:
            return self.advance()
        raise self.error("E0201", f"expected '{kind}' {position}, found {self.token.shown()}")

    def expect_after(self, kind: str, position: str) -> Token:
        """The same, and the error stands behind the token before, which may be lines away."""
        if self.kind == kind:
            return self.advance()
        previous = self.tokens[max(self.position - 1, 0)]
        message = f"expected '{kind}' {position}, found {self.token.shown()}"
        raise self.error("E0201", message, Span(previous.source, previous.end, previous.end + 1))

    def expect_word(self, word: str, position: str) -> Token:
        if self.at_word(word):
            return self.advance()
        raise self.error("E0201", f"expected '{word}' {position}, found {self.token.shown()}")

    def expect_name(self, subject: str) -> Token:
        if self.kind == "name":
            return self.advance()
        raise self.error("E0205", f"expected the name of {subject}, found {self.token.shown()}")

    def expect_close(self, kind: str, opener: Token) -> Token:
        """Take the bracket that closes `opener`."""
        if self.kind == kind:
            return self.advance()
        message = f"expected '{kind}' to close '{opener.text}', found {self.token.shown()}"
        raise self.error("E0207", message, related=(("opened here", opener.span),))

    def expect_semicolon(self, after: str) -> None:
        """Take ";"; when it is missing at the end of a line, parsing goes on there."""
        if self.accept(";"):
            return
        message = f"expected ';' after {after}"
        previous = self.tokens[max(self.position - 1, 0)]
        if previous.source is self.token.source and self.token.start > previous.end:
            self.error("E0201", message, Span(previous.source, previous.end, previous.end + 1))
        else:
            self.error("E0201", f"{message}, found {self.token.shown()}")
        if not self.token.fresh and self.kind != "}":
            raise Unparsable

    def expect_close_angle(self, opener: Token) -> None:
        """Take ">", also the first half of ">>", ">=" and ">>="."""
        if self.accept(">"):
            return
        token = self.token
        if token.kind not in (">>", ">=", ">>="):
            message = f"expected '>' to close '<', found {token.shown()}"
            raise self.error("E0207", message, related=(("opened here", opener.span),))
        rest = token.kind[1:]
        self.tokens[self.position] = Token(rest, rest, token.source, token.start + 1, token.end)
        self.move_to(self.position)

    def span_from(self, start: Token | Span) -> Span:
        """From a token, or the start of a span, to the last token taken; one text only."""
        last = self.tokens[self.position - 1] if self.position else self.token
        if last.source is start.source and last.end > start.end:
            return Span(start.source, start.start, last.end)
        return start.span if isinstance(start, Token) else start

    # --- Reporting ---------------------------------------------------------------------------------------

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        note: str | None = None,
        related: tuple[tuple[str, Span], ...] = (),
    ) -> Unparsable:
        """Report at the current token or the span; the returned exception can be raised to leave the construct."""
        note = note or self._foreign_word()
        if self._errors + 1 >= self.limits.errors:
            last = (
                f"this is error number {self.limits.errors}, so the rest is not read; {limit_note('errors')}"
            )
            note = last if note is None else f"{note}\n  note: {last}"
        self.reporter.error(code, message, span or self.token.span, note, related)
        self._errors += 1
        if self._errors >= self.limits.errors:
            raise GivenUp
        return Unparsable()

    def _foreign_word(self) -> str | None:
        """The Slang form of foreign text around the current token."""
        line = self._line_up_to_here()
        for token in line[:3]:
            if token.text in SYNTAX:
                return SYNTAX[token.text]
        if self.token.text == "if" and len(line) > 1:
            return CHOICE
        return next((STATEMENTS[word.text] for word in line if word.text in STATEMENTS), None)

    def _line_up_to_here(self) -> list[Token]:
        """The current token and those before it on its line, backwards."""
        line = [self.token]
        for token in reversed(self.tokens[max(self.position - LINE, 0) : self.position]):
            if line[-1].fresh:
                break
            line.append(token)
        return line

    def enter(self) -> None:
        """One level deeper; every call is followed by `leave`, or undone by recovery."""
        self.depth += 1
        if self.depth > self.limits.nesting_depth:
            self.give_up(f"this is nested more than {self.limits.nesting_depth} deep", "nesting_depth")

    def leave(self) -> None:
        self.depth -= 1

    def count_chain(self, length: int) -> None:
        """Refuse chains whose tree would be too deep."""
        if length > self.limits.chain_length:
            self.give_up(f"this chain has more than {self.limits.chain_length} parts", "chain_length")

    def give_up(self, message: str, limit: str) -> NoReturn:
        self.reporter.error("E0206", message, self.token.span, limit_note(limit))
        raise GivenUp

    # --- Recovering --------------------------------------------------------------------------------------

    def state(self) -> State:
        """What recovery must restore."""
        return self.container, self.depth, self.in_generic, self.braces_end

    def recover(self, state: State, start: int) -> None:
        """After an Unparsable: skip behind ";" or "}", before an open "}", or to a line that restarts."""
        self.container, self.depth, self.in_generic, self.braces_end = state
        if self.position == start and self.kind not in ("}", "end"):
            self._skip_balanced()
        while self.kind not in ("}", "end"):
            if self.token.fresh and self.kind == "name" and self.token.text in RESTARTS:
                return
            kind = self.kind
            self._skip_balanced()
            if kind in (";", "{"):
                return

    def _skip_balanced(self) -> None:
        """Skip one token, or a bracket with its content."""
        close = self.closing.get(self.position, 0) if self.kind in ("(", "[", "{") else 0
        if close > self.position:
            self.move_to(close)
        self.advance()

    # --- Functions that the parts of the parser share -----------------------------------------------------

    parse_expression: Callable[[], ast.Expression]  # commas included
    parse_assignment: Callable[[], ast.Expression]  # up to a comma
    parse_binary: Callable[[int], ast.Expression]  # of operators that bind as tightly as that or tighter
    parse_unary: Callable[[], ast.Expression]  # an operand with its prefix operators and attachments
    parse_type: Callable[[], ast.Expression]
    parse_block: Callable[[], ast.Block]  # `{ statements }`
    parse_statement: Callable[[], ast.Statement]
    parse_attributes: Callable[[], list[ast.AttributeNode]]  # `[a] [b(1)]`, maybe none
    parse_parameters: Callable[
        ..., list[ast.ParameterDeclaration]
    ]  # `(parameters)`; `untyped`: a lone name is one
    # One declaration, which may declare several names; the attributes were read before it.
    parse_declaration: Callable[[list[ast.AttributeNode]], list[ast.Declaration]]


def _declared_types(tokens: list[Token]) -> set[str]:
    """Names that are certainly types, because the text declares them (`struct X` and the like)."""
    names: set[str] = set()
    last = len(tokens) - 1
    for index, token in enumerate(tokens):
        if token.kind != "name" or index == last:
            continue
        if token.text in TYPE_INTRODUCERS and tokens[index + 1].kind == "name":
            names.add(tokens[index + 1].text)
        elif token.text == "typedef":
            names |= _typedef_names(tokens, index)
    return names


def _typedef_names(tokens: list[Token], index: int) -> set[str]:
    """The last name before the ";", leaving array dimensions out."""
    depth = 0
    name = ""
    for token in tokens[index + 1 : index + 100]:
        if token.kind == ";":
            break
        depth += (token.kind == "[") - (token.kind == "]")
        if token.kind == "name" and depth == 0:
            name = token.text
    return {name} if name else set()


_CLOSES = {")": "(", "]": "[", "}": "{"}
_NOT_IN_ANGLES = frozenset((";", ":", "{", "&&", "||", "<=", ">=", "=>", *ASSIGNMENT))
_INTERESTING = frozenset(("<", ">", ">>", "(", "[", "{", ")", "]", "}", "?")) | _NOT_IN_ANGLES
_AFTER_OPTIONAL_TYPE = frozenset((">", ">>", ",", ")", "]", "[", "*", "?"))


def _match_brackets(tokens: list[Token]) -> dict[int, int]:
    """Opening index to closing index, negative for the first character of `>>` and `>>=`. Whether "<" compares or
    opens generic arguments cannot be known before names are: one pass with a stack says where it could close if it
    opens."""
    closing: dict[int, int] = {}
    stack: list[int] = []
    for index, token in enumerate(tokens):
        kind = token.kind
        if kind not in _INTERESTING:
            continue
        if kind == ">":
            if stack and tokens[stack[-1]].kind == "<":
                closing[stack.pop()] = index
        elif kind in (">>", ">>=") and [tokens[position].kind for position in stack[-2:]] == ["<", "<"]:
            closing[stack.pop()] = -index
            if kind == ">>":  # else the rest closes a certain type: `let x : A<B<T>>= y`
                closing[stack.pop()] = index
            else:
                _drop_angles(tokens, stack)
        elif kind in _CLOSES:
            _close(tokens, stack, closing, index)
        else:
            if kind in _NOT_IN_ANGLES or (kind == "?" and tokens[index + 1].kind not in _AFTER_OPTIONAL_TYPE):
                _drop_angles(tokens, stack)
            if kind in ("<", "(", "[", "{"):
                stack.append(index)
    return closing


def _drop_angles(tokens: list[Token], stack: list[int]) -> None:
    while stack and tokens[stack[-1]].kind == "<":
        stack.pop()


def _close(tokens: list[Token], stack: list[int], closing: dict[int, int], index: int) -> None:
    """Close the bracket at `index`; a brace also ends unclosed parentheses; only a brace ends a brace."""
    _drop_angles(tokens, stack)
    opener = _CLOSES[tokens[index].kind]
    if opener == "{":
        while stack and tokens[stack[-1]].kind != "{":
            stack.pop()
    if stack and tokens[stack[-1]].kind == opener:
        closing[stack.pop()] = index
