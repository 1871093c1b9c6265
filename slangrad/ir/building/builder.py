"""Appends ops to a region: computes the type, folds constants, simplifies, reuses equal ops.

    b.emit("mul", x, b.constant(F32, 1))   ->   x           (nothing is appended)

So each pass that rebuilds code also cleans it, and derivative code never contains `mul x, 1`. Control flow is
made around functions that emit what is inside, or with `control` around regions that nested builders filled:

    b.for_(count, [x], lambda inner, i, carried: [inner.emit("mul", carried, y)])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Unpack

from slangrad.base.source import Span
from slangrad.ir.data.numbers import Number, wrap
from slangrad.ir.data.types import BOOL, U32, Array, Scalar, Type, scalar_of
from slangrad.ir.ops import algebra
from slangrad.ir.ops.core import Attributes, Op, Region, Value, alike
from slangrad.ir.ops.effects import primitive_effect
from slangrad.ir.ops.primitives import PURE
from slangrad.ir.ops.type_rules import result_type, scalar_type

Key = tuple[object, ...]
Arm = Callable[["Builder"], Iterable[Value] | None]  # emits into a builder, and gives values, if any
Body = Callable[..., Iterable[Value] | None]  # an Arm that takes values, too
Step = Callable[["Builder", Value, Value], Value]  # emits the next version of a value


class Builder:
    """Fills one region. A nested builder reuses the ops of the outer ones, not the other way round."""

    def __init__(self, outer: Builder | None = None, span: Span | None = None) -> None:
        self.ops: list[Op] = []
        self.span: Span | None = span if span is not None or outer is None else outer.span
        self._outer = outer
        self._known: dict[Key, Value] = {}
        self._keys: set[Key] = (
            set() if outer is None else outer._keys
        )  # of all regions: new values are not searched for
        self._own_values: set[Value] = set()
        self.makers: dict[Value, Op] = {} if outer is None else outer.makers  # one for all regions
        self.made_by = self.makers.get  # the op that made a value; None for parameters

    def nested(self) -> Builder:
        return Builder(self)

    def absorb(self, inner: Builder) -> None:
        """Take over the ops of a nested builder, as if they had been emitted here."""
        self.ops += inner.ops
        self._known.update(inner._known)
        self._own_values |= inner._own_values

    def emit(
        self, name: str, /, *operands: Value, type: Type | None = None, **attributes: Unpack[Attributes]
    ) -> Value:
        """Append a primitive with one result (or find a value that is the same) and return the result."""
        return self.primitive(name, operands, type, attributes)

    def primitive(
        self,
        name: str,
        operands: tuple[Value, ...],
        stated: Type | None,
        attributes: Attributes,
        result: Value | None = None,
    ) -> Value:
        """`emit` with the attributes as a dict; `result`: a value that a new op may make."""
        t = result_type(name, operands, attributes, stated)
        assert t is not None, f"{name} has no result; use effect()"
        if primitive_effect(name, operands) != PURE:
            return self._append(name, operands, t, attributes)
        simpler = algebra.simplify(self, name, operands, attributes, t)
        if simpler is not None:
            return simpler
        key = (name, operands, t, *attribute_key(attributes)) if attributes else (name, operands, t)
        equal = self._find(key)
        if equal is None:
            self._keys.add(key)
            equal = self._known[key] = self._append(name, operands, t, attributes, key, result)
        return equal

    def effect(self, name: str, /, *operands: Value, **attributes: Unpack[Attributes]) -> None:
        """Append a primitive without a result: store, print."""
        assert result_type(name, operands, attributes, None) is None
        self.ops.append(Op(name, operands, (), attributes, (), self.span))

    def again(self, op: Op) -> tuple[Value, ...]:
        """Append an op as it is, or find a value that is the same."""
        key, results = op.key, op.results
        if key is not None:
            equal = self._find(key) if key in self._keys else None
            if equal is not None:
                return (equal,)
            self._keys.add(key)
            self._known[key] = results[0]
        self.ops.append(op)
        for result in results:
            self.makers[result] = op
        self._own_values.update(results)
        return results

    def control(
        self,
        name: str,
        operands: tuple[Value, ...],
        regions: tuple[Region, ...],
        attributes: Attributes | None = None,
    ) -> tuple[Value, ...]:
        """Append if, for or while. The results are what the last region yields."""
        return self.several(name, operands, [v.type for v in regions[-1].yields], regions, attributes)

    def call(
        self,
        callee: str,
        operands: Iterable[Value],
        types: Iterable[Type],
        attributes: Attributes | None = None,
        name: str = "call",
    ) -> tuple[Value, ...]:
        """Append a call, or a request of another name, with results of the given types."""
        return self.several(name, operands, types, (), {**(attributes or Attributes()), "callee": callee})

    def several(
        self,
        name: str,
        operands: Iterable[Value],
        types: Iterable[Type],
        regions: tuple[Region, ...] = (),
        attributes: Attributes | None = None,
        results: tuple[Value, ...] | None = None,
    ) -> tuple[Value, ...]:
        """Append an op with any number of results; `results`: values of those types that no other op makes."""
        results = tuple([Value(t) for t in types]) if results is None else results
        op = Op(name, tuple(operands), results, attributes or Attributes(), regions, self.span)
        self.ops.append(op)
        self.makers.update(dict.fromkeys(results, op))
        self._own_values.update(results)
        return results

    def all(self, conditions: Iterable[Value]) -> Value:
        """Whether all conditions hold."""
        first, *others = dict.fromkeys(conditions) or [self.constant(BOOL, True)]
        for other in others:
            first = self.emit("and", first, other)
        return first

    # --- control flow around code that functions emit, each into a nested builder

    def region(self, parameters: tuple[Value, ...], body: Arm) -> Region:
        inner = self.nested()
        yields = tuple(body(inner) or ())
        return Region(parameters, inner.ops, yields)

    def if_(self, condition: Value, then: Arm, otherwise: Arm) -> tuple[Value, ...]:
        """A branch, whose arms give values of the same types."""
        return self.control("if", (condition,), (self.region((), then), self.region((), otherwise)))

    def guarded(self, condition: Value, then: Arm) -> tuple[Value, ...]:
        """The results of an arm where the condition holds; zeros elsewhere."""
        region, nowhere = self.region((), then), self.nested()
        zeros = tuple([nowhere.zero(v.type) for v in region.yields])
        return self.control("if", (condition,), (region, Region((), nowhere.ops, zeros)))

    def for_(
        self,
        count: Value,
        starts: Iterable[Value],
        body: Body,
        attributes: Attributes | None = None,
        hint: str = "i",
        named: Sequence[Value] | None = None,
    ) -> tuple[Value, ...]:
        """A counted loop of `body(builder, index, *carried)`, which returns the next carried values. Carried values
        get the names of their starts, or those of the values of `named`."""
        starts = tuple(starts)
        parameters = (Value(count.type, hint), *alike(starts if named is None else named))
        region = self.region(parameters, lambda inner: body(inner, *parameters))
        return self.control("for", (count, *starts), (region,), attributes)

    def while_(self, starts: Iterable[Value], test: Callable[..., Value], body: Body) -> tuple[Value, ...]:
        """A loop of `body(builder, *carried)` for as long as `test(builder, *carried)` holds."""
        starts = tuple(starts)
        tested, carried = alike(starts), alike(starts)
        regions = (
            self.region(tested, lambda inner: (test(inner, *tested),)),
            self.region(carried, lambda inner: body(inner, *carried)),
        )
        return self.control("while", starts, regions)

    def repeated(self, count: int, start: Value, step: Step) -> Value:
        """A fold: `start` changed by `step(builder, value, index)` for each index below `count`, in a loop, so the
        size of the code does not depend on the count."""
        changed = lambda inner, index, carried: (step(inner, carried, index),)
        return self.for_(self.constant(U32, count), (start,), changed)[0]

    def with_elements(self, start: Value, element: Step) -> Value:
        """An array with each element replaced, in place, by `element(builder, the array so far, index)`."""
        assert isinstance(start.type, Array) and start.type.length is not None

        def replaced(b: Builder, whole: Value, index: Value) -> Value:
            return b.emit("set_index", whole, index, element(b, whole, index))

        return self.repeated(start.type.length, start, replaced)

    def constant(self, t: Type, value: Number) -> Value:
        """A scalar constant of type `t`, or that scalar in each component of a vector or matrix."""
        scalar = scalar_of(t)
        assert scalar is not None, t
        return self.emit("const", type=t, value=wrap(scalar, value))

    def zero(self, t: Type) -> Value:
        return self.constant(t, 0) if isinstance(t, Scalar) else self.emit("zero", type=t)

    @property
    def size(self) -> int:
        """How many values there are in all regions of the function."""
        return len(self.makers)

    def made_here(self, value: Value) -> bool:
        """Whether an op of this region itself made the value."""
        return value in self._own_values

    def constant_of(self, value: Value) -> Number | None:
        """The number a value is, when it is a constant (for a vector: of each component)."""
        op = self.makers.get(value)
        if op is None or op.name not in ("const", "zero") or scalar_of(value.type) is None:
            return None
        return op.attributes["value"] if op.name == "const" else wrap(scalar_type(value), 0)

    def _find(self, key: Key) -> Value | None:
        scope: Builder | None = self if key in self._keys else None
        while scope is not None:
            value = scope._known.get(key)
            if value is not None:
                return value
            scope = scope._outer
        return None

    def _append(
        self,
        name: str,
        operands: tuple[Value, ...],
        t: Type,
        attributes: Attributes,
        key: Key | None = None,
        result: Value | None = None,
    ) -> Value:
        if result is None or result.type is not t:
            result = Value(t)
        op = Op(name, operands, (result,), attributes, (), self.span, key)
        self.ops.append(op)
        self.makers[result] = op
        self._own_values.add(result)
        return result


def attribute_key(attributes: Attributes) -> Key:
    """Attributes as part of a key: the type tells True from 1, the text -0.0 from 0.0, and NaN equals NaN."""
    items = sorted(attributes.items()) if len(attributes) > 1 else attributes.items()
    return tuple([(k, type(v), repr(v) if isinstance(v, float) else v) for k, v in items])
