"""Compute pipelines: programs compiled for compute, and where the values of their parameters go.

pipeline = device.create_compute_pipeline(program)   ->   a kernel, and a slot for each parameter
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import index
from time import perf_counter
from typing import TYPE_CHECKING

from slangrad.api.kernels.shader import GlobalParameter, ShaderProgram, ShaderStage
from slangrad.api.kernels.uniforms import STRICTLY, Uniforms, missing, unknown
from slangrad.base.lazy import lazy_property
from slangrad.check.model.types import Type, stored
from slangrad.ir.data.types import Pointer as Address
from slangrad.ir.data.types import struct
from slangrad.marshal.errors import CallError
from slangrad.marshal.host.encode import INTEGERS, Encoder, StructEncoder
from slangrad.marshal.host.footprint import Values
from slangrad.runtime.device import Grid
from slangrad.tensors.elements.conversion import HostValue

if TYPE_CHECKING:
    from slangrad.check.model.declref import Declared


MOST_THREADS = 1 << 32

# Where the values of a parameter go: pairs of a uniform and its first scalar.
Scalars = Values


class ParameterSlot:
    """A parameter by name: its uniform, and where its scalars lie; -1 when the kernel does not read it."""

    __slots__ = ("at", "name", "uniform")

    def __init__(self, name: str, uniform: Encoder, at: int) -> None:
        self.name = name
        self.uniform = uniform
        self.at = at

    def put(self, values: Scalars, value: object) -> None:
        if self.at >= 0:
            self.uniform.put(values, self.at, value, self.name)
        else:
            self.uniform.put([0] * self.uniform.count, 0, value, self.name)


class BlockSlot:
    """`cbuffer C { }`: a dict of its members, each of which lies somewhere else."""

    __slots__ = ("members", "name")

    def __init__(self, name: str, members: Mapping[str, ParameterSlot]) -> None:
        self.name = name
        self.members = members

    def put(self, values: Scalars, value: object) -> None:
        if not isinstance(value, Mapping):
            raise CallError("E1019", f"parameter '{self.name}' is a block: pass a dict with its members")
        for name, member_value in value.items():
            slot = self.members.get(name)
            if slot is None:
                raise unknown(f"'{self.name}' has no member '{name}'", name, self.members)
            slot.put(values, member_value)


class ComputePipeline:
    """A program that is compiled for compute; with checks, if `is_checked`. The default is the device's current
    mode."""

    def __init__(self, program: ShaderProgram, is_checked: bool | None = None) -> None:
        self.is_checked = program.device.checking is not None if is_checked is None else is_checked
        self.program = program
        self.device = program.device
        self._newer = self
        self.began = perf_counter()
        with program.session.lock:
            self.generation = program.session.generation
            self._make()
        self.seconds = perf_counter() - self.began
        program.pipelines.add(self)

    def current(self) -> ComputePipeline:
        """The pipeline of the program as it is now, after a look at files that have changed."""
        if self._newer.generation.expired:
            session = self.program.session
            session.refresh()
            if self._newer.generation is not session.generation:
                self._newer = ComputePipeline(self.program, self.is_checked)
        return self._newer

    def _make(self) -> None:
        program = self.program
        if not program.entry_points:
            raise CallError(
                "E1020", "the program has no entry point", (), "link it with module.entry_point(name)"
            )
        self.entry = program.entry_points[0]
        if self.entry.stage is not ShaderStage.compute:
            stage = self.entry.stage.name
            raise CallError(
                "E1020", f"'{self.entry.name}' is for the stage '{stage}', kernels are for compute"
            )
        if self.entry.declaration.generics and not self.entry.reference.substitution:
            note = "entry.specialize([SpecializationArg.from_type(name), ...]) gives it arguments"
            raise CallError("E1020", f"entry point '{self.entry.name}' is generic", (), note)
        self.thread_group_size = self.entry.group_size
        generation = self.generation
        compiler = generation.checked.compiler if self.is_checked else generation.compiler
        self.compiled = compiler.compile_entry(self.entry.reference, self.entry.conformances)
        if not self.is_checked and not self.entry.conformances:  # those with conformances are not kept
            for other in generation.others:
                other.compiler.keep_entry(other.of(self.entry.module.loaded).view, self.entry.reference)
        self._uniforms = Uniforms(program.types, self.device.runtime)
        self.globals: dict[str, ParameterSlot | BlockSlot] = {
            parameter.name: self._global(parameter) for parameter in program.globals
        }
        self.parameters: dict[str, ParameterSlot | BlockSlot] = {
            declared.name: self._slot(declared.name, declared, t) for declared, t in self.entry.parameters
        }
        self.empty = self._unset_values()

    def _unset_values(self) -> Scalars:
        """Zeros, but None for the addresses that the kernel reads."""
        packer = self.compiled.packer
        values: Scalars = packer.empty
        for name in self.compiled.used:
            place = packer.places[name]
            read, start = self.compiled.read.get(name), packer.offsets[place][:1]
            values[place] = [
                None if isinstance(t, Address) and (read is None or at - start[0] in read) else 0
                for t, at in zip(packer.scalars[place], packer.offsets[place])
            ]
        return values

    def _global(self, parameter: GlobalParameter) -> ParameterSlot | BlockSlot:
        info = self.program.session.program.info

        def stored_type(declared: Declared) -> Type:
            info_of_declared = info(declared)
            return stored(info_of_declared.type, info_of_declared.rules)

        if not parameter.is_block:
            return self._slot(parameter.name, parameter.declaration, stored_type(parameter.declaration))
        prefix = f"{parameter.name}."
        members = {
            member.name: self._slot(prefix + member.name, member, stored_type(member))
            for member in parameter.members
        }
        return BlockSlot(parameter.name, members)

    def _slot(self, label: str, declared: Declared, t: Type) -> ParameterSlot:
        encoder = self._uniforms.of(t)
        uniform = encoder or StructEncoder(STRICTLY, struct(str(t), ()), [])
        argument = self.compiled.argument_of(declared)
        if argument is None or argument not in self.compiled.used:
            return ParameterSlot(label, uniform, -1)
        if encoder is None:
            message = f"parameter '{label}' of type '{t}' cannot be set from Python"
            raise CallError("E1019", message, (), "declare a struct with these fields")
        place = self.compiled.packer.places[argument]
        assert place.stop - place.start == uniform.count, (label, t, place, uniform.count)
        return ParameterSlot(label, uniform, place.start)

    @lazy_property
    def offsets(self) -> dict[ParameterSlot | BlockSlot, int]:
        """Where parameters lie by reflection, in bytes: those outside of functions, and those of the entry point."""
        offsets: dict[ParameterSlot | BlockSlot, int] = {}
        layout = self.program.layout
        both = ((layout.parameters, self.globals), (layout.entry_points[0].parameters, self.parameters))
        for rows, slots in both:
            for parameter in rows:
                slot = slots.get(parameter.name)
                if isinstance(slot, BlockSlot):
                    fields = parameter.type_layout.fields
                    offsets |= {slot.members[field.name]: parameter.offset + field.offset for field in fields}
                if slot is not None:  # the ids of threads have none
                    offsets[slot] = parameter.offset
        return offsets

    def grid_of(self, thread_count: HostValue) -> Grid:
        """Threads of whole groups. CallError (E1014) for more than 2^32 in a dimension."""
        x, y, z = thread_count if _is_three(thread_count) else _three(thread_count)
        if not (0 <= x <= MOST_THREADS and 0 <= y <= MOST_THREADS and 0 <= z <= MOST_THREADS):
            raise CallError("E1014", f"thread_count: {[x, y, z]} must be between 0 and 2^32 in x, y and z")
        gx, gy, gz = self.thread_group_size
        return int(-(-x // gx) * gx), int(-(-y // gy) * gy), int(-(-z // gz) * gz)

    def pack(self, values: Scalars) -> bytes:
        """The argument block. Addresses that were never written are not zero but None. CallError (E1018) for these."""
        packer = self.compiled.packer
        if None in values:
            unset = [name for name, place in packer.places.items() if None in values[place]]
            raise CallError("E1018", f"parameter '{unset[0]}' has no value: an address in it was not set")
        packed: bytes = packer.pack(values)
        return packed

    def check_written(self, written: Collection[ParameterSlot]) -> None:
        """Every parameter that the kernel reads must have a value. CallError (E1018) for one without."""
        for slot in self.slots():
            if slot.at >= 0 and slot not in written:
                raise missing(slot.name, slot.uniform.type)

    def slots(self) -> Iterator[ParameterSlot]:
        """All parameters; of a block, its members."""
        for slot in (*self.globals.values(), *self.parameters.values()):
            yield from slot.members.values() if isinstance(slot, BlockSlot) else (slot,)


def _is_three(thread_count: HostValue) -> bool:
    kind = type(thread_count)
    return (kind is list or kind is tuple) and [*map(type, thread_count)] == [int, int, int]


def _three(thread_count: HostValue) -> Sequence[int]:
    """Sizes that are left out are one."""
    counts = [thread_count] if isinstance(thread_count, INTEGERS) else thread_count
    try:
        sizes = [index(count) for count in counts]
    except TypeError:
        sizes = []
    if not 0 < len(sizes) <= 3:
        raise CallError("E1014", f"thread_count: {thread_count!r} is not up to three whole numbers")
    return [*sizes, 1, 1][:3]
