"""Assignable expressions as places, part by part.

a.b[i]    ->    the variable a, its component b, the element at %i
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.base.records import OfClass
from slangrad.check.model import checked
from slangrad.ir.data.types import BOOL, Pointer
from slangrad.lower.calls.accessors import accessed
from slangrad.lower.model.flow import THIS, Key
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places import packs
from slangrad.lower.places.globals import place_of_global
from slangrad.lower.places.places import SwizzlePlace, behind_pointer
from slangrad.lower.places.variables import place_of_variable
from slangrad.lower.values import operators
from slangrad.syntax import ast


def _local(f: Frame, form: checked.Local, node: ast.Expression) -> Place:
    return place_of_variable(f, form.declaration, f.program.info(form.declaration).no_diff)


def this_place(f: Frame, form: checked.ThisValue) -> Place:
    key: Key = THIS if form.captured is None else form.captured
    return place_of_variable(f, key)


def _element(f: Frame, form: checked.Element, node: ast.Expression) -> Place:
    base = f.place(form.base)
    index = f.value(form.index)
    if index.type is BOOL:
        index = operators.to_int(f, index)
    if isinstance(base.type, Pointer):
        return behind_pointer(f, f.emit("offset", base.get(f), index))
    return base.component(f, index)


def _swizzle(f: Frame, form: checked.Swizzle, node: ast.Expression) -> Place:
    return SwizzlePlace(f.place(form.base).for_parts(f), form.components, f.type(node.type))


def _subscript(f: Frame, form: checked.SubscriptAccess, node: ast.Expression) -> Place:
    return accessed(f, form.reference, form.base, form.arguments, f.type(node.type))


# fmt: off
PLACES: dict[type, Callable[[Frame, OfClass, ast.Expression], Place]] = {
    checked.Local:        _local,
    checked.ThisValue:    lambda f, form, node: this_place(f, form),
    checked.Field:        lambda f, form, node: f.place(form.base).field(f, f.resolve(form.reference).declaration.name),
    checked.TupleElement: lambda f, form, node: f.place(form.base).component(f, form.index),
    checked.PackElement:  lambda f, form, node: packs.element(f, form),
    checked.PartOfPack:   lambda f, form, node: packs.end(f, form),
    checked.Element:      _element,
    checked.Swizzle:      _swizzle,
    checked.Dereference:  lambda f, form, node: behind_pointer(f, f.value(form.pointer)),
    checked.PropertyAccess:     lambda f, form, node: accessed(f, form.reference, form.base, (), f.type(node.type)),
    checked.SubscriptAccess:    _subscript,
    checked.Global:       lambda f, form, node: place_of_global(f, form.reference, node.span),
}
# fmt: on
