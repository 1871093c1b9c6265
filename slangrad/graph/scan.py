"""`scan`: a function of a carry and of one element after another, as an operator whose body is traced once.

    h, hs = graph.scan(lambda h, x: (np.tanh(h + x), h), h0, xs)         xs has a leading axis, hs gets one

A node `scan` stands for the loop, a node `result` for each of its results: last carries, stacked results, and the
carries before each step, which the derivative reads. That is a loop in the other direction, with sums as further
carries, so it has a derivative like others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

import slangrad as spy
from slangrad.graph.arrays.array import Array, constant, lifted
from slangrad.graph.arrays.gradient import zeros
from slangrad.graph.arrays.trees import PyTree, all_leaves, filled, form_of, leaves, leaves_like, tree_map
from slangrad.graph.ir.devices import LoopArray
from slangrad.graph.ir.errors import GraphError, explained
from slangrad.graph.ir.node import Node, make, new_input, substituted, topological_order, type_text
from slangrad.graph.ir.ops import Bundle, base_of
from slangrad.graph.lowering.choose import Choose
from slangrad.graph.planning.options import PlanOptions
from slangrad.graph.planning.plan import Plan
from slangrad.graph.trace import is_traced, is_value, pullback

Step = Callable[[PyTree, PyTree], PyTree]


def scan(function: Step, init: object, xs: object = None, length: int | None = None) -> tuple[PyTree, PyTree]:
    """A loop that is traced once: `carry, y = function(carry, x)` for each x along the leading axis of `xs`.

    The first carry is `init`. The result is the last carry and the y's, stacked along a new leading axis. Carries,
    elements and results are arrays, numbers, and trees of them. A carry keeps its shape and dtype. `length` is the
    number of steps where `xs` has no arrays.

    GraphError (E1042) where the shape or dtype of a carry changes, or leading axes differ, (E1043) where the function
    gives no pair.
    """
    length = _length(xs, length)
    if any(map(is_traced, all_leaves((init, xs)))):
        return repeated(function, init, xs, length)
    if not length:
        empty = repeated(function, init, xs, length)[1]
        return init, tree_map(lambda y: np.zeros(y.shape, y.dtype) if is_traced(y) else y, empty)
    carry, rows, arrays = init, [], leaves(xs, is_value)
    for t in range(length):
        new, y = _pair(function(carry, filled(xs, (x[t] for x in arrays), is_value)))
        if any(map(is_traced, all_leaves((new, y)))):
            return repeated(function, init, xs, length)
        _check(carry, new)
        carry = new
        rows.append([np.asarray(leaf) for leaf in leaves(y, is_value)])
    stacked = map(np.stack, zip(*rows, strict=True))
    return carry, filled(y, stacked, is_value)


def repeated(
    function: Step, init: object, xs: object, length: int, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """The loop of traced arrays; `reverse`: from the last element to the first."""
    firsts, elements = ([lifted(leaf) for leaf in leaves(tree, is_value)] for tree in (init, xs))
    fresh = [new_input(x.shape, x.dtype, f"carry{i}") for i, x in enumerate(firsts)]
    fresh += [new_input(x.shape[1:], x.dtype, f"element{i}") for i, x in enumerate(elements)]
    traced = map(Array, fresh)
    new, y = _pair(function(filled(init, traced, is_value), filled(xs, traced, is_value)))
    _check(init, new)
    outputs = [lifted(leaf).node for leaf in (*leaves_like(new, init, is_value), *leaves(y, is_value))]
    if not length:
        empty = (constant(0, x.dtype).broadcast_to((0, *x.shape)) for x in outputs[len(firsts) :])
        return init, filled(y, empty, is_value)
    outer = _outer(outputs, fresh)
    inner = [new_input(x.shape, x.dtype, f"constant{i}") for i, x in enumerate(outer)]
    outputs = substituted(outputs, dict(zip(outer, inner, strict=True)))
    loop = ScanLoop((*fresh, *inner), tuple(outputs), len(firsts), len(elements), length, reverse)
    inputs = [*(x.node for x in (*firsts, *elements)), *outer]
    node = Array(make("scan", inputs, (0,), np.dtype(float), loop=loop))
    results = (loop.result(node, k) for k in range(len(outputs)))
    return filled(init, results, is_value), filled(y, results, is_value)


@dataclass(frozen=True, slots=True, eq=False)
class ScanLoop:
    """A body and its number of runs. `inputs`: first `carries` carries, then `scanned` elements, then constants;
    `outputs`: the new carries, then results. Its results are numbered: carries, stacked results, stacked carries."""

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    carries: int
    scanned: int
    length: int
    reverse: bool

    def __repr__(self) -> str:
        return f"<{self.length} times{' back' if self.reverse else ''}>"

    def result(self, node: Array, k: int) -> Array:
        of = self.outputs[k] if k < len(self.outputs) else self.inputs[k - len(self.outputs)]
        shape = of.shape if k < self.carries else (self.length, *of.shape)
        return Array(make("result", [node.node], shape, of.dtype, index=k))

    def apply(self, *arrays: Array) -> list[Array]:
        """The results of the body for other arrays."""
        values = dict(zip(self.inputs, (x.node for x in arrays), strict=True))
        return [Array(output) for output in substituted(self.outputs, values)]

    def needed(self, wanted: Iterable[int]) -> list[int]:
        """The outputs that results need: a carry is one where another output reads it."""
        numbers = {k if k < len(self.outputs) else k - len(self.outputs) for k in wanted}
        while True:
            read = set(topological_order(*(self.outputs[k] for k in numbers)))
            more = {i for i in range(self.carries) if self.inputs[i] in read}
            if more <= numbers:
                return sorted(numbers)
            numbers |= more

    def body(self, device: spy.Device, results: Iterable[int], choose: Choose) -> Plan:
        """The plan of one step."""
        outputs = [self.outputs[k] for k in self.needed(results)]
        return Plan(outputs, self.inputs, device, PlanOptions(is_body=True, choose=choose))

    def run(self, body: Plan, inputs: Sequence[LoopArray], results: dict[int, LoopArray]) -> None:
        """Run a plan of the needed outputs over memory of `inputs`, into that of `results`."""
        held = [body.array(x) for x in self.inputs]
        computed = dict(zip(self.needed(results), map(body.array, body.outputs), strict=True))
        count, last = len(self.outputs), self.carries + self.scanned
        for i in (*range(self.carries), *range(last, len(held))):
            held[i][...] = inputs[i]
        steps = range(self.length)
        for t in reversed(steps) if self.reverse else steps:
            for i in range(self.carries, last):
                held[i][...] = inputs[i][t]
            for k, to in results.items():
                if k >= count:
                    to[t] = held[k - count]
            body.repeat()
            for k, value in computed.items():
                if k >= self.carries:
                    results[k][t] = value
            for k in range(self.carries):
                if k in computed:
                    held[k][...] = computed[k]
        for k in range(self.carries):
            if k in results:
                results[k][...] = held[k]

    def cotangents(self, g: Bundle, y: Array, xs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The cotangents of all inputs, by a loop in the other direction over the carries before each step."""
        count, last = len(self.outputs), self.carries + self.scanned
        floats = [i for i, x in enumerate(self.inputs) if x.dtype.kind == "f"]
        carries = [i for i in floats if i < self.carries]
        results = [k for k in range(self.carries, count) if self.outputs[k].dtype.kind == "f"]
        before = [self.result(y, count + i) for i in range(self.carries)]

        def cotangent(k: int) -> Array:
            return g[k] if k in g else zeros(self.result(y, k).node)

        def step(state: PyTree, at: PyTree) -> PyTree:
            (later, sums), (point, elements, of_results, of_carries) = state, at
            point = [*point, *elements, *xs[last:]]
            cts = dict(zip(floats, pullback(self.apply, point, floats, [*later, *of_results]), strict=True))
            now = [cts[i] + more for i, more in zip(carries, of_carries, strict=True)]
            sums = [total + cts[i] for i, total in sums.items()]
            sums = dict(zip((i for i in floats if i >= last), sums, strict=True))
            return (now, sums), {i: cts[i] for i in floats if self.carries <= i < last}

        totals = {i: zeros(xs[i].node) for i in floats if i >= last}
        elements = [*xs[self.carries : last]]
        over = before, elements, [cotangent(k) for k in results], [cotangent(count + i) for i in carries]
        start = [cotangent(i) for i in carries], totals
        (first, sums), stacked = repeated(step, start, over, self.length, not self.reverse)
        by_input = {**dict(zip(carries, first, strict=True)), **sums, **stacked}
        return tuple(by_input.get(i) for i in range(len(xs)))


def _outer(outputs: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """The nodes that a body reads, and that do not depend on carries and elements: they are computed once."""
    inside, outer = set(inputs), dict[Node, None]()
    for node in topological_order(*outputs):
        if not inside.isdisjoint(node.inputs):
            inside.add(node)
            outer |= dict.fromkeys(x for x in node.inputs if x not in inside)
    outer |= dict.fromkeys(x for x in outputs if x not in inside)
    return [x for x in outer if base_of(x).op not in ("constant", "count")]


@explained("scan: length")
def _length(xs: object, length: int | None) -> int:
    lengths = {np.shape(leaf)[:1] for leaf in leaves(xs, is_value)}
    lengths |= set() if length is None else {(length,)}
    if len(lengths) != 1 or () in lengths or (length is not None and operator.index(length) < 0):
        sizes = ", ".join(sorted(str(shape[0]) if shape else "none" for shape in lengths))
        note = "all arrays of xs have the same one"
        raise GraphError("E1042", f"scan: leading axes of {sizes or 'nothing'}", note)
    return int(next(iter(lengths))[0])


def _pair(result: object) -> tuple[PyTree, PyTree]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError("E1043", f"scan: the function gives a {type(result).__name__}", "a pair: (carry, y)")
    return result


def _seen(leaf: object) -> object:
    return "*" if is_value(leaf) else leaf


def _check(old: object, new: object) -> None:
    """GraphError (E1042) where the form, the shape or the dtype of a carry changes."""
    if form_of(old, _seen) != form_of(new, _seen):
        raise GraphError("E1042", f"scan: the carry {tree_map(_seen, old)} becomes {tree_map(_seen, new)}")
    for pair in zip(leaves(old, is_value), leaves_like(new, old, is_value), strict=True):
        x, z = (leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in pair)
        if (x.shape, x.dtype) != (z.shape, z.dtype):
            kinds = [type_text(new_input(tuple(array.shape), array.dtype)) for array in (x, z)]
            note = f"give scan, or return, {x.dtype} of {x.shape}"
            raise GraphError("E1042", f"scan: a carry of {' becomes '.join(kinds)}", note)
