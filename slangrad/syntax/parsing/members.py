"""Functions, variables, properties and the like, and the modifiers before any declaration.

In: the cursor at modifiers, or at the word or type behind them.   Out: Declarations.

    static float f(float x);      ->    Function f, modifiers (static,)
    int a = 1, b[2];              ->    Variable a, Variable b
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.lexing.tokens import Token
from slangrad.syntax.lexing.words import MODIFIER_CALLS, MODIFIERS, SOFT_MODIFIERS
from slangrad.syntax.parsing.functions import FunctionParser

Declared = TypeVar("Declared", bound=ast.Declaration)
Generic = TypeVar("Generic", bound=ast.GenericDeclaration)

_AFTER_MODIFIER = frozenset(("name", "[", "::", "("))


@dataclass(slots=True)
class Prefix:
    """The modifiers and attributes before the word or type of a declaration."""

    start: Token
    attributes: list[ast.AttributeNode]
    modifiers: list[str] = field(default_factory=list)
    generics: list[ast.GenericParameter] = field(default_factory=list)


class MemberParser(FunctionParser):
    """Declarations of values and functions."""

    def parse_prefix(self, attributes: list[ast.AttributeNode]) -> Prefix:
        prefix = Prefix(self.token, list(attributes))
        while True:
            word, following = self.token.text, self.peek().kind
            if self.kind == "[":
                prefix.attributes += self.parse_attributes()
            elif self.kind != "name":
                return prefix
            elif word == "__generic" and following == "<":
                self.advance()
                prefix.generics += self.parse_generic_parameters()
            elif word in MODIFIER_CALLS and following == "(":
                prefix.attributes.append(self._parse_attribute())
            elif self._is_modifier(word, following):
                prefix.modifiers.append(self.advance().text)
            else:
                return prefix

    def _is_modifier(self, word: str, following: str) -> bool:
        if word in MODIFIERS or word in MODIFIER_CALLS:
            return following in _AFTER_MODIFIER
        return word in SOFT_MODIFIERS and following == "name" and self.declares_at(self.position + 1)

    def declare(self, declaration: Declared, prefix: Prefix) -> Declared:
        """Attach its modifiers and attributes, and place it in its container."""
        declaration.attributes = prefix.attributes
        declaration.modifiers = tuple(prefix.modifiers)
        declaration.parent = self.container
        if isinstance(declaration, ast.GenericDeclaration):
            self.adopt_generics(declaration, prefix.generics)
            prefix.generics = []
        return declaration

    def declare_generic(self, declaration: Generic, prefix: Prefix) -> Generic:
        """The same with the generic parameters that stand here."""
        self.declare(declaration, prefix)
        self.adopt_generics(declaration, self.parse_generic_parameters())
        return declaration

    def finish(
        self, declaration: ast.Declaration, prefix: Prefix, subject: str = ""
    ) -> list[ast.Declaration]:
        """Behind a semicolon after `what`, if there is one."""
        if subject:
            self.expect_semicolon(subject)
        declaration.span = self.span_from(prefix.start)
        return [declaration]

    # --- Functions and variables -------------------------------------------------------------------------

    def parse_typed(self, prefix: Prefix) -> list[ast.Declaration]:
        """A type, then a name: a function or variables."""
        if self.kind not in ("name", "(", "::"):
            raise self.error("E0204", f"expected a declaration, found {self.token.shown()}")
        start = self.token
        declared = self.parse_type()
        if self.at_word("operator"):
            return self._parse_function(prefix, self.token, self.parse_operator_name(), declared)
        if self.kind == "(" and start.text == "static_assert":
            raise self.error("E0204", "'static_assert' belongs into the body of a function")
        name = self.expect_name("what is declared")
        if self.kind in ("(", "<"):
            return self._parse_function(prefix, name, name.text, declared)
        return self.parse_variables(prefix, name, declared)

    def _parse_function(
        self, prefix: Prefix, start: Token, name: str, result: ast.Expression | None
    ) -> list[ast.Declaration]:
        """A function from its generics on; `start` begins its name."""
        span = self.span_from(start)
        function = self.declare_generic(
            ast.FunctionDeclaration(span, name, span, [], result, None, None, []), prefix
        )
        self.parse_signature(function)
        return self.finish(function, prefix)

    def parse_func(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        start = self.token
        if self.at_word("operator"):
            return self._parse_function(prefix, start, self.parse_operator_name(), None)
        return self._parse_function(prefix, start, self.expect_name("a function").text, None)

    def parse_variables(
        self,
        prefix: Prefix,
        name: Token,
        declared: ast.Expression | None,
        next_one: str = "the next variable",
        keyword: str = "",
    ) -> list[ast.Declaration]:
        """Declarators from the first one's name on; every one has its own copy of the type, or says its own."""
        variables: list[ast.Declaration] = []
        while True:
            kind = (
                None
                if declared is None
                else self.parse_dimensions(duplicate(declared) if variables else declared)
            )
            variable = ast.Variable(name.span, name.text, name.span, keyword, kind, None, [], None)
            self.declare(variable, prefix)
            if declared is None:
                variable.value_type = self.parse_type() if self.accept(":") else None
            elif self.kind == ":" and self.peek().kind in ("integer", "("):
                self.advance()
                variable.bits = self.parse_assignment()
            if variable.value_type is not None:
                variable.semantics = self.parse_semantics()
            variable.initializer = self.parse_assignment() if self.accept("=") else None
            variables += self.finish(variable, prefix)
            if not self.accept(","):
                break
            prefix.attributes = [duplicate(attribute) for attribute in prefix.attributes]
            name = self.expect_name(next_one)
        self.expect_semicolon("the declaration")
        return variables

    def parse_let(self, prefix: Prefix) -> list[ast.Declaration]:
        """`let x = 1, y : int = 2;`, `var x : int;`."""
        keyword = self.advance().text
        return self.parse_variables(prefix, self.expect_name("a variable"), None, "a variable", keyword)

    def parse_constructor(self, prefix: Prefix) -> list[ast.Declaration]:
        name = self.advance()
        constructor = ast.Constructor(name.span, name.text, name.span, [], None)
        self.parse_signature(self.declare_generic(constructor, prefix))
        return self.finish(constructor, prefix)

    def parse_subscript(self, prefix: Prefix) -> list[ast.Declaration]:
        name = self.advance()
        subscript = self.declare_generic(
            ast.Subscript(name.span, name.text, name.span, [], ast.Name(name.span, "void"), []), prefix
        )
        outer, self.container = self.container, subscript
        subscript.parameters = self.parse_parameters()
        self.expect_after("->", "after the parameters of '__subscript'")
        subscript.result = self.parse_type()
        subscript.constraints += self.parse_constraints()
        subscript.accessors = self.parse_accessors(subscript)
        self.container = outer
        return self.finish(subscript, prefix)

    def parse_property(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        if self.kind == "name" and self.peek().kind == ":":
            name = self.advance()
            self.advance()
            value_type = self.parse_type()
        else:
            value_type = self.parse_type()
            name = self.expect_name("a property")
        parsed = self.declare(ast.Property(name.span, name.text, name.span, value_type, []), prefix)
        parsed.accessors = self.parse_accessors(parsed)
        return self.finish(parsed, prefix)

    def parse_function_extension(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        generics = self.parse_generic_parameters()
        target = self.parse_word()
        if isinstance(target, ast.Name):
            arguments = self.parse_arguments()
            target = ast.Call(self.span_from(target.span), target, arguments)
        span, derivative = target.span, _derivative_attribute(target)
        if derivative is None:
            note = "there are fwd_diff(f), bwd_diff(f) and __apply(f)"
            self.error("E0504", f"'{span.text}' is no derivative that can be given", span, note)
        else:
            prefix.attributes.append(derivative)
        function = self.declare(
            ast.FunctionDeclaration(span, span.text, span, [], None, None, None, []), prefix
        )
        self.adopt_generics(function, generics)
        self.parse_signature(function)
        return self.finish(function, prefix)

    def parse_struct_variables(self, prefix: Prefix, struct: ast.StructDeclaration) -> list[ast.Declaration]:
        """`struct S { } a, b;`: the variables after the brace."""
        plain, kind = Prefix(self.token, [], prefix.modifiers), ast.Name(struct.name_span, struct.name)
        return self.parse_variables(plain, self.expect_name("a variable"), kind, "a variable")


def _derivative_attribute(target: ast.Expression) -> ast.AttributeNode | None:
    """`__func_extension bwd_diff(f)(...)` is a function that says of itself [BackwardDerivativeOf(f)]."""
    if isinstance(target, ast.Differentiate):
        name = "ForwardDerivativeOf" if target.mode == "fwd_diff" else "BackwardDerivativeOf"
        return ast.AttributeNode(target.span, name, [target.function])
    callee = target.callee if isinstance(target, ast.Call) else None
    if isinstance(target, ast.Call) and isinstance(callee, ast.Name) and callee.name == "__apply":
        return ast.AttributeNode(target.span, ast.APPLY_OF, list(target.arguments))
    return None
