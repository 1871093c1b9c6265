"""The protocol of arguments: marshals describe Python values, and nodes are bound values for the kernel's text.

Once for each signature: `Marshal.ways` (its possible Slang types, with the number of call dimensions) and
`Marshal.bind`, which returns a tree of Leaves. A leaf has the text with which the kernel declares, loads and stores
it; in every call it writes its part of the argument block.

    float f(float x), x = Tensor (n,)  ->  Way(float, 1 dimension)  ->  leaf "x", loaded by x.load(id)
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Protocol, TypedDict

from slangrad.check.model.types import GenericArgument, Type
from slangrad.ir.data import types as ir
from slangrad.marshal.host.footprint import Footprint, Shape, Values, injective
from slangrad.tensors.elements.conversion import HostValue

PRIMAL, BACKWARD, TANGENT = "primal", "bwds", "fwds"
HIGHER = "hvp"  # derivatives of `bwds` in a direction
REVERSE = (BACKWARD, HIGHER)  # modes in which derivatives come in at results and go out at inputs


@dataclass(slots=True, frozen=True)
class Role:
    """The use of a value in a call: `takes` and `gives` are about its derivative.

    `takes`: a cotangent (bwds) or tangent (fwds) is read from `grad_in`; `gives`: "add" to or "store" in
    `grad_out`. In `hvp` inputs take tangents, outputs cotangents.
    """

    reads: bool = False
    writes: bool = False
    takes: bool = False
    gives: str = ""

    @property
    def differentiates(self) -> bool:
        return self.takes or bool(self.gives)

    def without_derivative(self) -> Role:
        return Role(self.reads, self.writes)


# fmt: off
ROLES: dict[tuple[str, str], Role] = {
    (PRIMAL,   "in"):    Role(reads=True),
    (PRIMAL,   "out"):   Role(writes=True),
    (PRIMAL,   "inout"): Role(reads=True, writes=True),
    (BACKWARD, "in"):    Role(reads=True, gives="add"),
    (BACKWARD, "out"):   Role(takes=True),
    (BACKWARD, "inout"): Role(reads=True, takes=True, gives="add"),
    (TANGENT,  "in"):    Role(reads=True, takes=True),
    (TANGENT,  "out"):   Role(writes=True, gives="store"),
    (TANGENT,  "inout"): Role(reads=True, writes=True, takes=True, gives="store"),
    (HIGHER,   "in"):    Role(reads=True, takes=True, gives="add"),
    (HIGHER,   "out"):   Role(takes=True),
    (HIGHER,   "inout"): Role(reads=True, takes=True, gives="add"),
}
# fmt: on

Reflected = Any  # of `api/reflection`, which stands above, or of type_kinds.py, which is loaded late
_DIRECTIONS = {"in": "in", "constref": "in", "out": "out", "inout": "inout", "ref": "inout"}


def role_of(mode: str, direction: str, differentiable: bool) -> Role:
    """The role of a parameter; in `bwds` only values that can carry a derivative are written."""
    role = ROLES[mode, _DIRECTIONS[direction]]
    if differentiable:
        return role
    return Role(role.reads, role.writes and mode not in REVERSE)


class ProgramTypes(Protocol):
    """The types of the called program for marshals. Without a program only plain types are known."""

    def lower(self, t: Type) -> ir.Type | None:
        """The type in memory."""

    def lift(self, t: ir.Type) -> Type | None:
        """The type that has this type in memory."""

    def fields(self, t: Type) -> tuple[tuple[str, Type], ...]:
        """Fields of a struct, components of a vector."""
        return ()

    def enumerators(self, t: Type) -> tuple[tuple[str, int], ...]:
        """Names and values of an enum."""
        return ()

    def initialized_fields(self, t: Type) -> set[str]:
        """The fields whose declarations have initializers."""
        return set()

    def no_diff_fields(self, t: Type) -> set[str]:
        """The fields that carry no derivative, whatever their types are."""
        return set()

    def program(self) -> Reflected:
        """The public layout of these types; None without a module."""
        return None

    def find(self, name: str) -> Type | None:
        """The type of a name, as it is written in the module."""
        return None

    def tangent(self, t: Type) -> Type | None:
        """The Differential of a type; None when it has none."""

    def tangent_field(self, t: Type, name: str) -> str | None:
        """The field of the Differential that belongs to a field."""

    def bounds(self, t: Type) -> tuple[Type, ...]:
        """The interfaces in the bounds of a parameter of this type."""
        return ()

    def standard(self, name: str, arguments: tuple[GenericArgument, ...]) -> Type:
        """A generic type of the standard library."""

    def matches(self, pattern: Type, t: Type) -> bool:
        """Whether a parameter of this type can take a value of that type; interfaces are conformed to."""

    def lacking(self, pattern: Type, t: Type) -> str:
        """The interface of a parameter to which a type does not conform, and its missing members; empty if that is
        not the cause."""
        return ""


@dataclass(slots=True, frozen=True)
class Way:
    """One way to see a value. `how` is the marshal's own note; `parts` are those of a dict's or list's
    children.
    """

    type: Type
    dims: int
    how: str = ""
    cost: int = 0
    parts: tuple[Way, ...] = ()


class NodeFields(TypedDict):
    """The fields of each bound value."""

    name: str
    label: str
    type: Type
    role: Role
    dims: int
    described: str


@dataclass(slots=True, frozen=True)
class Spot:
    """The place where a value is bound: its name in the kernel, its label in messages, its role.

    `fresh` makes a name unique.
    """

    name: str
    label: str
    role: Role
    mode: str
    types: ProgramTypes
    fresh: Callable[[str], str]

    def node(self, t: Type, role: Role, described: str, dims: int = 0) -> NodeFields:
        """The fields of each bound value here."""
        return {
            "name": self.name, "label": self.label, "type": t, "role": role, "dims": dims, "described": described
        }  # fmt: skip

    def child(self, name: str, label: str, role: Role) -> Spot:
        return Spot(self.fresh(f"{self.name}_{name}"), label, role, self.mode, self.types, self.fresh)


class Marshal(ABC):
    """One Python value as an argument. Made anew for each signature, so it may keep facts of its key."""

    described: str

    @property
    def is_plain(self) -> bool:
        """Whether values can be packed with the arguments, if they bring no dimensions."""
        return False

    @property
    def is_torch(self) -> bool:
        """Whether a torch tensor is in the value, which makes the call one of PyTorch."""
        return False

    @abstractmethod
    def ways(self, wanted: Type, types: ProgramTypes, mode: str) -> Iterable[Way]:
        """The ways of the value to a parameter of type `wanted`; empty without one."""

    def holds(self, wanted: Type, types: ProgramTypes) -> Type | None:
        """The type of the elements of a container."""
        return None

    @abstractmethod
    def bind(self, way: Way, spot: Spot) -> BoundNode:
        """The value in one of its ways; CallError if it cannot have its role."""

    def reason(self, wanted: Type, types: ProgramTypes) -> str:
        """Why there is no way, and a cure."""
        return f"{self.described} does not fit '{wanted}'{_instead_of(str(wanted))}"


def _instead_of(wanted: str) -> str:
    """A note: the type to declare in place of a texture."""
    texture = re.match(r"(RW)?Texture(1D|2D|3D)<(.*)>$", wanted)
    if texture is None:
        return ""
    declared = f"I{texture[1] or ''}Tensor<{texture[3]}, {texture[2][0]}>"
    return f": pass a Texture, device.create_texture() makes one, or declare it as {declared}"


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

    @abstractmethod
    def leaves(self) -> Iterator[tuple[tuple[str | int, ...], Leaf]]:
        """All leaves below with the path of keys to their values."""


@dataclass(slots=True, eq=False, kw_only=True)
class Leaf(BoundNode):
    """A value that the kernel loads by itself. The defaults are those of a value that is the same in all
    calls.

    `declared`: the kernel's header has its parameters. `carries`: a derivative can pass here, if the function has one.
    `rank` is the number of loops of the kernel.
    `prepare`, if there is one, converts the given value in every call, as the first step.
    `scratch` bytes of the call's own memory are this leaf's, from `scratch_at` on.
    """

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

    @abstractmethod
    def parameters(self, classes: str) -> list[KernelParameter]:
        """The kernel's uniform parameters; `classes` has a letter for each stream, then those of the value's forms."""

    def outside(self) -> list[str]:
        """Lines of the kernel's text that stand before it."""
        return []

    def before(self, classes: str) -> list[str]:
        """Statements that stand before the first use."""
        return []

    @abstractmethod
    def load(self) -> str:
        """The primal of this call."""

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


@dataclass(slots=True)
class CompositePart:
    """One child: its key in the dict or list, how Slang reaches it, and in the Differential."""

    key: str | int
    access: str
    node: BoundNode
    tangent_access: str | None
