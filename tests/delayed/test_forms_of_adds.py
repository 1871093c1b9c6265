"""Adds that wait, as IR before and after: in functions that stay, in tables of a group, and by a wave."""

from collections import Counter

import pytest

from slangrad.ir.building.builder import Builder
from slangrad.ir.data import types as t
from slangrad.ir.ops.core import Function, Program, Region, walk
from slangrad.opt.delayed.delayed_adds import delay_adds
from slangrad.opt.delayed.group_tables import GroupTable, end_tables
from slangrad.opt.delayed.thread_bodies import LateAdds, ThreadBody
from tests.ir.golden import assert_becomes, numbered
from tests.ir.outcomes import outcome
from tests.ir.parse_text import parse_function, parse_program

# The fields of a table as parameters of a function.
TABLE = (
    "%start: ptr<f32, {space}>, %base: i64, %count: u32, %length: u32, %first: u32, %rows: u32, "
    "%is_used: bool, %may_wait: bool"
)
PROGRAM = """
struct "Arguments" { x: ptr<f32, global>, g: ptr<f32, global> }
arguments struct "Arguments"
func @add(%g: ptr<f32, global>, %k: i32, %v: f32) -> () {
  %p = offset %g, %k
  %o = atomic %p, %v {kind="add"} : f32
  yield
}
func @kernel() -> () {
  %t = thread_id {axis=0} : u32
  %x_at = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %xs = load %x_at : ptr<f32, global>
  %g_at = parameter {name="g"} : ptr<ptr<f32, global>, constant>
  %g = load %g_at : ptr<f32, global>
  %p = offset %xs, %t
  %x = load %p : f32
  %four = const 4 : i32
  %two = const 2 : i32
  call @add %g, %two, %x
  call @add %g, %four, %x
  yield
}"""


def test_a_function_gets_the_block_and_its_first_address() -> None:
    """Both calls share one version. The block has the elements 2 to 4."""
    program = parse_program(PROGRAM)
    delayed = delay_adds(program.functions["kernel"], [program.functions["add"]])
    assert delayed is not None
    (version,) = delayed.functions
    wanted = """
    func @add.delayed.0(%g: ptr<f32, global>, %k: i32, %v: f32, %block: ptr<f32, local>, %base: i64) -> () {
      %p = offset %g, %k
      %address = bitcast %p : i64
      %bytes = sub %address, %base
      %two = const 2 : i64
      %index = shr %bytes, %two
      %place = offset %block, %index
      %o = atomic %place, %v {kind="add", alone=true} : f32
      %unused = const 0.0 : f32
      yield
    }"""
    assert numbered(version) == numbered(parse_function(wanted))
    ops = {op.name: op.attributes for op in delayed.kernel.region.ops}
    assert ops["accumulators"] == {"block": 0, "count": 3} and ops["planned"] == {"index": 2}
    calls = [op for op in delayed.kernel.region.ops if op.name == "call"]
    assert len(calls) == 2 and calls[0].operands[3:] == calls[1].operands[3:]


def test_an_add_of_a_wave_is_made_by_its_first_lane() -> None:
    head = "func @f(%g: ptr<f32, global>, %x: f32) -> () {"
    before = f'{head} %o = atomic %g, %x {{kind="add", uniform=true}} : f32  yield }}'
    after = f"""{head}
      %zero = const 0 : u32
      %nothing = const 0.0 : f32
      %has = not_equal %x, %nothing
      %having = wave_ballot %has : u32
      %some = not_equal %having, %zero
      if %some {{
        %total = wave_reduce %x {{kind="add"}}
        %true = const true : bool
        %lanes = wave_ballot %true : u32
        %one = const 1 : u32
        %lane = wave_lane : u32
        %bit = shl %one, %lane
        %below = sub %bit, %one
        %before = and %lanes, %below
        %is_first = equal %before, %zero
        if %is_first {{ %o = atomic %g, %total {{kind="add"}} : f32  yield }} {{ yield }}
        yield
      }} {{ yield }}
      yield
    }}"""
    assert_becomes(ThreadBody((), {}, (), ()).function, before, after)


def test_other_adds_and_ops_stay() -> None:
    text = """func @f(%g: ptr<f32, global>, %x: f32) -> (f32) {
      %o = atomic %g, %x {kind="add"} : f32
      %s = sin %o
      yield %s
    }"""
    assert_becomes(ThreadBody((), {}, (), ()).function, text, text, [([1.0], 0.5)])


def table_of(function: Function, parameters: int) -> GroupTable:
    """The last parameters of a function as a table of floats."""
    return GroupTable(t.F32, t.F32, *function.region.parameters[parameters:])


def test_an_add_goes_to_the_row_of_its_thread() -> None:
    head = f"func @f(%g: ptr<f32, global>, %x: f32, {TABLE.format(space='shared')}) -> () {{"
    before = f'{head} %o = atomic %g, %x {{kind="add", table=0}} : f32  yield }}'
    after = f"""{head}
      if %is_used {{
        %address = bitcast %g : i64
        %bytes = sub %address, %base
        %two = const 2 : i64
        %distance = shr %bytes, %two
        %index = convert %distance : u32
        %in_row = add %index, %first
        %place = offset %start, %in_row
        %o = atomic %place, %x {{kind="add"}} : f32
        yield
      }} {{ %o = atomic %g, %x {{kind="add"}} : f32  yield }}
      %unused = const 0.0 : f32
      yield
    }}"""
    assert_becomes(lambda f: ThreadBody((), {}, (), [table_of(f, 2)]).function(f), before, after)


@pytest.mark.parametrize("rows, count", [(1, 3), (2, 3), (3, 1), (2, 0)])
def test_rows_are_added_to_memory(rows: int, count: int) -> None:
    """A group of one thread. Zero sums leave memory as it is, bit for bit."""
    head = f"func @f(%g: ptr<f32, global>, {TABLE.format(space='global')}) -> () {{ yield }}"
    function, length = parse_function(head), count | 1
    memory, start, _, *sizes = function.region.parameters
    b = Builder()
    table = GroupTable(t.F32, t.F32, start, b.emit("bitcast", memory, type=t.I64), *sizes)
    end_tables(b, [table], b.constant(t.U32, 0), 1, lambda inner, first, end, step: end)
    ops = [op for op in b.ops if op.name != "barrier"]
    ended = function.on(Region(function.region.parameters, ops, ()))
    sums = [float(i % length + 1) if i % length < count - 1 else 0.0 for i in range(rows * length)]
    inputs = [[-0.0] * length, sums, 0, count, length, 0, rows, True, True]
    result, *_ = outcome(Program({"f": ended}), "f", inputs).memory
    wanted = [rows * (i + 1.0) if i < count - 1 else -0.0 for i in range(length)]
    assert str(result) == str(wanted)


@pytest.mark.parametrize("adds, exchanges", [(1, 0), (2, 5), (9, 12), (32, 31), (33, 31)])
def test_adds_of_one_region_share_their_exchanges(adds: int, exchanges: int) -> None:
    """Of two and more sums at a time; a lane more than the wave has begins anew, with a sum of its own."""
    lines = "\n".join(
        f"%i{k} = const {k} : i32  %p{k} = offset %g, %i{k}  "
        f'%o{k} = atomic %p{k}, %x {{kind="add", uniform=true, table=0}} : f32'
        for k in range(adds)
    )
    text = f"func @f(%g: ptr<f32, global>, %x: f32, {TABLE.format(space='shared')}) -> () {{ {lines} yield }}"
    function = parse_function(text)
    late = LateAdds((), {}, (), [table_of(function, 2)]).function(function)
    names = Counter(op.name for op in walk(late.region))
    assert names["wave_read"] == exchanges
    assert not [op for op in late.region.ops if op.name == "atomic"]
    assert names["wave_reduce"] == adds  # each by itself, where some lanes are off


def test_numbers_of_the_thread_and_of_the_plan_are_values() -> None:
    head = "func @f(%x: i64, %base: i64) -> (i64) {"
    before = f"""{head}
      %id = thread_id {{axis=0}} : u32
      %at = planned {{index=1}} : i64
      %s = add %id, %at
      yield %s
    }}"""
    after = f"{head} %s = add %x, %base  yield %s }}"

    def change(function: Function) -> Function:
        x, base = function.region.parameters
        return ThreadBody((x, x, x), {}, (x, base), ()).function(function)

    assert_becomes(change, before.replace(": u32", ": i64"), after)
