"""Which accesses the library vouches for: its own, through its own pointers."""

import pytest

from slangrad.ir.ops.core import walk
from slangrad.opt.analyses.origins import Origins
from slangrad.opt.checks.null_checks import check_null
from slangrad.opt.checks.pointer_checks import check_pointers
from tests.ir.parse_text import parse_program

PROGRAM = """
struct "Buffer" {{ data: ptr<f32, global>, given: ptr<f32, global> }}
struct "Arguments" {{ b: struct "Buffer" }}
trusted struct "Buffer" (0)
arguments struct "Arguments"
func @kernel() -> () {{
  %place = parameter {{name="b"}} : ptr<struct "Buffer", constant>
  %b = load %place : struct "Buffer"
  %c = const true : bool
  %i = const 3 : i32
  %zero = const 0 : u64
  %one = const 1.0 : f32
  {body}
  yield
}}
"""
ELEMENT = """
  %e = if %c : ptr<f32, global> { %d = get %b {index=0}  %q = offset %d, %i  yield %q } { %n = zero : ptr<f32, global>  yield %n }
"""
THERE = "%number = bitcast %e : u64  %there = not_equal %number, %zero  "


def checks(body: str) -> tuple[int, int]:
    """How many checks there are outside of check mode, and in it."""
    program = parse_program(PROGRAM.format(body=body))
    kernel = program.functions["kernel"]
    made = check_null(program, kernel), check_pointers(program, kernel, False)
    assert not any("trusted" in op.attributes for op in walk(made[0].region))
    return tuple(sum(op.name == "in_bounds" for op in walk(each.region)) for each in made)


@pytest.mark.parametrize(
    "mark, found", [("{trusted=true}", (0, 0)), ("", (1, 1))], ids=["library", "program"]
)
def test_a_pointer_of_the_library(mark, found):
    assert checks(f"%d = get %b {{index=0}}  %q = offset %d, %i  store %q, %one {mark}") == found


@pytest.mark.parametrize("mark", ["{trusted=true}", ""], ids=["library", "program"])
def test_a_pointer_of_the_program(mark):
    assert checks(f"%d = get %b {{index=1}}  %q = offset %d, %i  store %q, %one {mark}") == (1, 1)


def test_the_address_of_an_element():
    """Whoever asks whether it is there may follow it; only check mode looks where the program follows it to."""
    followed = "if %there {{ store %e, %one {} yield }} {{ yield }}"
    assert checks(ELEMENT + THERE + followed.format("{trusted=true}")) == (0, 0)
    assert checks(ELEMENT + THERE + followed.format("")) == (0, 1)
    assert checks(ELEMENT + "store %e, %one") == (1, 1)


def test_what_is_chosen_from_pointers_of_the_program_is_no_element():
    chosen = ELEMENT.replace("%d = get %b {index=0}", "%d = get %b {index=1}")
    assert checks(chosen + THERE + "if %there { store %e, %one {trusted=true} yield } { yield }") == (1, 1)
    either = ELEMENT.replace("%n = zero : ptr<f32, global>", "%n = get %b {index=1}")
    program = parse_program(PROGRAM.format(body=either))
    kernel = program.functions["kernel"]
    (choice,) = (op for op in walk(kernel.region) if op.name == "if")
    assert not Origins(program, kernel).is_trusted(choice.results[0])


def test_paths_to_a_pointer_are_not_counted():
    """There are 2^60 from the index to what it is made of."""
    index = "%place_of_i = bitcast %place : ptr<i32, constant>  %i0 = load %place_of_i : i32  "
    index += "".join(f"%i{n + 1} = mul %i{n}, %i{n}  " for n in range(60))
    pointers = "%d = get %b {index=1}  %ps = bitcast %d : ptr<ptr<f32, global>, global>  "
    followed = "%at = offset %ps, %i60  %p = load %at : ptr<f32, global>  store %p, %one"
    assert checks(index + pointers + followed) == (2, 2)
