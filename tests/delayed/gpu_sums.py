"""The forms of sums on a GPU as IR, run by the oracle beside the kernel as it was written.

outcome = run_sums(TEXT, {"x": array, "n": 5}, (1000, 1, 1))
outcome.arrays["x"]       the array afterwards
outcome.reports           what the kernel reported
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slangrad.base.traits import CUDA
from slangrad.ir.oracle.interpret import KernelLaunch, Recorded, run_kernel
from slangrad.ir.text import verify
from slangrad.runtime.cuda.launch import blocks_that_stay
from slangrad.targets import cuda
from tests.flat import flat_kernel_of
from tests.llvm.machine import argument_block, assert_equal_arrays, oracle

BLOCKS = 3  # of a GPU; more threads of the program wait for their turn
HEAD = '[shader("compute")] [numthreads(32, 1, 1)] void kernel(uint3 id : SV_DispatchThreadID, '


@dataclass
class Outcome:
    arrays: dict[str, np.ndarray]
    reports: Recorded


def summed(text, **settings) -> cuda.GpuSummed:
    """The kernel `kernel` of a text behind the stage that finds sums."""
    found = cuda.find_sums(flat_kernel_of(text, CUDA, **settings))
    verify.verify(found.program, verify.DELAYED)
    return found


def run_sums(text, arguments, grid, blocks=BLOCKS, **settings) -> Outcome:
    kernel = summed(text, **settings)
    assert kernel.sums is not None, "no add becomes a sum"
    return run(kernel, arguments, grid, blocks)


def run(kernel, arguments, grid, blocks=BLOCKS) -> Outcome:
    sums, program = kernel.sums, kernel.program
    data, arrays = argument_block(program, arguments)
    address, reports = np.frombuffer(data, np.uint8).ctypes.data, Recorded()
    (count, _, _), (threads, _, _) = blocks_that_stay(grid, sums.kernel.attributes["group_size"], blocks)
    partials = np.full(count * sums.row, 0xFF, np.uint8)
    numbers = dict(zip(("nx", "ny", "nz"), grid), partials=partials.ctypes.data, rows=count)
    launches = [(sums.kernel, count * threads)]
    if sums.finish is not None:
        launches.append((sums.finish, sums.count * 32))
    for function, size in launches:
        launch = KernelLaunch(address, (size, 1, 1), numbers=numbers)
        run_kernel(program, function.name, launch, reports)
    return Outcome(arrays, reports)


def assert_sums_like_oracle(text, arguments, grid, blocks=BLOCKS, **settings) -> None:
    """Bit for bit: the numbers of the arguments must have exact sums."""
    grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
    expected, reports = oracle(flat_kernel_of(text, CUDA, **settings).program, arguments, grid)
    found = run_sums(text, arguments, grid, blocks, **settings)
    assert_equal_arrays(expected.arrays, found.arrays, f"sums of {grid}")
    assert sorted(found.reports.bounds) == sorted(reports.bounds)
