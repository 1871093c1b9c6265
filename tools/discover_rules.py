"""Find rules: pairs of small graphs of tensors with the same values.

    python tools/discover_rules.py 2        graphs of up to two operations, a pair a line, those that save most first

All graphs of some operations over three matrices are run on random integers modulo a prime, so equal values are equal
graphs up to an accident of one in 2^31. A map, such as tanh, is a polynomial with random coefficients: what holds for
it holds for any map. Pairs that follow from smaller ones are dropped. A person reads the rest, and enters rows in
`slangrad/graph/rewriting/rules.py`, marked as found.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import Node, new_input, topological_order
from slangrad.graph.rewriting.rewrite import Rewriter

PRIME = (1 << 31) - 1
SIZE = 4


# --- graphs modulo the prime


def elements(shape: Sequence[int], rng: np.random.Generator) -> Any:
    """Random integers, as Python's, which do not overflow."""
    return rng.integers(1, PRIME, tuple(shape)).astype(object)


def modulo(value: float) -> int:
    """A number, whose denominator is a power of two, as an element of the field."""
    exact = Fraction(value)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def _reciprocal(x: Any) -> Any:
    return np.frompyfunc(lambda number: pow(int(number), -1, PRIME) if number else 0, 1, 1)(x)


def _any_map(name: str) -> Callable[[Any], Any]:
    """A polynomial of its own for each name."""
    a, b, c = np.random.default_rng(list(name.encode())).integers(1, PRIME, 3).tolist()
    return lambda x: (a * x * x + b * x + c) * x


def _placed(node: Node, x: Any) -> Any:
    placed = np.zeros(node.shape, object)
    placed[_window(node, x.shape)] = x
    return placed


def _window(node: Node, shape: Sequence[int]) -> tuple[Any, ...]:
    starts, steps = node.attributes["starts"], node.attributes["steps"]
    return np.ix_(*(range(a, a + n * step, step) for a, n, step in zip(starts, shape, steps, strict=True)))


FIELD: dict[str, Callable[..., Any]] = {
    "add": lambda node, a, b: a + b,
    "subtract": lambda node, a, b: a - b,
    "multiply": lambda node, a, b: a * b,
    "divide": lambda node, a, b: a * _reciprocal(b),
    "negative": lambda node, x: -x,
    "positive": lambda node, x: x,
    "square": lambda node, x: x * x,
    "reciprocal": lambda node, x: _reciprocal(x),
    "convert": lambda node, x: x,
    "constant": lambda node: modulo(float(np.frombuffer(node.attributes["value"], node.dtype)[0])),
    "broadcast": lambda node, x: np.broadcast_to(x, node.shape),
    "transpose": lambda node, x: x.transpose(node.attributes["order"]),
    "reshape": lambda node, x: x.reshape(node.shape),
    "slice": lambda node, x: x[_window(node, node.shape)],
    "stop_gradient": lambda node, x: x,
    "place": _placed,
    "concatenate": lambda node, *xs: np.concatenate(xs, node.attributes["axis"]),
    "sum": lambda node, x: x.sum(axis=node.attributes["axes"]),
    "einsum": lambda node, a, b: np.einsum(node.attributes["letters"], a, b),
    "take_along": lambda node, x, i: np.take_along_axis(x, i.astype(int), node.attributes["axis"]),
    "captured": lambda node: np.asarray(node.attributes["captured"].value).astype(object),
}


def in_field(outputs: Sequence[Node]) -> bool:
    """Whether all operations have a meaning modulo a prime."""
    return all(node.op == "input" or node.op in FIELD for node in topological_order(*outputs))


def evaluated(outputs: Sequence[Node], values: Mapping[Node, Any]) -> list[Any]:
    """The outputs modulo the prime, for arrays in place of some nodes."""
    results = dict(values)

    def value(node: Node) -> Any:
        if node not in results:
            inputs = [value(operand) for operand in node.inputs]
            results[node] = FIELD[node.op](node, *inputs) if node.op in FIELD else _any_map(node.op)(*inputs)
            results[node] = np.asarray(
                results[node] if node.dtype.kind == "i" else results[node] % PRIME, object
            )
        return results[node]

    return [value(node) for node in outputs]


# --- enumeration


@dataclass(frozen=True)
class Term:
    """An operation of terms: `x` is Term("x"), `x @ w` is Term("@", (x, w))."""

    name: str
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        terms = [str(term) for term in self.terms]
        if self.name in INFIX:
            return f"({terms[0]} {self.name} {terms[1]})"
        return f"{self.name}({', '.join(terms)})" if terms else self.name

    @property
    def size(self) -> int:
        return sum(term.size for term in self.terms) + bool(self.terms)

    @property
    def variables(self) -> set[str]:
        return set().union(*(term.variables for term in self.terms)) if self.terms else {self.name}


INFIX = {"+", "-", "*", "@"}
COMMUTE = {"+", "*"}
OPERATIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "T": (1, lambda x: x.T),
    "f": (1, np.tanh),
    "neg": (1, lambda x: -x),
    "k": (1, lambda x: x * 3.0),
    "sum0": (1, lambda x: x.sum(0, keepdims=True)),
    "sum1": (1, lambda x: x.sum(1, keepdims=True)),
    "top": (1, lambda x: x[:SIZE]),
    "bottom": (1, lambda x: x[SIZE:]),
    "+": (2, lambda a, b: a + b),
    "-": (2, lambda a, b: a - b),
    "*": (2, lambda a, b: a * b),
    "@": (2, lambda a, b: a @ b),
    "cat": (2, lambda a, b: np.concatenate([a, b])),
}


def fits(name: str, shapes: Sequence[Any]) -> bool:
    """Whether an operation is tried: matrices of one or two sizes."""
    if name in ("top", "bottom"):
        return bool(shapes[0][0] == 2 * SIZE)
    if name == "@":
        return bool(shapes[0][1] == shapes[1][0])
    if name == "cat":
        return bool(shapes[0] == shapes[1] and shapes[0][0] == SIZE)
    return name not in INFIX or shapes[0] == shapes[1]


Pair = tuple[float, Term, Term]


class Search:
    """All terms up to a size over x, w and v. `pairs`: the seconds that the second one saves, and two of one value."""

    def __init__(self, size: int, names: Sequence[str] = tuple(OPERATIONS), seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._names = names
        self._found: dict[Any, Term] = {}
        self._nodes: dict[Term, Node] = {}
        self._values: dict[Term, Any] = {}
        self._prices: dict[Any, float] = {}
        self._rewriter = Rewriter()
        self._levels: list[list[Term]] = [[Term(name) for name in "xwv"]]
        pairs: list[Pair] = []
        for term in self._levels[0]:
            self._nodes[term] = new_input((SIZE, SIZE), np.dtype(np.float64), term.name)
            self._values[term] = elements((SIZE, SIZE), rng)
            self._found[self._key(term)] = term
        for n in range(1, size + 1):
            self._levels.append([])
            for term in self._terms(n):
                other = self._entered(term)
                if other is term:
                    self._levels[n].append(term)
                else:
                    saved = self._price(term) - self._price(other)
                    pairs.append((saved, term, other) if saved >= 0 else (-saved, other, term))
        self.pairs = independent(pairs)

    def _terms(self, n: int) -> Iterator[Term]:
        """Those of n operations that are tried."""
        for name in self._names:
            for split in [(n - 1,)] if OPERATIONS[name][0] == 1 else [(i, n - 1 - i) for i in range(n)]:
                for terms in product(*(self._levels[i] for i in split)):
                    is_twin = name in COMMUTE and str(terms[0]) > str(terms[1])
                    if not is_twin and fits(name, [self._nodes[number].shape for number in terms]):
                        yield Term(name, terms)

    def _entered(self, term: Term) -> Term:
        """The first term of the same value."""
        nodes = [self._nodes[number] for number in term.terms]
        node = OPERATIONS[term.name][1](*map(Array, nodes)).node
        fixed = {a: self._values[b] for a, b in zip(nodes, term.terms, strict=True)}
        (self._values[term],) = evaluated([node], fixed)
        other = self._found.setdefault(self._key(term), term)
        if other is term:
            self._nodes[term] = new_input(node.shape, node.dtype)
        return other

    def _key(self, term: Term) -> Any:
        value = self._values[term]
        return value.shape, tuple(value.ravel().tolist())

    def _price(self, term: Term) -> float:
        """Seconds of its operations, one after another."""
        if not term.terms:
            return 0.0
        nodes = [self._nodes[number] for number in term.terms]
        key = term.name, *(node.shape for node in nodes)
        if key not in self._prices:
            self._prices[key] = self._rewriter.seconds([OPERATIONS[term.name][1](*map(Array, nodes)).node])
        return self._prices[key] + sum(map(self._price, term.terms))


# --- which pairs follow from others


def matches(pattern: Term, term: Term, bound: Mapping[str, Term]) -> Iterator[Mapping[str, Term]]:
    """How the variables of a pattern can be bound."""
    if not pattern.terms:
        if bound.get(pattern.name, term) == term:
            yield {**bound, pattern.name: term}
    elif pattern.name == term.name:
        for terms in [term.terms, term.terms[::-1]] if term.name in COMMUTE else [term.terms]:
            bindings = [bound]
            for a, b in zip(pattern.terms, terms, strict=True):
                bindings = [more for binding in bindings for more in matches(a, b, binding)]
            yield from bindings


def filled(pattern: Term, bound: Mapping[str, Term]) -> Term:
    if not pattern.terms:
        return bound[pattern.name]
    return Term(pattern.name, tuple(filled(term, bound) for term in pattern.terms))


def normal(term: Term, rules: Mapping[str, Sequence[tuple[Term, Term]]]) -> Term:
    """A term after rules, operands of sums and products of elements in order."""
    for _ in range(20):
        terms = tuple(normal(part, rules) for part in term.terms)
        term = Term(term.name, tuple(sorted(terms, key=str)) if term.name in COMMUTE else terms)
        for left, right in rules.get(term.name, ()):
            bound = next(matches(left, term, {}), None)
            if bound is not None:
                term = filled(right, bound)
                break
        else:
            break
    return term


def independent(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that do not follow from smaller ones, by what they save."""
    rules: dict[str, list[tuple[Term, Term]]] = {}
    kept = []
    by_size = sorted(pairs, key=lambda p: (p[1].size + p[2].size, -len(p[1].variables), str(p[1])))
    for saved, left, right in by_size:
        a, b = normal(left, rules), normal(right, rules)
        if a != b and right.variables <= left.variables and left.terms:
            kept.append((saved, left, right))
            if saved or left.size > right.size:
                rules.setdefault(left.name, []).append((left, right))
    return sorted(kept, key=lambda pair: (-pair[0], str(pair[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description="Find pairs of graphs with the same values.")
    parser.add_argument("size", type=int, nargs="?", default=2, help="operations of a graph")
    parser.add_argument("--names", nargs="*", default=list(OPERATIONS), help="which operations; default: all")
    parser.add_argument("--all", action="store_true", help="also pairs that save nothing for square matrices")
    arguments = parser.parse_args()
    for saved, left, right in Search(arguments.size, arguments.names).pairs:
        if saved or arguments.all:
            print(f"{saved * 1e6:8.2f} us  {left} -> {right}")


if __name__ == "__main__":
    main()
