"""Atoms of expressions: literals, names, parentheses, casts, lambdas.

In: the cursor where an expression begins.   Out: an Expression without its attachments.

    0x10u        ->   IntLiteral(16, "u")           (T)-x        ->   Cast(T, Unary("-", x))
    (x) => x     ->   Lambda(Function)              bwd_diff(f)  ->   Differentiate("bwd_diff", f)

`(T) -x` is a cast when T is known to be a type from this text or by its form; otherwise it subtracts.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.source import Span
from slangrad.syntax import ast
from slangrad.syntax.lexing.numbers import read_character, read_float, read_integer, read_string
from slangrad.syntax.lexing.tokens import OVERLOADABLE, Token
from slangrad.syntax.lexing.words import BUILTIN_TYPE
from slangrad.syntax.parsing.types import TypeParser

_CERTAIN_OPERAND = frozenset(("name", "integer", "float", "string", "char", "!", "~"))
_POSSIBLE_OPERAND = frozenset(("-", "+", "&", "*", "++", "--", "(", "{"))

TUPLES_SINCE = 2026


class AtomParser(TypeParser):
    """Atoms."""

    def parse_atom(self) -> ast.Expression:
        atom = _ATOMS.get(self.kind)
        if atom is None:
            raise self.error("E0202", f"expected an expression, found {self.token.shown()}")
        return atom(self)

    # --- Literals and names ------------------------------------------------------------------------------

    def parse_word(self) -> ast.Expression:
        token = self.token
        followed_by, special = _WORDS.get(token.text, _PLAIN)
        if special is not None and (not followed_by or self.peek().kind in followed_by):
            return special(self)
        self.advance()
        return ast.Name(token.span, token.text)

    def _parse_result(self) -> ast.Expression:
        self.names_result = True
        token = self.advance()
        return ast.Name(token.span, token.text)

    def _parse_rooted_name(self) -> ast.Expression:
        start = self.advance()
        name = self.expect_name("something global")
        return ast.Name(self.span_from(start), name.text, True)

    def _parse_literal(self, code: str, kind: Callable[..., ast.Expression], read: Reader) -> ast.Expression:
        token = self.advance()
        try:
            return kind(token.span, *read(token.text))
        except ValueError as error:
            self.error(code, str(error), token.span)
            return ast.Missing(token.span)

    def _parse_string(self) -> ast.Expression:
        start = self.token
        parts: list[str] = []
        while self.kind == "string":
            token = self.advance()
            try:
                parts.append(read_string(token.text))
            except ValueError as error:
                self.error("E0104", str(error), token.span)
        return ast.StringLiteral(self.span_from(start), "".join(parts))

    def parse_initializer_list(self) -> ast.Expression:
        opener = self.advance()
        elements = self.parse_list(opener, "}", self.parse_assignment)
        return ast.InitializerList(self.span_from(opener), elements)

    def _parse_parenthesis(self) -> ast.Expression:
        """`(T)x`, `(x) => y`, `(a, b)`, `(x)`."""
        opener = self.token
        close = self.closing.get(self.position, -1)
        if close > 0 and self.tokens[close + 1].kind == "=>":
            return self._parse_lambda()
        if close > 0 and self._is_cast(close):
            self.advance()
            target = self.parse_type()
            self.expect_close(")", opener)
            return self._parse_cast_operand(opener, target)
        self.advance()
        elements = self.parse_list(opener, ")", self._parse_parenthesized)
        span = self.span_from(opener)
        if self.language >= TUPLES_SINCE and len(elements) != 1:
            return ast.TupleExpression(span, elements)
        if not elements:
            raise self.error("E0202", "expected an expression between '(' and ')'", span)
        return ast.Paren(span, elements[0])

    def _parse_parenthesized(self) -> ast.Expression:
        return self.parse_assignment() if self.language >= TUPLES_SINCE else self.parse_expression()

    def _parse_cast_operand(self, opener: Token, target: ast.Expression) -> ast.Expression:
        self.enter()
        operand = self.parse_unary()
        self.leave()
        return ast.Cast(self.span_from(opener), target, operand)

    def _is_cast(self, close: int) -> bool:
        """Whether "(" here, closed at `close`, starts a cast."""
        after = self.scan_type(self.position + 1)
        if after != close:
            return False
        following = self.tokens[close + 1]
        if following.kind in _CERTAIN_OPERAND:
            return following.text not in ("is", "as")
        if following.kind not in _POSSIBLE_OPERAND:
            return False
        first = self.tokens[self.position + 1]
        last = self.tokens[close - 1]
        if last.kind in (">", ">>", "*", "?"):
            return True
        if close == self.position + 2 or last.kind == "]":
            return first.text in self.known_types or BUILTIN_TYPE.fullmatch(first.text) is not None
        if last.text in self.known_types or last.text == "Differential":
            return True
        return self.tokens[close - 2].kind == "::" and self._is_spaced_as_prefix(close + 1)

    def _is_spaced_as_prefix(self, position: int) -> bool:
        """Whether the operator is written `+x`, not `+ x` or `a+x`. Decides `(A::B) +x`, as Slang does."""
        before, operator, after = self.tokens[position - 1 : position + 2]
        return (before.end != operator.start) != (operator.end != after.start)

    def _parse_lambda(self) -> ast.Expression:
        start = self.token
        function = ast.FunctionDeclaration(start.span, "", start.span, [], None, None, None, [])
        function.parent = self.container
        outer = self.container, self.in_generic, self.braces_end
        self.container, self.in_generic, self.braces_end = function, False, False
        function.parameters = self.parse_parameters(untyped=True)
        self.expect("=>", "after the parameters of a lambda")
        if self.kind == "{":
            function.body = self.parse_block()
        else:
            value = self.parse_assignment()
            function.body = ast.Block(value.span, [ast.Return(value.span, value)])
        self.container, self.in_generic, self.braces_end = outer
        function.span = self.span_from(start)
        return ast.Lambda(function.span, function)

    def parse_arguments(self) -> list[ast.Expression]:
        """`(a, b)`."""
        opener = self.expect("(", "before the arguments")
        return self.parse_list(opener, ")", self._parse_argument)

    def _parse_argument(self) -> ast.Expression:
        if self.kind != "name" or self.peek().kind != ":":
            return self.parse_assignment()
        name = self.advance()
        self.advance()
        value = self.parse_assignment()
        return ast.NamedArgument(self.span_from(name), name.text, value)

    # --- Words that begin an expression ------------------------------------------------------------------

    def _parse_operator(self) -> ast.Expression:
        start = self.token
        name = self.parse_operator_name()
        return ast.Name(self.span_from(start), name)

    def parse_operator_name(self) -> str:
        """`operator+` and its like, as one name."""
        self.advance()
        if self.kind in ("(", "["):
            opener = self.advance()
            close = self.expect_close(")" if opener.kind == "(" else "]", opener)
            return f"operator{opener.kind}{close.kind}"
        if self.kind == "?":
            self.advance()
            self.expect(":", "in 'operator?:'")
            return "operator?:"
        if self.kind not in OVERLOADABLE:
            raise self.error("E0205", f"expected an operator after 'operator', found {self.token.shown()}")
        return f"operator{self.advance().kind}"

    def _parse_differentiate(self) -> ast.Expression:
        start, functions = self._parse_listed(self.parse_assignment)
        mode = "fwd_diff" if "fwd" in start.text else "bwd_diff"
        if len(functions) != 1:
            note = f"call what it returns: {start.text}(f)(arguments)"
            raise self.error("E0202", f"{start.text} takes one function", start.span, note)
        return ast.Differentiate(self.span_from(start), mode, functions[0])

    def _parse_size(self) -> ast.Expression:
        start, operands = self._parse_listed(self.parse_type_or_value)
        if len(operands) not in (1, 2):
            raise self.error("E0202", f"{start.text} takes a type or a value", start.span)
        layout = operands[1] if len(operands) == 2 else None
        return ast.SizeOf(self.span_from(start), start.text, operands[0], layout)

    def _parse_address(self) -> ast.Expression:
        """`__getAddress(place)` is `&place`."""
        start, operands = self._parse_listed(self.parse_assignment)
        if len(operands) != 1:
            raise self.error("E0202", "__getAddress takes one place", start.span)
        return ast.Unary(self.span_from(start), "&", operands[0])

    def _parse_listed(self, parse: Callable[[], ast.Expression]) -> tuple[Token, list[ast.Expression]]:
        """A word and its operand in parentheses."""
        start = self.advance()
        opener = self.expect("(", f"after '{start.text}'")
        return start, self.parse_list(opener, ")", parse)

    def _parse_new(self) -> ast.Expression:
        start = self.advance()
        target = self.parse_type()
        arguments = self.parse_arguments() if self.kind == "(" else []
        return ast.New(self.span_from(start), target, arguments)

    def _parse_expand(self) -> ast.Expression:
        self.enter()
        start = self.advance()
        pattern = self.parse_binary(1)
        self.leave()
        return ast.Expand(self.span_from(start), pattern)

    def _parse_prefixed(self, kind: Callable[[Span, ast.Expression], ast.Expression]) -> ast.Expression:
        """The word here and the operand after it."""
        self.enter()
        start = self.advance()
        operand = self.parse_unary()
        self.leave()
        return kind(self.span_from(start), operand)

    def _parse_assembly(self) -> ast.Expression:
        start = self.advance()
        close = self.closing.get(self.position, -1)
        if close < 0:
            raise self.error("E0207", "this assembly block has no '}'", start.span)
        opener = self.token
        text = opener.source.text[opener.end : self.tokens[close].start]
        self.move_to(close)
        self.advance()
        return ast.AssemblyBlock(self.span_from(start), text)


Atom = Callable[[AtomParser], ast.Expression]
Reader = Callable[[str], tuple[object, ...]]

# fmt: off
_ATOMS: dict[str, Atom] = {
    "name":    AtomParser.parse_word,
    "integer": lambda parser: parser._parse_literal("E0103", ast.IntLiteral, read_integer),
    "float":   lambda parser: parser._parse_literal("E0103", ast.FloatLiteral, read_float),
    "(":       AtomParser._parse_parenthesis,
    "{":       AtomParser.parse_initializer_list,
    "string":  AtomParser._parse_string,
    "char":    lambda parser: parser._parse_literal("E0104", ast.CharLiteral, lambda text: (read_character(text),)),
    "::":      AtomParser._parse_rooted_name,
}

# Words and what must follow them, if that matters; elsewhere they are ordinary names.
_PLAIN: tuple[tuple[str, ...], Atom | None] = (), None
_WORDS: dict[str, tuple[tuple[str, ...], Atom | None]] = {
    "true":         ((), lambda parser: ast.BoolLiteral(parser.advance().span, True)),
    "false":        ((), lambda parser: ast.BoolLiteral(parser.advance().span, False)),
    "this":         ((), lambda parser: ast.This(parser.advance().span)),
    "super":        ((), lambda parser: ast.Super(parser.advance().span)),
    "This":         ((), lambda parser: ast.ThisType(parser.advance().span)),
    "nullptr":      ((), lambda parser: ast.NullLiteral(parser.advance().span)),
    "none":         ((), lambda parser: ast.NoneLiteral(parser.advance().span)),
    "__return_val": ((), AtomParser._parse_result),
    "operator":     ((), AtomParser._parse_operator),
    "no_diff":      ((), lambda parser: parser._parse_prefixed(ast.NoDiff)),
    "try":          ((), lambda parser: parser._parse_prefixed(ast.Try)),
    "fwd_diff":     (("(",), AtomParser._parse_differentiate),
    "bwd_diff":     (("(",), AtomParser._parse_differentiate),
    "__fwd_diff":   (("(",), AtomParser._parse_differentiate),
    "__bwd_diff":   (("(",), AtomParser._parse_differentiate),
    "sizeof":       (("(",), AtomParser._parse_size),
    "alignof":      (("(",), AtomParser._parse_size),
    "countof":      (("(",), AtomParser._parse_size),
    "new":          (("name",), AtomParser._parse_new),
    "expand":       (("name", "("), AtomParser._parse_expand),
    "each":         (("name", "("), lambda parser: parser._parse_prefixed(ast.Each)),
    "spirv_asm":    (("{",), AtomParser._parse_assembly),
    "__getAddress": ((), AtomParser._parse_address),
}
# fmt: on
