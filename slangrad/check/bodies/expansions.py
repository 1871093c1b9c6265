"""`expand` and `each`: one expression or type for each element of packs.

In: `expand f(each x, each T)`.   Out: the pattern once, of which lowering makes as many as there are elements.

`each` runs over a pack of types, values or arguments, or over a tuple. A pack that is a parameter is checked once,
with `each T` as its own type parameter. The elements of a tuple may have different members, so the pattern is
copied for each of them (`Pieces`). Both mean several values, so they belong into a list.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.check.generics.bounds import element_type
from slangrad.check.model import checked
from slangrad.check.model.meanings import ErrorMeaning, Meaning, PackMeaning, TypeMeaning, ValueMeaning
from slangrad.check.model.packs import Entry, element_of_pack, is_entry_pack, packs_of
from slangrad.check.model.types import ERROR, Tuple, Type, expanded_type, is_pack, tuple_of
from slangrad.check.model.values import ParameterValue, is_value_pack
from slangrad.check.names.members import fail, refuse, set_slots
from slangrad.check.names.places import value_type
from slangrad.check.names.resolve import mark_type, refer
from slangrad.check.names.scopes import Scope
from slangrad.syntax import ast
from slangrad.syntax.ast.copies import duplicate
from slangrad.syntax.ast.walk import children

Entries = tuple[Entry, ...]


def expand(scope: Scope, node: ast.Expand) -> Meaning:
    """The meaning of the pattern, for each element."""
    elements = list(_eaches(node.pattern))
    if not elements:
        note = "write 'each' before the pack: expand f(each x)"
        return refuse(scope, node, "E0409", "there is no 'each' in this 'expand'", node.span, note)
    columns = [_entries(scope, element) for element in elements]
    runs = [column for column in columns if column is not None]
    if len(runs) < len(columns):
        return fail(node)
    rows = list(zip(*runs))
    mixed = any(len({is_entry_pack(entry) for entry in row}) > 1 for row in rows)
    if mixed or len({len(run) for run in runs}) > 1:
        return refuse(scope, node, "E0409", "these packs differ in their number of elements", node.span)
    if len(rows) == 1 and is_entry_pack(rows[0][0]):
        return _over_packs(scope, node, 0, rows[0])
    return _over_pieces(scope, node, rows)


def _eaches(pattern: ast.SyntaxNode) -> Iterator[ast.Each]:
    """The `each` that belong to this `expand`, not to one inside."""
    if isinstance(pattern, ast.Each):
        yield pattern
    elif not isinstance(pattern, ast.Expand):
        for child in children(pattern):
            yield from _eaches(child)


def _entries(scope: Scope, node: ast.Each) -> Entries | None:
    """The pack or tuple of an `each`."""
    meaning = refer(scope, node.pack)
    if isinstance(meaning, TypeMeaning):
        mark_type(node.pack, meaning.type)
    entries = _known_entries(node.pack) if isinstance(meaning, (TypeMeaning, ValueMeaning)) else None
    if entries is None and not isinstance(meaning, ErrorMeaning) and node.pack.type is not ERROR:
        text = node.pack.span.text
        message = f"'each' needs a pack or a tuple, which '{text}' is not"
        scope.checker.error("E0409", message, node.pack.span)
    return entries


def _known_entries(pack: ast.Expression) -> Entries | None:
    """The same of a pack that is checked already."""
    form = pack.ref
    if isinstance(form, checked.Constant) and is_value_pack(form.value):
        return (form.value,)
    kind = form.named if isinstance(form, checked.TypeName) else value_type(pack)
    if isinstance(kind, Tuple):
        return kind.elements
    return (kind,) if is_pack(kind) else None


# --- Open packs ---------------------------------------------------------------------------------------


def _over_packs(scope: Scope, node: ast.Expand, entry: int, row: Entries) -> Meaning:
    meaning = _pattern(scope, node.pattern, entry)
    packs = tuple(dict.fromkeys(pack for pattern_entry in row for pack in packs_of(pattern_entry)))
    if isinstance(meaning, TypeMeaning):
        mark_type(node.pattern, meaning.type)
        return TypeMeaning(expanded_type(meaning.type, packs))
    if not isinstance(meaning, ValueMeaning):
        return _report_pattern(scope, node, meaning)
    kind = value_type(node.pattern)
    if kind is ERROR:
        return fail(node)
    return set_slots(node, expanded_type(kind, packs), checked.Expansion(node.pattern, packs))


def _pattern(scope: Scope, pattern: ast.Expression, entry: int) -> Meaning:
    checker = scope.checker
    before, checker.expanding = checker.expanding, entry
    try:
        return refer(scope, pattern)
    finally:
        checker.expanding = before


def _report_pattern(scope: Scope, node: ast.Expand, meaning: Meaning) -> Meaning:
    if not isinstance(meaning, ErrorMeaning):
        message = f"'{node.pattern.span.text}' is neither a type nor a value"
        scope.checker.error("E0302", message, node.pattern.span)
    return fail(node)


# --- Tuples -------------------------------------------------------------------------------------------


def _over_pieces(scope: Scope, node: ast.Expand, rows: list[Entries]) -> Meaning:
    pieces: list[ast.Expression] = []
    types: list[Type] = []
    for entry, row in enumerate(rows):
        piece: ast.Expression = duplicate(node.pattern)
        if is_entry_pack(row[0]):
            piece = ast.Expand(node.span, piece)
            meaning = _over_packs(scope, piece, entry, row)
        else:
            meaning = _pattern(scope, piece, entry)
        if isinstance(meaning, TypeMeaning):
            types.append(meaning.type)
        elif isinstance(meaning, ValueMeaning) and piece.type is not ERROR:
            pieces.append(piece)
        else:
            return _report_pattern(scope, node, meaning)
    of_types = all(isinstance(element.pack.ref, checked.TypeName) for element in _eaches(node.pattern))
    if types or (not rows and of_types):
        return PackMeaning(tuple(types))
    node.ref = checked.Pieces(tuple(pieces))
    node.type = expanded_type(tuple_of(tuple(value_type(value) for value in pieces)), ())
    return ValueMeaning(node.type)


# --- each ---------------------------------------------------------------------------------------------


def each(scope: Scope, node: ast.Each) -> Meaning:
    """One element of a pack."""
    entry = scope.checker.expanding
    if entry is None:
        message = "'each' has a meaning only inside of 'expand'"
        note = f"write 'expand each {node.pack.span.text}' to pass all elements"
        return refuse(scope, node, "E0409", message, node.span, note)
    kinds = _known_entries(node.pack)
    assert kinds is not None
    chosen = kinds[entry]
    form = node.pack.ref
    if not isinstance(chosen, Type):
        kind = scope.checker.info(chosen.declaration).type if isinstance(chosen, ParameterValue) else ERROR
        value = element_of_pack(chosen)
        assert not isinstance(value, Type)
        return set_slots(node, kind, checked.Constant(value))
    if isinstance(form, checked.TypeName):
        return TypeMeaning(element_of_pack(chosen) if is_pack(chosen) else chosen)
    types = tuple(option for option in kinds if isinstance(option, Type))
    return set_slots(node, element_type(scope.checker, chosen), checked.PackElement(node.pack, types, entry))
