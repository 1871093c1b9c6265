"""Declarations of the standard library that are ops: `[intrinsic("sin")] T sin<T : ...>(T x);`

sin(v)              %r = sin %v              rows of the primitive table, by their name
atomic_add(p, x)    atomic {kind="add"}      "atomic.<kind>": the first argument is a place in memory
WaveActiveSum(v)    wave_reduce {kind="add"} of each component by itself
printf("%f\\n", x)   print {format="%f\\n"}   see prints.py, and print_lines.py for print("{}", x)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slangrad.base.options import CONVERTED
from slangrad.check.model import checked
from slangrad.check.model import types as checked_types
from slangrad.check.model.declref import DeclRef
from slangrad.ir.data.types import U32, Array, Pointer, Scalar, Struct, Type, scalar_of
from slangrad.ir.ops.core import Attributes, Value
from slangrad.ir.ops.primitives import GROUP_SIZE, PRIMITIVES, QUAD_ROW
from slangrad.lower.calls import atomics, print_lines, prints
from slangrad.lower.calls.arguments import argument_value
from slangrad.lower.model.frame import Frame, Place
from slangrad.lower.places.places import MemoryPlace, Temporary
from slangrad.lower.values import operators
from slangrad.lower.values.any_values import dynamic_object, reinterpret
from slangrad.lower.values.bit_casts import bit_cast
from slangrad.syntax import ast

Rule = Callable[[Frame, str, list[Place], Type | None], Value | None]


def lower_intrinsic(
    f: Frame, info: checked.FunctionInfo, reference: DeclRef, form: checked.FunctionCall
) -> Value | None:
    if info.intrinsic == "print":
        prints.lower_print(f, form)
        return None
    if info.intrinsic == "ignore":
        return None
    if info.intrinsic == "print_line":
        print_lines.lower_print(f, form)
        return None
    places = [] if form.this is None or info.this_type is None else [f.place(form.this)]
    for parameter, argument in zip(info.parameters, form.arguments, strict=True):
        if not is_operand(f, parameter):
            continue
        if isinstance(argument, checked.Default) or f.program.info(parameter).direction == "in":
            places.append(Temporary(argument_value(f, argument, reference)))
        else:
            places.append(f.place(argument))
    return apply(f, info, reference, places)


def is_operand(f: Frame, parameter: ast.ParameterDeclaration) -> bool:
    """An order of memory is none: all atomics are as strong as there is."""
    declared = f.program.info(parameter).type
    return not (isinstance(declared, checked_types.EnumType) and str(declared) == "MemoryOrder")


def apply(f: Frame, info: checked.FunctionInfo, reference: DeclRef, places: list[Place]) -> Value | None:
    declared = _typed_by(info, reference.declaration)
    assert declared is not None and info.intrinsic is not None
    result = f.program.substitute(declared, reference.substitution)
    t = None if result is checked_types.VOID else f.lowering.types.of(result, f.b.span)
    name, _, kind = info.intrinsic.partition(".")
    return RULES.get(name, _primitive)(f, kind or name, places, t)


def _typed_by(info: checked.FunctionInfo, declaration: ast.Declaration) -> checked_types.Type | None:
    """The type for a rule: the constructed type, the type of added or made tangents, or the type of the result."""
    if isinstance(declaration, ast.Constructor):
        return info.this_type
    if info.intrinsic in ("differential_zero", "differential_add"):
        assert isinstance(declaration.parent, ast.Interface)
        return checked_types.parameter_type(declaration.parent)
    return info.result


def _primitive(f: Frame, name: str, places: list[Place], t: Type | None) -> Value | None:
    assert name in PRIMITIVES, f"the standard library names an unknown op '{name}'"
    operands = [place.get(f) for place in places]
    if t is None:
        f.b.effect(name, *operands)
        return None
    return f.emit(name, *operands, type=t)


def _stated(t: Type | None) -> Type:
    assert t is not None
    return t


def _shift(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    value, amount = (place.get(f) for place in places)
    return operators.shifted(f, name, value, operators.like(f, amount, value.type))


def _same(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    assert t is not None
    value = places[0].get(f)
    if value.type is t:
        return value
    f.error(
        "E0713", "a value can be seen as one of a type of the same form only", f.b.span, "convert it: T(x)"
    )
    return f.b.zero(t)


def _tangent_add(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    assert t is not None
    x, y = (place.get(f) for place in places)
    return f.lowering.tangents.space.add(f.b, t, x, y)


def _tangent_scale(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """A multiple of a tangent. Parts without a derivative stay the same."""
    factor, x = (place.get(f) for place in places)
    return _scaled(f, factor, x)


def _scaled(f: Frame, factor: Value, x: Value) -> Value:
    t, scalar = x.type, scalar_of(x.type)
    if isinstance(t, (Array, Struct)):
        return f.componentwise(x, t, lambda part, _: _scaled(f, factor, part))
    if scalar is None or scalar.kind != "float":
        return x
    converted = f.emit("convert", factor, type=scalar)
    return f.emit("mul", converted if t is scalar else f.emit("splat", converted, type=t), x)


def _thread_place(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """Where the thread is among all of the launch."""
    axes = [f.emit("thread_id", type=U32, axis=axis) for axis in range(3)]
    return f.emit("make", *axes, type=t)


def _string_hash(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """A number, or a struct that holds it."""
    number = places[0].get(f)
    return f.emit("make" if isinstance(t, Struct) else "convert", number, type=t)


def _in_wave(op: str, f: Frame, kind: str, places: list[Place], t: Type | None) -> Value:
    """On each scalar of the first operand; the other operands are the same for all."""
    value, *others = (place.get(f) for place in places)
    attributes: Attributes = {} if kind == op else {"kind": kind}

    def exchanged(part: Value, t: Type) -> Value:
        if isinstance(t, (Scalar, Pointer)):
            return f.b.primitive(op, (part, *others), t, attributes)
        return f.componentwise(part, t, exchanged)

    return exchanged(value, value.type)


def _plain_texels(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    """Whether a format is that of texels as programs see them; a report where it is not."""
    return f.emit("in_bounds", places[0].get(f), f.b.constant(U32, 1), text=CONVERTED)


# fmt: off
RULES: dict[str, Rule] = {
    "atomic":             atomics.apply,
    "bitcast":            bit_cast,
    "dynamic_object":     dynamic_object,
    "string_hash":        _string_hash,
    "reinterpret":        reinterpret,
    **{name: partial(_in_wave, name) for name in ("wave_reduce", "wave_scan", "wave_read")},
    "load":               lambda f, name, places, t: MemoryPlace(places[0].get(f)).get(f),
    "shl":                _shift,
    "shr":                _shift,
    "zero":               lambda f, name, places, t: f.b.zero(_stated(t)),
    "same":               _same,
    "plain_texels":       _plain_texels,
    "differential_zero":  lambda f, name, places, t: f.lowering.tangents.space.zero(f.b, _stated(t)),
    "differential_add":   _tangent_add,
    "differential_scale": _tangent_scale,
    "thread_place":       _thread_place,
    # The kernel's, and a constant after inlining (opt/simplify/statics.py).
    "group_size":         lambda f, name, places, t: f.emit("read_static", type=t, name=GROUP_SIZE),
    "quad_row":           lambda f, name, places, t: f.emit("read_static", type=t, name=QUAD_ROW),
    "set_prints":         lambda f, name, places, t: print_lines.lower_set_prints(f, places[0].get(f)),
}
# fmt: on
