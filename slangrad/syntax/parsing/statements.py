"""Statements.

In: the cursor at a statement.   Out: a Statement.

    if (let x = y as T) f(x);     ->    IfLet(Variable x = As(y, T), ExpressionStatement(f(x)))

A statement that begins with a type and a name declares; everything else is an expression. After an error
parsing goes on with the next statement of the block.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.syntax import ast
from slangrad.syntax.lexing.words import MODIFIERS
from slangrad.syntax.parsing.cursor import Unparsable
from slangrad.syntax.parsing.expressions import ExpressionParser
from slangrad.syntax.saved import pack_tokens

# fmt: off
_LOCAL_DECLARATIONS = frozenset((
    "struct", "class", "enum", "interface", "extension", "typedef", "typealias", "func", "using", "let",
    "var", "__generic",
))
_AFTER_UNSURE_NAME = frozenset(("=", ";", ",", "["))
# fmt: on


class StatementParser(ExpressionParser):
    """Statements."""

    def parse_body(self) -> ast.Block:
        """The body of a function, or a promise of it."""
        if self.around is None or self.position not in self.closing:
            return self.parse_block()
        start, opener = self.position, self.token
        self.move_to(self.closing[start] + 1)
        tokens = pack_tokens(self.tokens[start : self.position])
        return ast.Unparsed(self.span_from(opener), tokens, self.around)

    def parse_block(self) -> ast.Block:
        opener = self.expect("{", "to begin a block")
        statements = self._parse_statements(())
        self.expect_close("}", opener)
        return ast.Block(self.span_from(opener), statements)

    def _parse_statements(self, ends: tuple[str, ...]) -> list[ast.Statement]:
        """Statements up to "}" or a word of `ends` (labels of `switch`), with recovery after each."""
        statements: list[ast.Statement] = []
        while self.kind not in ("}", "end") and not (self.kind == "name" and self.token.text in ends):
            start, state = self.position, self.state()
            try:
                statements.append(self.parse_statement())
            except Unparsable:
                self.recover(state, start)
        return statements

    def parse_statement(self) -> ast.Statement:
        self.enter()
        attributes = self.parse_attributes() if self.kind == "[" else []
        parse = _STATEMENTS.get(self.token.text) if self.kind in ("name", "{", ";", "$") else None
        if parse is not None:
            statement = parse(self)
        elif self.at_word("goto") and self.peek().kind == "name" and self.peek(2).kind == ";":
            raise self.error("E0201", "there is no 'goto'")
        elif self.at_word("__requireCapability") and self.peek().kind == "(":
            statement = self._parse_required_capability()
        elif self.kind == "name" and self.peek().kind == ":":
            statement = self._parse_labeled()
        elif self._begins_declaration():
            statement = self._parse_local_declaration(attributes)
            attributes = []
        else:
            statement = self._parse_expression_statement()
        if attributes:
            _labeled(statement).attributes = attributes
        self.leave()
        return statement

    def _parse_required_capability(self) -> ast.Statement:
        """`__requireCapability(name);` asks for a feature of another target: nothing here."""
        start = self.advance()
        self.advance()
        while self.kind not in (")", ";", "end"):
            self.advance()
        self.expect(")", "after the capability")
        self.expect_semicolon("the capability")
        return ast.Block(self.span_from(start), [])

    def _begins_declaration(self) -> bool:
        """Does a declaration stand here, and not an expression?"""
        if self.kind != "name" and self.kind != "::":
            return False
        word, following = self.token.text, self.peek().kind
        if word in _LOCAL_DECLARATIONS and following in ("name", "{", "<", "operator"):
            return True
        position = self.position
        while self.tokens[position].text in MODIFIERS and self.tokens[position].text != "no_diff":
            position += 1
        if position > self.position and self.tokens[position].kind == "name":
            return True
        after = self.scan_type(position)
        if after < 0 or self.tokens[after].kind != "name" or self.tokens[after].text in ("is", "as"):
            return False
        unsure = self.tokens[after - 1].kind in ("*", "?")
        return not unsure or self.tokens[after + 1].kind in _AFTER_UNSURE_NAME

    def _parse_local_declaration(self, attributes: list[ast.AttributeNode]) -> ast.Statement:
        start = self.token
        declarations = self.parse_declaration(attributes)
        return ast.DeclarationStatement(self.span_from(start), declarations)

    def _parse_expression_statement(self) -> ast.Statement:
        start = self.token
        if self.kind == "name" and start.text in ("case", "default", "else", "catch"):
            raise self.error("E0209", f"'{start.text}' has nothing that it belongs to")
        expression = self.parse_expression()
        self.expect_semicolon("the expression")
        return ast.ExpressionStatement(self.span_from(start), expression)

    def _parse_labeled(self) -> ast.Statement:
        label = self.advance()
        self.advance()
        statement = self.parse_statement()
        return ast.Labeled(self.span_from(label), label.text, statement)

    # --- Branches ----------------------------------------------------------------------------------------

    def _parse_if(self) -> ast.Statement:
        """An `if` with its chain of `else if`s, in a loop: generated text has long chains."""
        first = self._parse_branch()
        last, length = first, 0
        while self.accept_word("else"):
            if self.at_word("if"):
                following = self._parse_branch()
                last.otherwise = following
                last = following
            else:
                last.otherwise = self.parse_statement()
                break
            length += 1
            self.count_chain(length)
        return first

    def _parse_branch(self) -> ast.If | ast.IfLet:
        """`if (condition) statement` without its else."""
        start = self.advance()
        opener = self.expect("(", "after 'if'")
        if self.at_word("let") and self.peek().kind == "name":
            binding = self._parse_binding()
            self.expect_close(")", opener)
            then = self.parse_statement()
            return ast.IfLet(self.span_from(start), binding, then, None)
        condition = self.parse_expression()
        self.expect_close(")", opener)
        then = self.parse_statement()
        return ast.If(self.span_from(start), condition, then, None)

    def _parse_binding(self) -> ast.Variable:
        """`let x = value` of an if."""
        start = self.advance()
        name = self.advance()
        self.expect("=", "after the name")
        value = self.parse_expression()
        binding = ast.Variable(self.span_from(start), name.text, name.span, "let", None, value, [], None)
        binding.parent = self.container
        return binding

    def _parse_switch(self) -> ast.Statement:
        start = self.advance()
        value = self._parse_condition("switch")
        opener = self.expect("{", "after the value of 'switch'")
        cases = self.parse_braced(opener, self._parse_case)
        return ast.Switch(self.span_from(start), value, cases)

    def _parse_case(self) -> ast.Case:
        start = self.token
        values: list[ast.Expression] = []
        is_default = False
        while self.at_word("case") or self.at_word("default"):
            if self.advance().text == "case":
                values.append(self.parse_expression())
            else:
                is_default = True
            self.expect(":", "after the label")
        body = self._parse_statements(("case", "default"))
        return ast.Case(self.span_from(start), values, is_default, body)

    def _parse_static_assert(self) -> ast.Statement:
        start = self.advance()
        opener = self.expect("(", "after 'static_assert'")
        condition = self.parse_assignment()
        message = ""
        if self.accept(","):
            text = self.parse_assignment()
            message = text.value if isinstance(text, ast.StringLiteral) else text.span.text
        self.expect_close(")", opener)
        self.expect_semicolon("the assertion")
        return ast.StaticAssert(self.span_from(start), condition, message)

    def _parse_target_switch(self) -> ast.Statement:
        start = self.advance()
        opener = self.expect("{", f"after '{start.text}'")
        cases = self.parse_braced(opener, self._parse_target_case)
        return ast.TargetSwitch(self.span_from(start), start.text, cases)

    def _parse_target_case(self) -> ast.TargetCase:
        start = self.token
        targets: list[str] = []
        while self.at_word("case") or self.at_word("default"):
            word = self.advance()
            targets.append(word.text if word.text == "default" else self._parse_target_name())
            self.expect(":", "after the label")
        if not targets:
            raise self.error("E0201", f"expected 'case' or 'default', found {self.token.shown()}")
        body = self._parse_statements(("case", "default"))
        return ast.TargetCase(self.span_from(start), targets, body)

    def _parse_target_name(self) -> str:
        """`cuda`, `spirv + atomics`, as written."""
        start = self.token
        while self.kind not in (":", ";", "{", "}", "end"):
            self.advance()
        return self.span_from(start).text

    # --- Loops -------------------------------------------------------------------------------------------

    def _parse_condition(self, word: str) -> ast.Expression:
        opener = self.expect("(", f"after '{word}'")
        condition = self.parse_expression()
        self.expect_close(")", opener)
        return condition

    def _parse_for(self) -> ast.Statement:
        start = self.advance()
        opener = self.expect("(", "after 'for'")
        initializer = None if self.accept(";") else self._parse_initializer_statement()
        condition = None if self.kind == ";" else self.parse_expression()
        self.expect(";", "after the condition of 'for'")
        step = None if self.kind == ")" else self.parse_expression()
        self.expect_close(")", opener)
        body = self.parse_statement()
        return ast.For(self.span_from(start), initializer, condition, step, body)

    def _parse_initializer_statement(self) -> ast.Statement:
        if self._begins_declaration():
            return self._parse_local_declaration([])
        return self._parse_expression_statement()

    def _parse_compile_time_for(self) -> ast.Statement:
        start = self.advance()
        self.expect_word("for", "after '$'")
        opener = self.expect("(", "after 'for'")
        name = self.expect_name("the loop's variable")
        self.expect_word("in", "after the variable")
        self.expect_word("Range", "after 'in'")
        bounds = self.parse_arguments()
        self.expect_close(")", opener)
        if len(bounds) not in (1, 2):
            self.error("E0201", "Range takes a start and an end", name.span)
            bounds = [ast.Missing(name.span)]
        variable = ast.Variable(name.span, name.text, name.span, "let", None, None, [], None)
        variable.parent = self.container
        first = bounds[0] if len(bounds) == 2 else None
        body = self.parse_statement()
        return ast.CompileTimeFor(self.span_from(start), variable, first, bounds[-1], body)

    def _parse_while(self) -> ast.Statement:
        start = self.advance()
        condition = self._parse_condition("while")
        body = self.parse_statement()
        return ast.While(self.span_from(start), condition, body)

    def _parse_do(self) -> ast.Statement:
        start = self.advance()
        body = self.parse_statement()
        if self.at_word("catch"):
            handlers: list[ast.Catch] = []
            while self.at_word("catch"):
                handlers.append(self._parse_catch())
            return ast.DoCatch(self.span_from(start), body, handlers)
        self.expect_word("while", "after the body of 'do'")
        condition = self._parse_condition("while")
        self.expect_semicolon("the condition of 'do'")
        return ast.DoWhile(self.span_from(start), body, condition)

    def _parse_catch(self) -> ast.Catch:
        start = self.advance()
        parameters: list[ast.ParameterDeclaration] = self.parse_parameters() if self.kind == "(" else []
        if len(parameters) > 1:
            self.error("E0201", "'catch' takes one error", parameters[1].span)
        body = self.parse_statement()
        return ast.Catch(self.span_from(start), parameters[0] if parameters else None, body)

    # --- Jumps -------------------------------------------------------------------------------------------

    def _parse_jump(self, kind: type[ast.Break | ast.Continue]) -> ast.Statement:
        start = self.advance()
        label = self.advance().text if self.kind == "name" and not self.token.fresh else None
        self.expect_semicolon(f"'{start.text}'")
        return kind(self.span_from(start), label)

    def _parse_return(self) -> ast.Statement:
        start = self.advance()
        value = None if self.kind in (";", "}") else self.parse_expression()
        self.expect_semicolon("the returned value" if value else "'return'")
        return ast.Return(self.span_from(start), value)

    def _parse_discard(self) -> ast.Statement:
        start = self.advance()
        self.expect_semicolon("'discard'")
        return ast.Discard(self.span_from(start))

    def _parse_throw(self) -> ast.Statement:
        start = self.advance()
        value = self.parse_expression()
        self.expect_semicolon("the thrown value")
        return ast.Throw(self.span_from(start), value)

    def _parse_defer(self) -> ast.Statement:
        start = self.advance()
        statement = self.parse_statement()
        return ast.Defer(self.span_from(start), statement)

    def _parse_target_assembly(self) -> ast.Statement:
        start = self.advance()
        text = ""
        if self.kind == "string":
            literal = self.parse_postfix()
            assert isinstance(literal, ast.StringLiteral)
            text = literal.value
        arguments: list[ast.Expression] = []
        while self.accept(","):
            arguments.append(self.parse_assignment())
        self.expect_semicolon("the assembly text")
        return ast.TargetAssembly(self.span_from(start), text, arguments)


def _labeled(statement: ast.Statement) -> ast.Statement:
    """What stands behind labels."""
    while isinstance(statement, ast.Labeled):
        statement = statement.statement
    return statement


# fmt: off
_STATEMENTS: dict[str, Callable[[StatementParser], ast.Statement]] = {
    "{":               StatementParser.parse_block,
    ";":               lambda parser: ast.Empty(parser.advance().span),
    "if":              StatementParser._parse_if,
    "switch":          StatementParser._parse_switch,
    "for":             StatementParser._parse_for,
    "while":           StatementParser._parse_while,
    "do":              StatementParser._parse_do,
    "break":           lambda parser: parser._parse_jump(ast.Break),
    "continue":        lambda parser: parser._parse_jump(ast.Continue),
    "return":          StatementParser._parse_return,
    "discard":         StatementParser._parse_discard,
    "throw":           StatementParser._parse_throw,
    "defer":           StatementParser._parse_defer,
    "static_assert":   StatementParser._parse_static_assert,
    "$":               StatementParser._parse_compile_time_for,
    "__target_switch": StatementParser._parse_target_switch,
    "__stage_switch":  StatementParser._parse_target_switch,
    "__intrinsic_asm": StatementParser._parse_target_assembly,
}
# fmt: on
