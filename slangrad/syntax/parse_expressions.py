"""Expressions, by precedence climbing.

In: the cursor at an expression.   Out: an Expression.

    a + b * c < d             ->    Binary("<", Binary("+", a, Binary("*", b, c)), d)
    f<float>(x)               ->    Call(GenericApplication(f, [float]), [x])
    (float3)v, (x) - 1        ->    Cast(float3, v), Binary("-", Paren(x), 1)

A "<" opens generic arguments when a matching ">" follows (brackets.py) and the token after that cannot
continue a comparison. `(T) -x` is a cast when T is known to be a type from this text or by its form.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.source import Span
from slangrad.syntax.ast import (
    As,
    AssemblyBlock,
    Assign,
    Binary,
    Block,
    BoolLiteral,
    Call,
    Cast,
    CharLiteral,
    Comma,
    Conditional,
    Differentiate,
    Each,
    Expand,
    Expression,
    FloatLiteral,
    Function,
    GenericApplication,
    Index,
    InitializerList,
    IntLiteral,
    Is,
    Lambda,
    Member,
    Missing,
    Name,
    NamedArgument,
    New,
    NoDiff,
    NoneLiteral,
    NullLiteral,
    Paren,
    PointerType,
    Postfix,
    Return,
    SizeOf,
    StringLiteral,
    Super,
    This,
    ThisType,
    Try,
    Tuple,
    Unary,
)
from slangrad.syntax.numbers import read_character, read_float, read_integer, read_string
from slangrad.syntax.parse_types import TypeParser
from slangrad.syntax.tokens import ASSIGNMENT, BINARY, OVERLOADABLE, PREFIX, RELATIONAL, Token
from slangrad.syntax.words import BUILTIN_TYPE

# fmt: off
_AFTER_GENERIC = frozenset((
    "(", ")", "]", "}", "{", "[", ":", ";", ",", ".", "::", "?", "==", "!=", ">", ">>", ">=", "&&", "||", "|",
    "^", "&", "*", "=", "=>", "->", "...", "end",
))
_ENDS_POINTER_TYPE = frozenset((",", ")", "]", ">", ">>", ";", ":"))
_CERTAIN_OPERAND = frozenset(("name", "integer", "float", "string", "char", "!", "~"))
_POSSIBLE_OPERAND = frozenset(("-", "+", "&", "*", "++", "--", "(", "{"))
# fmt: on

TUPLES_SINCE = 2026


class ExpressionParser(TypeParser):
    """Expressions."""

    # --- From the loosest operator to the tightest -------------------------------------------------------

    def parse_expression(self) -> Expression:
        left = self.parse_assignment()
        length = 0
        while self.kind == ",":
            self.advance()
            right = self.parse_assignment()
            left = Comma(self.span_since(left.span), left, right)
            length += 1
            self.count_chain(length)
        return left

    def parse_assignment(self) -> Expression:
        self.enter()
        left = self.parse_binary(1)
        if self.kind == "?":
            left = self._parse_conditional(left)
        if self.kind in ASSIGNMENT and not (self.in_generic and self.kind == ">>="):
            operator = self.advance().kind
            value = self.parse_assignment()
            left = Assign(self.span_since(left.span), operator, left, value)
        self.leave()
        return left

    def _parse_conditional(self, condition: Expression) -> Expression:
        self.advance()
        outer, self.in_generic = self.in_generic, False
        then = self.parse_assignment()
        self.in_generic = outer
        self.expect(":", "after the second operand of '?'")
        otherwise = self.parse_assignment()
        return Conditional(self.span_since(condition.span), condition, then, otherwise)

    def parse_binary(self, lowest: int) -> Expression:
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
                left = Binary(self.span_since(left.span), operator, left, right)
            length += 1
            self.count_chain(length)

    def _parse_type_test(self, left: Expression, lowest: int) -> Expression:
        """`left is T`, `left as T`; `left` itself when neither follows."""
        word = self.token.text
        if word not in ("is", "as") or lowest > RELATIONAL:
            return left
        self.advance()
        target = self.parse_operand_type()
        span = self.span_since(left.span)
        return Is(span, left, target) if word == "is" else As(span, left, target)

    def parse_unary(self) -> Expression:
        if self.kind not in PREFIX:
            return self.parse_postfix()
        self.enter()
        token = self.advance()
        operand = self.parse_unary()
        self.leave()
        return Unary(self.span_from(token), token.kind, operand)

    def parse_postfix(self) -> Expression:
        """An atom and what is attached to it."""
        atom = _ATOMS.get(self.kind)
        if atom is None:
            raise self.failure("E0202", f"expected an expression, found {self.token.shown()}")
        parsed = atom(self)
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

    def _parse_call(self, callee: Expression) -> Expression:
        arguments = self.parse_arguments()
        return Call(self.span_since(callee.span), callee, arguments)

    def parse_arguments(self) -> list[Expression]:
        """`(a, b)`."""
        opener = self.expect("(", "before the arguments")
        return self._parse_list(opener, ")", self._parse_argument)

    def _parse_list(self, opener: Token, close: str, parse: Callable[[], Expression]) -> list[Expression]:
        """What is between brackets, with commas between; a last comma is allowed."""
        outer = self.in_generic, self.braces_end
        self.in_generic = self.braces_end = False
        elements: list[Expression] = []
        while self.kind != close and self.kind != "end":
            elements.append(parse())
            if self.kind != ",":
                break
            self.advance()
        self.in_generic, self.braces_end = outer
        self.expect_close(close, opener)
        return elements

    def _parse_argument(self) -> Expression:
        if self.kind != "name" or self.peek().kind != ":":
            return self.parse_assignment()
        name = self.advance()
        self.advance()
        value = self.parse_assignment()
        return NamedArgument(self.span_from(name), name.text, value)

    def _parse_index(self, base: Expression) -> Expression:
        opener = self.advance()
        arguments = self._parse_list(opener, "]", self.parse_assignment)
        return Index(self.span_since(base.span), base, arguments)

    def _parse_member(self, base: Expression) -> Expression:
        separator = self.advance().kind
        name, span = self._parse_member_name()
        return Member(self.span_since(base.span), base, name, span, separator)

    def _parse_member_name(self) -> tuple[str, Span]:
        if self.at_word("operator"):
            start = self.token
            return self.parse_operator_name(), self.span_from(start)
        token = self.expect_name("a member")
        return token.text, token.span

    def _parse_step(self, base: Expression) -> Expression:
        operator = self.advance().kind
        return Postfix(self.span_since(base.span), operator, base)

    def _parse_generic(self, base: Expression) -> Expression:
        """`base<...>` where it is that; `base` where "<" compares."""
        if not isinstance(base, (Name, Member)):
            return base
        close = self.closing.get(self.position)
        if close is None:
            return base
        known = isinstance(base, Name) and base.name in self.known_types
        if close > 0 and not known and self.tokens[close + 1].kind not in _AFTER_GENERIC:
            return base
        return self.parse_generic_arguments(base)

    def _parse_braces(self, base: Expression) -> Expression:
        """`T{a, b}`."""
        if self.braces_end or not isinstance(base, (Name, Member, GenericApplication)):
            return base
        elements = self._parse_initializer_list()
        return Cast(self.span_since(base.span), base, elements)

    def _parse_pointer(self, base: Expression) -> Expression:
        """`T*` where nothing follows that "*" could multiply."""
        if self.peek().kind not in _ENDS_POINTER_TYPE:
            return base
        self.advance()
        return PointerType(self.span_since(base.span), base)

    # --- Atoms -------------------------------------------------------------------------------------------

    def _parse_word(self) -> Expression:
        token = self.token
        special = _WORDS.get(token.text)
        if special is not None:
            return special(self)
        self.advance()
        return Name(token.span, token.text)

    def _parse_rooted_name(self) -> Expression:
        start = self.advance()
        name = self.expect_name("something global")
        return Name(self.span_from(start), name.text, True)

    def _parse_integer(self) -> Expression:
        token = self.advance()
        try:
            value, suffix = read_integer(token.text)
        except ValueError as error:
            return self._malformed("E0103", error, token)
        return IntLiteral(token.span, value, suffix)

    def _parse_float(self) -> Expression:
        token = self.advance()
        try:
            value, suffix = read_float(token.text)
        except ValueError as error:
            return self._malformed("E0103", error, token)
        return FloatLiteral(token.span, value, suffix)

    def _parse_character(self) -> Expression:
        token = self.advance()
        try:
            return CharLiteral(token.span, read_character(token.text))
        except ValueError as error:
            return self._malformed("E0104", error, token)

    def _parse_string(self) -> Expression:
        start = self.token
        parts: list[str] = []
        while self.kind == "string":
            token = self.advance()
            try:
                parts.append(read_string(token.text))
            except ValueError as error:
                self.error("E0104", str(error), token.span)
        return StringLiteral(self.span_from(start), "".join(parts))

    def _malformed(self, code: str, error: ValueError, token: Token) -> Expression:
        self.error(code, str(error), token.span)
        return Missing(token.span)

    def _parse_initializer_list(self) -> Expression:
        opener = self.advance()
        elements = self._parse_list(opener, "}", self.parse_assignment)
        return InitializerList(self.span_from(opener), elements)

    def _parse_parenthesis(self) -> Expression:
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
        elements = self._parse_list(opener, ")", self._parse_parenthesized)
        span = self.span_from(opener)
        if self.language >= TUPLES_SINCE and len(elements) != 1:
            return Tuple(span, elements)
        if not elements:
            raise self.failure("E0202", "expected an expression between '(' and ')'", span)
        return Paren(span, elements[0])

    def _parse_parenthesized(self) -> Expression:
        return self.parse_assignment() if self.language >= TUPLES_SINCE else self.parse_expression()

    def _parse_cast_operand(self, opener: Token, target: Expression) -> Expression:
        self.enter()
        operand = self.parse_unary()
        self.leave()
        return Cast(self.span_from(opener), target, operand)

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
        return last.text == "Differential"

    def _parse_lambda(self) -> Expression:
        start = self.token
        function = Function(start.span, "", start.span, [], None, None, None, [])
        function.parent = self.container
        outer = self.container, self.in_generic, self.braces_end
        self.container, self.in_generic, self.braces_end = function, False, False
        function.parameters = self.parse_parameters(untyped=True)
        self.expect("=>", "after the parameters of a lambda")
        if self.kind == "{":
            function.body = self.parse_block()
        else:
            value = self.parse_assignment()
            function.body = Block(value.span, [Return(value.span, value)])
        self.container, self.in_generic, self.braces_end = outer
        function.span = self.span_from(start)
        return Lambda(function.span, function)

    # --- Words that begin an expression ------------------------------------------------------------------

    def _parse_true(self) -> Expression:
        return BoolLiteral(self.advance().span, True)

    def _parse_false(self) -> Expression:
        return BoolLiteral(self.advance().span, False)

    def _parse_this(self) -> Expression:
        return This(self.advance().span)

    def _parse_super(self) -> Expression:
        return Super(self.advance().span)

    def _parse_this_type(self) -> Expression:
        return ThisType(self.advance().span)

    def _parse_null(self) -> Expression:
        return NullLiteral(self.advance().span)

    def _parse_none(self) -> Expression:
        return NoneLiteral(self.advance().span)

    def _parse_operator(self) -> Expression:
        start = self.token
        name = self.parse_operator_name()
        return Name(self.span_from(start), name)

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

    def _parse_differentiate(self) -> Expression:
        if self.peek().kind != "(":
            return self._parse_plain_name()
        start = self.advance()
        opener = self.advance()
        functions = self._parse_list(opener, ")", self.parse_assignment)
        mode = "fwd_diff" if "fwd" in start.text else "bwd_diff"
        if len(functions) != 1:
            note = f"call what it returns: {start.text}(f)(arguments)"
            raise self.failure("E0202", f"{start.text} takes one function", start.span, note)
        return Differentiate(self.span_from(start), mode, functions[0])

    def _parse_size(self) -> Expression:
        if self.peek().kind != "(":
            return self._parse_plain_name()
        start = self.advance()
        opener = self.advance()
        operand = self._parse_type_or_value()
        self.expect_close(")", opener)
        return SizeOf(self.span_from(start), start.text, operand)

    def _parse_type_or_value(self) -> Expression:
        after = self.scan_type(self.position)
        if after >= 0 and self.tokens[after].kind == ")":
            return self.parse_type()
        return self.parse_assignment()

    def _parse_new(self) -> Expression:
        if self.peek().kind != "name":
            return self._parse_plain_name()
        start = self.advance()
        target = self.parse_type()
        arguments = self.parse_arguments() if self.kind == "(" else []
        return New(self.span_from(start), target, arguments)

    def _parse_plain_name(self) -> Expression:
        token = self.advance()
        return Name(token.span, token.text)

    def _parse_no_diff(self) -> Expression:
        start, operand = self._parse_operand()
        return NoDiff(self.span_from(start), operand)

    def _parse_try(self) -> Expression:
        start, operand = self._parse_operand()
        return Try(self.span_from(start), operand)

    def _parse_expand(self) -> Expression:
        if self.peek().kind not in ("name", "("):
            return self._parse_plain_name()
        self.enter()
        start = self.advance()
        pattern = self.parse_binary(1)
        self.leave()
        return Expand(self.span_from(start), pattern)

    def _parse_each(self) -> Expression:
        if self.peek().kind not in ("name", "("):
            return self._parse_plain_name()
        start, operand = self._parse_operand()
        return Each(self.span_from(start), operand)

    def _parse_operand(self) -> tuple[Token, Expression]:
        """The word here and the operand after it."""
        self.enter()
        start = self.advance()
        operand = self.parse_unary()
        self.leave()
        return start, operand

    def _parse_assembly(self) -> Expression:
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
        return AssemblyBlock(self.span_from(start), text)


# fmt: off
_ATOMS: dict[str, Callable[[ExpressionParser], Expression]] = {
    "name":    ExpressionParser._parse_word,
    "integer": ExpressionParser._parse_integer,
    "float":   ExpressionParser._parse_float,
    "(":       ExpressionParser._parse_parenthesis,
    "{":       ExpressionParser._parse_initializer_list,
    "string":  ExpressionParser._parse_string,
    "char":    ExpressionParser._parse_character,
    "::":      ExpressionParser._parse_rooted_name,
}

_ATTACHED: dict[str, Callable[[ExpressionParser, Expression], Expression]] = {
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

_WORDS: dict[str, Callable[[ExpressionParser], Expression]] = {
    "true":       ExpressionParser._parse_true,
    "false":      ExpressionParser._parse_false,
    "this":       ExpressionParser._parse_this,
    "super":      ExpressionParser._parse_super,
    "This":       ExpressionParser._parse_this_type,
    "nullptr":    ExpressionParser._parse_null,
    "none":       ExpressionParser._parse_none,
    "operator":   ExpressionParser._parse_operator,
    "no_diff":    ExpressionParser._parse_no_diff,
    "try":        ExpressionParser._parse_try,
    "fwd_diff":   ExpressionParser._parse_differentiate,
    "bwd_diff":   ExpressionParser._parse_differentiate,
    "__fwd_diff": ExpressionParser._parse_differentiate,
    "__bwd_diff": ExpressionParser._parse_differentiate,
    "sizeof":     ExpressionParser._parse_size,
    "alignof":    ExpressionParser._parse_size,
    "countof":    ExpressionParser._parse_size,
    "new":        ExpressionParser._parse_new,
    "expand":     ExpressionParser._parse_expand,
    "each":       ExpressionParser._parse_each,
    "spirv_asm":  ExpressionParser._parse_assembly,
}
# fmt: on
