"""Kernels in Slang, launched with arrays and numbers, next to the oracle.

    outcome = run(TEXT, {"x": array, "n": 5}, threads=100, lanes=8, workers=2)
    outcome.arrays["x"]     the array afterwards
    outcome.waited          whether the adds waited for the end of the launch
    outcome.batches            and in how many batches of chunks, each with its partial sums

Arrays that are given under the same object are one array; a view stays a view of its base.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import pack_into

import numpy as np

from slangrad.base.options import AUTO, Options
from slangrad.base.source import SourceFile
from slangrad.check.modules import CheckedProgram
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.types import Pointer, Scalar, Struct
from slangrad.pipeline import CompiledKernel, compile_kernel
from slangrad.runtime.cpu import CpuDevice

LANES = (1, 4, 8, 16, 32)
CODES = {"u32": "I", "i32": "i", "f32": "f", "u64": "Q"}


@dataclass
class Outcome:
    arrays: dict[str, np.ndarray]
    waited: bool = False
    batches: int = 0


class WatchedDevice(CpuDevice):
    """Remembers whether a kernel's adds waited."""

    waited, batches = False, 0

    def _size_of_partials(self, kernel, arguments, record):
        size = super()._size_of_partials(kernel, arguments, record)
        self.waited = self.waited or size > 0
        if size > 0:
            self.batches = -(-record.launch.chunks // record.launch.batch)
        return size


@cache
def compiled(
    text: str, target: str = "cpu", lanes: int = 0, contraction: bool = False, calls: str = AUTO
) -> CompiledKernel:
    options = Options(lanes=lanes, contraction=contraction, calls=calls, verify=True)
    return compile_kernel(CheckedProgram(options, []), SourceFile("kernel", text), "main", options, target)


def may_wait(text: str) -> bool:
    """Is there code for adds that wait?"""
    return not compiled(text).text("delayed").startswith("// no float add")


def run(text, arguments, threads, lanes=0, workers=2, target="cpu", calls=AUTO) -> Outcome:
    kernel = compiled(text, target, lanes, calls=calls)
    copies = _copies(arguments)
    block = argument_block(kernel.arguments, copies)
    device = WatchedDevice(Options(threads=workers))
    device.launch(kernel.kernel, block, threads if isinstance(threads, tuple) else (threads, 1, 1))
    return Outcome(
        {k: v for k, v in copies.items() if isinstance(v, np.ndarray)}, device.waited, device.batches
    )


def oracle(text, arguments, threads) -> Outcome:
    return run(text, arguments, threads, target="interpreter")


def _copies(arguments):
    """Copies that share memory where the originals do."""
    bases = {}
    found = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            base = value if value.base is None else value.base
            copy = bases.setdefault(id(base), base.copy())
            start = value.ctypes.data - base.ctypes.data
            found[name] = copy.reshape(-1).view(np.uint8)[start : start + value.nbytes].view(value.dtype)
        else:
            found[name] = value
    return found


def argument_block(arguments: Struct, values) -> bytearray:
    data = bytearray(layout_of(arguments).size)
    for (name, kind), offset in zip(arguments.fields, layout_of(arguments).offsets, strict=True):
        value = values[name]
        if isinstance(kind, Pointer):
            pack_into("Q", data, offset, value if isinstance(value, int) else value.ctypes.data)
        elif isinstance(kind, Struct):  # a buffer: address and extent
            pack_into("QI", data, offset, value.ctypes.data, value.size)
        else:
            assert isinstance(kind, Scalar)
            pack_into(CODES[kind.name], data, offset, value)
    return data
