"""Expressions that can be assigned to, as places: what is behind a form is found, part by part.

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
from slangrad.lower.places.places import Swizzle, behind_pointer
from slangrad.lower.places.variables import place_of_variable
from slangrad.lower.values import operators
from slangrad.syntax import ast


def _local(f: Frame, form: checked.Local, node: ast.Expression) -> Place:
    no_diff = f.program.info(form.declaration).no_diff
    return place_of_variable(f, form.declaration, no_diff)


def _this(f: Frame, form: checked.ThisValue, node: ast.Expression) -> Place:
    return this_place(f, form)


def this_place(f: Frame, form: checked.ThisValue) -> Place:
    key: Key = THIS if form.captured is None else form.captured
    return place_of_variable(f, key)


def _field(f: Frame, form: checked.Field, node: ast.Expression) -> Place:
    return f.place(form.base).field(f, f.resolve(form.reference).declaration.name)


def _tuple_element(f: Frame, form: checked.TupleElement, node: ast.Expression) -> Place:
    return f.place(form.base).component(f, form.index)


def _pack_element(f: Frame, form: checked.PackElement, node: ast.Expression) -> Place:
    return packs.element(f, form)


def _element(f: Frame, form: checked.Element, node: ast.Expression) -> Place:
    base = f.place(form.base)
    index = f.value(form.index)
    if index.type is BOOL:
        index = operators.to_int(f, index)
    if isinstance(base.type, Pointer):
        return behind_pointer(f, f.emit("offset", base.get(f), index))
    return base.component(f, index)


def _swizzle(f: Frame, form: checked.Swizzle, node: ast.Expression) -> Place:
    return Swizzle(f.place(form.base).for_parts(f), form.components, f.type(node.type))


def _dereference(f: Frame, form: checked.Dereference, node: ast.Expression) -> Place:
    return behind_pointer(f, f.value(form.pointer))


def _property(f: Frame, form: checked.Property, node: ast.Expression) -> Place:
    return accessed(f, form.reference, form.base, (), f.type(node.type))


def _subscript(f: Frame, form: checked.Subscript, node: ast.Expression) -> Place:
    return accessed(f, form.reference, form.base, form.arguments, f.type(node.type))


def _global(f: Frame, form: checked.Global, node: ast.Expression) -> Place:
    return place_of_global(f, form.reference, node.span)


PLACES: dict[type, Callable[[Frame, OfClass, ast.Expression], Place]] = {
    checked.Local: _local,
    checked.ThisValue: _this,
    checked.Field: _field,
    checked.TupleElement: _tuple_element,
    checked.PackElement: _pack_element,
    checked.PartOfPack: lambda f, form, node: packs.end(f, form),
    checked.Element: _element,
    checked.Swizzle: _swizzle,
    checked.Dereference: _dereference,
    checked.Property: _property,
    checked.Subscript: _subscript,
    checked.Global: _global,
}
