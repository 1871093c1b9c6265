"""Stages without a target: from a text to what all targets begin with, checked after each stage.

flat_program(text)              the kernel `kernel` of the text, flat
flat_kernel_of(text, CUDA)      the same with what a target gets besides
through(COMMON[2:], unit)       what is left of the way, from the lowered kernel on
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slangrad.base.compiling import compiling
from slangrad.base.options import Options
from slangrad.base.source import SourceFile
from slangrad.base.traits import CPU, Traits
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops.core import Program
from slangrad.ir.text import verify
from slangrad.pipeline import COMMON, flat_kernel
from slangrad.stages import Stage
from slangrad.unit import CompileRequest, FlatKernel


def through(stages: Sequence[Stage], value: Any) -> Any:
    """What the stages make of a value."""
    with compiling():
        for stage in stages:
            value = stage.run(value)
            if stage.legal is not None:
                verify.verify(value.program, stage.legal, value.in_ir)
    return value


def flat_program(text: str) -> Program:
    """What machine code is made of, without fused operations."""
    return flat_kernel_of(text).program


def flat_kernel_of(text: str, traits: Traits = CPU, **settings: Any) -> FlatKernel:
    """The kernel `kernel` of the text as targets get it. `settings` are options."""
    options = Options(contraction=False, **settings)
    request = CompileRequest(CheckedProgram(options), SourceFile("text", text), "kernel", options, traits)
    return flat_kernel(through(COMMON, request))
