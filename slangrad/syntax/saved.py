"""Parsed modules as numbers and texts, and declarations that are made of them when a field is read.

    data = pack_module(module, around)            for `marshal`
    module = late_module(data, source)            the same module once more

A late declaration has its class, its name and its modifiers. All else is bytes until a field is asked for, and its
members are late in turn. Each program has its own standard library, some twenty thousand nodes, and most programs look
at few of them. Unpacking makes nodes and nothing else, whatever the bytes are. All places are in one text.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from typing import Any

from slangrad.base.records import default_of, fields_of
from slangrad.base.source import SourceFile, Span
from slangrad.syntax import ast
from slangrad.syntax.lexing.tokens import Token

Part = Any  # a node, or what a field of one holds: its class is looked at first
Packed = tuple[Part, ...]

# Fields that the text says nothing of: `check` writes them, or they follow from where a node is.
_NOT_IN_TEXT = ("type", "ref", "conversion", "checked", "parent", "saved", "pack_element", "parts", "part_of")
_AT_HAND = ("name", "modifiers")
_PLAIN = frozenset((str, int, float, bool, type(None)))  # packed as they are


class Surroundings:
    """What the bodies of a text are parsed with."""

    __slots__ = ("known_types", "language", "source")

    def __init__(self, source: SourceFile, language: int = 0, known_types: Iterable[str] = ()) -> None:
        self.source, self.language, self.known_types = source, language, set(known_types)


class _Form:
    """The fields of a class of nodes: their initial values, those that the text gives, and for declarations those that
    are missing while it is late."""

    __slots__ = ("before", "in_text", "is_declaration", "kind", "waiting")

    def __init__(self, kind: type[ast.SyntaxNode]) -> None:
        fields = fields_of(kind)
        self.kind = kind
        self.is_declaration = "parent" in fields
        self.before = tuple((name, fields[name]) for name in _NOT_IN_TEXT if name in fields)
        self.in_text = tuple(name for name in fields if name not in _NOT_IN_TEXT)
        self.waiting = tuple(name for name in self.in_text if name not in _AT_HAND)

    def begin(self, parent: object) -> Part:
        node: Part = object.__new__(self.kind)
        for name, default in self.before:
            setattr(node, name, default_of(default))
        if self.is_declaration:
            node.parent = parent
        return node


class _Forms(dict[str, _Form]):
    """By the names of classes."""

    def __missing__(self, name: str) -> _Form:
        kind = getattr(ast, name)
        assert issubclass(kind, ast.SyntaxNode)
        form = self[name] = _Form(kind)
        return form


_FORMS = _Forms()


# --- Modules ------------------------------------------------------------------------------------------


def pack_module(module: ast.ModuleDeclaration, around: Surroundings) -> Packed:
    """What the text says, without what `check` found out."""
    members = [_pack_late(member, module, around) for member in module.members]
    return module.module_name, around.language, sorted(around.known_types), members


def late_module(data: Packed, source: SourceFile) -> ast.ModuleDeclaration:
    module_name, language, known_types, members = data
    around = Surroundings(source, language, known_types)
    whole, start = Span(source, 0, len(source.text)), Span(source, 0, 0)
    module = ast.ModuleDeclaration(whole, source.name, start, source, [], module_name, language)
    module.members = [_late(member, module, around) for member in members]
    return module


def _pack_late(declaration: Part, parent: object, around: Surroundings) -> Packed:
    assert declaration.parent is parent
    name = type(declaration).__name__
    data = marshal.dumps(_pack_fields(declaration, _FORMS[name].waiting, declaration, around))
    return name, declaration.name, declaration.modifiers, data


def _late(data: Packed, parent: object, around: Surroundings) -> Part:
    kind, name, modifiers, rest = data
    node = _FORMS[kind].begin(parent)
    node.name, node.modifiers, node.saved = name, modifiers, _Saved(rest, around)
    return node


class _Saved:
    """The fields of a late declaration that are not at hand."""

    __slots__ = ("around", "data")

    def __init__(self, data: bytes, around: Surroundings) -> None:
        self.data, self.around = data, around

    def fill(self, declaration: object) -> None:
        waiting = _FORMS[type(declaration).__name__].waiting
        _unpack_fields(declaration, waiting, marshal.loads(self.data), declaration, self.around)


# --- Nodes --------------------------------------------------------------------------------------------


def _pack(value: Part, parent: object, around: Surroundings) -> object:
    """What is no number and no text is a list, or a tuple that begins with the name of its class."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_pack(item, parent, around) for item in value]
    if kind is Span:
        assert value.source is around.source and value.caller is None
        return "Span", value.start, value.end
    if kind is tuple:
        assert all(isinstance(item, str) for item in value)
        return "tuple", *value
    name = kind.__name__
    if name == "Unparsed":
        return name, value.span.start, value.span.end, value.tokens
    form = _FORMS[name]
    assert not form.is_declaration or value.parent is parent
    return name, *_pack_fields(value, form.in_text, value if form.is_declaration else parent, around)


def _pack_fields(node: Part, names: Sequence[str], parent: object, around: Surroundings) -> Packed:
    return tuple(
        [
            [_pack_late(member, node, around) for member in node.members]
            if name == "members"
            else _pack(getattr(node, name), parent, around)
            for name in names
        ]
    )


def _unpack(value: Part, parent: object, around: Surroundings) -> object:
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_unpack(item, parent, around) for item in value]
    name = value[0]
    if name == "Span":
        return Span(around.source, value[1], value[2])
    if name == "tuple":
        return value[1:]
    if name == "Unparsed":
        return ast.Unparsed(Span(around.source, value[1], value[2]), value[3], around)
    form = _FORMS[name]
    node = form.begin(parent)
    _unpack_fields(node, form.in_text, value[1:], node if form.is_declaration else parent, around)
    return node


def _unpack_fields(
    node: Part, names: Sequence[str], values: Packed, parent: object, around: Surroundings
) -> None:
    for name, value in zip(names, values):
        if name == "members":
            node.members = [_late(item, node, around) for item in value]
        else:
            setattr(node, name, _unpack(value, parent, around))


# --- Bodies -------------------------------------------------------------------------------------------


def pack_tokens(tokens: Iterable[Token]) -> bytes:
    """Tokens of one text, behind the preprocessor."""
    return marshal.dumps([(token.kind, token.text, token.start, token.end, token.fresh) for token in tokens])


def unpack_tokens(data: bytes, source: SourceFile) -> list[Token]:
    read = marshal.loads(data)
    return [Token(kind, text, source, start, end, fresh) for kind, text, start, end, fresh in read]
