"""Nodes: the IR of a graph.

    %7: f32[512,256] = tanh %5        # mlp.py:4

A node is an operator of `ops.py`, the nodes that it reads, attributes, a shape and a dtype. Nodes do not change. Two
nodes of the same content are one object, so common subexpressions are found where nodes are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from math import prod
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np

from slangrad.base.process.threads import Interned
from slangrad.graph.ir.errors import SourceLine, here

if TYPE_CHECKING:
    from slangrad.graph.arrays.captured import Captured
    from slangrad.graph.attention import Streamed
    from slangrad.graph.calls import SlangCall
    from slangrad.graph.scan import ScanLoop
    from slangrad.graph.workers.meshes.collectives import Collective
    from slangrad.graph.workers.meshes.specs import Spec

Shape = tuple[int, ...]
Pair = tuple[int, int]
DType = np.dtype
T = TypeVar("T")

_NAMES = {"bool": "bool", "float": "f", "int": "i", "uint": "u"}
_numbers = count(1)


class NodeAttributes(TypedDict, total=False):
    """Attributes of operators, beside their inputs."""

    axes: Shape  # those that a reduction removes
    axis: int
    captured: Captured
    collective: Collective
    dilation: Pair
    every: int  # of windows: the steps between two of their elements
    function: SlangCall
    groups: int
    index: int  # of a result of a loop
    letters: str
    loop: ScanLoop
    name: str
    order: Shape
    over: tuple[str, ...]  # axes of the mesh
    padding: tuple[Pair, Pair]
    spec: Spec
    size: int
    spread: Pair
    starts: Shape
    steps: Shape
    streamed: Streamed
    stride: Pair
    value: bytes


class Convolution(NamedTuple):
    """Steps of a convolution along height and width, and zeros: `padding` around the image, where a number below zero
    cuts pixels off, and `spread` - 1 between its pixels."""

    stride: Pair
    padding: tuple[Pair, Pair]
    dilation: Pair
    spread: Pair = (1, 1)
    groups: int = 1

    @classmethod
    def of(cls, node: Node) -> Convolution:
        """That of a node `conv`."""
        at = node.attributes
        return cls(at["stride"], at["padding"], at["dilation"], at["spread"], at["groups"])

    @property
    def attributes(self) -> NodeAttributes:
        stride, padding, dilation, spread, groups = self
        return NodeAttributes(stride=stride, padding=padding, dilation=dilation, spread=spread, groups=groups)


class Node:
    """`attributes`: facts of the operator beside its inputs. `shape`: the size of each axis, `dtype`: of
    elements."""

    __slots__ = ("__weakref__", "attributes", "dtype", "inputs", "number", "op", "place", "shape")

    def __init__(
        self, op: str, inputs: tuple[Node, ...], attributes: NodeAttributes, shape: Shape, dtype: DType
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype
        self.number = next(_numbers)
        self.place: SourceLine | None = here()

    def __repr__(self) -> str:
        return f"{self.op}: {type_text(self)}"

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


_known: Interned[Node] = Interned()


def make(
    op: str, inputs: Iterable[Node], shape: Shape, dtype: DType, **attributes: Unpack[NodeAttributes]
) -> Node:
    """The node of this content."""
    parts = tuple(inputs)
    # An input lives as long as the node, so its identity names it.
    key = (op, tuple(map(id, parts)), key_of(attributes), shape, dtype)
    node = _known.get(key)
    if node is None:
        node = _known.setdefault(key, Node(op, parts, attributes, shape, dtype))
    return node


def key_of(attributes: NodeAttributes) -> tuple[tuple[str, object], ...]:
    """Equal for equal attributes."""
    return tuple(sorted(attributes.items(), key=itemgetter(0)))


def new_input(shape: Shape, dtype: DType, name: str = "") -> Node:
    """A value from outside, as a new node."""
    return Node("input", (), {"name": name}, shape, dtype)


def topological_order(*outputs: Node) -> list[Node]:
    """All nodes that the outputs need, inputs before the nodes that read them."""
    return in_order(outputs, attrgetter("inputs"))


def in_order(roots: Sequence[T], needs: Callable[[T], Sequence[T]]) -> list[T]:
    """The roots and all nodes that they need, inputs first."""
    order: dict[T, None] = {}
    seen: set[T] = set()
    left = list(reversed(roots))
    while left:
        if left[-1] in seen:
            order[left.pop()] = None
        else:
            seen.add(left[-1])
            left += [need for need in reversed(needs(left[-1])) if need not in seen]
    return list(order)


def rebuilt(outputs: Sequence[Node], change: Callable[[Node, tuple[Node, ...]], Node]) -> list[Node]:
    """The outputs with each node replaced by `change(node, new inputs)`, inputs first."""
    new: dict[Node, Node] = {}
    for node in topological_order(*outputs):
        new[node] = change(node, tuple(new[x] for x in node.inputs))
    return [new[output] for output in outputs]


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The same operation of other nodes of the same shapes and types."""
    if inputs == node.inputs:
        return node
    replica = make(node.op, inputs, node.shape, node.dtype, **node.attributes)
    replica.place = node.place
    return replica


def substituted(outputs: Sequence[Node], values: Mapping[Node, Node]) -> list[Node]:
    """The outputs with some nodes replaced."""
    return rebuilt(outputs, lambda node, inputs: values.get(node) or with_inputs(node, inputs))


# --- text


def type_text(node: Node) -> str:
    kind = node.dtype.name.rstrip("0123456789")
    bits = "" if kind == "bool" else 8 * node.dtype.itemsize
    return f"{_NAMES[kind]}{bits}[{','.join(map(str, node.shape))}]"


def attribute_texts(node: Node) -> dict[str, object]:
    """The attributes as text has them: the value of a constant as a number, of NaN as its bits."""
    value = node.attributes.get("value")
    if value is None:
        return {**node.attributes}
    number = np.frombuffer(value, node.dtype)[0]
    return {**node.attributes, "value": str(number) if number == number else value.hex()}


def text(*outputs: Node, places: bool = True) -> str:
    """The graph, a line for each node. `places`: with the user's lines."""
    numbers: dict[Node, int] = {}
    lines = []
    for node in topological_order(*outputs):
        numbers[node] = len(numbers)
        parts = [node.op, ", ".join(f"%{numbers[x]}" for x in node.inputs)]
        parts += [f"{name}={value}" for name, value in attribute_texts(node).items() if value != ""]
        line = f"%{numbers[node]}: {type_text(node)} = {' '.join(filter(None, parts))}"
        lines.append(f"{line:<60}  # {node.place}" if places and node.place else line)
    lines.append("return " + ", ".join(f"%{numbers[output]}" for output in outputs))
    return "\n".join(lines) + "\n"


def content(*outputs: Node) -> str:
    """The content of a graph, with the bodies of its loops, and the names of Slang functions in kernels, which
    contain a digest of their modules. Lines are not part of it, because equal nodes of several functions have the
    line of the first."""
    order = topological_order(*outputs)
    loops = (node.attributes["loop"] for node in order if node.op == "scan")
    functions = (node.attributes["function"].called for node in order if node.op == "slang")
    return "\n".join([text(*outputs, places=False), *functions, *(content(*loop.outputs) for loop in loops)])
