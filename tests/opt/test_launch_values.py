"""Values that are the same for all threads of a launch, or of a chunk: copied to code that runs before; all others not."""

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.ops.core import Function, walk
from slangrad.opt.analyses.launch_values import ChunkValues, LaunchValues
from tests.ir.parse_text import parse_function

HEAD = """
func @f() -> () {
  %at = parameter {name="n"} : ptr<u32, constant>
  %n = load %at : u32
  %table = parameter {name="g"} : ptr<ptr<u32, global>, constant>
  %g = load %table : ptr<u32, global>
  %i = thread_id {axis=0} : u32
  %j = thread_id {axis=1} : u32
  %two = const 2 : u32
"""

# fmt: off
VALUES = {
    #                        body                                                              of a launch, of a chunk
    "a parameter":           ("%r = add %n, %two",                                             True,  True),
    "from memory":           ("%r = load %g : u32",                                            True,  False),
    "an element":            ("%p = offset %g, %n  %r = load %p : u32",                        True,  False),
    "the thread":            ("%r = add %i, %two",                                             False, False),
    "the row of the thread": ("%r = mul %j, %two",                                             False, True),
    "the lane":              ("%r = wave_lane : u32",                                          False, False),
    "an atomic":             ('%r = atomic %g, %n {kind="add"} : u32',                         False, False),
    "of a loop":             ("%r = for %n, %two : u32 (%k: u32, %a: u32) { yield %a }",       False, False),
    "an element of each":    ("%p = offset %g, %i  %r = load %p : u32",                        False, False),
    "in local memory":       ("%m = alloc : ptr<u32, local>  store %m, %n  %r = load %m : u32", False, False),
}
# fmt: on


def parsed(body: str) -> Function:
    return parse_function(f"{HEAD}{body} yield }}")


@pytest.mark.parametrize("body, in_launch, in_chunk", VALUES.values(), ids=VALUES)
def test_values(body: str, in_launch: bool, in_chunk: bool) -> None:
    function = parsed(body)
    (value,) = (r for op in walk(function.region) for r in op.results if r.hint == "r")
    copies = [kind(function, Builder()).of(value) for kind in (LaunchValues, ChunkValues)]
    assert [copy is not None for copy in copies] == [in_launch, in_chunk]


def test_a_load_is_guarded_and_remembered_once() -> None:
    function = parsed("%r = load %g : u32  %s = load %g : u32")
    launch = LaunchValues(function, Builder())
    first, second = (launch.of(r) for op in walk(function.region) for r in op.results if r.hint in "rs")
    assert first is not None and first is second
    assert list(launch.loads.values()) == [first]
    assert [op.name for op in launch.plan.ops][-2:] == ["not_equal", "if"]
