"""Type expressions and generic argument lists.

In: the cursor at a type.   Out: an Expression.

    A.B<float, 3>[N]*     ->    PointerType(ArrayType(GenericApplication(Member(A, B), [float, 3]), N))

`scan_type` looks over a type without building anything: it tells declarations, casts and generic arguments
from expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slangrad.syntax import ast
from slangrad.syntax.lexing.tokens import Token
from slangrad.syntax.lexing.words import DIRECTIONS, NOT_TYPES, TYPE_FUNCTIONS, TYPE_MODIFIERS
from slangrad.syntax.parsing.cursor import Cursor

_ENDS_GENERIC_ARGUMENT = frozenset((",", ">", ">>", ">=", ">>="))
_AFTER_POINTER = frozenset((")", ";", ",", "]", "}", "*", "?", ":", "&&", "||", "end"))
_PACK_WORDS = {"expand": ast.Expand, "each": ast.Each}
_ELABORATED = ("struct", "class", "enum")

Parsed = TypeVar("Parsed")


class TypeParser(Cursor):
    """Types and generic arguments."""

    # --- Looking over a type -----------------------------------------------------------------------------

    def scan_type(self, position: int) -> int:
        """The index after a type that starts at `position`, or -1 where there is none.

        In the middle of a `>>` or `>>=` that closes two lists it is the index of that token.
        """
        tokens = self.tokens
        position = self._scan_modifiers(position)
        while tokens[position].text == "functype":
            close = self.closing.get(position + 1, -1)
            if close < 0 or tokens[close + 1].kind != "->":
                return -1
            position = self._scan_modifiers(close + 2)
        if tokens[position].kind == "::":
            position += 1
        while True:
            token = tokens[position]
            if token.kind != "name" or token.text in NOT_TYPES:
                return -1
            position += 1
            if token.text in TYPE_FUNCTIONS and tokens[position].kind == "(":
                position = self.closing.get(position, position) + 1
            if tokens[position].kind == "<":
                after = self._scan_arguments(position)
                if after < 0 or self.tokens[after].kind in (">>", ">>="):
                    return after
                position = after
            if tokens[position].kind not in (".", "::") or tokens[position + 1].kind != "name":
                break
            position += 1
        return self._scan_suffixes(position)

    def _scan_suffixes(self, position: int) -> int:
        while True:
            kind = self.tokens[position].kind
            if kind in ("*", "?"):
                position += 1
            elif kind == "[" and position in self.closing:
                position = self.closing[position] + 1
            else:
                return position

    def _scan_arguments(self, position: int) -> int:
        """The index after generic arguments that open here, -1 where "<" compares, that of a shared `>>`."""
        close = self.closing.get(position)
        if close is None:
            return -1
        return -close if close < 0 else close + 1

    def _scan_modifiers(self, position: int) -> int:
        while self._modifies_type(position):
            position += 1
        return position

    def _modifies_type(self, position: int) -> bool:
        """Is the word there a modifier of the type after it?"""
        token = self.tokens[position]
        return (
            token.kind == "name"
            and (token.text in TYPE_MODIFIERS or token.text in _ELABORATED)
            and self.tokens[position + 1].kind == "name"
        )

    # --- Types -------------------------------------------------------------------------------------------

    def parse_type(self) -> ast.Expression:
        """A type with its modifiers and suffixes, `A & B` too."""
        self.enter()
        start = self.token
        left = self._parse_modified_type()
        length = 0
        while self.kind == "&":
            self.advance()
            right = self._parse_modified_type()
            left = ast.ConjunctionExpression(self.span_from(start), left, right)
            length += 1
            self.count_chain(length)
        self.leave()
        return left

    def parse_operand_type(self) -> ast.Expression:
        """A type on the right of `is` or `as`, where "?" begins a conditional and "*" mostly multiplies."""
        parsed = self.parse_type_name()
        while self.kind == "*" and self.peek().kind in _AFTER_POINTER:
            self.advance()
            parsed = ast.PointerTypeExpression(self.span_from(parsed.span), parsed)
        return parsed

    def _parse_modified_type(self) -> ast.Expression:
        words: list[Token] = []
        while self._modifies_type(self.position):
            words.append(self.advance())
            self.count_chain(len(words))
        parsed = self._parse_plain_type()
        for word in reversed(words):
            if word.text in _PACK_WORDS:
                parsed = _PACK_WORDS[word.text](self.span_from(word), parsed)
            elif word.text not in _ELABORATED:
                parsed = ast.ModifiedType(self.span_from(word), word.text, parsed)
        return parsed

    def _parse_plain_type(self) -> ast.Expression:
        start = self.token
        if self.kind == "(":
            parsed = self._parse_parenthesized_type()
        elif self.at_word("functype"):
            self.advance()
            parsed = self._parse_function_type(start, self._parse_type_list())
        else:
            parsed = self.parse_type_name()
        return self._parse_suffixes(parsed)

    def _parse_suffixes(self, parsed: ast.Expression) -> ast.Expression:
        length = 0
        while True:
            if self.kind == "*":
                self.advance()
                parsed = ast.PointerTypeExpression(self.span_from(parsed.span), parsed)
            elif self.kind == "[":
                count = self.parse_dimension()
                parsed = ast.ArrayTypeExpression(self.span_from(parsed.span), parsed, count)
            elif self.kind == "?":
                self.advance()
                parsed = ast.OptionalTypeExpression(self.span_from(parsed.span), parsed)
            else:
                return parsed
            length += 1
            self.count_chain(length)

    def parse_dimension(self) -> ast.Expression | None:
        """`[N]` or `[]`."""
        opener = self.advance()
        outer, self.in_generic = self.in_generic, False
        count = None if self.kind == "]" else self.parse_assignment()
        self.in_generic = outer
        self.expect_close("]", opener)
        return count

    def parse_type_name(self) -> ast.Expression:
        """`A`, `::A`, `A.B<T>`, `This`."""
        start = self.token
        from_root = self.accept("::")
        token = self.token
        if token.kind != "name" or token.text in NOT_TYPES:
            raise self.error("E0203", f"expected a type, found {token.shown()}")
        self.advance()
        parsed: ast.Expression
        if token.text == "This" and not from_root:
            parsed = ast.ThisType(token.span)
        elif token.text in TYPE_FUNCTIONS and self.kind == "(":
            parsed = self._parse_type_call(token)
        else:
            parsed = ast.Name(self.span_from(start), token.text, from_root)
        parsed = self._parse_type_arguments(parsed)
        length = 0
        while self.kind in (".", "::") and self.peek().kind == "name":
            separator = self.advance().text
            member = self.advance()
            parsed = ast.Member(self.span_from(parsed.span), parsed, member.text, member.span, separator)
            parsed = self._parse_type_arguments(parsed)
            length += 1
            self.count_chain(length)
        return parsed

    def _parse_type_arguments(self, base: ast.Expression) -> ast.Expression:
        return self.parse_generic_arguments(base) if self.kind == "<" else base

    def _parse_type_call(self, word: Token) -> ast.Expression:
        """`__first(T)`: a type computed from types and values."""
        opener = self.advance()
        arguments = self.parse_list(opener, ")", self.parse_type_or_value)
        return ast.Call(self.span_from(word), ast.Name(word.span, word.text), arguments)

    def parse_type_or_value(self) -> ast.Expression:
        """A type where a type can end here, else a value."""
        after = self.scan_type(self.position)
        if after >= 0 and self.tokens[after].kind in (",", ")"):
            return self.parse_type()
        return self.parse_assignment()

    def _parse_parenthesized_type(self) -> ast.Expression:
        """`(T)`, `(A, B)`, `(A, B) -> R`."""
        start = self.token
        elements = self._parse_type_list()
        if self.kind == "->":
            return self._parse_function_type(start, elements)
        return elements[0] if len(elements) == 1 else ast.TupleExpression(self.span_from(start), elements)

    def _parse_function_type(self, start: Token, parameters: list[ast.Expression]) -> ast.Expression:
        self.expect("->", "after the parameters of a function type")
        result = self.parse_type()
        return ast.FunctionTypeExpression(self.span_from(start), parameters, result)

    def _parse_type_list(self) -> list[ast.Expression]:
        opener = self.expect("(", "before the types")
        return self.parse_list(opener, ")", self._parse_passed_type)

    def _parse_passed_type(self) -> ast.Expression:
        """A parameter's type in a function type, behind its name; its direction becomes a modifier."""
        if self.kind == "name" and self.peek().kind == ":":
            self.move_to(self.position + 2)
        word = self.token
        if self.kind != "name" or word.text not in DIRECTIONS or self.peek().kind != "name":
            return self.parse_type()
        self.advance()
        passed = self.parse_type()
        return ast.ModifiedType(self.span_from(word), DIRECTIONS[word.text], passed)

    def parse_list(self, opener: Token, close: str, parse: Callable[[], Parsed]) -> list[Parsed]:
        """What is between brackets, with commas between; a last comma is allowed."""
        outer = self.in_generic, self.braces_end
        self.in_generic = self.braces_end = False
        elements = self.parse_separated(parse, close)
        self.in_generic, self.braces_end = outer
        self.expect_close(close, opener)
        return elements

    def parse_separated(self, parse: Callable[[], Parsed], *ends: str) -> list[Parsed]:
        """What has commas between, up to one of the ends."""
        elements: list[Parsed] = []
        while self.kind not in ends and self.kind != "end":
            elements.append(parse())
            if self.kind != ",":
                break
            self.advance()
        return elements

    def parse_braced(self, opener: Token, parse: Callable[[], Parsed]) -> list[Parsed]:
        """What stands up to the brace that closes `opener`."""
        elements: list[Parsed] = []
        while self.kind not in ("}", "end"):
            elements.append(parse())
        self.expect_close("}", opener)
        return elements

    def parse_angles(self, parse: Callable[[], Parsed], *ends: str) -> list[Parsed]:
        """The same between angle brackets."""
        opener = self.advance()
        outer, self.in_generic = self.in_generic, True
        elements = self.parse_separated(parse, ">", ">>", *ends)
        self.in_generic = outer
        self.expect_close_angle(opener)
        return elements

    # --- Generic arguments -------------------------------------------------------------------------------

    def parse_generic_arguments(self, base: ast.Expression) -> ast.Expression:
        """`<T, 3>` after `base`."""
        arguments = self.parse_angles(self.parse_generic_argument)
        return ast.GenericApplication(self.span_from(base.span), base, arguments)

    def parse_generic_argument(self) -> ast.Expression:
        """A type where it can be one, else a value."""
        if self.kind == "(" and self._is_type_list():
            return self.parse_type()
        after = self.scan_type(self.position)
        if after >= 0 and (self.tokens[after].kind in _ENDS_GENERIC_ARGUMENT or self._is_conjunction(after)):
            return self.parse_type()
        return self.parse_assignment()

    def _is_conjunction(self, position: int) -> bool:
        """`IFoo & IBar`, not `N & 3`."""
        return self.tokens[position].kind == "&" and self.tokens[position + 1].kind == "name"

    def _is_type_list(self) -> bool:
        """Is "(" here the start of a tuple or function type?"""
        close = self.closing.get(self.position, -1)
        if close < 0:
            return False
        after = self.scan_type(self.position + 1)
        return self.tokens[close + 1].kind == "->" or (after >= 0 and self.tokens[after].kind == ",")
