"""Declarations of the standard library that are ops: `[intrinsic("sin")] T sin<T : ...>(T x);`

    sin(v)              %r = sin %v              rows of the primitive table, by their name
    atomic_add(p, x)    atomic {kind="add"}      "atomic.<kind>": the first argument is a place in memory
    printf("%f\\n", x)   print {format="%f\\n"}
"""

from __future__ import annotations

from collections.abc import Callable

from slangrad.check import checked
from slangrad.check import types as checked_types
from slangrad.check.declref import DeclRef
from slangrad.ir.core import Value
from slangrad.ir.primitives import ATOMIC_KINDS, PRIMITIVES
from slangrad.ir.types import Array, Matrix, Pointer, Scalar, Struct, Type, Vector, components, pointer
from slangrad.lower import calls, expressions
from slangrad.lower.frame import Frame
from slangrad.lower.places import Place, Temporary
from slangrad.syntax import ast

Rule = Callable[[Frame, str, list[Place], Type | None], Value | None]


def lower_intrinsic(
    f: Frame, info: checked.FunctionInfo, reference: DeclRef, form: checked.Call, node: ast.Expression | None
) -> Value | None:
    if info.intrinsic == "print":
        return _print(f, form)
    places = [] if form.this is None or info.this_type is None else [expressions.place_of(f, form.this)]
    for parameter, argument in zip(info.parameters, form.arguments, strict=True):
        if isinstance(argument, checked.Default):
            places.append(Temporary(calls.default_argument(f, argument, reference)))
        elif f.program.info(parameter).direction == "in":
            places.append(Temporary(expressions.lower(f, argument)))
        else:
            places.append(expressions.place_of(f, argument))
    return apply(f, info, reference, places, node)


def apply(
    f: Frame, info: checked.FunctionInfo, reference: DeclRef, places: list[Place], node: ast.Expression | None
) -> Value | None:
    result = f.program.substitute(info.result, reference.substitution)
    t = None if result is checked_types.VOID else f.lowering.types.of(result, f.b.span)
    assert info.intrinsic is not None
    name, _, kind = info.intrinsic.partition(".")
    return RULES.get(name, _primitive)(f, kind or name, places, t)


def _primitive(f: Frame, name: str, places: list[Place], t: Type | None) -> Value | None:
    assert name in PRIMITIVES, f"the standard library names an unknown op '{name}'"
    operands = [place.get(f) for place in places]
    if t is None:
        f.b.effect(name, *operands)
        return None
    return f.emit(name, *operands, type=t)


def _load(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    address = places[0].get(f)
    assert isinstance(address.type, Pointer)
    return f.emit("load", address, type=address.type.element)


def _atomic(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value | None:
    """On memory, component by component; on a local variable, which no other thread sees, read and write."""
    target = places[0]
    address = target.address(f)
    operands = [place.get(f) for place in places[1:]]
    if isinstance(target, Temporary) and isinstance(target.type, Pointer):
        address = target.get(f)
    if address is None:
        return _on_local(f, kind, target, operands)
    return _atomic_on(f, kind, address, operands)


def _atomic_on(f: Frame, kind: str, address: Value, operands: list[Value]) -> Value:
    assert isinstance(address.type, Pointer)
    element = address.type.element
    if isinstance(element, Scalar):
        return _atomic_scalar(f, kind, address, operands)
    if isinstance(element, Struct) and len(element.fields) == 1 and operands and operands[0].type is not element:
        return _atomic_on(f, kind, f.emit("member", address, index=0), operands)  # Atomic<T> is a struct around T
    parts = []
    for i, _ in enumerate(components(element)):
        own = [f.emit("get", x, index=i) for x in operands]
        parts.append(_atomic_on(f, kind, f.emit("member", address, index=i), own))
    assert isinstance(element, (Vector, Matrix, Array, Struct)), element
    return f.emit("make", *parts, type=element)


def _atomic_scalar(f: Frame, kind: str, address: Value, operands: list[Value]) -> Value:
    assert isinstance(address.type, Pointer)
    element = address.type.element
    if kind == "load":
        return f.emit("load", address, type=element)
    if kind == "store":
        return f.emit("atomic", address, *operands, type=element, kind="exchange")
    if kind == "sub":
        kind, operands = "add", [f.emit("neg", operands[0])]
    assert kind in ATOMIC_KINDS, kind
    return f.emit("atomic", address, *operands, type=element, kind=kind)


ON_VALUES = {"add": "add", "sub": "sub", "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor"}


def _on_local(f: Frame, kind: str, target: Place, operands: list[Value]) -> Value:
    if isinstance(target.type, Struct):
        target = target.component(f, 0)
    old = target.get(f)
    if kind == "load":
        return old
    if kind == "compare_exchange":
        new = f.emit("select", f.emit("equal", old, operands[0]), operands[1], old)
    else:
        new = f.emit(ON_VALUES[kind], old, operands[0]) if kind in ON_VALUES else operands[0]
    target.set(f, new)
    return old


def _address(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """The address of a place in memory."""
    address = places[0].address(f)
    if address is None:
        f.error("E0705", "this needs a place in memory, and local variables have no address", f.b.span)
        return f.b.zero(t if t is not None else pointer(places[0].type))
    return address


def _print(f: Frame, form: checked.Call) -> None:
    literal = form.arguments[0]
    while isinstance(literal, ast.Paren):
        literal = literal.inner
    if not isinstance(literal, ast.StringLiteral):
        f.error("E0707", "the format of printf must be a string literal", f.b.span)
        return
    values = [expressions.lower(f, each) for each in form.arguments[1:] if isinstance(each, ast.Expression)]
    f.b.effect("print", *(scalar for value in values for scalar in _printed(f, value)), format=literal.value)


def _printed(f: Frame, value: Value) -> list[Value]:
    """A vector prints as its components, each with a format of its own."""
    if isinstance(value.type, (Vector, Matrix, Array, Struct)):
        count = sum(1 for _ in components(value.type))
        return [scalar for i in range(count) for scalar in _printed(f, f.emit("get", value, index=i))]
    return [value]


RULES: dict[str, Rule] = {
    "atomic": _atomic,
    "load": _load,
    "address": _address,
}
