"""Declarations.

In: the cursor at a declaration.   Out: the Declarations it makes, often one.

    [Differentiable] float f(float x);     ->    Function f, attributes [Differentiable]
    struct P { float x, y; }               ->    Struct P, members Variable x, Variable y

Modifiers and attributes come first in any order; then a word decides, or a type and a name do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slangrad.syntax.ast import (
    AssociatedType,
    Attribute,
    BufferBlock,
    Call,
    ConstraintRequirement,
    Constructor,
    Declaration,
    Enum,
    EnumCase,
    Expression,
    Extension,
    Function,
    FunctionExtension,
    GenericDeclaration,
    GenericParameter,
    Import,
    IncludeModule,
    Interface,
    Name,
    Namespace,
    Property,
    Struct,
    Subscript,
    TypeAlias,
    Using,
    ValueParameter,
    Variable,
)
from slangrad.syntax.cursor import Unparsable
from slangrad.syntax.parse_functions import FunctionParser
from slangrad.syntax.tokens import Token
from slangrad.syntax.words import MODIFIER_CALLS, MODIFIERS, SOFT_MODIFIERS

_AFTER_MODIFIER = frozenset(("name", "[", "::", "("))
_AFTER_DECLARATOR = frozenset((";", "=", ",", "[", ":"))


@dataclass(slots=True)
class Prefix:
    """What stands before the word or type of a declaration."""

    start: Token
    attributes: list[Attribute]
    modifiers: list[str] = field(default_factory=list)
    generics: list[GenericParameter] = field(default_factory=list)


class DeclarationParser(FunctionParser):
    """Declarations of all kinds."""

    def parse_declaration(self, attributes: list[Attribute]) -> list[Declaration]:
        self.enter()
        prefix = self._parse_prefix(attributes)
        parse = _DECLARATIONS.get(self.token.text) if self.kind in ("name", ";") else None
        if parse is not None and (self.kind == ";" or self.peek().kind in _FOLLOWS[self.token.text]):
            declarations = parse(self, prefix)
        else:
            declarations = self._parse_typed(prefix)
        self.leave()
        return declarations

    def _parse_prefix(self, attributes: list[Attribute]) -> Prefix:
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

    def _declare(self, declaration: Declaration, prefix: Prefix) -> None:
        """Hand over what stood before it, and place it in its container."""
        declaration.attributes = prefix.attributes
        declaration.modifiers = tuple(prefix.modifiers)
        declaration.parent = self.container
        if isinstance(declaration, GenericDeclaration):
            self.adopt_generics(declaration, prefix.generics)
            prefix.generics = []

    def _finish(self, declaration: Declaration, prefix: Prefix) -> list[Declaration]:
        declaration.span = self.span_from(prefix.start)
        return [declaration]

    def parse_members(self, owner: Declaration) -> list[Declaration]:
        """`{ declarations }`, with recovery after each."""
        opener = self.expect("{", "before the members")
        outer, self.container = self.container, owner
        members = self.parse_declarations()
        self.container = outer
        self.expect_close("}", opener)
        return members

    def parse_declarations(self) -> list[Declaration]:
        """Declarations up to "}" or the end."""
        declarations: list[Declaration] = []
        while self.kind not in ("}", "end"):
            start, state = self.position, self.state()
            try:
                declarations += self.parse_declaration([])
            except Unparsable:
                self.recover(state, start)
        return declarations

    # --- Functions and variables -------------------------------------------------------------------------

    def _parse_typed(self, prefix: Prefix) -> list[Declaration]:
        """A type, then a name: a function or variables."""
        if self.kind not in ("name", "(", "::"):
            raise self.failure("E0204", f"expected a declaration, found {self.token.shown()}")
        position = self.position
        declared = self.parse_type()
        if self.at_word("operator"):
            start = self.token
            return self._parse_function(prefix, start, self.parse_operator_name(), declared)
        name = self.expect_name("what is declared")
        if self.kind in ("(", "<"):
            return self._parse_function(prefix, name, name.text, declared)
        return self._parse_variables(prefix, position, name, declared)

    def _parse_function(
        self, prefix: Prefix, start: Token, name: str, result: Expression | None
    ) -> list[Declaration]:
        """A function from its generics on; `start` begins its name."""
        span = self.span_from(start)
        function = Function(span, name, span, [], result, None, None, [])
        self._declare(function, prefix)
        self.adopt_generics(function, self.parse_generic_parameters())
        self.parse_signature(function)
        return self._finish(function, prefix)

    def _parse_func(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        start = self.token
        if self.at_word("operator"):
            return self._parse_function(prefix, start, self.parse_operator_name(), None)
        return self._parse_function(prefix, start, self.expect_name("a function").text, None)

    def _parse_variables(
        self, prefix: Prefix, position: int, name: Token, declared: Expression
    ) -> list[Declaration]:
        """Declarators from the first one's name on; every one has its own copy of the type."""
        variables: list[Declaration] = []
        while True:
            value_type = self.parse_dimensions(declared)
            variable = Variable(name.span, name.text, name.span, "", value_type, None, [], None)
            self._declare(variable, prefix)
            if self.kind == ":" and self.peek().kind in ("integer", "("):
                self.advance()
                variable.bits = self.parse_assignment()
            variable.semantics = self.parse_semantics()
            variable.initializer = self.parse_assignment() if self.accept("=") else None
            variables += self._finish(variable, prefix)
            if not self.accept(","):
                break
            declared = self._parse_again(position)
            name = self.expect_name("the next variable")
        self.expect_semicolon("the declaration")
        return variables

    def _parse_again(self, position: int) -> Expression:
        """The type at an earlier position once more, because a node belongs to one place."""
        here = self.position
        self.move_to(position)
        parsed = self.parse_type()
        self.move_to(here)
        return parsed

    def _parse_let(self, prefix: Prefix) -> list[Declaration]:
        """`let x = 1, y : int = 2;`, `var x : int;`."""
        keyword = self.advance().text
        variables: list[Declaration] = []
        while True:
            name = self.expect_name("a variable")
            variable = Variable(name.span, name.text, name.span, keyword, None, None, [], None)
            self._declare(variable, prefix)
            if self.accept(":"):
                variable.value_type = self.parse_type()
                variable.semantics = self.parse_semantics()
            variable.initializer = self.parse_assignment() if self.accept("=") else None
            variables += self._finish(variable, prefix)
            if not self.accept(","):
                break
        self.expect_semicolon("the declaration")
        return variables

    def _parse_constructor(self, prefix: Prefix) -> list[Declaration]:
        name = self.advance()
        constructor = Constructor(name.span, name.text, name.span, [], None)
        self._declare(constructor, prefix)
        self.adopt_generics(constructor, self.parse_generic_parameters())
        outer, self.container = self.container, constructor
        constructor.parameters = self.parse_parameters()
        constructor.constraints += self.parse_constraints()
        if self.kind == "{":
            constructor.body = self.parse_block()
        else:
            self.expect_semicolon("the signature of '__init'")
        self.container = outer
        return self._finish(constructor, prefix)

    def _parse_subscript(self, prefix: Prefix) -> list[Declaration]:
        name = self.advance()
        subscript = Subscript(name.span, name.text, name.span, [], Name(name.span, "void"), [])
        self._declare(subscript, prefix)
        self.adopt_generics(subscript, self.parse_generic_parameters())
        outer, self.container = self.container, subscript
        subscript.parameters = self.parse_parameters()
        self.expect("->", "after the parameters of '__subscript'")
        subscript.result = self.parse_type()
        subscript.constraints += self.parse_constraints()
        subscript.accessors = self.parse_accessors(subscript)
        self.container = outer
        return self._finish(subscript, prefix)

    def _parse_property(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        if self.kind == "name" and self.peek().kind == ":":
            name = self.advance()
            self.advance()
            value_type = self.parse_type()
        else:
            value_type = self.parse_type()
            name = self.expect_name("a property")
        parsed = Property(name.span, name.text, name.span, value_type, [])
        self._declare(parsed, prefix)
        parsed.accessors = self.parse_accessors(parsed)
        return self._finish(parsed, prefix)

    def _parse_function_extension(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        generics = self.parse_generic_parameters()
        target = self._parse_word()
        if isinstance(target, Name):
            target = Call(self.span_since(target.span), target, self.parse_arguments())
        extension = FunctionExtension(start.span, "", target.span, target, [], None, None)
        self._declare(extension, prefix)
        self.adopt_generics(extension, generics)
        self.parse_signature(extension)
        return self._finish(extension, prefix)

    # --- Types -------------------------------------------------------------------------------------------

    def _parse_struct(self, prefix: Prefix) -> list[Declaration]:
        keyword = self.advance()
        name = self.advance() if self.kind == "name" else None
        text = name.text if name else f"anonymous {keyword.text} {keyword.span.line}:{keyword.span.column}"
        span = name.span if name else keyword.span
        struct = Struct(span, text, span, keyword.text, [], [], False, None)
        self._declare(struct, prefix)
        self.adopt_generics(struct, self.parse_generic_parameters())
        struct.bases = self.parse_bounds()
        struct.constraints += self.parse_constraints()
        if self.accept("="):
            struct.alias = self.parse_type()
        if self.kind == "{":
            struct.has_body = True
            struct.members = self.parse_members(struct)
        else:
            self.expect_semicolon(f"the {keyword.text}")
        declarations = self._finish(struct, prefix)
        if struct.has_body and self.kind == "name" and self.peek().kind in _AFTER_DECLARATOR:
            declarations += self._parse_struct_variables(prefix, struct)
        return declarations

    def _parse_struct_variables(self, prefix: Prefix, struct: Struct) -> list[Declaration]:
        """`struct S { } a, b;`: the variables after the brace."""
        variables: list[Declaration] = []
        plain = Prefix(self.token, [], prefix.modifiers)
        while True:
            name = self.expect_name("a variable")
            value_type = self.parse_dimensions(Name(struct.name_span, struct.name))
            variable = Variable(name.span, name.text, name.span, "", value_type, None, [], None)
            self._declare(variable, plain)
            variable.semantics = self.parse_semantics()
            variable.initializer = self.parse_assignment() if self.accept("=") else None
            variables += self._finish(variable, plain)
            if not self.accept(","):
                break
        self.expect_semicolon("the declaration")
        return variables

    def _parse_interface(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        name = self.expect_name("an interface")
        interface = Interface(name.span, name.text, name.span, [], [])
        self._declare(interface, prefix)
        self.adopt_generics(interface, self.parse_generic_parameters())
        interface.bases = self.parse_bounds()
        interface.constraints += self.parse_constraints()
        if not self.accept(";"):
            interface.members = self.parse_members(interface)
        return self._finish(interface, prefix)

    def _parse_extension(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        generics = self.parse_generic_parameters()
        target = self.parse_type()
        extension = Extension(start.span, "", target.span, target, [], [])
        self._declare(extension, prefix)
        self.adopt_generics(extension, generics)
        extension.bases = self.parse_bounds()
        extension.constraints += self.parse_constraints()
        extension.members = self.parse_members(extension)
        return self._finish(extension, prefix)

    def _parse_enum(self, prefix: Prefix) -> list[Declaration]:
        keyword = self.advance()
        self.accept_word("class")
        name = self.advance() if self.kind == "name" else keyword
        text = name.text if name is not keyword else ""
        enum = Enum(name.span, text, name.span, [], [])
        self._declare(enum, prefix)
        self.adopt_generics(enum, self.parse_generic_parameters())
        enum.bases = self.parse_bounds()
        opener = self.expect("{", "before the cases")
        while self.kind not in ("}", "end"):
            enum.members.append(self._parse_enum_case(enum))
            if not self.accept(","):
                break
        self.expect_close("}", opener)
        return self._finish(enum, prefix)

    def _parse_enum_case(self, enum: Enum) -> EnumCase:
        start = self.token
        attributes = self.parse_attributes()
        name = self.expect_name("a case")
        value = self.parse_assignment() if self.accept("=") else None
        case = EnumCase(self.span_from(start), name.text, name.span, value)
        case.attributes, case.parent = attributes, enum
        return case

    def _parse_typedef(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        generics = self.parse_generic_parameters()
        target = self.parse_type()
        name = self.expect_name("the new type")
        self.known_types.add(name.text)
        alias = TypeAlias(name.span, name.text, name.span, self.parse_dimensions(target))
        self._declare(alias, prefix)
        self.adopt_generics(alias, generics)
        self.expect_semicolon("the typedef")
        return self._finish(alias, prefix)

    def _parse_type_alias(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        name = self.expect_name("the new type")
        generics = self.parse_generic_parameters()
        constraints = self.parse_constraints()
        self.expect("=", "after the name of the new type")
        alias = TypeAlias(name.span, name.text, name.span, self.parse_type())
        self._declare(alias, prefix)
        self.adopt_generics(alias, generics)
        alias.constraints += constraints
        self.expect_semicolon("the typealias")
        return self._finish(alias, prefix)

    def _parse_associated_type(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        name = self.expect_name("an associated type")
        parsed = AssociatedType(name.span, name.text, name.span, [], None)
        self._declare(parsed, prefix)
        self.adopt_generics(parsed, self.parse_generic_parameters())
        parsed.bounds = self.parse_bounds()
        parsed.constraints += self.parse_constraints()
        parsed.default = self.parse_type() if self.accept("=") else None
        self.expect_semicolon("the associated type")
        return self._finish(parsed, prefix)

    def _parse_constraint_requirement(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        parsed = ConstraintRequirement(start.span, "", start.span, self.parse_constraint())
        self._declare(parsed, prefix)
        self.expect_semicolon("the constraint")
        return self._finish(parsed, prefix)

    def _parse_type_param(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        parameter = self.parse_type_parameter(start, False)
        self._declare(parameter, prefix)
        self.expect_semicolon("the parameter")
        return self._finish(parameter, prefix)

    def _parse_value_param(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        parameter: ValueParameter = self._parse_value_parameter(start)
        self._declare(parameter, prefix)
        self.expect_semicolon("the parameter")
        return self._finish(parameter, prefix)

    def _parse_buffer_block(self, prefix: Prefix) -> list[Declaration]:
        keyword = self.advance()
        name = self.expect_name(f"a {keyword.text}")
        block = BufferBlock(name.span, name.text, name.span, keyword.text, [], [])
        self._declare(block, prefix)
        block.semantics = self.parse_semantics()
        block.members = self.parse_members(block)
        return self._finish(block, prefix)

    # --- Modules -----------------------------------------------------------------------------------------

    def _parse_path(self) -> tuple[Token, str, bool]:
        """`a.b.c` or `"path"`: its first token, the path, is it a file's?"""
        start = self.token
        if self.kind == "string":
            return self.advance(), start.text[1:-1], True
        parts = [self.expect_name("a module").text]
        while self.kind in (".", "::", "/"):
            self.advance()
            parts.append(self.expect_name("a module").text)
        return start, "/".join(parts), False

    def _parse_import(self, prefix: Prefix) -> list[Declaration]:
        self.advance()
        start, path, is_file = self._parse_path()
        parsed = Import(start.span, path.replace("/", "."), self.span_from(start), path, is_file)
        self._declare(parsed, prefix)
        self.expect_semicolon("the import")
        return self._finish(parsed, prefix)

    def _parse_include(self, prefix: Prefix) -> list[Declaration]:
        """`__include x;`, `implementing x;`, and `module x;`, which parse_module takes from here."""
        keyword = self.advance().text
        start, path, is_file = self._parse_path()
        parsed = IncludeModule(start.span, path, self.span_from(start), keyword, path, is_file)
        self._declare(parsed, prefix)
        self.expect_semicolon("the module's name")
        return self._finish(parsed, prefix)

    def _parse_namespace(self, prefix: Prefix) -> list[Declaration]:
        """`namespace a.b { }`: b in a."""
        self.advance()
        outer = self.container
        name = self.expect_name("a namespace")
        outermost = Namespace(name.span, name.text, name.span, [])
        self._declare(outermost, prefix)
        innermost, length = outermost, 0
        while self.kind in (".", "::"):
            self.advance()
            self.container = innermost
            name = self.expect_name("a namespace")
            inner = Namespace(name.span, name.text, name.span, [])
            self._declare(inner, Prefix(name, []))
            innermost.members.append(inner)
            innermost = inner
            length += 1
            self.count_chain(length)
        innermost.members += self.parse_members(innermost)
        self.container = outer
        return self._finish(outermost, prefix)

    def _parse_using(self, prefix: Prefix) -> list[Declaration]:
        start = self.advance()
        self.accept_word("namespace")
        target = self.parse_type_name()
        parsed = Using(start.span, "", target.span, target)
        self._declare(parsed, prefix)
        self.expect_semicolon("the namespace")
        return self._finish(parsed, prefix)

    def _parse_nothing(self, prefix: Prefix) -> list[Declaration]:
        """`;`, which may follow any declaration."""
        if prefix.modifiers or prefix.attributes:
            self.error("E0208", "modifiers and attributes need a declaration behind them")
        self.advance()
        return []


# fmt: off
_DECLARATIONS: dict[str, Callable[[DeclarationParser, Prefix], list[Declaration]]] = {
    "struct":                DeclarationParser._parse_struct,
    "class":                 DeclarationParser._parse_struct,
    "interface":             DeclarationParser._parse_interface,
    "extension":             DeclarationParser._parse_extension,
    "__extension":           DeclarationParser._parse_extension,
    "enum":                  DeclarationParser._parse_enum,
    "func":                  DeclarationParser._parse_func,
    "let":                   DeclarationParser._parse_let,
    "var":                   DeclarationParser._parse_let,
    "typedef":               DeclarationParser._parse_typedef,
    "typealias":             DeclarationParser._parse_type_alias,
    "associatedtype":        DeclarationParser._parse_associated_type,
    "__constraint":          DeclarationParser._parse_constraint_requirement,
    "__init":                DeclarationParser._parse_constructor,
    "__subscript":           DeclarationParser._parse_subscript,
    "property":              DeclarationParser._parse_property,
    "__func_extension":      DeclarationParser._parse_function_extension,
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

# What must follow such a word for it to be one.
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
