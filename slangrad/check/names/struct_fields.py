"""Fields that structs get before they are checked: words for bit fields, and the base that a struct inherits from.

    In: struct S { int a : 8; uint b : 24; }
    Out: struct S { uint __bits0; property a : int { get { ... } set { ... } } property b : uint { ... } }
    In: struct Derived : Base { int b; }
    Out: struct Derived { Base __base = Base(); int b; }

Bit fields fill a word from its lowest bit on, as GCC and Clang lay them out. The word is as wide as the widest type in
it; a field that does not fit, another member or a width of zero begins the next. Members of a base are found through
its field (lookup.py). Constructors, operators and subscripts are not inherited.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slangrad.base.diagnostics import Reporter
from slangrad.base.source import SourceFile
from slangrad.check.interfaces.lookup import BASE, interface_bases, nested
from slangrad.check.model import checked
from slangrad.check.model.checker import Checker
from slangrad.check.model.types import BOOL, ScalarType, StructType
from slangrad.check.names.scopes import ModuleScope, Scope, levels
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.parser import parse_module

PREFIX = "__bits"  # of the names of words


def complete_structs(checker: Checker, members: Iterable[ast.Declaration]) -> None:
    """Give their fields to all structs among declarations, and in them."""
    structs = [member for member in nested(members) if isinstance(member, ast.StructDeclaration)]
    for struct in structs:
        if any(_bits_of(member) is not None for member in struct.members):
            _pack(checker, struct)
    for struct in structs:
        if struct.bases and not _has_base(struct):
            _add_base(checker, struct)


# --- Bit fields -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Word:
    """Fields with their types and widths that share a word."""

    name: str
    fields: list[tuple[ast.Variable, ScalarType, int]] = field(default_factory=list)

    @property
    def used(self) -> int:
        return sum(width for _, _, width in self.fields)

    def size(self, another: ScalarType | None = None) -> int:
        kinds = [kind for _, kind, _ in self.fields] + ([another] if another is not None else [])
        return max((8 if kind is BOOL else kind.bits for kind in kinds), default=8)


def is_word(declaration: ast.Declaration) -> bool:
    """Whether a field holds bit fields, so that initializer lists pass over it."""
    return declaration.has("internal") and declaration.name.startswith(PREFIX)


def is_bit_field(declaration: ast.Declaration) -> bool:
    """Whether a property is a bit field in the text."""
    if not isinstance(declaration, ast.Property) or not isinstance(declaration.parent, ast.StructDeclaration):
        return False
    source = declaration.span.source
    return any(is_word(member) and member.span.source is source for member in declaration.parent.members)


def _bits_of(member: ast.Declaration) -> ast.Expression | None:
    return member.bits if isinstance(member, ast.Variable) else None


def _pack(checker: Checker, owner: ast.StructDeclaration) -> None:
    members: list[ast.Declaration] = []
    word, count = Word(f"{PREFIX}0"), 0
    for member in owner.members:
        measured = (
            _measured(checker, owner, member) if isinstance(member, ast.Variable) and member.bits else None
        )
        ends = measured is None or measured[1] == 0 or word.used + measured[1] > word.size(measured[0])
        if ends and word.fields:
            members += _declared(checker, owner, word)
            count += 1
            word = Word(f"{PREFIX}{count}")
        if measured is None:
            members += [member] if _bits_of(member) is None else []
        elif measured[1] == 0:
            members += _parsed(
                checker,
                owner,
                f"property {member.name} : {measured[0]} {{ get {{ return {measured[0]}(0); }} set {{}} }}",
            )
        else:
            assert isinstance(member, ast.Variable)
            word.fields.append((member, *measured))
    owner.members = [*members, *(_declared(checker, owner, word) if word.fields else [])]
    checker.member_tables.pop(owner, None)


def _measured(
    checker: Checker, owner: ast.StructDeclaration, member: ast.Variable
) -> tuple[ScalarType, int] | None:
    """The type and width of a bit field; None after an error."""
    assert member.value_type is not None and member.bits is not None
    scope = checker.scope_of(owner)
    kind, width = checker.resolve_type(scope, member.value_type), checker.constant(scope, member.bits)
    if not isinstance(kind, ScalarType) or kind.is_float:
        checker.error(
            "E0323", f"a field of bits must be a whole number, not '{kind}'", member.value_type.span
        )
        return None
    most = 1 if kind is BOOL else kind.bits
    if not isinstance(width, int) or not 0 <= width <= most:
        checker.error("E0309", f"a '{kind}' has 0 to {most} bits", member.bits.span)
        return None
    return kind, width


def _declared(checker: Checker, owner: ast.StructDeclaration, word: Word) -> list[ast.Declaration]:
    size = word.size()
    lines = [f"internal uint{size}_t {word.name};"]
    low = 0
    for member, kind, width in word.fields:
        whole = f"{'int' if kind.kind == 'int' else 'uint'}{size}_t"
        mask = ((1 << width) - 1) << low
        get = f"({whole}({word.name}) << {size - low - width}) >> {size - width}"
        kept = f"({word.name} & uint{size}_t(~{mask}ull))"
        set_ = f"{kept} | ((uint{size}_t(newValue) << {low}) & uint{size}_t({mask}ull))"
        accessors = f"get {{ return {kind}({whole}({get})); }} set {{ {word.name} = uint{size}_t({set_}); }}"
        lines.append(f"property {member.name} : {kind} {{ {accessors} }}")
        low += width
    return _parsed(checker, owner, "\n".join(lines))


def _parsed(checker: Checker, owner: ast.StructDeclaration, text: str) -> list[ast.Declaration]:
    """Members from Slang text, at the place of their struct."""
    source = SourceFile(f"{owner.name} ({owner.name_span.location})", f"struct Fields {{ {text} }}")
    reporter = Reporter()
    (struct,) = parse_module(source, reporter, checker.options).members
    assert isinstance(struct, ast.StructDeclaration) and not reporter.has_errors, text
    for member in struct.members:
        member.parent = owner
    return struct.members


# --- Bases ----------------------------------------------------------------------------------------------


def _has_base(owner: ast.StructDeclaration) -> bool:
    return any(member.name == BASE for member in owner.members[:1])


def _add_base(checker: Checker, owner: ast.StructDeclaration) -> None:
    node = owner.bases[0]
    if not _may_be_struct(checker.scope_of(owner), node):
        return
    with checker.silence():
        interface_bases(checker, owner)
    if not isinstance(node.ref, checked.TypeName) or not isinstance(node.ref.named, StructType):
        return
    if inherits(node.ref.named, owner):
        return
    call = ast.Call(node.span, duplicate(node), [])
    field = ast.Variable(node.span, BASE, node.span, "", node, call, [], None)
    field.parent, field.modifiers = owner, ("internal",)
    owner.members = [field, *owner.members]
    checker.member_tables.pop(owner, None)


def inherits(kind: StructType, owner: ast.StructDeclaration) -> bool:
    """Whether a type is one of this struct, or of one that inherits from it."""
    declaration = kind.declaration
    while declaration is not owner:
        named = declaration.bases[0].ref.named if _has_base(declaration) else None
        if not isinstance(named, StructType):
            return False
        declaration = named.declaration
    return True


def _may_be_struct(scope: Scope, node: ast.Expression) -> bool:
    """Whether a struct names a base; only names are compared before all declarations are known."""
    if isinstance(node, ast.GenericApplication):
        node = node.base
    if not isinstance(node, (ast.Name, ast.Member)):
        return False
    if isinstance(node, ast.Member):
        return True
    declarations = []
    for level in levels(scope):
        declarations += level.names.get(node.name, [])
        if isinstance(level, ModuleScope):
            declarations += [
                declaration for imported in level.imports for declaration in imported.names.get(node.name, [])
            ]
    return any(
        isinstance(declaration, (ast.StructDeclaration, ast.TypeAlias)) for declaration in declarations
    )
