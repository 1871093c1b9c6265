"""The parts of a plan that all workers have in common, in the order in which an error names them.

    settings, numbers, batch, parameters    "memory is 4096 on worker 1 and None on worker 0"
    operators of the graph                  "operator %3 is f64[4] = sin %1 at program.py:7 on worker 1 and ..."
    numbers that the graph reads            "parameter 'w' has other numbers on worker 1 than on worker 0"

The numbers of a batch are not compared: each worker has its own. Later steps are compared by a checksum of all before,
and of a sample of each captured array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from math import prod
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

import slangrad as spy
from slangrad.graph.ir.devices import is_on_host
from slangrad.graph.ir.node import Node, text, topological_order, type_text
from slangrad.graph.ir.values import ArrayValue, as_tensor, shape_of
from slangrad.graph.workers.connections.differences import (
    SAME_ROWS,
    PlanPart,
    call_part,
    left_part,
    steps_part,
)
from slangrad.graph.workers.meshes.collectives import Collective
from slangrad.graph.workers.meshes.mesh import ALL, Mesh

if TYPE_CHECKING:
    from slangrad.graph.workers.connections.links import Pending

SAMPLED = 1024  # elements of a captured array that each step compares, at most
SAME_SETTINGS = "all workers pass the same settings"
SAME_NUMBERS = "all workers set the same numbers"
SAME_SHAPES = "all workers make the same model"
SAME_LOSS = "all workers call the same loss function, which reads no rank and no other numbers"
SAME_TEXT = "all workers load the same Slang text"
SAME_ARRAY = "all workers read the same array: one seed, or one file"
SAME_LAYOUT = "the axes of parameters lie in memory in the same order: np.ascontiguousarray(...)"
SAME_START = "all workers begin with the same parameters: one seed, or one file"


def setting_parts(settings: Mapping[str, object]) -> Iterator[PlanPart]:
    for name, value in settings.items():
        yield PlanPart(name, str(value), SAME_SETTINGS)


def number_parts(numbers: Iterable[tuple[str, str]]) -> Iterator[PlanPart]:
    """Of names and numbers of the optimizer and the batch."""
    for name, number in numbers:
        yield PlanPart(name, number, SAME_NUMBERS)


def input_parts(
    batch: Sequence[Node], parameters: Sequence[Node], names: Sequence[str]
) -> Iterator[PlanPart]:
    """Of the inputs for the rows of all workers, and for whole parameters with their `names`."""
    for i, node in enumerate(batch):
        yield PlanPart(f"array {i} of all workers' batch", type_text(node), SAME_ROWS)
    for name, node in zip(names, parameters, strict=True):
        yield PlanPart(f"parameter {name}", type_text(node), SAME_SHAPES)


def graph_parts(outputs: Sequence[Node], of: str = "") -> Iterator[PlanPart]:
    """Of each operator, of Slang functions by their names, which contain a digest of their modules, and of the bodies
    of loops. Lines of the program are shown, and not compared: equal nodes of several functions have the line of the
    first."""
    order = topological_order(*outputs)
    lines = text(*outputs, places=False).splitlines()
    place_of = {node: node.place for node in order}
    # Equal constants of a process are one node, so the first reader has a better line.
    for node in reversed(order):
        place_of |= {x: node.place for x in node.inputs if x.op == "constant"}
    for node, line in zip(order, lines, strict=False):
        number, _, value = line.partition(": ")
        yield PlanPart(f"operator {number}{of}", value, SAME_LOSS, str(place_of[node] or ""))
    yield PlanPart(f"the list of results{of}", lines[-1], SAME_LOSS)
    for node in order:
        if node.op == "slang":
            yield PlanPart(
                "the Slang function", node.attributes["function"].called, SAME_TEXT, str(node.place or "")
            )
        elif node.op == "scan":
            yield from graph_parts(node.attributes["loop"].outputs, " of a loop")


def captured_parts(
    captured: Iterable[Node], device: spy.Device, digest: Callable[[spy.Device, ArrayValue], str]
) -> Iterator[PlanPart]:
    """Of the numbers of arrays that the loss function finds elsewhere."""
    for node in captured:
        numbers = digest(device, node.attributes["captured"].value)
        yield PlanPart(
            f"a captured array {type_text(node)}", numbers, SAME_ARRAY, str(node.place or ""), False
        )


def digest_of_array(device: spy.Device, array: ArrayValue) -> str:
    """Of all numbers."""
    return digest_of(as_tensor(device, array))


def digest_of_sample(device: spy.Device, array: ArrayValue) -> str:
    """Of some numbers, spread over all axes: a step takes no longer for a large array. The same for all arrays on a
    GPU, for which a step would wait."""
    if not is_on_host(device):
        return ""
    shape = shape_of(array)
    along = int(SAMPLED ** (1 / len(shape))) if prod(shape) > SAMPLED else SAMPLED
    index = tuple(slice(None, None, -(-n // along) or 1) for n in shape)
    if isinstance(array, np.ndarray):
        return str(crc32(array[index].tobytes()))
    sample = as_tensor(device, array)[index] if shape else as_tensor(device, array)
    return str(crc32(sample.to_numpy().tobytes()))


def digest_of(tensor: spy.Tensor) -> str:
    """Equal for tensors of the same numbers."""
    return sha1(np.ascontiguousarray(tensor.to_numpy()).data).hexdigest()


@dataclass(slots=True)
class Comparison:
    """Of a step. `failed_save`: the step whose checkpoint was not written, as all workers know at the end of this one;
    0 for none."""

    failed_save: int


@contextmanager
def compared_step(
    mesh: Mesh,
    parts: Callable[[], Iterable[PlanPart]],
    failed_save: int = 0,
    begun: Callable[[Pending], None] | None = None,
) -> Iterator[Comparison]:
    """Around a step that `Watch.begin` has noted. WorkerLost at its end, on all workers, where one made another step
    than the others: its `parts` say how. The exchange of 24 bytes is under way while the step runs; `begun` gets it.
    `failed_save`: that of this worker."""
    watch, comparison = mesh.watch, Comparison(failed_save)
    if watch is None or mesh.all_workers is None:
        yield comparison
        return
    largest = np.array([watch.checksum, -watch.checksum, failed_save])
    pending = mesh.all_workers.start(Collective("all_reduce", ALL, "max", mesh), None, largest)
    if begun is not None:
        begun(pending)
    yield comparison
    pending.wait()
    if largest[:2].sum():
        history = watch.history
        left = left_part(watch.left)
        watch.agree(history, parts=lambda: [call_part("a step"), left, *parts(), steps_part(history)])
    watch.left, comparison.failed_save = "", int(largest[2])
