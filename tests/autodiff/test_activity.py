"""Active values of IR: they depend on an input that has a derivative, and a result that has one depends on them."""

import pytest

from slangrad.autodiff.analyses.activity import Activity, Callee
from slangrad.ir.building.vectorspace import VectorSpace
from slangrad.ir.ops.core import Region, Value
from tests.autodiff.calculus import parse

# A function, its active values, and its live ops.
CASES = {
    "a chain": ("%a = sin %x %b = mul %a, %y yield %b", "x a b y", "sin mul"),
    "a value that no result uses": ("%a = sin %x %b = cos %x yield %a", "x a", "sin"),
    "a constant factor": ("%two = const 2 : f64 %a = sin %two %b = mul %a, %x yield %b", "x b", "mul"),
    "through an integer": (
        "%a = convert %x : i32 %b = convert %a : f64 %c = mul %b, %y yield %c",
        "y c",
        "mul",
    ),
    "detached": ("%a = detach %x %b = mul %a, %y yield %b", "y b", "mul"),
    "one side of a branch": (
        """%c = less %x, %y
        %r = if %c : f64 { %a = sin %x yield %a } { %b = const 1 : f64 yield %b }
        yield %r""",
        "x a r",
        "if sin",
    ),
    "carried around a loop": (
        """%zero = const 0 : f64
        %r, %s = for %n, %x, %zero : f64, f64 (%i: i32, %p: f64, %q: f64) { %a = sin %q yield %y, %p }
        yield %s""",
        "x y p q r s",
        "for",
    ),
    "carried in vain": (
        """%r, %s = for %n, %x, %y : f64, f64 (%i: i32, %p: f64, %q: f64) { %a = sin %p yield %a, %q }
        yield %s""",
        "y q s",
        "for",
    ),
}


def names(region: Region) -> list[Value]:
    inner = [value for op in region.ops for part in op.regions for value in names(part)]
    return [*region.parameters, *(result for op in region.ops for result in op.results), *inner]


def no_calls(name: str) -> Callee:
    raise AssertionError(name)


@pytest.mark.parametrize("case", CASES)
def test_active_values_and_live_ops(case: str) -> None:
    body, active, live = CASES[case]
    program = parse(f"func @f(%x: f64, %y: f64, %n: i32) -> (f64) {{ {body} }}")
    region = program.functions["f"].region
    activity = Activity(VectorSpace(program.differentials), no_calls)
    activity.analyze(region, region.parameters[:2], region.yields)
    assert {value.hint for value in names(region) if activity.active(value)} == set(active.split())
    ops = [op for part in [region, *(r for op in region.ops for r in op.regions)] for op in part.ops]
    assert {op.name for op in ops if activity.live(op)} == set(live.split())
