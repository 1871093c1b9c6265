"""Walking an AST independent of its node classes.

In: any node.   Out: its children, or all nodes below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.syntax.ast.copies import child_fields
from slangrad.syntax.ast.expressions import ModifiedType
from slangrad.syntax.ast.nodes import SyntaxNode


def labeled_children(node: SyntaxNode) -> Iterator[tuple[str, SyntaxNode]]:
    """The nodes directly below, each with the name of its field, in the order of `child_fields`."""
    for name in child_fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, SyntaxNode):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, SyntaxNode):
                    yield name, item


def children(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """The same without names."""
    return (child for _, child in labeled_children(node))


def modifiers_of(node: SyntaxNode | None) -> Iterator[str]:
    """Words before a type: const and no_diff of `const no_diff float`."""
    while isinstance(node, ModifiedType):
        yield node.modifier
        node = node.element


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """The node and everything below it, parents first; needs no recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(list(children(current))))
