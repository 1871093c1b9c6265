"""Kernels as machine code, next to the oracle: both run on copies of the same buffers.

    outcome = run(program, {"x": numpy_array, "n": 5}, threads=100, lanes=8, cpu="x86-64-v3")
    assert_like_oracle(program, arguments, threads=100)        at several numbers of lanes

An argument is an array (the kernel gets its address) or a number of the parameter's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from struct import pack_into

import numpy as np
import numpy.typing as npt

from slangrad.base.options import Options
from slangrad.ir.data import types as t
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.numbers import numpy_dtype
from slangrad.ir.ops.core import Function, Program
from slangrad.ir.oracle.interpret import KernelLaunch, Recorded, run_kernel
from slangrad.ir.text.verify import LANES as LANES_STAGE
from slangrad.ir.text.verify import verify_function
from slangrad.llvm.cpu import LaneKernel, LlvmModule, kernel_module
from slangrad.llvm.machine import native
from slangrad.llvm.machine.target import Features, TargetMachine
from slangrad.runtime.cpu import CpuDevice, NativeKernel
from slangrad.runtime.reports import BoundsError, Site
from slangrad.sites import number_sites
from slangrad.spmd.groups import run_in_groups
from slangrad.spmd.widen import widen

Array = npt.NDArray[np.generic]
Argument = Array | int | float | bool
Arguments = Mapping[str, Argument]

LANES = (1, 4, 8, 16, 32)
KERNEL = "kernel"


@dataclass
class Outcome:
    """Arrays as the kernel left them; the first index error; printed text."""

    arrays: dict[str, Array]
    bounds: tuple[int, int] | None = None
    prints: str = ""


@dataclass
class Compiled:
    kernel: NativeKernel
    sites: tuple[Site, ...]
    text: str = field(repr=False)


def options_for(cpu: str = "", lanes: int = 16, contraction: bool = False) -> Options:
    return Options(cpu=cpu, lanes=lanes, contraction=contraction)


ALL_FEATURES = "all features"  # a cpu: text as for machines with mask registers, code for this one


@cache
def target_for(cpu: str) -> TargetMachine:
    if cpu == ALL_FEATURES:
        return replace(target_for(""), features=Features(True, target_for("").features.fma, True, True, True))
    return native.target_of(Options(cpu=cpu))


def module_for(
    program: Program, options: Options, masked_only: bool = False, exclusive: bool = False
) -> LlvmModule:
    (kernel,), _ = number_sites([program.functions[KERNEL]])
    wide = widen(kernel, options.lanes, exclusive)
    for function in (wide.full, wide.masked):
        if function is not None:
            verify_function(function, program, LANES_STAGE)
    full = None if masked_only and wide.masked is not None else wide.full
    widened = LaneKernel(full, wide.masked, wide.lanes, program.arguments)
    return kernel_module(widened, target_for(options.cpu), options)


def compile_kernel(
    program: Program, options: Options, masked_only: bool = False, exclusive: bool = False
) -> Compiled:
    module = module_for(program, options, masked_only, exclusive)
    addresses, code = native.load(
        native.object_code(module.text, target_for(options.cpu)), ("entry", "drain")
    )
    _, sites = number_sites([program.functions[KERNEL]])
    size = 0 if program.arguments is None else layout_of(program.arguments).size
    kernel = NativeKernel(
        name=KERNEL,
        argument_size=size,
        sites=sites,
        entry=addresses["entry"],
        drain=addresses["drain"],
        ordered=exclusive,
        code=code,
    )
    return Compiled(kernel, sites, module.text)


def argument_block(program: Program, arguments: Arguments) -> tuple[bytearray, dict[str, Array]]:
    """The block, and copies of the arrays that it points to."""
    block = program.arguments
    assert block is not None
    layout, arrays = layout_of(block), {}
    data = bytearray(layout.size)
    for (name, type_), offset in zip(block.fields, layout.offsets, strict=True):
        given = arguments[name]
        if isinstance(given, np.ndarray):
            arrays[name] = given.copy()
            pack_into("Q", data, offset, arrays[name].ctypes.data)
        else:
            assert isinstance(type_, t.Scalar)
            raw = np.asarray(given, numpy_dtype(type_)).tobytes()
            data[offset : offset + len(raw)] = raw
    return data, arrays


def run(
    compiled: Compiled, program: Program, arguments: Arguments, grid: tuple[int, int, int], threads: int = 2
) -> Outcome:
    data, arrays = argument_block(program, arguments)
    outcome = Outcome(arrays)
    try:
        CpuDevice(Options(threads=threads)).launch(compiled.kernel, data, grid)
    except BoundsError as error:
        outcome.bounds = (error.index, error.extent)
    return outcome


def oracle(program: Program, arguments: Arguments, grid: tuple[int, int, int]) -> tuple[Outcome, Recorded]:
    data, arrays = argument_block(program, arguments)
    reports = Recorded()
    address = np.frombuffer(data, np.uint8)
    run_kernel(program, KERNEL, KernelLaunch(address.ctypes.data, grid), reports)
    return Outcome(arrays, reports.bounds[0] if reports.bounds else None), reports


def assert_equal_arrays(expected: Mapping[str, Array], found: Mapping[str, Array], what: str) -> None:
    """Bit for bit; any NaN is like any other."""
    for name, array in expected.items():
        same = array.view(f"u{array.itemsize}") == found[name].view(f"u{array.itemsize}")
        if array.dtype.kind == "f":
            same |= np.isnan(array) & np.isnan(found[name])
        if not same.all():
            at = int(np.argmin(same))
            raise AssertionError(f"{what}: {name}[{at}] is {found[name][at]!r}, not {array[at]!r}")


def assert_like_oracle(
    program: Program,
    arguments: Arguments,
    grid: int | tuple[int, int, int],
    lanes: tuple[int, ...] = LANES,
    cpus: tuple[str, ...] = ("",),
    exclusive: bool = False,
) -> None:
    grid = (grid, 1, 1) if isinstance(grid, int) else grid
    expected, _ = oracle(program, arguments, grid)
    for cpu in cpus:
        for count in lanes:
            for masked_only in (False, True) if count > 1 else (False,):
                compiled = compile_kernel(program, options_for(cpu, count), masked_only, exclusive)
                found = run(compiled, program, arguments, grid)
                what = f"{count} lanes, {cpu or 'this machine'}{', masked' if masked_only else ''}"
                assert_equal_arrays(expected.arrays, found.arrays, what)
                assert found.bounds == expected.bounds or (found.bounds and expected.bounds), what


def compile_group(program: Program, options: Options) -> Compiled:
    """A kernel whose threads run together in groups."""
    (function,), sites = number_sites([program.functions[KERNEL]])
    wide = widen(run_in_groups(function, options.lanes, {}), options.lanes, entire=True)
    assert wide.full is not None
    verify_function(wide.full, program, LANES_STAGE)
    size = function.attributes["group_size"]
    kernel = LaneKernel(wide.full, None, wide.lanes, program.arguments, group=size)
    module = kernel_module(kernel, target_for(options.cpu), options)
    addresses, code = native.load(
        native.object_code(module.text, target_for(options.cpu)), ("entry", "drain")
    )
    assert program.arguments is not None
    made = NativeKernel(
        name=KERNEL,
        argument_size=layout_of(program.arguments).size,
        sites=sites,
        entry=addresses["entry"],
        drain=addresses["drain"],
        granularity=1,
        group=size,
        code=code,
    )
    return Compiled(made, sites, module.text)


def assert_group_like_oracle(program: Program, arguments: Arguments, grid: tuple[int, int, int]) -> None:
    expected, _ = oracle(program, arguments, grid)
    wave = program.functions[KERNEL].wave
    for count in (wave,) if wave else LANES:
        found = run(compile_group(program, options_for("", count)), program, arguments, grid)
        assert_equal_arrays(expected.arrays, found.arrays, f"{count} lanes")
        assert found.bounds == expected.bounds or (found.bounds and expected.bounds), count


def kernel_function(program: Program) -> Function:
    return program.functions[KERNEL]
