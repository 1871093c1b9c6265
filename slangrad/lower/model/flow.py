"""The values of variables at a point of a function under construction, and structured control flow.

    if (c) x = 1;         %x2 = if %c { %one = const 1  yield %one } else { yield %x1 }

Lowering statements is SSA construction over structured code: `variables` maps a variable to the value it holds
at this point. `branch` lowers two arms on copies of it and makes an `if` that yields what either arm
assigned; a loop's `region` carries what its body assigns. Early exits are variables, too (`exits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

from slangrad.base.source import Span
from slangrad.ir.building.builder import Builder
from slangrad.ir.data.types import (
    BOOL,
    Array,
    Struct,
    Type,
    component_count,
    components,
    contains,
    is_aggregate,
    is_float,
    is_long,
)
from slangrad.ir.ops.core import Attributes, Region, Value
from slangrad.syntax import ast

Key = object  # a declaration, or one of the objects below
THIS, RESULT, RETURNED = "this", "result", "returned"
THROWN, ERROR = "thrown", "error"  # out of the function


@dataclass(frozen=True, slots=True)
class PackPart:
    """The variable of one element of a parameter that is a pack."""

    declaration: ast.Variable | ast.ParameterDeclaration
    index: int


Variables = dict[Key, Value]
Values = Callable[[], Iterable[Value] | None]  # code that is lowered, and the values it gives, if any


@dataclass(slots=True)
class Arm:
    """Code that was lowered aside: its ops, the variables after it, the values it gives."""

    builder: Builder
    variables: Variables
    values: tuple[Value, ...]

    def changes(self, before: Variables) -> bool:
        return any(self.variables[key] is not value for key, value in before.items())


class SSABuilder:
    """The builder, and the values of the variables."""

    def __init__(self, span: Span | None) -> None:
        self.b = Builder(span=span)
        self.variables: Variables = {}
        self._unfinished: list[tuple[Value, Builder, Variables, Variables]] = []

    def emit(
        self, name: str, /, *operands: Value, type: Type | None = None, **attributes: Unpack[Attributes]
    ) -> Value:
        return self.b.emit(name, *operands, type=type, **attributes)

    def true(self) -> Value:
        return self.b.constant(BOOL, True)

    def false(self) -> Value:
        return self.b.constant(BOOL, False)

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """Ops emitted within carry this place in the text."""
        outer, self.b.span = self.b.span, span or self.b.span
        builder = self.b
        try:
            yield
        finally:
            builder.span = self.b.span = outer

    def detached(self, value: Value) -> Value:
        """Without derivative; only floats and aggregates of floats can carry one."""
        return self.emit("detach", value) if contains(value.type, is_float) else value

    # --- structured control flow

    def arm(self, lower: Values) -> Arm:
        """Lower aside, into a separate builder and on a copy of the variables; `join` and `keep` insert the
        code."""
        outer, before = self.b, self.variables
        self.b, self.variables = outer.nested(), dict(before)
        try:
            values = self.finished(lower)
            return Arm(self.b, self.variables, values)
        finally:
            self.b, self.variables = outer, before

    def keep(self, arm: Arm) -> tuple[Value, ...]:
        """Insert code that was lowered aside here, unconditionally."""
        self.b.absorb(arm.builder)
        self.variables = arm.variables
        return arm.values

    def branch(
        self, condition: Value, then: Values, otherwise: Values = tuple, hint: str = ""
    ) -> tuple[Value, ...]:
        """Both arms, each on its own copy of the variables; returns the values they return, merged. `hint` is "branch"
        or "flatten", as in the text.
        """
        constant = self.b.constant_of(condition)
        if constant is not None:
            return tuple((then() if constant else otherwise()) or ())
        return self.join(condition, self.arm(then), self.arm(otherwise), hint)

    def join(self, condition: Value, then: Arm, otherwise: Arm, hint: str = "") -> tuple[Value, ...]:
        """Insert one of two arms by the condition; variables that an arm changed are merged."""
        arms = (then, otherwise)
        before = self.variables
        changed = [key for key, old in before.items() if any(arm.variables[key] is not old for arm in arms)]
        yields = [[*arm.values, *(arm.variables[key] for key in changed)] for arm in arms]
        merged = self._merge(condition, [arm.builder for arm in arms], yields[0], yields[1], hint)
        count = len(merged) - len(changed)
        before.update(zip(changed, merged[count:], strict=True))
        return merged[:count]

    def _merge(
        self, condition: Value, builders: list[Builder], left: list[Value], right: list[Value], hint: str
    ) -> tuple[Value, ...]:
        """An `if` that yields what differs between the arms; constant truth values are the condition."""
        outer = self.b
        agreed = [_agreed(outer, builders, condition, x, y) for x, y in zip(left, right, strict=True)]
        places = [i for i, value in enumerate(agreed) if value is None]
        if not places and not any(builder.ops for builder in builders):
            return tuple(value for value in agreed if value is not None)
        regions = tuple(
            Region((), builder.ops, tuple(values[i] for i in places))
            for builder, values in zip(builders, (left, right), strict=True)
        )
        results = iter(outer.control("if", (condition,), regions, {"arms": hint} if hint else None))
        return tuple(next(results) if value is None else value for value in agreed)

    # --- leaving from within an expression

    def leave_where(self, left: Value, flags: list[Key]) -> None:
        """Code lowered next, up to the end of the `finished` around it, runs only where control has not left, so
        `flags` are false there."""
        if self.b.constant_of(left) is False:
            return
        unset = {flag: self.variables[flag] for flag in flags}
        self._unfinished.append((left, self.b, self.variables, unset))
        self.b = self.b.nested()
        self.variables = {**self.variables, **dict.fromkeys(unset, self.false())}

    def finished(self, lower: Values) -> tuple[Value, ...]:
        """The results of `lower`; zero where control has left meanwhile."""
        depth = len(self._unfinished)
        values = tuple(lower() or ())
        while len(self._unfinished) > depth:
            values = self._finish(values)
        return values

    def _finish(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        left, outer, before, flags = self._unfinished.pop()
        builder, after = self.b, self.variables
        after.update({key: old for key, old in flags.items() if builder.constant_of(after[key]) is False})
        new = [key for key in after if key not in before]
        stays = Arm(builder, after, (*values, *(after[key] for key in new)))
        self.b, self.variables = outer, before
        skipped = self.arm(lambda: [self.b.zero(value.type) for value in stays.values])
        merged = self.join(left, skipped, stays)
        count = len(values)
        self.variables.update(zip(new, merged[count:], strict=True))
        return merged[:count]

    def loop_variables(self, assigned: Iterable[Key]) -> list[Key]:
        """Those of the assigned variables that exist before the loop, in a fixed order."""
        wanted = set(assigned)
        return [key for key in self.variables if declaration_of(key) in wanted]

    def region(self, carried: list[Key], lower: Values, *first: Value) -> Region:
        """A loop's region: `first` and then the carried variables are its parameters; yields what `lower`
        returns, or else the carried variables."""
        outer, before = self.b, self.variables
        parameters = tuple(Value(before[key].type, _name(key) or before[key].hint) for key in carried)
        self.b, self.variables = outer.nested(), {**before, **dict(zip(carried, parameters, strict=True))}
        gave_values = []

        def lowered() -> Iterable[Value]:
            values = lower()
            gave_values.append(values is not None)
            return () if values is None else values

        values = self.finished(lowered)
        yields = values if gave_values[0] else tuple(self.variables[key] for key in carried)
        region = Region((*first, *parameters), self.b.ops, yields)
        self.b, self.variables = outer, before
        return region

    def elementwise(self, t: Array, element: Callable[[Value], Value]) -> Value:
        """A long array, whose element at an index `element` gives, one after the other in a loop."""
        assert t.length is not None
        zero = self.b.zero(t)
        return self.repeated(t.length, zero, lambda whole, i: self.emit("set_index", whole, i, element(i)))

    def componentwise(self, value: Value, t: Type, change: Callable[[Value, Type], Value]) -> Value:
        """A value of type `t`. `change` makes each component from that of another value and its own type."""
        if isinstance(t, Array) and is_long(t):
            element = t.element
            return self.elementwise(t, lambda i: change(self.emit("index", value, i), element))
        parts = [change(self.emit("get", value, index=i), part) for i, part in enumerate(components(t))]
        return self.emit("make", *parts, type=t)

    def scalars(self, value: Value, structs: bool = False) -> list[Value]:
        """The scalars of a vector, matrix or array, in order. With `structs`, a struct yields its scalars, too; without
        it, the struct itself."""
        if not is_aggregate(value.type) or (isinstance(value.type, Struct) and not structs):
            return [value]
        parts = (self.emit("get", value, index=i) for i in range(component_count(value.type)))
        return [scalar for part in parts for scalar in self.scalars(part, structs)]

    def repeated(self, count: int, start: Value, step: Callable[[Value, Value], Value]) -> Value:
        """`start` changed by `step(the value so far, index)`, in a loop. No variable changes in it."""

        def inside(b: Builder, value: Value, index: Value) -> Value:
            outer, self.b = self.b, b
            try:
                return step(value, index)
            finally:
                self.b = outer

        return self.b.repeated(count, start, inside)

    def finish_loop(
        self,
        name: str,
        carried: list[Key],
        operands: tuple[Value, ...],
        regions: tuple[Region, ...],
        attributes: Attributes,
    ) -> None:
        """Append the loop and let the carried variables be its results."""
        starts = tuple(self.variables[key] for key in carried)
        results = self.b.control(name, (*operands, *starts), regions, attributes)
        for key, old, new in zip(carried, starts, results, strict=True):
            new.hint = old.hint
            self.variables[key] = new


def _name(key: Key) -> str:
    return key.name if isinstance(key, ast.Declaration) else ""


def declaration_of(key: Key) -> Key:
    return key.declaration if isinstance(key, PackPart) else key


def _agreed(
    outer: Builder, builders: list[Builder], condition: Value, left: Value, right: Value
) -> Value | None:
    """The merged value if it needs no result of an `if`."""
    if left is right:
        return left
    x, y = builders[0].constant_of(left), builders[1].constant_of(right)
    if x is None or y is None or left.type is not right.type:
        return None
    if left.type is BOOL:
        return outer.constant(BOOL, x) if x == y else condition if x else outer.emit("not", condition)
    return outer.constant(left.type, x) if repr(x) == repr(y) else None
