"""The variables that a piece of code may assign, which a loop has to carry.

for (...) { s += x; f(out t); v.x = 1; }   ->   s, t, v
"""

from __future__ import annotations

from collections.abc import Iterator

from slangrad.check.generics.signatures import declared_parameters
from slangrad.check.model import checked
from slangrad.check.modules import CheckedProgram
from slangrad.lower.model.flow import Key
from slangrad.lower.places.variables import root_of_place
from slangrad.syntax import ast
from slangrad.syntax.ast.walk import walk

WRITTEN = ("out", "inout", "ref")


def assigned_variables(program: CheckedProgram, *nodes: ast.SyntaxNode | None) -> set[Key]:
    keys: set[Key] = set()
    for start in nodes:
        for node in walk(start) if start is not None else ():
            keys.update(_roots(program, node))
    return keys


def _roots(program: CheckedProgram, node: ast.SyntaxNode) -> Iterator[Key]:
    form = node.ref if isinstance(node, ast.Expression) else None
    if isinstance(form, (checked.Assignment, checked.Update)):
        yield from _root(form.place)
    elif isinstance(form, checked.FunctionCall):
        yield from _call_roots(program, form)
    elif isinstance(form, checked.AddressOf):
        yield from _root(form.place)
    elif isinstance(form, (checked.PropertyAccess, checked.SubscriptAccess)) and _reading_mutates(
        program, form
    ):
        yield from _root(form.base)


def _reading_mutates(program: CheckedProgram, form: checked.PropertyAccess | checked.SubscriptAccess) -> bool:
    accessors = getattr(form.reference.declaration, "accessors", ())
    return any(accessor.name in ("get", "ref") and program.info(accessor).mutating for accessor in accessors)


def _call_roots(program: CheckedProgram, form: checked.FunctionCall) -> Iterator[Key]:
    if isinstance(form.function, checked.Derivative):
        directions = [p.direction for p in form.function.signature.parameters]
        mutates = form.this is not None
    else:
        info = program.info(form.function.declaration)
        declared = declared_parameters(program, form.function)
        directions = [program.info(p).direction for p in declared]
        mutates = info.mutating
    if mutates and form.this is not None:
        yield from _root(form.this)
    for argument, direction in zip(form.arguments, directions, strict=False):
        if direction in WRITTEN and isinstance(argument, ast.Expression):
            yield from _root(argument)


def _root(place: ast.Expression | checked.ThisValue | None) -> Iterator[Key]:
    key = root_of_place(place, is_followed=True)
    if key is not None:
        yield key
