"""Flattening keeps what kernels do, on random programs; bits are compared."""

from dataclasses import replace

import pytest

from slangrad.flatten.aggregates import flatten_aggregates
from slangrad.flatten.arrays import flatten_arrays
from slangrad.flatten.small_arrays import split_small_arrays
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Program
from slangrad.ir.text.verify import DIFFERENTIATED, FLAT, LegalIR, verify
from slangrad.opt.calls.inline import inline
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.forwarding import forward_loads
from tests.ir.outcomes import KERNEL, assert_same, kernel_of, kernel_outcome
from tests.ir.random_programs import MOVING, Style, random_inputs, random_program

ARRAYS = LegalIR("aggregates", DIFFERENTIATED.ops, (t.Scalar, t.Pointer, t.Array))
STYLES = {
    "vectors": Style(arrays=False, tapes=False, structs=False),
    "structs": Style(arrays=False, tapes=False),
    "arrays": Style(tapes=False, vectors=False, structs=False),
    "nested": Style(tapes=False),
    "tapes": Style(size=30),
    "all": Style(size=40, depth=4, memory=True, prints=True),
    "checks": Style(checks=True),
}
LARGE = {  # many versions of few types; too large to be compiled in a test
    "moving": MOVING,
    "few types": replace(MOVING, vectors=False, structs=False, pool=2),
}


def random_kernel(seed, style):
    program = random_program(seed, style)
    inlined = inline(kernel_of(program), everything=True)
    return program.functions["main"], with_kernel(inlined, inlined.functions[KERNEL])


def with_kernel(program, kernel):
    return Program({KERNEL: kernel}, program.differentials, program.arguments)


def check(main, program, changed, seed):
    inputs = [random_inputs(main, 100 * seed + i) for i in range(3)]
    before, after = kernel_outcome(program, main, inputs), kernel_outcome(changed, main, inputs)
    assert_same(before, after)
    assert before.bounds == after.bounds


def split(kernel):
    return split_small_arrays(remove_dead(flatten_aggregates(kernel)))


def arrays(kernel):
    return flatten_arrays(flatten_aggregates(kernel))


def everything(kernel):
    return remove_dead(forward_loads(flatten_arrays(split(kernel))))


PASSES = {
    "aggregates": (flatten_aggregates, ARRAYS),
    "small arrays": (split, ARRAYS),
    "arrays": (arrays, FLAT),
    "everything": (everything, FLAT),
}


@pytest.mark.parametrize("style", (STYLES | LARGE).values(), ids=(STYLES | LARGE).keys())
@pytest.mark.parametrize(("change", "stage"), PASSES.values(), ids=PASSES.keys())
@pytest.mark.parametrize("seed", range(15))
def test_passes_keep_outcomes(seed, change, stage, style):
    main, program = random_kernel(seed, style)
    changed = with_kernel(program, change(program.functions[KERNEL]))
    verify(changed, stage)
    check(main, program, changed, seed)
