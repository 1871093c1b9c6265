"""Random flat programs: machine code of several widths does what the oracle does, bit for bit."""

from dataclasses import replace

import pytest

from slangrad.base.options import Options
from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.core import Function, Program
from slangrad.ir.oracle.interpret import Recorded
from slangrad.pipeline import FLATTENING
from slangrad.runtime.cpu import CpuDevice
from slangrad.runtime.reports import BoundsError
from slangrad.stages import PassContext
from tests.flatten.test_random import STYLES, random_kernel, with_kernel
from tests.ir.outcomes import KERNEL, Launch, assert_same, kernel_of, kernel_outcome
from tests.ir.random_programs import FLAT, Style, random_inputs, random_program
from tests.llvm.machine import ALL_FEATURES, compile_kernel, options_for

MEMORY = replace(FLAT, memory=True, size=35)
THREADS = 21


def inlined(program: Program) -> Program:
    """The kernel with the call of "main" replaced by its body, and without what ends before flattening."""
    main = program.functions["main"]

    def inline_main(walk, b, op):  # type: ignore[no-untyped-def]
        walk.new.update(zip(main.region.parameters, walk.values(op.operands), strict=True))
        return walk.inline(b, main.region)

    rules = {"call": inline_main, "detach": lambda walk, b, op: walk.values(op.operands)}
    kernel = Rebuild(rules).function(program.functions[KERNEL])
    return Program({KERNEL: kernel}, {}, program.arguments)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("style", [FLAT, MEMORY], ids=["flat", "memory"])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int, style: Style) -> None:
    program = random_program(seed, style)
    main: Function = program.functions["main"]
    kernel = kernel_of(program)
    inputs = [random_inputs(main, 1000 * seed + i) for i in range(THREADS)]
    expected = kernel_outcome(kernel, main, inputs)
    flat = inlined(kernel)
    for cpu, lanes in (("", 1), ("", 8), ("", 16), (ALL_FEATURES, 8)):
        launch = Launch(main, inputs)
        compiled = compile_kernel(flat, options_for(cpu, lanes))
        CpuDevice(Options(threads=1)).launch(compiled.kernel, launch.block, (launch.threads, 1, 1))
        assert_same(expected, launch.outcome(Recorded()))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
@pytest.mark.parametrize("seed", range(5))
def test_programs_that_were_flattened(seed: int, style: Style) -> None:
    """Local arrays, tapes and index reports, as flattening makes them."""
    main, program = random_kernel(seed, style)
    inputs = [random_inputs(main, 1000 * seed + i) for i in range(THREADS)]
    expected = kernel_outcome(program, main, inputs)
    flat = with_kernel(program, FLATTENING.over(program.functions[KERNEL], PassContext(Options())))
    for cpu, lanes in (("", 1), ("", 16), (ALL_FEATURES, 8)):
        launch = Launch(main, inputs)
        compiled = compile_kernel(flat, options_for(cpu, lanes))
        try:
            CpuDevice(Options(threads=1)).launch(compiled.kernel, launch.block, (launch.threads, 1, 1))
        except BoundsError:
            assert expected.bounds
        else:
            assert not expected.bounds
        found = launch.outcome(Recorded())
        found.prints = expected.prints
        assert_same(expected, found)
