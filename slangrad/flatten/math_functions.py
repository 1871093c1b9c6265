"""Maths primitives that a target has no instruction for become the library's code for them.

    %r = sin %x : f32        the body of @sin_f32 on %x
    %h = exp %y : f16        %w = convert %y : f32     the body of @exp_f32 on %w     %h = convert %r : f16
    a thousand of them       %r = call @sin.f32 %x

In: flat IR, and flat functions of scalars by primitive and type. Primitives in `approximated` stay for floats, if the
target has instructions for them. Elementary functions are Slang (std/math_functions*.slang), so they vectorize with the
rest and give the same bits everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, copy_op
from slangrad.ir.data.types import F32, NARROW_FLOATS, Scalar
from slangrad.ir.ops.core import Function, Op, Value, walk
from slangrad.ir.ops.effects import effect_of_call
from slangrad.ir.ops.primitives import INEXACT
from slangrad.ir.ops.type_rules import scalar_type

MOST_INLINED = (
    3_000  # ops that maths may become in a kernel; beyond, functions that are used again are called
)

Library = Mapping[tuple[str, Scalar], Function]


def kept_maths(
    functions: Iterable[Function], library: Library, approximated: Set[str] = frozenset()
) -> list[Function]:
    """The library's functions that are called: with their code in each place the kernel would be large."""
    ops = [op for f in functions for op in walk(f.region) if op.name in INEXACT]
    uses = Counter(_key(op) for op in ops if not _stays(op, approximated))
    sizes = {key: sum(1 for _ in walk(library[key].region)) for key in uses}
    if sum(n * sizes[key] for key, n in uses.items()) <= MOST_INLINED:
        return []
    return [
        replace(library[key], name=_name(key), attributes={"kept": True, "relies_on_rounding": True})
        for key, n in uses.items()
        if n > 1
    ]


def expand_math(
    function: Function,
    library: Library,
    kept: Mapping[str, Function],
    approximated: Set[str] = frozenset(),
) -> Function:
    """The function without maths primitives, but for those of floats that are `approximated`. Those of `kept` are
    called."""
    used = {_name(_key(op)) for op in walk(function.region) if op.name in INEXACT}
    effects = {name: effect_of_call(kept[name]) for name in used if name in kept}

    def expand(rebuild: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        if _stays(op, approximated):
            return copy_op(rebuild, b, op)
        operands = rebuild.values(op.operands)
        (t,) = {x.type for x in operands}
        name, wide = _key(op)
        arguments = tuple(b.emit("convert", x, type=wide) for x in operands)
        if _name((name, wide)) in effects:
            callee = _name((name, wide))
            (result,) = b.call(callee, arguments, (wide,), {"effect": effects[callee]})
            return (b.emit("convert", result, type=t),)
        inner = Rebuild()
        body = library[name, wide].region
        inner.new.update(zip(body.parameters, arguments, strict=True))
        with inner.called_from(b.span):
            (result,) = inner.inline(b, body)
        return (b.emit("convert", result, type=t),)

    expanded = Rebuild(dict.fromkeys(INEXACT, expand)).function(function)
    if expanded is function or not approximated:
        return expanded
    return replace(expanded, attributes={**function.attributes, "relies_on_rounding": True})


def _stays(op: Op, approximated: Set[str]) -> bool:
    return op.name in approximated and _key(op)[1] is F32


def _key(op: Op) -> tuple[str, Scalar]:
    """The function of the library, which has none for halves."""
    t = scalar_type(op.operands[0])
    return op.name, F32 if t in NARROW_FLOATS else t


def _name(key: tuple[str, Scalar]) -> str:
    return f"{key[0]}.{key[1]}"
