"""The choice between the template and a library for a product of matrices: the faster one on this machine.

choose(node, parts, bytes) -> "slang", "numpy", "torch"

Each is timed when a product of such shapes, strides and types is met for the first time on a machine; the answer is
kept on disk. `bytes`: those that a map behind a library's product moves, and the template does not. SLANGRAD_TUNE=0 and
`consistent="bits"` take the template.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

import slangrad as spy
from slangrad.base.disk.store import content_key
from slangrad.base.options import store_of
from slangrad.cache import environment_key, settings_text
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.layout import StridedLayout, normal
from slangrad.graph.ir.node import Node, make, new_input
from slangrad.graph.ir.ops import letters_in
from slangrad.graph.lowering.library import libraries
from slangrad.graph.lowering.steps import MemoryPart
from slangrad.graph.rewriting.fuse import flops_of, sizes_of
from slangrad.graph.workers.meshes.mesh import Mesh

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan

SLANG = "slang"
SMALL = 1 << 21  # operations of products that are not timed
LARGE = 1 << 29  # of those that are timed on a part of their elements
LEAST_ROWS, LEAST_BATCHES = 512, 8  # of such a part: libraries take other ways for fewer
BUDGET = 0.03  # seconds for all candidates, if the least turns do not take longer
LEAST_TURNS, MOST_TURNS = 4, 30
CLEAR = 1.25  # times the least seconds of two turns, beyond which a candidate is not timed again
NEAR = 0.98  # a library that is hardly faster is not taken
Times = tuple[float, float]  # seconds by the clock on the wall, and of all processors
Choose = Callable[[Node, Sequence[MemoryPart], int], str]
_known: dict[str, str] = {}


def by_slang(node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
    return SLANG


def chooser(device: spy.Device, consistent: str | None, make_plan: type[Plan]) -> Choose:
    """`make_plan`: the class of plans, as candidates are timed in plans of their own."""
    if consistent == "bits" or os.environ.get("SLANGRAD_TUNE", "").strip() == "0":
        return by_slang

    def choose(node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
        if not _is_timed(node):
            return SLANG
        key = _key(device, node, parts, moved)
        if key not in _known:
            kept = store_of(device.options).get(key)
            names = [SLANG, *libraries()]
            _known[key] = kept.decode("ascii", "replace") if kept else ""
            if _known[key] not in names:
                times = _times(device, node, parts, names, make_plan)
                _known[key] = _fastest(times, moved / MachineRates().bandwidth)
                store_of(device.options).put(key, _known[key].encode())
        return _known[key]

    return choose


def of_first(choose: Choose, mesh: Mesh) -> Choose:
    """The choices of the first of many workers, or of those of this stage, for all: copies of a value have the same
    bits, and with a limit of memory plans compute the same values again. Workers have agreed on what they plan."""
    known: dict[object, str] = {}

    def choice(node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
        if not _is_timed(node):
            return SLANG
        names, key = [SLANG, *libraries()], (node, *(each.layout for each in parts), moved)
        if key not in known:
            (found,) = mesh.of_first(lambda: names.index(choose(node, parts, moved)), 1, mesh.cuts)
            known[key] = names[found]
        return known[key]

    return choice


def _is_timed(node: Node) -> bool:
    return node.dtype.kind == "f" and flops_of(node) >= SMALL


def _fastest(times: dict[str, Times], after: float) -> str:
    """By the clock on the wall, among those that take less of the processors, too: others may be at work here.
    `after`: seconds for the map that a library leaves to do."""
    wall, busy = (NEAR * each for each in times[SLANG])
    less = {
        name: seconds + after
        for name, (seconds, spent) in times.items()
        if name != SLANG and seconds + after < wall and spent + after < busy
    }
    return min(less, key=lambda name: less[name], default=SLANG)


def _key(device: spy.Device, node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
    shapes = [(*each.layout.shape, *each.layout.strides) for each in parts]
    names, versions = libraries(), [getattr(sys.modules[each], "__version__", "") for each in libraries()]
    said = (node.attributes["letters"], str(node.dtype), *shapes)
    settings = (device.backend, device.options.threads, settings_text(device.options))
    environment = environment_key(device.backend)
    return content_key(
        "product and a kernel", environment, *_machine(), *settings, moved, *names, *versions, *said
    )


@cache
def _machine() -> tuple[str, ...]:
    """The processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line for line in lines if line.startswith(("model name", "Model"))), platform.processor())
    return model, str(os.cpu_count())


def _times(
    device: spy.Device, node: Node, parts: Sequence[MemoryPart], names: Sequence[str], make_plan: type[Plan]
) -> dict[str, Times]:
    """The least times of each, in turns, without candidates that are clearly slower. With several threads a short
    kernel follows each product, and its delay counts: threads of torch's wait busily for some milliseconds, and take
    the processors from it."""
    threads = device.options.threads or os.cpu_count() or 1
    plans, arrays = _trials(device, node, parts, names, make_plan, LARGE)
    follow: Callable[[], object] = lambda: None
    if threads > 1:
        few, fewer_rows = _trials(device, node, parts, [SLANG], make_plan, SMALL)
        follow = lambda: few[SLANG].run(fewer_rows)
    for plan in plans.values():  # compiled, and memory touched
        plan.run(arrays)
    follow()
    times, end = dict.fromkeys(names, (inf, inf)), perf_counter() + BUDGET
    for turn in range(MOST_TURNS):
        if turn >= LEAST_TURNS and perf_counter() > end:
            break
        close = _close(times) if turn >= 2 else names
        if len(close) == 1:
            break
        for name in close:
            began, spent = perf_counter(), process_time()
            plans[name].run(arrays)
            follow()
            wall, busy = perf_counter() - began, process_time() - spent
            if threads < 2:
                wall = busy  # without the turns of other processes
            times[name] = min(wall, times[name][0]), min(busy, times[name][1])
    return times


def _close(times: dict[str, Times]) -> list[str]:
    """The fastest, and those that more turns may show to be it."""
    least = min(wall for wall, _ in times.values())
    return [name for name, (wall, _) in times.items() if wall <= CLEAR * least]


def _trials(
    device: spy.Device,
    node: Node,
    parts: Sequence[MemoryPart],
    names: Sequence[str],
    make_plan: type[Plan],
    most: int,
) -> tuple[dict[str, Plan], list[np.ndarray]]:
    """Plans of the product by each candidate, and arguments. It has so many batches, rows and columns, and strides as
    they are, that it takes `most` operations, or as few as tell candidates apart."""
    letters = node.attributes["letters"]
    ins, out = letters_in(letters)
    sizes, left = sizes_of(node), flops_of(node)
    least = dict.fromkeys(sizes, 1)
    if most == LARGE:  # the others only follow, and are as small as that
        least = {c: LEAST_BATCHES if c in ins[0] and c in ins[1] else LEAST_ROWS for c in out}
    while left > most and (large := [c for c in least if sizes[c] > least[c]]):
        name = max(large, key=lambda c: sizes[c] / least[c])
        sizes[name], left = -(-sizes[name] // 2), left // 2
    inputs, arrays, layouts = [], [], {}
    for own, part in zip(ins, parts, strict=True):
        shape = tuple(sizes[c] for c in own)
        strides = tuple(map(abs, part.layout.strides))
        inputs.append(new_input(shape, node.dtype))
        memory = np.ones(1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)), node.dtype)
        steps = [step * node.dtype.itemsize for step in strides]
        arrays.append(np.lib.stride_tricks.as_strided(memory, shape, steps))
        layouts[inputs[-1]] = normal(StridedLayout(shape, strides))
    trial = make("einsum", inputs, tuple(sizes[c] for c in out), node.dtype, letters=letters)
    plans = {
        name: make_plan([trial], inputs, device, layouts, choose=lambda *_, name=name: name) for name in names
    }
    return plans, arrays
