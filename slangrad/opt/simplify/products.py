"""Products with derivatives: plain ones, where no infinity or NaN can meet a zero that means "nothing arrives here".

    %s = scale %p, %d       ->   %s = mul %p, %d                    a load times a derivative
                            ->   %m = mul %p, %d                    %p = div 1, %x, and a mask stands before %d
                                 %z = equal %d, 0
                                 %s = select %z, 0, %m

In: the code of a kernel, inlined, after differentiation. No later pass handles `scale`. Two facts are propagated. A
value may be *singular*: infinite or NaN although all loaded values are finite and sums and products do not
overflow. A value may be *masked*: a zero because a branch was not taken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

from slangrad.ir.analyses.intervals import Ranges
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data.types import is_aggregate, is_float, scalar_of
from slangrad.ir.ops.control import carried, merged
from slangrad.ir.ops.core import Function, Op, Region, Value, walk
from slangrad.ir.ops.type_rules import scalar_type

AWAY = 1e-4  # numbers beyond have an inverse and a logarithm in each type
MOST = 10.0  # powers up to this exponent do not overflow


def settle_products(function: Function) -> Function:
    """The function without `scale`."""
    if not any(op.name == "scale" for op in walk(function.region)):
        return function
    facts = _Facts(function.region)

    def scale(walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        product = b.emit("mul", *walk.values(op.operands))
        zero = None
        for factor in facts.zeros(op):
            value = walk.value(factor)
            is_zero = b.emit("equal", value, b.constant(value.type, 0))
            zero = is_zero if zero is None else b.emit("or", zero, is_zero)
        return (product if zero is None else b.emit("select", zero, b.constant(product.type, 0), product),)

    return Rebuild({"scale": scale}).function(function)


class _Facts:
    """Both facts of all values, propagated along the uses until a fixpoint."""

    def __init__(self, region: Region) -> None:
        self._makers = region.makers
        self._users: dict[Value, list[Op]] = defaultdict(list)
        self._flows: dict[Value, list[Value]] = defaultdict(list)  # to values that may be this one
        self._ranges = Ranges()
        ops = list(walk(region))
        self._loaded = {op.results[0] for op in ops if op.name == "load"}
        self._zeros = {op.results[0] for op in ops if op.results and _begins_masked(op)}
        for op in ops:
            self._add(op)
        unknown = (*region.parameters, *(r for op in ops if op.name == "call" for r in op.results))
        self._outside_values = {v for v in unknown if _holds_floats(v)}
        self._singular = self._closed(self._begins_singular, self._stays_singular)
        self._masked = self._closed(_begins_masked, self._stays_masked)

    def zeros(self, op: Op) -> list[Value]:
        """The factors of a `scale` that win over the other one where they are zero."""
        p, d = op.operands
        always = not op.attributes.get("masks_only")
        return [
            x for x, other in ((d, p), (p, d)) if other in self._singular and (always or x in self._masked)
        ]

    def _add(self, op: Op) -> None:
        if op.regions:
            self._add_flows(op)
        elif op.results and _holds_floats(op.results[0]):
            for v in op.operands[1:] if op.name == "select" else op.operands:
                self._users[v].append(op)

    def _add_flows(self, op: Op) -> None:
        """An arm's yields are results; what a loop starts with and yields is carried, and a result."""
        for loop_value in carried(op):
            for v in (loop_value.start, loop_value.yielded):
                self._flows[v] += (loop_value.result, *loop_value.inside)
        for result, *arms in merged(op) if op.name == "if" else ():
            for v in arms:  # a zero in the place of what lies out of range is no mask
                if v not in self._zeros or self._loaded.isdisjoint(arms):
                    self._flows[v].append(result)

    def _closed(self, begins: Callable[[Op], bool], goes_on: Callable[[Op], bool]) -> set[Value]:
        """All values that have a fact."""
        reached_values = self._reached = {
            r for r, op in self._makers.items() if not op.regions and begins(op)
        }
        reached_values |= self._outside_values  # other functions may give anything
        left = list(reached_values)
        while left:
            v = left.pop()
            users = (
                op for op in self._users.get(v, ()) if op.results[0] not in reached_values and goes_on(op)
            )
            for reached in (*(op.results[0] for op in users), *self._flows.get(v, ())):
                if reached not in reached_values:
                    reached_values.add(reached)
                    left.append(reached)
        return reached_values

    # --- singular

    def _begins_singular(self, op: Op) -> bool:
        rule = _SINGULAR.get(op.name)
        return rule is not None and is_float(scalar_type(op.results[0])) and rule(self, op)

    def _stays_singular(self, op: Op) -> bool:
        """A number between finite bounds is chosen in the place of a NaN, and of an infinity."""
        if op.name not in ("min", "max"):
            return True
        finite = [
            operand not in self._reached and _is_finite(self.bounds(operand)) for operand in op.operands
        ]
        return not (any(finite) and _is_finite(self.bounds(op.results[0])))

    def bounds(self, v: Value) -> tuple[float, float]:
        return self._ranges.of(self, v)[:2]

    def made_by(self, v: Value) -> Op | None:
        return self._makers.get(v)

    def _divides(self, op: Op) -> bool:
        low, high = self.bounds(op.operands[1])
        return low < AWAY and high > -AWAY

    def _grows(self, op: Op) -> bool:
        return self.bounds(op.operands[0])[1] > MOST

    def _grows_both_ways(self, op: Op) -> bool:
        low, high = self.bounds(op.operands[0])
        return high > MOST or low < -MOST

    def _reaches_zero(self, op: Op) -> bool:
        return self.bounds(op.operands[0])[0] < AWAY

    def _is_negative(self, op: Op) -> bool:
        return self.bounds(op.operands[0])[0] < 0

    def _always(self, op: Op) -> bool:
        return True

    # --- masked

    def _stays_masked(self, op: Op) -> bool:
        """Whether a masked operand makes the result zero, or zero as far as it is a derivative."""
        flags = [v in self._reached for v in op.operands]
        if op.name in ("add", "sub"):
            return all(flags)
        if op.name == "fma":
            return (flags[0] or flags[1]) and flags[2]
        return flags[0] if op.name in ("div", "rem") else True


def _begins_masked(op: Op) -> bool:
    """Constant zeros: what a choice or a structure begins with. Products with them are folded before. Zeros of an
    array that is `written_first` are not read."""
    if op.name == "zero":
        return not op.attributes.get("written_first")
    return op.name == "const" and op.attributes["value"] == 0 and _holds_floats(op.results[0])


def _is_finite(bounds: tuple[float, float]) -> bool:
    return all(map(math.isfinite, bounds))


def _holds_floats(v: Value) -> bool:
    scalar = scalar_of(v.type)
    return is_aggregate(v.type) if scalar is None else is_float(scalar)


_SINGULAR: dict[str, Callable[[_Facts, Op], bool]] = {
    **dict.fromkeys(("div", "rem"), _Facts._divides),
    **dict.fromkeys(("exp", "exp2"), _Facts._grows),
    **dict.fromkeys(("sinh", "cosh"), _Facts._grows_both_ways),
    **dict.fromkeys(("log", "log2", "log10"), _Facts._reaches_zero),
    "sqrt": _Facts._is_negative,
    **dict.fromkeys(("pow", "asin", "acos", "acosh", "atanh"), _Facts._always),
}
