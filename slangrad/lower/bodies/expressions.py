"""Expressions to values. The `ref` of an expression has its resolution (check/model/checked.py).

    a * x + b[i]    ->    %p = mul %a, %x    %e = index %b, %i    %s = add %p, %e

Assignable expressions are read through their places (`place_forms.py`). Calls and conversions are in `calls`,
operators in `values/operators.py`, `&&`, `||` and `?:` in `choices.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slangrad.base.records import OfClass, kinds_of
from slangrad.check.model import checked
from slangrad.check.model.types import ERROR, VOID, is_dynamic
from slangrad.check.model.values import RequiredValue
from slangrad.check.names.places import value_type
from slangrad.ir.data.types import BOOL, Pointer, Struct
from slangrad.ir.ops.core import Value
from slangrad.lower.bodies import choices
from slangrad.lower.bodies.place_forms import PLACES, this_place
from slangrad.lower.calls import calls, conversions, prints, throwing
from slangrad.lower.model.flow import THIS
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places import defaults, packs
from slangrad.lower.places.places import Component, Converted, SwizzlePlace, Temporary, behind_pointer
from slangrad.lower.places.statics import Static
from slangrad.lower.places.variables import held
from slangrad.lower.values import interface_values, operators, runtime_types
from slangrad.syntax import ast


def value(f: Frame, node: ast.Expression) -> Value:
    """The value of an expression after the conversion that its place asks for."""
    with f.at(node.span):
        value = _unconverted(f, node)
        return value if node.conversion is None else conversions.convert(f, value, node.conversion)


def effect(f: Frame, node: ast.Expression) -> None:
    """An expression whose value is not used; it may be void."""
    with f.at(node.span):
        if isinstance(node, ast.Paren):
            f.effect(node.inner)
        elif isinstance(node, ast.Comma):
            f.effect(node.left)
            f.effect(node.right)
        elif isinstance(node, ast.NoDiff):
            _without_derivative(f, node.operand)
        elif isinstance(node.ref, (checked.FunctionCall, checked.TriedCall)):
            _called(f, node.ref)
        elif isinstance(node.ref, checked.Convert) and node.type is VOID:
            f.effect(node.ref.operand)
        elif packs.is_pack_value(node):
            for part in packs.parts(f, node):
                if isinstance(part, ast.Expression):
                    f.effect(part)
        else:
            _unconverted(f, node)


def _unconverted(f: Frame, node: ast.Expression) -> Value:
    if node.type is ERROR:
        f.program.refusals.raise_at(node.span)
    rule = FORMS[type(node.ref)] if node.ref is not None else NODES[type(node)]
    return rule(f, node)


# --- Nodes without a form -----------------------------------------------------------------------------


def _literal(f: Frame, node: ast.IntLiteral | ast.FloatLiteral | ast.BoolLiteral | ast.CharLiteral) -> Value:
    return f.b.constant(f.type(node.type, node.span), node.value)


def _comma(f: Frame, node: ast.Comma) -> Value:
    f.effect(node.left)
    return f.value(node.right)


def _no_diff(f: Frame, node: ast.NoDiff) -> Value:
    value = _without_derivative(f, node.operand)
    assert value is not None
    return value


def _without_derivative(f: Frame, node: ast.Expression) -> Value | None:
    """Neither the value nor the outputs of a call carry a derivative; None for a void call."""
    while isinstance(node, ast.Paren) and node.conversion is None:
        node = node.inner
    if not isinstance(node.ref, (checked.FunctionCall, checked.TriedCall)):
        return f.detached(f.value(node))
    with f.at(node.span):
        value = _called(f, node.ref, cut=True)
        if value is not None and node.conversion is not None:
            value = conversions.convert(f, value, node.conversion)
        return None if value is None else f.detached(value)


def _text(f: Frame, node: ast.StringLiteral) -> Value:
    return prints.number_of_text(f, node.value)


# --- Reading places -----------------------------------------------------------------------------------


def _read(f: Frame, node: ast.Expression) -> Value:
    return _unconverted_place(f, node).get(f)


def place(f: Frame, node: ast.Expression | checked.ThisValue) -> Place:
    """The place of an expression's value; a temporary for a value without one."""
    if isinstance(node, checked.ThisValue):
        return this_place(f, node)
    with f.at(node.span):
        place = _unconverted_place(f, node)
        if node.conversion is None:
            return place
        if node.conversion.kind == "existing":
            return place
        if node.conversion.kind == "dereference":
            return behind_pointer(f, place.get(f))
        if node.conversion.kind == "sign":
            return Converted(place, f.type(node.conversion.target))
        return Temporary(conversions.convert(f, place.get(f), node.conversion))


def _unconverted_place(f: Frame, node: ast.Expression) -> Place:
    while isinstance(node, ast.Paren) and node.inner.conversion is None:
        node = node.inner
    rule = PLACES.get(type(node.ref))
    return rule(f, node.ref, node) if rule is not None else Temporary(_unconverted(f, node))


# --- Forms that make values ---------------------------------------------------------------------------


def _constant(f: Frame, node: ast.Expression) -> Value:
    value = f.program.value(node.ref.value, f.substitution)
    if not isinstance(value, int):
        assert isinstance(value, RequiredValue)
        if node.ref.discriminator is not None:
            carrier = f.place(node.ref.discriminator).get(f)
            return runtime_types.required(f, carrier, value, f.type(node.type, node.span))
        runtime_types.require_type(f, f"'{value.declaration.name}'", value.base)
        return f.b.zero(f.type(node.type, node.span))
    return f.b.constant(f.type(node.type, node.span), value)


def _of_associated_type(f: Frame, node: ast.Expression) -> Value:
    carrier = f.place(node.ref.base).get(f)
    return runtime_types.with_discriminator(f, carrier, f.concrete(node.type))


def _address_of(f: Frame, node: ast.Expression) -> Value:
    """`&p[3].x` is bitcast (member (offset %p, 3), 0); what is not stored has no address."""
    place, t = f.place(node.ref.place), f.type(node.type)
    memory = place.address(f)
    if memory is None:
        code, subject, note = _without_address(place)
        f.error(code, f"{subject} no address", node.span, note)
        return f.b.zero(t)
    return f.emit("bitcast", memory.pointer, type=t)


def _without_address(place: Place) -> tuple[str, str, str]:
    whole = place
    while isinstance(whole, (Component, SwizzlePlace)):
        whole = whole.parent
    if isinstance(whole, Static):
        return "E9010", "a static variable has", "pass it as an inout parameter instead"
    if isinstance(place, SwizzlePlace):
        return "E0705", "several components have", "take the address of one of them, or of the whole"
    return "E0705", "a value that is not stored has", "store it in a variable first"


def _called(f: Frame, form: checked.FunctionCall | checked.TriedCall, cut: bool = False) -> Value | None:
    if isinstance(form, checked.TriedCall):
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
    operands = [f.value(operand) for operand in form.operands]
    if form.name == "?:":
        return f.emit("select", *operands)
    return operators.apply(f, form.name, operands, f.type(node.type))


def _store(f: Frame, node: ast.Expression) -> Value:
    form: checked.Assignment = node.ref
    place = f.place(form.place)
    value = f.value(form.value)
    place.set(f, value)
    return value


def _update(f: Frame, node: ast.Expression) -> Value:
    form: checked.Update = node.ref
    place = f.place(form.place).for_update(f)
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
        return f.value(form.value)
    if isinstance(loaded.type, Pointer):
        return f.b.constant(operators.INT, 1)
    return f.b.constant(loaded.type, 1)


def part(f: Frame, part: checked.Part) -> Value:
    """A part of an initializer list, which may be a list itself."""
    if isinstance(part, ast.Expression):
        return f.value(part)
    if isinstance(part, checked.Zero):
        return f.b.zero(f.type(part.type))
    if isinstance(part, checked.FieldDefault):
        return defaults.field_default(f, part.reference)
    if isinstance(part, checked.FunctionCall):
        value = calls.lower_call(f, part)
        assert value is not None
        return value
    t = f.type(part.type)
    if isinstance(t, Struct):
        return defaults.struct_of_parts(f, part.parts, t)
    return conversions.assemble(f, [value for inner in part.parts for value in f.parts(inner)], t)


def parts(f: Frame, part: checked.Part) -> Iterable[Value]:
    """The same, where an `expand` is several."""
    if isinstance(part, ast.Expression) and packs.is_pack_value(part):
        return packs.values(f, part)
    return (f.part(part),)


def _closure(f: Frame, node: ast.Expression) -> Value:
    """A struct of the variables that a lambda captures, as they are now; calling it passes that as `this`."""
    info: checked.FunctionInfo = f.program.info(node.ref.function)
    in_scope = f.variables.keys() | f.homes.keys() | f.lent.keys()
    captured = (held(f, declared if declared in in_scope else THIS) for declared in info.captures)
    return f.emit("make", *captured, type=f.type(node.type))


def _type_test(f: Frame, node: ast.Expression) -> Value:
    form: checked.TypeTest = node.ref
    source, target = f.concrete(value_type(form.operand)), f.concrete(form.target)
    if not is_dynamic(source):
        return f.b.constant(BOOL, interface_values.is_kind_of(f, source, target))
    return interface_values.type_test(f, f.value(form.operand), source, target)


def _downcast(f: Frame, node: ast.Expression) -> Value:
    form: checked.Downcast = node.ref
    source, target = f.concrete(value_type(form.operand)), f.concrete(form.target)
    return interface_values.downcast(f, f.value(form.operand), source, target, f.type(node.type))


# fmt: off
FORMS: dict[type, Callable[[Frame, ast.Expression], Value]] = {
    **dict.fromkeys(PLACES, _read),
    checked.Constant:  _constant,
    checked.Discriminator: _of_associated_type,
    checked.AddressOf: _address_of,
    checked.FunctionCall:      _call,
    checked.TriedCall:       _call,
    checked.Operator:  _operator,
    checked.Assignment:     _store,
    checked.Update:    _update,
    checked.Convert:   lambda f, node: f.value(node.ref.operand),
    checked.Construct: lambda f, node: f.part(node.ref),
    checked.Closure:   _closure,
    checked.TypeTest:  _type_test,
    checked.Downcast:  _downcast,
}
# fmt: on
# Forms that are no values: the nodes around them handle them.
_PARTS = {checked.TypeName, checked.Derivative, checked.Expansion, checked.Pieces}
assert FORMS.keys() | _PARTS == kinds_of(checked.Form), (FORMS.keys() | _PARTS) ^ kinds_of(checked.Form)

# fmt: off
NODES: dict[type[ast.Expression], Callable[[Frame, OfClass], Value]] = {
    **dict.fromkeys((ast.IntLiteral, ast.FloatLiteral, ast.BoolLiteral, ast.CharLiteral), _literal),
    **dict.fromkeys((ast.NullLiteral, ast.NoneLiteral), lambda f, node: f.b.zero(f.type(node.type))),
    ast.StringLiteral: _text,
    ast.Paren:         lambda f, node: f.value(node.inner),
    ast.Comma:         _comma,
    ast.NoDiff:        _no_diff,
    ast.Conditional:   lambda f, node: choices.choose(f, f.value(node.condition), node.then, node.otherwise),
}
# fmt: on
