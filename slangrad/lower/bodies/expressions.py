"""Expressions to values. What an expression was resolved to stands in its `ref` (check/model/checked.py).

    a * x + b[i]    ->    %p = mul %a, %x    %e = index %b, %i    %s = add %p, %e

Everything that can be assigned is read through its place (`place_of`); calls are in `calls.py`, conversions
in `conversions.py`, what an operator does in `operators.py`, what runs one of two sides in `choices.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from slangrad.base.brace_formats import text_hash
from slangrad.base.source import Span
from slangrad.check.model import checked
from slangrad.check.model.types import VOID, Type, is_dynamic
from slangrad.check.model.values import RequiredValue
from slangrad.ir import types as ir_types
from slangrad.ir.core import Value
from slangrad.ir.types import BOOL, I32, U32, Pointer, Struct
from slangrad.lower.bodies import choices
from slangrad.lower.calls import accessors, calls, conversions, throwing
from slangrad.lower.model.frame import THIS, Frame, Key
from slangrad.lower.places import closures, globals, packs
from slangrad.lower.places.places import (
    Component,
    Element,
    Place,
    Swizzle,
    Temporary,
    behind_pointer,
    detached,
)
from slangrad.lower.places.statics import Static
from slangrad.lower.places.variables import place_of_variable
from slangrad.lower.values import dispatch, operators
from slangrad.syntax import ast


def lower(f: Frame, node: ast.Expression) -> Value:
    """The value of an expression after the conversion that its place asks for."""
    with f.at(node.span):
        value = _unconverted(f, node)
        return value if node.conversion is None else conversions.convert(f, value, node.conversion)


def lower_effect(f: Frame, node: ast.Expression) -> None:
    """An expression whose value nobody wants; it may be void."""
    with f.at(node.span):
        if isinstance(node, ast.Paren):
            lower_effect(f, node.inner)
        elif isinstance(node, ast.Comma):
            lower_effect(f, node.left)
            lower_effect(f, node.right)
        elif isinstance(node, ast.NoDiff):
            _without_derivative(f, node.operand)
        elif isinstance(node.ref, (checked.Call, checked.Try)):
            _called(f, node.ref)
        elif isinstance(node.ref, checked.Convert) and node.type is VOID:
            lower_effect(f, node.ref.operand)
        elif packs.is_pack_value(node):
            for part in packs.parts(f, node):
                if isinstance(part, ast.Expression):
                    lower_effect(f, part)
        else:
            _unconverted(f, node)


def _unconverted(f: Frame, node: ast.Expression) -> Value:
    rule = FORMS[type(node.ref)] if node.ref is not None else NODES[type(node)]
    return rule(f, node)


# --- Nodes without a form -----------------------------------------------------------------------------


def _literal(f: Frame, node: ast.IntLiteral | ast.FloatLiteral | ast.BoolLiteral | ast.CharLiteral) -> Value:
    return f.b.constant(f.type(node.type, node.span), node.value)


def _zero(f: Frame, node: ast.NullLiteral | ast.NoneLiteral) -> Value:
    return f.b.zero(f.type(node.type))


def _paren(f: Frame, node: ast.Paren) -> Value:
    return lower(f, node.inner)


def _comma(f: Frame, node: ast.Comma) -> Value:
    lower_effect(f, node.left)
    return lower(f, node.right)


def _no_diff(f: Frame, node: ast.NoDiff) -> Value:
    value = _without_derivative(f, node.operand)
    assert value is not None
    return value


def _without_derivative(f: Frame, node: ast.Expression) -> Value | None:
    """Neither the value nor what a call writes carries a derivative; None for a void call."""
    while isinstance(node, ast.Paren) and node.conversion is None:
        node = node.inner
    if not isinstance(node.ref, (checked.Call, checked.Try)):
        return detached(f, lower(f, node))
    with f.at(node.span):
        value = _called(f, node.ref, cut=True)
        if value is not None and node.conversion is not None:
            value = conversions.convert(f, value, node.conversion)
        return None if value is None else detached(f, value)


def number_of_text(f: Frame, text: str) -> Value:
    return f.b.constant(U32, text_hash(text))


def _text(f: Frame, node: ast.StringLiteral) -> Value:
    if node.conversion is not None:
        return number_of_text(f, node.value)
    f.error("E9006", "a text can only be the format of printf", node.span)
    return f.b.zero(I32)


# --- Reading places -----------------------------------------------------------------------------------


def _read(f: Frame, node: ast.Expression) -> Value:
    return _unconverted_place(f, node).get(f)


def place_of(f: Frame, node: ast.Expression | checked.ThisValue) -> Place:
    """Where an expression's value is; a temporary for what has no home."""
    if isinstance(node, checked.ThisValue):
        return _this(f, node, None)
    with f.at(node.span):
        place = _unconverted_place(f, node)
        if node.conversion is None:
            return place
        if node.conversion.kind == "existing":
            return place
        if node.conversion.kind == "dereference":
            return behind_pointer(f, place.get(f))
        return Temporary(conversions.convert(f, place.get(f), node.conversion))


def _unconverted_place(f: Frame, node: ast.Expression) -> Place:
    while isinstance(node, ast.Paren) and node.inner.conversion is None:
        node = node.inner
    rule = PLACES.get(type(node.ref))
    return rule(f, node.ref, node) if rule is not None else Temporary(_unconverted(f, node))


def _local(f: Frame, form: checked.Local, node: ast.Expression) -> Place:
    no_diff = f.program.info(form.declaration).no_diff
    return place_of_variable(f, form.declaration, no_diff)


def _this(f: Frame, form: checked.ThisValue, node: ast.Expression | None) -> Place:
    key: Key = THIS if form.captured is None else form.captured
    return place_of_variable(f, key)


def _field(f: Frame, form: checked.Field, node: ast.Expression) -> Place:
    return place_of(f, form.base).field(f, f.resolve(form.reference).declaration.name)


def _tuple_element(f: Frame, form: checked.TupleElement, node: ast.Expression) -> Place:
    return place_of(f, form.base).component(f, form.index)


def _pack_element(f: Frame, form: checked.PackElement, node: ast.Expression) -> Place:
    return packs.element(f, form)


def _element(f: Frame, form: checked.Element, node: ast.Expression) -> Place:
    base = place_of(f, form.base)
    index = lower(f, form.index)
    if index.type is BOOL:
        index = operators.to_int(f, index)
    if isinstance(base.type, Pointer):
        return behind_pointer(f, f.emit("offset", base.get(f), index))
    return base.element(f, index)


def _swizzle(f: Frame, form: checked.Swizzle, node: ast.Expression) -> Place:
    return Swizzle(place_of(f, form.base).for_parts(f), form.components, f.type(node.type))


def _dereference(f: Frame, form: checked.Dereference, node: ast.Expression) -> Place:
    return behind_pointer(f, lower(f, form.pointer))


def _property(f: Frame, form: checked.Property, node: ast.Expression) -> Place:
    return accessors.accessed(f, form.reference, form.base, (), f.type(node.type))


def _subscript(f: Frame, form: checked.Subscript, node: ast.Expression) -> Place:
    return accessors.accessed(f, form.reference, form.base, form.arguments, f.type(node.type))


def _global(f: Frame, form: checked.Global, node: ast.Expression) -> Place:
    return globals.place_of_global(f, form.reference, node.span)


# --- Forms that make values ---------------------------------------------------------------------------


def _constant(f: Frame, node: ast.Expression) -> Value:
    value = f.program.value(node.ref.value, f.substitution)
    if not isinstance(value, int):
        assert isinstance(value, RequiredValue)
        if node.ref.told_by is not None:
            teller = place_of(f, node.ref.told_by).get(f)
            return dispatch.required(f, teller, value, f.type(node.type, node.span))
        dispatch.require_type(f, f"'{value.declaration.name}'", value.base)
        return f.b.zero(f.type(node.type, node.span))
    return f.b.constant(f.type(node.type, node.span), value)


def _told(f: Frame, node: ast.Expression) -> Value:
    return dispatch.told(f, place_of(f, node.ref.base).get(f), f.concrete(node.type))


def _address_of(f: Frame, node: ast.Expression) -> Value:
    return address_of(f, place_of(f, node.ref.place), f.type(node.type), node.span)


def address_of(f: Frame, place: Place, t: ir_types.Type, span: Span | None) -> Value:
    """The address of a place as a pointer of a type; memory of a group has addresses like any other."""
    memory = place.address(f)
    if memory is None:
        code, what, note = _without_address(place)
        f.error(code, f"{what} no address", span, note)
        return f.b.zero(t)
    return f.emit("bitcast", memory.pointer, type=t)


def _without_address(place: Place) -> tuple[str, str, str]:
    if isinstance(_whole_of(place), Static):
        return "E9010", "a static variable has", "pass it as an inout parameter instead"
    if isinstance(place, Swizzle):
        return "E0705", "several components have", "take the address of one of them, or of the whole"
    return "E0705", "a value that is not stored has", "store it in a variable first"


def _whole_of(place: Place) -> Place:
    """The variable that a place is a part of."""
    while isinstance(place, (Component, Element, Swizzle)):
        place = place.parent
    return place


def _called(f: Frame, form: checked.Call | checked.Try, cut: bool = False) -> Value | None:
    if isinstance(form, checked.Try):
        return throwing.lower_try(f, form, cut)
    return calls.lower_call(f, form, cut)


def _call(f: Frame, node: ast.Expression) -> Value:
    """A `void` is a value only where a type parameter is void; it has no parts."""
    value = _called(f, node.ref)
    return f.b.zero(f.lowering.types.of(VOID)) if value is None else value


def _operator(f: Frame, node: ast.Expression) -> Value:
    form: checked.Operator = node.ref
    if choices.is_short_circuit(f, form):
        return choices.short_circuit(f, form)
    operands = [lower(f, each) for each in form.operands]
    if form.name == "?:":
        return f.emit("select", *operands)
    return operators.apply(f, form.name, operands, f.type(node.type))


def _conditional(f: Frame, node: ast.Conditional) -> Value:
    return choices.choose(f, lower(f, node.condition), node.then, node.otherwise)


def _store(f: Frame, node: ast.Expression) -> Value:
    form: checked.Store = node.ref
    place = place_of(f, form.place)
    value = lower(f, form.value)
    place.set(f, value)
    return value


def _update(f: Frame, node: ast.Expression) -> Value:
    form: checked.Update = node.ref
    place = place_of(f, form.place).for_update(f)
    old = place.get(f)
    loaded = old if form.load is None else conversions.convert(f, old, form.load)
    new = _updated(f, form, loaded, _step(f, loaded, form))
    stored = new if form.store is None else conversions.convert(f, new, form.store)
    place.set(f, stored)
    return old if isinstance(node, ast.Postfix) else stored


def _updated(f: Frame, form: checked.Update, loaded: Value, step: Value) -> Value:
    if form.function is None:
        return operators.apply(f, operators.of_update(form.operator), [loaded, step], loaded.type)
    value = calls.call_function(f, form.function, [Temporary(loaded), Temporary(step)])
    assert value is not None
    return value


def _step(f: Frame, loaded: Value, form: checked.Update) -> Value:
    if form.value is not None:
        return lower(f, form.value)
    if isinstance(loaded.type, Pointer):
        return f.b.constant(operators.INT, 1)
    return f.b.constant(loaded.type, 1)


def _convert(f: Frame, node: ast.Expression) -> Value:
    return lower(f, node.ref.operand)


def _construct(f: Frame, node: ast.Expression) -> Value:
    return lower_part(f, node.ref)


def lower_part(f: Frame, part: checked.Part) -> Value:
    """A part of an initializer list, which may be a list itself."""
    if isinstance(part, ast.Expression):
        return lower(f, part)
    if isinstance(part, checked.Zero):
        return f.b.zero(f.type(part.type))
    if isinstance(part, checked.FieldDefault):
        return closures.field_default(f, part.reference)
    if isinstance(part, checked.Call):
        value = calls.lower_call(f, part)
        assert value is not None
        return value
    t = f.type(part.type)
    if isinstance(t, Struct):
        return closures.struct_of_parts(f, part.parts, t)
    return conversions.assemble(f, [value for each in part.parts for value in lower_parts(f, each)], t)


def lower_parts(f: Frame, part: checked.Part) -> Iterable[Value]:
    """The same, where an `expand` is several."""
    if isinstance(part, ast.Expression) and packs.is_pack_value(part):
        return packs.values(f, part)
    return (lower_part(f, part),)


def _closure(f: Frame, node: ast.Expression) -> Value:
    return closures.capture(f, node.ref.function, f.type(node.type))


def value_type(node: ast.Expression) -> Type:
    """The type of an expression after its conversion."""
    made: Type = node.type if node.conversion is None else node.conversion.target
    return made


def _type_test(f: Frame, node: ast.Expression) -> Value:
    form: checked.TypeTest = node.ref
    source, target = f.concrete(value_type(form.operand)), f.concrete(form.target)
    if not is_dynamic(source):
        return f.b.constant(BOOL, dispatch.is_kind_of(f, source, target))
    return dispatch.type_test(f, lower(f, form.operand), source, target)


def _downcast(f: Frame, node: ast.Expression) -> Value:
    form: checked.Downcast = node.ref
    source, target = f.concrete(value_type(form.operand)), f.concrete(form.target)
    return dispatch.downcast(f, lower(f, form.operand), source, target, f.type(node.type))


PLACES: dict[type, Callable[[Frame, Any, ast.Expression], Place]] = {
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

FORMS: dict[type, Callable[[Frame, ast.Expression], Value]] = {
    **dict.fromkeys(PLACES, _read),
    checked.Constant: _constant,
    checked.Told: _told,
    checked.AddressOf: _address_of,
    checked.Call: _call,
    checked.Try: _call,
    checked.Operator: _operator,
    checked.Store: _store,
    checked.Update: _update,
    checked.Convert: _convert,
    checked.Construct: _construct,
    checked.Closure: _closure,
    checked.TypeTest: _type_test,
    checked.Downcast: _downcast,
}

NODES: dict[type[ast.Expression], Callable[[Frame, Any], Value]] = {
    ast.IntLiteral: _literal,
    ast.FloatLiteral: _literal,
    ast.BoolLiteral: _literal,
    ast.CharLiteral: _literal,
    ast.NullLiteral: _zero,
    ast.NoneLiteral: _zero,
    ast.StringLiteral: _text,
    ast.Paren: _paren,
    ast.Comma: _comma,
    ast.NoDiff: _no_diff,
    ast.Conditional: _conditional,
}
