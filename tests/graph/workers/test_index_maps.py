"""The index map of every operator: shards computed from shards are those of the whole.

For each factor of a rule, and each two, inputs are cut with NumPy, the operator is run on each worker's shards, and the
results are put together again: copies, parts side by side, and partial sums, largest and smallest values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array, mapped
from slangrad.graph.attention import Streamed
from slangrad.graph.ir.node import Node, make, new_input, substituted, topological_order
from slangrad.graph.ir.ops import OPS
from slangrad.graph.planning.plan import Plan
from slangrad.graph.trace import tracing
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import Spec
from slangrad.graph.workers.sharding.index_maps import index_map_of
from slangrad.graph.workers.sharding.partition import partitioned
from slangrad.graph.workers.sharding.propagate import input_specs, is_legal, output_spec

RNG = np.random.default_rng(5)
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}
MESHES = [{"a": 2}, {"a": 3}, {"a": 4}]
PAIRS = [{"a": 2, "b": 2}, {"a": 2, "b": 3}]

U = RNG.uniform(0.1, 0.9, (4, 12, 6))
V = RNG.uniform(0.1, 0.9, (4, 12, 6))
N = RNG.integers(1, 9, (4, 12, 6))
B = RNG.random((4, 12, 6)) < 0.5
KEYS = RNG.integers(0, 1 << 63, (12, 6)).astype(np.uint64)
IMAGES, KERNELS = RNG.normal(size=(4, 6, 5, 7)), RNG.normal(size=(12, 6, 2, 3))
ODD = np.array([[0, -0.0, np.nan, np.inf, -np.inf, 1]] * 4)
COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor", "logical_not")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")
KINDS = ("isnan", "isinf", "isfinite")


def case(name: str, *arrays: Any, dtype: Any = float, **attributes: Any) -> tuple[Callable[..., Any], Any]:
    return lambda *xs: mapped(name, xs, np.dtype(dtype), **attributes), arrays


def node(name: str, shape: Sequence[int], *arrays: Any, **attributes: Any) -> tuple[Callable[..., Any], Any]:
    """An operator as it is in a graph, of arrays of any shapes."""
    return lambda *xs: Array(
        make(name, [x.node for x in xs], tuple(shape), xs[0].dtype, **attributes)
    ), arrays


def reduced(name: str, x: Any, *axes: int, dtype: Any = None) -> tuple[Callable[..., Any], Any]:
    shape = [n for i, n in enumerate(x.shape) if i not in axes]
    return node(name, shape, x, axes=axes)


def along(name: str, x: Any, axis: int) -> tuple[Callable[..., Any], Any]:
    kept = name == "cumsum"
    shape = tuple(n for i, n in enumerate(x.shape) if kept or i != axis)
    dtype = x.dtype if kept else np.dtype(np.int64)
    return lambda x: Array(make(name, [x.node], shape, dtype, axes=(axis,))), (x,)


def product(letters: str, a: Any, b: Any) -> tuple[Callable[..., Any], Any]:
    sizes = dict(zip(letters.partition("->")[0].replace(",", ""), a.shape + b.shape, strict=True))
    return node("einsum", [sizes[each] for each in letters.partition("->")[2]], a, b, letters=letters)


def convolution(**rest: Any) -> tuple[Callable[..., Any], Any]:
    groups = rest.get("groups", 1)
    return lambda x, w: graph.conv2d(x, w, **rest), (IMAGES, KERNELS[:, : 6 // groups])


def attended(*names: str, causal: bool = False) -> Iterator[tuple[Callable[..., Any], Any]]:
    """Each result of each pass."""
    q, k, v, g = (RNG.normal(size=(4, 6, *shape)) for shape in ((5, 3), (7, 3), (7, 2), (5, 2)))
    for name in names:
        rest = (RNG.normal(size=(4, 6, 5)) + 9, g, RNG.normal(size=(4, 6, 5))) if name != "attend" else ()
        for i in range(1 if name == "attend_by_query" else 2):
            yield lambda *xs, name=name, i=i: Streamed(name, causal, 0.5).of(*xs)[i], (q, k, v, *rest)


def gathered(axis: int, shape: Sequence[int], x: Any = U) -> tuple[Callable[..., Any], Any]:
    index = RNG.integers(-x.shape[axis], x.shape[axis], shape)
    return lambda x, index: np.take_along_axis(x, index, axis), (x, index)


def scattered(axis: int, count: int, x: Any = U) -> tuple[Callable[..., Any], Any]:
    index = RNG.integers(-count, count, x.shape)
    shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    return lambda g, index: g.added_along(index, shape, axis), (x, index)


MODULE = """
[Differentiable] double bent(double x, double w)
{ double s = 0; for (int i = 0; i < 4; i++) { if (s > 2) break; s += exp(-w * x * x); } return s; }
"""


def bent() -> Any:
    return spy.Module.load_from_source(spy.default_device(), "bent_rules", MODULE).bent


def looped(x: Any, w: Any) -> Any:
    carry, made = graph.scan(lambda h, row: (np.tanh(h + row * w), h * row), x[0], x)
    return made + carry


# fmt: off
CASES: dict[str, list[tuple[Callable[..., Any], Any]]] = {
    "broadcast":     [node("broadcast", (4, 12, 6), x) for x in (U[0], U[:, :1], U[:1, :, :1], U[0, 0, :1])]
                     + [node("broadcast", (0, 6), U[0, :1]), node("broadcast", (2, 0, 6), U[0, :0]),
                        node("broadcast", (1, 4, 1, 6), U[:, :1])],
    "transpose":     [(lambda x: x.transpose(2, 0, 1), [U]), (lambda x: x.transpose(), [U[0]]),
                      (lambda x: x.transpose(1, 0, 2), [N[:, :1]])],
    "reshape":       [(lambda x, s=s: x.reshape(s), [U]) for s in
                      ((48, 6), (4, 72), (288,), (2, 2, 12, 6), (4, 3, 4, 6), (8, 6, 6), (6, 8, 6), (12, 24), (24, 12),
                       (1, 4, 1, 12, 6, 1), (4, 12, 3, 2), (72, 4), (4, 6, 12))]
                     + [(lambda x: x.reshape(6, 4), [U[0, :4]]), (lambda x: x.reshape(12, 1, 6), [U[:1]]),
                        (lambda x: x.reshape(4), [U[:, :1, :1]]), (lambda x: x.reshape(6, 0, 2), [U[:, :0]])],
    "slice":         [(lambda x, at=at: x[at], [U]) for at in
                      ((slice(None), slice(0, 6)), (slice(2), slice(6, 12)), (slice(None, None, -1),),
                       (slice(None), slice(None, None, 2), slice(None, None, -2)), (slice(0, 0),), (..., slice(1, 2)))]
                     + [(lambda x: x[::-1, :, 1:], [U[:, :1]])],
    "windows":       [(lambda x, axis=axis: np.lib.stride_tricks.sliding_window_view(x, 3, axis), [U]) for axis in range(3)],
    "stop_gradient": [(graph.stop_gradient, [U])],
    "place":         [(lambda x: x.placed((4, 12, 8), (0, 0, 2), (1, 1, 1)), [U]), (lambda x: x.placed((4, 24, 6), (0, 1, 0), (1, 2, 1)), [U]),
                      (lambda x: x.placed((8, 12, 6), (7, 0, 0), (-2, 1, 1)), [U]), (lambda x: x.placed((4, 12, 6), (0, 0, 0), (1, 1, 1)), [U[:0]])],
    "concatenate":   [(lambda *xs, axis=axis: np.concatenate(xs, axis), [U, V, U]) for axis in range(3)]
                     + [(lambda x, y: np.concatenate([x, y], 1), [N, N[:, :4]]), node("concatenate", U.shape, U[:0], V, axis=0)],
    "where":         [case("where", B, U, V)],
    "convert":       [case("convert", U, dtype=np.float32), case("convert", N, dtype=np.float64), case("convert", B, dtype=np.int8)],
    "index_in":      [case("index_in", N - 8, np.int64(9), dtype=np.int64)],
    "threefry":      [case("threefry", np.uint64(7), KEYS, dtype=np.uint64)],
    "gaussian":      [case("gaussian", KEYS)],
    "slang":         [(lambda x, w: bent()(x, w), [U, V]), (lambda x, w: bent()(x, 0.5) * w, [U, V]),
                      (lambda x, w: graph.grad(lambda x, w: (bent()(x, w) ** 2).sum())(x, w), [U, V])],
    "scan":          [(looped, [U, V[0]])],
    "attend":        [*attended("attend", "attend_by_query", "attend_by_key"), *attended("attend", "attend_by_key", causal=True)],
    "sum":           [reduced("sum", x, *axes) for axes in ((0,), (1,), (0, 2), (0, 1, 2)) for x in (U, N)]
                     + [reduced("sum", U[:, :0], 1), reduced("sum", U[:, :1], 1), reduced("sum", B.astype(np.uint8), 1)],
    "prod":          [reduced("prod", x, *axes) for axes in ((1,), (0, 2)) for x in (U, N)],
    "max":           [reduced("max", x, *axes) for axes in ((0,), (0, 1, 2)) for x in (U, -N, ODD[None], B.astype(np.uint8))],
    "min":           [reduced("min", x, *axes) for axes in ((1,), (0, 2)) for x in (U, -N, ODD[None], KEYS[None] << np.uint64(1))],
    "argmax":        [along("argmax", x, axis) for axis in range(3) for x in (U, N)],
    "argmin":        [along("argmin", x, axis) for axis in range(2) for x in (U, N)],
    "cumsum":        [along("cumsum", x, axis) for axis in range(3) for x in (U, N)],
    "einsum":        [product(*each) for each in
                      (("ab,bc->ac", U[0], V[0, :6]), ("abc,abd->acd", U, V[:, :, :4]), ("abc,dbc->ad", U, V[:2]), ("abc,bc->", U[:1], V[0]),
                       ("abc,c->ab", U, V[0, 0]), ("ab,ab->ba", U[0], V[0]), ("a,b->ab", U[0, :, 0], V[0, 0]), ("abc,bd->ad", U, V[0]),
                       ("ab,bc->ac", U[0, :, :0], V[0, :0]), ("ab,bc->ac", U[0, :, :1], V[0, :1]), ("ab,bc->ac", N[0], N[0, :6]))],
    "conv":          [convolution(), convolution(stride=2, padding=(1, 2)), convolution(dilation=(2, 1), padding=1), convolution(groups=2),
                      convolution(groups=3, stride=(1, 2))]
                     + [(lambda x, w, i=i: graph.grad(lambda *xs: (graph.conv2d(*xs, stride=2, padding=1) ** 2).sum(), i)(x, w), [IMAGES, KERNELS])
                        for i in range(2)],
    "take_along":    [gathered(0, (2, 12, 6)), gathered(1, (4, 6, 6)), gathered(2, (4, 12, 1)), gathered(1, (4, 0, 6)), gathered(1, (4, 12, 6), N)],
    "add_along":     [scattered(0, 8), scattered(1, 6), scattered(2, 1), scattered(1, 5, N), scattered(0, 3, U[:1]), scattered(1, 4, U[:, :0])],
}
# fmt: on
UNTESTED = {
    "input",
    "captured",
    "constant",
    "count",
    "result",
    "shard",
}  # without a rule, or parts of other cases
EXCHANGES = {name for name, op in OPS.items() if op.kind == "exchange"} | {"all_reduce", "own_part"}


def map_case(name: str) -> tuple[Callable[..., Any], Any]:
    count = 1 + OPS[name].slang.count("{1}") if "{1}" in OPS[name].slang else 1
    given = [B, B] if name in LOGICAL else [N, N[::-1]] if name in BITS else [U, V]
    if name in COMPARE:
        given = [N, N[::-1]]
    dtype = bool if name in (*COMPARE, *LOGICAL, *KINDS) else given[0].dtype
    return case(name, *given[: min(count, 2)], dtype=dtype)


for _name, _op in OPS.items():
    if _op.kind == "map" and _name not in CASES and _name not in UNTESTED:
        CASES[_name] = [map_case(_name)]


@dataclass
class Shards:
    """The operator of one case on all workers of one mesh."""

    about: str
    spec: Spec
    sizes: Mapping[str, int]
    whole: Node
    nodes: list[Node] = field(default_factory=list)


def cut(x: Any, spec: Spec, mesh: Mesh) -> Any:
    """The shard of a worker; of a partial sum, a term that is the worker's own."""
    shape = spec.local(x.shape, mesh.sizes)
    starts = [mesh.place(names) * n for names, n in zip(spec.axes, shape, strict=True)]
    return x[tuple(slice(start, start + n) for start, n in zip(starts, shape, strict=True))]


def together(parts: Sequence[Any], shape: Sequence[int], spec: Spec, sizes: Mapping[str, int]) -> Any:
    """The tensor of all workers' shards. AssertionError where copies are not equal."""
    found: dict[tuple[int, ...], dict[tuple[int, ...], Any]] = {}
    for rank, part in enumerate(parts):
        mesh = Mesh(sizes, rank)
        place = tuple(mesh.place(names) for names in spec.axes)
        key = tuple(mesh.coordinates[name] for name, _ in spec.partial)
        assert part.shape == spec.local(shape, sizes)
        same = found.setdefault(place, {}).setdefault(key, part)
        np.testing.assert_array_equal(part, same)
    made = np.empty(shape, parts[0].dtype)
    for place, held in found.items():
        at = tuple(slice(i * n, i * n + n) for i, n in zip(place, spec.local(shape, sizes), strict=True))
        how = {each for _, each in spec.partial} or {"sum"}
        made[at] = COMBINE[how.pop()].reduce(list(held.values())) if spec.partial else held[()]
    return made


def choices(op: Node, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """All factors for one axis of a mesh, all pairs for two."""
    rule = index_map_of(op)
    factors = sorted({f for axes in (*rule.inputs, rule.output) for f in axes if f is not None})
    for each in combinations_with_replacement(factors, len(sizes)):
        for made in {each, each[::-1]}:
            choice = dict(zip(sizes, made, strict=True))
            if is_legal(op, rule, choice, sizes):
                yield choice


class Table:
    """Whole and local graphs of many cases, which are one plan."""

    def __init__(self) -> None:
        self.inputs: dict[Node, Any] = {}
        self.shards: list[Shards] = []

    def new(self, array: Any) -> Node:
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        made = new_input(array.shape, array.dtype)
        self.inputs[made] = array
        return made

    def run(self, outputs: Sequence[Node]) -> dict[Node, Any]:
        """The values of nodes."""
        found = list(dict.fromkeys(outputs))
        plan = Plan(found, list(self.inputs), spy.default_device())
        made = plan.run(list(self.inputs.values()))
        return {n: np.array(x.host_view()).reshape(n.shape) for n, x in zip(found, made, strict=True)}

    def enter(self, name: str, node: Node, most: int | None) -> None:
        """An operator of inputs in `self`, on all meshes; `most`: a sample of so many cuts."""
        op = behind_results(node)
        cuts = [(sizes, choice) for sizes in (*MESHES, *PAIRS) for choice in choices(op, sizes)]
        RNG.shuffle(cuts)
        for sizes, choice in cuts[:most]:
            specs = dict(zip(op.inputs, input_specs(index_map_of(op), choice), strict=True))
            spec = output_spec(index_map_of(node), choice)
            self.shards.append(self.shard(f"{name}: {choice} of {sizes}", node, spec, specs, sizes))

    def shard(
        self, about: str, output: Node, spec: Spec, given: Mapping[Node, Spec], sizes: Mapping[str, int]
    ) -> Shards:
        made = Shards(about, spec, sizes, output)
        for rank in range(prod(sizes.values())):
            mesh = Mesh(sizes, rank)
            local = partitioned([output], given, [spec], mesh)
            values = {new: self.new(cut(self.inputs[x], given[x], mesh)) for x, new in local.inputs.items()}
            made.nodes += substituted(local.outputs, values)
        return made

    def check(self) -> None:
        outputs = [n for each in self.shards for n in (each.whole, *each.nodes)]
        for each in self.shards:
            assert not [n for n in topological_order(*each.nodes) if n.op in EXCHANGES - {"own_part"}], (
                each.about
            )
        found = self.run(outputs)
        for each in self.shards:
            got = together([found[n] for n in each.nodes], each.whole.shape, each.spec, each.sizes)
            np.testing.assert_allclose(got, found[each.whole], rtol=1e-12, atol=1e-13, err_msg=each.about)


def behind_results(node: Node) -> Node:
    """The loop that a result is of."""
    return node.inputs[0] if node.op == "result" else node


def targets(cases: Mapping[str, Any]) -> tuple[list[tuple[str, Node]], dict[Node, Any]]:
    """The operators of cases, and the values of their inputs, which one plan computes."""
    table, found = Table(), list[tuple[str, Node]]()
    for name, each in cases.items():
        for number, (function, arrays) in enumerate(each):
            nodes = [table.new(np.asarray(x)) for x in arrays]
            with tracing():
                output = function(*map(Array, nodes)).node
            loops = ("scan", "attend")
            own = [
                n for n in topological_order(output) if (behind_results(n) if name in loops else n).op == name
            ]
            own = [n for n in own if n.op not in loops]
            assert own, name
            found += [(f"{name} {number}", n) for n in own]
    inputs = dict.fromkeys(x for _, n in found for x in behind_results(n).inputs)
    return found, table.inputs | table.run([n for n in inputs if n not in table.inputs])


def test_every_operator_has_a_case() -> None:
    assert CASES.keys() | UNTESTED | EXCHANGES == OPS.keys()


def check(cases: Mapping[str, Any], most: int | None = None) -> None:
    table, (found, values) = Table(), targets(cases)
    fresh = {node: table.new(value) for node, value in values.items()}
    for name, node in found:
        table.enter(name, substituted([node], fresh)[0], most)
    table.check()


def test_shards_are_those_of_the_whole() -> None:
    """Every second case. Maps have one rule, so a sample of them will do."""
    maps = [name for name in CASES if OPS[name].kind == "map" and name not in ("slang", "threefry", "where")]
    check({name: each[::2] for name, each in CASES.items() if name not in maps or name in maps[::30]}, most=2)


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_all_shards_are_those_of_the_whole(name: str) -> None:
    check({name: CASES[name]})
