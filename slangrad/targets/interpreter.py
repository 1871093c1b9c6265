"""The interpreter as a target: flat IR is run as it is, by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.base.traits import INTERPRETER
from slangrad.ir.core import Op
from slangrad.ir.interpret import run_kernel
from slangrad.ir.layout import layout_of
from slangrad.ir.numbers import Number
from slangrad.opt.kernel_facts import follows_memory, ops_of
from slangrad.runtime.device import Grid, PythonKernel
from slangrad.runtime.known_memory import KnownMemory
from slangrad.runtime.reports import BOUNDS, Reports
from slangrad.targets.reports import site_of
from slangrad.targets.target import Product, Target
from slangrad.unit import FlatKernel


def interpreted(kernel: FlatKernel) -> Product:
    """A Python function that interprets the kernel for all threads of a launch."""
    program, name = kernel.program, kernel.name
    ops = [op for op in ops_of(program) if op.name in ("in_bounds", "print")]
    numbers = {op: i for i, op in enumerate(ops)}

    def run(arguments: int, grid: Grid, reports: Reports) -> None:
        is_memory = KnownMemory().holds if follows_memory(program) else None
        run_kernel(program, name, arguments, grid, OracleReports(numbers, reports), is_memory)

    size = layout_of(kernel.arguments).size
    return Product(PythonKernel(name=name, argument_size=size, sites=tuple(map(site_of, ops)), function=run))


@dataclass(frozen=True, slots=True)
class OracleReports:
    """The interpreter's reports, which name ops, as reports of a launch, which name sites."""

    numbers: dict[Op, int]
    launch: Reports

    def out_of_bounds(self, op: Op, index: int, extent: int) -> None:
        self.launch.fail(BOUNDS, self.numbers[op], index, extent)

    def print(self, op: Op, values: Sequence[Number]) -> None:
        self.launch.print(self.numbers[op], values)


TARGET = Target(INTERPRETER, (), interpreted)
