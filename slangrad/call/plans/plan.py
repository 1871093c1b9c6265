"""A plan: the facts of a call that depend on its signature alone.

Every call:   values -> layout -> launch geometry (kept) -> argument block -> launch -> result. Once a layout:
sizes are checked, loops planned, fixed scalars laid out, and a kernel chosen; kernels are kept by how streams
move along the lanes.

    plan.run([2.0, 8.0, -1.0, x])   ->   a Tensor
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slangrad.call.binding.broadcast import Mapped, call_shape
from slangrad.call.binding.launchable import PARTIAL, SHAPE, Launchable
from slangrad.call.plans.geometry import MOST_THREADS, Loops, StreamStrides, keep_loops, plan_loops
from slangrad.call.plans.launches import FixedLaunch, Geometry, Placed, PlacedSetter, ScratchBlock
from slangrad.call.plans.overlap import (
    Conflicts,
    alone_of,
    find_conflicts,
    overwritten_of,
    pairs_of,
    refuse_overwritten,
    refuse_shared_outputs,
    refuse_touched,
    regions_of,
)
from slangrad.call.plans.packing import Compiled
from slangrad.call.plans.shown_kernels import SHOWING, show_kernel
from slangrad.call.plans.staging import Staged, refuse_in_rows, stage
from slangrad.marshal.composed import results
from slangrad.marshal.composed.rows import makes_rows
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.footprint import Footprint, Shape, Values
from slangrad.marshal.protocol.nodes import Leaf
from slangrad.runtime.device import Device
from slangrad.runtime.reports import NotFiniteError
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.call.sessions import HostDevice

MOST_GEOMETRIES = 256

# The kernel for streams that move so along the lanes and memory of such forms (letters of each leaf), and for
# gradients of these names that no two calls share.
CompileFor = Callable[[dict[str, str], frozenset[str]], Compiled]


class CallPlan:
    """The calls of one signature on one device."""

    # fmt: off
    __slots__ = ("_created", "_finishers", "_geometries", "_in_order", "_is_direct", "_kernels", "_leaves",
                 "_overwritten", "_paths", "_prepares", "_rows", "_runtime", "_scratch_size", "_scratches", "_strict",
                 "call", "compile_for", "device", "layouts")
    # fmt: on

    def __init__(
        self,
        call: Launchable,
        compile_for: CompileFor,
        device: HostDevice,
        strict: bool,
        in_order: bool = False,
    ) -> None:
        self.call = call
        self.compile_for = compile_for
        self.device = device
        self._runtime: Device = device.runtime
        self._strict = strict
        self._in_order = in_order
        self._leaves = call.leaves
        self._created = call.created
        self._geometries: dict[Hashable, Geometry] = {}
        self._kernels: dict[Hashable, Compiled] = {}
        self._scratches: list[ScratchBlock] = []
        self._scratch_size = _place_scratch(call.leaves)
        self._paths = (
            None if _is_flat(call) else [(source.value_index, source.path) for source in call.sources]
        )
        self._prepares = [(i, leaf.prepare) for i, leaf in enumerate(call.leaves) if leaf.prepare is not None]
        passed = call.leaves if call.created is None else call.leaves[:-1]
        finders = [(i, leaf.layout_finder()) for i, leaf in enumerate(passed)]
        self._is_direct = self._paths is None and not self._prepares
        self.layouts = {i: find for i, find in finders if find is not None}
        self._overwritten = overwritten_of(call.leaves)
        self._rows = [i for i, leaf in enumerate(call.leaves) if makes_rows(leaf)]
        self._finishers = [(i, leaf.finish) for i, leaf in enumerate(call.leaves) if leaf.scratch]

    def place_of(self, index: int) -> int | None:
        """The number of the leaf that an argument is as a whole."""
        places = (i for i, source in enumerate(self.call.sources) if source == (index, ()))
        return index if self._paths is None else next(places, None)

    # --- every call ---

    def run(self, arguments: list[object], threads: int | None = None) -> HostValue:
        """Launch; what the call returns."""
        values = arguments if self._is_direct else self._prepared(arguments)
        key = (threads, *[find(values[i]) for i, find in self.layouts.items()])
        geometry = self._geometries.get(key)
        if geometry is None:
            geometry = self._make_geometry(values, threads, key)
            if geometry is None:
                return self._run_on_copies(values, threads)
        return self._launch(geometry, values, threads)

    def fixed(self, arguments: list[object], threads: int | None) -> FixedLaunch | None:
        """The launch of a call that is a launch only; else None."""
        if self._created is not None or self._scratch_size:
            return None
        values = self._prepared(list(arguments))
        geometry = self._geometry(values, threads)
        if geometry is None or geometry.is_staged:
            return None
        grid = (0, 0, 0) if 0 in geometry.shape else geometry.loops.grid
        launch = FixedLaunch(self, geometry, grid, values)
        return launch if launch.check() else None

    def may_launch(self, geometry: Geometry, values: list[object], scalars: Values) -> bool:
        """Whether no memory must be copied first; CallError for overlaps that no copy resolves."""
        if geometry.pairs and find_conflicts(geometry.pairs, scalars) is not None:
            return False
        if self._overwritten or self._rows:
            self._refuse_overlaps(geometry, values, scalars)
        return True

    def _prepared(self, arguments: list[object]) -> list[object]:
        """The values of the leaves."""
        values = arguments if self._paths is None else self._collect(arguments)
        for i, prepare in self._prepares:
            values[i] = prepare(values[i])
        return values

    def _collect(self, arguments: list[HostValue]) -> list[object]:
        """The values of the leaves, from inside of dicts and lists."""
        values = []
        assert self._paths is not None
        for index, path in self._paths:
            if index == results.CREATED:
                continue
            value = arguments[index]
            for step in path:
                value = value[step]
            values.append(value)
        return values

    def _launch(self, geometry: Geometry, values: list[object], threads: int | None) -> object:
        """Fill the argument block and launch; what the call returns."""
        created, result = self._created, None
        if created is not None:
            result = geometry.make_result()
            values.append(result)
        scratch = self._take_scratch() if self._scratch_size else None
        kept: list[object] = []
        staged: Staged | None = None
        while True:
            scalars = geometry.values.copy()
            for find, i, place in geometry.finders:
                scalars[place] = values[i] if find is None else find(values[i])
            for put, i, place in geometry.setters:
                put(scalars, place, values[i], scratch)  # type: ignore[arg-type]
            conflicts = find_conflicts(geometry.pairs, scalars) if geometry.pairs else None
            if conflicts is None or not conflicts.shared:
                break
            geometry = self._with_atomic_sums(geometry, values, threads)
        if geometry.is_staged:
            staged = stage(self._runtime, geometry.regions, scalars)
        if conflicts is not None:
            kept = self._copy_first(conflicts, scalars)
        if self._overwritten or self._rows:
            self._refuse_overlaps(geometry, values, scalars)
        if scratch is not None:
            scratch.send()
        if self._runtime.recording is not None:
            self._runtime.keep_recorded(values)
        if 0 not in geometry.shape:
            packed = geometry.compiled.packer.pack(scalars)
            try:
                self._runtime.launch(geometry.compiled.kernel, packed, geometry.loops.grid)
            except NotFiniteError as error:
                raise _in_call(error, geometry) from None
        kept.clear()
        if staged is not None:
            staged.bring_back()
        if scratch is not None:
            scratch.fetch()
            for i, finish in self._finishers:
                finish(values[i], scratch)
            self._scratches.append(scratch)
        return None if created is None else created.give(result)

    def _refuse_overlaps(self, geometry: Geometry, values: list[HostValue], scalars: Values) -> None:
        """CallError for overlaps that no copy resolves."""
        refuse_overwritten(self._overwritten, values)
        touched = [memory for i in self._rows for memory in values[i].touched]
        if not self._runtime.reaches_host:
            refuse_in_rows(touched)
        refuse_touched(touched, geometry.regions, scalars)

    def _take_scratch(self) -> ScratchBlock:
        self._runtime.refuse_recording(f"'{self.call.name}' gives a number, or writes a value of Python")
        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = None
        return scratch or ScratchBlock(self._runtime, self._scratch_size)

    # --- memory that overlaps or cannot be used as it lies ---

    def _copy_first(self, conflicts: Conflicts, scalars: Values) -> list[object]:
        """Copies of what must be read before it is overwritten; they live until the launch is over."""
        kept: list[object] = []
        for region in conflicts.copies:
            size = region.high - region.low
            block = self._runtime.allocate(size)
            self._runtime.copy(block.address, scalars[region.place] + region.low, size)
            scalars[region.place] = block.address - region.low
            kept.append(block)
        return kept

    def _with_atomic_sums(self, geometry: Geometry, values: list[object], threads: int | None) -> Geometry:
        """The same launch where calls share elements of gradients."""
        if geometry.atomic is None:
            atomic = self._make_geometry(values, threads, atomic=True)
            assert atomic is not None
            atomic.pairs = [pair for pair in atomic.pairs if not (pair[0].adds and pair[1].adds)]
            geometry.atomic = atomic
        return geometry.atomic

    def _geometry(self, values: list[object], threads: int | None) -> Geometry | None:
        key = (threads, *[find(values[i]) for i, find in self.layouts.items()])
        return self._geometries.get(key) or self._make_geometry(values, threads, key)

    def _run_on_copies(self, values: list[object], threads: int | None) -> object:
        """Run on copies, and bring back what was written."""
        copied = list(values)
        rows = zip(self._leaves, values)
        changed = [i for i, (leaf, value) in enumerate(rows) if leaf.footprint(value) is None]
        refuse_shared_outputs(self._leaves[: len(values)], values, changed)
        for i in changed:
            copied[i] = self._leaves[i].copy(values[i])
        geometry = self._geometry(copied, threads)
        assert geometry is not None, "a copy can be used as it lies"
        result = self._launch(geometry, copied, threads)
        for i in changed:
            self._leaves[i].copy_back(copied[i], values[i])
        return result

    # --- once for each layout ---

    def compile(self, arguments: list[object], threads: int | None = None) -> Compiled:
        """The kernel that `run` would launch."""
        return self._compiled_geometry(arguments, threads).compiled

    def unfilled_result(self, arguments: list[object], threads: int | None = None) -> HostValue:
        """What `run` would make and return, before it is filled."""
        created = self._created
        geometry = self._compiled_geometry(arguments, threads)
        return None if created is None else created.give(geometry.make_result())

    def shape_of(self, arguments: list[object]) -> Shape:
        """The shape of a call with these values."""
        return self._compiled_geometry(arguments, None).shape

    def _compiled_geometry(self, arguments: list[object], threads: int | None) -> Geometry:
        """The geometry of these values, or of copies if a kernel cannot use them as they lie."""
        values = self._prepared(arguments)
        for i, leaf in enumerate(self._leaves[: len(values)]):
            if leaf.footprint(values[i]) is None:
                values[i] = leaf.copy(values[i])
        geometry = self._make_geometry(values, threads)
        assert geometry is not None, "a copy can be used as it lies"
        return geometry

    def _make_geometry(
        self, values: list[object], threads: int | None, key: Hashable = None, atomic: bool = False
    ) -> Geometry | None:
        """None when some value must be copied first. With a key it is kept, to be launched."""
        last = len(self._leaves) - (self._created is not None)
        footprints: list[Footprint] = []
        homes: list[object] = []
        for leaf, value in zip(self._leaves[:last], values):
            footprint = leaf.footprint(value)
            if footprint is None:
                return None
            for kind, home in footprint.homes:
                if not self._runtime.holds(home):
                    raise _on_another_device(leaf.label, kind, home, self._runtime)
                homes.append(home)
            footprints.append(footprint)
        rows = zip(self._leaves, footprints)
        mapped = [
            Mapped(leaf.label, leaf_footprint.sizes, leaf.mapping, leaf.described)
            for leaf, leaf_footprint in rows
        ]
        shape = call_shape(self.call.call_dims, mapped, self._strict)
        maker: Callable[[], object] = _nothing
        if self._created is not None:
            maker = self._created.maker(self.device, shape, self._place_of_torch(homes))
            footprint = self._leaves[-1].footprint(maker())
            assert footprint is not None
            if self._runtime.reaches_host or all(use.memory.home is not None for use in footprint.uses):
                footprint = replace(footprint, uses=())  # nothing else leads to new memory
            footprints.append(footprint)
        geometry = self._lay_out(shape, footprints, threads, atomic, maker)
        if key is not None:
            self._check_globals(geometry.compiled)
            if len(self._geometries) >= MOST_GEOMETRIES:
                self._geometries.clear()
            self._geometries[key] = geometry
        return geometry

    def _place_of_torch(self, homes: Sequence[object]) -> str | None:
        """The device of torch tensors that a call makes: the GPU if an argument of PyTorch lies there, or if no
        argument lies on the host. `homes` are those of the arguments."""
        of_torch = [home for home in homes if isinstance(home, str)]
        if of_torch:
            return of_torch[0]
        return self._runtime.place_of_torch if homes and None not in homes else None

    def _lay_out(
        self,
        shape: Shape,
        footprints: Sequence[Footprint],
        threads: int | None,
        atomic: bool,
        maker: Callable[[], object],
    ) -> Geometry:
        """The launch for these footprints, from which loops, scalars and regions are derived."""
        over = shape if threads is None else (threads,)
        rows = list(zip(self._leaves, footprints))
        strides = [leaf.along(footprint.sizes, footprint.strides, over) for leaf, footprint in rows]
        loops = self._loops(over, strides, threads)
        alone = alone_of(self._leaves, over, strides)
        forms = tuple(footprint.forms for footprint in footprints)
        partial = any(size % part for size, part in zip(over, self.call.group or ()))
        compiled = self._compiled(loops.classes, forms, frozenset() if atomic else alone, partial)
        places = compiled.packer.places
        regions = regions_of(self._leaves, footprints, loops, places)
        fixed: dict[str, list[int]] = {SHAPE: list(loops.extents)}
        at = iter(loops.strides)
        for leaf, footprint in rows:
            fixed |= footprint.fixed
            starts = footprint.starts or [0] * len(leaf.streams)
            for stream, start in zip(leaf.streams, starts):
                fixed[stream.name] = leaf.stream_scalars(start, next(at))
        scalars = compiled.packer.empty
        for name, place in places.items():
            if name in fixed:
                scalars[place] = fixed[name]
        assert len(scalars) == len(compiled.packer.scalars), "an argument is laid out unlike its type"
        finders, setters = self._moving(shape, places)
        is_staged = not self._runtime.reaches_host and any(region.is_host for region in regions)
        pairs = pairs_of(regions)
        return Geometry(shape, loops, scalars, finders, setters, compiled, pairs, regions, maker, is_staged)

    def _moving(self, shape: Shape, places: Mapping[str, slice]) -> tuple[list[Placed], list[PlacedSetter]]:
        """Finders and setters, which put the scalars of each call at their places."""
        finders = [
            (find, i, places[name].start + at)
            for i, leaf in enumerate(self._leaves)
            for name, at, find in leaf.finders()
            if name in places
        ]
        setters = [
            (put, i, places[name].start)
            for i, leaf in enumerate(self._leaves)
            for name, put in leaf.setters(shape).items()
            if name in places
        ]
        return finders, setters

    def _loops(self, over: Shape, strides: Sequence[Sequence[Shape]], threads: int | None) -> Loops:
        streams = [
            StreamStrides(tuple(stream_strides), spec.unit, spec.fixed and threads is None)
            for leaf, leaf_strides in zip(self._leaves, strides)
            for spec, stream_strides in zip(leaf.streams, leaf_strides)
        ]
        group = self.call.group
        if group is None:
            loops = plan_loops(over, streams, self._in_order)
        else:
            loops = keep_loops(over, streams, group)
        if loops.grid[0] > MOST_THREADS:
            shape = over if threads is None else ()
            raise CallError("E1005", f"a call of shape {shape} is too large: split it into several calls")
        return loops

    def _check_globals(self, compiled: Compiled) -> None:
        """CallError (E1013) for a value outside of functions that the kernel reads and that is not set."""
        names = {SHAPE}
        for leaf in self._leaves:
            letters = "r" * len(leaf.streams)
            names.update(parameter.name for parameter in leaf.parameters(letters))
        for name in compiled.packer.places:
            if name in compiled.used and name not in names:
                callee = self.call.name
                message = f"Could not call function '{callee}': the module's value '{name}' is not set"
                raise CallError("E1013", message, (), f"{callee}.set({name}=...)(...)")

    def _compiled(
        self, classes: str, forms: tuple[str, ...], alone: frozenset[str], partial: bool
    ) -> Compiled:
        key = (classes, forms, alone, partial)
        compiled = self._kernels.get(key)
        if compiled is None:
            letters = self._letters(classes, forms)
            if partial:
                letters[SHAPE] = PARTIAL
            compiled = self._kernels[key] = self.compile_for(letters, alone)
            if SHOWING.is_on:
                show_kernel(self.call.name, compiled)
        return compiled

    def _letters(self, classes: str, forms: tuple[str, ...]) -> dict[str, str]:
        """The letters of each leaf's streams, and those of its forms."""
        letters, at = {}, 0
        for leaf, form in zip(self._leaves, forms):
            letters[leaf.name] = classes[at : at + len(leaf.streams)] + form
            at += len(leaf.streams)
        return letters


COPIES = {"Texture": "device.create_texture(x.desc, data=x.to_numpy())"}  # others are copied as tensors


def _on_another_device(label: str, kind: str, home: object, runtime: Device) -> CallError:
    """The error for memory that kernels do not reach; `home` is a string where it belongs to PyTorch."""
    if not isinstance(home, str):
        message = f"argument '{label}': the {kind} lies on another device"
        copy = COPIES.get(kind, "Tensor.from_numpy(device, x.to_numpy())")
        return CallError("E1022", message, (), f"copy it: {copy}")
    message = f"argument '{label}': the torch tensor lies on '{home}', and calls run on {runtime.name}"
    cure = f"pass {label}.cpu(); the result's .to('{home}') brings it back, and both carry gradients"
    if runtime.reaches_host:
        cure = f'load the module on create_device("cuda"), or {cure}'
    return CallError("E1022", message, (), cure)


def _in_call(error: NotFiniteError, geometry: Geometry) -> NotFiniteError:
    """With the index of the call."""
    if error.thread is None:
        return error
    (x, y, z), (nx, ny, _) = error.thread, geometry.loops.grid
    number, index = (z * ny + y) * nx + x, []
    for size in reversed(geometry.shape):
        index.append(number % size)
        number //= size
    return error.in_call(tuple(reversed(index)))


def _nothing() -> None:
    """The result of calls that create none."""


def _place_scratch(leaves: Sequence[Leaf]) -> int:
    at = 0
    for leaf in leaves:
        leaf.scratch_at = at
        at += leaf.scratch
    return at


def _is_flat(call: Launchable) -> bool:
    """Whether the given values are the leaves' values as they stand."""
    sources = [source for source in call.sources if source.value_index != results.CREATED]
    return all(source.value_index == i and not source.path for i, source in enumerate(sources))
