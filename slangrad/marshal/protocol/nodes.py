"""Bound values: trees of leaves, for the text of a kernel and for its launches.

A leaf has the text with which the kernel declares, loads and stores it. In every call it writes its part of the
argument block. Composites are made in the kernel of their parts.

    float f(float x), x = Tensor (n,)   ->   leaf "x", loaded by x.load(id)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, Protocol

from slangrad.check.model.types import Type
from slangrad.marshal.host.footprint import Footprint, Shape, Values, injective
from slangrad.marshal.protocol.program_types import ProgramTypes
from slangrad.marshal.protocol.roles import TANGENT, Role
from slangrad.marshal.protocol.spelling import spell_on_page
from slangrad.tensors.elements.conversion import HostValue


@dataclass(slots=True, frozen=True)
class KernelParameter:
    """A uniform parameter of the kernel."""

    type: str
    name: str


@dataclass(slots=True, frozen=True)
class StreamSpec:
    """Memory or an index of a leaf that moves from call to call; `unit` is its step to a neighbor."""

    name: str
    unit: int
    fixed: bool = False


class Scratch(Protocol):
    """Memory of one call, for values that the kernel writes and Python reads."""

    address: int
    memory: memoryview


Find = Callable[[HostValue], Hashable]  # of values that a leaf was bound to
Setter = Callable[[Values, int, HostValue, Scratch], None]
Finder = tuple[
    str, int, Callable[[HostValue], object] | None
]  # scalar number so much of a parameter; None: the value itself


class PageText(Protocol):
    """The page of a kernel, on which nodes write statements."""

    def say_before(self, line: str) -> None:
        """A statement before the call."""

    def say_after(self, line: str) -> None:
        """A statement after the call."""

    def declaration(self, t: Type, name: str, value: str = "") -> str:
        """The text of a variable."""

    def say_zero(self, t: Type, name: str, tangent: Type | None = None) -> None:
        """A variable of the Differential of a type, with zeros. `tangent`: the Differential, if it is known."""


@dataclass(slots=True, eq=False, kw_only=True)
class BoundNode:
    """A bound value. `mapping` has the call dimension of each of its dimensions; `explicit`: set by the user with
    `map`."""

    name: str
    label: str
    type: Type
    role: Role
    dims: int
    described: str = ""
    mapping: Shape = ()
    explicit: Shape | None = None

    is_whole: ClassVar[bool] = (
        False  # whether the function gets all of a memory, not an element for each call
    )

    @property
    def has_place(self) -> bool:
        """Whether the type itself has places for gradients."""
        return False

    @property
    def is_plain_whole(self) -> bool:
        """Whether it is a whole tensor of a type without places for gradients."""
        return False

    has_dimensions: ClassVar[bool] = (
        False  # whether `map` can say which of its dimensions are those of the call
    )

    @abstractmethod
    def leaves(self) -> Iterator[tuple[tuple[str | int, ...], Leaf]]:
        """All leaves below with the path of keys to their values."""

    @abstractmethod
    def leaves_of(self, value: str) -> Iterator[tuple[Leaf, str]]:
        """All leaves below, each with the expression of its part of a value."""

    @abstractmethod
    def leaves_of_tangent(self, value: str) -> Iterator[tuple[Leaf, str]]:
        """The same for a value of the Differential; parts without derivatives are left out."""

    @abstractmethod
    def mark(self, carries: bool, types: ProgramTypes) -> None:
        """Record in each leaf whether a derivative can pass there."""

    # --- on the page of the kernel

    @abstractmethod
    def primal(self, page: PageText) -> str:
        """An expression for the primal; composites become a variable first."""

    @abstractmethod
    def variable(self, page: PageText) -> str:
        """A variable that the function can write, holding the primal if that is read."""

    @abstractmethod
    def receive(self, page: PageText, value: str) -> str:
        """The statement that takes a result."""

    @abstractmethod
    def derivative(self, page: PageText, name: str) -> str:
        """An expression for the incoming derivative; parts without one are zero. `name`: of a variable, if one is
        needed."""

    def cotangent(self, page: PageText) -> str:
        """The incoming derivative of an output; that of a number is zero."""
        return self.derivative(page, f"{self.name}_in")


@dataclass(slots=True, eq=False, kw_only=True)
class Leaf(BoundNode):
    """A value that the kernel loads by itself. The defaults are those of a value that is the same in all
    calls.

    `declared`: the kernel's header has its parameters. `carries`: a derivative can pass here, if the function has one.
    `rank` is the number of loops of the kernel.
    `prepare`, if there is one, converts the given value in every call, as the first step.
    `scratch` bytes of the call's own memory are this leaf's, from `scratch_at` on.
    """

    has_dimensions: ClassVar[bool] = True
    reads_place: ClassVar[bool] = False  # whether it uses the index of the call
    is_packed: ClassVar[bool] = False  # whether it lies among the arguments as a plain value
    is_cell: ClassVar[bool] = False  # whether it is a single value that a call may write for Python
    has_elements: ClassVar[bool] = False  # whether each call loads or stores an element of its memory

    declared: bool = True
    carries: bool = False
    rank: int = 1
    prepare: Callable[[HostValue], object] | None = None
    scratch: int = 0
    scratch_at: int = 0

    streams: tuple[StreamSpec, ...] = ()

    def leaves(self) -> Iterator[tuple[tuple[str | int, ...], Leaf]]:
        yield (), self

    def leaves_of(self, value: str) -> Iterator[tuple[Leaf, str]]:
        yield self, value

    leaves_of_tangent = leaves_of

    def mark(self, carries: bool, types: ProgramTypes) -> None:
        self.carries = carries and self.content is not None and types.tangent(self.content) is not None

    @property
    def content(self) -> Type | None:
        """The type of the values that derivatives belong to; None where there are none."""
        return self.type

    @property
    def is_tensor(self) -> bool:
        """Whether its values are Tensors, whose memory other arguments may share."""
        return False

    @property
    def may_write(self) -> bool:
        """Whether the call may change the memory of the leaf's footprint."""
        return self.role.writes

    def hides(self, holds_addresses: Callable[[Type], bool]) -> bool:
        """Whether it may lead to memory outside of its footprint."""
        return not self.is_whole and holds_addresses(self.type)

    def instead(self, mode: str) -> str:
        """A note: the value to pass in place of a constant, so that a derivative can pass."""
        return f"pass diffPair({self.label}{', tangent' if mode == TANGENT else ''})"

    def settle(self, call_dims: int) -> None:
        """Called when the number of dimensions of the call is known."""
        self.rank = max(call_dims, 1)

    def group(self) -> None:
        """Threads are not in the order of calls: they follow each other group by group."""

    def guard(self) -> None:
        """In check mode the kernel has to know where memory ends."""

    def require_shape(self) -> None:
        """CallError where the value needs a call of some shape, and there is none."""

    # --- the kernel's text

    def primal(self, page: PageText) -> str:
        return self.load()

    def variable(self, page: PageText) -> str:
        name = f"{self.name}_value"
        page.say_before(page.declaration(self.type, name, self.load() if self.role.reads else ""))
        return name

    def receive(self, page: PageText, value: str) -> str:
        return self.store(value)

    def derivative(self, page: PageText, name: str) -> str:
        return self.take()

    def cotangent(self, page: PageText) -> str:
        if self.role.takes:
            return self.take()
        page.say_zero(self.type, f"{self.name}_in")
        return f"{self.name}_in"

    def parameters(self, classes: str) -> list[KernelParameter]:
        """The kernel's uniform parameters; `classes` has a letter for each stream, then those of the value's forms."""
        return [KernelParameter(spell_on_page(self.type), self.name)]

    def outside(self) -> list[str]:
        """Lines of the kernel's text that stand before it."""
        return []

    def before(self, classes: str) -> list[str]:
        """Statements that stand before the first use."""
        return []

    def load(self) -> str:
        """The primal of this call."""
        return self.name

    def store(self, value: str) -> str:
        """A statement that writes the primal."""
        raise AssertionError(f"no role lets '{self.name}' write")

    def take(self) -> str:
        """The incoming derivative."""
        raise AssertionError(f"no derivative comes in at '{self.name}'")

    def give(self, value: str, alone: bool) -> str:
        """A statement for the outgoing derivative; `alone`: no other call writes there."""
        raise AssertionError(f"no derivative goes out at '{self.name}'")

    # --- in every call

    def layout_finder(self) -> Find | None:
        """A function of a value, which returns the facts that its footprint depends on besides the key; None
        without such facts."""
        return None

    def footprint(self, value: HostValue) -> Footprint | None:
        """None when the value must be copied first; CallError when it is not of the bound type."""
        return Footprint(strides=[() for _ in self.streams])

    def along(self, sizes: Shape, strides: Sequence[Shape], call_shape: Shape) -> list[Shape]:
        """The strides of the streams along the dimensions of the call: zero where the value repeats."""
        along_call = []
        for steps in strides:
            call_strides = [0] * len(call_shape)
            for size, stride, dim in zip(sizes, steps, self.mapping):
                call_strides[dim] += stride if size in (call_shape[dim], -1) else 0
            along_call.append(tuple(call_strides))
        return along_call

    def stream_scalars(self, start: int, strides: Shape) -> list[int]:
        """The scalars of a stream's parameter, addresses left open; strides are along the loops."""
        return [start, *strides]

    def is_shared(self, stream: int, call_shape: Shape, strides: Sequence[Shape]) -> bool:
        """Whether several calls use an element of the memory of a stream; strides of streams are along the call."""
        if not self.has_elements or prod(call_shape) <= 1:
            return False
        return not injective(call_shape, strides[stream], self.streams[stream].unit)

    def finders(self) -> list[Finder]:
        """Functions that find single scalars of this call in the value."""
        return []

    def setters(self, call_shape: Shape) -> dict[str, Setter]:
        """For parameters, functions that write all other scalars of this call."""
        return {}

    def copy(self, value: object) -> object:
        """The value in memory that the kernel can use, for one that it cannot."""
        return value

    def copy_back(self, copied: object, value: object) -> None:
        """Copy the call's results from a copy to the value."""

    def finish(self, value: object, scratch: Scratch) -> object:
        """After the launch: read the scratch memory."""
        return value


@dataclass(slots=True, eq=False, kw_only=True)
class Composite(BoundNode):
    """A struct, vector or array made in the kernel from its children; `parts` are (access, node, tangent's
    access).

    `complete` is False when parts were left out: those have defaults, or are never read.
    """

    parts: list[CompositePart] = field(default_factory=list)
    complete: bool = True
    tangent: Type | None = None

    def leaves(self) -> Iterator[tuple[tuple[str | int, ...], Leaf]]:
        for part in self.parts:
            for path, leaf in part.node.leaves():
                yield (part.key, *path), leaf

    def leaves_of(self, value: str) -> Iterator[tuple[Leaf, str]]:
        for part in self.parts:
            yield from part.node.leaves_of(value + part.access)

    def leaves_of_tangent(self, value: str) -> Iterator[tuple[Leaf, str]]:
        for part in self.parts:
            if part.tangent_access is not None:
                yield from part.node.leaves_of_tangent(value + part.tangent_access)

    def mark(self, carries: bool, types: ProgramTypes) -> None:
        for part in self.parts:
            is_lost = isinstance(part.key, str) and types.tangent_field(self.type, part.key) is None
            part.node.mark(carries and not is_lost, types)

    def primal(self, page: PageText) -> str:
        page.say_before(page.declaration(self.type, self.name, "" if self.complete else "{}"))
        for part in self.parts if self.role.reads else ():
            page.say_before(f"{self.name}{part.access} = {part.node.primal(page)};")
        return self.name

    variable = primal

    def receive(self, page: PageText, value: str) -> str:
        name = f"{self.name}_value"
        for leaf, written in self.leaves_of(name):
            if leaf.role.writes:
                page.say_after(leaf.store(written))
        return page.declaration(self.type, name, value)

    def derivative(self, page: PageText, name: str) -> str:
        assert self.tangent is not None
        page.say_zero(self.type, name, self.tangent)
        for leaf, incoming in self.leaves_of_tangent(name):
            if leaf.role.takes:
                page.say_before(f"{incoming} = {leaf.take()};")
        return name


@dataclass(slots=True)
class CompositePart:
    """One child: its key in the dict or list, how Slang reaches it, and in the Differential."""

    key: str | int
    access: str
    node: BoundNode
    tangent_access: str | None
