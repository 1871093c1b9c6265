"""The interpreter as a target: the oracle runs flat IR directly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slangrad.backends import BACKENDS
from slangrad.ir.data.layout import layout_of
from slangrad.ir.data.numbers import Number
from slangrad.ir.ops.core import Op
from slangrad.ir.oracle.interpret import KernelLaunch, run_kernel
from slangrad.opt.analyses.kernel_facts import follows_memory
from slangrad.runtime.device import Grid, PythonKernel
from slangrad.runtime.memory import KnownMemory
from slangrad.runtime.reports import BOUNDS, LaunchReports
from slangrad.targets.target import BuiltKernel, Target
from slangrad.unit import FlatKernel


def interpreted(kernel: FlatKernel) -> BuiltKernel:
    """A Python function that interprets the kernel for all threads of a launch."""
    program, name = kernel.program, kernel.name

    def run(arguments: int, grid: Grid, reports: LaunchReports) -> None:
        is_memory = KnownMemory().holds if follows_memory(program) else None
        run_kernel(program, name, KernelLaunch(arguments, grid, is_memory), OracleReports(reports))

    size = layout_of(kernel.arguments).size
    return BuiltKernel(PythonKernel(name=name, argument_size=size, sites=kernel.sites, function=run))


@dataclass(frozen=True, slots=True)
class OracleReports:
    """The interpreter's reports, which name ops, as reports of a launch, which name sites."""

    launch: LaunchReports

    def out_of_bounds(self, op: Op, index: int, extent: int) -> None:
        self.launch.fail(BOUNDS, op.attributes["site"], index, extent)

    def print(self, op: Op, values: Sequence[Number]) -> None:
        self.launch.print(op.attributes["site"], values)


TARGET = Target(BACKENDS["interpreter"], (), interpreted)
