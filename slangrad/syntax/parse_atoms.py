"""What expressions are built from: literals, names, parentheses, casts, lambdas.

In: the cursor where an expression begins.   Out: an Expression without what is attached to it.

    0x10u        ->   IntLiteral(16, "u")           (T)-x        ->   Cast(T, Unary("-", x))
    (x) => x     ->   Lambda(Function)              bwd_diff(f)  ->   Differentiate("bwd_diff", f)

`(T) -x` is a cast when T is known to be a type from this text or by its form; otherwise it subtracts.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.syntax import ast
from slangrad.syntax.numbers import read_character, read_float, read_integer, read_string
from slangrad.syntax.parse_types import TypeParser
from slangrad.syntax.tokens import OVERLOADABLE, Token
from slangrad.syntax.words import BUILTIN_TYPE

_CERTAIN_OPERAND = frozenset(("name", "integer", "float", "string", "char", "!", "~"))
_POSSIBLE_OPERAND = frozenset(("-", "+", "&", "*", "++", "--", "(", "{"))

TUPLES_SINCE = 2026


class AtomParser(TypeParser):
    """Atoms."""

    def parse_atom(self) -> ast.Expression:
        atom = _ATOMS.get(self.kind)
        if atom is None:
            raise self.failure("E0202", f"expected an expression, found {self.token.shown()}")
        return atom(self)

    # --- Literals and names ------------------------------------------------------------------------------

    def parse_word(self) -> ast.Expression:
        token = self.token
        special = _WORDS.get(token.text)
        if special is not None:
            return special(self)
        self.advance()
        return ast.Name(token.span, token.text)

    def _parse_result(self) -> ast.Expression:
        self.names_result = True
        return self._parse_plain_name()

    def _parse_rooted_name(self) -> ast.Expression:
        start = self.advance()
        name = self.expect_name("something global")
        return ast.Name(self.span_from(start), name.text, True)

    def _parse_integer(self) -> ast.Expression:
        token = self.advance()
        try:
            value, suffix = read_integer(token.text)
        except ValueError as error:
            return self._malformed("E0103", error, token)
        return ast.IntLiteral(token.span, value, suffix)

    def _parse_float(self) -> ast.Expression:
        token = self.advance()
        try:
            value, suffix = read_float(token.text)
        except ValueError as error:
            return self._malformed("E0103", error, token)
        return ast.FloatLiteral(token.span, value, suffix)

    def _parse_character(self) -> ast.Expression:
        token = self.advance()
        try:
            return ast.CharLiteral(token.span, read_character(token.text))
        except ValueError as error:
            return self._malformed("E0104", error, token)

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

    def _malformed(self, code: str, error: ValueError, token: Token) -> ast.Expression:
        self.error(code, str(error), token.span)
        return ast.Missing(token.span)

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
            return ast.Tuple(span, elements)
        if not elements:
            raise self.failure("E0202", "expected an expression between '(' and ')'", span)
        return ast.Paren(span, elements[0])

    def _parse_parenthesized(self) -> ast.Expression:
        return self.parse_assignment() if self.language >= TUPLES_SINCE else self.parse_expression()

    def _parse_cast_operand(self, opener: Token, target: ast.Expression) -> ast.Expression:
        self.enter()
        operand = self.parse_unary()
        self.leave()
        return ast.Cast(self.span_from(opener), target, operand)

    def _is_cast(self, close: int) -> bool:
        """Is "(" here, closed at `close`, the start of a cast?"""
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
        """Is the operator there written `+x`, not `+ x` or `a+x`? Decides `(A::B) +x`, as Slang does."""
        before, operator, after = self.tokens[position - 1 : position + 2]
        return (before.end != operator.start) != (operator.end != after.start)

    def _parse_lambda(self) -> ast.Expression:
        start = self.token
        function = ast.Function(start.span, "", start.span, [], None, None, None, [])
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

    def _parse_true(self) -> ast.Expression:
        return ast.BoolLiteral(self.advance().span, True)

    def _parse_false(self) -> ast.Expression:
        return ast.BoolLiteral(self.advance().span, False)

    def _parse_this(self) -> ast.Expression:
        return ast.This(self.advance().span)

    def _parse_super(self) -> ast.Expression:
        return ast.Super(self.advance().span)

    def _parse_this_type(self) -> ast.Expression:
        return ast.ThisType(self.advance().span)

    def _parse_null(self) -> ast.Expression:
        return ast.NullLiteral(self.advance().span)

    def _parse_none(self) -> ast.Expression:
        return ast.NoneLiteral(self.advance().span)

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
            raise self.failure("E0205", f"expected an operator after 'operator', found {self.token.shown()}")
        return f"operator{self.advance().kind}"

    def _parse_differentiate(self) -> ast.Expression:
        if self.peek().kind != "(":
            return self._parse_plain_name()
        start = self.advance()
        opener = self.advance()
        functions = self.parse_list(opener, ")", self.parse_assignment)
        mode = "fwd_diff" if "fwd" in start.text else "bwd_diff"
        if len(functions) != 1:
            note = f"call what it returns: {start.text}(f)(arguments)"
            raise self.failure("E0202", f"{start.text} takes one function", start.span, note)
        return ast.Differentiate(self.span_from(start), mode, functions[0])

    def _parse_size(self) -> ast.Expression:
        if self.peek().kind != "(":
            return self._parse_plain_name()
        start = self.advance()
        opener = self.advance()
        operands = self.parse_list(opener, ")", self.parse_type_or_value)
        if len(operands) not in (1, 2):
            raise self.failure("E0202", f"{start.text} takes a type or a value", start.span)
        layout = operands[1] if len(operands) == 2 else None
        return ast.SizeOf(self.span_from(start), start.text, operands[0], layout)

    def _parse_address(self) -> ast.Expression:
        """`__getAddress(place)` is `&place`."""
        start = self.advance()
        opener = self.expect("(", "after '__getAddress'")
        operands = self.parse_list(opener, ")", self.parse_assignment)
        if len(operands) != 1:
            raise self.failure("E0202", "__getAddress takes one place", start.span)
        return ast.Unary(self.span_from(start), "&", operands[0])

    def _parse_new(self) -> ast.Expression:
        if self.peek().kind != "name":
            return self._parse_plain_name()
        start = self.advance()
        target = self.parse_type()
        arguments = self.parse_arguments() if self.kind == "(" else []
        return ast.New(self.span_from(start), target, arguments)

    def _parse_plain_name(self) -> ast.Expression:
        token = self.advance()
        return ast.Name(token.span, token.text)

    def _parse_no_diff(self) -> ast.Expression:
        start, operand = self._parse_operand()
        return ast.NoDiff(self.span_from(start), operand)

    def _parse_try(self) -> ast.Expression:
        start, operand = self._parse_operand()
        return ast.Try(self.span_from(start), operand)

    def _parse_expand(self) -> ast.Expression:
        if self.peek().kind not in ("name", "("):
            return self._parse_plain_name()
        self.enter()
        start = self.advance()
        pattern = self.parse_binary(1)
        self.leave()
        return ast.Expand(self.span_from(start), pattern)

    def _parse_each(self) -> ast.Expression:
        if self.peek().kind not in ("name", "("):
            return self._parse_plain_name()
        start, operand = self._parse_operand()
        return ast.Each(self.span_from(start), operand)

    def _parse_operand(self) -> tuple[Token, ast.Expression]:
        """The word here and the operand after it."""
        self.enter()
        start = self.advance()
        operand = self.parse_unary()
        self.leave()
        return start, operand

    def _parse_assembly(self) -> ast.Expression:
        if self.peek().kind != "{":
            return self._parse_plain_name()
        start = self.advance()
        close = self.closing.get(self.position, -1)
        if close < 0:
            raise self.failure("E0207", "this assembly block has no '}'", start.span)
        opener = self.token
        text = opener.source.text[opener.end : self.tokens[close].start]
        self.move_to(close)
        self.advance()
        return ast.AssemblyBlock(self.span_from(start), text)


# fmt: off
_ATOMS: dict[str, Callable[[AtomParser], ast.Expression]] = {
    "name":    AtomParser.parse_word,
    "integer": AtomParser._parse_integer,
    "float":   AtomParser._parse_float,
    "(":       AtomParser._parse_parenthesis,
    "{":       AtomParser.parse_initializer_list,
    "string":  AtomParser._parse_string,
    "char":    AtomParser._parse_character,
    "::":      AtomParser._parse_rooted_name,
}

_WORDS: dict[str, Callable[[AtomParser], ast.Expression]] = {
    "true":       AtomParser._parse_true,
    "false":      AtomParser._parse_false,
    "this":       AtomParser._parse_this,
    "super":      AtomParser._parse_super,
    "This":       AtomParser._parse_this_type,
    "nullptr":    AtomParser._parse_null,
    "none":       AtomParser._parse_none,
    "__return_val": AtomParser._parse_result,
    "operator":   AtomParser._parse_operator,
    "no_diff":    AtomParser._parse_no_diff,
    "try":        AtomParser._parse_try,
    "fwd_diff":   AtomParser._parse_differentiate,
    "bwd_diff":   AtomParser._parse_differentiate,
    "__fwd_diff": AtomParser._parse_differentiate,
    "__bwd_diff": AtomParser._parse_differentiate,
    "sizeof":     AtomParser._parse_size,
    "alignof":    AtomParser._parse_size,
    "countof":    AtomParser._parse_size,
    "new":        AtomParser._parse_new,
    "expand":     AtomParser._parse_expand,
    "each":       AtomParser._parse_each,
    "spirv_asm":  AtomParser._parse_assembly,
    "__getAddress": AtomParser._parse_address,
}
# fmt: on
