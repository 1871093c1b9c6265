"""Put arguments, parameters and the call's dimensions together.

In: the chosen function, and for each parameter a marshal with the way it is seen.
Out: a Binding: the tree of every argument, all leaves with the dimensions of the call they move along.

    f(a: Tensor (4, 3), b: Tensor (3,))  ->  D = 2, a over (0, 1), b over (1,), a result to be created
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from slangrad.base.page_words import PAGE_WORDS
from slangrad.call.binding.broadcast import align_right, call_dimensions
from slangrad.call.binding.call_request import RESULT
from slangrad.call.binding.launchable import Launchable, LeafSource
from slangrad.call.binding.mapping import MAPPED
from slangrad.call.binding.program import FoundFunction, ModuleTypes
from slangrad.check.conforming import Conformance
from slangrad.check.model.types import Type
from slangrad.check.reflect import ParameterView
from slangrad.marshal.composed import results
from slangrad.marshal.errors import CallError
from slangrad.marshal.protocol.marshal import Marshal, Spot, Way
from slangrad.marshal.protocol.nodes import BoundNode, Leaf
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import PRIMAL, REVERSE, role_of


@dataclass(slots=True)
class BoundArgument:
    """`index`: the number of its value in the call. `converted`: the type to which the kernel converts the
    node's."""

    node: BoundNode
    direction: str
    differentiable: bool
    no_diff: bool = False
    index: int = -1
    converted: Type | None = None

    @property
    def type(self) -> Type:
        """The type that the function gets."""
        return self.converted or self.node.type


@dataclass(slots=True, eq=False)
class Binding:
    """Everything that the kernel's text and the plan need."""

    mode: str
    function: FoundFunction
    arguments: list[BoundArgument]
    result: BoundNode | None
    created: results.Created | None
    cotangent: str | None
    call_dims: int
    order: int = 1  # of the derivatives in `hvp`
    conformances: tuple[Conformance, ...] = ()
    leaves: list[Leaf] = field(default_factory=list)
    sources: list[LeafSource] = field(default_factory=list)
    group: tuple[int, ...] | None = None  # see Launchable
    lanes: int = 0

    @property
    def launchable(self) -> Launchable:
        result = None if self.created is None else self.created.bound
        return Launchable(self.function.name, self.call_dims, self.leaves, self.sources, result, self.group)


@dataclass(slots=True)
class PassedArgument:
    """One argument of a call, in the order of the parameters: which value, its marshal and way."""

    index: int
    marshal: Marshal
    way: Way


def bind_call(
    mode: str,
    function: FoundFunction,
    passed: Sequence[PassedArgument],
    wanted: results.Wanted,
    types: ModuleTypes,
    global_values: Sequence[tuple[Leaf, int]] = (),
) -> Binding:
    """`global_values` are leaves for values outside of functions; the kernel does not declare them again."""
    names = _Names({*types.global_names(), *function.words, *PAGE_WORDS})
    arguments = []
    sources: list[tuple[BoundNode, int]] = []
    for parameter, argument_passed in zip(function.parameters, passed):
        argument = _bind_argument(mode, parameter, argument_passed, types, names)
        arguments.append(argument)
        sources.append((argument.node, argument_passed.index))
    result, created, cotangent = _bind_result(mode, function, wanted, types, names, sources)
    dims = _dimensions(node for node, _ in sources)
    sources += global_values
    if created is not None:
        result = created.bind(dims, types)
        sources.append((result, results.CREATED))
    if result is not None:
        result.mark(function.result_differentiable, types)
    call = Binding(mode, function, arguments, result, created, cotangent, dims)
    for node, index in sources:
        for path, leaf in node.leaves():
            call.leaves.append(leaf)
            call.sources.append(LeafSource(index, path))
    _map_leaves(call.leaves, dims)
    return call


def set_group(call: Binding, group_shape: Sequence[int]) -> None:
    """Run the call in groups of this shape, padded with ones in front; groups of one call count as none."""
    if len(group_shape) > call.call_dims:
        message = (
            f"call_group_shape dimensionality ({len(group_shape)}) must be <= call_shape dimensionality "
        )
        message += f"({call.call_dims}): call_group_shape cannot have more dimensions than call_shape"
        raise CallError("E1014", message)
    if prod(group_shape) > 1:
        call.group = (*[1] * (call.call_dims - len(group_shape)), *group_shape)
        for leaf in call.leaves:
            leaf.group()


def _bind_argument(
    mode: str, parameter: ParameterView, passed: PassedArgument, types: ProgramTypes, names: _Names
) -> BoundArgument:
    tangent = None if parameter.no_diff else types.tangent(passed.way.type)
    differentiable = mode != PRIMAL and tangent is not None
    role = role_of(mode, parameter.direction, differentiable)
    own_mode = PRIMAL if parameter.no_diff else mode
    spot = Spot(names.fresh(parameter.name), parameter.name, role, own_mode, types, names.fresh)
    node = passed.marshal.bind(passed.way, spot)
    converted = passed.way.type if passed.way.how == MAPPED else None
    node.mark(not parameter.no_diff and (converted is None or tangent is not None), types)
    return BoundArgument(
        node, parameter.direction, differentiable, parameter.no_diff, passed.index, converted
    )


def _bind_result(
    mode: str,
    function: FoundFunction,
    wanted: results.Wanted,
    types: ProgramTypes,
    names: _Names,
    sources: list[tuple[BoundNode, int]],
) -> tuple[BoundNode | None, results.Created | None, str | None]:
    """The node of a given result; else how one is created; else the cotangent that stands for it."""
    if function.result is None:
        if wanted.marshal is not None:
            raise CallError("E1011", f"'{function.name}' returns nothing, so it has no {RESULT}")
        return None, None, None
    name = names.fresh(RESULT)
    role = role_of(mode, "out", function.result_differentiable and mode != PRIMAL)
    spot = Spot(name, RESULT, role, mode, types, names.fresh)
    if wanted.marshal is not None:
        node = results.bind_given(wanted.marshal, function.result, spot)
        if node is not None:
            sources.append((node, wanted.index))
        return node, None, None
    if mode in REVERSE:
        cotangent = results.ones(function.result, types) if function.result_differentiable else None
        return None, None, cotangent
    return None, results.Created(function.result, spot, wanted.kind), None


def _dimensions(nodes: Iterable[BoundNode]) -> int:
    leaves = [leaf for node in nodes for _, leaf in node.leaves()]
    explicit = [leaf.explicit for leaf in leaves]
    counts = [0 if leaf.explicit is not None else leaf.dims for leaf in leaves]
    return call_dimensions(counts, explicit)


def _map_leaves(leaves: Iterable[Leaf], dims: int) -> None:
    for leaf in leaves:
        leaf.settle(dims)
        leaf.mapping = align_right(leaf.dims, dims) if leaf.explicit is None else leaf.explicit


_DERIVED = "_in _in_value _bytes _grad _pair _value _here _at _in_at _grad_at _words _seed _warmup _low _high _loaded "
_DERIVED += "_stored"
ENDINGS = ("", *_DERIVED.split(), *(f"_{i}" for i in range(8)))


class _Names:
    """Unique names of variables in the kernel; names derived from them are unique as well."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)

    def fresh(self, wanted: str) -> str:
        name = wanted
        while any(name + ending in self._taken for ending in ENDINGS):
            name += "_"
        self._taken.update(name + ending for ending in ENDINGS)
        return name
