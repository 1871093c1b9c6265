"""A tensor is the same in every spec; workers have the same collectives in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import slangrad as spy
from slangrad import graph
from slangrad.graph.array import Array
from slangrad.graph.node import Node, make, new_input, topological_order
from slangrad.graph.plan import Plan
from slangrad.graph.workers.mesh import Mesh
from slangrad.graph.workers.partition import converted, partitioned
from slangrad.graph.workers.specs import Spec, parts, whole
from tests.graph.workers.test_rules import COMBINE, EXCHANGES, cut
from tests.graph.workers.threads import meshes, run


def specs(shape: Sequence[int], sizes: Mapping[str, int], hows: Sequence[str] = ()) -> Iterator[Spec]:
    """All that cut a shape on a mesh; `hows`: with partial values, too."""
    names = [name for name, n in sizes.items() if n > 1]
    places = [*range(-1, len(shape)), *hows]
    for order in permutations(names):
        for chosen in product(places, repeat=len(order)):
            axes = tuple(
                tuple(n for n, at in zip(order, chosen, strict=True) if at == i) for i in range(len(shape))
            )
            partial = tuple((n, at) for n, at in zip(order, chosen, strict=True) if isinstance(at, str))
            if all(n % parts(each, sizes) == 0 for n, each in zip(shape, axes, strict=True)):
                yield Spec(axes, partial)


def terms(x: Any, spec: Spec, mesh: Mesh) -> Any:
    """The values that a worker holds: its shard, and of a partial sum a term of its own."""
    made = cut(x, spec, mesh)
    for name, _ in spec.partial:
        factors = [2 + i for i in range(mesh.sizes[name] - 1)]
        made = made * [*factors, 1 - sum(factors)][mesh.coordinates[name]]
    return made.astype(x.dtype)


SHAPES = {"plain": (4, 6), "small": (1, 12), "row": (12,), "empty": (0, 6), "cube": (2, 1, 6)}


@pytest.mark.parametrize("sizes", [{"a": 2, "b": 2}, {"a": 2, "b": 3}], ids=str)
def test_a_tensor_is_the_same_in_every_spec(sizes: dict[str, int]) -> None:
    """From every spec to every other: one plan for a worker."""

    def worker(mesh: Mesh) -> None:
        inputs: dict[Node, Any] = {}
        outputs: list[tuple[Node, Any, str]] = []
        for shape in SHAPES.values():
            for x in (np.arange(np.prod(shape)).reshape(shape) - 3.5, np.arange(np.prod(shape)).reshape(shape) - 3):
                found = dict.fromkeys(specs(shape, sizes, ("sum",)))
                targets = dict.fromkeys(specs(shape, sizes))
                for spec in found:
                    own = terms(x, spec, mesh)
                    node = new_input(own.shape, own.dtype)
                    inputs[node] = own
                    for wanted in targets:
                        made = converted(node, shape, spec, wanted, mesh)
                        outputs.append((made, cut(x, wanted, mesh), f"{shape}: {spec} to {wanted}"))
        plan = Plan([n for n, _, _ in outputs], list(inputs), spy.default_device())
        made = plan.run(plan.tensors(list(inputs.values())))
        for (node, wanted, about), each in zip(outputs, made, strict=True):
            assert node.dtype == wanted.dtype
            np.testing.assert_array_equal(np.array(each.host_view()).reshape(node.shape), wanted, about)

    run(sizes, worker)
