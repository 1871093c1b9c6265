"""Declarations.

In: the cursor at a declaration.   Out: the Declarations it makes, often one.

    [Differentiable] float f(float x);     ->    Function f, attributes [Differentiable]
    struct P { float x, y; }               ->    Struct P, members Variable x, Variable y

Modifiers and attributes come first in any order; then a word decides, or a type and a name do.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.syntax import ast
from slangrad.syntax.lexing.tokens import Token
from slangrad.syntax.parsing.cursor import Unparsable
from slangrad.syntax.parsing.members import MemberParser, Prefix

_AFTER_STRUCT_VARIABLE = frozenset((";", "=", ",", "[", ":"))


class DeclarationParser(MemberParser):
    """Declarations of all kinds."""

    def parse_declaration(self, attributes: list[ast.AttributeNode]) -> list[ast.Declaration]:
        self.enter()
        prefix = self.parse_prefix(attributes)
        parse = _DECLARATIONS.get(self.token.text) if self.kind in ("name", ";") else None
        if parse is not None and (self.kind == ";" or self.peek().kind in _FOLLOWS[self.token.text]):
            declarations = parse(self, prefix)
        else:
            declarations = self.parse_typed(prefix)
        self.leave()
        return declarations

    def parse_members(self, owner: ast.Declaration) -> list[ast.Declaration]:
        """`{ declarations }`, with recovery after each."""
        opener = self.expect("{", "before the members")
        outer, self.container = self.container, owner
        members = self.parse_declarations()
        self.container = outer
        self.expect_close("}", opener)
        return members

    def parse_declarations(self) -> list[ast.Declaration]:
        """Declarations up to "}" or the end."""
        declarations: list[ast.Declaration] = []
        while self.kind not in ("}", "end"):
            start, state = self.position, self.state()
            try:
                declarations += self.parse_declaration([])
            except Unparsable:
                self.recover(state, start)
        return declarations

    # --- Types -------------------------------------------------------------------------------------------

    def _parse_struct(self, prefix: Prefix) -> list[ast.Declaration]:
        keyword = self.advance()
        name = self.advance() if self.kind == "name" else None
        text = name.text if name else f"anonymous {keyword.text} {keyword.span.line}:{keyword.span.column}"
        span = name.span if name else keyword.span
        struct = self.declare_generic(
            ast.StructDeclaration(span, text, span, keyword.text, [], [], False, None), prefix
        )
        struct.bases = self.parse_bounds()
        struct.constraints += self.parse_constraints()
        if self.accept("="):
            struct.alias = self.parse_type()
        if self.kind == "{":
            struct.has_body = True
            struct.members = self.parse_members(struct)
        else:
            self.expect_semicolon(f"the {keyword.text}")
        declarations = self.finish(struct, prefix)
        if struct.has_body and self._is_struct_variable():
            declarations += self.parse_struct_variables(prefix, struct)
        return declarations

    def _is_struct_variable(self) -> bool:
        """`a` in `struct S { } a;`, which stands on the line of the brace."""
        return self.kind == "name" and not self.token.fresh and self.peek().kind in _AFTER_STRUCT_VARIABLE

    def _parse_interface(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        name = self.expect_name("an interface")
        interface = self.declare_generic(ast.Interface(name.span, name.text, name.span, [], []), prefix)
        interface.bases = self.parse_bounds()
        interface.constraints += self.parse_constraints()
        if not self.accept(";"):
            interface.members = self.parse_members(interface)
        return self.finish(interface, prefix)

    def _parse_extension(self, prefix: Prefix) -> list[ast.Declaration]:
        start = self.advance()
        generics = self.parse_generic_parameters()
        target = self.parse_type()
        extension = self.declare(ast.Extension(start.span, "", target.span, target, [], []), prefix)
        self.adopt_generics(extension, generics)
        extension.bases = self.parse_bounds()
        extension.constraints += self.parse_constraints()
        extension.members = self.parse_members(extension)
        return self.finish(extension, prefix)

    def _parse_enum(self, prefix: Prefix) -> list[ast.Declaration]:
        keyword = self.advance()
        is_scoped = self.accept_word("class")
        if is_scoped and self.kind != "name":
            self.error(
                "E0205",
                "cases of an 'enum class' are named by the name of the enum, which is missing",
                keyword.span,
            )
        name = self.advance() if self.kind == "name" else keyword
        text = name.text if name is not keyword else ""
        enum = self.declare_generic(ast.EnumDeclaration(name.span, text, name.span, [], []), prefix)
        enum.bases = self.parse_bounds()
        opener = self.expect("{", "before the cases")
        enum.members = self.parse_separated(lambda: self._parse_enum_case(enum), "}")
        self.expect_close("}", opener)
        return self.finish(enum, prefix)

    def _parse_enum_case(self, enum: ast.EnumDeclaration) -> ast.EnumCase:
        start = self.token
        attributes = self.parse_attributes()
        name = self.expect_name("a case")
        value = self.parse_assignment() if self.accept("=") else None
        case = ast.EnumCase(self.span_from(start), name.text, name.span, value)
        case.attributes, case.parent = attributes, enum
        return case

    def parse_typedef(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        generics = self.parse_generic_parameters()
        target = self.parse_type()
        name = self.expect_name("the new type")
        self.known_types.add(name.text)
        alias = self.declare(
            ast.TypeAlias(name.span, name.text, name.span, self.parse_dimensions(target)), prefix
        )
        self.adopt_generics(alias, generics)
        if not (self.token.fresh and self.kind != ";"):
            self.expect_semicolon("the typedef")
        return self.finish(alias, prefix)

    def _parse_type_alias(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        name = self.expect_name("the new type")
        generics = self.parse_generic_parameters()
        constraints = self.parse_constraints()
        self.expect("=", "after the name of the new type")
        alias = self.declare(ast.TypeAlias(name.span, name.text, name.span, self.parse_type()), prefix)
        self.adopt_generics(alias, generics)
        alias.constraints += constraints
        return self.finish(alias, prefix, "the typealias")

    def _parse_associated_type(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        name = self.expect_name("an associated type")
        parsed = self.declare_generic(ast.AssociatedType(name.span, name.text, name.span, [], None), prefix)
        parsed.bounds = self.parse_bounds()
        parsed.constraints += self.parse_constraints()
        parsed.default = self.parse_type() if self.accept("=") else None
        return self.finish(parsed, prefix, "the associated type")

    def _parse_constraint_requirement(self, prefix: Prefix) -> list[ast.Declaration]:
        start = self.advance()
        parsed = self.declare(
            ast.ConstraintRequirement(start.span, "", start.span, self.parse_constraint()), prefix
        )
        return self.finish(parsed, prefix, "the constraint")

    def _parse_type_param(self, prefix: Prefix) -> list[ast.Declaration]:
        start = self.advance()
        parameter = self.parse_type_parameter(start, False)
        self.declare(parameter, prefix)
        return self.finish(parameter, prefix, "the parameter")

    def _parse_value_param(self, prefix: Prefix) -> list[ast.Declaration]:
        start = self.advance()
        parameter: ast.ValueParameter = self._parse_value_parameter(start)
        self.declare(parameter, prefix)
        return self.finish(parameter, prefix, "the parameter")

    def _parse_buffer_block(self, prefix: Prefix) -> list[ast.Declaration]:
        keyword = self.advance()
        name = self.expect_name(f"a {keyword.text}")
        block = self.declare(ast.BufferBlock(name.span, name.text, name.span, keyword.text, [], []), prefix)
        block.semantics = self.parse_semantics()
        block.members = self.parse_members(block)
        return self.finish(block, prefix)

    # --- Modules -----------------------------------------------------------------------------------------

    def _parse_path(self) -> tuple[Token, str]:
        """`a.b.c` or `"path"`: its first token, and the path."""
        start = self.token
        if self.kind == "string":
            return self.advance(), start.text[1:-1]
        parts = [self.expect_name("a module").text]
        while self.kind in (".", "::", "/"):
            self.advance()
            parts.append(self.expect_name("a module").text)
        return start, "/".join(parts)

    def _parse_import(self, prefix: Prefix) -> list[ast.Declaration]:
        self.advance()
        start, path = self._parse_path()
        parsed = self.declare(
            ast.Import(start.span, path.replace("/", "."), self.span_from(start), path), prefix
        )
        return self.finish(parsed, prefix, "the import")

    def _parse_include(self, prefix: Prefix) -> list[ast.Declaration]:
        """`__include x;`, `implementing x;`, and `module x;`, which parse_module takes from here."""
        keyword = self.advance().text
        start, path = self._parse_path()
        parsed = self.declare(
            ast.IncludeModule(start.span, path, self.span_from(start), keyword, path), prefix
        )
        return self.finish(parsed, prefix, "the module's name")

    def _parse_namespace(self, prefix: Prefix) -> list[ast.Declaration]:
        """`namespace a.b { }`: b in a."""
        self.advance()
        outer = self.container
        name = self.expect_name("a namespace")
        outermost = self.declare(ast.Namespace(name.span, name.text, name.span, []), prefix)
        innermost, length = outermost, 0
        while self.kind in (".", "::"):
            self.advance()
            self.container = innermost
            name = self.expect_name("a namespace")
            inner = ast.Namespace(name.span, name.text, name.span, [])
            self.declare(inner, Prefix(name, []))
            innermost.members.append(inner)
            innermost = inner
            length += 1
            self.count_chain(length)
        innermost.members += self.parse_members(innermost)
        self.container = outer
        return self.finish(outermost, prefix)

    def _parse_using(self, prefix: Prefix) -> list[ast.Declaration]:
        start = self.advance()
        self.accept_word("namespace")
        target = self.parse_type_name()
        parsed = self.declare(ast.Using(start.span, "", target.span, target), prefix)
        return self.finish(parsed, prefix, "the namespace")

    def _parse_nothing(self, prefix: Prefix) -> list[ast.Declaration]:
        """`;`, which may follow any declaration."""
        if prefix.modifiers or prefix.attributes:
            self.error("E0208", "modifiers and attributes need a declaration behind them")
        self.advance()
        return []


# fmt: off
_DECLARATIONS: dict[str, Callable[[DeclarationParser, Prefix], list[ast.Declaration]]] = {
    "struct":                DeclarationParser._parse_struct,
    "class":                 DeclarationParser._parse_struct,
    "interface":             DeclarationParser._parse_interface,
    "extension":             DeclarationParser._parse_extension,
    "__extension":           DeclarationParser._parse_extension,
    "enum":                  DeclarationParser._parse_enum,
    "func":                  DeclarationParser.parse_func,
    "let":                   DeclarationParser.parse_let,
    "var":                   DeclarationParser.parse_let,
    "typedef":               DeclarationParser.parse_typedef,
    "typealias":             DeclarationParser._parse_type_alias,
    "associatedtype":        DeclarationParser._parse_associated_type,
    "__constraint":          DeclarationParser._parse_constraint_requirement,
    "__init":                DeclarationParser.parse_constructor,
    "__subscript":           DeclarationParser.parse_subscript,
    "property":              DeclarationParser.parse_property,
    "__func_extension":      DeclarationParser.parse_function_extension,
    "cbuffer":               DeclarationParser._parse_buffer_block,
    "tbuffer":               DeclarationParser._parse_buffer_block,
    "type_param":            DeclarationParser._parse_type_param,
    "__generic_value_param": DeclarationParser._parse_value_param,
    "import":                DeclarationParser._parse_import,
    "__import":              DeclarationParser._parse_import,
    "__include":             DeclarationParser._parse_include,
    "implementing":          DeclarationParser._parse_include,
    "module":                DeclarationParser._parse_include,
    "namespace":             DeclarationParser._parse_namespace,
    "using":                 DeclarationParser._parse_using,
    ";":                     DeclarationParser._parse_nothing,
}

# The token that must follow such a word.
_NAME = ("name",)
_FOLLOWS: dict[str, tuple[str, ...]] = dict.fromkeys(_DECLARATIONS, _NAME) | {
    "struct":           ("name", "{", "<"),
    "class":            ("name", "{", "<"),
    "enum":             ("name", "{", ":"),
    "extension":        ("name", "<", "::"),
    "__extension":      ("name", "<", "::"),
    "typedef":          ("name", "<", "::", "("),
    "__init":           ("(", "<"),
    "__subscript":      ("(", "<"),
    "property":         ("name", "::", "("),
    "__func_extension": ("name", "<"),
    "import":           ("name", "string"),
    "__import":         ("name", "string"),
    "__include":        ("name", "string"),
    "implementing":     ("name", "string"),
    "module":           ("name", "string"),
}
# fmt: on
