"""Each pass keeps what a program does, on random programs; bits are compared."""

from dataclasses import replace

import pytest

from slangrad.ir.text.verify import DIFFERENTIATED, verify
from slangrad.opt.calls.inline import inline
from slangrad.opt.simplify.branches import simplify_branches
from slangrad.opt.simplify.dead import remove_dead
from slangrad.opt.simplify.forwarding import forward_loads
from slangrad.opt.simplify.hoist import hoist
from slangrad.opt.simplify.unroll import unroll
from tests.ir.outcomes import assert_same, outcome
from tests.ir.random_programs import FLAT, Style, random_inputs, random_program

FUNCTION_PASSES = {
    "dead": remove_dead,
    "branches": simplify_branches,
    "hoist": hoist,
    "unroll": unroll,
    "forwarding": forward_loads,
    "all": lambda f: remove_dead(forward_loads(unroll(hoist(simplify_branches(f))))),
}
STYLES = {
    "values": Style(),
    "memory": Style(memory=True, prints=True),
    "scalars": replace(FLAT, size=40),
    "nested": Style(size=40, depth=4, vectors=False),
}


def on_functions(program, change):
    return replace(program, functions={name: change(f) for name, f in program.functions.items()})


def check(program, changed, seed):
    verify(changed, DIFFERENTIATED)
    for i in range(3):
        inputs = random_inputs(program.functions["main"], 100 * seed + i)
        assert_same(outcome(program, "main", inputs), outcome(changed, "main", inputs))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
@pytest.mark.parametrize("change", FUNCTION_PASSES.values(), ids=FUNCTION_PASSES.keys())
@pytest.mark.parametrize("seed", range(15))
def test_passes_keep_outcomes(seed, change, style):
    program = random_program(seed, style)
    check(program, on_functions(program, change), seed)


@pytest.mark.parametrize("seed", range(15))
def test_inlining_keeps_outcomes(seed):
    program = random_program(seed, Style(memory=True, helpers=4))
    check(program, inline(program), seed)
