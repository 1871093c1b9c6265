"""Values, ops, regions, functions, programs: the nodes of the IR.

    func @square(%x: f32) -> (f32) {
      %r = mul %x, %x
      yield %r
    }

Nodes are compared by identity and never changed once they are built: a pass makes new ones. There are no use
lists; a pass that needs uses asks `rebuild.py`. Which ops exist is written in `primitives.py`.

A region maps a value to its op (`makers`). A value has no reference to its op: the circle of references would stay
in memory, because the garbage collector is off during compilation (`base/compiling.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypedDict, TypeVar, Unpack, cast

from slangrad.base.source import Span
from slangrad.ir.data.numbers import Number
from slangrad.ir.data.types import Struct, Type


class Attributes(TypedDict, total=False):
    """Attributes of ops; the row of an op (`primitives.py`) lists its attributes."""

    alone: bool  # of an atomic: no other thread of the machine reaches the address at the time
    arms: str  # of an `if`: "branch" or "flatten", by an attribute of the program
    at_most: int  # of a loop: how often it runs at most
    axis: int
    block: int
    bytes: int
    callee: str
    check: bool  # report an index that is out of range
    count: int
    effect: str  # of a call of a function that stays: its effect (effects.py)
    field: str
    format: str
    index: int
    indices: tuple[int, ...]
    kind: str
    masks_only: bool
    max_trips: int  # of a loop: how often it runs at most, as the program promises
    name: str
    no_diff: bool
    own: bool
    reverse: bool  # of a loop: the last iteration first
    site: int  # of a report: the number of its place (slangrad/sites.py)
    segmented: bool  # of a loop: each iteration runs a segment (autodiff/checkpointing/loop_splitting.py)
    stored: bool  # of a select: its result is stored at the address from which the other operand was loaded
    table: int  # of an atomic: the number of the table of a group that it may add to
    text: str
    trusted: bool
    uniform: bool  # of an atomic: lanes of a wave that come to it together have the same address
    unroll: bool
    value: Number
    which: str
    write: bool
    written_first: bool
    zero: bool


class FunctionAttributes(TypedDict, total=False):
    """Attributes of functions."""

    bodiless: bool  # there is only a declaration, and derivatives
    context: str
    cost: int
    drop_primal: bool
    dual_of: str
    group_size: tuple[int, int, int]
    initializes: str  # the static variable whose first value it gives
    kept: bool  # it stays a function, and its calls stay calls
    kernel: bool
    lanes: int
    library: bool  # of the library, or made by the compiler: errors appear at the place of the call
    of_pointers: bool
    open_primal: bool
    order: int  # of initializers: the place among them
    prefer: str
    relies_on_rounding: bool  # it has code of the library in which each operation rounds as it is written
    stays: bool  # a kernel whose launch has the threads that it runs with, for any number of threads of the program
    segment: bool  # one segment of a loop (autodiff/checkpointing/loop_splitting.py)
    wanted_lanes: int  # SIMD lanes of a kernel; as many as suit it where it does not say
    precise: bool  # of a kernel: each of its operations rounds as it is written
    wave: int  # how many threads a wave of the kernel has


A = TypeVar("A", Attributes, FunctionAttributes)


def without(attributes: A, name: str) -> A:
    """The attributes but for one."""
    return cast(A, {key: value for key, value in attributes.items() if key != name})


@dataclass(slots=True, eq=False)
class Value:
    """Made once, by an op or as a region's parameter. `hint` is only a name for people."""

    type: Type
    hint: str = ""


@dataclass(slots=True, eq=False)
class Op:
    """`key`: of a pure op that a builder made, and so simplified; two of equal keys in sight of each other are one."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: Attributes = field(default_factory=Attributes)
    regions: tuple[Region, ...] = ()
    span: Span | None = None
    key: tuple[object, ...] | None = None


MadeBy = Callable[[Value], Op | None]  # as `makers.get` of a region


class OpBuilder(Protocol):
    """The builder (`ir/building/builder.py`) as the tables of this room see it."""

    def emit(
        self, name: str, /, *operands: Value, type: Type | None = None, **attributes: Unpack[Attributes]
    ) -> Value: ...
    def primitive(
        self, name: str, operands: tuple[Value, ...], stated: Type | None, attributes: Attributes
    ) -> Value: ...
    def constant(self, t: Type, value: Number) -> Value: ...
    def zero(self, t: Type) -> Value: ...
    def made_by(self, value: Value) -> Op | None: ...
    def constant_of(self, value: Value) -> Number | None: ...


@dataclass(slots=True, eq=False)
class Region:
    """Straight code with parameters; may use values of the enclosing regions, ends with `yields`."""

    parameters: tuple[Value, ...]
    ops: list[Op]
    yields: tuple[Value, ...]
    _makers: dict[Value, Op] | None = field(default=None, init=False, repr=False)

    @property
    def makers(self) -> dict[Value, Op]:
        """The op that made a value, for all results in the region and within it; found once, in a finished region."""
        if self._makers is None:
            self._makers = {result: op for op in walk(self) for result in op.results}
        return self._makers


@dataclass(frozen=True, slots=True)
class Parameter:
    """How a function declares a parameter. "out" ones are results only, "inout" ones both."""

    name: str
    type: Type
    direction: str = "in"  # "in", "out" or "inout"
    differentiable: bool = True
    uniform: bool = False  # the same for all threads of a launch (kernel parameters)


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Names of the functions that replace the compiler's own derivatives, in Slang's calling conventions.

    `applied` is differentiated backward in place of the function, with its calling convention. A function
    of the program that already has the name of a derivative, `f.vjp`, is one in autodiff's own convention.
    """

    jvp: str | None = None
    vjp: str | None = None
    primal_substitute: str | None = None
    applied: str | None = None

    @property
    def names(self) -> list[str]:
        return [
            name for name in (self.jvp, self.vjp, self.primal_substitute, self.applied) if name is not None
        ]


@dataclass(slots=True, eq=False)
class Function:
    """A monomorphic function.

    The region's parameters are the "in" and "inout" parameters in order; it yields the return value, if there
    is one, and then the "out" and "inout" parameters in order.
    """

    name: str
    parameters: tuple[Parameter, ...]
    return_type: Type | None
    region: Region
    return_differentiable: bool = True
    derivatives: Derivatives | None = None
    attributes: FunctionAttributes = field(default_factory=FunctionAttributes)
    span: Span | None = None

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.direction != "out")

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.direction != "in")

    @property
    def result_types(self) -> tuple[Type, ...]:
        returned = () if self.return_type is None else (self.return_type,)
        return returned + tuple(p.type for p in self.outputs)

    def on(self, region: Region) -> Function:
        """The function with another region, and with that region's parameters and yields if their types differ."""
        same = [v.type for v in (*region.parameters, *region.yields)]
        if same == [*(p.type for p in self.inputs), *self.result_types]:
            return replace(self, region=region)
        inputs = [Parameter(v.hint or f"x{i}", v.type) for i, v in enumerate(region.parameters)]
        outputs = [Parameter(v.hint or f"y{i}", v.type, "out") for i, v in enumerate(region.yields)]
        return replace(self, parameters=(*inputs, *outputs), return_type=None, region=region)

    @property
    def wave(self) -> int:
        """How many threads a wave of this kernel has; 0 where it does not use waves."""
        return self.attributes.get("wave", 0)

    @property
    def waves_cross_rows(self) -> bool:
        """Whether a wave of this kernel has threads of several rows of its group, or its last wave fewer threads."""
        return bool(self.wave) and self.attributes["group_size"][0] % self.wave != 0


@dataclass(frozen=True, slots=True)
class Differential:
    """The derivative of a struct: the tangent type and the source of its fields.

    `fields` pairs a primal field index with a tangent field index; other fields carry no derivative. With
    `zero` and `add` (functions' names) the user's `dzero` and `dadd` are used instead of componentwise ones.
    `kept` pairs fields that a tangent copies from its primal, such as whether an optional has a value. They are
    valid in a tangent for the user only.
    """

    type: Type
    fields: tuple[tuple[int, int], ...] = ()
    zero: str | None = None
    add: str | None = None
    kept: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, eq=False)
class Program:
    """Functions by name, the derivative types of the structs that have one, and the launch's argument block.

    `arguments` has one field for each uniform parameter of the kernel and each global shader parameter; the
    op `parameter{name}` is a field's address. A kernel is a function without parameters and results whose
    attribute "kernel" is True. `duals` are types of pointers that come with another one, to the derivatives of
    what they point to, and the type of that one. `trusted` are the fields, by number, that hold pointers of the
    library: an access that is trusted itself follows them behind a check of bounds.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    differentials: dict[Struct, Differential] = field(default_factory=dict)
    arguments: Struct | None = None
    duals: dict[Struct, Type] = field(default_factory=dict)
    trusted: dict[Struct, tuple[int, ...]] = field(default_factory=dict)

    def add(self, function: Function) -> Function:
        assert function.name not in self.functions, f"two functions named {function.name}"
        self.functions[function.name] = function
        return function


def initializers(program: Program) -> list[tuple[str, str]]:
    """The static variables that have a first value, and the functions that give it, in the order in which they run."""
    functions = [f for f in program.functions.values() if "initializes" in f.attributes]
    functions.sort(key=lambda f: f.attributes["order"])
    return [(f.attributes["initializes"], f.name) for f in functions]


def number_of(value: Value, made_by: MadeBy) -> int | None:
    """The integer that a value is, if it is a constant."""
    op = made_by(value)
    number = op.attributes["value"] if op is not None and op.name == "const" else None
    return number if isinstance(number, int) else None


def alike(values: Iterable[Value]) -> tuple[Value, ...]:
    """New values of the same types and names, as parameters of a region."""
    return tuple([Value(v.type, v.hint) for v in values])


def walk(*regions: Region) -> Iterator[Op]:
    """All ops of regions and of the regions within them, outer ones first. Without recursion: regions may be deep."""
    inside = [iter(region.ops) for region in reversed(regions)]
    while inside:
        for op in inside[-1]:
            yield op
            if op.regions:
                inside += [iter(inner.ops) for inner in reversed(op.regions)]
                break
        else:
            inside.pop()
