"""Random structured programs for the tests of passes and back ends; equal seeds give equal programs.

    program = random_program(7, Style(size=30))       functions "main" and helpers that it calls
    inputs = random_inputs(program.functions["main"], 1)

All control flow ends, all indices are legal or total, so each program has one outcome (see outcomes.py). A
`Style` says which types and constructs are used: SMOOTH is for derivatives, FLAT has scalars only.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.data.numbers import Number, greatest, least, wrap
from slangrad.ir.ops.core import Function, Parameter, Program, Region, Value
from slangrad.ir.ops.primitives import COMPARE, INEXACT, PRIMITIVES, SAME, SHIFT
from slangrad.ir.oracle.memory import Datum

MEMORY_LENGTH = 8  # elements behind each pointer parameter


@dataclass(frozen=True)
class Style:
    """What programs are made of. `size` is about the number of statements; `exclude` names ops not to use."""

    size: int = 25
    depth: int = 3  # nesting of control flow
    helpers: int = 2  # functions that main may call
    scalars: tuple[t.Scalar, ...] = tuple(t.SCALARS.values())
    vectors: bool = True
    structs: bool = True
    arrays: bool = True
    tapes: bool = True
    memory: bool = False  # pointer parameters, loads, stores and atomics through them
    prints: bool = False
    checks: bool = False  # dynamic indices report
    maths: bool = False
    smooth: bool = False  # floats come from few well-behaved operations
    pool: int = 0  # how many types there are, 0: any number
    movement: int = 1  # how often values move in and out of aggregates
    results: int = 3
    exclude: frozenset[str] = frozenset()


EXACT = Style()
MOVING = Style(size=60, depth=4, pool=3, movement=3, results=8, scalars=(t.F32, t.I32, t.U32, t.BOOL))
SMOOTH = Style(scalars=(t.F64, t.I32, t.BOOL), maths=True, smooth=True)
FLAT = Style(vectors=False, structs=False, arrays=False, tapes=False, helpers=0)

SMOOTH_OPS = ("add", "sub", "mul", "sin", "cos", "tanh", "neg", "min", "max", "fma")


def random_program(seed: int, style: Style = EXACT) -> Program:
    """A program whose function "main" uses all kinds of things that the style allows."""
    return _Generator(random.Random(seed), style).program()


def random_inputs(function: Function, seed: int) -> list[Datum | list[Datum]]:
    """Values for the inputs of a function; the elements behind a pointer for a pointer."""
    rng = random.Random(seed)
    return [random_input(rng, p.type) for p in function.inputs]


def random_input(rng: random.Random, type: t.Type) -> Datum | list[Datum]:
    if isinstance(type, t.Pointer):
        return [random_datum(rng, type.element) for _ in range(MEMORY_LENGTH)]
    return random_datum(rng, type)


def random_datum(rng: random.Random, type: t.Type) -> Datum:
    if isinstance(type, t.Scalar):
        return random_number(rng, type)
    return tuple(random_datum(rng, c) for c in t.components(type))


def random_number(rng: random.Random, scalar: t.Scalar) -> Number:
    """Mostly small, sometimes at the edge of the type."""
    if scalar.kind == "bool":
        return rng.random() < 0.5
    if scalar.kind == "float":
        return wrap(scalar, rng.choice((rng.uniform(-2, 2), rng.uniform(-2, 2), float(rng.randint(-3, 3)))))
    if rng.random() < 0.1:
        return rng.choice((least(scalar), greatest(scalar)))
    return wrap(scalar, rng.randint(0 if scalar.kind == "unsigned" else -4, 6))


Statement = Callable[["_Body", int], None]


class _Generator:
    """Makes the types and the functions of one program."""

    def __init__(self, rng: random.Random, style: Style) -> None:
        self.rng = rng
        self.style = style
        self.numbers = [s for s in style.scalars if s.kind != "bool"]
        self.integers = [s for s in style.scalars if t.is_integer(s)]
        self.floats = [s for s in style.scalars if s.kind == "float"]
        self.structs: list[t.Struct] = []
        self.pool: list[t.Type] = []
        self.callable: list[Function] = []

    def program(self) -> Program:
        program = Program()
        for i in range(2 if self.style.structs else 0):
            self.structs.append(self._struct(f"S{i}"))
        self.pool = [self.type(2) for _ in range(self.style.pool)]
        for i in range(self.style.helpers):
            small = replace(self.style, size=max(4, self.style.size // 3), depth=1, helpers=0)
            self.callable.append(program.add(self._function(f"helper{i}", small, 1)))
        program.add(self._function("main", self.style, 3))
        return program

    def _struct(self, name: str) -> t.Struct:
        fields = [(f"f{i}", self.type(1)) for i in range(self.rng.randint(1, 3))]
        return t.struct(name, tuple(fields))

    def type(self, depth: int) -> t.Type:
        """A type for values; `depth` bounds how far aggregates nest."""
        style, rng = self.style, self.rng
        if self.pool and depth > 0:
            return rng.choice(self.pool)
        kinds = ["scalar", "scalar"]
        kinds += ["vector", "vector", "matrix"] if style.vectors else []
        if depth > 0:
            kinds += ["array"] * 2 if style.arrays else []
            kinds += ["struct"] if self.structs else []
        kind, scalar = rng.choice(kinds), rng.choice(style.scalars)
        if kind == "vector":
            return t.vector(scalar, rng.randint(2, 4))
        if kind == "matrix":
            return t.matrix(scalar, rng.randint(2, 3), rng.randint(2, 3))
        if kind == "array":
            return t.array(self.type(depth - 1), rng.randint(1, 5))
        return rng.choice(self.structs) if kind == "struct" else scalar

    def _function(self, name: str, style: Style, inputs: int) -> Function:
        rng = self.rng
        types = [self.type(2) for _ in range(inputs)] + [rng.choice(style.scalars) for _ in range(2)]
        if style.memory and name == "main":
            elements = (rng.choice(self.numbers), rng.choice(self.structs or self.numbers))
            types += [t.pointer(element) for element in elements]
        parameters = tuple(Parameter(f"p{i}", type) for i, type in enumerate(types))
        values = tuple(Value(p.type, p.name) for p in parameters)
        body = _Body(self, style, Builder(), list(values))
        body.statements(style.size, style.depth)
        results = [body.observed() for _ in range(style.results)]
        outs = tuple(Parameter(f"r{i}", r.type, "out") for i, r in enumerate(results[1:]))
        region = Region(values, body.b.ops, tuple(results))
        return Function(name, parameters + outs, results[0].type, region)


@dataclass
class _Body:
    """A region in the making: its builder, and the values in scope."""

    generator: _Generator
    style: Style
    b: Builder
    scope: list[Value]
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = self.generator.rng

    def nested(self, *parameters: Value) -> _Body:
        return _Body(self.generator, self.style, self.b.nested(), [*self.scope, *parameters])

    # --- values

    def some(self, type: t.Type) -> Value:
        """A value of a type: one in scope, the later the likelier, or a new one."""
        found = [v for v in self.scope if v.type is type]
        if found and self.rng.random() < 0.85:
            return found[-1 - int(len(found) * self.rng.random() ** 2)]
        return self.new(type)

    def new(self, type: t.Type) -> Value:
        if isinstance(type, t.Scalar):
            return self._new_scalar(type)
        if self.rng.random() < 0.2 or (isinstance(type, t.Array) and type.length is None):
            return self.b.zero(type)
        return self.b.emit("make", *[self.some(c) for c in t.components(type)], type=type)

    def _new_scalar(self, scalar: t.Scalar) -> Value:
        numbers = [v for v in self.scope if isinstance(v.type, t.Scalar) and v.type is not scalar]
        if numbers and self.rng.random() < 0.3 and not (self.style.smooth and scalar.kind != "float"):
            return self.b.emit("convert", self.rng.choice(numbers), type=scalar)
        return self.b.constant(scalar, random_number(self.rng, scalar))

    def some_of(self, wanted: Callable[[t.Type], bool]) -> Value | None:
        found = [v for v in self.scope if wanted(v.type)]
        return self.rng.choice(found) if found else None

    def integer(self) -> Value:
        return self.some(self.rng.choice(self.generator.integers or [t.I32]))

    def small(self, limit: int) -> Value:
        """An integer below `limit` (a power of two), perhaps negative; not the same in all threads."""
        value = self.integer()
        kept = self.b.emit("and", value, self.b.constant(value.type, limit - 1))
        if value.type.kind == "unsigned" or self.rng.random() < 0.8:
            return kept
        return self.b.emit("sub", kept, self.b.constant(value.type, 1))

    def condition(self) -> Value:
        scalar = self.rng.choice(self.generator.numbers)
        name = self.rng.choice(("less", "less_equal", "equal", "not_equal"))
        return self.b.emit(name, self.some(scalar), self.some(scalar))

    def observed(self) -> Value:
        """A value that tells what was computed; of a tape its first elements."""
        value = self.some(self.rng.choice([v.type for v in self.scope if not isinstance(v.type, t.Pointer)]))
        while _holds_tapes(value.type):
            value = self._first_elements(value)
        return value

    def _first_elements(self, tape: Value) -> Value:
        assert isinstance(tape.type, t.Array)
        count, element = tape.type.length or 16, tape.type.element
        read = [self.b.emit("index", tape, self.b.constant(t.U32, i)) for i in range(count)]
        if _holds_tapes(element):
            return read[self.rng.randrange(count)]
        return self.b.emit("make", *read, type=t.array(element, count))

    # --- statements

    def statements(self, size: int, depth: int) -> None:
        """About `size` statements, those in nested regions included."""
        left = size
        while left > 0:
            used = 1
            if depth > 0 and self.rng.random() < 0.2:
                used = self.rng.randint(1, max(1, left * 2 // 3))
                self.rng.choice(CONTROL)(self, used, depth - 1)
            else:
                self.rng.choice(self._simple())(self)
            left -= used

    def _simple(self) -> list[Callable[[_Body], None]]:
        style = self.style
        choices = [_arithmetic] * 6 + [_compare, _select, _convert, _detach]
        aggregates = style.vectors or style.structs or style.arrays
        moves = [_get, _set, _make, _splat, _shuffle] if aggregates else []
        indexable = style.arrays or style.vectors
        moves += [_index, _set_index, _set_index, _add_index, _nested_update] if indexable else []
        moves += [_tape, _tape, _nested_tapes] if style.tapes else []
        choices += moves * style.movement
        choices += [_bitcast] if not style.smooth else []
        choices += [_call] if self.generator.callable and style.helpers else []
        choices += [_load, _store, _atomic] if style.memory else []
        return choices + ([_print] if style.prints else [])

    def add(
        self, name: str, *operands: Value, type: t.Type | None = None, **attributes: int | str | bool
    ) -> None:
        if name not in self.style.exclude:
            self.scope.append(self.b.emit(name, *operands, type=type, **attributes))


def _op_names(body: _Body, scalar: t.Scalar, rule: str) -> list[str]:
    """Names of ops with a primal that take a scalar type."""
    style = body.style
    if style.smooth and scalar.kind == "float" and rule == SAME:
        return list(SMOOTH_OPS)
    rows = [p for p in PRIMITIVES.values() if p.rule == rule and p.primal is not None]
    rows = [p for p in rows if p.name != "scale"]  # made by autodiff alone, and gone before code is flat
    names = [p.name for p in rows if scalar.kind[0] in p.kinds]
    return [name for name in names if style.maths or name not in INEXACT]


UNARY = {"neg", "abs", "not", "sqrt", "floor", "ceil", "round", "trunc", "popcount", "leading_zeros"}
UNARY |= {"trailing_zeros", "reverse_bits", *INEXACT} - {"pow", "atan2"}
ARITY = {"fma": 3, **dict.fromkeys(UNARY, 1)}


def _arithmetic_type(body: _Body) -> tuple[t.Type, t.Scalar]:
    scalar = body.rng.choice(body.style.scalars)
    shaped = body.some_of(lambda x: isinstance(x, (t.Vector, t.Matrix)))
    if shaped is None or body.rng.random() < 0.6:
        return scalar, scalar
    found = t.scalar_of(shaped.type)
    assert found is not None
    return shaped.type, found


def _arithmetic(body: _Body) -> None:
    type, scalar = _arithmetic_type(body)
    rule = body.rng.choice((SAME, SAME, SAME, SHIFT)) if t.is_integer(scalar) else SAME
    name = body.rng.choice(_op_names(body, scalar, rule))
    body.add(name, *[body.some(type) for _ in range(ARITY.get(name, 2))])


def _compare(body: _Body) -> None:
    type, scalar = _arithmetic_type(body)
    body.add(body.rng.choice(_op_names(body, scalar, COMPARE)), body.some(type), body.some(type))


def _select(body: _Body) -> None:
    type, _ = _arithmetic_type(body)
    componentwise = not isinstance(type, t.Scalar) and body.rng.random() < 0.5
    condition = body.some(t.with_scalar(type, t.BOOL)) if componentwise else body.condition()
    other = body.rng.choice(body.scope).type if not componentwise and body.rng.random() < 0.3 else type
    type = type if isinstance(other, t.Pointer) else other
    body.add("select", condition, body.some(type), body.some(type))


def _convert(body: _Body) -> None:
    type, scalar = _arithmetic_type(body)
    if body.style.smooth and scalar.kind == "float":
        return
    body.add("convert", body.some(type), type=t.with_scalar(type, body.rng.choice(body.style.scalars)))


def _bitcast(body: _Body) -> None:
    """From integers only: which NaN an operation gives is not defined."""
    source = body.integer()
    same_size = [s for s in body.generator.numbers if s.bits == source.type.bits]
    body.add("bitcast", source, type=body.rng.choice(same_size or [source.type]))


def _detach(body: _Body) -> None:
    body.add("detach", body.some(_arithmetic_type(body)[0]))


def _fixed(type: t.Type) -> bool:
    return any(True for _ in t.components(type))


def _get(body: _Body) -> None:
    whole = body.some_of(_fixed)
    if whole is not None:
        body.add("get", whole, index=body.rng.randrange(len(list(t.components(whole.type)))))


def _set(body: _Body) -> None:
    whole = body.some_of(_fixed)
    if whole is not None:
        index = body.rng.randrange(len(list(t.components(whole.type))))
        body.add("set", whole, body.some(t.component(whole.type, index)), index=index)


def _make(body: _Body) -> None:
    body.scope.append(body.new(body.generator.type(2)))


def _splat(body: _Body) -> None:
    if body.style.vectors:
        scalar = body.rng.choice(body.style.scalars)
        shape: t.Type = t.vector(scalar, body.rng.randint(2, 4))
        if body.rng.random() < 0.3:
            shape = t.matrix(scalar, body.rng.randint(2, 3), body.rng.randint(2, 3))
        body.add("splat", body.some(scalar), type=shape)


def _shuffle(body: _Body) -> None:
    vector = body.some_of(lambda x: isinstance(x, t.Vector))
    if vector is not None and isinstance(vector.type, t.Vector) and "shuffle" not in body.style.exclude:
        count = body.rng.randint(1, 4)
        picked = tuple(body.rng.randrange(vector.type.length) for _ in range(count))
        made = vector.type.element if count == 1 else t.vector(vector.type.element, count)
        body.scope.append(body.b.emit("shuffle", vector, type=made, indices=picked))


def _indexable(type: t.Type) -> bool:
    return isinstance(type, (t.Vector, t.Matrix)) or (isinstance(type, t.Array) and type.length is not None)


def _dynamic_index(body: _Body) -> Value:
    return body.integer() if body.rng.random() < 0.3 else body.small(4)


def _index(body: _Body) -> None:
    whole = body.some_of(_indexable)
    if whole is not None:
        body.add("index", whole, _dynamic_index(body), **_check(body))


def _check(body: _Body) -> dict[str, bool]:
    return {"check": True} if body.style.checks and body.rng.random() < 0.5 else {}


def _set_index(body: _Body) -> None:
    whole = body.some_of(_indexable)
    if whole is not None:
        element = body.some(t.component(whole.type, 0))
        body.add("set_index", whole, _dynamic_index(body), element, **_check(body))


def _nested_update(body: _Body) -> None:
    """`a[i][k] = v` as lowering writes it: elements on the way down, aggregates on the way up."""
    rows = body.some_of(lambda x: _indexable(x) and _indexable(t.component(x, 0)))
    if rows is None or {"index", "set_index"} & body.style.exclude:
        return
    i, k = _dynamic_index(body), _dynamic_index(body)
    row = body.b.emit("index", rows, i)
    changed = body.b.emit("set_index", row, k, body.some(t.component(row.type, 0)))
    body.scope.append(body.b.emit("set_index", rows, i, changed))


def _nested_tapes(body: _Body) -> None:
    """Write a tape that is an element of a tape, or put a tape there."""
    outer = body.some_of(lambda x: isinstance(x, t.Array) and _holds_tapes(x.element))
    if outer is None:
        body.scope.append(body.b.zero(t.array(t.array(body.rng.choice(body.style.scalars), None), None)))
        return
    assert isinstance(outer.type, t.Array)
    i, inner = body.small(4), body.some(outer.type.element)
    if body.rng.random() < 0.5:
        inner = body.b.emit("index", outer, i)
    assert isinstance(inner.type, t.Array)
    if body.rng.random() < 0.8:
        inner = body.b.emit("set_index", inner, body.small(4), body.some(inner.type.element))
    body.scope += (inner, body.b.emit("set_index", outer, i, inner))


def _holds_tapes(type: t.Type) -> bool:
    return isinstance(type, t.Array) and (type.length is None or _holds_tapes(type.element))


def _is_float_only(type: t.Type) -> bool:
    scalar = t.scalar_of(type)
    if scalar is not None:
        return scalar.kind == "float"
    return _fixed(type) and all(_is_float_only(c) for c in t.components(type))


def _add_index(body: _Body) -> None:
    whole = body.some_of(lambda x: _indexable(x) and _is_float_only(t.component(x, 0)))
    if whole is not None:
        body.add("add_index", whole, _dynamic_index(body), body.some(t.component(whole.type, 0)))


def _tape(body: _Body) -> None:
    """Read a tape, write it, or begin one: also a tape or an array of tapes."""
    tape = body.some_of(lambda x: isinstance(x, t.Array) and x.length is None)
    if tape is None or body.rng.random() < 0.1:
        begun = t.array(body.generator.type(1), None)
        if tape is not None and body.rng.random() < 0.5:
            begun = t.array(tape.type, body.rng.choice((None, 3)))
        body.scope.append(body.b.zero(begun))
        return
    assert isinstance(tape.type, t.Array)
    index, element = body.small(16), tape.type.element
    if body.rng.random() < 0.3:
        body.add("index", tape, index)
        return
    name = "add_index" if _is_float_only(element) and body.rng.random() < 0.4 else "set_index"
    body.add(name, tape, index, body.some(element))


def _print(body: _Body) -> None:
    value = body.some_of(lambda x: isinstance(x, (t.Scalar, t.Vector)))
    if value is not None:
        body.b.effect("print", value, format="value")


def _call(body: _Body) -> None:
    callee = body.rng.choice(body.generator.callable)
    operands = tuple(body.some(p.type) for p in callee.inputs)
    body.scope += body.b.call(callee.name, operands, callee.result_types)


# --- memory behind pointer parameters: MEMORY_LENGTH elements each


def _address(body: _Body) -> Value | None:
    pointer = body.some_of(lambda x: isinstance(x, t.Pointer))
    if pointer is None:
        return None
    address = body.b.emit("offset", pointer, body.b.emit("and", *_mask(body)))
    while isinstance(address.type, t.Pointer) and _fixed(address.type.element) and body.rng.random() < 0.7:
        count = len(list(t.components(address.type.element)))
        address = body.b.emit("member", address, index=body.rng.randrange(count))
    return address


def _mask(body: _Body) -> tuple[Value, Value]:
    index = body.integer()
    return index, body.b.constant(index.type, MEMORY_LENGTH - 1)


def _load(body: _Body) -> None:
    address = _address(body)
    if address is not None and isinstance(address.type, t.Pointer):
        body.add("load", address, type=address.type.element)


def _store(body: _Body) -> None:
    address = _address(body)
    if address is not None and isinstance(address.type, t.Pointer):
        body.b.effect("store", address, body.some(address.type.element))


def _atomic(body: _Body) -> None:
    address = _address(body)
    if address is None or not isinstance(address.type, t.Pointer) or not _is_number(address.type.element):
        return
    element = address.type.element
    kinds = ["add", "min", "max", "exchange"]
    kinds += ["and", "or", "xor", "compare_exchange"] if t.is_integer(element) else []
    kind = body.rng.choice(kinds)
    operands = [body.some(element) for _ in range(2 if kind == "compare_exchange" else 1)]
    body.add("atomic", address, *operands, type=element, kind=kind)


def _is_number(type: t.Type) -> bool:
    return isinstance(type, t.Scalar) and type.kind != "bool"


# --- control flow


def _carried(body: _Body) -> list[Value]:
    """Values in scope to be carried or merged, of all kinds."""
    candidates = [v for v in body.scope if not isinstance(v.type, t.Pointer)]
    return body.rng.sample(candidates, min(len(candidates), body.rng.randint(0, 4)))


def _if(body: _Body, size: int, depth: int) -> None:
    condition, types, regions = body.condition(), tuple(v.type for v in _carried(body)), []
    for _ in range(2):
        arm = body.nested()
        arm.statements(size // 2, depth)
        yields = tuple(arm.some(type) for type in types)
        regions.append(Region((), arm.b.ops, yields))
    body.scope += body.b.control("if", (condition,), tuple(regions))


def _for(body: _Body, size: int, depth: int) -> None:
    starts = _carried(body)
    count = body.small(4)
    if body.rng.random() < 0.4:
        count = body.b.constant(count.type, body.rng.randint(0, 4))
    index = Value(count.type, "i")
    carried = tuple(Value(s.type, s.hint) for s in starts)
    loop = body.nested(index, *carried)
    loop.statements(size, depth)
    yields = tuple(loop.some(c.type) for c in carried)
    attributes: dict[str, bool] = {"reverse": True} if body.rng.random() < 0.3 else {}
    region = Region((index, *carried), loop.b.ops, yields)
    body.scope += body.b.control("for", (count, *starts), (region,), dict(attributes))


def _while(body: _Body, size: int, depth: int) -> None:
    """Counts its trips in the first carried value, so that it ends."""
    starts = [body.b.constant(t.I32, 0), *_carried(body)]
    tested, carried = ([Value(s.type, s.hint) for s in starts] for _ in range(2))
    test = body.nested(*tested)
    more = test.b.emit("less", tested[0], test.b.constant(t.I32, body.rng.randint(0, 5)))
    condition = test.b.emit("and", more, test.condition())
    loop = body.nested(*carried)
    loop.statements(size, depth)
    next_count = loop.b.emit("add", carried[0], loop.b.constant(t.I32, 1))
    yields = (next_count, *[loop.some(c.type) for c in carried[1:]])
    regions = (Region(tuple(tested), test.b.ops, (condition,)), Region(tuple(carried), loop.b.ops, yields))
    body.scope += body.b.control("while", tuple(starts), regions)


CONTROL: list[Callable[[_Body, int, int], None]] = [_if, _if, _for, _for, _while]
