"""A tensor is the same in every spec; workers have the same collectives in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.arrays.array import Array
from slangrad.graph.ir.node import Node, new_input
from slangrad.graph.lowering.emit import RESULT
from slangrad.graph.lowering.steps import Exchange
from slangrad.graph.planning.plan import Plan
from slangrad.graph.workers.meshes.mesh import Mesh
from slangrad.graph.workers.meshes.specs import Spec, parts, whole
from slangrad.graph.workers.sharding.buckets import chained
from slangrad.graph.workers.sharding.partition import converted, partitioned
from tests.graph.workers.test_index_maps import COMBINE, cut
from tests.graph.workers.threads import run


def specs(shape: Sequence[int], sizes: Mapping[str, int], hows: Sequence[str] = ()) -> Iterator[Spec]:
    """All that cut a shape on a mesh, each once; `hows`: with partial values, too."""
    names = [name for name, n in sizes.items() if n > 1]
    places = [*range(-1, len(shape)), *hows]
    seen = set[Spec]()  # the order of axes is part of a spec only where they cut one axis, or are partial
    for order in permutations(names):
        for chosen in product(places, repeat=len(order)):
            axes = tuple(
                tuple(n for n, at in zip(order, chosen, strict=True) if at == i) for i in range(len(shape))
            )
            partial = tuple((n, at) for n, at in zip(order, chosen, strict=True) if isinstance(at, str))
            spec = Spec(axes, partial)
            if spec not in seen and all(
                n % parts(each, sizes) == 0 for n, each in zip(shape, axes, strict=True)
            ):
                seen.add(spec)
                yield spec


def terms(x: Any, spec: Spec, mesh: Mesh) -> Any:
    """The values that a worker holds: its shard, and of a partial sum a term of its own."""
    made = cut(x, spec, mesh)
    for name, _ in spec.partial:
        factors = [2 + i for i in range(mesh.sizes[name] - 1)]
        made = made * [*factors, 1 - sum(factors)][mesh.coordinates[name]]
    return made.astype(x.dtype)


SHAPES = ((4, 6), (1, 12), (12,), (0, 6), (2, 1, 6))
MESHES = [{"a": 2, "b": 2}, {"a": 2, "b": 3}, {"b": 1, "a": 4}]


def check_conversions(sizes: Mapping[str, int], one_in: int) -> None:
    """One plan for each worker."""

    def worker(mesh: Mesh) -> None:
        inputs: dict[Node, Any] = {}
        outputs: list[tuple[Node, Any, str]] = []
        for shape, dtype in product(SHAPES, (np.float64, np.int32)):
            x = np.arange(np.prod(shape)).reshape(shape).astype(dtype) - 3
            for spec, wanted in product(specs(shape, sizes, ("sum",)), specs(shape, sizes)):
                about = f"{shape}: {spec} to {wanted}"
                if crc32(about.encode()) % one_in == 0:
                    own = terms(x, spec, mesh)
                    node = new_input(own.shape, own.dtype)
                    inputs[node] = own
                    made = converted(node, spec, wanted, mesh)
                    outputs.append((made, cut(x, wanted, mesh), about))
        plan = Plan(chained([n for n, _, _ in outputs]), list(inputs), spy.default_device())
        results = plan.run(list(inputs.values()))
        for (node, wanted, about), each in zip(outputs, results, strict=True):
            assert node.dtype == wanted.dtype
            np.testing.assert_array_equal(np.array(each.host_view()).reshape(node.shape), wanted, about)

    run(sizes, worker)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_a_tensor_is_the_same_in_every_spec(sizes: dict[str, int]) -> None:
    check_conversions(sizes, 16)


@pytest.mark.deep
@pytest.mark.parametrize("sizes", [*MESHES, {"a": 2, "b": 2, "c": 2}], ids=str)
def test_a_tensor_is_the_same_in_all_specs(sizes: dict[str, int]) -> None:
    check_conversions(sizes, 1 if len(sizes) < 3 else 12)


def test_extremes_of_workers() -> None:
    """Of shards with NaN, and of types that libraries do not compare: as NumPy has them."""
    nan = np.array([[1.0, np.nan, -2.0, np.inf], [3.0, 4.0, np.nan, 5.0]])
    arrays = [
        nan,
        nan.astype(np.float16),
        np.array([[200, 3], [100, 7]], np.uint8),
        np.array([[-9, 5], [4, 3]], np.int16),
    ]
    arrays += [np.array([[1 << 63, 1], [5, 9]], np.uint64), np.array([-2.0, np.nan])]
    hows = ("max", "min", "sum")

    def worker(mesh: Mesh) -> Any:
        inputs = [new_input(x[0].shape, x.dtype) for x in arrays]
        shards = [np.asarray(x[mesh.rank]) for x in arrays]
        outputs = []
        for node, how in product(inputs, hows):
            held = whole(len(node.shape))
            partial = Spec(held.axes, (("a", how),))
            outputs.append(converted(node, partial, held, mesh))
        plan = Plan(chained(outputs), inputs, spy.default_device())
        return [np.array(each.host_view()) for each in plan.run(shards)]

    for made in run({"a": 2}, worker):
        for got, (x, how) in zip(made, product(arrays, hows), strict=True):
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got, COMBINE[how](x[0], x[1]))


def collectives(mesh: Mesh, output: Node, inputs: Mapping[Node, Spec], wanted: Spec) -> list[str]:
    """Those of a worker's plan, in the order in which it begins them."""
    local = partitioned([output], inputs, [wanted], mesh)
    plan = Plan(chained(local.outputs), list(local.inputs.values()), spy.default_device())
    return [
        f"{step.collective} {step.writes[RESULT].layout}" for step in plan.steps if isinstance(step, Exchange)
    ]


def test_workers_begin_the_same_collectives() -> None:
    """Also where each reads another part of what they gather."""
    x, y = (Array(new_input((4, 6), np.dtype(float))) for _ in "xy")
    both = np.concatenate([graph.shard(x, None), graph.shard(y * 2, None)])
    noise = graph.random.normal(np.uint64(3) + (x[0, 0] * 0).astype(np.uint64), (4, 6), np.float64)
    output = graph.shard(both, "a") + graph.shard(np.concatenate([x.max(0), y.max(0)])[:8, None], "a")
    output = (output * np.concatenate([noise, x * y])).sum()
    rows = {x.node: Spec((("a",), ())), y.node: Spec((("a",), ()))}
    found = [collectives(Mesh({"a": 2}, rank), output.node, rows, whole(0)) for rank in range(2)]
    assert found[0] == found[1]
    assert len(found[0]) > 4
