"""Expressions, by precedence climbing.

In: the cursor at an expression.   Out: an Expression.

    a + b * c < d             ->    Binary("<", Binary("+", a, Binary("*", b, c)), d)
    f<float>(x)               ->    Call(GenericApplication(f, [float]), [x])

A "<" opens generic arguments when a matching ">" follows (cursor.py) and the token after that cannot
continue a comparison.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.source import Span
from slangrad.syntax import ast
from slangrad.syntax.lexing.tokens import ASSIGNMENT, BINARY, PREFIX, RELATIONAL
from slangrad.syntax.parsing.atoms import AtomParser

# fmt: off
_AFTER_GENERIC = frozenset((
    "(", ")", "]", "}", "{", "[", ":", ";", ",", ".", "::", "?", "==", "!=", ">", ">>", ">=", "&&", "||", "|",
    "^", "&", "*", "=", "=>", "->", "...", "end",
))
_ENDS_POINTER_TYPE = frozenset((",", ")", "]", ">", ">>", ";", ":"))
# fmt: on


class ExpressionParser(AtomParser):
    """Expressions."""

    # --- From the loosest operator to the tightest -------------------------------------------------------

    def parse_expression(self) -> ast.Expression:
        left = self.parse_assignment()
        length = 0
        while self.kind == ",":
            self.advance()
            right = self.parse_assignment()
            left = ast.Comma(self.span_from(left.span), left, right)
            length += 1
            self.count_chain(length)
        return left

    def parse_assignment(self) -> ast.Expression:
        self.enter()
        left = self.parse_binary(1)
        if self.kind == "?":
            left = self._parse_conditional(left)
        if self.kind in ASSIGNMENT and not (self.in_generic and self.kind == ">>="):
            operator = self.advance().kind
            value = self.parse_assignment()
            left = ast.Assign(self.span_from(left.span), operator, left, value)
        self.leave()
        return left

    def _parse_conditional(self, condition: ast.Expression) -> ast.Expression:
        self.advance()
        outer, self.in_generic = self.in_generic, False
        then = self.parse_assignment()
        self.in_generic = outer
        self.expect(":", "after the second operand of '?'")
        otherwise = self.parse_assignment()
        return ast.Conditional(self.span_from(condition.span), condition, then, otherwise)

    def parse_binary(self, lowest: int) -> ast.Expression:
        """Operators of precedence `lowest` and tighter."""
        left = self.parse_unary()
        length = 0
        while True:
            operator = self.kind
            if operator == "name":
                tested = self._parse_type_test(left, lowest)
                if tested is left:
                    return left
                left = tested
            else:
                precedence = BINARY.get(operator, 0)
                if precedence < lowest or (self.in_generic and operator in (">", ">>", ">=")):
                    return left
                self.advance()
                right = self.parse_binary(precedence + 1)
                left = ast.Binary(self.span_from(left.span), operator, left, right)
            length += 1
            self.count_chain(length)

    def _parse_type_test(self, left: ast.Expression, lowest: int) -> ast.Expression:
        """`left is T`, `left as T`; `left` itself when neither follows."""
        word = self.token.text
        if word not in ("is", "as") or lowest > RELATIONAL:
            return left
        self.advance()
        target = self.parse_operand_type()
        span = self.span_from(left.span)
        return ast.Is(span, left, target) if word == "is" else ast.As(span, left, target)

    def parse_unary(self) -> ast.Expression:
        if self.kind not in PREFIX:
            return self.parse_postfix()
        self.enter()
        token = self.advance()
        operand = self.parse_unary()
        self.leave()
        return ast.Unary(self.span_from(token), token.kind, operand)

    def parse_postfix(self) -> ast.Expression:
        """An atom and its attachments."""
        parsed = self.parse_atom()
        length = 0
        while True:
            attach = _ATTACHED.get(self.kind)
            if attach is None:
                return parsed
            attached = attach(self, parsed)
            if attached is parsed:
                return parsed
            parsed = attached
            length += 1
            self.count_chain(length)

    # --- Attached to an expression -----------------------------------------------------------------------

    def _parse_call(self, callee: ast.Expression) -> ast.Expression:
        arguments = self.parse_arguments()
        return ast.Call(self.span_from(callee.span), callee, arguments)

    def _parse_index(self, base: ast.Expression) -> ast.Expression:
        opener = self.advance()
        arguments = self.parse_list(opener, "]", self.parse_assignment)
        return ast.Index(self.span_from(base.span), base, arguments)

    def _parse_member(self, base: ast.Expression) -> ast.Expression:
        separator = self.advance().kind
        name, span = self._parse_member_name()
        return ast.Member(self.span_from(base.span), base, name, span, separator)

    def _parse_member_name(self) -> tuple[str, Span]:
        if self.at_word("operator"):
            start = self.token
            return self.parse_operator_name(), self.span_from(start)
        token = self.expect_name("a member")
        return token.text, token.span

    def _parse_step(self, base: ast.Expression) -> ast.Expression:
        operator = self.advance().kind
        return ast.Postfix(self.span_from(base.span), operator, base)

    def _parse_generic(self, base: ast.Expression) -> ast.Expression:
        """`base<...>` where it is that; `base` where "<" compares."""
        if not isinstance(base, (ast.Name, ast.Member)):
            return base
        close = self.closing.get(self.position)
        if close is None:
            return base
        is_type = isinstance(base, ast.Name) and base.name in self.known_types
        if close > 0 and not is_type and self.tokens[close + 1].kind not in _AFTER_GENERIC:
            return base
        return self.parse_generic_arguments(base)

    def _parse_braces(self, base: ast.Expression) -> ast.Expression:
        """`T{a, b}`."""
        if self.braces_end or not isinstance(base, (ast.Name, ast.Member, ast.GenericApplication)):
            return base
        elements = self.parse_initializer_list()
        return ast.Cast(self.span_from(base.span), base, elements)

    def _parse_pointer(self, base: ast.Expression) -> ast.Expression:
        """`T*` where nothing follows that "*" could multiply."""
        if self.peek().kind not in _ENDS_POINTER_TYPE:
            return base
        self.advance()
        return ast.PointerTypeExpression(self.span_from(base.span), base)


# fmt: off
_ATTACHED: dict[str, Callable[[ExpressionParser, ast.Expression], ast.Expression]] = {
    "(":  ExpressionParser._parse_call,
    ".":  ExpressionParser._parse_member,
    "[":  ExpressionParser._parse_index,
    "<":  ExpressionParser._parse_generic,
    "::": ExpressionParser._parse_member,
    "->": ExpressionParser._parse_member,
    "++": ExpressionParser._parse_step,
    "--": ExpressionParser._parse_step,
    "{":  ExpressionParser._parse_braces,
    "*":  ExpressionParser._parse_pointer,
}
# fmt: on
