"""Rules about products that pay for some shapes only: the cost model decides (`rewrite.py`).

    x @ a, x @ b, x @ c            one product with concatenate(a, b, c), and slices of it
    (x @ w) * scale                x @ (w * scale), or (x * scale) @ w

Each is a function of a node and of the graph around it. It gives replacements: nodes, and arrays of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from slangrad.graph.arrays.array import Array, lifted
from slangrad.graph.arrays.contractions import laid_out
from slangrad.graph.ir.node import Convolution, Node, key_of, topological_order
from slangrad.graph.ir.ops import letters_in
from slangrad.graph.ir.values import Operand
from slangrad.graph.rewriting.rules import first_along

Replacements = dict[Node, Array]
Choice = Callable[[Node, "Graph"], Iterator[Replacements]]

CONV = "nihw,oihw->nohw"  # a convolution has the axes of such a product; only the channels are letters of it


class Graph:
    """A graph with the readers of each node. `index`: the places of nodes in order."""

    def __init__(self, outputs: Sequence[Node]) -> None:
        self.outputs = set(outputs)
        self.index = {node: i for i, node in enumerate(topological_order(*outputs))}
        self.readers: dict[Node, list[Node]] = {node: [] for node in self.index}
        for node in self.index:
            for operand in node.inputs:
                self.readers[operand].append(node)

    def depend(self, nodes: Sequence[Node], on: Sequence[Node]) -> bool:
        """Whether some of the nodes depend on some others."""
        first, left, seen = min(self.index[node] for node in on), list(nodes), set[Node]()
        while left:
            node = left.pop()
            if node in on:
                return True
            if node not in seen and self.index[node] > first:
                seen.add(node)
                left += node.inputs
        return False


def letters_of(node: Node) -> tuple[list[str], str]:
    """The letters of the operands and of the result."""
    return letters_in(node.attributes.get("letters", CONV))


def multiplied(node: Node, a: Array, b: Array) -> Array:
    """The product of other operands."""
    if node.op == "conv":
        return a.convolved(b, Convolution.of(node))  # type: ignore[no-any-return]
    return lifted(np.einsum(node.attributes["letters"], a, b))


def is_product(node: Node) -> bool:
    return node.op == "einsum" or (node.op == "conv" and node.attributes["groups"] == 1)


def scaled_product(node: Node, graph: Graph) -> Iterator[Replacements]:
    """(x @ w) * s, where s is the same for all rows, is x @ (w * s): batch norm after a convolution is that, and a
    sum. Where s is the same for all columns, it is (x * s) @ w. A quotient likewise."""
    for i in (0, 1) if node.op == "multiply" else (0,) if node.op == "divide" else ():
        product, scale = node.inputs[i], node.inputs[1 - i]
        if not is_product(product):
            continue
        ins, out = letters_of(product)
        for k in (1,) if product.op == "conv" else (0, 1):
            shared = [c for c in out if c in ins[k] and (product.op != "conv" or c == "o")]
            factor = first_along(scale, tuple(j for j, c in enumerate(out) if c not in shared))
            if factor is None:
                continue
            factor = laid_out(factor, shared, ins[k])
            operands = [Array(x) for x in product.inputs]
            operands[k] = operands[k] * factor if node.op == "multiply" else operands[k] / factor
            yield {node: multiplied(product, *operands)}


def product_of_scaled(node: Node, graph: Graph) -> Iterator[Replacements]:
    """(x * s) @ w, where s is the same along the summed axes, is (x @ w) * s."""
    if node.op != "einsum":
        return
    ins, out = letters_of(node)
    for k in (0, 1):
        operand = node.inputs[k]
        for i in (0, 1) if operand.op == "multiply" else (0,) if operand.op == "divide" else ():
            factor = first_along(
                operand.inputs[1 - i], tuple(j for j, c in enumerate(ins[k]) if c not in out)
            )
            if factor is None:
                continue
            kept = [c for c in ins[k] if c in out]
            factor = laid_out(factor, kept, out)
            operands = [Array(x) for x in node.inputs]
            operands[k] = Array(operand.inputs[i])
            product = multiplied(node, *operands)
            yield {node: lifted(product * factor if operand.op == "multiply" else product / factor)}


def sum_of_product(node: Node, graph: Graph) -> Iterator[Replacements]:
    """sum(a @ b) is sum(a) @ sum(b)."""
    if node.op == "sum" and node.inputs[0].op == "einsum":
        (left, right), out = letters_of(node.inputs[0])
        kept = "".join(c for i, c in enumerate(out) if i not in node.attributes["axes"])
        yield {node: lifted(np.einsum(f"{left},{right}->{kept}", *map(Array, node.inputs[0].inputs)))}


def transposed_product(node: Node, graph: Graph) -> Iterator[Replacements]:
    """The axes of a product are written in another order: for a view that strides do not show, and for `b.T @ a.T`."""
    if node.op == "transpose" and node.inputs[0].op == "einsum":
        (left, right), out = letters_of(node.inputs[0])
        order, (a, b) = "".join(out[i] for i in node.attributes["order"]), map(Array, node.inputs[0].inputs)
        yield {node: lifted(np.einsum(f"{left},{right}->{order}", a, b))}
        yield {node: lifted(np.einsum(f"{right},{left}->{order}", b, a))}


def merged_products(node: Node, graph: Graph) -> Iterator[Replacements]:
    """Products that share an operand are one product with the others joined, and parts of it: q, k and v."""
    alike: dict[tuple[int, int, object], list[Node]] = {}
    for product in dict.fromkeys(filter(is_product, graph.readers[node])):
        k = product.inputs.index(node)
        (ins, _), shape = letters_of(product), product.inputs[1 - k].shape
        for axis, letter in enumerate(ins[1 - k]):
            if letter not in ins[k] if product.op == "einsum" else (k, letter) == (0, "o"):
                rest = shape[:axis] + shape[axis + 1 :]
                key = k, axis, (product.op, key_of(product.attributes), rest)
                alike.setdefault(key, []).append(product)
    for (k, axis, _), products in alike.items():
        others = [product.inputs[1 - k] for product in products]
        if len(products) > 1 and not graph.depend(others, products):
            joined = lifted(np.concatenate(list(map(Array, others)), axis))
            whole = multiplied(products[0], *((Array(node), joined) if k == 0 else (joined, Array(node))))
            ins, out = letters_of(products[0])
            ends = np.cumsum([other.shape[axis] for other in others])[:-1].tolist()
            parts: Sequence[Operand] = np.split(whole, ends, out.index(ins[1 - k][axis]))
            yield dict(zip(products, parts, strict=True))


def padded_convolutions(node: Node, graph: Graph) -> Iterator[Replacements]:
    """Zeros around an image are the convolutions' own; those of all that read it."""
    if node.op != "place" or len(node.shape) != 4 or node.attributes["steps"] != (1, 1, 1, 1):
        return
    (x,), starts = node.inputs, node.attributes["starts"]
    ends = [whole - start - n for whole, start, n in zip(node.shape, starts, x.shape, strict=True)]
    padded = {}
    for conv in graph.readers[node]:
        if conv.op == "conv" and conv.attributes["spread"] == (1, 1) and node.shape[:2] == x.shape[:2]:
            convolution = Convolution.of(conv)
            top, side = ((a + starts[i], b + ends[i]) for i, (a, b) in enumerate(convolution.padding, 2))
            padded[conv] = Array(x).convolved(
                Array(conv.inputs[1]), convolution._replace(padding=(top, side))
            )
    if padded:
        yield padded


def sum_of_products(node: Node, graph: Graph) -> Iterator[Replacements]:
    """x @ a + x @ b is x @ (a + b); x @ a + y @ b is concatenate(x, y) @ concatenate(a, b)."""
    first, second = node.inputs if node.op in ("add", "subtract") else (node, node)
    if (
        first.op != "einsum"
        or first is second
        or (second.op, second.attributes) != (first.op, first.attributes)
    ):
        return
    (ins, _), pairs = letters_of(first), list(zip(first.inputs, second.inputs, strict=True))
    for k in (0, 1):
        (x, y), (a, b) = pairs[k], map(Array, pairs[1 - k])
        if x is y and a.shape == b.shape:
            joined = a + b if node.op == "add" else a - b
            yield {node: multiplied(first, *((Array(x), joined) if k == 0 else (joined, Array(x))))}
    summed = [c for c in ins[0] if c in ins[1] and c not in letters_of(first)[1]]
    if len(summed) == 1 and node.op == "add" and first.inputs[0].shape == second.inputs[0].shape:
        whole = [
            np.concatenate(list(map(Array, pair)), ins[k].index(summed[0])) for k, pair in enumerate(pairs)
        ]
        yield {node: multiplied(first, *map(lifted, whole))}


def slice_of_product(node: Node, graph: Graph) -> Iterator[Replacements]:
    """(x @ w)[i:j] is x[i:j] @ w."""
    if node.op == "slice" and node.inputs[0].op == "einsum":
        (ins, out), product = letters_of(node.inputs[0]), node.inputs[0]
        cut = {
            c: (node.shape[i], node.attributes["starts"][i], node.attributes["steps"][i])
            for i, c in enumerate(out)
        }
        operands = []
        for names, x in zip(ins, product.inputs, strict=True):
            windows = [cut.get(c, (n, 0, 1)) for c, n in zip(names, x.shape, strict=True)]
            shape, starts, steps = zip(*windows, strict=True) if windows else ((), (), ())
            operands.append(Array(x).sliced(shape, starts, steps))
        yield {node: multiplied(product, *operands)}


def chain_of_products(node: Node, graph: Graph) -> Iterator[Replacements]:
    """(a @ b) @ c is a @ (b @ c): the order that np.einsum_path finds."""
    for k in (0, 1) if node.op == "einsum" else ():
        inner = node.inputs[k]
        if inner.op == "einsum":
            (ins, out), (inside, names) = letters_of(node), letters_of(inner)
            other = {c: c.upper() for c in "".join(inside)} | dict(zip(names, ins[k], strict=True))
            factors = ["".join(other[c] for c in letters) for letters in inside] + [ins[1 - k]]
            operands = map(Array, (*inner.inputs, node.inputs[1 - k]))
            yield {node: lifted(np.einsum(f"{','.join(factors)}->{out}", *operands))}


# With the pair as which enumeration found a rule.
CHOICES: tuple[tuple[Choice, str], ...] = (
    (scaled_product, ""),
    (product_of_scaled, ""),
    (sum_of_product, "sum0((v @ w)) -> (sum0(v) @ w)"),
    (transposed_product, "(T(v) @ T(w)) -> T((w @ v))"),
    (merged_products, ""),
    (padded_convolutions, ""),
    (sum_of_products, "((v @ w) + (v @ x)) -> (v @ (w + x))"),
    (slice_of_product, "top((cat(v, w) @ x)) -> (v @ x)"),
    (chain_of_products, "((v @ w) @ x) -> (v @ (w @ x))"),
)
# Intermediate sums can be larger than those of the program, too large for halves.
WIDER = (product_of_scaled, sum_of_product, chain_of_products)
