"""The plan of a launch whose adds are delayed, its reduction, and the sums of a chunk: run with numbers of a launch."""

from __future__ import annotations

import pytest

from slangrad.ir.building.rebuild import Rebuild
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Program
from slangrad.ir.oracle.interpret import evaluate
from slangrad.opt.delayed.chunk_sums import chunk_sums
from slangrad.opt.delayed.delayed_adds import DelayedAdds, delay_adds
from slangrad.opt.delayed.delayed_sums import ALIGNMENT, Accumulators
from tests.ir.golden import assert_becomes, numbered
from tests.ir.outcomes import Memory
from tests.ir.parse_text import parse_function, parse_program

HEAD = """
struct "Arguments" { x: ptr<f32, global>, g: ptr<f32, global> }
arguments struct "Arguments"
func @kernel() -> () {
  %t = thread_id {axis=0} : u32
  %x_at = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %xs = load %x_at : ptr<f32, global>
  %g_at = parameter {name="g"} : ptr<ptr<f32, global>, constant>
  %g = load %g_at : ptr<f32, global>
  %four = const 4 : i32
  %p = offset %xs, %t
  %x = load %p : f32
"""
ADD = '%o = atomic %g, %x {kind="add"} : f32  '
LENGTH = 16
LAUNCH = {"nx": 8, "ny": 1, "nz": 1, "chunks": 4, "batch": 2}

# fmt: off
WAITS = {  # where %g lies 8 elements behind %xs
    "one element":               (ADD,                                                                          True),
    "two elements":              (ADD + '%q = offset %g, %four  %u = atomic %q, %x {kind="add"} : f32',         True),
    "another element is read":   (ADD + "%q = offset %g, %four  %y = load %q : f32",                            True),
    "the element is read":       (ADD + "%y = load %g : f32",                                                   False),
    "the element is written":    (ADD + "store %g, %x",                                                         False),
    "what it adds is beside it": (ADD + "%q = offset %p, %four  %y = load %q : f32",                            False),
}
NEVER = {
    "what an add gives is used": ADD + "store %p, %o",
    "at an address from memory": '%at = bitcast %p : ptr<ptr<f32, global>, global>  %q = load %at : ptr<f32, global>  '
                                 '%o = atomic %q, %x {kind="add"} : f32',
    "whole numbers":             '%h = bitcast %g : ptr<i32, global>  %o = atomic %h, %four {kind="add"} : i32',
}
# fmt: on


def delayed(body: str) -> DelayedAdds | None:
    return delay_adds(parse_program(f"{HEAD}{body} yield }}").functions["kernel"])


class Launch:
    """Memory of 16 numbers, of which the arguments are the first and the ninth."""

    def __init__(self) -> None:
        self.memory = Memory(t.F32, LENGTH, [1.0] * LENGTH)
        self.sums = Memory(t.F32, 2 * ALIGNMENT // 4, [0.0] * (2 * ALIGNMENT // 4))
        fields = (("x", t.pointer(t.F32)), ("g", t.pointer(t.F32)))
        start = self.memory.address
        self.type = t.struct("Arguments", fields)
        self.arguments = Memory(self.type, 1, [(start, start + 32)])

    def evaluate(self, function: Function) -> tuple:
        fields = LAUNCH | {"partials": self.sums.address, "partial_size": ALIGNMENT}
        rule = lambda walk, b, op: (b.constant(t.I64, fields[op.attributes["field"]]),)
        ready = Rebuild({"launch": rule}).function(function)
        program = Program({ready.name: ready}, arguments=self.type)
        return evaluate(program, ready.name, (), self.arguments.address)


@pytest.mark.parametrize("body, waits", WAITS.values(), ids=WAITS)
def test_plan(body: str, waits: bool) -> None:
    made, launch = delayed(body), Launch()
    assert made is not None
    size, batch, base, *_ = launch.evaluate(made.plan)
    assert (size > 0) == waits and size in (-1, ALIGNMENT)
    assert (batch, base) == (1, launch.memory.address + 32)


@pytest.mark.parametrize("body", NEVER.values(), ids=NEVER)
def test_adds_that_never_wait(body: str) -> None:
    assert delayed(body) is None


def test_reduction_adds_the_sums_of_all_batches() -> None:
    """Four chunks in batches of two: the sums of two batches."""
    made, launch = delayed(ADD), Launch()
    assert made is not None
    launch.sums = Memory(t.F32, 32, [2.0] + [50.0] * 15 + [4.0] + [50.0] * 15)
    launch.evaluate(made.reduce)
    assert launch.memory.values() == [1.0] * 8 + [7.0] + [1.0] * 7


@pytest.mark.parametrize("lanes", [1, 4])
def test_sums_of_a_chunk(lanes: int) -> None:
    alone = "%place = offset %start, %e  %total = load %place : f32"
    several = """
      %lanes = const 4 : i64
      %row = mul %e, %lanes
      %place = offset %start, %row
      %each = load %place : lanes<f32>
      %total = lane_reduce %each {kind="add"} : f32"""
    after = f"""
    func @sums() -> () {{
      %start = accumulators {{block=0, count=3}} : ptr<f32, local>
      %chunk = launch {{field="chunk"}} : i64
      %size = launch {{field="batch"}} : i64
      %batch = div %chunk, %size
      %partials = launch {{field="partials"}} : i64
      %bytes = launch {{field="partial_size"}} : i64
      %before = mul %batch, %bytes
      %mine = add %partials, %before
      %offset = const 64 : i64
      %block = add %mine, %offset
      %sums = bitcast %block : ptr<f32, global>
      %count = const 3 : i64
      for %count (%e: i64) {{ {"%unused = const 1 : i64 " + alone if lanes == 1 else several}
        %sum = offset %sums, %e
        %old = load %sum : f32
        %new = add %old, %total
        store %sum, %new
        yield
      }}
      yield
    }}"""
    assert_becomes(
        lambda f: chunk_sums([Accumulators(0, 3, t.F32, 64)], lanes), "func @f() -> () { yield }", after
    )


FUNCTION = """
func @f(%g: ptr<f32, global>, %v: f32) -> () {
  %two = const 2 : i32
  %p = offset %g, %two
  %o = atomic %p, %v {kind="add"} : f32
  yield
}
"""
OF_THE_KERNEL = HEAD.partition("func @kernel")[2]


def test_adds_of_the_kernel_go_to_its_block() -> None:
    made = delayed("%q = offset %g, %four  " + ADD.replace("%g", "%q"))
    assert made is not None and not made.functions
    after = f"""func @kernel{OF_THE_KERNEL}
      %q = offset %g, %four
      %index = const 0 : i64
      %place = offset %block, %index
      %sum = atomic %place, %x {{kind="add", alone=true}} : f32
      %unused = const 0.0 : f32
      yield
    }}"""
    begin = "func @kernel() -> () {\n  %block = accumulators {block=0, count=1} : ptr<f32, local>"
    assert numbered(made.kernel) == numbered(parse_function(after.replace("func @kernel() -> () {", begin)))


def test_adds_of_a_function_go_to_the_block_of_its_caller() -> None:
    """Two calls add to the elements 2 and 6, so five sums begin at element 2. Both calls share a version."""
    program = parse_program(
        f"{FUNCTION}{HEAD} call @f %g, %x  %q = offset %g, %four  call @f %q, %x  yield }}"
    )
    made = delay_adds(program.functions["kernel"], [program.functions["f"]])
    assert made is not None
    (function,) = made.functions
    kernel = f"""func @kernel{OF_THE_KERNEL}
      %index = const 0 : i64
      %place = offset %block, %index
      %base = planned {{index=2}} : i64
      call @f.delayed.0 %g, %x, %place, %base
      %q = offset %g, %four
      call @f.delayed.0 %q, %x, %place, %base
      yield
    }}"""
    begin = "func @kernel() -> () {\n  %block = accumulators {block=0, count=5} : ptr<f32, local>"
    assert numbered(made.kernel) == numbered(parse_function(kernel.replace("func @kernel() -> () {", begin)))
    assert numbered(function) == numbered(
        parse_function("""
        func @f.delayed.0(%g: ptr<f32, global>, %v: f32, %block: ptr<f32, local>, %base: i64) -> () {
          %two = const 2 : i32
          %p = offset %g, %two
          %at = bitcast %p : i64
          %bytes = sub %at, %base
          %shift = const 2 : i64
          %element = shr %bytes, %shift
          %place = offset %block, %element
          %sum = atomic %place, %v {kind="add", alone=true} : f32
          %unused = const 0.0 : f32
          yield
        }""")
    )
