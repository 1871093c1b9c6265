"""Plans: the steps of a graph over memory that is given once.

    plan = Plan(outputs, inputs, device)        fused, written, compiled
    plan.run([x, y])                            new arrays of the results

Memory between kernels is one arena; each node has its place from the step that writes it to the last that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from math import prod
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import slangrad as spy
from slangrad.base.process.forks import WORK, kept_at_fork
from slangrad.graph.ir.cost import MachineRates
from slangrad.graph.ir.devices import arena_of, array_of, is_on_host, lent, loop_array, on_device, overwrite
from slangrad.graph.ir.errors import GraphError
from slangrad.graph.ir.layout import StridedLayout, dense
from slangrad.graph.ir.node import Node, text, topological_order, type_text
from slangrad.graph.ir.ops import kind_of
from slangrad.graph.ir.types import type_of
from slangrad.graph.ir.values import ArrayValue, address_of, as_tensor, layout_of
from slangrad.graph.lowering import attention_steps, convolution_steps, products, reductions, rows  # noqa: F401  (they enter writers)
from slangrad.graph.lowering.choose import MeasuredChoice, chooser
from slangrad.graph.lowering.emit import KERNELS, RESULT, steps_of
from slangrad.graph.lowering.library import product
from slangrad.graph.lowering.places import place_products
from slangrad.graph.lowering.sharing import shared_kernels
from slangrad.graph.lowering.steps import (
    Await,
    ClearStep,
    Exchange,
    Holder,
    KernelStep,
    MemoryPart,
    PlanStep,
    ProductStep,
    RepeatStep,
    TemporaryMemory,
)
from slangrad.graph.planning.memory import bytes_of, refuse_overlap
from slangrad.graph.planning.options import DEFAULTS, PlanOptions
from slangrad.graph.planning.ready import MOST_REPLAYED, Call, Memory, ReadyRun, launches_of
from slangrad.graph.planning.recompute import Task, fitted
from slangrad.graph.planning.schedule import Schedule
from slangrad.graph.rewriting.copies import with_copies
from slangrad.graph.rewriting.fuse import Fusion
from slangrad.graph.rewriting.rewrite import rewritten

if TYPE_CHECKING:
    from slangrad.graph.calls import SlangCall
    from slangrad.graph.ir.devices import LoopArray
    from slangrad.graph.scan import ScanLoop
    from slangrad.graph.workers.connections.links import Begun

Binder: TypeAlias = "Callable[[Memory], Call]"
# Times as long as a kernel that moves as many bytes, where it is chosen what to compute again.
COLLECTIVE = 10
MOST_LENT = 1000  # tensors of memory from outside that a plan keeps; they do not keep the memory alive
MOST_BOUND = 4  # calls of one step that are kept, each bound to other memory
MOST_READY = 8  # runs over the same memory as before, for which a plan keeps the calls of all steps


class Plan:
    """`inputs`: the nodes of the arguments of `run`. MemoryLimitError (E1047) where values do not fit into the memory
    of the options."""

    def __init__(
        self,
        outputs: Sequence[Node],
        inputs: Sequence[Node],
        device: spy.Device,
        options: PlanOptions = DEFAULTS,
    ) -> None:
        self.device = device
        self._lock = kept_at_fork(Lock(), WORK)
        self._copied: dict[Node, Node] = {}
        self._outside: dict[tuple[Holder, int], spy.Tensor] = {}  # memory of earlier calls, by addresses
        self.begun: dict[int, Begun] = {}  # collectives, by their steps
        self._holders: Memory = {}  # of this plan
        self.limit, self.peak, self._beside = options.memory, 0, options.held
        self.inputs = list(inputs)
        order = topological_order(*outputs)
        captured = {n: layout_of(n.attributes["captured"].numbers) for n in order if n.op == "captured"}
        self.layouts = captured | dict(options.layouts)
        foreign = {n for n in order if n.op == "input"}.difference(self.inputs)
        if foreign:
            kinds = (f"{type_text(n)}{f' made at {n.place}' if n.place else ''}" for n in foreign)
            message = f"an array of another trace: {', '.join(sorted(kinds))}"
            raise GraphError("E1041", message, "traced arrays are gone when their function returns")
        self.outputs = with_copies(
            rewritten(outputs, options.fast_math), self.layouts, not is_on_host(device)
        )
        choose = options.choose or chooser(device, options.consistent, Plan)
        roots = list(dict.fromkeys(self.outputs))
        self.fusion = Fusion(roots, self.layouts, MachineRates(), options.fused, choose)
        self._taken = self._in_place(dict(zip(outputs, self.outputs, strict=True)), options.in_place)
        if options.memory is None:  # tasks that run again write all of an array
            place_products(self.fusion)
        if isinstance(choose, MeasuredChoice):
            choose.measure(products.products_of(self.fusion), self)
        self.by_group = shared_kernels([steps_of(self.fusion, group) for group in self.fusion.groups])
        self.copies = self._copies_of(options.fixed)
        self._is_stale = True  # the copies
        self._shared: spy.Tensor | None = None
        kept = {*self.inputs, *self.outputs} if options.is_body else ()
        self._holders |= {node: self._new(node) for node in kept}
        self._constants()
        self._captured = [n for n in self.fusion.order if n.op == "captured"]
        repeats = [step for steps in self.by_group for step in steps if isinstance(step, RepeatStep)]
        self.bodies: dict[ScanLoop, Plan] = {
            repeat.loop: repeat.loop.body(device, repeat.results, choose) for repeat in repeats
        }
        self._arena()
        self._binders: list[Binder] = []  # of copies and steps
        self.recorder: Callable[[Sequence[Call]], Iterable[Call]] = iter  # takes the times of steps
        self._ready: dict[tuple[int, ...], ReadyRun] = {}  # by the addresses of memory from outside

    @classmethod
    def with_choice(
        cls,
        output: Node,
        inputs: Sequence[Node],
        device: spy.Device,
        layouts: Mapping[Node, StridedLayout],
        name: str,
    ) -> Plan:
        """The plan of one output, with one way for all products."""
        return cls([output], inputs, device, PlanOptions(layouts, choose=lambda *_: name))

    # --- text

    @cached_property
    def _functions(self) -> list[SlangCall]:
        """The Slang functions that are operators of this graph."""
        return [node.attributes["function"] for node in self.fusion.order if node.op == "slang"]

    @cached_property
    def modules(self) -> dict[str, spy.Module]:
        """By the names of kernels. Each has a module of its own, so plans with an equal kernel compile it once."""
        return self._modules_of((*self.copies, *self.steps))

    def _modules_of(self, steps: Iterable[PlanStep]) -> dict[str, spy.Module]:
        kernels = {step.name: step for step in steps if isinstance(step, KernelStep)}
        templates = {name: KERNELS[name] for kernel in kernels.values() for name in kernel.templates}
        for name, page in (templates | {f.module: f.page for f in self._functions}).items():
            spy.Module.load_from_source(self.device, name, page)
        return {name: self._module_of(kernel) for name, kernel in kernels.items()}

    def _module_of(self, kernel: KernelStep) -> spy.Module:
        functions = [function for function in self._functions if f"{function.called}(" in kernel.text]
        modules = dict.fromkeys(function.module for function in functions)
        imports = (f'import "{name}";' for name in ("slangpy", *kernel.templates, *modules))
        texts = dict.fromkeys(text for function in functions for text in function.text)
        source = "\n".join([*imports, "", *texts, kernel.text])
        return spy.Module.load_from_source(self.device, f"graph_{kernel.name}", source)

    def __str__(self) -> str:
        return text(*self.outputs)

    # --- memory

    @property
    def again(self) -> list[Task]:
        """Those that run a second time, as what they made did not fit into the memory."""
        return [task for task in self.tasks if task.again]

    @property
    def memory(self) -> int:
        """Bytes of all memory that a run uses: between kernels, of arguments and of results."""
        outside = {*self.inputs, *self.outputs, *self._captured} - self._taken.keys()
        return self.peak + sum(node.nbytes for node in outside)

    def _copies_of(self, fixed: Collection[Node]) -> list[KernelStep]:
        """The kernels that read fixed inputs alone, and fill memory between the kernels of a group; groups do without
        them."""
        writers: dict[Holder, list[PlanStep]] = {}
        for step in (step for steps in self.by_group if fixed for step in steps):
            for part in step.writes.values():
                writers.setdefault(part.holder, []).append(step)

        def is_copy(step: PlanStep) -> bool:
            reads = {part.holder for part in step.reads.values()}
            return isinstance(step, KernelStep) and bool(reads) and reads <= set(fixed)

        filled = {
            holder
            for holder, steps in writers.items()
            if isinstance(holder, TemporaryMemory) and all(map(is_copy, steps))
        }
        copies, groups = list[KernelStep](), list[list[PlanStep]]()
        for steps in self.by_group:
            groups.append([])
            for step in steps:
                written = {part.holder for part in step.writes.values()}
                if isinstance(step, KernelStep) and written and written <= filled:
                    copies.append(step)
                else:
                    groups[-1].append(step)
        self.by_group = groups
        return copies

    @property
    def copied_bytes(self) -> int:
        """The part of `peak` that copies of fixed inputs take."""
        return sum(map(bytes_of, self._copy_holders))

    @property
    def _copy_holders(self) -> list[Holder]:
        return list(dict.fromkeys(part.holder for step in self.copies for part in step.writes.values()))

    @property
    def arena_bytes(self) -> int:
        """The part of `peak` that holds nothing from one run to the next."""
        return self._places.size

    def share(self, memory: spy.Tensor) -> None:
        """Take this memory for the arena, as other plans do that run at other times. Before the first run."""
        self._shared = memory

    def refresh(self) -> None:
        """Fixed inputs have other numbers now."""
        self._is_stale = True

    def _constants(self) -> None:
        for node in self.fusion.order:
            if node.op == "count":
                values = np.arange(node.shape[node.attributes["axis"]] or 1, dtype=node.dtype)
                self._holders[node] = spy.Tensor.from_numpy(self.device, values)

    def _arena(self) -> None:
        """Places for what is written and read inside of the plan."""
        outside = {
            *self.outputs,
            *self.inputs,
            *self._captured,
            *self._holders,
            *self._copy_holders,
        }
        seconds = [
            self.fusion.seconds_of(group) * (COLLECTIVE if group.is_collective else 1)
            for group in self.fusion.groups
        ]
        tasks = [Task(i, *work) for i, work in enumerate(zip(self.by_group, seconds, strict=True))]
        held_here = sum(body.peak for body in self.bodies.values())
        held_here += sum(node.nbytes for node in {*self.inputs, *self.outputs} & self._holders.keys())
        held_here += self.copied_bytes
        orders = [[tasks[i] for i in order] for order in self._orders]
        self.tasks, places = fitted(orders, outside, self._taken, self.limit, self._beside + held_here)
        self.steps: list[PlanStep] = places.steps
        self.peak = places.size + held_here
        self._places = places

    def _allocate(self) -> None:
        """Memory for the arena, when the plan is first run."""
        for holder in self._copy_holders:
            kind, count = type_of(holder.dtype), max(1, prod(holder.shape))
            self._holders[holder] = spy.Tensor.empty(self.device, (count,), kind)
        if not self._places.size:
            return
        memory = arena_of(self.device, self._places.size) if self._shared is None else self._shared
        for holder, offset in self._places.offsets.items():
            size, kind = max(1, prod(holder.shape)), type_of(holder.dtype)
            self._holders[holder] = memory.view((size,), (1,), offset // holder.dtype.itemsize, dtype=kind)

    def _in_place(self, computed: Mapping[Node, Node], wanted: Mapping[Node, Node]) -> dict[Node, Node]:
        """Puts the kernels in orders, and gives the outputs that are written over an input. Where others cannot read
        the input before, the output has memory of its own, and is copied at the end."""
        overwriting = {computed[output]: overwritten for output, overwritten in wanted.items()}
        group_of = {root: group for group in self.fusion.groups for root in group.roots}
        for output, overwritten in list(overwriting.items()):
            moved = any(
                leaf.node is overwritten and (leaf.whole or not leaf.layout.is_dense)
                for leaf in group_of[output].leaves
            )
            if moved or not self.layouts.get(overwritten, dense(overwritten.shape)).is_dense:
                self._copied[output] = overwriting.pop(output)
        most = None if self.limit is None else self.limit - self._beside
        groups = self.fusion.groups
        schedule = Schedule(groups, set(self.outputs), overwriting, most)
        self.fusion.groups = [groups[i] for i in schedule.orders[0]]
        place = {i: k for k, i in enumerate(schedule.orders[0])}
        self._orders = [[place[i] for i in order] for order in schedule.orders]
        self._copied |= {output: overwriting.pop(output) for output in schedule.stuck & overwriting.keys()}
        self._near = [n for n in self.fusion.order if n.op in ("input", "captured")] if wanted else []
        return overwriting

    def _refuse_overlap(self, memory: Memory) -> None:
        """GraphError (E1043) where memory that is overwritten is that of another array, too."""
        written = {*self._taken.values(), *self._copied.values()}
        refuse_overlap({node: memory[node] for node in self._near}, written)

    # --- steps

    def _binder(self, step: PlanStep) -> Binder:
        if isinstance(step, KernelStep):
            return self._kernel(step)
        if isinstance(step, ClearStep):
            return lambda memory: self._seen(step.writes[RESULT], memory).clear
        if isinstance(step, ProductStep):
            return self._product(step)
        if isinstance(step, RepeatStep):
            return self._repeat(step)
        if isinstance(step, Exchange):
            return self._exchange(step)
        assert isinstance(step, Await)
        return lambda _: lambda: self.begun.pop(id(step.exchange)).wait()

    def _seen(self, part: MemoryPart, memory: Memory) -> spy.Tensor:
        """The tensor of a part."""
        at = part.layout
        return self._holder(part.holder, memory).view(at.shape or (1,), at.strides or (1,), at.offset)

    def _holder(self, holder: Holder, memory: Memory) -> spy.Tensor:
        """The memory of a holder, of this plan or from outside."""
        held = self._holders.get(holder)
        return memory[holder] if held is None else held

    def _function(self, step: KernelStep, modules: Mapping[str, spy.Module]) -> spy.Function:
        function = modules[step.name].require_function(step.name).map(**dict.fromkeys(step.whole, ()))
        function = function if step.group is None else function.call_group_shape(step.group)
        return function.lanes(step.lanes) if step.lanes else function

    def _made_ready(self, key: tuple[int, ...], memory: Memory) -> ReadyRun:
        """The calls of a run over this memory. The first time, all kernels are compiled together."""
        if not self._binders:
            _compile(self._calls(memory), self.modules)
            self._binders = [self._binder(step) for step in (*self.copies, *self.steps)]
        calls, count = [bind(memory) for bind in self._binders], len(self.copies)
        if len(self._ready) >= MOST_READY:
            self._ready.pop(next(iter(self._ready)))
        is_short = not is_on_host(self.device) and self._launches <= MOST_REPLAYED
        device = self.device if is_short else None
        run = self._ready[key] = ReadyRun(memory, calls[:count], calls[count:], device)
        return run

    @cached_property
    def _launches(self) -> int:
        """About how many a run has."""
        return launches_of(self.steps, lambda repeat: self.bodies[repeat.loop]._launches)

    def _calls(self, memory: Memory) -> list[partial[object]]:
        """Calls of all kernels, after memory for the arena is there."""
        self._allocate()
        return self._calls_of((*self.copies, *self.steps), self.modules, memory)

    def _calls_of(
        self, steps: Iterable[PlanStep], modules: Mapping[str, spy.Module], memory: Memory
    ) -> list[partial[object]]:
        calls: dict[object, partial[object]] = {}
        for step in steps:
            if isinstance(step, KernelStep):
                key = step.name, *(part.layout for part in step.parts)
                calls[key] = partial(self._function(step, modules), **self._bound(step, memory))
        return [*calls.values()]

    def _calls_without_choice(self) -> tuple[list[partial[object]], dict[str, spy.Module]]:
        """Calls of the kernels that are the same however products are computed, and their modules. They are compiled
        and not run, so all arrays share one piece of memory."""
        groups = [group for group in self.fusion.groups if not products.has_choice(group)]
        by_group = shared_kernels([steps_of(self.fusion, group) for group in groups])
        kernels = [step for steps in by_group for step in steps if isinstance(step, KernelStep)]
        parts, modules = [part for kernel in kernels for part in kernel.parts], self._modules_of(kernels)
        ends: dict[Holder, int] = {}
        for part in parts:
            ends[part.holder] = max(part.layout.end, ends.get(part.holder, 1))
        size = max((end * holder.dtype.itemsize for holder, end in ends.items()), default=0)
        memory = spy.Tensor.empty(self.device, (size // 8 + 1,), "uint64_t")
        arrays = {
            holder: memory.view((end,), (1,), dtype=type_of(holder.dtype)) for holder, end in ends.items()
        }
        return self._calls_of(kernels, modules, arrays), modules

    @staticmethod
    def compile_together(runs: Iterable[tuple[Plan, Sequence[ArrayValue]]], plan: Plan | None = None) -> None:
        """The kernels of several plans, each for such arguments, and those of `plan` without a choice."""
        calls, modules = plan._calls_without_choice() if plan else ([], {})
        for trial, arrays in runs:
            with trial._lock:
                calls += trial._calls(trial._lent(trial._with_captured(arrays), trial._results()))
                modules |= trial.modules
        _compile(calls, modules)

    def _kernel(self, step: KernelStep) -> Binder:
        function = self._function(step, self.modules)
        outer = {name: part for name, part in step.named.items() if part.holder not in self._holders}
        if not outer:
            fixed = function.bind_call(**self._bound(step, {}))
            return lambda _: fixed
        holders = list(dict.fromkeys(part.holder for part in outer.values()))

        def bind(memory: Memory, oldest: Any) -> Any:  # a bound call is no public class
            if oldest is None:
                return function.bind_call(**self._bound(step, memory))
            oldest.rebind(**{name: self._seen(part, memory) for name, part in outer.items()})
            return oldest

        return self._bound_to(holders, bind)

    def _bound(self, step: KernelStep, memory: Memory) -> dict[str, object]:
        return {name: self._seen(part, memory) for name, part in step.named.items()} | step.values

    def _product(self, step: ProductStep) -> Binder:
        runtime, parts = self.device.runtime, step.parts
        multiply = product(step.letters, step.library, runtime.threads, runtime.torch_has_computed)
        holders = [part.holder for part in parts if part.holder not in self._holders]

        def bind(memory: Memory, oldest: object) -> Call:
            return multiply(*(array_of(self._seen(part, memory), part.layout) for part in parts))

        return self._bound_to(holders, bind)

    def _bound_to(self, holders: Sequence[Holder], bind: Callable[[Memory, Any], Any]) -> Binder:  # calls
        """A step whose calls are bound to memory from outside. `bind` makes one for new memory, if it can of the
        oldest, which is then no call of runs before."""
        calls: dict[tuple[int, ...], Call] = {}

        def call_on(memory: Memory) -> Call:
            key = tuple([memory[holder].address for holder in holders])
            call = calls.get(key)
            if call is None:
                oldest = None
                if len(calls) == MOST_BOUND:
                    oldest = calls.pop(next(iter(calls)))
                    self._ready.clear()
                call = calls[key] = bind(memory, oldest)
            return call

        return call_on

    def _repeat(self, step: RepeatStep) -> Binder:
        loop, body = step.loop, self.bodies[step.loop]

        def bind(memory: Memory) -> Call:
            arrays = [loop_array(self._seen(part, memory), part.layout.shape) for part in step.parts]
            results = dict(zip(step.results, arrays[len(step.reads) :], strict=True))
            return partial(loop.run, body, arrays, results)

        return bind

    def _exchange(self, step: Exchange) -> Binder:
        def bind(memory: Memory) -> Call:
            tensors = [self._seen(part, memory) for part in step.parts]
            start: Callable[..., Begun] = step.collective.start_on_gpu
            parts: list[Any] = [*tensors]  # for either
            if is_on_host(self.device):
                start, parts = step.collective.start, [array_of(tensor) for tensor in tensors]

            def begin() -> None:
                self.begun[id(step)] = start(*(parts if step.reads else (None, *parts)))

            return begin

        return bind

    def array(self, node: Node) -> LoopArray:
        """The memory of an input or output of a body."""
        return loop_array(self._holders[node], node.shape)

    def repeat(self) -> None:
        """Run the body."""
        self._run(self._ready.get(()) or self._made_ready((), {}))

    def _run(self, ready: ReadyRun) -> None:
        try:
            for call in ready.copies if self._is_stale else ():
                call()
            self._is_stale = False
            ready(self.recorder)
        except spy.BoundsError as error:  # of a line of the plan's text
            indexed = (
                n for n in self.fusion.order if n.op == "index_in" or kind_of(n) in ("gather", "scatter")
            )
            places = dict.fromkeys(str(n.place) for n in indexed if n.place)
            if places:
                error.add_note(f"note: the graph indexes arrays at {', '.join(places)}")
            raise

    def _with_captured(self, arrays: Sequence[ArrayValue]) -> list[ArrayValue]:
        """Arguments, and arrays that the function found. Some of these are copies that live as long as this list."""
        outside = [*arrays, *(node.attributes["captured"].numbers for node in self._captured)]
        return outside if is_on_host(self.device) else [on_device(self.device, array) for array in outside]

    def _lent(self, arrays: Sequence[ArrayValue], results: Memory) -> Memory:
        """The memory from outside: of `_with_captured`, and of results. Bound calls last longer than arrays, and do not
        keep them alive. Memory of earlier calls has the same tensors."""
        values = dict(zip([*self.inputs, *self._captured], arrays, strict=True)) | results
        memory: Memory = {}
        for holder, value in values.items():
            place = holder, address_of(value)
            tensor = self._outside.get(place)
            if tensor is None:
                tensor = lent(self.device, value)
                if len(self._outside) > MOST_LENT:
                    self._outside.clear()
                if tensor.address == place[1]:  # no copy
                    self._outside[place] = tensor
            memory[holder] = tensor
        return memory | {node: memory[to] for node, to in self._taken.items()}

    @cached_property
    def _models(self) -> Memory:
        """For each new output a tensor of its shape and type, whose elements are one."""
        results = {node: self._element(node) for node in self.outputs if node not in self._taken}
        return {
            node: one.broadcast_to(node.shape) if node.size and node.shape else one
            for node, one in results.items()
        }

    def _results(self) -> Memory:
        """New memory of outputs, in their shapes; (1,) for numbers and for arrays without elements."""
        return {node: spy.Tensor.empty_like(model) for node, model in self._models.items()}

    def timed(self, arrays: Sequence[ArrayValue], turns: int = 1) -> list[float]:
        """The seconds of each of the copies and of each step in its place. A first turn touches memory; of the others
        the one that took least counts. Collectives are left out and have 0 seconds, so results are wrong."""
        results, outside = self._results(), self._with_captured(arrays)
        with self._lock:
            ready = self._made_ready((), self._lent(outside, results))
            times = [self._timed(ready) for _ in range(1 + turns)]
            self._ready.pop((), None)
            self._is_stale = True  # copies are those of these arrays
        return min(times[1:], key=sum)

    def _timed(self, ready: ReadyRun) -> list[float]:
        seconds = []
        for step, call in zip((*self.copies, *self.steps), (*ready.copies, *ready.calls), strict=True):
            start = perf_counter()
            if not isinstance(step, Exchange | Await):
                call()
            seconds.append(0.0 if isinstance(step, Exchange | Await) else perf_counter() - start)
        return seconds

    def run(self, arrays: Sequence[ArrayValue], count: int | None = None) -> list[spy.Tensor]:
        """The results, or the first `count` of them, for arguments in the order of `inputs`; numbers as (1,)."""
        arrays = [np.asarray(x) if isinstance(x, np.generic) else x for x in arrays]
        results, outside = self._results(), self._with_captured(arrays)
        key = *map(address_of, outside), *[tensor.address for tensor in results.values()]
        with self._lock:
            ready = self._ready.get(key)
            if ready is None:
                memory = self._lent(outside, results)
                self._refuse_overlap(memory)
                ready = self._made_ready(key, memory)
            self._run(ready)
            for node, to in self._copied.items():
                overwrite(ready.memory[to], ready.memory[node], to.shape)
        return list(results.values())[:count] if self._is_plain else self._shaped(results, arrays, count)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether each output has memory of its own, and elements."""
        return not self._taken and [*self._models] == self.outputs and all(node.size for node in self.outputs)

    def _shaped(self, results: Memory, arrays: Sequence[ArrayValue], count: int | None) -> list[spy.Tensor]:
        """The results in their shapes; those of numbers stay (1,). One that is there twice has memory of its own, as
        NumPy's would."""
        arguments = dict(zip(self.inputs, arrays, strict=True))
        shaped: Memory = {}
        tensors = list[spy.Tensor]()
        for node in self.outputs[:count]:
            if node in shaped:
                tensors.append(shaped[node].copy())
                continue
            tensor = results.get(node)
            if not node.size:
                tensor = spy.Tensor.empty(self.device, node.shape, type_of(node.dtype))
            elif tensor is None:  # it has taken the memory of an argument
                tensor = as_tensor(self.device, arguments[self._taken[node]]).view(node.shape or (1,))
            shaped[node] = tensor
            tensors.append(tensor)
        return tensors

    def _new(self, node: Node) -> spy.Tensor:
        return spy.Tensor.empty(self.device, (max(1, node.size),), type_of(node.dtype))

    def _element(self, node: Node) -> spy.Tensor:
        return spy.Tensor.empty(self.device, (1,), type_of(node.dtype))


def _compile(calls: Sequence[partial[object]], modules: Mapping[str, spy.Module]) -> None:
    for module in [*modules.values()][:1]:
        module.compile_all(calls)  # those of all modules
