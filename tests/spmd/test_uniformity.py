"""How values differ from lane to lane, and what makes them differ; that it is so is looked up lane by lane."""

from __future__ import annotations

from itertools import pairwise

import pytest

from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.ops.core import Program, Value, walk
from slangrad.ir.oracle.interpret import Recorded, evaluate
from slangrad.spmd.analyses.shapes import THREAD, UNIFORM, VARYING, LaneShape, join, strided
from slangrad.spmd.analyses.uniformity import Shapes
from tests.ir.parse_text import parse_function

LANES = 8
HEAD = """
func @f(%n: u32, %g: ptr<u32, global>) -> () {
  %i = thread_id {axis=0} : u32
  %j = thread_id {axis=1} : u32
  %four = const 4 : u32
"""
UNKNOWN = strided(None)  # a step that only the launch knows
ONE = strided(1)

# fmt: off
SHAPES = {
    #                           body                                                                   the shape of %r
    "the thread":              ("%r = bitcast %i : i32",                                                THREAD),
    "the thread along y":      ("%r = add %j, %four",                                                   UNIFORM),
    "times a constant":        ("%r = mul %i, %four",                                                   strided(4, 0)),
    "plus a constant":         ("%r = add %i, %four",                                                   strided(1, 4)),
    "plus a uniform number":   ("%r = add %i, %n",                                                      ONE),
    "backwards":               ("%r = sub %n, %i",                                                      strided(-1)),
    "its own opposite":        ("%r = sub %i, %i",                                                      strided(0, 0)),
    "times a uniform number":  ("%r = mul %i, %n",                                                      UNKNOWN),
    "times itself":            ("%r = mul %i, %i",                                                      VARYING),
    "shifted":                 ("%r = shl %i, %four",                                                   strided(16, 0)),
    "shifted by the thread":   ("%r = shl %four, %i",                                                   VARYING),
    "a remainder":             ("%r = rem %i, %four",                                                   VARYING),
    "compared":                ("%r = less %i, %n",                                                     VARYING),
    "a float":                 ("%r = convert %i : f32",                                                VARYING),
    "64 bits, cannot wrap":    ("%r = convert %i : u64",                                                THREAD),
    "64 bits, may wrap":       ("%a = add %i, %n  %r = convert %a : u64",                               strided(1, None, True)),
    "an element":              ("%r = offset %g, %i",                                                   strided(4)),
    "an element, may wrap":    ("%a = add %i, %n  %r = offset %g, %a",                                  strided(4, None, True)),
    "loaded from one place":   ("%r = load %g : u32",                                                   UNIFORM),
    "loaded from many":        ("%p = offset %g, %i  %r = load %p : u32",                               VARYING),
    "chosen by all":           ("%c = less %j, %n  %a = add %i, %n  %r = select %c, %i, %a",            ONE),
    "chosen by each":          ("%c = less %i, %n  %r = select %c, %n, %four",                          VARYING),
    "an arm for all":          ("%c = less %j, %n  %r = if %c : u32 { yield %i } { yield %n }",         VARYING),
    "arms that give the same": ("%c = less %i, %n  %r = if %c : u32 { yield %j } { yield %j }",         UNIFORM),
    "an arm for each":         ("%c = less %i, %n  %r = if %c : u32 { yield %j } { yield %n }",         VARYING),
    "carried by a loop":       ("%r = for %n, %i : u32 (%k: u32, %a: u32) { %b = add %a, %four  yield %b }",   ONE),
    "lanes leave one by one":  ("%r = for %i, %n : u32 (%k: u32, %a: u32) { %b = add %a, %four  yield %b }",   VARYING),
    "inside, those that are on agree": ("%s = for %i, %n : u32 (%k: u32, %r: u32) { %b = add %r, %four  yield %b }", UNIFORM),
    "not in the reverse":      ("%s = for %i, %n {reverse=true} : u32 (%k: u32, %r: u32) { %b = add %r, %four  yield %b }", VARYING),
    "steps of the thread":     ("%r = for %n, %n : u32 (%k: u32, %a: u32) { %b = add %a, %i  yield %b }",      VARYING),
    "two that are swapped":    ("%r, %s = for %n, %i, %n : u32, u32 (%k: u32, %a: u32, %b: u32) { yield %b, %a }", VARYING),
    "local memory of all":     ("%m = alloc : ptr<u32, local>  store %m, %n  %r = load %m : u32",       UNIFORM),
    "local memory of each":    ("%m = alloc : ptr<u32, local>  store %m, %i  %r = load %m : u32",       VARYING),
    "written where not all are": (
        "%m = alloc : ptr<u32, local>  store %m, %n  %c = less %i, %n  if %c { store %m, %four yield } { yield }  %r = load %m : u32",
                                                                                                        VARYING),
    "written by a loop that not all do": (
        "%m = alloc : ptr<u32, local>  store %m, %n  for %i (%k: u32) { store %m, %four yield }  %r = load %m : u32",
                                                                                                        VARYING),
    "a tape, one place for all": ("%t = tape_new : ptr<u32, tape>  %r = tape_copy %t",                  UNIFORM),
    "what is in a tape":       ("%t = tape_new : ptr<u32, tape>  tape_store %t, %j, %n  %r = tape_load %t, %j",  VARYING),
    "what an atomic gives":    ('%r = atomic %g, %n {kind="add"} : u32',                                VARYING),
    "the number of the lane":  ("%r = wave_lane : u32",                                                 ONE),
}
# fmt: on


def shape_of(body: str) -> tuple[LaneShape, Shapes, Value]:
    kernel = parse_function(f"{HEAD}{body}  yield }}")
    shapes = Shapes(kernel, LANES, (UNIFORM, UNIFORM))
    regions = [region for op in walk(kernel.region) for region in op.regions]
    values = [r for op in walk(kernel.region) for r in op.results] + [
        p for r in regions for p in r.parameters
    ]
    (value,) = (v for v in values if v.hint == "r")
    return shapes.of(value), shapes, value


@pytest.mark.parametrize("body, wanted", SHAPES.values(), ids=SHAPES)
def test_shapes(body: str, wanted: LaneShape) -> None:
    assert shape_of(body)[0] == wanted


NUMBERS = [name for name, (body, _) in SHAPES.items() if " %r = " in f" {body}" and "%g" not in body]
NUMBERS = [n for n in NUMBERS if not {"wave_lane", "tape_copy", "tape_new"} & set(SHAPES[n][0].split())]


@pytest.mark.parametrize("name", NUMBERS)
def test_lanes_differ_as_said(name: str) -> None:
    """Each thread of a wave in the oracle: the number that it prints moves by the stride."""
    body, shape = SHAPES[name]
    kernel = parse_function(f'{HEAD}{body}  print %r {{format="{{}}"}}  yield }}')
    printed = []
    for thread in range(2 * LANES, 3 * LANES):
        place = lambda walk, b, op, x=thread: (
            b.constant(op.results[0].type, 0 if op.attributes["axis"] else x),
        )
        one, reports = Rebuild({"thread_id": place}).function(kernel), Recorded()
        evaluate(Program({"f": one}), "f", (20, 0), reports=reports)
        printed += [number for _, (number,) in reports.prints]
    steps = {(y - x) % 2**32 for x, y in pairwise(printed)}
    if shape.is_uniform:
        assert steps == {0}
    elif shape.is_strided and not shape.guarded:
        assert steps == {shape.stride % 2**32} if shape.stride is not None else len(steps) == 1
        assert shape.affine is None or printed[0] == shape.stride * 2 * LANES + shape.affine


def test_a_choice_has_no_guard_and_no_number() -> None:
    guarded = strided(4, None, True)
    assert join(strided(4, 1), strided(4, 2)) == strided(4)
    assert join(strided(4), strided(8)) == join(guarded, guarded) == join(UNKNOWN, UNKNOWN) == VARYING
    assert join(UNIFORM, UNIFORM) == UNIFORM
    assert join(UNIFORM, strided(1)) == VARYING
