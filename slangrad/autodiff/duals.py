"""Functions with pointers to values that have derivatives. Each pointer gets a second one, which points to the
derivatives of those values.

    func @f(%p, %x) { %q = call @next %p   %v = call @load %q ... }

    func @f.dual(%p, %dp, %x) { %q, %dq = call @next.dual %p, %dp   %v = call @load.dual %q, %dq ... }

The other half of a pointer moves with it through structs, arrays, branches and loops. If a pointer is made of parts
of another one and of integers, its half is made of the same parts of the other half. Values behind pointers are
handled by the user's own derivatives, which take pairs of pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from slangrad.base.diagnostics import CompileError, Diagnostic
from slangrad.ir.building.builder import Builder
from slangrad.ir.building.rebuild import Rebuild, Rule, copy_op
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.data.types import (
    Array,
    Pointer,
    Struct,
    Type,
    array,
    components,
    contains,
    is_aggregate,
    is_float,
)
from slangrad.ir.ops.control import carried, merged
from slangrad.ir.ops.core import Function, Op, Parameter, Region, Value
from slangrad.ir.ops.primitives import PRIMITIVES, PURE

DualOf = Callable[[str], tuple[Function, Function] | None]
"""A function that stays a call, and the one with two parameters for each pointer; None where it has no pointers."""


class Duals:
    """Which types are pointers with derivatives, and the types of their other halves."""

    def __init__(self, types: Mapping[Struct, Type]) -> None:
        self._types = types

    def of(self, t: Type) -> Type | None:
        if isinstance(t, Array):
            element = self.of(t.element)
            return None if element is None else array(element, t.length)
        return self._types.get(t) if isinstance(t, Struct) else None

    def is_pair(self, t: Type) -> bool:
        """Whether a struct is a pointer and its other half."""
        if not isinstance(t, Struct) or [name for name, _ in t.fields] != ["p", "d"]:
            return False
        first, second = (field for _, field in t.fields)
        return self.of(first) is second

    def is_pointer(self, p: Parameter) -> bool:
        """Whether a parameter is a pointer with derivatives."""
        return p.differentiable and self.of(p.type) is not None

    def result(self, f: Function) -> Type | None:
        """The type of the other half of what a function returns."""
        return None if f.return_type is None or not f.return_differentiable else self.of(f.return_type)

    def inputs(self, f: Function) -> list[bool]:
        return [self.is_pointer(p) for p in f.inputs]

    def results(self, f: Function) -> list[bool]:
        returned = [] if f.return_type is None else [self.result(f) is not None]
        return returned + [self.is_pointer(p) for p in f.outputs]

    def has_any(self, f: Function) -> bool:
        return any(self.inputs(f)) or any(self.results(f))


def dual_function(f: Function, duals: Duals, dual_of: DualOf) -> Function:
    """`f` with its pointers in two halves. Its calls are inlined, but for those that have derivatives of their own."""
    walk, b = _Dual(duals, dual_of), Builder(span=f.span)
    inputs: list[Value] = []
    for p, old, flag in zip(f.inputs, f.region.parameters, duals.inputs(f), strict=True):
        walk.new[old] = Value(p.type, p.name)
        inputs.append(walk.new[old])
        if flag:
            walk.halves[old] = Value(_type_of(duals, p.type), f"d{p.name}")
            inputs.append(walk.halves[old])
    yields: list[Value] = []
    for old, value, flag in zip(f.region.yields, walk.inline(b, f.region), duals.results(f), strict=True):
        yields += [value, walk.half(b, old)] if flag else [value]
    region = Region(tuple(inputs), b.ops, tuple(yields))
    return replace(
        f, name=f"{f.name}.dual", parameters=_parameters(f, duals), region=region, derivatives=None
    )


def _type_of(duals: Duals, t: Type) -> Type:
    dual = duals.of(t)
    assert dual is not None, t
    return dual


def _parameters(f: Function, duals: Duals) -> tuple[Parameter, ...]:
    result = duals.result(f)
    parameters = [] if result is None else [Parameter("dresult", result, "out", False)]
    for p in f.parameters:
        parameters.append(replace(p, differentiable=p.differentiable and not duals.is_pointer(p)))
        if duals.is_pointer(p):
            parameters.append(Parameter(f"d{p.name}", _type_of(duals, p.type), p.direction, False, p.uniform))
    return tuple(parameters)


def without_pairs(f: Function, duals: Duals) -> Function:
    """A derivative of the user's own, whose pairs of pointers are two parameters, and two results."""
    b, name = Builder(span=f.span), f"{f.name}.halves"
    parameters: list[Parameter] = []
    inputs: list[Value] = []
    arguments: list[Value] = []
    returned = f.return_type
    if returned is not None and duals.is_pair(returned):
        parts = list(components(returned))
        returned = parts[0]
        parameters.append(Parameter("dresult", parts[1], "out", False))
    for p in f.parameters:
        halves = _split(p) if duals.is_pair(p.type) else [p]
        parameters += halves
        if p.direction != "out":
            values = [Value(half.type, half.name) for half in halves]
            inputs += values
            arguments.append(values[0] if len(values) == 1 else b.emit("make", *values, type=p.type))
    results = b.call(f.name, arguments, f.result_types)
    yields: list[Value] = []
    for value in results:
        is_pair = duals.is_pair(value.type)
        yields += [b.emit("get", value, index=i) for i in (0, 1)] if is_pair else [value]
    region = Region(tuple(inputs), b.ops, tuple(yields))
    return Function(name, tuple(parameters), returned, region, f.return_differentiable, span=f.span)


def dual_by_derivative(f: Function, user: Function, duals: Duals, space: VectorSpace) -> Function:
    """A function whose results are pointers in two halves, by the forward derivative of the user's own."""
    b, inputs, arguments = Builder(span=f.span), [], []
    for p, flag, expected in zip(f.inputs, duals.inputs(f), _expected(f, user, duals), strict=True):
        value = Value(p.type, p.name)
        inputs.append(value)
        if flag:
            inputs.append(Value(_type_of(duals, p.type), f"d{p.name}"))
            arguments += inputs[-2:]
        elif expected is p.type:
            arguments.append(value)
        else:
            arguments.append(b.emit("make", value, space.zero(b, p.type), type=expected))
    results = b.call(user.name, arguments, user.result_types)
    region = Region(tuple(inputs), b.ops, results)
    return replace(
        f, name=f"{f.name}.dual", parameters=_parameters(f, duals), region=region, derivatives=None
    )


def _expected(f: Function, user: Function, duals: Duals) -> list[Type]:
    """For each input of `f` the first parameters of its derivative."""
    left = iter(user.inputs)
    types = []
    for flag in duals.inputs(f):
        types.append(next(left).type)
        if flag:
            next(left)
    return types


def _split(p: Parameter) -> list[Parameter]:
    """A pair of pointers as two parameters."""
    first, second = components(p.type)
    plain = replace(p, differentiable=False)
    return [replace(plain, type=first), replace(plain, name=f"d{p.name}", type=second)]


class _Dual(Rebuild):
    """`halves`: the other halves of pointers; `parts`: the other halves of parts of pointers."""

    def __init__(self, duals: Duals, dual_of: DualOf) -> None:
        rules: dict[str, Rule] = {"if": self._if, "for": self._loop, "while": self._loop, "call": self._call}
        super().__init__(rules, self._primitive)
        self._duals, self._dual_of = duals, dual_of
        self.halves: dict[Value, Value] = {}
        self.parts: dict[Value, Value] = {}

    def half(self, b: Builder, old: Value) -> Value:
        """The other half of a pointer, which must be known."""
        if old not in self.halves:
            message = "the place of this pointer's derivatives is unknown"
            note = "make it of one that was passed, or by a function with a [ForwardDerivative]"
            raise CompileError([Diagnostic("E0553", message, b.span, note)])
        return self.halves[old]

    # --- straight code

    def _primitive(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        results = copy_op(walk, b, op)
        if len(results) == 1 and PRIMITIVES[op.name].effect == PURE:
            kind = self._duals.of(op.results[0].type)
            half = self._part(b, op) if kind is None else self._pointer(b, op, kind)
            if half is not None:
                (self.parts if kind is None else self.halves)[op.results[0]] = half
        return results

    def _pointer(self, b: Builder, op: Op, kind: Type) -> Value | None:
        """The other half of a pointer, or array of pointers, that an op makes."""
        if op.name == "zero":
            return b.zero(kind)
        if op.name not in _MOVES or not any(self._is_known(v) for v in op.operands):
            return None
        if op.name == "get" and isinstance(op.operands[0].type, Struct):
            return self._field(b, op)
        if isinstance(kind, Struct) and op.name in ("make", "set"):
            return self._struct_half(b, op, kind) if op.name == "make" else self._set(b, op, kind)
        operands = [self._other(v) for v in op.operands]
        halves = tuple(v for v in operands if v is not None)
        return b.primitive(op.name, halves, kind, op.attributes) if len(halves) == len(operands) else None

    def _struct_half(self, b: Builder, op: Op, kind: Struct) -> Value | None:
        """A struct of the other halves of fields, which may be fewer."""
        operands = dict(zip(_names(op.results[0].type), op.operands, strict=True))
        candidates = [self._other(operands[name]) if name in operands else None for name, _ in kind.fields]
        halves = tuple(v for v in candidates if v is not None)
        same = [v.type for v in halves] == [t for _, t in kind.fields]
        return b.primitive("make", halves, kind, op.attributes) if same else None

    def _set(self, b: Builder, op: Op, kind: Struct) -> Value | None:
        whole, index = self._other(op.operands[0]), _field_of(op, kind)
        if whole is None or index is None:
            return whole  # a field that the other half has not
        value = self._other(op.operands[1])
        if value is None or value.type is not kind.fields[index][1]:
            return None
        return b.primitive("set", (whole, value), kind, {**op.attributes, "index": index})

    def _part(self, b: Builder, op: Op) -> Value | None:
        """The result of the same computation for the other half."""
        if not any(self._is_known(v) for v in op.operands) or contains(op.results[0].type, is_float):
            return None
        if op.name == "get" and op.operands[0] in self.halves:
            return self._field(b, op)
        operands = [self._other(v) for v in op.operands]
        halves = tuple(v for v in operands if v is not None)
        same = len(halves) == len(operands) and all(v.type is o.type for v, o in zip(halves, op.operands))
        return b.primitive(op.name, halves, op.results[0].type, op.attributes) if same else None

    def _field(self, b: Builder, op: Op) -> Value | None:
        """The field of the same name."""
        dual = self._other(op.operands[0])
        index = None if dual is None or not isinstance(dual.type, Struct) else _field_of(op, dual.type)
        return None if dual is None or index is None else b.emit("get", dual, index=index)

    def _is_known(self, v: Value) -> bool:
        return v in self.halves or v in self.parts

    def _other(self, v: Value) -> Value | None:
        """The value for the other half: whole numbers that belong to no pointer are the same for both."""
        half = self.halves.get(v) or self.parts.get(v)
        return (
            self.new[v]
            if half is None and not is_aggregate(v.type) and not isinstance(v.type, Pointer)
            else half
        )

    # --- control flow

    def _if(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        arms = tuple(self.region(b.nested(), region) for region in op.regions)
        pairs = [
            (r, (self.halves[x], self.halves[y])) for r, x, y in merged(op) if {x, y} <= self.halves.keys()
        ]
        more = zip(*(halves for _, halves in pairs)) if pairs else ((), ())
        arms = tuple(
            replace(arm, yields=(*arm.yields, *yields)) for arm, yields in zip(arms, more, strict=True)
        )
        results = b.control("if", self.values(op.operands), arms, op.attributes)
        self.halves.update(zip([result for result, _ in pairs], results[len(op.results) :], strict=True))
        return results[: len(op.results)]

    def _loop(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        moved = [variable for variable in carried(op) if variable.start in self.halves]

        def enter(inner: Builder, region: Region, halves: tuple[Value, ...]) -> None:
            for variable, half in zip(moved, halves, strict=True):
                self.halves |= dict.fromkeys(variable.inside, half)

        leave = lambda inner, region: [self.half(inner, variable.yielded) for variable in moved]
        results, halves = self.extended(
            b, op, [self.halves[variable.start] for variable in moved], enter, leave
        )
        self.halves.update(zip([variable.result for variable in moved], halves, strict=True))
        return results

    # --- calls

    def _call(self, walk: Rebuild, b: Builder, op: Op) -> tuple[Value, ...]:
        pair = self._dual_of(op.attributes["callee"])
        if pair is None:
            return copy_op(walk, b, op)
        f, dual = pair
        operands: list[Value] = []
        for v, flag in zip(op.operands, self._duals.inputs(f), strict=True):
            operands += [self.new[v], self.half(b, v)] if flag else [self.new[v]]
        left = iter(b.call(dual.name, operands, dual.result_types))
        results = []
        for r, flag in zip(op.results, self._duals.results(f), strict=True):
            results.append(next(left))
            if flag:
                self.halves[r] = next(left)
        return tuple(results)


_MOVES = frozenset(("make", "get", "set", "index", "set_index", "splat", "select"))


def _names(t: Type) -> list[str]:
    assert isinstance(t, Struct), t
    return [name for name, _ in t.fields]


def _field_of(op: Op, half: Struct) -> int | None:
    """The number of the other half's field with the same name as the field that an op reads or sets."""
    index, names = op.attributes["index"], _names(half)
    name = _names(op.operands[0].type)[index]
    return names.index(name) if name in names else None
