"""Compute kernels: entry points that are launched over threads, with their parameters by name.

    kernel = device.create_compute_kernel(program)
    kernel.dispatch(thread_count=[1000, 1, 1], vars={"scale": 2.0}, data=buffer)

`vars` are the parameters outside of functions, keywords those of the entry point. The number of threads is rounded
up to whole groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slangrad.api.kernels.pipeline import BlockSlot, ComputePipeline, ParameterSlot
from slangrad.api.kernels.shader import ShaderProgram
from slangrad.api.kernels.uniforms import missing, unknown
from slangrad.api.reflection.program_layout import ReflectionCursor
from slangrad.base.lazy import LazyModule
from slangrad.marshal.errors import CallError

if TYPE_CHECKING:
    from slangrad.api.kernels.commands import CommandEncoder

COMMANDS = LazyModule("slangrad.api.kernels.commands")


def _is_read(slot: ParameterSlot | BlockSlot) -> bool:
    if isinstance(slot, BlockSlot):
        return any(member.at >= 0 for member in slot.members.values())
    return slot.at >= 0


def _read_names(slots: Mapping[str, ParameterSlot | BlockSlot]) -> frozenset[str]:
    return frozenset(name for name, slot in slots.items() if _is_read(slot))


class ComputeKernel:
    """An entry point, ready to be launched."""

    # fmt: off
    __slots__ = ("__weakref__", "_empty", "_globals", "_kernel", "_launch", "_pack", "_parameters", "_pipeline",
                 "_required_globals", "_required_parameters", "_twin", "device", "generation", "is_checked", "name",
                 "program")
    # fmt: on

    def __init__(self, program: ShaderProgram, name: str = "", is_checked: bool | None = None) -> None:
        """`name`: of the function that the program's entry point was made for. `is_checked`: see ComputePipeline."""
        self.name = name
        self.program = program
        self.device = program.device
        self._twin: ComputeKernel | None = None  # the same with checks, or without
        self._launch = self.device.runtime.launch
        pipeline = ComputePipeline(program, is_checked)
        self.is_checked = pipeline.is_checked
        self._use(pipeline)

    def _use(self, pipeline: ComputePipeline) -> None:
        self._pipeline = pipeline
        self.generation = pipeline.generation
        self._kernel = pipeline.compiled.kernel
        self._pack = pipeline.pack
        self._empty = pipeline.empty
        self._globals = pipeline.globals
        self._parameters = pipeline.parameters
        self._required_globals = _read_names(pipeline.globals)
        self._required_parameters = _read_names(pipeline.parameters)

    def __repr__(self) -> str:
        return f"ComputeKernel({self._pipeline.entry.name})"

    @property
    def pipeline(self) -> ComputePipeline:
        """The pipeline that is launched."""
        if self.generation.expired:
            self._use(self._pipeline.current())
        return self._pipeline

    @property
    def reflection(self) -> ReflectionCursor:
        """Parameters by name."""
        return self.program.reflection

    def dispatch(
        self,
        thread_count: object,
        vars: Mapping[str, object] | None = None,
        command_encoder: CommandEncoder | None = None,
        queue: object = None,
        **parameters: object,
    ) -> None:
        """Launch whole groups of threads, at least `thread_count` in x, y and z; with an encoder, later."""
        if (self.device.checking is not None) != self.is_checked:
            self._other().dispatch(thread_count, vars, command_encoder, queue, **parameters)
            return
        if self.generation.expired:
            self._use(self._pipeline.current())
        try:
            grid = self._pipeline.grid_of(thread_count)
            arguments = self._arguments(vars or {}, parameters)
        except CallError as error:
            error.about("launch", f"kernel '{self.name or self._pipeline.entry.name}'")
            raise
        if command_encoder is None:
            self.device.runtime.keep_recorded((vars, parameters))
            self._launch(self._kernel, arguments, grid)
        else:
            COMMANDS.check_encoder(command_encoder, self.device, f"kernel '{self._pipeline.entry.name}'")
            command_encoder.launch(self._pipeline, arguments, lambda: grid, (vars, parameters))

    def _other(self) -> ComputeKernel:
        """The kernel as it is inside of check mode, or outside."""
        if self._twin is None:
            twin = ComputeKernel(self.program, self.name, not self.is_checked)
            twin._twin = self
            self._twin = twin
        return self._twin

    def _arguments(self, globals_given: Mapping[str, object], parameters: Mapping[str, object]) -> bytes:
        values = self._empty[:]
        slots = self._globals
        for name, value in globals_given.items():
            if name not in slots:
                raise self._unknown(name, "vars", slots)
            slots[name].put(values, value)
        slots = self._parameters
        for name, value in parameters.items():
            if name not in slots:
                raise self._unknown(name, "parameters", slots)
            slots[name].put(values, value)
        if not (
            self._required_globals <= globals_given.keys() and self._required_parameters <= parameters.keys()
        ):
            raise self._missing(globals_given, parameters)
        return self._pack(values)

    def _unknown(self, name: str, title: str, names: Mapping[str, object]) -> CallError:
        message = f"{title}: kernel '{self.name or self._pipeline.entry.name}' has no parameter '{name}'"
        error = unknown(message, name, names)
        if name in self._globals or name in self._parameters:
            place = "in vars" if name in self._globals else "as a keyword"
            error = CallError(error.code, message, (), f"'{name}' is passed {place}")
        return error

    def _missing(self, globals_given: Mapping[str, object], parameters: Mapping[str, object]) -> CallError:
        slots = [self._globals[name] for name in sorted(self._required_globals - globals_given.keys())]
        slots += [self._parameters[name] for name in sorted(self._required_parameters - parameters.keys())]
        first = slots[0]
        if isinstance(first, BlockSlot):
            first = next(member for member in first.members.values() if member.at >= 0)
        return missing(first.name, first.uniform.type)
