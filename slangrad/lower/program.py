"""Programs: a kernel, or functions, with everything that they call.

In: a checked program and the names of functions.   Out: IR without type parameters, exits and recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from slangrad.base.compiling import compiling
from slangrad.base.diagnostics import CompileError, Reporter
from slangrad.base.options import Options
from slangrad.check.conforming import Conformance
from slangrad.check.model.declref import DeclRef
from slangrad.check.modules import CheckedProgram
from slangrad.ir.ops import core
from slangrad.lower.instances import kernels
from slangrad.lower.instances.instances import Instances
from slangrad.lower.instances.wave_sizes import begin_quads, note_wave_size
from slangrad.lower.model.alternatives import Alternatives
from slangrad.syntax import ast

AnyResult = TypeVar("AnyResult")


def lower_program(
    program: CheckedProgram,
    kernel: DeclRef,
    options: Options,
    conformances: tuple[Conformance, ...] = (),
) -> tuple[core.Program, str, dict[ast.Declaration, str]]:
    """A kernel with everything it calls, its name, and the names of its arguments. CompileError for code without an
    IR form.
    """
    program.look_from(kernel.declaration)
    alternatives = Alternatives(program, kernel.declaration, conformances)
    return _lowered(program, alternatives, options, partial(_lower_kernel, kernel))


def _lower_kernel(
    kernel: DeclRef, lowering: Instances
) -> tuple[core.Program, str, dict[ast.Declaration, str]]:
    entry = kernels.lower_kernel(lowering, kernel)
    lowered = lowering.finish()
    begin_quads(lowering.reporter, lowered, entry, kernel.declaration)
    lowering.reporter.raise_if_errors()
    note_wave_size(lowered, entry)
    if lowering.is_precise:
        entry.attributes["precise"] = True
    lowered.add(entry)
    lowered.arguments = lowering.parameters.block()
    return lowered, entry.name, lowering.parameters.names


def lower_functions(
    program: CheckedProgram, references: list[DeclRef], options: Options
) -> tuple[core.Program, list[str]]:
    """Functions with everything they call, and their names, without a kernel around them."""
    alternatives = Alternatives(program, references[0].declaration, ())
    return _lowered(program, alternatives, options, partial(_lower_all, references))


def _lower_all(references: list[DeclRef], lowering: Instances) -> tuple[core.Program, list[str]]:
    names = [lowering.function(reference).name for reference in references]
    lowered = lowering.finish()
    lowering.reporter.raise_if_errors()
    return lowered, names


def _lowered(
    program: CheckedProgram,
    alternatives: Alternatives,
    options: Options,
    lower: Callable[[Instances], AnyResult],
) -> AnyResult:
    """Lowering begins again until no new type of an interface value is found."""
    while True:
        alternatives.begin()
        try:
            with compiling():
                result = lower(Instances(program, options, Reporter(), alternatives))
        except CompileError:
            if not alternatives.grew:
                raise
        if not alternatives.grew:
            return result
