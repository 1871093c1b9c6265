"""The AST as indented text, for people.

In: a node.   Out: lines, with types once `check` has filled them in.

    Function f modifiers=static
      parameters: Parameter x direction=in
        value_type: Name float
      body: Block
        Return
          value: Binary * : float
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.base.source import Line
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import child_fields
from slangrad.syntax.ast.walk import labeled_children

INDENT = "  "
_LABELS = {"statements": "", "members": ""}  # elements of a block or member list need no name

# What heads a line, in this order, when the node has it; other plain fields follow as field=value.
_HEADS = ("operator", "name", "mode", "query", "label", "keyword", "value")


def node_lines(node: ast.SyntaxNode) -> Iterator[Line]:
    """The node and all below it, in lines that know what they show. Needs no recursion; each line is made once."""
    pending: list[tuple[ast.SyntaxNode, int, str]] = [(node, 0, "")]
    while pending:
        node, depth, field = pending.pop()
        label = f"{field}: " if field else ""
        yield Line(f"{INDENT * depth}{label}{_headline(node)}", node.span)
        below = [(child, depth + 1, _LABELS.get(name, name)) for name, child in labeled_children(node)]
        pending.extend(reversed(below))


def _headline(node: ast.SyntaxNode) -> str:
    """Class, name or value, the other plain fields, the type."""
    plain = dict(_plain_fields(node))
    heads = [plain.pop(name) for name in _HEADS if name in plain]
    rest = [f"{name}={value}" for name, value in plain.items()]
    kind = type(node).__name__.removesuffix("Declaration").removesuffix("Node")
    line = " ".join([kind, *heads, *rest])
    if isinstance(node, ast.Expression):
        shown = [node.type] if node.type is not None else []
        converted = [f"-> {node.conversion}"] if node.conversion is not None else []
        return " ".join([line, *(f": {kind}" for kind in shown), *converted])
    if isinstance(node, ast.Declaration) and node.checked is not None:
        return f"{line} : {node.checked}"
    return line


def _plain_fields(node: ast.SyntaxNode) -> Iterator[tuple[str, str]]:
    """Fields that hold text, numbers, flags or lists of text, where they say something."""
    names = ("name", *child_fields(type(node))) if hasattr(node, "name") else child_fields(type(node))
    for name in names:
        value = getattr(node, name)
        if isinstance(value, bool):
            if value or name == "value":
                yield name, str(value).lower() if name == "value" else "yes"
        elif isinstance(value, str):
            if value or name == "value":
                yield name, repr(value) if name == "value" else value
        elif isinstance(value, (int, float)):
            yield name, repr(value)
        elif isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
            yield name, ",".join(value)
