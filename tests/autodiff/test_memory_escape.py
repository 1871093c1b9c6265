"""Derivatives that would be lost in variables in memory are refused (E0505)."""

import pytest

from slangrad.autodiff.analyses.activity import Activity, Callee
from slangrad.autodiff.analyses.memory_escape import refuse_memory_escape
from slangrad.base.diagnostics import CompileError
from slangrad.ir.building.vectorspace import VectorSpace
from tests.autodiff.calculus import parse

VARIABLES = "%a = variable : ptr<f64, local>  %b = variable : ptr<f64, local>"
CHOICE = "%c = less %x, %y  %p = select %c, %a, %b"

# fmt: off
LOST = {  # and the variable that the error names
    "stored and loaded":           (f"{VARIABLES} store %a, %x  %r = load %a : f64  yield %r",           "'a'"),
    "through a chosen pointer":    (f"{VARIABLES} {CHOICE} store %p, %x  %r = load %a : f64  yield %r",
                                    "the variable that this pointer leads to"),
    "loaded from another one":     (f"{VARIABLES} store %b, %x  %r = load %a : f64  yield %r",           "'b'"),
    "in a branch":                 (f"{VARIABLES} %c = less %x, %y  if %c {{ store %a, %x yield }} {{ yield }} "
                                    "%r = load %a : f64  yield %r",                                      "'a'"),
    "through a number":            (f"{VARIABLES} %n = bitcast %a : i64  %p = bitcast %n : ptr<f64, local> "
                                    "store %p, %x  %r = load %p : f64  yield %r",
                                    "the variable that this pointer leads to"),
}
KEPT = {
    "no variable":               "%r = mul %x, %y  yield %r",
    "a passive value is stored": f"{VARIABLES} %d = detach %x  store %a, %d  %r = load %a : f64  %s = mul %r, %x  yield %s",
    "a loaded value is unused":  f"{VARIABLES} store %a, %x  %r = load %a : f64  yield %y",
    "a result that is passive":  f"{VARIABLES} store %a, %x  %r = load %a : f64  %d = detach %r  yield %d",
    "stored elsewhere":          f"{VARIABLES} store %g, %x  %r = load %a : f64  %s = mul %r, %y  yield %s",
}
# fmt: on


def no_calls(name: str) -> Callee:
    raise AssertionError(name)


def analyze(body: str) -> None:
    program = parse(f"func @f(%x: f64, %y: f64, %g: ptr<f64, global>) -> (f64) {{ {body} }}")
    region = program.functions["f"].region
    activity = Activity(VectorSpace(program.differentials), no_calls)
    activity.analyze(region, region.parameters[:2], region.yields)
    refuse_memory_escape(region, activity)


@pytest.mark.parametrize("body, name", LOST.values(), ids=LOST)
def test_lost_derivatives_are_refused(body: str, name: str) -> None:
    with pytest.raises(CompileError) as caught:
        analyze(body)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E0505" and diagnostic.message.startswith(f"{name} is in memory")


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_other_memory_is_accepted(body: str) -> None:
    analyze(body)
