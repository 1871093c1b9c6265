"""What a program does: results, memory and reports, as data that two runs are compared by.

    assert_same(outcome(program, "main", inputs), outcome(changed, "main", inputs))

NaN equals NaN here, and 0.0 does not equal -0.0. `kernel_of` makes a kernel that runs a function for each
thread, on buffers, for passes that take kernels and for back ends.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.numbers import Number
from slangrad.ir.ops.core import Function, Program, Region
from slangrad.ir.oracle.interpret import KernelLaunch, Recorded, evaluate, run_kernel
from slangrad.ir.oracle.memory import Datum, Tape, reader_of, writer_of
from tests.ir.random_programs import MEMORY_LENGTH

Input: TypeAlias = "Datum | list[Datum]"  # a list is the memory behind a pointer


@dataclass
class Outcome:
    results: tuple[Datum, ...]
    memory: list[list[Datum]]
    bounds: list[tuple[int, int]]
    prints: list[tuple[str, tuple[Number, ...]]]


class Memory:
    """Elements of one type in real memory."""

    def __init__(self, element: t.Type, count: int, values: Sequence[Datum] = ()) -> None:
        self.element = element
        self.count = count
        self._size = layout_of(element).size
        self._block = ctypes.create_string_buffer(self._size * count + 64)
        self.address = -(-ctypes.addressof(self._block) // 64) * 64
        for i, value in enumerate(values):
            writer_of(element)(self.address + i * self._size, value)

    def values(self) -> list[Datum]:
        return [reader_of(self.element)(self.address + i * self._size) for i in range(self.count)]


def outcome(program: Program, name: str, inputs: Sequence[Input]) -> Outcome:
    """Run a function in the oracle."""
    memories, values = [], []
    for parameter, given in zip(program.functions[name].inputs, inputs, strict=True):
        if isinstance(given, list):
            assert isinstance(parameter.type, t.Pointer)
            memories.append(Memory(parameter.type.element, len(given), given))
            given = memories[-1].address
        values.append(given)
    reports = Recorded()
    results = evaluate(program, name, values, reports=reports)
    return Outcome(results, [m.values() for m in memories], reports.bounds, reports.prints)


def same(x: object, y: object) -> bool:
    """Equal bit for bit, but for what a NaN holds."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, Tape) and isinstance(y, Tape):
        return same(list(x.items().items()), list(y.items().items()))
    if isinstance(x, float) and isinstance(y, float):
        return (x != x and y != y) or (x == y and math.copysign(1, x) == math.copysign(1, y))
    return type(x) is type(y) and x == y


def assert_same(before: Outcome, after: Outcome) -> None:
    assert same(before.results, after.results), f"{before.results}\n{after.results}"
    assert same(before.memory, after.memory), f"{before.memory}\n{after.memory}"
    assert same(before.prints, after.prints), f"{before.prints}\n{after.prints}"


# --- kernels

KERNEL = "kernel"


def kernel_of(program: Program, name: str = "main") -> Program:
    """The program with a kernel that calls a function with element `thread_id.x` of a buffer for each input.

    The argument block holds the buffers of the inputs and then of the results. A pointer input gets
    MEMORY_LENGTH elements for each thread.
    """
    function = program.functions[name]
    types = [_buffer_element(p.type) for p in function.inputs] + list(function.result_types)
    fields = tuple((f"b{i}", t.pointer(type)) for i, type in enumerate(types))
    made = Program(dict(program.functions), program.differentials, t.struct("Arguments", fields))
    b = Builder()
    thread = b.emit("thread_id", type=t.U32, axis=0)
    addresses = []
    for field, pointer in fields:
        parameter = b.emit("parameter", type=t.pointer(pointer, "constant"), name=field)
        buffer = b.emit("load", parameter, type=pointer)
        addresses.append(b.emit("offset", buffer, thread))
    inputs = []
    for parameter, address in zip(function.inputs, addresses, strict=False):
        if isinstance(parameter.type, t.Pointer):
            inputs.append(b.emit("member", address, index=0))
        else:
            inputs.append(b.emit("load", address, type=parameter.type))
    results = b.call(name, inputs, function.result_types)
    for result, address in zip(results, addresses[len(inputs) :], strict=True):
        b.effect("store", address, result)
    attributes = {"kernel": True, "group_size": (64, 1, 1)}
    made.add(Function(KERNEL, (), None, Region((), b.ops, ()), attributes=attributes))
    return made


def _buffer_element(type: t.Type) -> t.Type:
    return t.array(type.element, MEMORY_LENGTH) if isinstance(type, t.Pointer) else type


class Launch:
    """The argument block of a kernel made by `kernel_of`, with the inputs of all threads."""

    def __init__(self, function: Function, inputs: Sequence[Sequence[Input]]) -> None:
        self.threads = len(inputs)
        self._inputs, self._pointers = [], []
        for i, parameter in enumerate(function.inputs):
            column = [tuple(each[i]) if isinstance(each[i], list) else each[i] for each in inputs]
            self._inputs.append(Memory(_buffer_element(parameter.type), self.threads, column))
            if isinstance(parameter.type, t.Pointer):
                self._pointers.append(self._inputs[-1])
        self._results = [Memory(type, self.threads) for type in function.result_types]
        addresses = [m.address for m in (*self._inputs, *self._results)]
        self._block = (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)
        self.address = ctypes.addressof(self._block)
        self.block = bytes(self._block)

    def outcome(self, reports: Recorded | None = None) -> Outcome:
        """What is in the buffers now."""
        reports = reports or Recorded()
        results = tuple(tuple(m.values()) for m in self._results)
        return Outcome(results, [m.values() for m in self._pointers], reports.bounds, reports.prints)


def kernel_outcome(program: Program, function: Function, inputs: Sequence[Sequence[Input]]) -> Outcome:
    """Run the kernel of a program that `kernel_of` made in the oracle, one thread for each input."""
    launch, reports = Launch(function, inputs), Recorded()
    run_kernel(program, KERNEL, KernelLaunch(launch.address, (launch.threads, 1, 1)), reports)
    return launch.outcome(reports)
