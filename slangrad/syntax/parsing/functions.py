"""Parts of functions and of other declarations with parameters.

In: the cursor at attributes, generic parameters, `where`, parameters or accessors.   Out: their nodes.

    <T : IFoo, let N : int>   ->    TypeParameter T, ValueParameter N
    (inout float x = 1)       ->    Parameter x, direction "inout", default 1
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.source import Span
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.ast.walk import children
from slangrad.syntax.lexing.tokens import Token
from slangrad.syntax.lexing.words import DIRECTIONS, MODIFIERS, SOFT_MODIFIERS
from slangrad.syntax.parsing.statements import StatementParser

# fmt: off
_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
_BEFORE_MORE_ARITHMETIC = frozenset(("+", "-", "/", "%", "(", "<<", ">>"))
_ABOVE_COMPARISONS = 8
# fmt: on


class FunctionParser(StatementParser):
    """Attributes, generics, parameters, function signatures, accessors."""

    # --- Attributes and semantics ------------------------------------------------------------------------

    def parse_attributes(self) -> list[ast.AttributeNode]:
        attributes: list[ast.AttributeNode] = []
        while self.kind == "[":
            opener = self.advance()
            inner = self.advance() if self.kind == "[" else None
            while self.kind == "name":
                attributes.append(self._parse_attribute())
                self.accept(",")
            if inner is not None:
                self.expect_close("]", inner)
            self.expect_close("]", opener)
        return attributes

    def _parse_attribute(self) -> ast.AttributeNode:
        start = self.advance()
        name = start.text
        while self.kind == "::":
            self.advance()
            name += "::" + self.expect_name("an attribute").text
        arguments = self.parse_arguments() if self.kind == "(" else []
        return ast.AttributeNode(self.span_from(start), name, arguments)

    def parse_semantics(self) -> list[ast.Semantic]:
        """`: SV_Position : register(b0)`."""
        semantics: list[ast.Semantic] = []
        while self.accept(":"):
            start = self.expect_name("a semantic")
            arguments = self._parse_semantic_arguments() if self.kind == "(" else []
            semantics.append(ast.Semantic(self.span_from(start), start.text, arguments))
        return semantics

    def _parse_semantic_arguments(self) -> list[str]:
        """The text between parentheses, split at commas."""
        opener = self.advance()
        close = self.closing.get(self.position - 1, -1)
        if close < 0:
            self.expect_close(")", opener)
        written = opener.source.text[opener.end : self.tokens[close].start]
        self.move_to(close)
        self.advance()
        return [part.strip() for part in written.split(",")]

    # --- Generics ----------------------------------------------------------------------------------------

    def parse_generic_parameters(self) -> list[ast.GenericParameter]:
        """`<T : IFoo, let N : int>`, or nothing."""
        return self.parse_angles(self._parse_generic_parameter, ">=") if self.kind == "<" else []

    def _parse_generic_parameter(self) -> ast.GenericParameter:
        start = self.token
        if self.accept_word("let"):
            return self._parse_value_parameter(start)
        is_pack = self.accept_word("each")
        if not is_pack:
            self.accept_word("typename")
        if not self.declares_at(self.position):
            return self.parse_type_parameter(start, is_pack)
        value_type = self.parse_type()
        name = self.expect_name("a generic parameter")
        default = self.parse_assignment() if self.accept("=") else None
        return ast.ValueParameter(self.span_from(start), name.text, name.span, value_type, default, is_pack)

    def _parse_value_parameter(self, start: Token) -> ast.ValueParameter:
        """`N : int = 4` after `let`."""
        is_pack = self.accept_word("each")
        name = self.expect_name("a generic parameter")
        self.expect(":", "and a type after the parameter's name")
        value_type = self.parse_type()
        default = self.parse_assignment() if self.accept("=") else None
        return ast.ValueParameter(self.span_from(start), name.text, name.span, value_type, default, is_pack)

    def parse_type_parameter(self, start: Token, is_pack: bool) -> ast.TypeParameter:
        """`T : IFoo = X`."""
        name = self.expect_name("a generic parameter")
        self.known_types.add(name.text)
        bounds = self.parse_bounds() if self.kind == ":" and not self.in_generic else []
        if self.accept(":"):
            bounds = [self.parse_type()]
        default = self.parse_type() if self.accept("=") else None
        return ast.TypeParameter(self.span_from(start), name.text, name.span, bounds, default, is_pack)

    def adopt_generics(
        self, declaration: ast.GenericDeclaration, generics: list[ast.GenericParameter]
    ) -> None:
        declaration.generics += generics
        for parameter in generics:
            parameter.parent = declaration

    def parse_bounds(self) -> list[ast.Expression]:
        """`: IFoo, IBar`, or nothing."""
        bounds: list[ast.Expression] = []
        while self.accept("," if bounds else ":"):
            bounds.append(self.parse_type())
        return bounds

    def parse_constraints(self) -> list[ast.Constraint]:
        """`where T : IFoo, U == V where W(T)`, or nothing."""
        constraints: list[ast.Constraint] = []
        outer = self.in_generic, self.braces_end
        self.in_generic, self.braces_end = False, True
        while self.accept_word("where"):
            constraints.append(self.parse_constraint())
            while self.accept(","):
                constraints.append(self.parse_constraint())
        self.in_generic, self.braces_end = outer
        return constraints

    def parse_constraint(self) -> ast.Constraint:
        start = self.token
        is_optional = self.at_word("optional") and self.peek().kind == "name"
        if is_optional:
            self.advance()
        subject = self._parse_constrained()
        kind = self.kind
        if kind == ":":
            self.advance()
            bounds = self._parse_listed_bounds()
            return ast.Constraint(self.span_from(start), "conforms", subject, bounds, is_optional)
        if kind in _COMPARISONS:
            self.advance()
            other = self._parse_constrained()
            kind = "equals" if kind == "==" else kind
            return ast.Constraint(self.span_from(start), kind, subject, [other], is_optional)
        if isinstance(subject, ast.Call) and len(subject.arguments) == 1:
            implicit = self.accept_word("implicit")
            return _called_constraint(self.span_from(start), subject, is_optional, bool(implicit))
        raise self.error("E0201", f"expected ':' or '==' in the constraint, found {self.token.shown()}")

    def _parse_listed_bounds(self) -> list[ast.Expression]:
        """`IFoo, IBar`; a comma before another constraint is left."""
        bounds = [self.parse_type()]
        while self.kind == ",":
            after = self.scan_type(self.position + 1)
            if after >= 0 and self.tokens[after].kind in (":", "=="):
                break
            self.advance()
            bounds.append(self.parse_type())
        return bounds

    def _parse_constrained(self) -> ast.Expression:
        """One side of a constraint: a type where it can be one, else a value."""
        after = self.scan_type(self.position)
        if after >= 0 and self.tokens[after].kind not in _BEFORE_MORE_ARITHMETIC:
            return self.parse_type()
        return self.parse_binary(_ABOVE_COMPARISONS)

    # --- Parameters --------------------------------------------------------------------------------------

    def parse_parameters(self, untyped: bool = False) -> list[ast.ParameterDeclaration]:
        """`(parameters)`; `untyped`: a lone name is a parameter, not a type."""
        opener = self.expect("(", "before the parameters")
        if self.at_word("void") and self.peek().kind == ")":
            self.advance()
        return self.parse_list(opener, ")", lambda: self._parse_parameter(untyped))

    def _parse_parameter(self, untyped: bool) -> ast.ParameterDeclaration:
        start = self.token
        attributes = self.parse_attributes()
        words = self._take_parameter_words()
        value_type: ast.Expression | None = None
        name: Token | None
        if self.kind == "name" and (self.peek().kind == ":" or (untyped and self.peek().kind in (",", ")"))):
            name = self.advance()
            if self.accept(":"):
                words += self._take_parameter_words()
                value_type = self.parse_type()
        else:
            value_type = self.parse_type()
            name = self.advance() if self.kind == "name" else None
            value_type = self.parse_dimensions(value_type)
        semantics = self.parse_semantics()
        default = self.parse_assignment() if self.accept("=") else None
        semantics += self.parse_semantics()
        span = self.span_from(start)
        text, name_span = (name.text, name.span) if name else ("", span)
        parameter = ast.ParameterDeclaration(
            span, text, name_span, _direction(words), value_type, default, semantics
        )
        parameter.modifiers = tuple(word for word in words if word not in DIRECTIONS)
        parameter.attributes = attributes
        parameter.parent = self.container
        return parameter

    def _take_parameter_words(self) -> list[str]:
        """Directions and modifiers; each has a type or another one behind it."""
        words: list[str] = []
        while self.kind == "name" and self._is_parameter_word(self.token.text):
            words.append(self.advance().text)
        return words

    def _is_parameter_word(self, word: str) -> bool:
        following = self.peek().kind
        if word in DIRECTIONS or word in MODIFIERS:
            return following in ("name", "::", "(")
        return word in SOFT_MODIFIERS and following == "name" and self.declares_at(self.position + 1)

    def declares_at(self, position: int) -> bool:
        """A type and a name after it."""
        after = self.scan_type(position)
        return after >= 0 and self.tokens[after].kind == "name"

    def parse_dimensions(self, element: ast.Expression) -> ast.Expression:
        """`x[2][3]`: the dimensions after a name, of which the first is the outermost."""
        counts: list[ast.Expression | None] = []
        while self.kind == "[":
            counts.append(self.parse_dimension())
            self.count_chain(len(counts))
        for count in reversed(counts):
            element = ast.ArrayTypeExpression(element.span, element, count)
        return element

    # --- Signatures and bodies ---------------------------------------------------------------------------

    def parse_signature(self, function: ast.FunctionDeclaration | ast.Constructor) -> None:
        """Parameters, result, constraints and body of a function whose name and generics are read."""
        outer, self.container = (self.container, self.names_result), function
        function.parameters = self.parse_parameters()
        if isinstance(function, ast.FunctionDeclaration):
            self._parse_throws(function)
            if self.accept("->"):
                function.result = self.parse_type()
                self._parse_throws(function)
            function.semantics = self.parse_semantics()
        function.constraints += self.parse_constraints()
        if self.kind == "{":
            self.names_result = False
            function.body = self.parse_body()
            if self.names_result and isinstance(function, ast.FunctionDeclaration):
                _declare_result(function)
        else:
            is_plain = isinstance(function, ast.FunctionDeclaration)
            self.expect_semicolon("the function's signature" if is_plain else "the signature of '__init'")
        self.container, self.names_result = outer

    def _parse_throws(self, function: ast.FunctionDeclaration) -> None:
        if self.accept_word("throws"):
            function.throws = self.parse_type()

    def parse_accessors(self, owner: ast.Declaration) -> list[ast.Accessor]:
        """`{ get { } set(v) { } }`; `;` and nothing between the braces stand for `{ get; }`."""
        word = self.token
        if self.accept(";"):
            return [self._getter(word, owner)]
        opener = self.expect("{", "before the accessors")
        accessors = self.parse_braced(opener, lambda: self._parse_accessor(owner))
        return accessors or [self._getter(word, owner)]

    def _getter(self, word: Token, owner: ast.Declaration) -> ast.Accessor:
        getter = ast.Accessor(word.span, "get", word.span, None, None)
        getter.parent = owner
        return getter

    def _parse_accessor(self, owner: ast.Declaration) -> ast.Accessor:
        start = self.token
        attributes = self.parse_attributes()
        modifiers: list[str] = []
        while self.kind == "name" and self.token.text in MODIFIERS:
            modifiers.append(self.advance().text)
        word = self.token
        if self.kind != "name" or word.text not in ("get", "set", "ref", "__atomic"):
            raise self.error("E0201", f"expected 'get', 'set' or 'ref', found {word.shown()}")
        self.advance()
        accessor = ast.Accessor(word.span, word.text, word.span, None, None)
        accessor.attributes, accessor.modifiers, accessor.parent = attributes, tuple(modifiers), owner
        outer, self.container = self.container, accessor
        opening = self.token
        parameters = self.parse_parameters(untyped=True) if self.kind == "(" else []
        if len(parameters) > (word.text == "set"):
            message = (
                "'set' has one parameter, the new value"
                if word.text == "set"
                else f"'{word.text}' has no parameters"
            )
            raise self.error("E0324", message, opening.span)
        if word.text == "set":
            accessor.parameter = parameters[0] if parameters else self._new_value(word, accessor)
        if self.kind == "{":
            accessor.body = self.parse_body()
        else:
            self.expect_semicolon(f"'{word.text}'")
        self.container = outer
        accessor.span = self.span_from(start)
        return accessor

    def _new_value(self, word: Token, accessor: ast.Accessor) -> ast.ParameterDeclaration:
        parameter = ast.ParameterDeclaration(word.span, "newValue", word.span, "in", None, None, [])
        parameter.parent = accessor
        return parameter


def _direction(words: list[str]) -> str:
    """`in out` is inout; the last word wins otherwise."""
    directions = [DIRECTIONS[word] for word in words if word in DIRECTIONS]
    if "in" in directions and "out" in directions:
        return "inout"
    return directions[-1] if directions else "in"


def _called_constraint(span: Span, call: ast.Call, is_optional: bool, implicit: bool) -> ast.Constraint:
    """`nonempty(T)` keeps its word, `U(T)` says that T converts to U."""
    callee, subject = call.callee, call.arguments[0]
    if isinstance(callee, ast.Name) and callee.name in ("nonempty", "__hasDiffTypeInfo"):
        return ast.Constraint(span, callee.name, subject, [], is_optional)
    kind = "converts implicitly" if implicit else "converts"
    return ast.Constraint(span, kind, subject, [callee], is_optional)


RESULT = "__return_val"


def _declare_result(function: ast.FunctionDeclaration) -> None:
    """A body that uses `__return_val` declares it and returns it. Functions without a result have no such variable, so
    the name stays unknown there.

    S f() { __return_val.x = 1; }    ->    S f() { S __return_val; __return_val.x = 1; return __return_val; }
    """
    body, result = function.body, function.result
    if body is None or result is None or (isinstance(result, ast.Name) and result.name == "void"):
        return
    span = function.name_span
    variable = ast.Variable(span, RESULT, span, "", duplicate(result), None, [], None)
    variable.parent = function
    for statement in _returns(body):
        if statement.value is None:
            statement.value = ast.Name(statement.span, RESULT)
    last = ast.Return(span, ast.Name(span, RESULT))
    function.body = ast.Block(body.span, [ast.DeclarationStatement(span, [variable]), *body.statements, last])


def _returns(node: ast.SyntaxNode) -> Iterator[ast.Return]:
    """Those of the function itself."""
    if isinstance(node, ast.Return):
        yield node
    elif not isinstance(node, (ast.Lambda, ast.FunctionDeclaration)):
        for child in children(node):
            yield from _returns(child)
