"""Random programs: they print and parse, run alone and as kernels, and use what their style allows."""

import pytest

from slangrad.ir.data import types as t
from slangrad.ir.ops.core import walk
from slangrad.ir.ops.primitives import INEXACT
from slangrad.ir.text.printer import print_program
from tests.ir.outcomes import assert_same, kernel_of, kernel_outcome, outcome, same
from tests.ir.parse_text import parse_program
from tests.ir.random_programs import EXACT, FLAT, SMOOTH, Style, random_inputs, random_program

STYLES = {"exact": EXACT, "smooth": SMOOTH, "flat": FLAT, "all": Style(memory=True, prints=True, checks=True)}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
@pytest.mark.parametrize("seed", range(10))
def test_text_round_trip_keeps_the_outcome(seed, style):
    program = random_program(seed, style)
    text = print_program(program)
    parsed = parse_program(text)
    assert print_program(parsed) == text
    inputs = random_inputs(program.functions["main"], seed)
    assert_same(outcome(program, "main", inputs), outcome(parsed, "main", inputs))


def test_equal_seeds_give_equal_programs():
    assert print_program(random_program(3)) == print_program(random_program(3))
    assert print_program(random_program(3)) != print_program(random_program(4))


@pytest.mark.parametrize("seed", range(5))
def test_kernels_do_what_the_function_does(seed):
    program = random_program(seed, STYLES["all"])
    main = program.functions["main"]
    inputs = [random_inputs(main, i) for i in range(4)]
    launched = kernel_outcome(kernel_of(program), main, inputs)
    alone = [outcome(program, "main", each) for each in inputs]
    assert same(launched.results, list(zip(*(each.results for each in alone), strict=True)))
    assert same(launched.memory, list(zip(*(each.memory for each in alone), strict=True)))


def test_together_they_use_everything():
    style = Style(memory=True, prints=True, checks=True, maths=True)
    mains = [random_program(seed, style).functions["main"] for seed in range(80)]
    used = {op.name for main in mains for op in walk(main.region)}
    assert used >= {"if", "for", "while", "call", "index", "set_index", "add_index", "get", "set", "make"}
    assert used >= {"convert", "load", "store", "atomic", "print", "zero", "splat", "shl", "select"}
    assert used & INEXACT


def test_a_flat_style_has_scalars_only():
    for seed in range(10):
        for op in walk(random_program(seed, FLAT).functions["main"].region):
            assert all(isinstance(v.type, t.Scalar) for v in op.results)
