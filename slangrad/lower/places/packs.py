"""Packs: what stands for several values, one after the other.

In: the argument `expand f(each x)`, where x has two elements.   Out: f(x.0), then f(x.1).

A parameter that is a pack is as many variables (`PackPart`). While a pattern is lowered for an element, the frame
knows its number, and its substitution what the types `each T` are.
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.check.calls.coerce import stripped
from slangrad.check.model import checked
from slangrad.check.model.packs import spliced
from slangrad.check.model.types import ExpandedType, Tuple, Type, is_pack
from slangrad.check.names.places import value_type
from slangrad.ir.data.types import BOOL
from slangrad.ir.ops.core import Value
from slangrad.lower.model.flow import PackPart
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import Temporary
from slangrad.lower.places.variables import place_of_variable
from slangrad.syntax import ast

Part = ast.Expression | Place


def is_pack_value(node: object) -> bool:
    """Whether an expression stands for several values."""
    return isinstance(node, ast.Expression) and isinstance(node.type, Type) and is_pack(node.type)


def parts(f: Frame, node: ast.Expression) -> Iterator[Part]:
    """Each value of a pack: a place, or an expression to be lowered before the next is asked for."""
    node = stripped(node)
    form = node.ref
    if isinstance(form, checked.Pieces):
        for piece in form.pieces:
            yield from parts(f, piece) if is_pack_value(piece) else (piece,)
    elif isinstance(form, checked.Expansion):
        for i in range(_count(f, form, node)):
            with f.element(form.packs, i):
                yield form.pattern
    elif isinstance(form, checked.Constant):
        assert isinstance(node.type, ExpandedType)
        for value in spliced((f.program.value(form.value, f.substitution),)):
            assert isinstance(value, int)
            yield Temporary(f.b.constant(f.type(node.type.pattern), value))
    else:
        yield from (_part(f, node, i) for i in range(_length(f, node.type)))


def count(f: Frame, node: object) -> int:
    """How many values an argument is."""
    if not is_pack_value(node):
        return 1
    assert isinstance(node, ast.Expression)
    node = stripped(node)
    if isinstance(node.ref, checked.Pieces):
        return sum(count(f, piece) for piece in node.ref.pieces)
    return _length(f, node.type)


def values(f: Frame, node: ast.Expression) -> Iterator[Value]:
    """The same as values."""
    for part in parts(f, node):
        yield part.get(f) if isinstance(part, Place) else f.value(part)


def element(f: Frame, form: checked.PackElement) -> Place:
    """`each x`: of a tuple a component, of a pack of arguments one of its variables."""
    is_entry = is_pack(form.kinds[form.entry])
    index = f.index if is_entry else 0
    if isinstance(value_type(form.base), Tuple):
        before = sum(_length(f, kind) for kind in form.kinds[: form.entry])
        return f.place(form.base).component(f, before + index)
    return _part(f, form.base, index)


def end(f: Frame, form: checked.PartOfPack) -> Place:
    """`__first(x)`, `__last(x)`."""
    count = _length(f, value_type(form.base))
    if count == 0:
        f.error("E0409", f"'{form.query}' needs a pack that is not empty", f.b.span)
        return Temporary(f.b.zero(BOOL))
    return _part(f, form.base, 0 if form.query == "__first" else count - 1)


def _part(f: Frame, node: ast.Expression, index: int) -> Place:
    node = stripped(node)
    form = node.ref
    if isinstance(form, checked.PartOfPack):
        return _part(f, form.base, index + (form.query == "__trimFirst"))
    if isinstance(form, checked.Expansion):
        with f.element(form.packs, index):
            return f.place(form.pattern)
    assert isinstance(form, checked.Local), form
    key = PackPart(form.declaration, index)
    return place_of_variable(f, key, f.program.info(form.declaration).no_diff)


def _length(f: Frame, kind: Type) -> int:
    return len(spliced((f.concrete(kind),)))


def _count(f: Frame, form: checked.Expansion, node: ast.Expression) -> int:
    counts = {len(f.pack(pack)) for pack in form.packs}
    if len(counts) > 1:
        f.error("E0409", "these packs differ in their number of elements", node.span)
        return 0
    return counts.pop()
