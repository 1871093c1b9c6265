"""The common parts of all AST nodes: a place, and the slots that `check` fills.

In: nothing.   Out: `SyntaxNode`, its three kinds, and the parts before and after declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, dataclass_transform

from slangrad.base.process.forks import BRIEF, kept_at_fork
from slangrad.base.records import fields_of, record
from slangrad.base.source import Span
from slangrad.syntax.ast.copies import copy_by_fields

if TYPE_CHECKING:
    from slangrad.syntax.ast.declarations import Constraint, GenericParameter

AnyNode = TypeVar("AnyNode")
Checked = Any  # `check` writes it; a reader expects its class


class Fills(Protocol):
    """The source of a late declaration's fields (saved.py)."""

    def fill(self, declaration: Declaration) -> None: ...


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def node(kind: type[AnyNode]) -> type[AnyNode]:
    """A record that `duplicate` copies."""
    node_class = record(kind)
    copy_by_fields(node_class)
    return node_class


def late_field(declaration: Declaration, name: str) -> object:
    """A field that a late declaration does not have yet. AttributeError where it has no such field."""
    if name in fields_of(type(declaration)):
        with _LOCK:
            if declaration.saved is not None:  # else another thread was faster
                declaration.saved.fill(declaration)
                declaration.saved = None
    return object.__getattribute__(declaration, name)


_LOCK = kept_at_fork(RLock(), BRIEF)


# fmt: off
# --- The three kinds of node --------------------------------------------------------------------------

@node
class SyntaxNode:  # Anything with a place in the text. Compares by identity.
    span: Span

@node
class Expression(SyntaxNode):  # A value, a type, or a name of either; `check` fills the three slots.
    type: Checked = field(default=None, init=False)  # checked type of the value, or the type that it names
    ref: Checked = field(default=None, init=False)  # its resolution: a declaration reference, an overload
    conversion: Checked = field(default=None, init=False)  # implicit conversion for its place

@node
class Statement(SyntaxNode):  # Something that runs.
    attributes: Sequence[AttributeNode] = field(default=(), init=False)  # [unroll], [MaxIters(8)], [branch]

@node
class Declaration(SyntaxNode):  # Something with a name; `span` is all of it, `name_span` the name.
    name: str  # "" for extensions; "operator+", "__init", "__subscript" for those forms
    name_span: Span
    modifiers: tuple[str, ...] = field(default=(), init=False)  # static, public, const, no_diff, uniform
    attributes: Sequence[AttributeNode] = field(default=(), init=False)  # [Differentiable], [numthreads(64)]
    parent: Declaration | None = field(default=None, init=False)  # enclosing declaration, None for the module
    checked: Checked = field(default=None, init=False)  # the checker's facts: type, signature, conformances
    saved: Fills | None = field(default=None, init=False)  # of a late declaration

    if not TYPE_CHECKING:  # a type checker would accept any name
        __getattr__ = late_field

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def attribute(self, name: str) -> AttributeNode | None:
        """The first attribute of that name; case does not matter, as in HLSL."""
        wanted = name.lower()
        return next((attribute for attribute in self.attributes if attribute.name.lower() == wanted), None)

    def is_marked(self, word: str) -> bool:
        """By a modifier or an attribute."""
        return self.has(word) or self.attribute(word) is not None

@node
class GenericDeclaration(Declaration):  # A declaration that can have generic parameters and `where` clauses.
    generics: list[GenericParameter] = field(default_factory=list, init=False)
    constraints: list[Constraint] = field(default_factory=list, init=False)

@node
class AttributeNode(SyntaxNode):  # `[name(arguments)]`; a scope stays in the name: "vk::binding".
    name: str
    arguments: list[Expression]

@node
class Semantic(SyntaxNode):  # `: SV_DispatchThreadID`, `: register(u0)`, `: packoffset(c0.x)`; arguments as text.
    name: str
    arguments: list[str]
