"""The choice between the template and a library for a product of matrices: the faster one on this machine.

choose(node, parts, bytes) -> "slang", "numpy", "torch"

Each is timed when a product of such shapes, strides and types is met for the first time on a machine; the answer is
kept on disk. Where other programs are at work meanwhile, later processes time it again, and after three answers the
most frequent one is kept. A plan asks for all of its products first, so the kernels of their trials are compiled
together. `bytes`: those that a map behind a library's product moves, and the template does not. SLANGRAD_TUNE=0 and
`consistent="bits"` take the template.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import slangrad as spy
from slangrad.base.disk.store import content_key
from slangrad.base.options import store_of
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.cache import environment_key, settings_text
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.layout import StridedLayout, normal
from slangrad.graph.ir.node import DType, Node, make, new_input
from slangrad.graph.ir.ops import letters_in
from slangrad.graph.lowering.library import libraries
from slangrad.graph.lowering.steps import MemoryPart
from slangrad.graph.rewriting.fuse import flops_of, sizes_of
from slangrad.graph.workers.meshes.mesh import Mesh

if TYPE_CHECKING:
    from slangrad.graph.planning.plan import Plan

SLANG = "slang"
SMALL = 1 << 21  # operations of products that are not timed
# Of a short product, with a common kernel.
FOLLOWER = [StridedLayout((128, 64), (64, 1)), StridedLayout((64, 128), (128, 1))]
LARGE = 1 << 29  # of those that are timed on a part of their elements
LEAST_ROWS, LEAST_BATCHES = 512, 8  # of such a part: libraries take other ways for fewer
BUDGET = 0.03  # seconds for all candidates, if the least turns do not take longer
LEAST_TURNS, MOST_TURNS = 4, 30
CLEAR = 1.25  # times the least seconds of two turns, beyond which a candidate is not timed again
NEAR = 0.98  # a library that is hardly faster is not taken
OPEN, MOST_ANSWERS = "?", 3  # the mark of answers that were disturbed, and how many decide
Times = tuple[float, float]  # seconds by the clock on the wall, and of all processors
Choose = Callable[[Node, Sequence[MemoryPart], int], str]
_known: dict[str, str] = {}
# Trials of two threads would take the processors from each other.
_measuring = kept_at_fork(threading.Lock(), WORK)


class ProductRead(NamedTuple):
    """A product, how its operands lie in memory, and the bytes that a map behind it moves."""

    node: Node
    parts: Sequence[MemoryPart]
    moved: int


def by_slang(node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
    return SLANG


def chooser(device: spy.Device, consistent: str | None, make_plan: type[Plan]) -> Choose:
    """`make_plan`: the class of plans, as candidates are timed in plans of their own."""
    is_timed = device.runtime.reaches_host  # libraries compute on the CPU
    if not is_timed or consistent == "bits" or os.environ.get("SLANGRAD_TUNE", "").strip() == "0":
        return by_slang
    return MeasuredChoice(device, make_plan)


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """The fastest way on a device."""

    device: spy.Device
    make_plan: type[Plan]

    def __call__(self, node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
        if not _is_timed(node):
            return SLANG
        product = ProductRead(node, parts, moved)
        self.measure([product])
        return _known[_key(self.device, product)]

    def measure(self, products: Iterable[ProductRead], plan: Plan | None = None) -> None:
        """Time those that were not met before. All kernels of their trials are compiled first, together, and those of
        `plan` that are the same however it computes products."""
        keys = {_key(self.device, product): product for product in products if _is_timed(product.node)}
        if keys.keys() <= _known.keys():
            return
        with _measuring:
            self._time({key: product for key, product in keys.items() if not self._is_kept(key)}, plan)

    def _is_kept(self, key: str) -> bool:
        """In this process, or on the disk."""
        if key not in _known:
            answers, is_open = self._answers(key)
            if answers and not (is_open and len(answers) < MOST_ANSWERS):
                _known[key] = max(answers, key=answers.count)
        return key in _known

    def _answers(self, key: str) -> tuple[list[str], bool]:
        """Those on the disk, and whether others were at work when they were measured."""
        kept = store_of(self.device.options).get(key)
        words = kept.decode("ascii", "replace").split() if kept else []
        return [word for word in words if word in (SLANG, *libraries())], OPEN in words

    def _time(self, products: Mapping[str, ProductRead], plan: Plan | None) -> None:
        if not products:
            return
        with spy.Module.compile_worker(self.device):
            trials = {key: _trial(self.device, product, self.make_plan) for key, product in products.items()}
            self.make_plan.compile_together([run for trial in trials.values() for run in trial.runs], plan)
        others, fastest = self.device.runtime.watch_other_programs(), dict[str, str]()
        for key, product in products.items():
            fastest[key] = _fastest(_times(trials.pop(key)), product.moved / MachineRates().bandwidth)
        disturbed = others.were_at_work()
        for key, answer in fastest.items():
            answers = [*self._answers(key)[0], answer, OPEN] if disturbed else [answer]
            store_of(self.device.options).put(key, " ".join(answers).encode())
        _known.update(fastest)


def of_first(choose: Choose, mesh: Mesh) -> Choose:
    """The choices of the first of many workers, or of those of this stage, for all. So copies of a value have the same
    bits, and with a limit of memory plans compute the same values again. Workers have agreed on their plans."""
    agreed: dict[object, str] = {}

    def choice(node: Node, parts: Sequence[MemoryPart], moved: int) -> str:
        if not _is_timed(node):
            return SLANG
        names, key = [SLANG, *libraries()], (node, *(part.layout for part in parts), moved)
        if key not in agreed:
            (place,) = mesh.of_first(lambda: names.index(choose(node, parts, moved)), 1, mesh.cuts)
            agreed[key] = names[place]
        return agreed[key]

    return choice


def _is_timed(node: Node) -> bool:
    return node.dtype.kind == "f" and flops_of(node) >= SMALL


def _fastest(times: dict[str, Times], after: float) -> str:
    """By the clock on the wall, among those that take less of the processors, too: others may be at work here.
    `after`: seconds for the map that a library leaves to do."""
    wall, busy = (NEAR * seconds for seconds in times[SLANG])
    less = {
        name: seconds + after
        for name, (seconds, spent) in times.items()
        if name != SLANG and seconds + after < wall and spent + after < busy
    }
    return min(less, key=lambda name: less[name], default=SLANG)


def _key(device: spy.Device, product: ProductRead) -> str:
    shapes = [(*part.layout.shape, *part.layout.strides) for part in product.parts]
    names, versions = (
        libraries(),
        [getattr(sys.modules[library], "__version__", "") for library in libraries()],
    )
    product_key = (product.node.attributes["letters"], str(product.node.dtype), *shapes)
    settings = (environment_key(device.backend), device.runtime.threads, settings_text(device.options))
    return content_key(
        "product and a kernel", *_machine(), *settings, product.moved, *names, *versions, *product_key
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


@dataclass(slots=True)
class Trial:
    """The plans of candidates, and their arguments. With several threads a short kernel `follows` each product, and its
    delay counts: threads of torch's wait busily for some milliseconds, and take the processors from it."""

    threads: int
    plans: dict[str, Plan]
    arrays: list[np.ndarray]
    follows: Plan | None
    of_follower: list[np.ndarray]

    @property
    def runs(self) -> list[tuple[Plan, list[np.ndarray]]]:
        """Plans of kernels with their arguments."""
        follower = [(self.follows, self.of_follower)] if self.follows else []
        return [(self.plans[SLANG], self.arrays), *follower]

    def run(self, name: str) -> None:
        self.plans[name].run(self.arrays)
        if self.follows:
            self.follows.run(self.of_follower)


def _times(trial: Trial) -> dict[str, Times]:
    """The least times of each, in turns, without candidates that are clearly slower."""
    for array in (*trial.arrays, *trial.of_follower):
        array[...] = 1
    for name in trial.plans:  # memory is touched
        trial.run(name)
    times, end = dict.fromkeys(trial.plans, (inf, inf)), perf_counter() + BUDGET
    for turn in range(MOST_TURNS):
        if turn >= LEAST_TURNS and perf_counter() > end:
            break
        close = _close(times) if turn >= 2 else list(trial.plans)
        if len(close) == 1:
            break
        for name in close:
            began, spent = perf_counter(), _spent()
            trial.run(name)
            wall, busy = perf_counter() - began, _spent() - spent
            if trial.threads < 2:
                wall = busy  # without the turns of other processes
            times[name] = min(wall, times[name][0]), min(busy, times[name][1])
    return times


def _spent() -> float:
    """Seconds of all processors in this process, without other threads of Python that are not ours."""
    return process_time() - sum(_spent_by(thread) for thread in threading.enumerate() if _is_foreign(thread))


def _is_foreign(thread: threading.Thread) -> bool:
    return thread is not threading.current_thread() and not thread.name.startswith("slangrad")


def _spent_by(thread: threading.Thread) -> float:
    """Seconds of a thread; 0 where the system has no clock for it. Linux makes the number of a clock of the number of
    the thread and of bits that say what it counts. A thread that has ended has no clock."""
    if sys.platform == "linux" and thread.native_id:
        with suppress(OSError):
            return time.clock_gettime(~thread.native_id << 3 | 6)
    return 0.0


def _close(times: dict[str, Times]) -> list[str]:
    """The fastest, and those that more turns may show to be it."""
    least = min(wall for wall, _ in times.values())
    return [name for name, (wall, _) in times.items() if wall <= CLEAR * least]


def _trial(device: spy.Device, product: ProductRead, make_plan: type[Plan]) -> Trial:
    """It has so many batches, rows and columns, and strides as they are, that it takes `LARGE` operations, or as few as
    tell candidates apart."""
    node, parts, _ = product
    letters, threads = node.attributes["letters"], device.runtime.threads
    ins, out = letters_in(letters)
    sizes, left = sizes_of(node), flops_of(node)
    least = dict.fromkeys(sizes, 1)
    least |= {c: LEAST_BATCHES if c in ins[0] and c in ins[1] else LEAST_ROWS for c in out}
    while left > LARGE and (large := [c for c in least if sizes[c] > least[c]]):
        name = max(large, key=lambda c: sizes[c] / least[c])
        sizes[name], left = -(-sizes[name] // 2), left // 2
    shapes = [tuple(sizes[c] for c in names) for names in ins]
    strides = [tuple(map(abs, part.layout.strides)) for part in parts]
    layouts = list(map(StridedLayout, shapes, strides))
    names = [SLANG, *libraries()]
    plans, arrays = _plans(device, letters, layouts, node.dtype, names, make_plan)
    if threads < 2:
        return Trial(threads, plans, arrays, None, [])
    few, fewer = _plans(device, "ij,jk->ik", FOLLOWER, node.dtype, [SLANG], make_plan)
    return Trial(threads, plans, arrays, few[SLANG], fewer)


def _plans(
    device: spy.Device,
    letters: str,
    layouts: Sequence[StridedLayout],
    dtype: DType,
    names: Sequence[str],
    make_plan: type[Plan],
) -> tuple[dict[str, Plan], list[np.ndarray]]:
    """Plans of a product by each candidate, and arguments, whose numbers are not set."""
    inputs = [new_input(layout.shape, dtype) for layout in layouts]
    arrays = []
    for layout in layouts:
        places = [step * dtype.itemsize for step in layout.strides]
        arrays.append(np.lib.stride_tricks.as_strided(np.empty(layout.end, dtype), layout.shape, places))
    shown = dict(zip(inputs, map(normal, layouts), strict=True))
    ins, out = letters_in(letters)
    sizes = {
        c: n
        for axes, layout in zip(ins, layouts, strict=True)
        for c, n in zip(axes, layout.shape, strict=True)
    }
    trial = make("einsum", inputs, tuple(sizes[c] for c in out), dtype, letters=letters)
    plans = {name: make_plan.with_choice(trial, inputs, device, shown, name) for name in names}
    return plans, arrays
