"""Expressions to values. What an expression was resolved to stands in its `ref` (check/checked.py).

    a * x + b[i]    ->    %p = mul %a, %x    %e = index %b, %i    %s = add %p, %e

Everything that can be assigned is read through its place (`place_of`); calls are in `calls.py`, conversions in
`conversions.py`, what an operator does in `operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check import checked
from slangrad.check import types as checked_types
from slangrad.ir.core import Op, Value
from slangrad.ir.primitives import CONSTANT, LINEAR, NOT_DIFFERENTIABLE, PRIMITIVES, PURE
from slangrad.ir.types import BOOL, Pointer, is_float, scalar_of
from slangrad.lower import calls, closures, conversions, globals, operators
from slangrad.lower.frame import THIS, Frame
from slangrad.lower.places import Local, Memory, Place, Swizzle, Temporary
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
        elif isinstance(node.ref, checked.Call):
            calls.lower_call(f, node.ref, node)
        else:
            _unconverted(f, node)


def _unconverted(f: Frame, node: ast.Expression) -> Value:
    rule = FORMS.get(type(node.ref)) if node.ref is not None else NODES.get(type(node))
    if rule is None:
        f.error("E0704", f"this expression ({type(node).__name__}) is not supported", node.span)
        return f.b.zero(BOOL)
    return rule(f, node)


# --- Nodes without a form -----------------------------------------------------------------------------


def _literal(f: Frame, node: ast.IntLiteral | ast.FloatLiteral | ast.BoolLiteral | ast.CharLiteral) -> Value:
    return f.b.constant(f.type(node.type, node.span), node.value)


def _null(f: Frame, node: ast.NullLiteral) -> Value:
    return f.b.zero(f.type(node.type))


def _paren(f: Frame, node: ast.Paren) -> Value:
    return lower(f, node.inner)


def _comma(f: Frame, node: ast.Comma) -> Value:
    lower_effect(f, node.left)
    return lower(f, node.right)


def _no_diff(f: Frame, node: ast.NoDiff) -> Value:
    return f.emit("detach", lower(f, node.operand))


# --- Reading places -----------------------------------------------------------------------------------


def _read(f: Frame, node: ast.Expression) -> Value:
    return place_of(f, node).get(f)


def place_of(f: Frame, node: ast.Expression | checked.ThisValue) -> Place:
    """Where an expression's value is; a temporary for what has no home."""
    if isinstance(node, checked.ThisValue):
        return Local(THIS, f.variables[THIS].type)
    with f.at(node.span):
        place = _unconverted_place(f, node)
        if node.conversion is None:
            return place
        if node.conversion.kind == "existing":
            return place
        if node.conversion.kind == "dereference":
            return Memory(place.get(f))
        return Temporary(conversions.convert(f, place.get(f), node.conversion))


def _unconverted_place(f: Frame, node: ast.Expression) -> Place:
    while isinstance(node, ast.Paren) and node.inner.conversion is None:
        node = node.inner
    rule = PLACES.get(type(node.ref))
    return rule(f, node.ref, node) if rule is not None else Temporary(_unconverted(f, node))


def _local(f: Frame, form: checked.Local, node: ast.Expression) -> Place:
    return Local(form.declaration, f.variables[form.declaration].type)


def _this(f: Frame, form: checked.ThisValue, node: ast.Expression) -> Place:
    return Local(THIS, f.variables[THIS].type)


def _field(f: Frame, form: checked.Field, node: ast.Expression) -> Place:
    return place_of(f, form.base).field(f, f.resolve(form.reference).declaration.name)


def _tuple_element(f: Frame, form: checked.TupleElement, node: ast.Expression) -> Place:
    return place_of(f, form.base).component(f, form.index)


def _element(f: Frame, form: checked.Element, node: ast.Expression) -> Place:
    base = place_of(f, form.base)
    index = lower(f, form.index)
    if index.type is BOOL:
        index = operators.to_int(f, index)
    if isinstance(base.type, Pointer):
        return Memory(f.emit("offset", base.get(f), index))
    return base.element(f, index)


def _swizzle(f: Frame, form: checked.Swizzle, node: ast.Expression) -> Place:
    return Swizzle(place_of(f, form.base), form.components, f.type(node.type))


def _dereference(f: Frame, form: checked.Dereference, node: ast.Expression) -> Place:
    return Memory(lower(f, form.pointer))


def _property(f: Frame, form: checked.Property, node: ast.Expression) -> Place:
    return calls.accessed(f, form.reference, form.base, (), f.type(node.type))


def _subscript(f: Frame, form: checked.Subscript, node: ast.Expression) -> Place:
    return calls.accessed(f, form.reference, form.base, form.arguments, f.type(node.type))


def _global(f: Frame, form: checked.Global, node: ast.Expression) -> Place:
    return globals.place_of_global(f, form.reference, node.span)


# --- Forms that make values ---------------------------------------------------------------------------


def _constant(f: Frame, node: ast.Expression) -> Value:
    value = f.program.value(node.ref.value, f.substitution)
    assert isinstance(value, int), value
    return f.b.constant(f.type(node.type, node.span), value)


def _address_of(f: Frame, node: ast.Expression) -> Value:
    memory = place_of(f, node.ref.place).address(f)
    if memory is None:
        f.error(
            "E0705", "a local variable has no address", node.span, "pass it as an inout parameter instead"
        )
        return f.b.zero(f.type(node.type))
    return memory.pointer


def _call(f: Frame, node: ast.Expression) -> Value:
    value = calls.lower_call(f, node.ref, node)
    return value if value is not None else f.b.zero(BOOL)


def _operator(f: Frame, node: ast.Expression) -> Value:
    form: checked.Operator = node.ref
    if form.name in ("&&", "||") and _is_scalar_bool(f, form.operands):
        return _short_circuit(f, form)
    if form.name == "?:":
        condition = lower(f, form.operands[0])
        if condition.type is BOOL:
            return _choose(f, condition, form.operands[1], form.operands[2])
        return f.emit("select", condition, lower(f, form.operands[1]), lower(f, form.operands[2]))
    operands = [lower(f, each) for each in form.operands]
    return operators.apply(f, form.name, operands, f.type(node.type, node.span))


def _is_scalar_bool(f: Frame, operands: tuple[ast.Expression, ...]) -> bool:
    target = [each.type if each.conversion is None else each.conversion.target for each in operands]
    return all(f.concrete(t) is checked_types.BOOL for t in target)


def _short_circuit(f: Frame, form: checked.Operator) -> Value:
    """The right side runs only when it decides; when it has no effects, that makes no difference."""
    left = lower(f, form.operands[0])
    right, made, changed = f.trial(lambda: lower(f, form.operands[1]))
    if not changed and _is_cheap(made.ops):
        f.b.absorb(made)
        return f.emit("and" if form.name == "&&" else "or", left, right)
    decided = f.b.constant(BOOL, form.name == "||")
    arms = (lambda: (lower(f, form.operands[1]),), lambda: (decided,))
    return f.branch(left, *(arms if form.name == "&&" else arms[::-1]))[0]


def _conditional(f: Frame, node: ast.Conditional) -> Value:
    return _choose(f, lower(f, node.condition), node.then, node.otherwise)


def _choose(f: Frame, condition: Value, then: ast.Expression, otherwise: ast.Expression) -> Value:
    """A branch; a `select` where both sides are known anyway and cost nothing."""
    left, left_made, left_changed = f.trial(lambda: lower(f, then))
    right, right_made, right_changed = f.trial(lambda: lower(f, otherwise))
    plain = scalar_of(left.type) is not None and left.type is right.type
    if plain and not left_changed and not right_changed and not (left_made.ops or right_made.ops):
        return f.emit("select", condition, left, right)
    if (
        plain
        and all(_is_constant(made.ops) for made in (left_made, right_made))
        and not (left_changed or right_changed)
    ):
        f.b.absorb(left_made)
        f.b.absorb(right_made)
        return f.emit("select", condition, left, right)
    return f.branch(condition, lambda: (lower(f, then),), lambda: (lower(f, otherwise),))[0]


def _is_constant(ops: list[Op]) -> bool:
    return all(op.name in ("const", "zero") for op in ops)


def _is_cheap(ops: list[Op]) -> bool:
    """Few ops without effect on numbers that carry no derivative: running them for nothing does no harm."""
    return len(ops) <= 12 and all(
        op.name in PRIMITIVES
        and PRIMITIVES[op.name].effect == PURE
        and (
            PRIMITIVES[op.name].partials in (CONSTANT, NOT_DIFFERENTIABLE, LINEAR)
            or not is_float(op.results[0].type)
        )
        for op in ops
    )


def _store(f: Frame, node: ast.Expression) -> Value:
    form: checked.Store = node.ref
    place = place_of(f, form.place)
    value = lower(f, form.value)
    place.set(f, value)
    return value


def _update(f: Frame, node: ast.Expression) -> Value:
    form: checked.Update = node.ref
    place = place_of(f, form.place)
    old = place.get(f)
    loaded = old if form.load is None else conversions.convert(f, old, form.load)
    step = _step(f, loaded, form)
    if form.function is not None:
        new = calls.call_function(f, form.function, [Temporary(loaded), Temporary(step)])
        assert new is not None
    else:
        new = operators.apply(f, operators.of_update(form.operator), [loaded, step], loaded.type)
    stored = new if form.store is None else conversions.convert(f, new, form.store)
    place.set(f, stored)
    return old if isinstance(node, ast.Postfix) else stored


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
        value = calls.lower_call(f, part, None)
        assert value is not None
        return value
    parts = [lower_part(f, each) for each in part.parts]
    return conversions.assemble(f, parts, f.type(part.type))


def _closure(f: Frame, node: ast.Expression) -> Value:
    return closures.capture(f, node.ref.function, f.type(node.type))


def _type_test(f: Frame, node: ast.Expression) -> Value:
    form: checked.TypeTest = node.ref
    return f.b.constant(BOOL, f.concrete(form.operand.type) is f.concrete(form.target))


PLACES: dict[type, Callable[[Frame, object, ast.Expression], Place]] = {
    checked.Local: _local,
    checked.ThisValue: _this,
    checked.Field: _field,
    checked.TupleElement: _tuple_element,
    checked.Element: _element,
    checked.Swizzle: _swizzle,
    checked.Dereference: _dereference,
    checked.Property: _property,
    checked.Subscript: _subscript,
    checked.Global: _global,
}  # type: ignore[dict-item]

FORMS: dict[type, Callable[[Frame, ast.Expression], Value]] = {
    **dict.fromkeys(PLACES, _read),
    checked.Constant: _constant,
    checked.AddressOf: _address_of,
    checked.Call: _call,
    checked.Operator: _operator,
    checked.Store: _store,
    checked.Update: _update,
    checked.Convert: _convert,
    checked.Construct: _construct,
    checked.Closure: _closure,
    checked.TypeTest: _type_test,
}

NODES: dict[type[ast.Expression], Callable[[Frame, ast.Expression], Value]] = {
    ast.IntLiteral: _literal,
    ast.FloatLiteral: _literal,
    ast.BoolLiteral: _literal,
    ast.CharLiteral: _literal,
    ast.NullLiteral: _null,
    ast.Paren: _paren,
    ast.Comma: _comma,
    ast.NoDiff: _no_diff,
    ast.Conditional: _conditional,
}  # type: ignore[dict-item]
