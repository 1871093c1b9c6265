"""What is read from a kernel before it is launched, and from its loops: places, order, counted variables."""

import pytest

from slangrad.ir.ops.core import walk
from slangrad.opt.analyses.counted_loops import counted_variables
from slangrad.opt.analyses.kernel_facts import follows_memory, is_ordered, read_places, used_arguments
from tests.ir.parse_text import parse_program

PROGRAM = """
struct "Pair" {{ a: f32, b: i32 }}
struct "Arguments" {{ n: i32, s: struct "Pair", x: [4 x i32], g: ptr<f32, global>, h: ptr<i32, global> }}
arguments struct "Arguments"
func @kernel(%g: ptr<f32, global>, %h: ptr<i32, global>, %l: ptr<f32, shared>, %i: i32, %v: f32) -> () {{
  {body}
  yield
}}
"""
N = '%n_at = parameter {name="n"} : ptr<i32, constant>  '
S = '%s = parameter {name="s"} : ptr<struct "Pair", constant>  %b = member %s {index=1}  '
X = '%x = parameter {name="x"} : ptr<[4 x i32], constant>  %first = bitcast %x : ptr<i32, constant>  %two = const 2 : i32  '

# fmt: off
PLACES = {
    "nothing":                      ("",                                                                  {}),
    "a number":                     (N + "%n = load %n_at : i32",                                         {"n": (0,)}),
    "a member":                     (S + "%y = load %b : i32",                                            {"s": (4,)}),
    "a member and all":             (S + '%y = load %b : i32  %z = load %s : struct "Pair"',              {"s": (0, 4)}),
    "a known element":              (X + "%p = offset %first, %two  %y = load %p : i32",                  {"x": (8,)}),
    "any element":                  (X + "%p = offset %first, %i  %y = load %p : i32",                    {"x": None}),
    "an address that goes elsewhere": (
        N + X + "%c = less %i, %two  %p = select %c, %first, %n_at  %y = load %p : i32",                  {"n": None, "x": None}),
    "in a loop":                    (N + "for %i (%k: i32) { %n = load %n_at : i32 yield }",              {"n": (0,)}),
}
ORDERED = {
    "stores":                           ("store %g, %v",                                                      False),
    "a print":                          ('print %v {format=""}',                                              True),
    "adds of floats":                   ('%o = atomic %g, %v {kind="add"} : f32',                             True),
    "adds of integers":                 ('%o = atomic %h, %i {kind="add"} : i32',                             False),
    "the largest":                      ('%o = atomic %g, %v {kind="max"} : f32',                             False),
    "what an add gives is used":        ('%o = atomic %h, %i {kind="add"} : i32  store %h, %o',               True),
    "exchanges":                        ('%o = atomic %h, %i {kind="exchange"} : i32',                        True),
    "adds of floats, memory of a group": ('%o = atomic %l, %v {kind="add"} : f32',                            False),
    "in a loop in an arm":              (
        '%c = less %i, %i  if %c { for %i (%k: i32) { %o = atomic %g, %v {kind="add"} : f32 yield } yield } { yield }', True),
}
COUNT = """
  %zero = const 0 : i32  %one = const 1 : i32  %four = const 4 : i32  %n = mul %i, %i
  %some = less %i, %n  %distance = sub %n, %i
"""
BY_ONE = COUNT + "%count = select %some, %distance, %zero  "
BY_FOUR = COUNT + "%d = sub %distance, %one  %q = div %d, %four  %m = add %q, %one  %count = select %some, %m, %zero  "
COUNTED = {
    "by one":                       (BY_ONE + "for %count (%k: i32) { %j = add %i, %k  store %h, %j yield }",          {"j": ("i", "n")}),
    "by four":                      (BY_FOUR + "for %count (%k: i32) { %s = mul %k, %four  %j = add %i, %s  store %h, %j yield }",
                                                                                                                       {"j": ("i", "n")}),
    "by another number":            (BY_FOUR + "for %count (%k: i32) { %s = mul %k, %i  %j = add %i, %s  store %h, %j yield }", {}),
    "by more than the loop counts": (BY_ONE + "for %count (%k: i32) { %s = mul %k, %four  %j = add %i, %s  store %h, %j yield }", {}),
    "from elsewhere":               (BY_ONE + "for %count (%k: i32) { %j = add %n, %k  store %h, %j yield }",          {}),
    "of another distance":          (BY_ONE.replace("sub %n, %i", "sub %n, %one") + "for %count (%k: i32) { %j = add %i, %k  store %h, %j yield }",
                                                                                                                       {}),
    "asked the other way":          (BY_ONE.replace("less %i, %n", "less %n, %i") + "for %count (%k: i32) { %j = add %i, %k  store %h, %j yield }",
                                                                                                                       {}),
    "a count as it is":             (COUNT + "for %n (%k: i32) { %j = add %i, %k  store %h, %j yield }",               {}),
}
# fmt: on


def program_of(body: str):
    return parse_program(PROGRAM.format(body=body))


@pytest.mark.parametrize("body, places", PLACES.values(), ids=PLACES)
def test_places_of_arguments(body, places):
    program = program_of(body)
    assert read_places(program) == places
    assert used_arguments(program) == places.keys()


@pytest.mark.parametrize("body, ordered", ORDERED.values(), ids=ORDERED)
def test_order_of_chunks(body, ordered):
    assert is_ordered(program_of(body)) == ordered


def test_kernels_that_ask_which_memory_there_is():
    assert follows_memory(program_of("%known = is_memory %g {bytes=4}"))
    assert not follows_memory(program_of("store %g, %v"))


@pytest.mark.parametrize("body, wanted", COUNTED.values(), ids=COUNTED)
def test_counted_variables(body, wanted):
    kernel = program_of(body).functions["kernel"]
    (loop,) = (op for op in walk(kernel.region) if op.name == "for")
    found = counted_variables(loop, kernel.region.makers.get)
    assert {value.hint: (start.hint, bound.hint) for value, start, bound in found} == wanted
