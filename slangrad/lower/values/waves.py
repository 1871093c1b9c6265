"""Operations on waves: `WaveActiveSum(x)` and its like.

WaveActiveSum(v)       %r = wave_reduce %v.x {kind="add"} ...      each component by itself
"""

from __future__ import annotations

from typing import Unpack

from slangrad.ir.core import Attributes, Value
from slangrad.ir.types import Pointer, Scalar, Type
from slangrad.lower.model.frame import Frame, Place


def each_component(f: Frame, name: str, places: list[Place], /, **attributes: Unpack[Attributes]) -> Value:
    """The op on each scalar of the first operand; the other operands are the same for all."""
    value, *others = (place.get(f) for place in places)
    return _on(f, name, value, others, attributes)


def _on(f: Frame, name: str, value: Value, others: list[Value], attributes: Attributes) -> Value:
    if isinstance(value.type, (Scalar, Pointer)):
        return f.emit(name, value, *others, type=value.type, **attributes)
    return f.componentwise(value, value.type, lambda part, _: _on(f, name, part, others, attributes))


def reduce(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_reduce", places, kind=kind)


def scan(f: Frame, kind: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_scan", places, kind=kind)


def read(f: Frame, name: str, places: list[Place], t: Type | None) -> Value:
    return each_component(f, "wave_read", places)
