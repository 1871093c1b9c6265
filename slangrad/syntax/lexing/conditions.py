"""The value of an `#if` expression.

In: the tokens after `#if`, macros expanded and `defined` replaced.   Out: a 64-bit integer.

    1 && (2 + 3) * 2 > 9      ->     1

Names that are left are zero. Division by zero is an error only where it would be evaluated.
"""

from __future__ import annotations

from slangrad.base.folding import FOLDS
from slangrad.syntax.lexing.numbers import read_character, read_integer
from slangrad.syntax.lexing.tokens import BINARY, Token

DEEPEST = 100


class BadCondition(Exception):
    """The expression is malformed; the argument says why."""


def evaluate(tokens: list[Token]) -> int:
    """The value; raises BadCondition."""
    if not tokens:
        raise BadCondition("an expression is missing")
    reader = _Reader(tokens)
    value = reader.conditional(False)
    if reader.position < len(tokens):
        raise BadCondition(f"{reader.token_text()} is not expected here")
    return value


class _Reader:
    """Precedence climbing; `dead` is True where the value does not matter."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    def kind(self) -> str:
        return self.tokens[self.position].kind if self.position < len(self.tokens) else "end"

    def token_text(self) -> str:
        return self.tokens[self.position].shown() if self.kind() != "end" else "the end of the line"

    def expect(self, kind: str) -> None:
        if self.kind() != kind:
            raise BadCondition(f"'{kind}' expected before {self.token_text()}")
        self.position += 1

    def conditional(self, dead: bool) -> int:
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadCondition(f"it is nested more than {DEEPEST} deep")
        condition = self.binary(1, dead)
        if self.kind() == "?":
            self.position += 1
            then = self.conditional(dead or not condition)
            self.expect(":")
            otherwise = self.conditional(dead or bool(condition))
            condition = then if condition else otherwise
        self.depth -= 1
        return condition

    def binary(self, lowest: int, dead: bool) -> int:
        left = self.unary(dead)
        while BINARY.get(self.kind(), 0) >= lowest:
            operator = self.kind()
            self.position += 1
            decided = (operator == "&&" and not left) or (operator == "||" and bool(left))
            right = self.binary(BINARY[operator] + 1, dead or decided)
            left = _compute(operator, left, right, dead)
        return left

    def unary(self, dead: bool) -> int:
        signs: list[str] = []
        while self.kind() in ("-", "+", "!", "~"):
            signs.append(self.kind())
            self.position += 1
        value = self.atom(dead)
        for sign in reversed(signs):
            value = FOLDS[sign, 1](value) or 0
        return value

    def atom(self, dead: bool) -> int:
        kind = self.kind()
        if kind == "(":
            self.position += 1
            value = self.conditional(dead)
            self.expect(")")
            return value
        if kind not in ("integer", "char", "name"):
            raise BadCondition(f"a value expected before {self.token_text()}")
        text = self.tokens[self.position].text
        self.position += 1
        if kind == "name":
            return int(text == "true")
        try:
            return _wrap(read_integer(text)[0] if kind == "integer" else read_character(text))
        except ValueError as error:
            raise BadCondition(str(error)) from None


def _compute(operator: str, left: int, right: int, dead: bool) -> int:
    value = FOLDS[operator, 2](left, right)
    if value is None and not dead:
        raise BadCondition("division by zero")
    return _wrap(value or 0)


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
