"""What regions use from outside, and where values are made."""

from slangrad.ir.building.rebuild import FreeValues, Nesting
from slangrad.ir.ops.core import Value, walk
from tests.ir.parse_text import parse_function

NESTED = parse_function("""
    func @f(%c: bool, %x: f32, %n: i32) -> (f32) {
      %y = neg %x
      %r = if %c : f32 {
        %s = for %n, %y : f32 (%i: i32, %a: f32) {
          %b = mul %a, %x
          yield %b
        }
        yield %s
      } {
        yield %x
      }
      yield %r
    }""")


def values() -> dict[str, Value]:
    made = {op.results[0].hint: op.results[0] for op in walk(NESTED.region)}
    return made | {p.hint: p for p in NESTED.region.parameters}


def test_free_values_are_told_in_order_of_first_use():
    of, free = values(), FreeValues()
    branch = next(op for op in NESTED.region.ops if op.name == "if")
    (loop,) = branch.regions[0].ops
    assert free.of(*loop.regions) == [of["x"]]
    assert free.of(*branch.regions) == [of["n"], of["y"], of["x"]]
    assert free.of(branch.regions[1]) == [of["x"]]
    assert free.of(NESTED.region) == []


def test_values_are_inside_of_the_regions_around_them():
    of, nesting = values(), Nesting(NESTED.region)
    branch = next(op for op in NESTED.region.ops if op.name == "if")
    (loop,) = branch.regions[0].ops
    assert nesting.inside(of["b"], *branch.regions) and nesting.inside(of["b"], *loop.regions)
    assert nesting.inside(loop.regions[0].parameters[1], loop.regions[0])
    assert nesting.inside(of["s"], branch.regions[0]) and not nesting.inside(of["s"], *loop.regions)
    assert not nesting.inside(of["s"], branch.regions[1]) and not nesting.inside(of["r"], *branch.regions)
    assert nesting.inside(of["x"], NESTED.region) and not nesting.inside(of["y"], *branch.regions)
